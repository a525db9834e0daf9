//! Which attempts a mock executor holds, which are over, and which may join. The rules of "Running" in
//! docs/executor-protocol.md, as plain data.

use std::collections::{BTreeMap, VecDeque};

use orloj_wire::protocol::{AttemptRef, CancelReason, Dispatch, Held, HeldState};

use crate::NS_PER_MS;
use crate::behaviour::Work;

/// One shard of one task.
pub(super) type Shard = (String, u16);
/// One grant.
pub(super) type Key = (Shard, u64);

/// Over attempts that are remembered one by one; below the oldest of them nothing is taken any more.
const REMEMBERED: usize = 65_536;

pub(super) fn key(attempt: &AttemptRef) -> Key {
    ((attempt.task_id.clone(), attempt.shard_index), attempt.fence)
}

/// Where a held attempt stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Standing {
    /// Waits for a slot.
    Queued,
    /// In a slot.
    Running(Run),
    /// Over; the report is not acknowledged.
    Reporting,
}

/// An attempt in a slot.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Run {
    /// Since then, in ns.
    pub since_ns: u64,
    /// The same by the wall clock.
    pub started_at: i64,
    /// Neither ends by itself nor minds its timeout.
    pub hung: bool,
    /// It was told to stop, and has stopped at that instant.
    pub stop: Option<(CancelReason, u64)>,
}

/// An attempt that is held.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub dispatch: Dispatch,
    pub work: Work,
    pub standing: Standing,
}

/// What became of an offered attempt.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Offer {
    /// It waits for a slot. An older grant of its shard that is still held has lost its lease by it.
    Accepted { older: Option<AttemptRef> },
    /// It is held, or was reported.
    Duplicate,
    /// It is not taken, for this reason.
    Refused(&'static str),
}

/// Held attempts and the memory of those that are over.
#[derive(Debug, Clone, Default)]
pub(super) struct Book {
    held: BTreeMap<Key, Entry>,
    queue: VecDeque<Key>,
    /// The newest grant of each shard that is over, and whether its report was acknowledged.
    over: BTreeMap<Shard, (u64, bool)>,
    order: VecDeque<Key>,
    floor: u64,
}

impl Book {
    /// Whether a grant is held, or over and acknowledged.
    fn knows(&self, key: &Key) -> bool {
        self.held.contains_key(key) || self.over.get(&key.0) == Some(&(key.1, true))
    }

    /// Whether a grant was refused or dropped, or is too old to tell.
    fn is_gone(&self, key: &Key) -> bool {
        let newest_held = self
            .held
            .range((key.0.clone(), 0)..=(key.0.clone(), u64::MAX))
            .any(|(held, entry)| held.1 > key.1 && entry.standing != Standing::Reporting);
        newest_held || key.1 <= self.floor || self.over.get(&key.0).is_some_and(|(fence, _)| *fence >= key.1)
    }

    /// Offers an attempt; `refuse` is why nothing new is taken, if so, and `places` how many may be queued or
    /// running at once.
    pub fn offer(&mut self, dispatch: &Dispatch, refuse: Option<&'static str>, places: usize) -> Offer {
        let key = key(&dispatch.attempt);
        if self.knows(&key) {
            return Offer::Duplicate;
        }
        if self.is_gone(&key) {
            return Offer::Refused("stale_fence");
        }
        let full = (self.active() >= places).then_some("queue_full");
        if let Some(reason) = refuse.or(full) {
            // A copy of this push that comes later must be refused as well.
            self.is_over(key, false);
            return Offer::Refused(reason);
        }
        let older = self.held.range((key.0.clone(), 0)..=key.clone()).rev();
        let mut older = older.filter(|(_, entry)| entry.standing != Standing::Reporting);
        let older = older.next().map(|(_, entry)| entry.dispatch.attempt.clone());
        self.queue.push_back(key.clone());
        let work = Work::of(&dispatch.params);
        self.held.insert(key, Entry { dispatch: dispatch.clone(), work, standing: Standing::Queued });
        Offer::Accepted { older }
    }

    /// The next attempt that may run: the first of the queue whose shard is in no slot.
    pub fn next(&mut self, slots: usize) -> Option<Key> {
        if self.running() >= slots {
            return None;
        }
        let busy = |shard: &Shard| self.runs().any(|(key, _, _)| key.0 == *shard);
        let at = self.queue.iter().position(|key| !busy(&key.0))?;
        self.queue.remove(at)
    }

