//! The leader's mind against scripts: what it asks for after what it was told.

use std::sync::Arc;

use orloj_model::executor::{Executor, ExecutorState};
use orloj_model::id::TaskId;
use orloj_model::key::{DueKey, RunningKey};
use orloj_model::schema::RunningRow;
use orloj_model::task::{Outcome, Status};
use orloj_model::{Event, Refusal, Reply};
use orloj_wire::protocol::{AttemptRef, Heartbeat, Held as Holding, HeldState, Holdings, RunVerdict};

use super::*;
use crate::testing::{self, executor_row as row};

const START: Now = Now { mono_ms: 1_000, wall_ms: 1_000_000, cluster_ms: 1_000_000 };

fn at(ms: u64) -> Now {
    let ahead = ms as i64;
    Now { mono_ms: START.mono_ms + ms, wall_ms: START.wall_ms + ahead, cluster_ms: START.cluster_ms + ahead }
}

fn shard(number: u16) -> ShardKey {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    ShardKey { task: TaskId(bytes), shard: 0 }
}

fn id(name: &str) -> ExecutorId {
    ExecutorId::new(name).expect("a valid name")
}

fn spec(timeout_ms: Option<u64>) -> TaskSpec {
    TaskSpec { timeout_ms, ..testing::spec() }
}

/// A leader in round 7 with its window loaded.
fn leader(executors: &[(&str, u32)]) -> Core {
    let mut core = Core::new(Options::default(), 7, START);
    for (name, slots) in executors {
        core.executor_row(row(name, 1, *slots), START);
        knows_round(&mut core, name, &[], START);
    }
    let (_, until) = core.window(START).expect("nothing is loaded yet");
    core.load_window(until, &[], &[], START);
    core.take_steps();
    core
}

fn knows_round(core: &mut Core, name: &str, holding: &[Holding], now: Now) -> HeartbeatAckOf {
    let ack = core.heartbeat(beat(name, 1, holding), now);
    HeartbeatAckOf { register: ack.register, superseded: ack.superseded, stale: ack.stale }
}

#[derive(Debug, PartialEq)]
struct HeartbeatAckOf {
    register: bool,
    superseded: bool,
    stale: Vec<AttemptRef>,
}

fn beat(name: &str, incarnation: u64, holding: &[Holding]) -> Heartbeat {
    Heartbeat { holding: holding.to_vec(), ..testing::heartbeat(name, incarnation, 1) }
}

fn holding(lease: Lease, running_ms: Option<u64>) -> Holding {
    Holding { attempt: attempt_ref(&lease), state: HeldState::Running, running_ms }
}

/// What a first life answers to an announcement.
fn holds(holding: &[Holding]) -> Holdings {
    let holding = holding.to_vec();
    Holdings { incarnation: 1, round: 7, holding, free_slots: 1, free_places: 1, draining: false }
}

/// The shard is due now; its rows are as a fresh submission has them.
fn due(core: &mut Core, number: u16, now: Now) {
    due_with(core, number, None, now);
}

fn due_with(core: &mut Core, number: u16, timeout_ms: Option<u64>, now: Now) {
    core.event(&Event::Waiting { shard: shard(number), due_at: now.wall_ms, clock: DueClock::Cluster }, now);
    core.advance(now);
    read(core, timeout_ms, now);
}

/// Answers the core's wish to read rows.
fn read(core: &mut Core, timeout_ms: Option<u64>, now: Now) -> Vec<ShardKey> {
    let keys = core.next_due(now);
    for shard in &keys {
        let spec = Arc::new(spec(timeout_ms));
        let (since, broadcast) = (now.wall_ms, false);
        core.ready(
            Candidate { shard: *shard, attempt: 1, since, ready: false, spec, last: None, broadcast },
            now,
        );
    }
    keys
}

fn proposals(core: &mut Core) -> Vec<Command> {
    let steps = core.take_steps();
    steps
        .into_iter()
        .flat_map(|step| match step {
            Step::Propose(commands) => commands,
            _ => Vec::new(),
        })
        .collect()
}

/// Plans, commits every grant under `fence`, and answers with the pushes that follow.
fn plan_and_grant(core: &mut Core, fence: Fence, now: Now) -> Vec<(ExecutorId, Vec<Lease>)> {
    core.plan(now);
    for command in proposals(core) {
        assert!(matches!(command, Command::Grant { .. }), "{command:?}");
        assert!(core.applied(&command, &Reply::Granted { fence }, now));
    }
    core.send(now);
    pushes(core)
}

fn pushes(core: &mut Core) -> Vec<(ExecutorId, Vec<Lease>)> {
    core.take_steps()
        .into_iter()
        .filter_map(|step| match step {
            Step::Push { executor, leases } => Some((executor, leases)),
            _ => None,
        })
        .collect()
}

/// One leased and accepted attempt on executor `a`.
fn running(core: &mut Core, timeout_ms: Option<u64>) -> Lease {
    due_with(core, 1, timeout_ms, at(0));
    let pushes = plan_and_grant(core, 50, at(0));
    let (executor, leases) = pushes.into_iter().next().expect("a push");
    core.pushed(&executor, &leases, &[RunVerdict::Accepted], None, at(0));
    core.take_steps();
    leases[0]
}

#[test]
fn a_due_shard_is_granted_then_pushed_and_never_pushed_before() {
    let mut core = leader(&[("a", 1)]);
    due(&mut core, 1, at(0));
    core.plan(at(0));
    core.send(at(0));
    let steps = core.take_steps();
    assert!(!steps.iter().any(|step| matches!(step, Step::Push { .. })), "{steps:?}");
    let Some(Step::Propose(commands)) = steps.into_iter().next() else { panic!("no proposal") };
    core.applied(&commands[0], &Reply::Granted { fence: 9 }, at(1));
    core.send(at(1));
    assert_eq!(pushes(&mut core), vec![(id("a"), vec![Lease { shard: shard(1), attempt: 1, fence: 9 }])]);
    assert_eq!(core.counts().held, 1);
}

