//! Tests of the ledger.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use orloj_wire::protocol::ReportOutcome;

const LIMITS: MemoryLimits = MemoryLimits { window: Duration::from_secs(300), bytes: 1 << 20 };

fn at(seconds: u64) -> Now {
    Now { wall_ms: seconds as i64 * 1_000, monotonic: Duration::from_secs(seconds) }
}

fn report(task: &str, fence: u64, ended_s: i64) -> Box<Report> {
    Box::new(Report {
        attempt: AttemptRef { task_id: task.to_owned(), shard_index: 0, attempt: 1, fence },
        incarnation: 1,
        outcome: ReportOutcome::Succeeded,
        retryable: true,
        retry_after_ms: None,
        message: None,
        result: Some("\"r\"".to_owned()),
        log_tail: None,
        started_at: None,
        ended_at: ended_s * 1_000,
    })
}

fn ended(task: &str, fence: u64, ended_s: i64) -> Record {
    Record::Ended { report: report(task, fence, ended_s), memory: Some(format!("key-{task}")) }
}

#[test]
fn reports_wait_in_order_until_acknowledged() {
    let mut ledger = Ledger::new(LIMITS);
    for fence in 1..=3 {
        ledger.apply(ended("a", fence, 10), 1, at(10));
    }
    let batch = ledger.batch(2, usize::MAX);
    assert_eq!(batch.iter().map(|r| r.attempt.fence).collect::<Vec<_>>(), [1, 2]);
    ledger.apply(Record::Acknowledged(vec![report("a", 1, 10).attempt.clone()]), 1, at(11));
    assert_eq!(ledger.batch(9, usize::MAX)[0].attempt.fence, 2);
    assert_eq!(ledger.waiting(), 2);
}

#[test]
fn a_batch_is_bounded_by_bytes_but_never_empty() {
    let mut ledger = Ledger::new(LIMITS);
    (1..=3).for_each(|fence| ledger.apply(ended("a", fence, 10), 1, at(10)));
    assert_eq!(ledger.batch(9, 1).len(), 1);
}

#[test]
fn the_size_of_a_report_is_not_underestimated() {
    let mut big = report("a", 1, 10);
    big.result = Some(format!("\"{}\"", "\\\u{1}é\"".repeat(1_000)));
    big.message = Some("\n".repeat(100));
    big.log_tail = Some(vec![7; 1_001]);
    assert!(size_on_wire(&big) >= serde_json::to_vec(&big).unwrap().len());
}

#[test]
fn b73_what_is_told_in_place_of_a_refused_report_is_told_alone() {
    let mut ledger = Ledger::new(LIMITS);
    ledger.apply(ended("a", 1, 10), 1, at(10));
    ledger.apply(ended("b", 2, 10), 1, at(10));
    let reduced = Report { outcome: ReportOutcome::Failed, result: None, ..*report("a", 1, 10) };
    ledger.apply(Record::Ended { report: Box::new(reduced.clone()), memory: None }, 2, at(11));
    let waiting: Vec<_> = ledger.batch(9, usize::MAX).iter().map(|report| Report::clone(report)).collect();
    assert_eq!(waiting, [*report("b", 2, 10), reduced.clone()]);
    assert!(ledger.remembered("key-a", Duration::from_secs(11)).is_none(), "it answers nobody");
    assert!(ledger.remembered("key-b", Duration::from_secs(11)).is_some());
    assert_eq!(ledger.oldest_segment(), Some(1), "the other one still stands there");
    ledger.acknowledge(&reduced.attempt);
    assert!(!ledger.waits(&reduced.attempt) && ledger.waiting() == 1);
}

#[test]
fn a_success_answers_for_the_window_and_no_longer() {
    let mut ledger = Ledger::new(LIMITS);
    ledger.apply(ended("a", 1, 10), 1, at(10));
    let seen = |ledger: &Ledger, s| ledger.remembered("key-a", Duration::from_secs(s)).is_some();
    assert!(seen(&ledger, 309) && !seen(&ledger, 310));
    ledger.forget(at(310));
    assert_eq!(ledger.outcomes(), 0);
}

