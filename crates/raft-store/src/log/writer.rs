//! The log's writer: the one place that writes and syncs. In the product it is a thread of the operating system
//! ([`run`](LogWriter::run)); whoever has none lets it work step by step.
//!
//! While one sync is under way, the next writes gather in the queue; then all of them go to disk as one
//! batch with one sync. The sync itself is the window: no timer, and no write waits for a fuller batch.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use orloj_model::Clock;
use orloj_model::mutant::{Mutant, is_on};
use tokio::sync::watch;

use super::disk::{self, Disk};
use super::memory::Memory;
use super::queue::{Item, Queue, Work};
use super::stats::Counters;
use crate::error::Fault;
use crate::guard::{Claim, Guard};
use crate::stored::{StoredLogId, StoredVote};

/// How old an unsynced claim of the guard may become.
const GUARD_SYNC: Duration = Duration::from_secs(1);

/// Writes what waits in line, one batch and one sync at a time.
pub struct LogWriter {
    pub(super) queue: Arc<Queue>,
    pub(super) memory: Arc<Mutex<Memory>>,
    pub(super) disk: Disk,
    pub(super) guard: Guard,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) counters: Arc<Counters>,
    pub(super) fault: watch::Sender<Option<Arc<str>>>,
    /// When the guard was last looked after, on the monotonic clock.
    pub(super) guard_synced: Duration,
}

/// What has been written and not been told to anybody.
pub struct Written {
    items: Vec<Item>,
    committed: Option<StoredLogId>,
    closed: bool,
    result: Result<(), Fault>,
}

impl LogWriter {
    /// Runs until the log is closed or has failed.
    pub fn run(mut self) {
        loop {
            let work = self.queue.take(self.patience());
            let written = self.write(work);
            if !self.report(written) {
                return;
            }
        }
    }

    /// Waits for the next writes. With [`write`](LogWriter::write) and [`report`](LogWriter::report), in this
    /// order, until that answers `false`, a task does what [`run`](LogWriter::run) does in a thread.
    pub async fn next(&self) -> Work {
        self.queue.taken(self.patience()).await
    }

    /// Writes and syncs; waits for the disk.
    pub fn write(&mut self, work: Work) -> Written {
        let Work { items, committed, closed } = work;
        let committed = committed.as_ref().map(StoredLogId::from);
        let result = if items.is_empty() { Ok(()) } else { self.write_items(&items, committed) };
        Written { items, committed, closed, result }
    }

    /// Tells everybody who waits for what has been written, and then does what nobody waits for, which may take another
    /// sync. Answers whether there is more to do.
    pub fn report(&mut self, written: Written) -> bool {
        let Written { items, committed, closed, result } = written;
        let mut purged = Vec::new();
        match result {
            Ok(()) => purged.extend(items.iter().filter_map(Item::purged)),
            Err(_) if is_on(Mutant::FaultIgnored) => {}
            Err(fault) => {
                self.fail(items, &fault);
                return false;
            }
        }
        for item in items {
            item.complete(Ok(()));
        }
        let tidied = self.reclaim(&purged).and_then(|()| self.look_after_guard(committed, closed));
        if let Err(fault) = tidied
            && !is_on(Mutant::FaultIgnored)
        {
            self.fail(Vec::new(), &fault);
            return false;
        }
        !closed
    }

    /// How long the guard can wait: for ever once it says all there is to say.
    fn patience(&self) -> Option<Duration> {
        let claim = self.guard.claim();
        let behind = claim.committed.map(|id| id.index) < claim.last_index;
        let waits = self.guard.is_dirty() || behind;
        waits.then(|| GUARD_SYNC.saturating_sub(self.clock.monotonic().saturating_sub(self.guard_synced)))
    }

