//! The log as a whole: what is promised about syncs, reads, faults, damage and reopening.

mod damage;
mod kill;
mod model;
mod sync;
mod task;

use bytes::Bytes;
use openraft::alias::OneshotReceiverOf;
use openraft::entry::RaftEntry;
use openraft::storage::RaftLogReader;
use openraft::type_config::TypeConfigExt;
use openraft::vote::RaftLeaderId;
use orloj_model::random::SeededRandom;
use orloj_model::time::ManualClock;

use super::*;
use crate::types::{EncodedBatch, LeaderId, Payload};

/// Reports a flush to a test.
type FlushReport = OneshotReceiverOf<TypeConfig, Result<(), io::Error>>;

fn id(term: u64, index: u64) -> LogId {
    LogId { leader_id: LeaderId::new(term, 1), index }
}

/// An entry whose content tells term and index.
fn entry(term: u64, index: u64) -> Entry {
    let content = format!("{term}:{index}:{}", "x".repeat((index % 7) as usize * 10));
    Entry::new(id(term, index), Payload::Normal(EncodedBatch(Bytes::from(content))))
}

fn open(dir: &Path) -> LogStore {
    LogStore::open(dir, TAIL_BYTES, &environment()).unwrap()
}

fn environment() -> Environment {
    environment_at(Arc::new(ManualClock::default()))
}

fn environment_at(clock: Arc<ManualClock>) -> Environment {
    Environment::new(clock, Arc::new(SeededRandom::default()))
}

/// Starts an append; the receiver hears of its flush.
async fn submit(log: &mut LogStore, entries: impl IntoIterator<Item = Entry>) -> FlushReport {
    let (sender, flushed) = TypeConfig::oneshot();
    let entries: Vec<Entry> = entries.into_iter().collect();
    log.append(entries, Flushed::signal(sender)).await.unwrap();
    flushed
}

/// Appends and waits until it is on disk.
async fn append(log: &mut LogStore, entries: impl IntoIterator<Item = Entry>) {
    submit(log, entries).await.await.unwrap().unwrap();
}

async fn all(log: &LogStore) -> Vec<Entry> {
    log.reader().try_get_log_entries(..).await.unwrap()
}

#[tokio::test]
async fn what_was_written_is_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = open(dir.path());
    assert_eq!(log.get_log_state().await.unwrap(), LogState::default());
    assert_eq!(log.reader().read_vote().await.unwrap(), None);
    log.save_vote(&Vote::new_committed(3, 1)).await.unwrap();
    append(&mut log, (0..10).map(|index| entry(3, index))).await;
    log.save_committed(Some(id(3, 7))).await.unwrap();
    log.truncate_after(Some(id(3, 8))).await.unwrap();
    log.purge(id(3, 2)).await.unwrap();
    drop(log);

    let mut log = open(dir.path());
    assert_eq!(log.reader().read_vote().await.unwrap(), Some(Vote::new_committed(3, 1)));
    assert_eq!(log.read_committed().await.unwrap(), Some(id(3, 7)));
    let state = log.get_log_state().await.unwrap();
    assert_eq!((state.last_purged_log_id, state.last_log_id), (Some(id(3, 2)), Some(id(3, 8))));
    assert_eq!(all(&log).await, (3..9).map(|index| entry(3, index)).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_purge_beyond_the_end_moves_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = open(dir.path());
    append(&mut log, (0..3).map(|index| entry(1, index))).await;
    log.purge(id(5, 100)).await.unwrap();
    append(&mut log, [entry(5, 101)]).await;
    drop(log);
    let mut log = open(dir.path());
    let state = log.get_log_state().await.unwrap();
    assert_eq!((state.last_purged_log_id, state.last_log_id), (Some(id(5, 100)), Some(id(5, 101))));
    assert_eq!(all(&log).await, [entry(5, 101)]);
}

#[tokio::test]
async fn a_log_may_begin_anywhere_and_remembers_where() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = open(dir.path());
    append(&mut log, [entry(1, 4), entry(1, 5)]).await;
    drop(log);
    let mut log = open(dir.path());
    assert_eq!(log.get_log_state().await.unwrap().last_purged_log_id, None);
    assert_eq!(all(&log).await, [entry(1, 4), entry(1, 5)]);
    log.purge(id(1, 2)).await.unwrap();
    append(&mut log, [entry(1, 6)]).await;
    drop(log);
    let mut log = open(dir.path());
    assert_eq!(log.get_log_state().await.unwrap().last_purged_log_id, Some(id(1, 2)));
    assert_eq!(all(&log).await.len(), 3);
}

#[tokio::test]
async fn long_reads_come_whole_and_limited_ones_in_parts() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = LogStore::open(dir.path(), 1000, &environment()).unwrap();
    append(&mut log, (0..3000).map(|index| entry(1, index))).await;
    let large = Payload::Normal(EncodedBatch(Bytes::from(vec![7; 2 * READ_BYTES])));
    append(&mut log, [Entry::new(id(1, 3000), large.clone()), Entry::new(id(1, 3001), large)]).await;
    let mut reader = log.reader();
    assert_eq!(reader.try_get_log_entries(0..3002).await.unwrap().len(), 3002);
    assert!(log.monitor().stats().cold_reads > 0, "the tail of 1000 bytes cannot serve this");

    let mut next = 0;
    while next < 3002 {
        let part = reader.limited_get_log_entries(next, 3002).await.unwrap();
        assert!(!part.is_empty(), "at {next}");
        assert!(part.iter().zip(next..).all(|(entry, index)| entry.log_id.index == index));
        next += part.len() as u64;
    }
    let one = reader.limited_get_log_entries(3000, 3002).await.unwrap();
    assert_eq!(one.len(), 1, "an entry above the limit travels alone");

    use futures_util::TryStreamExt;
    let streamed: Vec<Entry> = reader.entries_stream(5..3001).await.try_collect().await.unwrap();
    assert!(streamed.iter().zip(5..).all(|(entry, index)| entry.log_id.index == index));
    assert_eq!(streamed.len(), 2996);
}

#[tokio::test]
async fn a_limited_read_never_skips_what_was_purged() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = open(dir.path());
    append(&mut log, (0..10).map(|index| entry(1, index))).await;
    log.purge(id(1, 4)).await.unwrap();
    assert!(log.reader().limited_get_log_entries(3, 8).await.unwrap().is_empty());
    assert_eq!(log.reader().limited_get_log_entries(5, 8).await.unwrap().len(), 3);
}

#[tokio::test]
async fn misuse_is_refused_without_effect() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = open(dir.path());
    append(&mut log, (0..5).map(|index| entry(1, index))).await;
    let error = log.append([entry(1, 7)], Flushed::noop()).await.unwrap_err();
    assert!(error.to_string().contains("entry 7 where entry 5 is next"), "{error}");
    log.purge(id(1, 3)).await.unwrap();
    let error = log.truncate_after(Some(id(1, 1))).await.unwrap_err();
    assert!(error.to_string().contains("before entry 4"), "{error}");
    append(&mut log, [entry(1, 5)]).await;
    assert_eq!(all(&log).await, [entry(1, 4), entry(1, 5)]);
}