#[test]
fn a_full_executor_gets_nothing_and_a_freed_slot_takes_the_next() {
    let mut core = leader(&[("a", 1)]);
    due(&mut core, 1, at(0));
    due(&mut core, 2, at(1));
    let pushes = plan_and_grant(&mut core, 9, at(1));
    let first = pushes[0].1[0];
    assert_eq!((pushes.len(), core.counts().waiting), (1, 1));
    core.plan(at(2));
    assert_eq!(proposals(&mut core), vec![]);
    let ended = Event::AttemptEnded {
        shard: first.shard,
        executor: id("a"),
        fence: first.fence,
        outcome: Outcome::Succeeded,
    };
    core.event(&ended, at(3));
    core.plan(at(3));
    let second = if first.shard == shard(1) { shard(2) } else { shard(1) };
    let commands = proposals(&mut core);
    assert!(matches!(&commands[..], [Command::Grant { shard, .. }] if ShardKey::from(*shard) == second));
}

#[test]
fn the_slot_of_a_reported_attempt_is_given_away_once_before_its_report_is_committed() {
    let mut core = leader(&[("a", 1)]);
    let lease = running(&mut core, None);
    due(&mut core, 2, at(1));
    due(&mut core, 3, at(1));
    let reported = (lease.shard, Some(lease.attempt), lease.fence);
    core.reported(&id("b"), &[reported]);
    core.reported(&id("a"), &[(lease.shard, None, lease.fence + 1), (shard(2), None, lease.fence)]);
    core.reported(&id("a"), &[(lease.shard, Some(lease.attempt + 1), lease.fence)]);
    core.plan(at(1));
    assert_eq!(proposals(&mut core), vec![], "nothing that it runs is over");
    core.reported(&id("a"), &[reported]);
    core.reported(&id("a"), &[reported]);
    core.plan(at(2));
    let granted = proposals(&mut core);
    assert!(matches!(granted[..], [Command::Grant { .. }]), "{granted:?}");
    assert_eq!(core.counts().held, 1, "its lease goes on");
    let (shard, _, fence) = reported;
    core.event(&Event::AttemptEnded { shard, executor: id("a"), fence, outcome: Outcome::Succeeded }, at(3));
    core.plan(at(3));
    assert_eq!((proposals(&mut core), core.counts().held), (vec![], 0), "there is one slot");
}

#[test]
fn reports_that_find_no_room_in_the_log_make_no_room_for_ever_more_work() {
    let mut core = leader(&[("a", 2)]);
    for number in 1..=9 {
        due(&mut core, number, at(0));
    }
    let mut granted: Vec<Over> = Vec::new();
    // Whatever runs is reported, and no report is committed.
    for _ in 0..5 {
        core.plan(at(1));
        for command in proposals(&mut core) {
            let Command::Grant { shard, attempt, .. } = &command else { panic!("{command:?}") };
            granted.push(((*shard).into(), Some(*attempt), 9));
            assert!(core.applied(&command, &Reply::Granted { fence: 9 }, at(1)));
        }
        core.reported(&id("a"), &granted);
    }
    assert_eq!((granted.len(), core.counts().held), (4, 4), "as many again as it has slots");
    let (shard, _, fence) = granted[0];
    core.event(&Event::AttemptEnded { shard, executor: id("a"), fence, outcome: Outcome::Succeeded }, at(2));
    core.reported(&id("a"), &granted);
    core.plan(at(2));
    assert_eq!(proposals(&mut core).len(), 1, "one is committed, and one more may go ahead");
}

#[test]
fn a_timer_waits_for_the_clock_that_decides() {
    let mut core = leader(&[("a", 1)]);
    let due_at = START.wall_ms + 100;
    for (number, clock) in [(1, DueClock::Wall), (2, DueClock::Cluster)] {
        core.event(&Event::Waiting { shard: shard(number), due_at, clock }, START);
    }
    core.advance(at(99));
    assert_eq!(core.next_due(at(99)), vec![]);
    // The wall clock was set back by an hour; the cluster's time runs on.
    let back = Now { wall_ms: at(110).wall_ms - 3_600_000, ..at(110) };
    assert_eq!(core.advance(back), Some(-3_600_000));
    assert_eq!(core.next_due(back), vec![shard(2)], "a delay is not held up by it");
    let later = Now { wall_ms: due_at + 20, ..at(3_700_000) };
    core.advance(later);
    assert_eq!(core.next_due(later), vec![shard(1)], "an instant waits until the wall clock shows it");
}

#[test]
fn a_grant_that_a_step_back_overtook_waits_for_the_wall_clock() {
    let mut core = leader(&[("a", 1)]);
    due(&mut core, 1, at(0));
    core.plan(at(0));
    let command = proposals(&mut core).remove(0);
    // The wall clock was set back before the entry was stamped; the cluster's time was not.
    let back = |ms| Now { wall_ms: at(ms).wall_ms - 500, ..at(ms) };
    let due_at = START.wall_ms;
    core.applied(&command, &Reply::Refused(Refusal::NotDue { due_at }), back(1));
    for ms in [1, 100, 480] {
        core.advance(back(ms));
        assert_eq!(core.next_due(back(ms)), vec![], "no grant is tried in vain meanwhile");
    }
    core.advance(back(520));
    assert_eq!(core.next_due(back(520)), vec![shard(1)]);
}

