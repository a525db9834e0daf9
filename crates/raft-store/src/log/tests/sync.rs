//! No write is reported before a sync that covers it, and a failed sync is the end.

use std::sync::mpsc;

use super::key::LogKey;
use super::*;
use crate::engine::rocks::{self, Rocks};
use crate::engine::{
    Change, Cursor, Database, Durability, Engine, EngineError, Purpose, Snapshot, WriteBatch,
};

/// An engine whose one database stops before each write until the test lets it go on.
struct Gates(Mutex<Option<(mpsc::Sender<Vec<u64>>, Verdicts)>>);

type Verdicts = mpsc::Receiver<Result<(), EngineError>>;

impl Engine for Gates {
    fn exists(&self, dir: &Path) -> Result<bool, EngineError> {
        Rocks.exists(dir)
    }

    fn open(&self, dir: &Path, purpose: Purpose) -> Result<Arc<dyn Database>, EngineError> {
        let db = Rocks.open(dir, purpose)?;
        let (arrived, verdict) = self.0.lock().unwrap().take().unwrap();
        Ok(Arc::new(Gate { db, arrived, verdict: Mutex::new(verdict) }))
    }

    fn is_immutable(&self, file: &str) -> bool {
        Rocks.is_immutable(file)
    }
}

struct Gate {
    db: Arc<dyn Database>,
    arrived: mpsc::Sender<Vec<u64>>,
    verdict: Mutex<Verdicts>,
}

impl Gate {
    /// What the test lets happen at the gate.
    fn hear(&self) -> Result<(), EngineError> {
        self.verdict.lock().unwrap().recv().unwrap_or_else(|_| Err(EngineError::new("the test is over")))
    }
}

impl Database for Gate {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        self.db.get(key)
    }

    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<(), EngineError> {
        assert_eq!(durability, Durability::Synced);
        drop(self.arrived.send(batch.changes().iter().filter_map(entry_written).collect()));
        self.hear()?;
        self.db.write(batch, durability)
    }

    fn scan<'a>(&'a self, from: &[u8], to: &[u8]) -> Box<dyn Cursor + 'a> {
        self.db.scan(from, to)
    }

    fn snapshot(self: Arc<Self>) -> Box<dyn Snapshot> {
        Arc::clone(&self.db).snapshot()
    }

    fn checkpoint(&self, dir: &Path) -> Result<(), EngineError> {
        self.db.checkpoint(dir)
    }

    fn reclaim(&self, from: &[u8], to: &[u8]) -> Result<(), EngineError> {
        drop(self.arrived.send(LogKey::entry_index(to).into_iter().collect()));
        self.hear()?;
        self.db.reclaim(from, to)
    }
}

/// The entry that a change writes.
fn entry_written(change: &Change<'_>) -> Option<u64> {
    match change {
        Change::Put { key, .. } => LogKey::entry_index(key),
        _ => None,
    }
}

/// The test's side of a [`Gate`].
struct Warden {
    arrived: mpsc::Receiver<Vec<u64>>,
    verdict: mpsc::Sender<Result<(), EngineError>>,
}

impl Warden {
    /// Waits until a write stands before the gate.
    fn wait(&self) -> Vec<u64> {
        self.arrived.recv_timeout(std::time::Duration::from_secs(30)).unwrap()
    }

    fn pass(&self) {
        self.verdict.send(Ok(())).unwrap();
    }

    fn refuse(&self) {
        self.verdict.send(Err(EngineError::new("the disk is gone"))).unwrap();
    }

    fn nobody_waits(&self) -> bool {
        self.arrived.try_recv().is_err()
    }
}

fn gated(dir: &Path) -> (LogStore, Warden) {
    let (arrive, arrived) = mpsc::channel();
    let (verdict, heard) = mpsc::channel();
    let engine = Arc::new(Gates(Mutex::new(Some((arrive, heard)))));
    let log = LogStore::open(dir, TAIL_BYTES, &Environment { engine, ..environment() }).unwrap();
    (log, Warden { arrived, verdict })
}

fn guard(dir: &Path) -> Claim {
    Guard::open(&dir.join(GUARD)).unwrap().unwrap().claim()
}

