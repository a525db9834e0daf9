//! The life of a callback: what enters the outbox when, how often it is sent, and what ends it.

mod common;

use common::*;
use orloj_model::callback::{
    self, Callback, FailureKind, MAX_SENDS, SEND_LIMIT_MS, SENDS_KEPT, SendOutcome, Stage,
};
use orloj_model::command::{CallbackCommand, Claim, Command, DueTime};
use orloj_model::id::{CallerId, TaskId};
use orloj_model::task::{Outcome, Status, TaskSpec};
use orloj_model::{Event, Refusal, Reply, query};
use proptest::prelude::*;

const URL: &str = "https://hooks.example.com/cb";
const TIMEOUT: SendOutcome =
    SendOutcome::Failed { kind: FailureKind::Timeout, status: None, retry_after_ms: None };
const DELIVERED: SendOutcome = SendOutcome::Delivered { status: 204 };

fn with_callback() -> TaskSpec {
    TaskSpec { callback_url: Some(URL.to_owned()), business_key: None, ..spec() }
}

fn callback_of(world: &World, task: TaskId) -> Callback {
    query::callback(&world.tables, task).expect("maps do not fail").expect("it has a callback")
}

fn command(command: CallbackCommand) -> Command {
    Command::Callback(Box::new(command))
}

fn start(task: TaskId, series: u32, number: u8) -> Command {
    command(CallbackCommand::Start { task, series, number, chance: 500 })
}

fn finish(task: TaskId, series: u32, number: u8, outcome: SendOutcome) -> Command {
    command(CallbackCommand::Finish { task, series, number, outcome, chance: 500 })
}

fn redeliver(task: TaskId) -> Command {
    command(CallbackCommand::Redeliver { task, caller: caller(), claim: None })
}

fn refused(refusal: Refusal) -> Reply {
    Reply::Refused(refusal)
}

/// A world in which task 1 has succeeded, with its callback in the outbox.
fn ended() -> (World, TaskId) {
    let (mut world, task) = (World::ready(), task_id(1));
    world.run(submit(task, with_callback(), DueTime::After(0)));
    let fence = world.grant(task, 1, "a");
    assert_eq!(callback_of(&world, task).stage, Stage::Waiting);
    world.run(report(task, 1, fence, "a", Outcome::Succeeded));
    (world, task)
}

/// Sends once and fails, at the instant at which it is due.
fn fail(world: &mut World, task: TaskId, number: u8, outcome: SendOutcome) {
    let before = callback_of(world, task);
    world.now = before.next_at.expect("it is in the outbox");
    assert_eq!(world.run(start(task, before.series, number)), Reply::Done, "{number}");
    assert_eq!(world.run(finish(task, before.series, number, outcome)), Reply::Done, "{number}");
}

#[test]
fn b113_the_entry_that_ends_the_task_puts_its_callback_into_the_outbox() {
    let (world, task) = ended();
    let row = callback_of(&world, task);
    assert_eq!((row.stage, row.next_at, row.sent), (Stage::Pending, Some(world.now), 0));
    let lane = callback::lane(URL, &caller());
    let due = Event::CallbackDue { lane: lane.clone(), at: world.now };
    assert!(world.events.contains(&due), "{:?}", world.events);
    let outbox = query::callbacks_due(&world.tables, &lane, world.now, 9).expect("maps");
    assert_eq!(outbox.iter().map(|key| key.task).collect::<Vec<_>>(), [task]);
    let before = query::callbacks_due(&world.tables, &lane, world.now - 1, 9).expect("maps");
    assert_eq!(before, []);
}

#[test]
fn callers_wait_in_lanes_of_their_own_for_the_same_host() {
    let (mut world, task) = ended();
    let other = CallerId::new("other").expect("a valid name");
    let foreign = task_id(2);
    world.run(submit(foreign, TaskSpec { caller: other.clone(), ..with_callback() }, DueTime::After(0)));
    world.run(Command::Cancel { task: foreign, caller: None, claim: None });
    for (who, expected) in [(caller(), task), (other, foreign)] {
        let lane = callback::lane(URL, &who);
        let found = query::callbacks_of_lane(&world.tables, &lane, 9).expect("maps do not fail");
        assert_eq!(found.iter().map(|key| key.task).collect::<Vec<_>>(), [expected], "{lane}");
    }
}