#[test]
fn a_slew_too_small_to_be_a_step_makes_nothing_early() {
    let mut core = leader(&[("a", 1)]);
    let due_at = START.wall_ms + 100;
    core.event(&Event::Waiting { shard: shard(1), due_at, clock: DueClock::Wall }, START);
    let slewed = |ms| Now { wall_ms: at(ms).wall_ms - 40, ..at(ms) };
    assert_eq!(core.advance(slewed(110)), None);
    assert_eq!(core.next_due(slewed(110)), vec![], "the wall clock shows 30 ms less");
    core.advance(slewed(160));
    assert_eq!(core.next_due(slewed(160)), vec![shard(1)]);
}

#[test]
fn a_step_forward_goes_out_in_due_order_and_bounded_per_turn() {
    let mut core = leader(&[("a", 1)]);
    let count = 1_000u16;
    for number in 0..count {
        // Inserted backwards.
        let due_at = START.wall_ms + 60_000 - i64::from(number);
        core.event(&Event::Waiting { shard: shard(number), due_at, clock: DueClock::Wall }, START);
    }
    let forward =
        |ms| Now { wall_ms: at(ms).wall_ms + 3_600_000, cluster_ms: at(ms).cluster_ms + 3_600_000, ..at(ms) };
    let (mut order, mut now) = (Vec::new(), 10);
    assert_eq!(core.advance(forward(now)), Some(3_600_000));
    while core.counts().timed > 0 || order.len() < usize::from(count) {
        let mut in_this_tick = core.next_due(forward(now));
        in_this_tick.extend(core.next_due(forward(now + 1)));
        assert!(in_this_tick.len() <= Options::default().due_per_tick, "{}", in_this_tick.len());
        order.extend(in_this_tick);
        now += 10;
        core.advance(forward(now));
        assert!(now < 1_000, "stalled with {} of {count}", order.len());
    }
    let expected: Vec<_> = (0..count).rev().map(shard).collect();
    assert_eq!(order, expected);
    assert_eq!(core.counts().clock_steps, 1);
}

#[test]
fn b101_what_is_overdue_at_an_election_goes_out_in_due_order_and_bounded_per_turn() {
    let mut core = Core::new(Options::default(), 7, START);
    let (_, until) = core.window(START).expect("nothing is loaded yet");
    let overdue: Vec<_> = (0..1_000u16)
        .map(|number| {
            let at = START.wall_ms - 60_000 + i64::from(number);
            DueKey { at, shard: shard(number), clock: DueClock::Cluster }
        })
        .collect();
    core.load_window(until, &overdue, &[], START);
    let (mut order, mut now) = (Vec::new(), 0);
    while order.len() < overdue.len() {
        let mut in_this_tick = core.next_due(at(now));
        in_this_tick.extend(core.next_due(at(now + 1)));
        assert!(in_this_tick.len() <= Options::default().due_per_tick, "{}", in_this_tick.len());
        order.extend(in_this_tick);
        now += 10;
        core.advance(at(now));
        assert!(now < 1_000, "stalled with {}", order.len());
    }
    assert_eq!(order, overdue.iter().map(|key| key.shard).collect::<Vec<_>>());
}

#[test]
fn b71_a_minute_without_any_executor_uses_up_no_try_of_a_hundred_tasks() {
    let mut core = leader(&[]);
    for number in 0..100 {
        due(&mut core, number, at(0));
    }
    for second in 0..60 {
        let now = at(second * 1_000);
        core.advance(now);
        core.tend_executors(now);
        core.plan(now);
        let proposed = proposals(&mut core);
        assert!(!proposed.iter().any(|command| matches!(command, Command::Grant { .. })), "{proposed:?}");
    }
    core.executor_row(row("a", 1, 200), at(60_000));
    knows_round(&mut core, "a", &[], at(60_000));
    core.take_steps();
    core.plan(at(60_000));
    let granted = proposals(&mut core);
    assert_eq!(granted.len(), 100, "each at once");
    assert!(granted.iter().all(|command| matches!(command, Command::Grant { attempt: 1, .. })));
}

#[test]
fn what_is_beyond_the_window_costs_no_timer() {
    let mut core = leader(&[]);
    let year = START.wall_ms + 31_536_000_000;
    for number in 0..1_000 {
        core.event(&Event::Waiting { shard: shard(number), due_at: year, clock: DueClock::Wall }, START);
    }
    assert_eq!((core.counts().timed, core.tracked.len()), (0, 0));
    let near = DueKey { at: year, shard: shard(1), clock: DueClock::Wall };
    let almost = Now { wall_ms: year - 1_000, cluster_ms: year - 1_000, ..at(10) };
    core.advance(almost);
    let (from, until) = core.window(almost).expect("time has passed");
    assert!(from < year && year < until);
    core.load_window(until, &[near], &[], almost);
    assert_eq!(core.counts().timed, 1);
}

#[test]
fn what_found_no_room_is_proposed_again_entry_by_entry_in_its_order() {
    let mut core = leader(&[("a", 1)]);
    let expire = |number: u16| Command::Expire {
        task: TaskId([number.to_be_bytes(); 8].concat().try_into().expect("16 bytes")),
    };
    let commands: Vec<Command> = (0..1_300).map(expire).collect();
    core.not_proposed(commands.clone(), at(0));
    let mut again = Vec::new();
    for right in [512, 512, 276, 0] {
        core.retry();
        let proposed = proposals(&mut core);
        assert_eq!(proposed.len(), right);
        again.extend(proposed);
    }
    assert_eq!(again, commands);
}

