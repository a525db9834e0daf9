//! Pushes, duplicates, rounds, capacity, and what the leader is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use orloj_executor::{AttemptContext, Handler, HandlerError, HandlerOutput, Handlers, SaveError};
use orloj_wire::protocol::{HeldState, ReportOutcome, RunVerdict};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::support::{Event, Executor, FakeLeader, attempt, dispatch, next_fence, sleep, within};

/// Counts its runs, and waits for a permit in each.
#[derive(Clone)]
struct Gate {
    runs: Arc<AtomicU32>,
    permits: Arc<Semaphore>,
}

impl Gate {
    fn new() -> Self {
        Gate { runs: Arc::default(), permits: Arc::new(Semaphore::new(0)) }
    }
}

impl Handler for Gate {
    async fn run(&self, context: AttemptContext) -> Result<HandlerOutput, HandlerError> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        self.permits.acquire().await.unwrap().forget();
        Ok(json!(context.attempt()).into())
    }
}

async fn with_gate() -> (FakeLeader, Executor, Gate, tempfile::TempDir) {
    let (leader, dir, gate) = (FakeLeader::start().await, tempfile::tempdir().unwrap(), Gate::new());
    let handlers = Handlers::new().with("gate", gate.clone()).unwrap();
    let executor = Executor::start_with(Executor::options(&leader, dir.path()), handlers).await;
    (leader, executor, gate, dir)
}