    /// Writes and syncs one batch, and lets the guard follow.
    fn write_items(&mut self, items: &[Item], committed: Option<StoredLogId>) -> Result<(), Fault> {
        let batch = disk::batch(items)?;
        let before = self.guard.claim();
        if let Some(lowered) = lowered(before, items) {
            self.guard.lower(lowered)?;
        }
        let started = self.clock.monotonic();
        self.disk.commit(&batch)?;
        self.counters.synced(self.clock.monotonic().saturating_sub(started));
        self.confirm(items);
        self.guard.raise(raised(before, items, committed))?;
        if items.iter().any(|item| matches!(item, Item::Vote { .. })) {
            self.guard.sync()?;
        }
        Ok(())
    }

    /// Gives back the space of what was purged up to these indexes.
    fn reclaim(&self, purged: &[u64]) -> Result<(), Fault> {
        purged.iter().try_for_each(|upto| self.disk.reclaim(*upto))
    }

    /// Lets the tail drop what the disk has now.
    fn confirm(&self, items: &[Item]) {
        let newest = items.iter().rev().find_map(|item| match item {
            Item::Append { ticket, .. } => Some(*ticket),
            _ => None,
        });
        if let Some(ticket) = newest {
            let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            memory.confirm(ticket);
            let (entries, bytes) = memory.tail_size();
            self.counters.tail(entries, bytes);
        }
    }

    /// About once a second, and at the end: records the committed position and syncs the claim.
    fn look_after_guard(&mut self, committed: Option<StoredLogId>, closed: bool) -> Result<(), Fault> {
        let now = self.clock.monotonic();
        if !closed && now.saturating_sub(self.guard_synced) < GUARD_SYNC {
            return Ok(());
        }
        self.guard_synced = now;
        self.guard.raise(Claim { committed, ..self.guard.claim() })?;
        if self.guard.is_dirty() {
            self.guard.sync()?;
        }
        Ok(())
    }

    /// A failed write or sync is never tried again: the kernel may have dropped the dirty pages and would
    /// report success. Everything that waits or still comes is refused.
    fn fail(&self, items: Vec<Item>, fault: &Fault) {
        let reason: Arc<str> = fault.to_string().into();
        tracing::error!(%reason, "the log has failed and takes no more writes");
        for item in items {
            item.complete(Err(reason.clone()));
        }
        self.queue.stop(reason.clone());
        self.fault.send_replace(Some(reason));
    }
}

impl Drop for LogWriter {
    /// However the writer ends, nobody waits for it for ever.
    fn drop(&mut self) {
        self.queue.stop("its writer has ended".into());
    }
}

/// The claim that must be in force before the batch is written, when that is less than the present one: what
/// a truncation gives up may not be claimed any more.
fn lowered(before: Claim, items: &[Item]) -> Option<Claim> {
    let truncations = items.iter().filter_map(|item| match item {
        // `None` for a truncation of the whole log; it sorts below every index.
        Item::Truncate { drop, .. } if !drop.is_empty() => Some(drop.start.checked_sub(1)),
        _ => None,
    });
    let lowest = truncations.min()?;
    (lowest < before.last_index).then_some(Claim { last_index: lowest, ..before })
}

/// The claim that holds once the batch is synced.
fn raised(before: Claim, items: &[Item], committed: Option<StoredLogId>) -> Claim {
    let mut claim = Claim { committed, ..before };
    for item in items {
        match item {
            Item::Append { rows, .. } => {
                claim.last_index = rows.last().map(|(index, _)| *index).or(claim.last_index);
            }
            Item::Vote { .. } if is_on(Mutant::VoteForgotten) => {}
            Item::Vote { vote, .. } => claim.vote = Some(StoredVote::from(vote)),
            Item::Truncate { drop, .. } if !drop.is_empty() => claim.last_index = drop.start.checked_sub(1),
            Item::Truncate { .. } => {}
            Item::Purge { upto, .. } => claim.last_index = claim.last_index.max(Some(upto.index)),
        }
    }
    claim
}

#[cfg(test)]
mod tests {
    use openraft::vote::RaftLeaderId;
    use tokio::sync::oneshot;

