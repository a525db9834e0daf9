//! The life of a task, one behaviour a test.

mod common;

use common::*;
use orloj_model::command::{Claim, Command, DueTime, Idempotency, ShardRef, Submit};
use orloj_model::task::{
    MAX_RETRY_AFTER_MS, Outcome, Phase, RESULT_LIMIT, Reason, RetryPolicy, Status, TaskSpec,
};
use orloj_model::{Event, Refusal, Reply};

fn refused(refusal: Refusal) -> Reply {
    Reply::Refused(refusal)
}

fn with_task(due: DueTime) -> World {
    let mut world = World::ready();
    let reply = world.run(submit(task_id(1), spec(), due));
    assert!(matches!(reply, Reply::Submitted { replayed: false, version: 1, .. }), "{reply:?}");
    world
}

#[test]
fn from_submission_to_success() {
    let mut world = with_task(DueTime::After(0));
    let fence = world.grant(task_id(1), 1, "a");
    assert_eq!(fence, world.index);
    let view = world.task(task_id(1));
    assert_eq!((view.state.status, view.state.version), (Status::Running, 2));
    let reply = world.run(report(task_id(1), 1, fence, "a", Outcome::Succeeded));
    assert!(matches!(reply, Reply::Task { status: Status::Success, version: 3, .. }), "{reply:?}");
    let view = world.task(task_id(1));
    assert_eq!(view.shards[0].result.as_deref(), Some(b"1".as_slice()));
    assert_eq!(view.state.finished_at, Some(world.now));
}

#[test]
fn nothing_is_granted_before_its_time() {
    let mut world = with_task(DueTime::After(10));
    let due_at = world.now + 10;
    assert_eq!(world.run(grant(task_id(1), 1, "a", 1)), refused(Refusal::NotDue { due_at }));
    world.now += 9;
    assert_eq!(world.run(grant(task_id(1), 1, "a", 1)), refused(Refusal::NotDue { due_at }));
    world.now += 1;
    assert_eq!(world.run(grant(task_id(1), 1, "a", 1)), Reply::Granted { fence: world.index });
}

#[test]
fn the_clusters_time_never_goes_back() {
    let mut world = with_task(DueTime::After(10));
    world.now += 10;
    world.run(Command::BeginRound { leader: 2 });
    world.round = 2;
    world.now -= 5_000;
    assert_eq!(world.run(grant(task_id(1), 1, "a", 1)), Reply::Granted { fence: world.index });
}

#[test]
fn only_one_grant_of_an_attempt_commits() {
    let mut world = with_task(DueTime::After(0));
    let replies = world.run_all(vec![grant(task_id(1), 1, "a", 1), grant(task_id(1), 1, "b", 1)]);
    assert_eq!(replies[0], Reply::Granted { fence: world.index });
    assert_eq!(replies[1], refused(Refusal::NotWaiting));
}

#[test]
fn a_grant_of_an_older_round_is_refused() {
    let mut world = with_task(DueTime::After(0));
    world.run(Command::BeginRound { leader: 2 });
    assert_eq!(world.run(grant(task_id(1), 1, "a", 1)), refused(Refusal::StaleRound { current: 2 }));
    world.round = 3;
    assert_eq!(world.run(grant(task_id(1), 1, "a", 1)), refused(Refusal::StaleRound { current: 2 }));
}

#[test]
fn a_grant_names_an_executor_that_is_online_in_that_life() {
    let mut world = with_task(DueTime::After(0));
    assert_eq!(world.run(grant(task_id(1), 1, "nobody", 1)), refused(Refusal::ExecutorUnknown));
    assert_eq!(world.run(grant(task_id(1), 1, "a", 2)), refused(Refusal::ExecutorNotOnline));
    world.run(Command::Drain { executor: executor("a"), on: true });
    assert_eq!(world.run(grant(task_id(1), 1, "a", 1)), refused(Refusal::ExecutorNotOnline));
    world.run(Command::Drain { executor: executor("a"), on: false });
    assert_eq!(world.run(grant(task_id(1), 2, "a", 1)), refused(Refusal::WrongAttempt { next: 1 }));
    world.grant(task_id(1), 1, "a");
}