#[tokio::test]
async fn it_registers_runs_and_reports() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    let executor = Executor::start(&leader, dir.path()).await;
    let register = leader.registered().await;
    assert_eq!((register.executor_id.as_str(), register.slots, register.queue), ("e1", 2, 4));
    assert_eq!(register.address, executor.handle.address().to_string());
    assert_eq!(register.handlers, ["echo", "fail", "http", "shell", "sleep"]);
    let echo = dispatch("echo", json!({ "a": [1, "é"] }));
    let ack = executor.run(std::slice::from_ref(&echo)).await;
    assert_eq!(ack.verdicts, [RunVerdict::Accepted]);
    let report = leader.report(echo.attempt.fence).await;
    assert_eq!((report.outcome, report.attempt), (ReportOutcome::Succeeded, attempt(&echo)));
    assert_eq!(report.result.as_deref(), Some(r#"{"a":[1,"é"]}"#));
    assert_eq!(report.incarnation, register.incarnation);
    assert!(report.started_at.unwrap() <= report.ended_at);
}

#[tokio::test]
async fn a_push_that_comes_again_does_not_start_again() {
    let (leader, executor, gate, _dir) = with_gate().await;
    let work = dispatch("gate", json!(null));
    assert_eq!(executor.run(std::slice::from_ref(&work)).await.verdicts, [RunVerdict::Accepted]);
    assert_eq!(executor.run(std::slice::from_ref(&work)).await.verdicts, [RunVerdict::Duplicate]);
    gate.permits.add_permits(5);
    leader.report(work.attempt.fence).await;
    assert_eq!(executor.run(std::slice::from_ref(&work)).await.verdicts, [RunVerdict::Duplicate]);
    assert_eq!(gate.runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_duplicate_of_an_undelivered_outcome_is_not_run_and_is_reported() {
    let (leader, executor, gate, _dir) = with_gate().await;
    leader.registered().await;
    leader.deaf(true);
    gate.permits.add_permits(5);
    let work = dispatch("gate", json!(null));
    executor.run(std::slice::from_ref(&work)).await;
    within("the end of the handler", async {
        while executor
            .announce(1, &leader)
            .await
            .holding
            .iter()
            .all(|held| held.state != HeldState::Reporting)
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
    leader.deaf(false);
    assert_eq!(executor.run(std::slice::from_ref(&work)).await.verdicts, [RunVerdict::Duplicate]);
    leader.report(work.attempt.fence).await;
    assert_eq!(gate.runs.load(Ordering::SeqCst), 1);
}

/// Waits until the executor holds nothing any more.
async fn holds_nothing(executor: &Executor, leader: &FakeLeader) {
    within("the end of what it holds", async {
        while !executor.announce(1, leader).await.holding.is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn b73_of_a_report_that_is_refused_the_end_is_told_and_it_is_not_sent_again() {
    for status in [400, 413, 422] {
        let (leader, executor, gate, _dir) = with_gate().await;
        leader.registered().await;
        leader.refuse(status, |report| report.result.is_some());
        gate.permits.add_permits(9);
        let (bad, good) = (dispatch("gate", json!(null)), dispatch("fail", json!({ "message": "no" })));
        executor.run(&[bad.clone(), good.clone()]).await;
        let told = leader.report(bad.attempt.fence).await;
        assert_eq!((told.outcome, told.retryable, &told.result), (ReportOutcome::Failed, false, &None));
        let message = told.message.unwrap();
        let expected =
            "report_refused: the handler succeeded, but its report (result of 1 bytes, message of 0, ";
        assert!(message.starts_with(expected), "{message}");
        assert!(
            message.ends_with(&format!("was refused with status {status}: it has a result")),
            "{message}"
        );
        assert_eq!(leader.report(good.attempt.fence).await.outcome, ReportOutcome::Failed);
        holds_nothing(&executor, &leader).await;
        assert!(
            leader.refused().iter().filter(|fence| **fence == bad.attempt.fence).count() <= 2,
            "alone, or with others"
        );
    }
}

#[tokio::test]
async fn b73_traffic_stops_when_even_the_end_alone_is_refused() {
    let (leader, executor, gate, dir) = with_gate().await;
    leader.registered().await;
    leader.refuse(422, |_| true);
    gate.permits.add_permits(9);
    let bad = dispatch("gate", json!(null));
    executor.run(std::slice::from_ref(&bad)).await;
    holds_nothing(&executor, &leader).await;
    assert_eq!(leader.refused(), [bad.attempt.fence; 2], "as it was, and the end alone");
    let ack = executor.run(std::slice::from_ref(&bad)).await;
    assert_eq!(
        (&ack.verdicts[..], ack.refusal.as_deref()),
        (&[RunVerdict::Refused][..], Some("stale_fence"))
    );
    // Nothing is left of it, in this life or the next.
    leader.refuse(422, |_| false);
    let after = dispatch("gate", json!(null));
    executor.run(std::slice::from_ref(&after)).await;
    leader.report(after.attempt.fence).await;
    executor.crash().await;
    let again = Executor::start(&leader, dir.path()).await;
    let echo = dispatch("echo", json!(null));
    again.run(std::slice::from_ref(&echo)).await;
    leader.report(echo.attempt.fence).await;
    assert!(leader.reports().iter().all(|report| report.attempt.fence != bad.attempt.fence));
    assert_eq!(leader.refused().len(), 2);
}

#[tokio::test]
async fn places_are_bounded_and_a_freed_slot_is_told_at_once() {
    let (leader, executor, gate, _dir) = with_gate().await;
    // The one that follows the registration; the next would come in a minute.
    leader.heartbeat("the first heartbeat", |_| true).await;
    let work: Vec<_> = (0..8).map(|_| dispatch("gate", json!(null))).collect();
    let ack = executor.run(&work).await;
    let accepted = ack.verdicts.iter().filter(|verdict| **verdict == RunVerdict::Accepted).count();
    assert_eq!((accepted, ack.refusal.as_deref()), (6, Some("queue_full")));
    assert_eq!((ack.free_slots, ack.free_places), (0, 0));
    let unknown = executor.run(&[dispatch("nobody", json!(null))]).await;
    assert_eq!(
        (unknown.verdicts, unknown.refusal.as_deref()),
        (vec![RunVerdict::Refused], Some("unknown_handler"))
    );
    let metrics = executor.get("/metrics").await;
    assert!(metrics.contains("orloj_executor_running 2\n") && metrics.contains("orloj_executor_queued 4\n"));
    gate.permits.add_permits(6);
    // Only a freed slot can cause this one.
    let beat =
        leader.heartbeat("a heartbeat with free slots", |beat| beat.handlers.contains_key("gate")).await;
    assert!(beat.handlers["gate"].started >= 3);
}

#[tokio::test]
async fn an_older_round_is_refused_and_a_new_one_shows_what_is_held() {
    let (leader, executor, gate, _dir) = with_gate().await;
    let (running, late) = (dispatch("gate", json!(null)), dispatch("gate", json!(null)));
    executor.run(std::slice::from_ref(&running)).await;
    let holdings = executor.announce(7, &leader).await;
    assert_eq!((holdings.round, holdings.free_slots, holdings.free_places), (7, 1, 5));
    assert_eq!(holdings.holding[0].attempt, attempt(&running));
    assert_eq!(holdings.holding[0].state, HeldState::Running);
    for round in [1, 6] {
        let (status, problem) =
            executor.push("/v1/run", &executor.run_body(round, std::slice::from_ref(&late))).await;
        assert_eq!((status, problem["code"].as_str()), (409, Some("stale_round")), "{problem}");
    }
    let (status, _) = executor.push("/v1/round", &executor.round_body(6, &leader)).await;
    assert_eq!(status, 409);
    let (status, _) = executor.push("/v1/run", &executor.run_body(7, &[late])).await;
    assert_eq!(status, 200);
    gate.permits.add_permits(5);
    leader.report(running.attempt.fence).await;
}

#[tokio::test]
async fn a_push_for_another_executor_or_another_life_is_refused() {
    let (_leader, executor, gate, _dir) = with_gate().await;
    let mut body = executor.run_body(1, &[dispatch("gate", json!(null))]);
    body.incarnation -= 1;
    let (status, problem) = executor.push("/v1/run", &body).await;
    assert_eq!((status, problem["code"].as_str()), (409, Some("wrong_incarnation")));
    body.incarnation += 1;
    body.executor_id = "e2".to_owned();
    let (status, problem) = executor.push("/v1/run", &body).await;
    assert_eq!((status, problem["code"].as_str()), (409, Some("wrong_executor")));
    body.executor_id = "e1".to_owned();
    body.attempts[0].attempt.task_id = "../../etc".to_owned();
    assert_eq!(executor.push("/v1/run", &body).await.0, 400);
    assert_eq!(gate.runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_newer_grant_takes_over_from_an_older_one() {
    let (leader, executor, gate, _dir) = with_gate().await;
    let old = dispatch("gate", json!(null));
    executor.run(std::slice::from_ref(&old)).await;
    let mut new = old.clone();
    (new.attempt.attempt, new.attempt.fence) = (2, next_fence());
    assert_eq!(executor.run(std::slice::from_ref(&new)).await.verdicts, [RunVerdict::Accepted]);
    // One of them goes to the old grant, should it still wait.
    gate.permits.add_permits(2);
    let report = leader.report(new.attempt.fence).await;
    assert_eq!(
        report.result.as_deref(),
        Some("2"),
        "the permit went to the new grant, the old one was stopped"
    );
    assert!(
        leader.reports().iter().all(|report| report.attempt.fence != old.attempt.fence),
        "no lease, no report"
    );
}

#[tokio::test]
async fn the_same_work_is_answered_from_memory() {
    let (leader, executor, gate, _dir) = with_gate().await;
    gate.permits.add_permits(5);
    let first = dispatch("gate", json!(null));
    executor.run(std::slice::from_ref(&first)).await;
    leader.report(first.attempt.fence).await;
    let mut again = first.clone();
    (again.attempt.attempt, again.attempt.fence) = (2, next_fence());
    assert_eq!(executor.run(std::slice::from_ref(&again)).await.verdicts, [RunVerdict::Accepted]);
    let report = leader.report(again.attempt.fence).await;
    assert_eq!((report.outcome, report.result.as_deref()), (ReportOutcome::Succeeded, Some("1")));
    assert!(report.message.unwrap().contains("from memory"));
    let mut stranger = again.clone();
    stranger.caller_id = "d".to_owned();
    (stranger.attempt.task_id, stranger.attempt.fence) = ("tsk_other".to_owned(), next_fence());
    executor.run(std::slice::from_ref(&stranger)).await;
    leader.report(stranger.attempt.fence).await;
    assert_eq!(gate.runs.load(Ordering::SeqCst), 2, "another caller's key is another key");
}

/// Saves what it is told to.
struct Saver;

impl Handler for Saver {
    async fn run(&self, context: AttemptContext) -> Result<HandlerOutput, HandlerError> {
        context.progress(40, Some("reading"));
        match context.save_checkpoint(b"half").await {
            Ok(()) => Ok(json!(context.checkpoint().map(<[u8]>::len)).into()),
            Err(SaveError::LeaseLost) => {
                context.cancelled().await;
                Err(HandlerError::retryable("no lease"))
            }
            Err(error) => Err(HandlerError::fatal(error.to_string())),
        }
    }
}

#[tokio::test]
async fn progress_and_checkpoints_are_saved_and_handed_on() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    let handlers = Handlers::new().with("saver", Saver).unwrap();
    let executor = Executor::start_with(Executor::options(&leader, dir.path()), handlers).await;
    let mut work = dispatch("saver", json!(null));
    work.checkpoint = Some(vec![1, 2, 3]);
    executor.run(std::slice::from_ref(&work)).await;
    let save = leader
        .wait("the checkpoint", |event| match event {
            Event::Save(save) if save.checkpoint.is_some() => Some(save.clone()),
            _ => None,
        })
        .await;
    assert_eq!((save.checkpoint.as_deref(), save.attempt), (Some(&b"half"[..]), attempt(&work)));
    assert_eq!(leader.report(work.attempt.fence).await.result.as_deref(), Some("3"));
    let progress = leader.events().into_iter().any(|event| match event {
        Event::Save(save) => save.percent == Some(40) && save.note.as_deref() == Some("reading"),
        _ => false,
    });
    assert!(progress);
}

#[tokio::test]
async fn who_saves_under_an_earlier_round_asks_the_leader_for_its_round_and_stays_with_it() {
    let (leader, other) = (FakeLeader::start().await, FakeLeader::start().await);
    let dir = tempfile::tempdir().unwrap();
    let mut options = Executor::options(&leader, dir.path());
    options.replicas = vec![leader.address.to_string(), other.address.to_string()];
    let handlers = Handlers::new().with("saver", Saver).unwrap();
    let executor = Executor::start_with(options, handlers).await;
    // The next heartbeat by itself is a minute away.
    leader.heartbeat("the first heartbeat", |_| true).await;
    leader.begin_round();
    let work = dispatch("saver", json!(null));
    executor.run(std::slice::from_ref(&work)).await;
    assert_eq!(leader.report(work.attempt.fence).await.outcome, ReportOutcome::Succeeded);
    leader.heartbeat("a heartbeat before the answer", |beat| !beat.holding.is_empty()).await;
    assert!(other.events().is_empty(), "{:?}", other.events());
}

#[tokio::test]
async fn an_attempt_whose_save_is_not_taken_is_stopped_without_a_report() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    let handlers = Handlers::new().with("saver", Saver).unwrap();
    let executor = Executor::start_with(Executor::options(&leader, dir.path()), handlers).await;
    leader.no_lease();
    let (work, after) = (dispatch("saver", json!(null)), sleep(1));
    executor.run(std::slice::from_ref(&work)).await;
    holds_nothing(&executor, &leader).await;
    executor.run(std::slice::from_ref(&after)).await;
    leader.report(after.attempt.fence).await;
    assert_eq!(leader.reports().len(), 1);
}