#[test]
fn every_way_in_which_a_task_ends_is_announced() {
    let mut world = World::ready();
    type End = fn(&mut World, TaskId);
    let ends: [(u8, End); 3] = [
        (1, |world, task| {
            world.run(Command::Cancel { task, caller: None, claim: None });
        }),
        (2, |world, task| {
            world.now += 1_000;
            world.run(Command::Expire { task });
        }),
        (3, |world, task| {
            let fence = world.grant(task, 1, "a");
            let outcome = Outcome::Failed { retryable: false, retry_after_ms: None };
            world.run(report(task, 1, fence, "a", outcome));
        }),
    ];
    for (number, end) in ends {
        let task = task_id(number);
        let expire_at = (number == 2).then_some(world.now + 500);
        world.run(submit(task, TaskSpec { expire_at, ..with_callback() }, DueTime::After(0)));
        end(&mut world, task);
        assert!(world.task(task).state.status.is_terminal());
        assert_eq!(callback_of(&world, task).stage, Stage::Pending, "{number}");
    }
}

#[test]
fn nothing_is_sent_before_the_task_has_ended() {
    let (mut world, task) = (World::ready(), task_id(1));
    world.run(submit(task, with_callback(), DueTime::After(0)));
    assert_eq!(world.run(start(task, 1, 1)), refused(Refusal::StaleCallback));
    world.grant(task, 1, "a");
    assert_eq!(world.run(start(task, 1, 1)), refused(Refusal::StaleCallback));
    assert_eq!(world.run(redeliver(task)), refused(Refusal::CallbackOpen));
}

#[test]
fn a_task_without_an_address_has_no_callback() {
    let (mut world, task) = (World::ready(), task_id(1));
    world.run(submit(task, spec(), DueTime::After(0)));
    world.run(Command::Cancel { task, caller: None, claim: None });
    assert_eq!(query::callback(&world.tables, task).expect("maps"), None);
    assert_eq!(world.run(start(task, 1, 1)), refused(Refusal::CallbackNotFound));
    assert_eq!(world.run(redeliver(task)), refused(Refusal::CallbackNotFound));
}

#[test]
fn retries_come_after_5_30_and_180_seconds_and_never_more_than_four_sends() {
    let (mut world, task) = ended();
    for (number, delay) in [(1, 5_000), (2, 30_000), (3, 180_000)] {
        fail(&mut world, task, number, TIMEOUT);
        let row = callback_of(&world, task);
        assert_eq!((row.stage, row.next_at), (Stage::Pending, Some(world.now + delay)), "{number}");
        let early = world.run(start(task, 1, number + 1));
        assert_eq!(early, refused(Refusal::NotDue { due_at: world.now + delay }));
    }
    fail(&mut world, task, 4, TIMEOUT);
    let row = callback_of(&world, task);
    assert_eq!((row.stage, row.sends.len()), (Stage::Failed, 4));
    world.now += 1_000_000;
    for number in [4, 5] {
        assert_eq!(world.run(start(task, 1, number)), refused(Refusal::StaleCallback));
    }
}

#[test]
fn a_receiver_that_is_busy_says_when_and_one_that_is_gone_is_left_alone() {
    let (mut world, task) = ended();
    let busy =
        SendOutcome::Failed { kind: FailureKind::Status, status: Some(503), retry_after_ms: Some(90_000) };
    fail(&mut world, task, 1, busy);
    assert_eq!(callback_of(&world, task).next_at, Some(world.now + 90_000));
    let gone = SendOutcome::Failed { kind: FailureKind::Status, status: Some(410), retry_after_ms: Some(1) };
    fail(&mut world, task, 2, gone);
    assert_eq!(callback_of(&world, task).stage, Stage::Failed);
    let (mut world, task) = ended();
    fail(&mut world, task, 1, SendOutcome::failed(FailureKind::Blocked));
    assert_eq!(callback_of(&world, task).stage, Stage::Failed);
}

#[test]
fn a_send_that_its_leader_did_not_survive_counts() {
    let (mut world, task) = ended();
    assert_eq!(world.run(start(task, 1, 1)), Reply::Done);
    // The same send is not started twice, by whomever.
    assert!(matches!(world.run(start(task, 1, 1)), Reply::Refused(Refusal::NotDue { .. })));
    world.run(Command::BeginRound { leader: 2 });
    world.round = 2;
    let counts_at = callback_of(&world, task).next_at.expect("it is in the outbox");
    assert_eq!(counts_at, world.now + SEND_LIMIT_MS as i64 + 5_000);
    world.now = counts_at;
    assert_eq!(world.run(start(task, 1, 1)), refused(Refusal::StaleCallback));
    assert_eq!(world.run(start(task, 1, 2)), Reply::Done);
    let row = callback_of(&world, task);
    assert_eq!(row.sends[0].outcome, Some(SendOutcome::failed(FailureKind::Unknown)));
    assert_eq!((row.sends[0].round, row.sends[1].round), (1, 2));
    // What the former leader says of its send comes too late.
    assert_eq!(world.run(finish(task, 1, 1, DELIVERED)), refused(Refusal::StaleCallback));
    assert_eq!(world.run(finish(task, 1, 2, DELIVERED)), Reply::Done);
    assert_eq!(world.run(finish(task, 1, 2, DELIVERED)), refused(Refusal::StaleCallback));
    assert_eq!(callback_of(&world, task).stage, Stage::Delivered);
}