#[test]
fn a_refused_grant_goes_back_to_where_it_belongs() {
    let grant = |core: &mut Core| {
        due(core, 1, at(0));
        core.plan(at(0));
        proposals(core).remove(0)
    };
    let mut core = leader(&[("a", 1)]);
    let command = grant(&mut core);
    for refusal in [Refusal::NotWaiting, Refusal::TaskNotFound] {
        core.applied(&command, &Reply::Refused(refusal), at(1));
        assert_eq!((core.counts().granting, core.counts().waiting), (0, 0));
        assert_eq!(
            core.next_due(at(1)),
            [shard(1)],
            "what its rows say by now may have been told before this answer"
        );
        core.not_waiting(shard(1));
        assert_eq!(core.tracked.len(), 0);
        assert_eq!(grant(&mut core), command);
    }
    core.applied(&command, &Reply::Refused(Refusal::Expired), at(1));
    assert_eq!((core.counts().granting, core.tracked.len()), (0, 0), "its own timer ends it");

    let command = grant(&mut core);
    core.applied(&command, &Reply::Refused(Refusal::ExecutorNotOnline), at(1));
    assert_eq!((core.counts().granting, core.counts().waiting), (0, 1));

    let mut core = leader(&[("a", 1)]);
    let command = grant(&mut core);
    core.applied(&command, &Reply::Refused(Refusal::WrongAttempt { next: 3 }), at(1));
    assert_eq!(core.next_due(at(20)), vec![shard(1)], "its rows are read again");

    let mut core = leader(&[("a", 1)]);
    let command = grant(&mut core);
    core.not_proposed(vec![command], at(1));
    assert_eq!((core.counts().granting, core.counts().waiting), (0, 1));
    core.plan(at(2));
    assert_eq!(proposals(&mut core), vec![], "a full log is not asked again and again");
    core.plan(at(200));
    assert_eq!(proposals(&mut core).len(), 1, "the slot is free again");
}

#[test]
fn an_echo_of_what_was_loaded_puts_no_lease_and_no_grant_back() {
    let mut core = leader(&[("a", 2)]);
    let echo = |number| Event::Waiting { shard: shard(number), due_at: 0, clock: DueClock::Cluster };
    // Its submission was applied between the subscription to the events and the load.
    due(&mut core, 1, at(0));
    core.plan(at(0));
    let command = proposals(&mut core).remove(0);
    core.event(&echo(1), at(1));
    assert_eq!(core.next_due(at(20)), vec![]);
    core.applied(&command, &Reply::Granted { fence: 9 }, at(20));
    core.send(at(20));
    let lease = Lease { shard: shard(1), attempt: 1, fence: 9 };
    assert_eq!(pushes(&mut core), vec![(id("a"), vec![lease])]);
    core.event(&echo(1), at(21));
    assert_eq!((core.next_due(at(40)), core.counts().held), (vec![], 1));
    let ack = knows_round(&mut core, "a", &[holding(lease, None)], at(41));
    assert_eq!(ack.stale, vec![], "what has a lease is not stopped");
}

#[test]
fn a_grant_whose_executor_went_before_the_answer_is_taken_back() {
    let another_life = row("a", 2, 1);
    let left = Executor { state: ExecutorState::Left, ..row("a", 1, 1) };
    for gone in [another_life, left] {
        let mut core = leader(&[("a", 1)]);
        due(&mut core, 1, at(0));
        core.plan(at(0));
        let command = proposals(&mut core).remove(0);
        core.executor_row(gone, at(1));
        core.applied(&command, &Reply::Granted { fence: 9 }, at(2));
        core.send(at(2));
        let steps = core.take_steps();
        assert!(!steps.iter().any(|step| matches!(step, Step::Push { .. })), "{steps:?}");
        let back = |command: &Command| matches!(command, Command::Requeue { fence: 9, .. });
        let proposed = |step: &Step| matches!(step, Step::Propose(commands) if commands.iter().any(back));
        assert!(steps.iter().any(proposed), "{steps:?}");
    }
}

#[test]
fn a_new_life_is_not_pushed_what_the_old_one_was_granted() {
    let mut core = leader(&[("a", 1)]);
    due(&mut core, 1, at(0));
    let (executor, leases) = plan_and_grant(&mut core, 9, at(0)).remove(0);
    core.executor_row(row("a", 2, 1), at(1));
    let commands = proposals(&mut core);
    assert!(matches!(&commands[..], [Command::Lose { fence: 9, .. }]), "{commands:?}");
    core.push_failed(&executor, &leases, at(2));
    core.send(at(5_000));
    assert_eq!(pushes(&mut core), vec![]);
}

#[test]
fn an_executor_that_has_heard_a_later_leader_is_told_nothing() {
    let mut core = leader(&[("a", 1)]);
    let foreign = Lease { shard: shard(1), attempt: 1, fence: 99 };
    let beat = Heartbeat { round: 8, ..beat("a", 1, &[holding(foreign, None)]) };
    assert_eq!(core.heartbeat(beat, at(1)).stale, vec![]);
}

#[test]
fn a_heartbeat_of_an_earlier_round_keeps_nobody_alive_and_drains_nobody() {
    let mut core = Core::new(Options::default(), 8, START);
    core.executor_row(row("a", 1, 1), START);
    let earlier = || Heartbeat { draining: true, ..beat("a", 1, &[]) };
    let of_this = || Heartbeat { round: 8, ..beat("a", 1, &[]) };
    assert_eq!(core.heartbeat(earlier(), at(1_000)).round, 8, "it is told of the round");
    let exec = |core: &Core| {
        let exec = core.executor(&id("a")).unwrap();
        (exec.heard_at(), exec.last_heartbeat().is_some(), exec.knows_round())
    };
    assert_eq!(exec(&core), (START.mono_ms, false, false));
    core.heartbeat(of_this(), at(2_000));
    assert_eq!(exec(&core), (at(2_000).mono_ms, true, true));
    core.heartbeat(earlier(), at(3_000));
    assert_eq!(exec(&core).0, at(2_000).mono_ms);
    assert!(!core.executor(&id("a")).unwrap().last_heartbeat().unwrap().draining);
}