#[tokio::test]
async fn no_append_is_reported_before_a_sync_that_covers_it() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, warden) = gated(dir.path());
    let mut first = submit(&mut log, [entry(1, 0)]).await;
    assert_eq!(warden.wait(), vec![0]);
    // These come while the first sync is under way; they share the next one.
    let mut second = submit(&mut log, [entry(1, 1), entry(1, 2)]).await;
    let mut third = submit(&mut log, [entry(1, 3)]).await;
    assert!(first.try_recv().is_err());
    warden.pass();
    (&mut first).await.unwrap().unwrap();
    assert_eq!(warden.wait(), vec![1, 2, 3], "one sync for all that waited");
    assert!(second.try_recv().is_err(), "not covered by the first sync");
    assert!(third.try_recv().is_err(), "not covered by the first sync");
    warden.pass();
    second.await.unwrap().unwrap();
    third.await.unwrap().unwrap();
    assert_eq!(log.monitor().stats().syncs, 2);
}

#[tokio::test]
async fn an_entry_is_readable_when_append_returns() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, warden) = gated(dir.path());
    let mut before = log.reader();
    let mut flushed = submit(&mut log, [entry(1, 0), entry(1, 1)]).await;
    let mut after = log.reader();
    for reader in [&mut before, &mut after] {
        assert_eq!(reader.try_get_log_entries(0..9).await.unwrap(), [entry(1, 0), entry(1, 1)]);
        assert_eq!(reader.limited_get_log_entries(1, 2).await.unwrap(), [entry(1, 1)]);
    }
    assert!(flushed.try_recv().is_err(), "read before it was synced");
    warden.pass();
    flushed.await.unwrap().unwrap();
}

#[tokio::test]
async fn votes_and_truncations_wait_for_their_sync() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, warden) = gated(dir.path());
    warden.pass();
    append(&mut log, (0..4).map(|index| entry(1, index))).await;
    warden.wait();

    let mut reader = log.reader();
    let vote = Vote::new(2, 1);
    {
        let mut saving = std::pin::pin!(log.save_vote(&vote));
        assert!(futures_util::poll!(&mut saving).is_pending());
        warden.wait();
        assert!(futures_util::poll!(&mut saving).is_pending(), "on its way to the disk");
        assert_eq!(reader.read_vote().await.unwrap(), None);
        warden.pass();
        saving.await.unwrap();
    }
    assert_eq!(reader.read_vote().await.unwrap(), Some(vote));
    assert_eq!(guard(dir.path()).vote, Some(StoredVote::from(&vote)), "claimed as soon as it is given");
    assert_eq!(guard(dir.path()).last_index, Some(3));
    {
        let mut truncating = std::pin::pin!(log.truncate_after(Some(id(1, 1))));
        assert!(futures_util::poll!(&mut truncating).is_pending());
        warden.wait();
        assert_eq!(guard(dir.path()).last_index, Some(1), "not claimed any more before it is given up");
        assert!(futures_util::poll!(&mut truncating).is_pending(), "on its way to the disk");
        warden.pass();
        truncating.await.unwrap();
    }
    assert_eq!(all(&log).await.len(), 2);
}

#[tokio::test]
async fn committed_is_recorded_never_ahead_of_the_entries_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, warden) = gated(dir.path());
    let first = submit(&mut log, [entry(1, 0)]).await;
    warden.wait();
    // Entry 1 is submitted and committed by others while this disk still writes entry 0.
    let second = submit(&mut log, [entry(1, 1)]).await;
    log.save_committed(Some(id(1, 1))).await.unwrap();
    warden.pass();
    first.await.unwrap().unwrap();
    warden.wait();
    assert_eq!((guard(dir.path()).last_index, guard(dir.path()).committed), (Some(0), None));
    warden.pass();
    second.await.unwrap().unwrap();
    assert_eq!(
        (guard(dir.path()).last_index, guard(dir.path()).committed.map(|id| id.index)),
        (Some(1), Some(1))
    );
}