#[test]
fn after_a_restart_the_rest_of_the_window_counts() {
    let mut ledger = Ledger::new(LIMITS);
    // Ended at wall 1,000 s, read again 200 s later by a process whose monotonic clock starts anew.
    let now = Now { wall_ms: 1_200_000, monotonic: Duration::ZERO };
    ledger.apply(ended("a", 1, 1_000), 1, now);
    assert!(ledger.remembered("key-a", Duration::from_secs(99)).is_some());
    assert!(ledger.remembered("key-a", Duration::from_secs(100)).is_none());
    ledger.apply(ended("b", 2, 100), 1, now);
    assert!(ledger.remembered("key-b", Duration::ZERO).is_none(), "its window was over before");
}

#[test]
fn the_memory_is_bounded_and_says_what_it_forgot_early() {
    let mut ledger = Ledger::new(MemoryLimits { window: Duration::from_secs(300), bytes: 3 * 259 });
    (1..=5).for_each(|fence| ledger.apply(ended(&format!("t{fence}"), fence, 10), 1, at(10)));
    assert_eq!((ledger.outcomes(), ledger.forgotten_early()), (3, 2));
    assert!(ledger.remembered("key-t1", Duration::from_secs(11)).is_none());
    assert!(ledger.remembered("key-t5", Duration::from_secs(11)).is_some());
}

#[test]
fn segments_are_pinned_by_reports_and_outcomes() {
    let mut ledger = Ledger::new(LIMITS);
    assert_eq!(ledger.oldest_segment(), None);
    ledger.apply(ended("a", 1, 10), 3, at(10));
    ledger.apply(ended("b", 2, 20), 4, at(20));
    assert_eq!(ledger.oldest_segment(), Some(3));
    ledger.acknowledge(&report("a", 1, 10).attempt);
    assert_eq!(ledger.oldest_segment(), Some(3), "its outcome still answers");
    ledger.forget(at(311));
    assert_eq!(ledger.oldest_segment(), Some(4));
    ledger.acknowledge(&report("b", 2, 20).attempt);
    ledger.forget(at(321));
    assert_eq!(ledger.oldest_segment(), None);
}

#[test]
fn work_is_named_by_caller_key_and_shard() {
    let dispatch = |caller: &str, key: &str, shard| Dispatch {
        attempt: AttemptRef { task_id: "t".to_owned(), shard_index: shard, attempt: 1, fence: 1 },
        shard_total: 2,
        handler: "h".to_owned(),
        params: serde_json::Value::Null,
        caller_id: caller.to_owned(),
        business_key: None,
        dedupe_key: key.to_owned(),
        timeout_ms: None,
        due_at: 0,
        scheduled_at: None,
        job_id: None,
        checkpoint: None,
    };
    let base = memory_key(&dispatch("c", "k", 0));
    let retry = Dispatch {
        attempt: AttemptRef { task_id: "u".to_owned(), shard_index: 0, attempt: 2, fence: 9 },
        ..dispatch("c", "k", 0)
    };
    assert_eq!(memory_key(&retry), base);
    for other in [dispatch("d", "k", 0), dispatch("c", "l", 0), dispatch("c", "k", 1)] {
        assert_ne!(memory_key(&other), base);
    }
}

#[test]
fn records_keep_their_form() {
    let record = Record::Round(7);
    assert_eq!(serde_json::to_string(&record).unwrap(), r#"{"round":7}"#);
    let record = ended("a", 1, 10);
    let text = serde_json::to_string(&record).unwrap();
    assert!(
        text.starts_with(r#"{"ended":{"report":{"taskId":"a","shardIndex":0,"attempt":1,"fence":1,"#),
        "{text}"
    );
    assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
}