#[test]
fn what_a_heartbeat_of_an_earlier_round_holds_takes_no_slot_and_pushes_nothing_again() {
    let mut core = Core::new(Options::default(), 8, START);
    core.executor_row(row("a", 1, 2), START);
    let (_, until) = core.window(START).expect("nothing is loaded yet");
    core.load_window(until, &[], &[], START);
    core.heartbeat(Heartbeat { round: 8, ..beat("a", 1, &[]) }, START);
    core.take_steps();
    let lease = running(&mut core, None);
    // Captured under the leader before this one, and repeated: it holds what has ended, and not what runs by now.
    let ended = Lease { shard: shard(9), attempt: 1, fence: 3 };
    for ms in 1..=5 {
        let ack = core.heartbeat(beat("a", 1, &[holding(ended, Some(1))]), at(ms));
        assert_eq!((ack.round, ack.stale), (8, vec![]), "it is told of the round alone");
    }
    core.send(at(6));
    assert_eq!(pushes(&mut core), vec![], "{lease:?} was accepted, and its executor has said nothing else");
    due(&mut core, 2, at(6));
    core.plan(at(6));
    assert_eq!(proposals(&mut core).len(), 1, "its second slot is free");
}

#[test]
fn a_later_round_ends_the_leader() {
    let mut core = leader(&[("a", 1)]);
    due(&mut core, 1, at(0));
    core.plan(at(0));
    let command = proposals(&mut core).remove(0);
    assert!(!core.applied(&command, &Reply::Refused(Refusal::StaleRound { current: 8 }), at(1)));
}

#[test]
fn a_push_without_an_answer_is_repeated_to_the_same_executor_under_the_same_fence() {
    let mut core = leader(&[("a", 1), ("b", 1)]);
    due(&mut core, 1, at(0));
    let first = plan_and_grant(&mut core, 9, at(0));
    core.push_failed(&first[0].0, &first[0].1, at(0));
    core.send(at(1));
    assert_eq!(pushes(&mut core), vec![], "not before the backoff is over");
    core.send(at(200));
    assert_eq!(pushes(&mut core), first);
    assert_eq!(proposals(&mut core), vec![]);
}

#[test]
fn a_refusal_returns_the_attempt_and_closes_the_executor_for_a_while() {
    let mut core = leader(&[("a", 4)]);
    due(&mut core, 1, at(0));
    let push = plan_and_grant(&mut core, 9, at(0)).remove(0);
    core.pushed(&push.0, &push.1, &[RunVerdict::Refused], Some("queue_full"), at(1));
    let message = "queue_full".to_owned();
    let requeue = Command::Requeue { shard: shard(1).into(), fence: 9, message };
    assert_eq!(proposals(&mut core), vec![requeue]);
    let (executor, outcome) = (id("a"), Outcome::Refused);
    core.event(&Event::AttemptEnded { shard: shard(1), executor, fence: 9, outcome }, at(2));
    due(&mut core, 1, at(2));
    core.plan(at(2));
    assert_eq!(proposals(&mut core), vec![]);
    core.tend_executors(at(600));
    core.plan(at(600));
    assert_eq!(proposals(&mut core).len(), 1);
}

#[test]
fn silence_makes_an_executor_suspect_then_gone_and_its_attempts_lost() {
    let mut core = leader(&[("a", 2)]);
    let lease = running(&mut core, None);
    core.tend_executors(at(15_001));
    due(&mut core, 2, at(15_002));
    core.plan(at(15_002));
    assert_eq!(proposals(&mut core), vec![], "a suspect gets no new work");
    core.tend_executors(at(20_001));
    let gone = Command::ExecutorGone { executor: id("a"), incarnation: 1 };
    assert_eq!(proposals(&mut core), vec![gone]);
    core.tend_executors(at(20_100));
    assert_eq!(proposals(&mut core), vec![], "once");
    core.executor_row(Executor { state: ExecutorState::Offline, ..row("a", 1, 2) }, at(20_101));
    let commands = proposals(&mut core);
    assert!(matches!(&commands[..], [Command::Lose { fence, .. }] if *fence == lease.fence), "{commands:?}");
}

#[test]
fn the_leaders_own_pause_is_not_held_against_the_executors() {
    let mut core = leader(&[("a", 1)]);
    core.forgive(30_000, at(30_000));
    core.tend_executors(at(30_000));
    assert_eq!(proposals(&mut core), vec![]);
}

#[test]
fn a_handler_that_goes_on_without_its_lease_keeps_its_slot() {
    let mut core = leader(&[("a", 1)]);
    let stray = holding(Lease { shard: shard(9), attempt: 1, fence: 3 }, Some(1));
    knows_round(&mut core, "a", std::slice::from_ref(&stray), at(1));
    knows_round(&mut core, "a", std::slice::from_ref(&stray), at(2));
    due(&mut core, 1, at(3));
    core.plan(at(3));
    assert_eq!(proposals(&mut core), vec![], "it would wait behind it");
    knows_round(&mut core, "a", &[], at(4));
    core.plan(at(4));
    assert_eq!(proposals(&mut core).len(), 1);

    let mut core = leader(&[("a", 1)]);
    knows_round(&mut core, "a", std::slice::from_ref(&stray), at(1));
    due(&mut core, 1, at(2));
    core.plan(at(2));
    assert_eq!(proposals(&mut core).len(), 1, "one heartbeat may have crossed the end of an attempt");
}