#[test]
fn b68_failures_retry_after_the_backoff_until_no_try_is_left() {
    let mut world = with_task(DueTime::After(0));
    for (attempt, delay) in [(1, 10_000), (2, 30_000)] {
        let fence = world.grant(task_id(1), attempt, "a");
        world.run(report(task_id(1), attempt, fence, "a", FAILED));
        let view = world.task(task_id(1));
        assert_eq!((view.state.status, view.state.reason), (Status::Pending, Reason::Retry));
        assert_eq!(view.state.due_at, world.now + delay);
        world.now += delay;
    }
    let fence = world.grant(task_id(1), 3, "b");
    let reply = world.run(report(task_id(1), 3, fence, "b", FAILED));
    assert!(matches!(reply, Reply::Task { status: Status::Failed, .. }), "{reply:?}");
}

#[test]
fn a_handler_may_put_off_the_next_try_for_a_week_at_most_and_never_hasten_it() {
    for (asked, delay) in [(1, 10_000), (20_000, 20_000), (u64::MAX, MAX_RETRY_AFTER_MS)] {
        let mut world = with_task(DueTime::After(0));
        let fence = world.grant(task_id(1), 1, "a");
        let outcome = Outcome::Failed { retryable: true, retry_after_ms: Some(asked) };
        world.run(report(task_id(1), 1, fence, "a", outcome));
        let due_at = world.task(task_id(1)).state.due_at;
        assert_eq!(due_at, world.now.saturating_add_unsigned(delay), "asked for {asked} ms");
    }
}

#[test]
fn b68_each_way_to_fail_is_a_try_and_with_five_retries_there_are_six_and_one_callback() {
    type Fails = fn(&mut World, u32, u64);
    let fails: Fails = |world, attempt, fence| {
        world.run(report(task_id(1), attempt, fence, "a", FAILED));
    };
    let stops_late: Fails = |world, attempt, fence| {
        world.run(report(task_id(1), attempt, fence, "a", Outcome::TimedOut));
    };
    let is_declared: Fails = |world, _, fence| {
        world.run(Command::TimeOut { shard: shard(task_id(1)), fence, chance: 0 });
    };
    for (name, ways) in [
        ("failed", vec![fails]),
        ("timed out", vec![stops_late]),
        ("declared", vec![is_declared]),
        ("mixed", vec![is_declared, fails, stops_late]),
    ] {
        let mut world = World::ready();
        let retry = RetryPolicy { max_retries: 5, ..RetryPolicy::default() };
        let callback_url = Some("https://hooks.example.com/cb".to_owned());
        let spec = TaskSpec { retry, callback_url, business_key: None, ..spec() };
        world.run(submit(task_id(1), spec, DueTime::After(0)));
        let (mut attempt, mut callbacks) = (0, 0);
        for number in 0..6 {
            assert_eq!(world.task(task_id(1)).state.status, Status::Pending, "{name}: try {number}");
            // What is refused in between is no try.
            attempt += 1;
            let fence = world.grant(task_id(1), attempt, "b");
            world.run(Command::Requeue { shard: shard(task_id(1)), fence, message: "queue_full".into() });
            attempt += 1;
            let fence = world.grant(task_id(1), attempt, "a");
            ways[number % ways.len()](&mut world, attempt, fence);
            let due = |event: &&Event| matches!(event, Event::CallbackDue { .. });
            callbacks += world.events.iter().filter(due).count();
            world.now += 60_000;
        }
        let view = world.task(task_id(1));
        assert_eq!((view.state.status, view.shards[0].failures), (Status::Failed, 6), "{name}");
        assert_eq!(world.run(grant(task_id(1), attempt + 1, "a", 1)), refused(Refusal::NotWaiting), "{name}");
        assert_eq!(callbacks, 1, "{name}");
    }
}

#[test]
fn b73_a_result_that_is_too_long_to_be_kept_fails_the_attempt_and_says_so() {
    let with_result = |fence, length: usize| {
        let Command::Report(mut report) = report(task_id(1), 1, fence, "a", Outcome::Succeeded) else {
            panic!("not a report")
        };
        report.result = Some(vec![b'7'; length]);
        Command::Report(report)
    };
    let mut world = with_task(DueTime::After(0));
    let fence = world.grant(task_id(1), 1, "a");
    world.run(with_result(fence, RESULT_LIMIT));
    let view = world.task(task_id(1));
    assert_eq!(
        (view.state.status, &view.shards[0].result),
        (Status::Success, &Some(vec![b'7'; RESULT_LIMIT]))
    );

    let mut world = with_task(DueTime::After(0));
    let fence = world.grant(task_id(1), 1, "a");
    let reply = world.run(with_result(fence, RESULT_LIMIT + 1));
    assert!(matches!(reply, Reply::Task { status: Status::Failed, .. }), "no retry helps: {reply:?}");
    let view = world.task(task_id(1));
    assert_eq!(view.shards[0].result, None);
    let last = view.shards[0].attempts.last().unwrap();
    assert_eq!(last.outcome, Some(Outcome::Failed { retryable: false, retry_after_ms: None }));
    let message = last.message.as_deref().unwrap();
    assert_eq!(message, "the handler succeeded, but its result has 65537 bytes; at most 65536 are kept");
    assert_eq!(world.run(with_result(fence, RESULT_LIMIT + 1)), Reply::Repeated, "it is not told again");
}

