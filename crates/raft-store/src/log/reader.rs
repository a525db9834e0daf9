//! Reading the log, for replication and for apply.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use openraft::storage::RaftLogReader;

use super::disk::Disk;
use super::memory::{Memory, Plan};
use super::stats::Counters;
use crate::error::Fault;
use crate::runner::{Runner, blocking};
use crate::types::{Entry, TypeConfig, Vote};

/// Encoded bytes that one round of replication, or one step of a long read, carries at most (a single larger
/// entry excepted).
pub const READ_BYTES: usize = 1 << 20;

/// Reads entries and the vote. Cheap to clone; every reader sees an append as soon as it has returned.
#[derive(Clone)]
pub struct LogReader {
    pub(super) memory: Arc<Mutex<Memory>>,
    pub(super) disk: Disk,
    pub(super) counters: Arc<Counters>,
    pub(super) runner: Arc<dyn Runner>,
}

impl LogReader {
    /// What the log has of the range, in order, from its first present entry on: cut at `max_bytes`, but not
    /// empty when there is any.
    async fn read(&self, range: Range<u64>, max_bytes: usize) -> Result<Vec<Entry>, Fault> {
        let plan = lock(&self.memory).plan(range.clone(), max_bytes);
        if plan.cold.is_empty() {
            return Ok(plan.warm);
        }
        self.counters.read_cold();
        let reader = self.clone();
        blocking(&*self.runner, move || reader.read_cold(range, max_bytes)).await
    }

    /// Reads from the disk what the tail does not have. The tail and a view of the disk are taken at the same
    /// moment, so that no truncation or purge comes between them.
    fn read_cold(&self, range: Range<u64>, max_bytes: usize) -> Result<Vec<Entry>, Fault> {
        let memory = lock(&self.memory);
        let Plan { cold, warm } = memory.plan(range, max_bytes);
        let mut scan = self.disk.scan(cold.clone());
        drop(memory);
        let mut entries = Vec::new();
        let mut read = 0;
        for index in cold {
            let Some((entry, bytes)) = scan.next()? else {
                return Err(Fault::Damaged(format!("log entry {index} is missing")));
            };
            if entry.log_id.index != index {
                return Err(Fault::Damaged(format!("log entry {index} is missing")));
            }
            read += bytes;
            if read > max_bytes && !entries.is_empty() {
                return Ok(entries);
            }
            entries.push(entry);
        }
        if max_bytes == usize::MAX || entries.is_empty() {
            entries.extend(warm);
        }
        Ok(entries)
    }
}

pub(super) fn lock(memory: &Mutex<Memory>) -> std::sync::MutexGuard<'_, Memory> {
    // Nothing that holds the lock can panic half way through a change.
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

fn half_open(range: &impl RangeBounds<u64>) -> Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(end) => end.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    start..end
}

impl RaftLogReader<TypeConfig> for LogReader {
    async fn try_get_log_entries<RB>(&mut self, range: RB) -> Result<Vec<Entry>, io::Error>
    where
        RB: RangeBounds<u64> + Clone + Debug + Send,
    {
        Ok(self.read(half_open(&range), usize::MAX).await?)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, io::Error> {
        let entries = self.read(start..end, READ_BYTES).await?;
        // When the start was purged in the meantime, a later part would leave a hole at the follower. An
        // empty answer makes the caller look again, and find that the follower needs a snapshot.
        let whole = entries.first().is_some_and(|entry| entry.log_id.index == start);
        Ok(if whole { entries } else { Vec::new() })
    }

    /// In steps, so that applying a long range holds only a step of it in memory.
    async fn entries_stream<RB>(&mut self, range: RB) -> impl Stream<Item = Result<Entry, io::Error>> + Send
    where
        RB: RangeBounds<u64> + Clone + Debug + Send,
    {
        let reader = self.clone();
        let steps = stream::try_unfold(half_open(&range), move |rest| {
            let reader = reader.clone();
            async move {
                let entries = reader.read(rest.clone(), READ_BYTES).await?;
                let Some(last) = entries.last() else {
                    return Ok::<_, io::Error>(None);
                };
                let (first, next) = (entries[0].log_id.index, last.log_id.index + 1..rest.end);
                if first > rest.start {
                    // What is applied next must not be skipped.
                    let problem = format!("log entry {} is missing before entry {first}", rest.start);
                    return Err(Fault::Damaged(problem).into());
                }
                Ok(Some((stream::iter(entries.into_iter().map(Ok)), next)))
            }
        });
        steps.try_flatten().boxed()
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(lock(&self.memory).vote())
    }
}
