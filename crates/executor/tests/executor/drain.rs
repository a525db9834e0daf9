//! Leaving in order.

use std::time::Duration;

use orloj_wire::protocol::{ReportOutcome, RunVerdict};

use crate::support::{DEADLINE, Event, Executor, FakeLeader, shell, sleep, until, within};

#[tokio::test]
async fn a_drain_hands_back_the_queue_finishes_the_rest_and_says_goodbye() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    let executor = Executor::start(&leader, dir.path()).await;
    let life = leader.registered().await.incarnation;
    let go = dir.path().join("go");
    let wait = format!("until [ -e {} ]; do sleep 0.02; done; echo finished", go.display());
    let running = [shell(&wait), shell(&wait)];
    let queued = [sleep(1), sleep(1), sleep(1)];
    executor.run(&running).await;
    executor.run(&queued).await;
    let draining = tokio::spawn({
        let handle = executor.handle.clone();
        async move { handle.drain(DEADLINE).await }
    });
    for work in &queued {
        let report = leader.report(work.attempt.fence).await;
        assert_eq!((report.outcome, report.started_at), (ReportOutcome::Returned, None));
    }
    leader.heartbeat("a heartbeat that says draining", |beat| beat.draining).await;
    let ack = executor.run(&[sleep(1)]).await;
    assert_eq!((ack.verdicts, ack.refusal.as_deref()), (vec![RunVerdict::Refused], Some("draining")));
    assert_eq!(executor.run(&running).await.verdicts, [RunVerdict::Duplicate; 2], "what runs is still known");
    std::fs::write(go, "").unwrap();
    within("the drain", draining).await.unwrap();
    within("the end", executor.handle.stopped()).await.unwrap();
    for work in &running {
        assert_eq!(leader.report(work.attempt.fence).await.outcome, ReportOutcome::Succeeded);
    }
    let events = leader.events();
    assert!(
        matches!(events.last(), Some(Event::Leave(leave)) if leave.incarnation == life),
        "goodbye comes last"
    );
}

#[tokio::test]
async fn a_drain_that_loses_patience_stops_what_runs_and_reports_it() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    let executor = Executor::start(&leader, dir.path()).await;
    leader.registered().await;
    let work = shell(&format!("touch {}/up; sleep 600", dir.path().display()));
    executor.run(std::slice::from_ref(&work)).await;
    until("the command to start", || dir.path().join("up").exists()).await;
    within("the drain", executor.handle.drain(Duration::from_millis(50))).await;
    let report = leader.report(work.attempt.fence).await;
    assert_eq!((report.outcome, report.retryable), (ReportOutcome::Failed, true));
}

#[tokio::test]
async fn reports_that_cannot_be_delivered_while_draining_are_left_to_the_next_life() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    let executor = Executor::start(&leader, dir.path()).await;
    leader.registered().await;
    let work = sleep(1);
    leader.deaf(true);
    executor.run(std::slice::from_ref(&work)).await;
    within("the drain", executor.handle.drain(DEADLINE)).await;
    leader.deaf(false);
    let _second = Executor::start(&leader, dir.path()).await;
    assert_eq!(leader.report(work.attempt.fence).await.outcome, ReportOutcome::Succeeded);
}