#[test]
fn a_handler_may_say_that_no_retry_helps_or_ask_for_a_delay() {
    let mut world = with_task(DueTime::After(0));
    let fence = world.grant(task_id(1), 1, "a");
    let later = Outcome::Failed { retryable: true, retry_after_ms: Some(120_000) };
    world.run(report(task_id(1), 1, fence, "a", later));
    assert_eq!(world.task(task_id(1)).state.due_at, world.now + 120_000);
    world.now += 120_000;
    let fence = world.grant(task_id(1), 2, "a");
    let never = Outcome::Failed { retryable: false, retry_after_ms: None };
    world.run(report(task_id(1), 2, fence, "a", never));
    assert_eq!(world.task(task_id(1)).state.status, Status::Failed);
}

#[test]
fn b25_lost_attempts_count_against_their_own_cap() {
    let mut world = with_task(DueTime::After(0));
    for attempt in 1..=4 {
        let life = u64::from(attempt);
        world.run(Command::RegisterExecutor(registration("a", life)));
        let Reply::Granted { fence } = world.run(grant(task_id(1), attempt, "a", life)) else {
            panic!("not granted")
        };
        world.run(Command::ExecutorGone { executor: executor("a"), incarnation: life });
        world.run(Command::Lose { shard: shard(task_id(1)), fence, chance: 0 });
        world.now += 60_000;
    }
    let view = world.task(task_id(1));
    assert_eq!((view.state.status, view.shards[0].losses), (Status::Failed, 4));
}

#[test]
fn an_attempt_is_not_lost_while_its_executor_may_hold_it() {
    let mut world = with_task(DueTime::After(0));
    let fence = world.grant(task_id(1), 1, "a");
    let lose = Command::Lose { shard: shard(task_id(1)), fence, chance: 0 };
    assert_eq!(world.run(lose.clone()), refused(Refusal::ExecutorAlive));
    world.run(Command::Drain { executor: executor("a"), on: true });
    assert_eq!(world.run(lose.clone()), refused(Refusal::ExecutorAlive));
    world.run(Command::RegisterExecutor(registration("a", 2)));
    let reply = world.run(lose.clone());
    assert!(matches!(reply, Reply::Task { status: Status::Pending, .. }), "{reply:?}");
    assert_eq!(world.run(lose), refused(Refusal::StaleFence));
}

#[test]
fn a_late_report_is_written_down_and_has_no_effect() {
    let mut world = with_task(DueTime::After(0));
    let old = world.grant(task_id(1), 1, "a");
    world.run(Command::ExecutorGone { executor: executor("a"), incarnation: 1 });
    world.run(Command::Lose { shard: shard(task_id(1)), fence: old, chance: 0 });
    world.now += 10_000;
    let new = world.grant(task_id(1), 2, "b");
    let late = report(task_id(1), 1, old, "a", Outcome::Succeeded);
    assert_eq!(world.run(late.clone()), refused(Refusal::StaleFence));
    let view = world.task(task_id(1));
    assert_eq!(view.state.status, Status::Running);
    assert_eq!(view.shards[0].attempts[0].late_outcome, Some(Outcome::Succeeded));
    let digest = world.digest();
    assert_eq!(world.run(late), refused(Refusal::StaleFence));
    assert_eq!(world.digest(), digest);
    world.run(report(task_id(1), 2, new, "b", Outcome::Succeeded));
    assert_eq!(world.task(task_id(1)).state.status, Status::Success);
}

#[test]
fn a_report_counts_only_from_the_holder_under_its_fence_and_number() {
    let mut world = with_task(DueTime::After(0));
    let fence = world.grant(task_id(1), 1, "a");
    for bad in [
        report(task_id(1), 1, fence, "b", Outcome::Succeeded),
        report(task_id(1), 1, fence + 1, "a", Outcome::Succeeded),
        report(task_id(1), 2, fence, "a", Outcome::Succeeded),
    ] {
        assert_eq!(world.run(bad), refused(Refusal::StaleFence));
    }
    let unknown = report(task_id(2), 1, fence, "a", Outcome::Succeeded);
    assert_eq!(world.run(unknown), refused(Refusal::TaskNotFound));
    assert_eq!(world.task(task_id(1)).state.status, Status::Running);
}