#[test]
fn an_executor_that_pushes_do_not_reach_gets_no_more_until_one_does() {
    let mut core = leader(&[("a", 2)]);
    due(&mut core, 1, at(0));
    let push = plan_and_grant(&mut core, 9, at(0)).remove(0);
    for _ in 0..5 {
        core.push_failed(&push.0, &push.1, at(0));
    }
    knows_round(&mut core, "a", &[], at(1));
    due(&mut core, 2, at(2));
    core.plan(at(2));
    assert_eq!(proposals(&mut core), vec![]);
    core.pushed(&push.0, &push.1, &[RunVerdict::Accepted], None, at(3));
    core.tend_executors(at(4));
    core.plan(at(4));
    assert_eq!(proposals(&mut core).len(), 1);
}

#[test]
fn a_new_life_ends_the_attempts_of_the_old_one_at_once() {
    let mut core = leader(&[("a", 2)]);
    let lease = running(&mut core, None);
    core.executor_row(row("a", 2, 2), at(10));
    let commands = proposals(&mut core);
    assert!(matches!(&commands[..], [Command::Lose { fence, .. }] if *fence == lease.fence));
}

#[test]
fn heartbeats_tell_who_must_register_and_who_must_go() {
    let mut core = leader(&[("a", 1)]);
    assert!(core.heartbeat(beat("nobody", 1, &[]), at(1)).register);
    assert!(core.heartbeat(beat("a", 2, &[]), at(1)).register);
    core.executor_row(row("a", 3, 1), at(1));
    assert!(core.heartbeat(beat("a", 2, &[]), at(1)).superseded);
    core.executor_row(Executor { state: ExecutorState::Offline, ..row("a", 3, 1) }, at(1));
    assert!(core.heartbeat(beat("a", 3, &[]), at(1)).register);
}

#[test]
fn an_attempt_without_a_lease_is_stale_unless_it_only_waits_to_report() {
    let mut core = leader(&[("a", 2)]);
    let lease = running(&mut core, None);
    let foreign = Lease { fence: lease.fence + 1, ..lease };
    let mut reporting = holding(Lease { shard: shard(5), ..lease }, None);
    reporting.state = HeldState::Reporting;
    let ack = knows_round(&mut core, "a", &[holding(lease, None), holding(foreign, None), reporting], at(1));
    assert_eq!(ack.stale, vec![attempt_ref(&foreign)]);
}

#[test]
fn an_accepted_attempt_that_vanishes_is_pushed_again_to_the_same_executor() {
    let mut core = leader(&[("a", 1)]);
    let lease = running(&mut core, None);
    knows_round(&mut core, "a", &[], at(1));
    core.send(at(1));
    assert_eq!(pushes(&mut core), vec![], "one heartbeat may have crossed the push");
    knows_round(&mut core, "a", &[], at(2));
    core.send(at(2));
    assert_eq!(pushes(&mut core), vec![(id("a"), vec![lease])]);
}

#[test]
fn an_inherited_lease_is_pushed_again_only_once_the_executor_knows_the_round() {
    let lease = Lease { shard: shard(1), attempt: 2, fence: 40 };
    let key = RunningKey { executor: id("a"), shard: shard(1) };
    let running = RunningRow { fence: 40, attempt: 2, incarnation: 1, granted_at: 0 };
    let inherit = || {
        let mut core = Core::new(Options::default(), 8, START);
        core.executor_row(row("a", 1, 1), START);
        core.inherit(&key, &running, None, false);
        core.lose_orphans();
        core
    };

    let mut core = inherit();
    core.send(at(0));
    assert_eq!(core.take_steps(), vec![Step::Announce { executor: id("a") }]);
    // A heartbeat that was sent before the executor heard of round 8.
    core.heartbeat(beat("a", 1, &[]), at(1));
    core.send(at(1));
    assert_eq!(pushes(&mut core), vec![]);
    core.announced(&id("a"), Some(holds(&[])), at(2));
    assert_eq!(pushes(&mut core), vec![(id("a"), vec![lease])]);

    let mut core = inherit();
    core.announced(&id("a"), Some(holds(&[holding(lease, None)])), at(2));
    core.send(at(2));
    assert_eq!(pushes(&mut core), vec![], "what runs there goes on");
}

#[test]
fn the_answer_to_an_announcement_tells_who_is_leaving_and_that_it_lives() {
    let mut core = leader(&[]);
    core.executor_row(row("a", 1, 1), at(0));
    core.announced(&id("a"), Some(Holdings { draining: true, ..holds(&[]) }), at(3_000));
    assert_eq!(core.executor(&id("a")).unwrap().heard_at(), at(3_000).mono_ms);
    due(&mut core, 1, at(3_000));
    core.plan(at(3_000));
    assert_eq!(proposals(&mut core), vec![], "it would be refused");
    // The answer of another call that was under way.
    core.announced(&id("a"), Some(holds(&[])), at(3_100));
    core.plan(at(3_100));
    assert_eq!(proposals(&mut core), vec![]);
    knows_round(&mut core, "a", &[], at(3_200));
    core.plan(at(3_200));
    assert_eq!(proposals(&mut core).len(), 1, "its next heartbeat has the last word");
    core.announced(&id("a"), Some(Holdings { incarnation: 2, ..holds(&[]) }), at(4_000));
    assert_eq!(core.executor(&id("a")).unwrap().heard_at(), at(3_200).mono_ms, "another life");
}