#[test]
fn the_last_send_of_a_dead_leader_is_closed_by_the_next_one() {
    let (mut world, task) = ended();
    for number in 1..MAX_SENDS {
        fail(&mut world, task, number, TIMEOUT);
    }
    world.now = callback_of(&world, task).next_at.expect("it is in the outbox");
    assert_eq!(world.run(start(task, 1, MAX_SENDS)), Reply::Done);
    world.now += SEND_LIMIT_MS as i64;
    assert_eq!(callback_of(&world, task).next_at, Some(world.now));
    let unknown = SendOutcome::failed(FailureKind::Unknown);
    assert_eq!(world.run(finish(task, 1, MAX_SENDS, unknown)), Reply::Done);
    assert_eq!(callback_of(&world, task).stage, Stage::Failed);
}

#[test]
fn a_former_leader_starts_nothing() {
    let (mut world, task) = ended();
    world.run(Command::BeginRound { leader: 2 });
    assert_eq!(world.run(start(task, 1, 1)), refused(Refusal::StaleRound { current: 2 }));
}

#[test]
fn redelivery_begins_anew_and_spends_its_nonce() {
    let (mut world, task) = ended();
    assert_eq!(world.run(redeliver(task)), refused(Refusal::CallbackOpen));
    fail(&mut world, task, 1, DELIVERED);
    let claim = Some(Claim { nonce: [7; 16], expires_at: world.now + 1_000 });
    let again = command(CallbackCommand::Redeliver { task, caller: caller(), claim });
    assert_eq!(world.run(again.clone()), Reply::Done);
    assert_eq!(world.run(again), refused(Refusal::NonceReplayed));
    let row = callback_of(&world, task);
    assert_eq!((row.stage, row.series, row.sent, row.next_at), (Stage::Pending, 2, 0, Some(world.now)));
    assert_eq!(world.run(start(task, 1, 2)), refused(Refusal::StaleCallback));
    for number in 1..=MAX_SENDS {
        fail(&mut world, task, number, TIMEOUT);
    }
    assert_eq!(callback_of(&world, task).stage, Stage::Failed);
    let other = CallerId::new("other").expect("a valid name");
    let foreign = command(CallbackCommand::Redeliver { task, caller: other, claim: None });
    assert_eq!(world.run(foreign), refused(Refusal::TaskNotFound));
}

#[test]
fn b113_what_every_send_failed_of_waits_to_be_sent_again_and_then_has_all_its_sends_ahead() {
    let (mut world, task) = ended();
    (1..=MAX_SENDS).for_each(|number| fail(&mut world, task, number, TIMEOUT));
    assert_eq!(callback_of(&world, task).stage, Stage::Failed);
    // The receiver is away for days: nothing is forgotten, and nothing is sent.
    world.now += 3 * 86_400_000;
    let lane = callback::lane(URL, &caller());
    assert_eq!(query::callbacks_due(&world.tables, &lane, world.now, 9).expect("maps"), []);
    assert_eq!(world.run(redeliver(task)), Reply::Done);
    let row = callback_of(&world, task);
    assert_eq!((row.stage, row.series, row.sent), (Stage::Pending, 2, 0));
    (1..MAX_SENDS).for_each(|number| fail(&mut world, task, number, TIMEOUT));
    let last = callback_of(&world, task);
    world.now = last.next_at.expect("it is in the outbox");
    assert_eq!(world.run(start(task, 2, MAX_SENDS)), Reply::Done);
    assert_eq!(world.run(finish(task, 2, MAX_SENDS, DELIVERED)), Reply::Done);
    let row = callback_of(&world, task);
    assert_eq!((row.stage, row.sends.len()), (Stage::Delivered, usize::from(MAX_SENDS) * 2));
}

#[test]
fn the_history_is_bounded() {
    let (mut world, task) = ended();
    for _ in 0..SENDS_KEPT {
        fail(&mut world, task, 1, TIMEOUT);
        fail(&mut world, task, 2, DELIVERED);
        world.run(redeliver(task));
    }
    assert_eq!(callback_of(&world, task).sends.len(), SENDS_KEPT);
}

#[derive(Debug, Clone)]
enum Step {
    Submit { task: u8, host: u8 },
    Work { task: u8, succeeds: bool },
    Cancel { task: u8 },
    Start { task: u8, skew: i8, series_skew: u8 },
    Finish { task: u8, skew: i8, outcome: SendOutcome },
    Redeliver { task: u8 },
    Elect,
    Wait { ms: i64 },
}