#[test]
fn b28_a_repeated_report_is_acknowledged_once_more() {
    let mut world = with_task(DueTime::After(0));
    let fence = world.grant(task_id(1), 1, "a");
    world.run(report(task_id(1), 1, fence, "a", Outcome::Succeeded));
    let digest = world.digest();
    assert_eq!(world.run(report(task_id(1), 1, fence, "a", Outcome::Succeeded)), Reply::Repeated);
    assert_eq!(world.digest(), digest);
}

#[test]
fn b71_a_refusal_is_not_a_try_and_uses_up_its_number() {
    let mut world = with_task(DueTime::After(0));
    let fence = world.grant(task_id(1), 1, "a");
    let requeue = Command::Requeue { shard: shard(task_id(1)), fence, message: "queue_full".into() };
    world.run(requeue);
    let view = world.task(task_id(1));
    assert_eq!((view.state.status, view.state.reason), (Status::Pending, Reason::Ready));
    assert_eq!((view.shards[0].failures, view.shards[0].losses), (0, 0));
    assert_eq!(world.run(grant(task_id(1), 1, "b", 1)), refused(Refusal::WrongAttempt { next: 2 }));
    world.grant(task_id(1), 2, "b");
}

#[test]
fn the_record_of_attempts_is_bounded_whatever_refuses() {
    let mut world = with_task(DueTime::After(0));
    for attempt in 1..=100 {
        let fence = world.grant(task_id(1), attempt, "a");
        world.run(Command::Requeue { shard: shard(task_id(1)), fence, message: String::new() });
    }
    assert_eq!(world.task(task_id(1)).shards[0].attempts.len(), 32);
}

#[test]
fn cancel_before_the_start_is_final_at_once() {
    let mut world = with_task(DueTime::After(5_000));
    let cancel = Command::Cancel { task: task_id(1), caller: Some(caller()), claim: None };
    let reply = world.run(cancel.clone());
    assert!(matches!(reply, Reply::Task { status: Status::Cancelled, version: 2, .. }), "{reply:?}");
    assert_eq!(world.run(cancel), reply);
    world.now += 5_000;
    assert_eq!(world.run(grant(task_id(1), 1, "a", 1)), refused(Refusal::NotWaiting));
}

#[test]
fn b110_cancel_of_a_running_task_waits_for_its_executor() {
    for (outcome, status) in [
        (Outcome::Cancelled, Status::Cancelled),
        (FAILED, Status::Cancelled),
        (Outcome::TimedOut, Status::Cancelled),
        (Outcome::Succeeded, Status::Success),
    ] {
        let mut world = with_task(DueTime::After(0));
        let fence = world.grant(task_id(1), 1, "a");
        let reply = world.run(Command::Cancel { task: task_id(1), caller: None, claim: None });
        assert!(matches!(reply, Reply::Task { status: Status::Running, cancel_requested: true, .. }));
        assert!(world.events.iter().any(|event| matches!(event, Event::CancelRequested { .. })));
        let reply = world.run(report(task_id(1), 1, fence, "a", outcome));
        assert!(matches!(reply, Reply::Task { status: found, .. } if found == status), "{reply:?}");
    }
}

#[test]
fn b112_cancel_is_confirmed_by_the_loss_of_the_executor() {
    let mut world = with_task(DueTime::After(0));
    let fence = world.grant(task_id(1), 1, "a");
    world.run(Command::Cancel { task: task_id(1), caller: None, claim: None });
    world.run(Command::ExecutorGone { executor: executor("a"), incarnation: 1 });
    world.run(Command::Lose { shard: shard(task_id(1)), fence, chance: 0 });
    assert_eq!(world.task(task_id(1)).state.status, Status::Cancelled);
}

#[test]
fn b30_terminal_is_for_ever() {
    let mut world = with_task(DueTime::After(0));
    let fence = world.grant(task_id(1), 1, "a");
    world.run(report(task_id(1), 1, fence, "a", Outcome::Succeeded));
    let before = world.task(task_id(1));
    let terminal = refused(Refusal::AlreadyTerminal { status: Status::Success, version: 3 });
    assert_eq!(world.run(Command::Cancel { task: task_id(1), caller: None, claim: None }), terminal);
    for command in [
        grant(task_id(1), 2, "a", 1),
        Command::MakeReady { shard: shard(task_id(1)) },
        Command::Expire { task: task_id(1) },
        Command::Lose { shard: shard(task_id(1)), fence, chance: 0 },
        Command::TimeOut { shard: shard(task_id(1)), fence, chance: 0 },
        Command::Requeue { shard: shard(task_id(1)), fence, message: String::new() },
        Command::Save { shard: shard(task_id(1)), fence, progress: None, checkpoint: Some(vec![1]) },
    ] {
        assert!(matches!(world.run(command), Reply::Refused(_)));
    }
    assert_eq!(world.task(task_id(1)).state, before.state);
}

