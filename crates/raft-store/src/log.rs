//! The Raft log and the vote in a database of their own, synced by one writer.
//!
//! * [`LogStore`] takes writes: it puts them into memory and in line, and returns; only votes and
//!   truncations wait for the disk.
//! * [`LogWriter`] drains the line into one synced batch at a time and reports each write when it is on disk.
//! * [`LogReader`] reads, from the tail in `memory` and only for old entries from `disk`.
//! * [`crate::guard`] tells at the next start whether everything that had been synced is still there.
//!
//! A fault of the disk stops the log for good: the write that met it and all later ones fail, and
//! [`LogMonitor::fault`] reports it, so that the node ends and lets its peers go on without it.

mod disk;
mod key;
mod memory;
mod queue;
mod reader;
mod stats;
mod writer;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use openraft::storage::RaftLogStorage;
use tokio::sync::{oneshot, watch};

use self::disk::{Disk, encode_entry};
use self::memory::Memory;
pub use self::queue::Work;
use self::queue::{Item, Queue};
pub use self::reader::{LogReader, READ_BYTES};
use self::stats::Counters;
pub use self::stats::LogStats;
pub use self::writer::{LogWriter, Written};
use crate::engine::Engine;
use crate::environment::Environment;
use crate::error::Fault;
use crate::files::sync_dir;
use crate::guard::{Claim, Guard};
use crate::runner::Runner;
use crate::stored::StoredVote;
use crate::types::{Entry, Flushed, LogId, LogState, TypeConfig, Vote};

/// Bytes in memory of the newest entries, which stay there unless told otherwise. Followers that are less
/// than this behind, and apply, never read the log from disk. A replica that takes many
/// submissions keeps all of it, and is to stay small with a hundred thousand tasks.
pub const TAIL_BYTES: usize = 16 << 20;

const DATABASE: &str = "db";
const GUARD: &str = "guard";

/// The log of one node. There is one for each directory.
pub struct LogStore {
    memory: Arc<Mutex<Memory>>,
    queue: Arc<Queue>,
    disk: Disk,
    monitor: LogMonitor,
    writer: Option<JoinHandle<()>>,
    runner: Arc<dyn Runner>,
}

/// Watches the log from outside. It does not keep the database open.
#[derive(Debug, Clone)]
pub struct LogMonitor {
    counters: Arc<Counters>,
    fault: watch::Receiver<Option<Arc<str>>>,
}

impl LogMonitor {
    /// The counters now.
    pub fn stats(&self) -> LogStats {
        self.counters.snapshot()
    }

    /// Becomes `Some` once the log has failed; the node must end then.
    pub fn fault(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.fault.clone()
    }
}

impl LogStore {
    /// Opens the log in a directory, or creates it when the directory is empty. The directory must exist.
    ///
    /// Every entry is read and checked once, so this takes time in proportion to the log; call it where
    /// blocking is allowed.
    ///
    /// # Errors
    /// The disk failed, something is damaged, or the log has lost what it had synced
    /// ([`Fault::BelowGuard`], [`Fault::NoGuard`]).
    pub fn open(dir: &Path, tail_bytes: usize, environment: &Environment) -> Result<LogStore, Fault> {
        let Environment { engine, runner, clock, .. } = environment;
        let guard = open_guard(dir, &**engine)?;
        let disk = Disk::open(&dir.join(DATABASE), &**engine)?;
        sync_dir(dir)?;
        let vote = disk.vote()?;
        let mut memory = Memory::new(vote.map(Vote::from), disk.purged()?, tail_bytes);
        disk.load(&mut memory)?;
        check_guard(dir, guard.claim(), vote, memory.state().last_log_id)?;
        disk.confirm()?;

        let counters = Arc::new(Counters::default());
        let (entries, bytes) = memory.tail_size();
        counters.tail(entries, bytes);
        let (fault, monitored) = watch::channel(None);
        let monitor = LogMonitor { counters: counters.clone(), fault: monitored };
        let queue = Arc::new(Queue::new(guard.claim().committed.map(LogId::from)));
        let memory = Arc::new(Mutex::new(memory));
        let writer = LogWriter {
            queue: queue.clone(),
            memory: memory.clone(),
            disk: disk.clone(),
            guard,
            guard_synced: clock.monotonic(),
            clock: clock.clone(),
            counters,
            fault,
        };
        let writer = runner.write_log(writer).map_err(Fault::io("start the writer of", dir))?;
        Ok(LogStore { memory, queue, disk, monitor, writer, runner: runner.clone() })
    }

    /// Whether there is a log in a directory.
    ///
    /// # Errors
    /// It cannot be told.
    pub fn exists(dir: &Path, engine: &dyn Engine) -> Result<bool, Fault> {
        let path = dir.join(DATABASE);
        engine.exists(&path).map_err(Fault::database("look for", &path))
    }