fn outcome() -> impl Strategy<Value = SendOutcome> {
    let failed =
        (prop_oneof![Just(None), Just(Some(410)), Just(Some(503))], proptest::option::of(0..700_000u64));
    prop_oneof![
        Just(DELIVERED),
        Just(SendOutcome::failed(FailureKind::Blocked)),
        failed.prop_map(|(status, retry_after_ms)| SendOutcome::Failed {
            kind: FailureKind::Status,
            status,
            retry_after_ms
        }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let task = 1..4u8;
    prop_oneof![
        2 => (task.clone(), 0..2u8).prop_map(|(task, host)| Step::Submit { task, host }),
        2 => (task.clone(), any::<bool>()).prop_map(|(task, succeeds)| Step::Work { task, succeeds }),
        1 => task.clone().prop_map(|task| Step::Cancel { task }),
        8 => (task.clone(), -1..2i8, 0..4u8).prop_map(|(task, skew, series)| Step::Start {
            task, skew, series_skew: u8::from(series == 0) }),
        8 => (task.clone(), 0..2i8, outcome()).prop_map(|(task, skew, outcome)| Step::Finish { task, skew, outcome }),
        1 => task.prop_map(|task| Step::Redeliver { task }),
        1 => Just(Step::Elect),
        6 => (0..250_000i64).prop_map(|ms| Step::Wait { ms }),
    ]
}

/// What one send of one delivery came to, beside what the tables say.
#[derive(Default)]
struct Seen {
    /// Starts that were let through, by (task, series).
    starts: std::collections::BTreeMap<(TaskId, u32), u8>,
}

fn take(world: &mut World, seen: &mut Seen, step: &Step) {
    let row = |world: &World, task| query::callback(&world.tables, task).expect("maps do not fail");
    match *step {
        Step::Submit { task, host } => {
            let url = format!("https://h{host}.example.com/");
            let spec = TaskSpec { callback_url: Some(url), business_key: None, ..spec() };
            world.run(submit(task_id(task), spec, DueTime::After(0)));
        }
        Step::Work { task, succeeds } => {
            let next = query::task(&world.tables, task_id(task)).expect("maps do not fail");
            let Some(view) = next else { return };
            let attempt = view.shards[0].next_attempt;
            if let Reply::Granted { fence } = world.run(grant(task_id(task), attempt, "a", 1)) {
                let outcome = if succeeds { Outcome::Succeeded } else { FAILED };
                world.run(report(task_id(task), attempt, fence, "a", outcome));
            }
        }
        Step::Cancel { task } => {
            world.run(Command::Cancel { task: task_id(task), caller: None, claim: None });
        }
        Step::Start { task, skew, series_skew } => {
            let task = task_id(task);
            let Some(row) = row(world, task) else { return };
            let series = row.series + u32::from(series_skew);
            let number = row.sent.saturating_add_signed(1 + skew);
            let ended = world.task(task).state.status.is_terminal();
            if world.run(start(task, series, number)) == Reply::Done {
                assert!(ended, "a send before the end of its task");
                assert_eq!(series, row.series);
                *seen.starts.entry((task, series)).or_default() += 1;
            }
        }
        Step::Finish { task, skew, outcome } => {
            let Some(row) = row(world, task_id(task)) else { return };
            let number = row.sent.saturating_add_signed(skew);
            world.run(finish(task_id(task), row.series, number, outcome));
        }
        Step::Redeliver { task } => {
            world.run(redeliver(task_id(task)));
        }
        Step::Elect => {
            world.run(Command::BeginRound { leader: 2 });
            world.round += 1;
        }
        Step::Wait { ms } => world.now += ms,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_a_delivery_has_at_most_four_sends(steps in prop::collection::vec(step(), 1..120)) {
        let (mut world, mut seen) = (World::ready(), Seen::default());
        for step in &steps {
            let twin = world.clone();
            take(&mut world, &mut seen, step);
            let mut again = twin;
            let mut other = Seen::default();
            take(&mut again, &mut other, step);
            prop_assert_eq!(world.digest(), again.digest(), "two replicas differ");
        }
        for (delivery, starts) in &seen.starts {
            prop_assert!(*starts <= MAX_SENDS, "{:?} was sent {} times", delivery, starts);
        }
        // Every terminal task's callback is decided, or will be: it is in the outbox.
        for number in 1..4 {
            let task = task_id(number);
            if let Some(row) = query::callback(&world.tables, task).expect("maps do not fail") {
                let status = world.task(task).state.status;
                prop_assert_eq!(status.is_terminal(), row.stage != Stage::Waiting);
                prop_assert!(status != Status::Success || row.stage != Stage::Failed || row.sent > 0);
            }
        }
    }
}