#[test]
fn a_task_that_has_not_started_by_its_deadline_is_skipped() {
    let mut world = World::ready();
    let expire_at = Some(world.now + 100);
    world.run(submit(task_id(1), TaskSpec { expire_at, ..spec() }, DueTime::After(0)));
    let expire = Command::Expire { task: task_id(1) };
    assert_eq!(world.run(expire.clone()), refused(Refusal::NotExpired));
    let fence = world.grant(task_id(1), 1, "a");
    world.now += 100;
    assert_eq!(world.run(expire.clone()), refused(Refusal::NotExpired));
    world.run(Command::Requeue { shard: shard(task_id(1)), fence, message: String::new() });
    assert!(world.events.iter().any(|event| matches!(event, Event::Expires { .. })));
    let reply = world.run(expire);
    assert!(matches!(reply, Reply::Task { status: Status::Skipped, .. }), "{reply:?}");
    assert_eq!(world.task(task_id(1)).state.reason, Reason::Expired);
}

#[test]
fn nothing_is_granted_after_its_deadline_to_first_start() {
    let mut world = World::ready();
    let expire_at = Some(world.now + 100);
    world.run(submit(task_id(1), TaskSpec { expire_at, ..spec() }, DueTime::After(0)));
    world.now += 100;
    assert_eq!(world.run(grant(task_id(1), 1, "a", 1)), refused(Refusal::Expired));
    let reply = world.run(Command::Expire { task: task_id(1) });
    assert!(matches!(reply, Reply::Task { status: Status::Skipped, .. }), "{reply:?}");
}

#[test]
fn a_submission_whose_deadline_has_passed_is_taken_and_skipped() {
    let mut world = World::ready();
    let expire_at = Some(world.now - 1);
    let reply = world.run(submit(task_id(1), TaskSpec { expire_at, ..spec() }, DueTime::After(0)));
    assert!(matches!(reply, Reply::Submitted { .. }), "{reply:?}");
    assert_eq!(world.run(grant(task_id(1), 1, "a", 1)), refused(Refusal::Expired));
    let reply = world.run(Command::Expire { task: task_id(1) });
    assert!(matches!(reply, Reply::Task { status: Status::Skipped, .. }), "{reply:?}");
}

#[test]
fn a_task_of_which_one_shard_has_started_by_its_deadline_starts_the_others_after_it() {
    let mut world = World::ready();
    let expire_at = Some(world.now + 100);
    world.run(submit(task_id(1), TaskSpec { expire_at, shard_total: 2, ..spec() }, DueTime::After(0)));
    let fence = world.grant(task_id(1), 1, "a");
    world.now += 100;
    let second = ShardRef { task: task_id(1), shard: 1 };
    let executor = executor("b");
    let grant = Command::Grant { shard: second, attempt: 1, executor, incarnation: 1 };
    assert_eq!(world.run(Command::Expire { task: task_id(1) }), refused(Refusal::NotExpired));
    let Reply::Granted { fence: of_second } = world.run(grant.clone()) else { panic!("it runs already") };
    // Given back before anything has started, it is as late as any other task.
    world.run(Command::Requeue { shard: second, fence: of_second, message: String::new() });
    world.run(Command::Requeue { shard: shard(task_id(1)), fence, message: String::new() });
    let Command::Grant { shard, executor, incarnation, .. } = grant else { unreachable!("it is one") };
    let again = Command::Grant { shard, attempt: 2, executor, incarnation };
    assert_eq!(world.run(again), refused(Refusal::Expired));
    let reply = world.run(Command::Expire { task: task_id(1) });
    assert!(matches!(reply, Reply::Task { status: Status::Skipped, .. }), "{reply:?}");
}

#[test]
fn a_task_that_has_started_does_not_expire() {
    let mut world = World::ready();
    let expire_at = Some(world.now + 100);
    world.run(submit(task_id(1), TaskSpec { expire_at, ..spec() }, DueTime::After(0)));
    let fence = world.grant(task_id(1), 1, "a");
    world.run(report(task_id(1), 1, fence, "a", FAILED));
    world.now += 200;
    assert_eq!(world.run(Command::Expire { task: task_id(1) }), refused(Refusal::NotExpired));
}