    use super::*;
    use crate::engine::rocks::Rocks;
    use crate::types::{Flushed, LeaderId, LogId, Vote};

    fn append(indexes: std::ops::Range<u64>) -> Item {
        let rows = indexes.map(|index| (index, Vec::new())).collect();
        Item::Append { ticket: 1, start: None, rows, flushed: Flushed::noop() }
    }

    fn truncate(drop: std::ops::Range<u64>) -> Item {
        Item::Truncate { drop, done: oneshot::channel().0 }
    }

    fn purge(upto: u64) -> Item {
        Item::Purge { drop: 0..upto + 1, upto: LogId { leader_id: LeaderId::new(1, 1), index: upto } }
    }

    fn at(last: u64) -> Claim {
        Claim { last_index: Some(last), ..Claim::default() }
    }

    #[test]
    fn the_guard_is_synced_with_a_vote_and_otherwise_once_a_second() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(orloj_model::time::ManualClock::default());
        let mut writer = LogWriter {
            queue: Arc::default(),
            memory: Arc::new(Mutex::new(Memory::new(None, None, 0))),
            disk: Disk::open(&dir.path().join("db"), &Rocks).unwrap(),
            guard: Guard::create(&dir.path().join("guard")).unwrap(),
            clock: clock.clone(),
            counters: Arc::default(),
            fault: watch::channel(None).0,
            guard_synced: Duration::ZERO,
        };
        let vote = Item::Vote { vote: Vote::new(3, 1), done: oneshot::channel().0 };
        writer.write_items(&[vote, append(0..3)], None).unwrap();
        assert!(!writer.guard.is_dirty(), "a vote is claimed durably before it is reported");

        writer.write_items(&[append(3..5)], None).unwrap();
        writer.look_after_guard(None, false).unwrap();
        assert!(writer.guard.is_dirty());
        assert_eq!(writer.patience(), Some(GUARD_SYNC));
        clock.advance_ms(1000);
        let committed = Some(StoredLogId { term: 3, node: 1, index: 4 });
        writer.look_after_guard(committed, false).unwrap();
        assert!(!writer.guard.is_dirty());
        assert_eq!((writer.guard.claim().last_index, writer.guard.claim().committed), (Some(4), committed));
        assert_eq!(writer.patience(), None, "all is said");
    }

    #[test]
    fn the_claim_follows_the_batch() {
        let last = |items: &[Item]| raised(at(9), items, None).last_index;
        assert_eq!(last(&[append(10..13)]), Some(12));
        assert_eq!(last(&[append(10..13), truncate(11..13), append(11..12)]), Some(11));
        assert_eq!(last(&[truncate(0..10)]), None);
        assert_eq!(last(&[purge(4)]), Some(9));
        assert_eq!(last(&[purge(40)]), Some(40));
        assert_eq!(last(&[append(0..0)]), Some(9));
        let vote = Item::Vote { vote: Vote::new(3, 1), done: oneshot::channel().0 };
        let claim = raised(at(9), &[vote], Some(StoredLogId { term: 1, node: 1, index: 8 }));
        assert_eq!(claim.vote, Some(StoredVote { term: 3, node: 1, committed: false }));
        assert_eq!(claim.committed.map(|id| id.index), Some(8));
    }

    #[test]
    fn a_truncation_lowers_the_claim_to_the_least_that_the_batch_keeps() {
        assert_eq!(lowered(at(9), &[append(10..13)]), None);
        assert_eq!(lowered(at(9), &[append(10..13), truncate(11..13)]), None, "keeps all that is claimed");
        assert_eq!(lowered(at(9), &[truncate(5..10), append(5..20)]), Some(at(4)));
        assert_eq!(lowered(at(9), &[truncate(5..10), append(5..9), truncate(3..9)]), Some(at(2)));
        assert_eq!(lowered(at(9), &[truncate(0..10)]), Some(Claim { last_index: None, ..at(9) }));
    }
}