    /// An attempt that was taken from the queue is in a slot.
    pub fn run(&mut self, key: &Key, run: Run) {
        if let Some(entry) = self.held.get_mut(key) {
            entry.standing = Standing::Running(run);
        }
    }

    /// An attempt that is held.
    pub fn entry(&self, key: &Key) -> Option<&Entry> {
        self.held.get(key)
    }

    /// Marks a running attempt to stop. A lost lease silences what was asked before it.
    pub fn stop_run(&mut self, key: &Key, reason: CancelReason, at_ns: u64) {
        if let Some(Entry { standing: Standing::Running(run), .. }) = self.held.get_mut(key) {
            match &mut run.stop {
                Some((before, _)) if reason == CancelReason::LeaseLost => *before = reason,
                Some(_) => {}
                none => *none = Some((reason, at_ns)),
            }
        }
    }

    /// Every hung attempt goes on.
    pub fn release_hung(&mut self) {
        for entry in self.held.values_mut() {
            if let Standing::Running(run) = &mut entry.standing {
                run.hung = false;
            }
        }
    }

    /// An attempt is over: it reports, or it is dropped without a word and refused from now on.
    pub fn end(&mut self, key: &Key, reports: bool) {
        self.queue.retain(|queued| queued != key);
        if !reports {
            self.held.remove(key);
            self.is_over(key.clone(), false);
        } else if let Some(entry) = self.held.get_mut(key) {
            entry.standing = Standing::Reporting;
        }
    }

    /// A report was acknowledged.
    pub fn acknowledged(&mut self, key: &Key) {
        if self.held.get(key).is_some_and(|entry| entry.standing == Standing::Reporting) {
            self.held.remove(key);
            self.is_over(key.clone(), true);
        }
    }

    /// Whoever was asked to stop what is not held refuses a push of it that is still on its way.
    pub fn give_up(&mut self, key: Key) {
        if !self.knows(&key) && !self.is_gone(&key) {
            self.is_over(key, false);
        }
    }

    fn is_over(&mut self, key: Key, acknowledged: bool) {
        let newest = self.over.entry(key.0.clone()).or_insert((key.1, acknowledged));
        if key.1 > newest.0 {
            *newest = (key.1, acknowledged);
        }
        self.order.push_back(key);
        while self.order.len() > REMEMBERED {
            let Some((shard, fence)) = self.order.pop_front() else { break };
            self.floor = self.floor.max(fence);
            if self.over.get(&shard).is_some_and(|(newest, _)| *newest == fence) {
                self.over.remove(&shard);
            }
        }
    }

    /// What is in slots.
    pub fn runs(&self) -> impl Iterator<Item = (&Key, &Entry, &Run)> {
        self.held.iter().filter_map(|(key, entry)| match &entry.standing {
            Standing::Running(run) => Some((key, entry, run)),
            Standing::Queued | Standing::Reporting => None,
        })
    }

    /// Attempts in slots.
    pub fn running(&self) -> usize {
        self.runs().count()
    }

    /// Attempts in the queue.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// The queue, first come first.
    pub fn queue(&self) -> Vec<Key> {
        self.queue.iter().cloned().collect()
    }

    /// Attempts in slots and queue.
    pub fn active(&self) -> usize {
        self.running() + self.queue.len()
    }

    /// What is held, by task; with `all`, also what only waits for its acknowledgement.
    pub fn holding(&self, now_ns: u64, all: bool) -> Vec<Held> {
        let wanted = |entry: &&Entry| all || entry.standing != Standing::Reporting;
        self.held.values().filter(wanted).map(|entry| held(entry, now_ns)).collect()
    }
}

fn held(entry: &Entry, now_ns: u64) -> Held {
    let (state, running_ms) = match &entry.standing {
        Standing::Queued => (HeldState::Queued, None),
        Standing::Running(run) => (HeldState::Running, Some(now_ns.saturating_sub(run.since_ns) / NS_PER_MS)),
        Standing::Reporting => (HeldState::Reporting, None),
    };
    Held { attempt: entry.dispatch.attempt.clone(), state, running_ms }
}