#[test]
fn waiting_for_a_slot_keeps_the_age_of_the_due_time() {
    let mut world = with_task(DueTime::After(10));
    let due_at = world.now + 10;
    let make_ready = Command::MakeReady { shard: shard(task_id(1)) };
    assert_eq!(world.run(make_ready.clone()), refused(Refusal::NotDue { due_at }));
    world.now += 500;
    world.run(make_ready.clone());
    assert_eq!(world.task(task_id(1)).shards[0].phase, Phase::Ready { since: due_at });
    assert_eq!(world.run(make_ready), refused(Refusal::NotWaiting));
    world.grant(task_id(1), 1, "a");
}

#[test]
fn a_nonce_is_spent_once_and_forgotten_after_its_window() {
    let mut world = World::ready();
    let with = |task, expires_at| {
        Command::Submit(Box::new(Submit {
            task: task_id(task),
            spec: spec(),
            due: DueTime::After(0),
            claim: Some(Claim { nonce: [9; 16], expires_at }),
            idempotency: None,
        }))
    };
    let expires_at = world.now + 1_000;
    assert!(matches!(world.run(with(1, expires_at)), Reply::Submitted { .. }));
    assert_eq!(world.run(with(2, expires_at)), refused(Refusal::NonceReplayed));
    let cancel = |world: &World| Command::Cancel {
        task: task_id(1),
        caller: None,
        claim: Some(Claim { nonce: [9; 16], expires_at: world.now + 1_000 }),
    };
    assert_eq!(world.run(cancel(&world.clone())), refused(Refusal::NonceReplayed));
    assert_eq!(world.task(task_id(1)).state.status, Status::Pending);
    world.now += 1_001;
    assert!(matches!(world.run(with(3, world.now + 1_000)), Reply::Submitted { .. }));
}

#[test]
fn a_nonce_is_remembered_exactly_as_long_as_it_lives_whatever_span_it_lies_in() {
    use orloj_model::apply::{CLAIM_LIFE_MS, NONCE_SPAN_MS};
    let spend = |expires_at| Command::Spend { claim: Claim { nonce: [9; 16], expires_at } };
    let base = (World::ready().now / NONCE_SPAN_MS + 1) * NONCE_SPAN_MS;
    for spent_at in [base - 1, base, base + 1, base + NONCE_SPAN_MS / 2, base + NONCE_SPAN_MS - 1] {
        for life in [1, 60_000, 360_000, CLAIM_LIFE_MS - 1, CLAIM_LIFE_MS] {
            let mut world = World::ready();
            world.now = spent_at;
            let expires_at = spent_at + life;
            assert_eq!(world.run(spend(expires_at)), Reply::Done);
            let again = |at, other_life: i64| {
                let mut world = World { now: at, ..world.clone() };
                world.run(spend(at + other_life))
            };
            for at in [spent_at, spent_at + life / 2, expires_at - 1] {
                for other_life in [1, 360_000, CLAIM_LIFE_MS] {
                    let word = again(at, other_life);
                    assert_eq!(word, refused(Refusal::NonceReplayed), "{spent_at} {life} {at} {other_life}");
                }
            }
            assert_eq!(again(expires_at, 360_000), Reply::Done, "{spent_at} {life}");
        }
    }
}

#[test]
fn a_request_of_a_clock_far_ahead_is_still_taken_once() {
    let mut world = World::ready();
    let expires_at = world.now + 5 * orloj_model::apply::CLAIM_LIFE_MS;
    let spend = Command::Spend { claim: Claim { nonce: [9; 16], expires_at } };
    assert_eq!(world.run(spend.clone()), Reply::Done);
    while world.now < expires_at - 1 {
        assert_eq!(world.run(spend.clone()), refused(Refusal::NonceReplayed));
        world.now = (world.now + 100_000).min(expires_at - 1);
    }
    world.now = expires_at;
    assert_eq!(world.run(spend), Reply::Done);
}

