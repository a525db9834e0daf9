//! What a new life knows of the one before it.

use orloj_executor::{Error, Handlers, Service};
use orloj_wire::clock::SystemClock;
use orloj_wire::protocol::{HeldState, ReportOutcome};
use serde_json::json;
use std::sync::Arc;

use crate::support::{
    Event, Executor, FakeLeader, dispatch, next_fence, pid_runs, shell, sleep, until, within,
};

async fn hold_a_report(executor: &Executor, leader: &FakeLeader) {
    within("the end of the handler", async {
        while executor.announce(1, leader).await.holding.iter().all(|held| held.state != HeldState::Reporting)
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_undelivered_report_is_sent_by_the_next_life_before_it_registers() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    let first = Executor::start(&leader, dir.path()).await;
    let old = leader.registered().await.incarnation;
    leader.deaf(true);
    let work = dispatch("echo", json!("kept"));
    first.run(std::slice::from_ref(&work)).await;
    hold_a_report(&first, &leader).await;
    first.crash().await;

    let second = Executor::start(&leader, dir.path()).await;
    let holdings = second.announce(1, &leader).await;
    assert_eq!((holdings.holding.len(), holdings.holding[0].state), (1, HeldState::Reporting));
    assert!(second.handle.incarnation() > old);
    leader.deaf(false);
    let report = leader.report(work.attempt.fence).await;
    assert_eq!((report.incarnation, report.result.as_deref()), (old, Some("\"kept\"")));
    leader
        .wait("the second registration", |event| match event {
            Event::Register(register) if register.incarnation > old => Some(()),
            _ => None,
        })
        .await;
    let events = leader.events();
    let reported = events.iter().position(|event| matches!(event, Event::Report(_))).unwrap();
    let registered = events.iter().rposition(|event| matches!(event, Event::Register(_))).unwrap();
    assert!(reported < registered, "the report of the old life comes first");
}

#[tokio::test]
async fn a_success_answers_the_same_work_in_the_next_life() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    let first = Executor::start(&leader, dir.path()).await;
    let marker = dir.path().join("runs");
    let work = shell(&format!("echo run >> {}; echo done", marker.display()));
    first.run(std::slice::from_ref(&work)).await;
    leader.report(work.attempt.fence).await;
    first.crash().await;

    let second = Executor::start(&leader, dir.path()).await;
    let mut again = work.clone();
    (again.attempt.attempt, again.attempt.fence) = (2, next_fence());
    second.run(std::slice::from_ref(&again)).await;
    let report = leader.report(again.attempt.fence).await;
    assert_eq!((report.outcome, report.result.as_deref()), (ReportOutcome::Succeeded, Some("\"done\\n\"")));
    assert_eq!(std::fs::read_to_string(marker).unwrap(), "run\n", "it ran once");
}

#[tokio::test]
async fn the_highest_round_survives() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    let first = Executor::start(&leader, dir.path()).await;
    first.announce(9, &leader).await;
    first.crash().await;
    let second = Executor::start(&leader, dir.path()).await;
    let (status, problem) = second.push("/v1/run", &second.run_body(8, &[sleep(1)])).await;
    assert_eq!((status, problem["code"].as_str()), (409, Some("stale_round")));
}

#[tokio::test]
async fn two_processes_cannot_share_a_folder() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    let first = Executor::start(&leader, dir.path()).await;
    let options = Executor::options(&leader, dir.path());
    let second = Service::start(options.clone(), Handlers::new(), Arc::new(SystemClock::new())).await;
    assert!(matches!(second, Err(Error::Locked { .. })));
    first.crash().await;
    Executor::start_with(options, Handlers::new()).await;
}

#[tokio::test]
async fn processes_that_a_killed_life_left_behind_are_ended() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    Executor::start(&leader, dir.path()).await.crash().await;
    let mark = std::fs::read_to_string(dir.path().join("mark")).unwrap();
    let mut orphan = std::process::Command::new("sleep")
        .arg("600")
        .env("ORLOJ_PROCESS_MARK", format!("{}.tsk_x.0.5", mark.trim()))
        .spawn()
        .unwrap();
    let mut stranger = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let pid = i32::try_from(orphan.id()).unwrap();
    // The environment is there once the command has replaced the test's own image.
    until("the orphan to run", || std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap() == "sleep\n")
        .await;
    let second = Executor::start(&leader, dir.path()).await;
    until("the end of the orphan", || !pid_runs(pid)).await;
    assert!(pid_runs(i32::try_from(stranger.id()).unwrap()), "others are left alone");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    orphan.wait().unwrap();
    second.crash().await;
}

#[tokio::test]
async fn a_damaged_journal_stops_the_start() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    let first = Executor::start(&leader, dir.path()).await;
    for _ in 0..3 {
        let work = dispatch("echo", json!(1));
        first.run(std::slice::from_ref(&work)).await;
        leader.report(work.attempt.fence).await;
    }
    first.crash().await;
    let segment = dir.path().join("journal/000000000001.jnl");
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    std::fs::write(&segment, bytes).unwrap();
    let options = Executor::options(&leader, dir.path());
    let start = Service::start(options, Handlers::new(), Arc::new(SystemClock::new())).await;
    assert!(matches!(start, Err(Error::Corrupt { .. })), "{start:?}");
}
