//! Finding the leader, and what it may say.

use orloj_executor::{Error, Handlers};
use orloj_wire::protocol::{HeartbeatAck, ReportOutcome};

use crate::support::{Event, Executor, FakeLeader, attempt, sleep, until, within};

fn ack(register: bool, superseded: bool) -> HeartbeatAck {
    HeartbeatAck { round: 1, register, superseded, stale: Vec::new() }
}

#[tokio::test]
async fn a_replica_that_does_not_lead_names_the_one_that_does() {
    let (follower, leader) = (FakeLeader::start().await, FakeLeader::start().await);
    follower.not_leader(Some(leader.address.to_string()));
    let dir = tempfile::tempdir().unwrap();
    let executor = Executor::start(&follower, dir.path()).await;
    leader.registered().await;
    let work = sleep(1);
    executor.run(std::slice::from_ref(&work)).await;
    assert_eq!(leader.report(work.attempt.fence).await.outcome, ReportOutcome::Succeeded);
    assert!(follower.events().is_empty());
}

#[tokio::test]
async fn without_a_hint_every_replica_is_tried() {
    let (dead, follower, leader) =
        (FakeLeader::start().await, FakeLeader::start().await, FakeLeader::start().await);
    follower.not_leader(None);
    let dir = tempfile::tempdir().unwrap();
    let mut options = Executor::options(&dead, dir.path());
    // Nobody listens on the first: port 1 is never bound by a test.
    options.replicas =
        vec!["127.0.0.1:1".to_owned(), follower.address.to_string(), format!("http://{}", leader.address)];
    let _executor = Executor::start_with(options, Handlers::new()).await;
    leader.registered().await;
}

#[tokio::test]
async fn reports_follow_a_new_leader_that_announces_itself() {
    let (old, new) = (FakeLeader::start().await, FakeLeader::start().await);
    let dir = tempfile::tempdir().unwrap();
    let executor = Executor::start(&old, dir.path()).await;
    old.registered().await;
    executor.announce(2, &new).await;
    let work = sleep(1);
    let (status, _) = executor.push("/v1/run", &executor.run_body(2, std::slice::from_ref(&work))).await;
    assert_eq!(status, 200);
    new.report(work.attempt.fence).await;
}

#[tokio::test]
async fn a_report_waits_until_the_leader_has_acknowledged_it() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    let executor = Executor::start(&leader, dir.path()).await;
    leader.registered().await;
    leader.deaf(true);
    let work = sleep(1);
    executor.run(std::slice::from_ref(&work)).await;
    until("the report to wait", || executor.handle.waiting_reports() == 1).await;
    leader.deaf(false);
    until("its acknowledgement", || executor.handle.waiting_reports() == 0).await;
    leader.report(work.attempt.fence).await;
}

#[tokio::test]
async fn it_registers_again_when_it_is_told_to() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    leader.ack_next(ack(true, false));
    let executor = Executor::start(&leader, dir.path()).await;
    let work = sleep(600_000);
    executor.run(std::slice::from_ref(&work)).await;
    leader
        .wait("a registration after a heartbeat", |event| match event {
            Event::Register(register) => Some(register.clone()),
            _ => None,
        })
        .await;
    within("two registrations", async {
        while leader.events().iter().filter(|event| matches!(event, Event::Register(_))).count() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_superseded_executor_stops_everything_with_an_error() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    let mut options = Executor::options(&leader, dir.path());
    options.heartbeat_ms = Some(100);
    let executor = Executor::start_with(options, Handlers::new()).await;
    leader.registered().await;
    executor.run(&[sleep(600_000)]).await;
    leader.ack_next(ack(false, true));
    let end = within("the end", executor.handle.stopped()).await;
    assert!(matches!(end, Err(Error::Superseded { id }) if id == "e1"));
    assert!(leader.reports().is_empty());
}

#[tokio::test]
async fn b59_b131_a_leader_whose_clock_is_apart_cuts_nobody_off_and_ends_nothing() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    // Already at the registration.
    leader.ahead(3_600);
    let mut options = Executor::options(&leader, dir.path());
    options.heartbeat_ms = Some(100);
    let executor = Executor::start_with(options, Handlers::new()).await;
    leader.registered().await;
    assert_eq!(leader.out_of_time(), 1, "the leader's answer says what to sign by");
    let long = sleep(600_000);
    executor.run(std::slice::from_ref(&long)).await;
    // Within the window of 300 s around what it signs by, then far away on either side, and back.
    for (ahead_s, apart) in [(3_605, false), (3_600 - 290, false), (-3_600, true), (3_600, true), (0, true)] {
        let before = leader.out_of_time();
        leader.ahead(ahead_s);
        let work = sleep(1);
        executor.run(std::slice::from_ref(&work)).await;
        assert_eq!(leader.report(work.attempt.fence).await.outcome, ReportOutcome::Succeeded, "{ahead_s}");
        let beats = |events: Vec<Event>| events.iter().filter(|e| matches!(e, Event::Heartbeat(_))).count();
        let heard = beats(leader.events());
        within("another heartbeat", async {
            while beats(leader.events()) == heard {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(leader.out_of_time() > before, apart, "{ahead_s}");
    }
    let held = executor.announce(1, &leader).await.holding;
    assert_eq!(held.iter().map(|held| &held.attempt).collect::<Vec<_>>(), [&long.attempt], "it still runs");
    let registrations = leader.events().into_iter().filter(|event| matches!(event, Event::Register(_)));
    assert_eq!(registrations.count(), 1);
}

#[tokio::test]
async fn stale_attempts_of_a_registration_are_stopped() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    let mut options = Executor::options(&leader, dir.path());
    options.heartbeat_ms = Some(100);
    let executor = Executor::start_with(options, Handlers::new()).await;
    leader.registered().await;
    let work = sleep(600_000);
    executor.run(std::slice::from_ref(&work)).await;
    leader.stale_at_registration(work.attempt.clone());
    leader.ack_next(ack(true, false));
    within("it to be forgotten", async {
        while !executor.announce(1, &leader).await.holding.is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(leader.reports().is_empty());
}

#[tokio::test]
async fn a_deposed_leader_stops_nothing() {
    let (old, new) = (FakeLeader::start().await, FakeLeader::start().await);
    let dir = tempfile::tempdir().unwrap();
    let mut options = Executor::options(&old, dir.path());
    options.heartbeat_ms = Some(100);
    let executor = Executor::start_with(options, Handlers::new()).await;
    old.registered().await;
    let work = sleep(600_000);
    executor.run(std::slice::from_ref(&work)).await;
    // Another leader has spoken, and the executor goes on asking the old one, which is none the wiser.
    assert_eq!(executor.push("/v1/round", &executor.round_body(2, &old)).await.0, 200);
    let told = old.events().len();
    old.ack_next(HeartbeatAck { stale: vec![attempt(&work)], ..ack(false, false) });
    within("two heartbeats of round 2", async {
        let beats = |event: &Event| matches!(event, Event::Heartbeat(beat) if beat.round == 2);
        while old.events().iter().skip(told).filter(|event| beats(event)).count() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(executor.announce(2, &new).await.holding.len(), 1);
}