#[test]
fn expired_nonces_are_forgotten_with_their_span_and_keys_under_load() {
    use orloj_model::schema::{IdempotencyTable, NonceTable};
    use orloj_model::tables::ReadExt as _;
    let mut world = World::ready();
    let submit = |world: &mut World, number: u16| {
        let byte = (number % 256) as u8;
        let claim = Claim { nonce: [byte; 16], expires_at: world.now + 1_000 };
        let mut id = task_id(1);
        id.0[..2].copy_from_slice(&[byte, (number / 256) as u8]);
        let key = Idempotency { key: format!("k{number}"), fingerprint: [1; 32] };
        let submit = Submit {
            task: id,
            spec: spec(),
            due: DueTime::After(0),
            claim: Some(claim),
            idempotency: Some(key),
        };
        assert!(matches!(world.run(Command::Submit(Box::new(submit))), Reply::Submitted { .. }));
    };
    for number in 0..256 {
        submit(&mut world, number);
    }
    world.now += orloj_model::apply::IDEMPOTENCY_TTL_MS + 1;
    for number in 256..512 {
        submit(&mut world, number);
    }
    assert_eq!(world.tables.keys::<NonceTable>(&[], &[0xff; 40], 1_000).unwrap().len(), 256);
    assert_eq!(world.tables.keys::<IdempotencyTable>(&[], &[0xff; 40], 1_000).unwrap().len(), 256);
}

#[test]
fn an_idempotency_key_stands_for_one_task_of_its_caller() {
    let mut world = World::ready();
    let with = |task, key: &str, print| {
        Command::Submit(Box::new(Submit {
            task: task_id(task),
            spec: spec(),
            due: DueTime::After(0),
            claim: None,
            idempotency: Some(Idempotency { key: key.into(), fingerprint: [print; 32] }),
        }))
    };
    assert!(matches!(world.run(with(1, "k", 1)), Reply::Submitted { replayed: false, .. }));
    let again = world.run(with(2, "k", 1));
    assert!(matches!(again, Reply::Submitted { task, replayed: true, .. } if task == task_id(1)));
    assert_eq!(world.run(with(3, "k", 2)), refused(Refusal::IdempotencyKeyReused));
    world.run(Command::Cancel { task: task_id(1), caller: None, claim: None });
    let after = world.run(with(4, "k", 1));
    assert!(matches!(after, Reply::Submitted { status: Status::Cancelled, replayed: true, .. }));
    // What a look into the tables tells is what a submission at that instant would come to.
    let repeats = |world: &World, print, until| {
        let key = Idempotency { key: "k".into(), fingerprint: [print; 32] };
        orloj_model::query::is_repeated(&world.tables, &caller(), &key, until).unwrap()
    };
    let end = world.now + orloj_model::apply::IDEMPOTENCY_TTL_MS;
    assert!(repeats(&world, 1, end - 1) && !repeats(&world, 1, end) && !repeats(&world, 2, end - 1));
    world.now = end;
    assert!(matches!(world.run(with(5, "k", 2)), Reply::Submitted { replayed: false, .. }));
}

#[test]
fn another_callers_task_is_as_if_it_were_not_there() {
    let mut world = with_task(DueTime::After(0));
    let stranger = orloj_model::id::CallerId::new("stranger").ok();
    let cancel = Command::Cancel { task: task_id(1), caller: stranger, claim: None };
    assert_eq!(world.run(cancel), refused(Refusal::TaskNotFound));
}

#[test]
fn an_older_process_under_an_executors_id_is_refused() {
    let mut world = World::ready();
    world.run(Command::RegisterExecutor(registration("a", 7)));
    let older = world.run(Command::RegisterExecutor(registration("a", 6)));
    assert_eq!(older, refused(Refusal::IncarnationSuperseded { current: 7 }));
    let gone = world.run(Command::ExecutorGone { executor: executor("a"), incarnation: 6 });
    assert_eq!(gone, refused(Refusal::IncarnationSuperseded { current: 7 }));
    let digest = world.digest();
    assert_eq!(world.run(Command::RegisterExecutor(registration("a", 7))), Reply::Done);
    assert_eq!(world.digest(), digest, "registering again changes nothing");
}