#[test]
fn inherited_leases_of_executors_that_are_gone_are_lost() {
    let mut core = Core::new(Options::default(), 8, START);
    core.executor_row(Executor { state: ExecutorState::Offline, ..row("a", 1, 1) }, START);
    core.executor_row(row("b", 2, 1), START);
    core.take_steps();
    for (name, number) in [("a", 1), ("b", 2), ("nobody", 3)] {
        let key = RunningKey { executor: id(name), shard: shard(number) };
        let row = RunningRow { fence: 40, attempt: 1, incarnation: 1, granted_at: 0 };
        core.inherit(&key, &row, None, false);
    }
    core.lose_orphans();
    let commands = proposals(&mut core);
    assert_eq!(commands.len(), 3);
    assert!(commands.iter().all(|command| matches!(command, Command::Lose { .. })), "{commands:?}");
}

#[test]
fn b112_two_hundred_cancels_end_although_their_leader_and_their_holder_died() {
    let mut core = Core::new(Options::default(), 8, START);
    core.executor_row(row("a", 1, 200), START);
    for number in 0..200 {
        let key = RunningKey { executor: id("a"), shard: shard(number) };
        let row = RunningRow { fence: 40, attempt: 1, incarnation: 1, granted_at: 0 };
        core.inherit(&key, &row, None, true);
    }
    core.lose_orphans();
    let mut proposed = proposals(&mut core);
    // Nobody answers any call.
    for second in 1..=20 {
        core.tend_executors(at(second * 1_000 + 1));
        proposed.extend(proposals(&mut core));
    }
    assert_eq!(proposed, [Command::ExecutorGone { executor: id("a"), incarnation: 1 }]);
    core.executor_row(Executor { state: ExecutorState::Offline, ..row("a", 1, 200) }, at(20_002));
    let lost = proposals(&mut core);
    assert_eq!(lost.iter().filter(|command| matches!(command, Command::Lose { .. })).count(), 200);
    for number in 0..200 {
        let (shard, executor) = (shard(number), id("a"));
        core.event(&Event::AttemptEnded { shard, executor, fence: 40, outcome: Outcome::Lost }, at(20_003));
    }
    assert_eq!(core.counts().held, 0);
}

#[test]
fn a_cancel_goes_to_the_holder_until_the_attempt_is_over() {
    let mut core = leader(&[("a", 1)]);
    let lease = running(&mut core, None);
    let cancel = Event::CancelRequested { shard: lease.shard, executor: id("a"), fence: lease.fence };
    let step = Step::Cancel { executor: id("a"), reason: CancelReason::Cancelled, leases: vec![lease] };
    core.event(&cancel, at(1));
    core.send(at(1));
    assert_eq!(core.take_steps(), vec![step.clone()]);
    core.stop_failed(&id("a"), at(2));
    core.send(at(500));
    assert_eq!(core.take_steps(), vec![step.clone()], "asked again");
    core.stop_answer(&id("a"), CancelReason::Cancelled, &[lease], &[true], at(501));
    core.send(at(1_000));
    assert_eq!(core.take_steps(), vec![step], "and again until it has reported");
    core.stop_answer(&id("a"), CancelReason::Cancelled, &[lease], &[true], at(1_001));
    let outcome = Outcome::Cancelled;
    let (shard, executor, fence) = (lease.shard, id("a"), lease.fence);
    core.event(&Event::AttemptEnded { shard, executor, fence, outcome }, at(1_002));
    core.send(at(2_000));
    assert_eq!(core.take_steps(), vec![]);
}

#[test]
fn a_cancel_that_overtakes_the_answer_to_the_grant_is_not_forgotten() {
    let mut core = leader(&[("a", 1)]);
    due(&mut core, 1, at(0));
    core.plan(at(0));
    let command = proposals(&mut core).remove(0);
    core.event(&Event::CancelRequested { shard: shard(1), executor: id("a"), fence: 9 }, at(1));
    core.applied(&command, &Reply::Granted { fence: 9 }, at(2));
    core.send(at(2));
    let steps = core.take_steps();
    assert!(steps.iter().any(|step| matches!(step, Step::Cancel { .. })), "{steps:?}");
}

#[test]
fn a_cancelled_attempt_that_never_reached_its_executor_is_taken_back() {
    let mut core = leader(&[("a", 1)]);
    due(&mut core, 1, at(0));
    let (executor, leases) = plan_and_grant(&mut core, 9, at(0)).remove(0);
    core.event(&Event::CancelRequested { shard: shard(1), executor: executor.clone(), fence: 9 }, at(1));
    core.send(at(1));
    core.take_steps();
    core.stop_answer(&executor, CancelReason::Cancelled, &leases, &[false], at(2));
    assert_eq!(proposals(&mut core), vec![], "its push is still under way");
    core.push_failed(&executor, &leases, at(3));
    core.stop_answer(&executor, CancelReason::Cancelled, &leases, &[false], at(4));
    let commands = proposals(&mut core);
    assert!(matches!(&commands[..], [Command::Requeue { fence: 9, .. }]), "{commands:?}");
}

#[test]
fn a_cancelled_attempt_is_not_pushed_and_an_overtaken_answer_ends_nothing() {
    let mut core = leader(&[("a", 1)]);
    due(&mut core, 1, at(0));
    let (executor, leases) = plan_and_grant(&mut core, 9, at(0)).remove(0);
    core.event(&Event::CancelRequested { shard: shard(1), executor: executor.clone(), fence: 9 }, at(1));
    core.send(at(1));
    core.take_steps();
    // The executor was asked to stop before the push came to it, and its answers come the other way round.
    core.pushed(&executor, &leases, &[RunVerdict::Accepted], None, at(2));
    core.stop_answer(&executor, CancelReason::Cancelled, &leases, &[false], at(3));
    assert_eq!(proposals(&mut core), vec![]);

    let mut core = leader(&[("a", 1)]);
    due(&mut core, 1, at(0));
    let (executor, leases) = plan_and_grant(&mut core, 9, at(0)).remove(0);
    core.push_failed(&executor, &leases, at(1));
    core.event(&Event::CancelRequested { shard: shard(1), executor, fence: 9 }, at(2));
    core.send(at(1_000));
    let steps = core.take_steps();
    assert!(matches!(&steps[..], [Step::Cancel { .. }]), "{steps:?}");
}