#[tokio::test]
async fn a_failed_sync_fails_everything_after_it_and_is_not_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, warden) = gated(dir.path());
    warden.pass();
    append(&mut log, [entry(1, 0)]).await;
    warden.wait();

    let failing = submit(&mut log, [entry(1, 1)]).await;
    warden.wait();
    let waiting = submit(&mut log, [entry(1, 2)]).await;
    let mut fault = log.monitor().fault();
    assert_eq!(*fault.borrow(), None);
    warden.refuse();
    let error = failing.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("the disk is gone"), "{error}");
    waiting.await.unwrap().unwrap_err();
    fault.wait_for(Option::is_some).await.unwrap();

    for error in [
        log.append([entry(1, 3)], Flushed::noop()).await.unwrap_err(),
        log.save_vote(&Vote::new(9, 1)).await.unwrap_err(),
        log.truncate_after(None).await.unwrap_err(),
        log.purge(id(1, 0)).await.unwrap_err(),
    ] {
        assert!(error.to_string().contains("the disk is gone"), "{error}");
    }
    assert!(warden.nobody_waits(), "nothing is written after a failed sync");
    drop(log);
    let log = open(dir.path());
    assert_eq!(all(&log).await, [entry(1, 0)]);
    assert_eq!(log.reader().read_vote().await.unwrap(), None);
}

#[tokio::test]
async fn the_guard_is_synced_within_a_second_of_a_write() {
    let dir = tempfile::tempdir().unwrap();
    let time = Arc::new(ManualClock::default());
    let mut log = LogStore::open(dir.path(), TAIL_BYTES, &environment_at(time.clone())).unwrap();
    append(&mut log, [entry(1, 0)]).await;
    log.save_committed(Some(id(1, 0))).await.unwrap();
    time.advance_ms(1000);
    append(&mut log, [entry(1, 1)]).await;
    let claim = guard(dir.path());
    assert_eq!((claim.last_index, claim.committed.map(|id| id.index)), (Some(1), Some(0)));
}

#[tokio::test]
async fn a_purge_can_stop_at_each_of_its_steps() {
    for (passed, first) in [(0, 0), (1, 6), (2, 6)] {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, warden) = gated(dir.path());
        warden.pass();
        append(&mut log, (0..10).map(|index| entry(1, index))).await;
        assert_eq!(warden.wait().len(), 10);
        log.purge(id(1, 5)).await.unwrap();
        assert!(warden.wait().is_empty(), "the purge is synced first");
        if passed > 0 {
            warden.pass();
            assert_eq!(warden.wait(), vec![5], "then its files go");
        }
        if passed > 1 {
            warden.pass();
            append_passed(&mut log, &warden, entry(1, 10)).await;
        } else {
            warden.refuse();
        }
        drop(log);
        let log = open(dir.path());
        let expected: Vec<Entry> = (first..10 + u64::from(passed > 1)).map(|index| entry(1, index)).collect();
        assert_eq!(all(&log).await, expected, "after {passed} steps");
    }
}

async fn append_passed(log: &mut LogStore, warden: &Warden, entry: Entry) {
    let flushed = submit(log, [entry]).await;
    warden.wait();
    warden.pass();
    flushed.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_purge_gives_disk_space_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = open(dir.path());
    for start in (0..500).step_by(100) {
        append(&mut log, (start..start + 100).map(|index| entry(1, index))).await;
        rocks::inner(log.disk.database()).flush().unwrap();
    }
    // Only tables below level 0 are given back as files; compaction moves them there in good time.
    rocks::inner(log.disk.database()).compact_range(None::<&[u8]>, None::<&[u8]>);
    let tables = |log: &LogStore| rocks::inner(log.disk.database()).live_files().unwrap().len();
    let before = tables(&log);
    assert!(before >= 2, "{before} tables hold the log");
    log.purge(id(1, 498)).await.unwrap();
    append(&mut log, [entry(1, 500)]).await;
    // The files go after everybody has been told, and before the next write.
    append(&mut log, [entry(1, 501)]).await;
    assert!(tables(&log) < before);
    assert_eq!(log.disk.scan(0..499).next().unwrap(), None, "no purged row is left in a table or in memory");
    assert_eq!(all(&log).await, [entry(1, 499), entry(1, 500), entry(1, 501)]);
}

#[tokio::test]
async fn what_a_start_finds_is_synced_before_anybody_is_answered_by_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = open(dir.path());
    log.save_vote(&Vote::new(3, 1)).await.unwrap();
    drop(log);
    let (arrived, writes) = mpsc::channel();
    let (verdicts, verdict) = mpsc::channel();
    verdicts.send(Err(EngineError::new("the disk is gone"))).unwrap();
    let engine = Arc::new(Gates(Mutex::new(Some((arrived, verdict)))));
    let opened = LogStore::open(dir.path(), TAIL_BYTES, &Environment { engine, ..environment() });
    assert!(opened.is_err(), "an unsynced vote counts");
    assert_eq!(writes.try_iter().count(), 1);
}