#[test]
fn b60_an_executor_that_registered_from_the_future_keeps_its_successor_out_only_while_it_is_there() {
    let over =
        |world: &mut World, fence| world.run(Command::Lose { shard: shard(task_id(1)), fence, chance: 0 });
    type Goes = fn(&mut World, u64) -> Reply;
    let goes: [Goes; 2] = [
        |world, life| world.run(Command::ExecutorGone { executor: executor("a"), incarnation: life }),
        |world, life| world.run(Command::ExecutorLeft { executor: executor("a"), incarnation: life }),
    ];
    for go in goes {
        // A clock that is a year ahead, then right again, in a folder that was lost.
        let mut world = with_task(DueTime::After(0));
        let now = u64::try_from(world.now).unwrap();
        let future = now + 365 * 86_400_000;
        world.run(Command::RegisterExecutor(registration("a", future)));
        let Reply::Granted { fence } = world.run(grant(task_id(1), 1, "a", future)) else {
            panic!("not granted")
        };
        let again = Command::RegisterExecutor(registration("a", now));
        let kept_out = refused(Refusal::IncarnationSuperseded { current: future });
        assert_eq!(world.run(again.clone()), kept_out, "a live one wins");
        world.run(Command::Drain { executor: executor("a"), on: true });
        assert_eq!(world.run(again.clone()), kept_out, "also one that drains");
        assert_eq!(over(&mut world, fence), refused(Refusal::ExecutorAlive));
        go(&mut world, future);
        assert_eq!(world.run(again), Reply::Done);
        assert!(matches!(over(&mut world, fence), Reply::Task { status: Status::Pending, .. }));
        world.now += 60_000;
        let granted = world.run(grant(task_id(1), 2, "a", now));
        assert!(matches!(granted, Reply::Granted { .. }), "{granted:?}");
        // Whoever was believed gone and is not comes back as the later one.
        assert_eq!(world.run(Command::RegisterExecutor(registration("a", future))), Reply::Done);
        assert_eq!(
            world.run(Command::RegisterExecutor(registration("a", now))),
            refused(Refusal::IncarnationSuperseded { current: future })
        );
    }
}

#[test]
fn a_checkpoint_is_kept_for_the_next_attempt_and_only_from_the_holder() {
    let mut world = with_task(DueTime::After(0));
    let fence = world.grant(task_id(1), 1, "a");
    let save = |fence, byte| Command::Save {
        shard: shard(task_id(1)),
        fence,
        progress: None,
        checkpoint: Some(vec![byte]),
    };
    world.run(save(fence, 1));
    assert_eq!(world.run(save(fence - 1, 2)), refused(Refusal::StaleFence));
    world.run(report(task_id(1), 1, fence, "a", FAILED));
    assert_eq!(world.run(save(fence, 3)), refused(Refusal::StaleFence));
    assert_eq!(world.task(task_id(1)).shards[0].checkpoint, Some(vec![1]));
}

#[test]
fn the_shards_of_a_task_are_leased_and_retried_on_their_own() {
    let mut world = World::ready();
    world.run(submit(task_id(1), TaskSpec { shard_total: 2, ..spec() }, DueTime::After(0)));
    let of = |shard| orloj_model::command::ShardRef { task: task_id(1), shard };
    let grant = |shard, attempt| Command::Grant {
        shard: of(shard),
        attempt,
        executor: executor("a"),
        incarnation: 1,
    };
    let replies = world.run_all(vec![grant(0, 1), grant(1, 1)]);
    let fence = world.index;
    assert_eq!(replies, vec![Reply::Granted { fence }, Reply::Granted { fence }]);
    let report = |shard, attempt, fence, outcome| match report(task_id(1), attempt, fence, "a", outcome) {
        Command::Report(mut report) => {
            report.shard = of(shard);
            Command::Report(report)
        }
        other => other,
    };
    let reply = world.run(report(0, 1, fence, FAILED));
    assert!(matches!(reply, Reply::Task { status: Status::Running, .. }), "{reply:?}");
    let reply = world.run(report(1, 1, fence, Outcome::Succeeded));
    assert!(matches!(reply, Reply::Task { status: Status::Pending, .. }), "{reply:?}");
    world.now += 10_000;
    world.run(grant(0, 2));
    let fence = world.index;
    let reply = world.run(report(0, 2, fence, Outcome::Succeeded));
    assert!(matches!(reply, Reply::Task { status: Status::Success, .. }), "{reply:?}");
}

#[test]
fn a_value_outside_its_bounds_never_enters_the_table() {
    let mut world = World::ready();
    for bad in [
        TaskSpec { shard_total: 0, ..spec() },
        TaskSpec { shard_total: 1025, ..spec() },
        TaskSpec { priority: 10, ..spec() },
    ] {
        assert_eq!(world.run(submit(task_id(1), bad, DueTime::After(0))), refused(Refusal::Invalid));
    }
    let vast = world.run(submit(task_id(2), spec(), DueTime::After(u64::MAX)));
    assert!(matches!(vast, Reply::Submitted { due_at: i64::MAX, .. }), "{vast:?}");
}

#[test]
fn the_same_id_makes_one_task() {
    let mut world = with_task(DueTime::After(0));
    let again = world.run(submit(task_id(1), spec(), DueTime::After(0)));
    assert_eq!(again, refused(Refusal::TaskExists));
}