#[test]
fn a_lost_attempt_and_the_lease_of_its_shard_are_stopped_each_for_its_own_reason() {
    let mut core = leader(&[("a", 2)]);
    let lease = running(&mut core, None);
    let lost = Lease { fence: lease.fence - 1, ..lease };
    core.event(&Event::CancelRequested { shard: lease.shard, executor: id("a"), fence: lease.fence }, at(1));
    core.announced(&id("a"), Some(holds(&[holding(lease, None), holding(lost, None)])), at(2));
    let mut asked = Vec::new();
    for ms in [2, 200, 400] {
        core.send(at(ms));
        for step in core.take_steps() {
            let Step::Cancel { executor, reason, leases } = step else { continue };
            core.stop_answer(&executor, reason, &leases, &vec![true; leases.len()], at(ms));
            asked.extend(leases.iter().map(|lease| (lease.fence, reason)));
        }
    }
    assert!(asked.contains(&(lost.fence, CancelReason::LeaseLost)), "{asked:?}");
    assert_eq!(asked.last(), Some(&(lease.fence, CancelReason::Cancelled)), "{asked:?}");
}

#[test]
fn a_stop_that_takes_its_time_holds_up_no_push() {
    let mut core = leader(&[("a", 2)]);
    let lease = running(&mut core, None);
    core.event(&Event::CancelRequested { shard: lease.shard, executor: id("a"), fence: lease.fence }, at(1));
    core.send(at(1));
    core.stop_answer(&id("a"), CancelReason::Cancelled, &[lease], &[true], at(2));
    core.take_steps();
    due(&mut core, 2, at(3));
    assert_eq!(plan_and_grant(&mut core, 51, at(3)).len(), 1);
}

#[test]
fn an_attempt_that_outruns_its_timeout_is_stopped_then_declared_timed_out() {
    let mut core = leader(&[("a", 1)]);
    let lease = running(&mut core, Some(1_000));
    knows_round(&mut core, "a", &[holding(lease, Some(6_000))], at(6_000));
    core.send(at(6_000));
    assert_eq!(core.take_steps(), vec![], "the executor has its grace");
    knows_round(&mut core, "a", &[holding(lease, Some(6_001))], at(6_001));
    core.send(at(6_001));
    let reason = CancelReason::TimedOut;
    assert_eq!(core.take_steps(), vec![Step::Cancel { executor: id("a"), reason, leases: vec![lease] }]);
    knows_round(&mut core, "a", &[holding(lease, Some(11_000))], at(11_000));
    assert_eq!(proposals(&mut core), vec![]);
    knows_round(&mut core, "a", &[holding(lease, Some(11_100))], at(11_100));
    let commands = proposals(&mut core);
    assert!(matches!(&commands[..], [Command::TimeOut { .. }]), "{commands:?}");
}

#[test]
fn who_waits_long_is_written_down_once_while_nothing_else_is_on_its_way() {
    let mut core = leader(&[]);
    due(&mut core, 1, at(0));
    core.plan(at(999));
    assert_eq!(proposals(&mut core), vec![]);
    core.plan(at(1_000));
    assert_eq!(proposals(&mut core), vec![Command::MakeReady { shard: shard(1).into() }]);
    core.plan(at(2_000));
    assert_eq!(proposals(&mut core), vec![]);
}

#[test]
fn who_is_being_granted_while_the_list_is_tidied_is_written_down_when_that_comes_to_nothing() {
    let mut core = leader(&[("a", 1)]);
    due(&mut core, 1, at(0));
    core.plan(at(0));
    let grant = proposals(&mut core).remove(0);
    // So many have gone since they were put on the list that it is tidied.
    core.unready.extend((2..6_000).map(|number| (shard(number), START.mono_ms)));
    core.plan(at(1));
    assert_eq!(core.unready.len(), 1);
    assert!(core.applied(&grant, &Reply::Refused(Refusal::ExecutorNotOnline), at(2)));
    core.plan(at(1_000));
    assert_eq!(proposals(&mut core), vec![Command::MakeReady { shard: shard(1).into() }]);
}

#[test]
fn a_task_that_ends_while_it_waits_is_forgotten() {
    let mut core = leader(&[]);
    due(&mut core, 1, at(0));
    core.event(
        &Event::Waiting { shard: shard(2), due_at: START.wall_ms + 60_000, clock: DueClock::Wall },
        at(0),
    );
    for number in [1, 2] {
        let (task, status) = (shard(number).task, Status::Cancelled);
        core.event(&Event::TaskChanged { task, version: 2, status }, at(1));
    }
    assert_eq!((core.counts().waiting, core.counts().timed, core.tracked.len()), (0, 0, 0));
}

#[test]
fn a_deadline_to_first_start_is_kept_by_the_wall_clock() {
    let mut core = leader(&[]);
    let (task, expires) = (shard(1).task, START.wall_ms + 50);
    core.event(&Event::Expires { task, at: expires }, START);
    core.event(&Event::Expires { task, at: expires }, START);
    core.advance(at(49));
    assert_eq!(proposals(&mut core), vec![]);
    core.advance(at(60));
    assert_eq!(proposals(&mut core), vec![Command::Expire { task }]);
}
