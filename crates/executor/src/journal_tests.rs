//! Tests of the journal: restarts, torn tails, damage, deletion of old segments.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use std::time::Duration;

use orloj_wire::clock::SystemClock;
use orloj_wire::protocol::{AttemptRef, Report, ReportOutcome};

const LIMITS: MemoryLimits = MemoryLimits { window: Duration::from_secs(300), bytes: 1 << 20 };

fn open(dir: &Path) -> Result<Journal, Error> {
    Journal::open(dir, LIMITS, Arc::new(SystemClock::new())).map(|(journal, _)| journal)
}

fn ended(fence: u64, result: &str) -> Record {
    let report = Report {
        attempt: AttemptRef { task_id: "tsk_a".to_owned(), shard_index: 0, attempt: 1, fence },
        incarnation: 1,
        outcome: ReportOutcome::Succeeded,
        retryable: true,
        retry_after_ms: None,
        message: None,
        result: Some(result.to_owned()),
        log_tail: Some(vec![1, 2, 3]),
        started_at: Some(1),
        ended_at: SystemClock::new().wall_ms(),
    };
    Record::Ended { report: Box::new(report), memory: Some(format!("key{fence}")) }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[tokio::test]
async fn what_was_appended_is_there_after_a_restart() {
    let temp = tempfile::tempdir().unwrap();
    let journal = open(temp.path()).unwrap();
    journal.append(Record::Round(7)).await.unwrap();
    journal.append(ended(1, "\"one\"")).await.unwrap();
    journal.append(ended(2, "\"two\"")).await.unwrap();
    let Record::Ended { report, .. } = ended(1, "") else { unreachable!() };
    lock(journal.ledger()).acknowledge(&report.attempt);
    journal.later(Record::Acknowledged(vec![report.attempt.clone()]));
    journal.close().await;

    let again = open(temp.path()).unwrap();
    let ledger = lock(again.ledger());
    assert_eq!(ledger.round(), 7);
    assert_eq!(ledger.reports().map(|r| r.attempt.fence).collect::<Vec<_>>(), [2]);
    let now = SystemClock::new().monotonic();
    assert_eq!(ledger.remembered("key1", now).unwrap().result.as_deref(), Some("\"one\""));
}

#[tokio::test]
async fn nothing_appended_is_lost_without_a_close() {
    let temp = tempfile::tempdir().unwrap();
    let journal = open(temp.path()).unwrap();
    let appends = (1..=200).map(|fence| {
        let journal = journal.clone();
        tokio::spawn(async move { journal.append(ended(fence, "1")).await })
    });
    for append in appends.collect::<Vec<_>>() {
        append.await.unwrap().unwrap();
    }
    // A copy of the folder at this instant is what a crash would leave.
    let copy = tempfile::tempdir().unwrap();
    for file in files(temp.path()) {
        fs::copy(&file, copy.path().join(file.file_name().unwrap())).unwrap();
    }
    assert_eq!(lock(open(copy.path()).unwrap().ledger()).waiting(), 200);
}

#[tokio::test]
async fn a_torn_tail_is_cut_and_what_stands_before_it_stays() {
    let temp = tempfile::tempdir().unwrap();
    let journal = open(temp.path()).unwrap();
    journal.append(ended(1, "1")).await.unwrap();
    journal.append(ended(2, "2")).await.unwrap();
    journal.close().await;
    let path = files(temp.path()).pop().unwrap();
    let length = fs::metadata(&path).unwrap().len();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 5).unwrap();

    let again = open(temp.path()).unwrap();
    assert_eq!(lock(again.ledger()).waiting(), 1);
    again.append(ended(3, "3")).await.unwrap();
    again.close().await;
    assert_eq!(lock(open(temp.path()).unwrap().ledger()).waiting(), 2, "the cut segment reads clean later");
}

#[tokio::test]
async fn a_segment_without_its_header_is_the_torn_start_of_the_next() {
    let temp = tempfile::tempdir().unwrap();
    let journal = open(temp.path()).unwrap();
    journal.append(ended(1, "1")).await.unwrap();
    journal.close().await;
    fs::write(temp.path().join("000000000002.jnl"), b"OR").unwrap();
    assert_eq!(lock(open(temp.path()).unwrap().ledger()).waiting(), 1);
}

#[tokio::test]
async fn damage_in_the_middle_is_refused_loudly() {
    let temp = tempfile::tempdir().unwrap();
    let journal = open(temp.path()).unwrap();
    journal.append(ended(1, "1")).await.unwrap();
    journal.append(ended(2, "2")).await.unwrap();
    journal.close().await;
    let path = files(temp.path()).pop().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[60] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert!(matches!(open(temp.path()), Err(Error::Corrupt { .. })));
}

#[tokio::test]
async fn a_missing_segment_is_refused_loudly() {
    let temp = tempfile::tempdir().unwrap();
    for fence in 1..=3 {
        let journal = open(temp.path()).unwrap();
        journal.append(ended(fence, "1")).await.unwrap();
        journal.close().await;
    }
    fs::remove_file(&files(temp.path())[1]).unwrap();
    assert!(matches!(open(temp.path()), Err(Error::Corrupt { .. })));
}

#[tokio::test]
async fn old_segments_go_when_nothing_in_them_counts() {
    let temp = tempfile::tempdir().unwrap();
    let none = MemoryLimits { window: Duration::ZERO, bytes: 1 << 20 };
    let (journal, _failure) = Journal::open(temp.path(), none, Arc::new(SystemClock::new())).unwrap();
    let big = format!("\"{}\"", "x".repeat(60_000));
    for fence in 1..=600 {
        let record = ended(fence, &big);
        let Record::Ended { report, .. } = &record else { unreachable!() };
        let attempt = report.attempt.clone();
        journal.append(record).await.unwrap();
        lock(journal.ledger()).acknowledge(&attempt);
        journal.later(Record::Acknowledged(vec![attempt]));
    }
    journal.tidy();
    journal.close().await;
    assert!(files(temp.path()).len() <= 2, "{:?}", files(temp.path()));
    assert_eq!(lock(open(temp.path()).unwrap().ledger()).waiting(), 0);
}