    /// A handle to watch the log by, which outlives it.
    pub fn monitor(&self) -> LogMonitor {
        self.monitor.clone()
    }

    /// Where the log begins and ends.
    pub fn state(&self) -> LogState {
        reader::lock(&self.memory).state()
    }

    /// A handle to read the log by.
    pub fn reader(&self) -> LogReader {
        LogReader {
            memory: self.memory.clone(),
            disk: self.disk.clone(),
            counters: self.monitor.counters.clone(),
            runner: self.runner.clone(),
        }
    }

    fn check_running(&self) -> Result<(), Fault> {
        self.queue.stopped().map_or(Ok(()), |reason| Err(Fault::Stopped(reason)))
    }

    /// Puts a write in line and waits until it is on disk.
    async fn written(&self, item: impl FnOnce(queue::Done) -> Item) -> Result<(), Fault> {
        let (done, written) = oneshot::channel();
        self.queue.push(item(done))?;
        written.await.unwrap_or_else(|_| Err(Fault::Stopped("a write was dropped".into())))
    }

    fn append_entries(&self, entries: Vec<Entry>, flushed: Flushed) -> Result<(), Fault> {
        self.check_running()?;
        let mut rows = Vec::with_capacity(entries.len());
        let mut sized = Vec::with_capacity(entries.len());
        let mut bytes = 0;
        for entry in entries {
            let row = encode_entry(&entry)?;
            bytes += row.len();
            sized.push((entry, row.len()));
            rows.push((sized[sized.len() - 1].0.log_id.index, row));
        }
        let (ticket, start) = reader::lock(&self.memory).append(sized)?;
        self.monitor.counters.appended(rows.len(), bytes);
        self.queue.push(Item::Append { ticket, start, rows, flushed })
    }
}

impl Drop for LogStore {
    /// Writes out what is in line and ends the writer. Readers may still read.
    fn drop(&mut self) {
        self.queue.close();
        if self.writer.take().is_some_and(|writer| writer.join().is_err()) {
            tracing::error!("the log's writer thread panicked");
        }
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = LogReader;

    async fn get_log_state(&mut self) -> Result<LogState, io::Error> {
        Ok(self.state())
    }

    async fn get_log_reader(&mut self) -> LogReader {
        self.reader()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        let vote = *vote;
        self.written(|done| Item::Vote { vote, done }).await?;
        reader::lock(&self.memory).set_vote(vote);
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        self.queue.set_committed(committed);
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        Ok(self.queue.committed())
    }

    async fn append<I>(&mut self, entries: I, callback: Flushed) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + Send,
        I::IntoIter: Send,
    {
        Ok(self.append_entries(entries.into_iter().collect(), callback)?)
    }

    /// Synced before it returns. The state database may flush an entry that replaced the truncated ones; were
    /// the truncation lost with power, the node would find the older entries in its log again.
    async fn truncate_after(&mut self, last_log_id: Option<LogId>) -> Result<(), io::Error> {
        self.check_running()?;
        let drop = reader::lock(&self.memory).truncate_after(last_log_id)?;
        if drop.is_empty() {
            return Ok(());
        }
        Ok(self.written(|done| Item::Truncate { drop, done }).await?)
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), io::Error> {
        self.check_running()?;
        let Some(drop) = reader::lock(&self.memory).purge(log_id) else {
            return Ok(());
        };
        Ok(self.queue.push(Item::Purge { drop, upto: log_id })?)
    }
}

/// Opens the guard, or creates it when there is no log either: the guard comes first, so that a log without
/// one has always lost it.
fn open_guard(dir: &Path, engine: &dyn Engine) -> Result<Guard, Fault> {
    let path = dir.join(GUARD);
    let has_database = LogStore::exists(dir, engine)?;
    match Guard::open(&path)? {
        Some(guard) if has_database => Ok(guard),
        Some(guard) => {
            check_guard(dir, guard.claim(), None, None)?;
            Ok(guard)
        }
        None if has_database => Err(Fault::NoGuard { path, state: "missing" }),
        None => Guard::create(&path),
    }
}

/// Refuses a log that is behind what it had synced.
fn check_guard(dir: &Path, claim: Claim, vote: Option<StoredVote>, last: Option<LogId>) -> Result<(), Fault> {
    let rank = |vote: Option<StoredVote>| vote.map(|vote| (vote.term, vote.node, vote.committed));
    let below = |what, found: String, guarded: String| {
        Err(Fault::BelowGuard { path: dir.to_path_buf(), what, found, guarded })
    };
    if rank(vote) < rank(claim.vote) {
        return below("the vote", format!("{vote:?}"), format!("{:?}", claim.vote));
    }
    let last_index = last.map(|id| id.index);
    if last_index < claim.last_index {
        return below("the log's last entry", format!("{last_index:?}"), format!("{:?}", claim.last_index));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
