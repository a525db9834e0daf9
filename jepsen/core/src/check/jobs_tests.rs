use super::*;
use crate::event::{Fault, FiredRow, Fires, SkippedRow};
use crate::testing::event;
use crate::verdict::Validity;

fn put() -> Event {
    let fires = vec![Fires::FixedRate { every_ms: 1_000, anchor_ms: 0 }];
    event(1, What::JobPut(JobPut { job: "j".into(), fires, after_ms: 0, ..JobPut::default() }))
}

/// Stopped so that the instants up to 5,000 ms are owed.
fn stopped() -> Event {
    event(2, What::JobStopped(JobStopped { job: "j".into(), wall_ms: 8_500, done_at_ms: Some(8_510) }))
}

fn fired(at: i64) -> FiredRow {
    FiredRow { scheduled_at_ms: at, task: format!("tsk_{at}"), made_at_ms: Some(at) }
}

fn skipped(reason: &str, count: u64, first_ms: i64, last_ms: i64) -> SkippedRow {
    SkippedRow { reason: reason.into(), count, exact: true, first_ms, last_ms }
}

fn last(fired: Vec<FiredRow>, skipped: Vec<SkippedRow>) -> FinalJob {
    let mut skipped_count = BTreeMap::new();
    for row in &skipped {
        *skipped_count.entry(row.reason.clone()).or_default() += row.count;
    }
    let fired_count = fired.len() as u64;
    FinalJob { job: "j".into(), fired, skipped, whole: true, fired_count, skipped_count }
}

fn recv(at: i64, task: &str) -> Event {
    let mut recv =
        Recv { job: Some("j".into()), scheduled_at_ms: Some(at), due_at_ms: at, ..Recv::default() };
    (recv.grant.task, recv.grant.attempt) = (task.into(), 1);
    event(3, What::Recv(recv))
}

/// The invariants that are broken.
fn broken(events: Vec<Event>) -> Vec<String> {
    let words = schedules(&History::merge(events), &Options::default());
    words.into_iter().filter(|word| word.validity == Validity::Invalid).map(|word| word.id).collect()
}

fn with(last: FinalJob) -> Vec<String> {
    broken(vec![put(), stopped(), event(9, What::FinalJob(last))])
}

#[test]
fn fires_and_skips_that_cover_every_instant_are_right() {
    let all = (1..=5).map(|second| fired(second * 1_000)).collect();
    assert_eq!(with(last(all, vec![])), Vec::<String>::new());
    let some = vec![fired(1_000), fired(5_000)];
    assert_eq!(with(last(some, vec![skipped("overlap", 3, 2_000, 4_000)])), Vec::<String>::new());
}

#[test]
fn an_instant_without_a_word_breaks_t1() {
    assert_eq!(with(last(vec![fired(1_000), fired(2_000), fired(4_000), fired(5_000)], vec![])), ["T1"]);
    let wrong = last(vec![fired(1_000), fired(5_000)], vec![skipped("overlap", 2, 2_000, 4_000)]);
    assert_eq!(with(wrong), ["T1"], "three were skipped");
    let missed = last(vec![fired(1_000), fired(5_000)], vec![skipped("misfire", 3, 2_000, 4_000)]);
    assert_eq!(with(missed), ["T1"], "nothing was wrong");
}

#[test]
fn an_instant_that_fires_twice_breaks_t3() {
    let mut twice: Vec<FiredRow> = (1..=5).map(|second| fired(second * 1_000)).collect();
    twice.push(FiredRow { task: "tsk_other".into(), ..fired(5_000) });
    assert_eq!(with(last(twice, vec![])), ["T1", "T3"]);
    let all = (1..=5).map(|second| fired(second * 1_000)).collect();
    let events =
        vec![put(), event(9, What::FinalJob(last(all, vec![]))), recv(1_000, "tsk_1000"), recv(1_000, "b")];
    assert_eq!(broken(events), ["T3", "T4"]);
}

#[test]
fn a_push_that_no_history_knows_breaks_t4() {
    let all: Vec<FiredRow> = (1..=5).map(|second| fired(second * 1_000)).collect();
    let events = vec![put(), event(9, What::FinalJob(last(all, vec![]))), recv(7_000, "tsk_7000")];
    assert_eq!(broken(events), ["T4"]);
}

#[test]
fn an_instant_off_the_calendar_breaks_t5() {
    let mut rows: Vec<FiredRow> = (1..=5).map(|second| fired(second * 1_000)).collect();
    rows[4] = fired(5_001);
    assert!(with(last(rows, vec![])).contains(&"T5".to_owned()));
}

#[test]
fn what_a_fault_left_undecided_when_the_job_was_stopped_is_not_owed() {
    let judged = |fault_ms: Option<(u64, u64)>| {
        let stopped = JobStopped { job: "j".into(), wall_ms: 8_500, done_at_ms: None };
        let rows = (1..=4).map(|second| fired(second * 1_000)).collect();
        let mut events = vec![put(), event(8_500, What::JobStopped(stopped))];
        events.push(event(9_000, What::FinalJob(last(rows, vec![]))));
        for (ms, phase) in
            fault_ms.into_iter().flat_map(|(from, until)| [(from, "installed"), (until, "undone")])
        {
            let fault = Fault { package: "process".into(), phase: phase.into(), ..Fault::default() };
            events.push(event(ms, What::Fault(fault)));
        }
        broken(events)
    };
    assert_eq!(judged(None), ["T1"], "the instant 5,000 is owed");
    assert_eq!(judged(Some((4_500, 6_000))), Vec::<String>::new());
    assert_eq!(judged(Some((0, 0))), Vec::<String>::new(), "it is made up for within five seconds");
    assert_eq!(judged(Some((8_600, 8_700))), ["T1"], "it was over when the fault began");
}
