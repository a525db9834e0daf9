//! What must survive a restart: the highest round, the undelivered reports, the memory of outcomes.
//! Plain data; the journal is its list of changes on disk.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use orloj_wire::protocol::{AttemptRef, Dispatch, Report};
use orloj_wire::sign::{hex, sha256};
use serde::{Deserialize, Serialize};

/// One change, as it stands in the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Record {
    /// A round was seen.
    Round(u64),
    /// An attempt is over.
    Ended {
        /// What is to be reported, in place of what was to be reported of the attempt before.
        report: Box<Report>,
        /// Of a success that answers later attempts: the name of its work.
        memory: Option<String>,
    },
    /// Reports were acknowledged.
    Acknowledged(Vec<AttemptRef>),
}

/// The name of a piece of work in the memory of outcomes. Two callers never share one.
pub(crate) fn memory_key(dispatch: &Dispatch) -> String {
    let shard = [dispatch.attempt.shard_index.to_be_bytes(), dispatch.shard_total.to_be_bytes()].concat();
    let caller = dispatch.caller_id.as_bytes();
    let length = (caller.len() as u64).to_be_bytes();
    hex(&sha256(&[&length, caller, &shard, dispatch.dedupe_key.as_bytes()])[..16])
}

/// A success that answers later attempts of the same work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The attempt that ran.
    pub(crate) attempt: AttemptRef,
    /// What it returned.
    pub(crate) result: Option<String>,
    until: Duration,
    number: u64,
}

#[derive(Debug)]
struct Pending {
    segment: u64,
    report: Arc<Report>,
}

/// What may be kept in the memory of outcomes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryLimits {
    /// How long a success answers later attempts.
    pub(crate) window: Duration,
    /// Most bytes of all of them.
    pub(crate) bytes: u64,
}

/// The time on both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    /// Milliseconds since the Unix epoch.
    pub(crate) wall_ms: i64,
    /// The monotonic clock.
    pub(crate) monotonic: Duration,
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Ledger {
    limits: MemoryLimits,
    round: u64,
    next: u64,
    pending: BTreeMap<u64, Pending>,
    by_attempt: HashMap<AttemptRef, u64>,
    outcomes: HashMap<String, Outcome>,
    /// By age: number, segment, key, bytes. An entry whose number is not its outcome's was replaced.
    order: VecDeque<(u64, u64, String, u64)>,
    bytes: u64,
    forgotten_early: u64,
}

impl Ledger {
    /// An empty one.
    pub(crate) fn new(limits: MemoryLimits) -> Self {
        Ledger {
            limits,
            round: 0,
            next: 0,
            pending: BTreeMap::new(),
            by_attempt: HashMap::new(),
            outcomes: HashMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            forgotten_early: 0,
        }
    }

    /// Takes over a change that stands in the given segment of the journal.
    pub(crate) fn apply(&mut self, record: Record, segment: u64, now: Now) {
        match record {
            Record::Round(round) => self.round = self.round.max(round),
            Record::Acknowledged(attempts) => attempts.iter().for_each(|attempt| self.acknowledge(attempt)),
            Record::Ended { report, memory } => {
                if let Some(key) = memory {
                    self.remember(key, &report, segment, now);
                }
                self.next += 1;
                if let Some(before) = self.by_attempt.insert(report.attempt.clone(), self.next) {
                    self.pending.remove(&before);
                    // The leader would not hear of it; it is no success to answer others with.
                    self.outcomes.retain(|_, outcome| outcome.attempt != report.attempt);
                }
                self.pending.insert(self.next, Pending { segment, report: report.into() });
            }
        }
    }

    /// A report need not be sent any more.
    pub(crate) fn acknowledge(&mut self, attempt: &AttemptRef) {
        if let Some(number) = self.by_attempt.remove(attempt) {
            self.pending.remove(&number);
        }
    }

    fn remember(&mut self, key: String, report: &Report, segment: u64, now: Now) {
        // The wall clock alone survives a restart. One that was set back since the end counts as no time.
        let age = Duration::from_millis(u64::try_from(now.wall_ms - report.ended_at).unwrap_or(0));
        let left = self.limits.window.saturating_sub(age);
        if left.is_zero() {
            return;
        }
        self.next += 1;
        let size = 256 + report.result.as_ref().map_or(0, String::len) as u64;
        let outcome = Outcome {
            attempt: report.attempt.clone(),
            result: report.result.clone(),
            until: now.monotonic + left,
            number: self.next,
        };
        self.outcomes.insert(key.clone(), outcome);
        self.order.push_back((self.next, segment, key, size));
        self.bytes += size;
        self.forget(now);
    }

    /// Forgets outcomes whose window is over, and the oldest ones beyond the limit.
    pub(crate) fn forget(&mut self, now: Now) {
        while let Some((number, _, key, size)) = self.order.front() {
            let current = self.outcomes.get(key).filter(|outcome| outcome.number == *number);
            let early = match current {
                Some(outcome) if outcome.until > now.monotonic => {
                    if self.bytes <= self.limits.bytes {
                        break;
                    }
                    true
                }
                Some(_) | None => false,
            };
            self.forgotten_early += u64::from(early);
            self.bytes -= size;
            if current.is_some() {
                self.outcomes.remove(key);
            }
            self.order.pop_front();
        }
    }

    /// The success that answers this work, while its window lasts.
    pub(crate) fn remembered(&self, key: &str, now: Duration) -> Option<&Outcome> {
        self.outcomes.get(key).filter(|outcome| outcome.until > now)
    }

    /// The highest round in the journal.
    pub(crate) fn round(&self) -> u64 {
        self.round
    }

    /// How many reports wait for their acknowledgement.
    pub(crate) fn waiting(&self) -> usize {
        self.pending.len()
    }

    /// How many outcomes are remembered.
    pub(crate) fn outcomes(&self) -> usize {
        self.outcomes.len()
    }

    /// How many outcomes were forgotten before their window was over.
    pub(crate) fn forgotten_early(&self) -> u64 {
        self.forgotten_early
    }

    /// The first reports that wait, in order, at most so many and so many bytes; one at least where there is one.
    pub(crate) fn batch(&self, most: usize, bytes: usize) -> Vec<Arc<Report>> {
        let mut left = bytes;
        let mut batch = Vec::new();
        for pending in self.pending.values().take(most) {
            let size = size_on_wire(&pending.report);
            if size > left && !batch.is_empty() {
                break;
            }
            left = left.saturating_sub(size);
            batch.push(Arc::clone(&pending.report));
        }
        batch
    }

    /// Whether a report waits for its acknowledgement.
    pub(crate) fn waits(&self, attempt: &AttemptRef) -> bool {
        self.by_attempt.contains_key(attempt)
    }

    /// Every report that waits.
    pub(crate) fn reports(&self) -> impl Iterator<Item = &Report> {
        self.pending.values().map(|pending| &*pending.report)
    }

    /// The oldest segment that still holds something that counts.
    pub(crate) fn oldest_segment(&self) -> Option<u64> {
        let pending = self.pending.values().next().map(|pending| pending.segment);
        let outcome = self.order.front().map(|(_, segment, _, _)| *segment);
        pending.into_iter().chain(outcome).min()
    }
}

/// At most how many bytes a report takes as JSON.
fn size_on_wire(report: &Report) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' => 2,
        0..=0x1f => 6,
        _ => 1,
    };
    let text = |text: &Option<String>| text.as_ref().map_or(0, |text| text.bytes().map(escaped).sum());
    let tail = report.log_tail.as_ref().map_or(0, |tail| tail.len().div_ceil(3) * 4);
    512 + text(&report.message) + text(&report.result) + tail
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
