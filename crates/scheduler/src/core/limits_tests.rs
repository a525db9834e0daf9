//! Limits on running tasks: who is held up, who passes, and who goes next.

use std::sync::Arc;

use orloj_model::executor::{Executor, ExecutorState};
use orloj_model::id::{ExecutorId, JobId};
use orloj_model::task::{Origin, Outcome, Status, Strategy};
use orloj_model::{Command, Event, Reply};

use super::*;
use crate::core::{Candidate, Now, Step};
use crate::options::Options;
use crate::placement::KEPT_CLASSES;
use crate::testing;

const START: Now = Now { mono_ms: 1_000, wall_ms: 1_000_000, cluster_ms: 1_000_000 };

fn caller() -> CallerId {
    CallerId::new("c").expect("a valid name")
}

fn job(name: &str) -> JobKey {
    JobKey { caller: caller(), job: JobId::new(name).expect("a valid id") }
}

fn shard(number: u8) -> ShardKey {
    ShardKey { task: TaskId([number; 16]), shard: 0 }
}

fn spec(job: Option<&str>) -> TaskSpec {
    let origin = job.map_or(Origin::Submission, |job| Origin::Fire { job: job.into(), scheduled_at: 1 });
    TaskSpec { origin, ..testing::spec() }
}

/// A leader with one executor of a hundred slots.
fn leader(max_running: BTreeMap<CallerId, u32>) -> Core {
    let mut core = Core::new(Options { max_running, ..Options::default() }, 7, START);
    for name in ["a", "b"] {
        add_executor(&mut core, name);
    }
    core.take_steps();
    core
}

fn add_executor(core: &mut Core, name: &str) {
    core.executor_row(testing::executor_row(name, 1, 100), START);
    core.heartbeat(testing::heartbeat(name, 1, 100), START);
}

fn ready(core: &mut Core, number: u8, spec: TaskSpec) {
    let since = START.wall_ms + i64::from(number);
    ready_as(core, shard(number), since, spec, None);
}

fn ready_as(core: &mut Core, shard: ShardKey, since: i64, spec: TaskSpec, last: Option<&str>) {
    let last = last.map(|name| ExecutorId::new(name).expect("a valid name"));
    let attempt = if last.is_some() { 2 } else { 1 };
    let spec = Arc::new(spec);
    core.ready(Candidate { shard, attempt, since, ready: false, spec, last, broadcast: false }, START);
}

/// Plans; the grants that are proposed, as (shard, executor).
fn granted(core: &mut Core) -> Vec<(ShardKey, String)> {
    core.plan(START);
    let commands = core.take_steps().into_iter().flat_map(|step| match step {
        Step::Propose(commands) => commands,
        _ => Vec::new(),
    });
    let mut granted = Vec::new();
    for command in commands {
        let Command::Grant { shard, executor, .. } = &command else { panic!("{command:?}") };
        granted.push((ShardKey::from(*shard), executor.to_string()));
        assert!(core.applied(&command, &Reply::Granted { fence: 9 }, START));
    }
    granted
}

fn numbers(granted: Vec<(ShardKey, String)>) -> Vec<u8> {
    granted.into_iter().map(|(shard, _)| shard.task.0[0]).collect()
}

fn ends(core: &mut Core, shard: ShardKey) {
    let executor = ExecutorId::new("a").expect("a valid name");
    core.event(&Event::AttemptEnded { shard, executor, fence: 9, outcome: Outcome::Succeeded }, START);
}

#[test]
fn a_job_runs_so_many_tasks_at_a_time_and_others_pass() {
    let mut core = leader(BTreeMap::new());
    core.limit_job(&job("j"), Some(2));
    for number in 1..=5 {
        ready(&mut core, number, spec(Some("j")));
    }
    ready(&mut core, 6, spec(Some("other")));
    ready(&mut core, 7, spec(None));
    assert_eq!(numbers(granted(&mut core)), [1, 2, 6, 7]);
    assert_eq!(core.counts().waiting, 3, "they are ready, and wait");
    assert_eq!(granted(&mut core), []);
    ends(&mut core, shard(2));
    assert_eq!(numbers(granted(&mut core)), [3], "the oldest goes next");
    ends(&mut core, shard(1));
    ends(&mut core, shard(3));
    assert_eq!(numbers(granted(&mut core)), [4, 5]);
    assert_eq!(core.counts().waiting, 0);
}

#[test]
fn more_important_tasks_go_first_also_behind_a_limit() {
    let mut core = leader(BTreeMap::new());
    core.limit_job(&job("j"), Some(1));
    ready(&mut core, 1, spec(Some("j")));
    assert_eq!(numbers(granted(&mut core)), [1]);
    ready(&mut core, 2, spec(Some("j")));
    ready(&mut core, 3, TaskSpec { priority: 9, ..spec(Some("j")) });
    assert_eq!(granted(&mut core), []);
    ends(&mut core, shard(1));
    assert_eq!(numbers(granted(&mut core)), [3]);
}

#[test]
fn a_caller_runs_so_many_tasks_at_a_time_whatever_made_them() {
    let mut core = leader(BTreeMap::from([(caller(), 2)]));
    core.limit_job(&job("j"), Some(1));
    for number in 1..=2 {
        ready(&mut core, number, spec(Some("j")));
    }
    ready(&mut core, 3, spec(None));
    ready(&mut core, 4, spec(None));
    let other = TaskSpec { caller: CallerId::new("d").expect("a valid name"), ..spec(None) };
    ready(&mut core, 5, other);
    assert_eq!(numbers(granted(&mut core)), [1, 3, 5]);
    ends(&mut core, shard(1));
    assert_eq!(numbers(granted(&mut core)), [2], "the older one goes first");
    ends(&mut core, shard(3));
    assert_eq!(numbers(granted(&mut core)), [4], "the place is the caller's, whoever had it");
}

#[test]
fn a_limit_that_is_lifted_lets_them_through_and_one_that_is_lowered_ends_nothing() {
    let mut core = leader(BTreeMap::new());
    core.limit_job(&job("j"), Some(1));
    for number in 1..=4 {
        ready(&mut core, number, spec(Some("j")));
    }
    assert_eq!(numbers(granted(&mut core)), [1]);
    core.limit_job(&job("j"), Some(3));
    assert_eq!(numbers(granted(&mut core)), [2, 3]);
    core.limit_job(&job("j"), Some(1));
    ends(&mut core, shard(1));
    ends(&mut core, shard(2));
    assert_eq!(granted(&mut core), [], "one still runs");
    core.limit_job(&job("j"), None);
    assert_eq!(numbers(granted(&mut core)), [4]);
}

#[test]
fn a_caller_may_be_given_a_limit_while_its_tasks_run() {
    let mut core = leader(BTreeMap::new());
    let limit = |max_running| Event::CallerLimit { caller: caller(), max_running };
    for number in 1..=2 {
        ready(&mut core, number, spec(None));
    }
    assert_eq!(numbers(granted(&mut core)), [1, 2]);
    core.event(&limit(Some(2)), START);
    for number in 3..=6 {
        ready(&mut core, number, spec(None));
    }
    let other = TaskSpec { caller: CallerId::new("d").expect("a valid name"), ..spec(None) };
    ready(&mut core, 7, other);
    assert_eq!(numbers(granted(&mut core)), [7], "what ran before counts, and nobody else is held up");
    ends(&mut core, shard(1));
    assert_eq!(numbers(granted(&mut core)), [3]);
    core.event(&limit(Some(3)), START);
    assert_eq!(numbers(granted(&mut core)), [4]);
    core.event(&limit(None), START);
    assert_eq!(numbers(granted(&mut core)), [5, 6]);
}

#[test]
fn what_an_earlier_leader_granted_counts_against_the_limit_of_its_caller() {
    let mut core = leader(BTreeMap::new());
    core.limit_caller(&caller(), Some(1));
    core.count_inherited(shard(1), &spec(None));
    ready(&mut core, 2, spec(None));
    assert_eq!(granted(&mut core), []);
    core.limits.left(shard(1));
    assert_eq!(numbers(granted(&mut core)), [2]);
}

#[test]
fn what_the_configuration_says_of_a_caller_stands_above_the_tables() {
    let mut core = leader(BTreeMap::from([(caller(), 1)]));
    for most in [None, Some(9)] {
        core.limit_caller(&caller(), most);
    }
    ready(&mut core, 1, spec(None));
    ready(&mut core, 2, spec(None));
    assert_eq!(numbers(granted(&mut core)), [1]);
}

#[test]
fn whoever_is_cancelled_while_held_up_or_let_through_gives_the_place_on() {
    let mut core = leader(BTreeMap::new());
    core.limit_job(&job("j"), Some(1));
    for number in 1..=4 {
        ready(&mut core, number, spec(Some("j")));
    }
    assert_eq!(numbers(granted(&mut core)), [1]);
    let cancelled =
        |number| Event::TaskChanged { task: shard(number).task, version: 2, status: Status::Cancelled };
    core.event(&cancelled(2), START);
    assert_eq!(core.counts().waiting, 2);
    ends(&mut core, shard(1));
    // Number 3 goes back into the room, and is cancelled before it is placed.
    core.let_through();
    core.event(&cancelled(3), START);
    assert_eq!(numbers(granted(&mut core)), [4]);
    ends(&mut core, shard(4));
    assert!(core.limits.tasks.is_empty() && core.limits.parked.is_empty());
}

#[test]
fn what_an_earlier_leader_granted_counts_and_a_task_counts_once() {
    let mut core = leader(BTreeMap::new());
    let of_two = TaskSpec { shard_total: 2, ..spec(Some("j")) };
    core.count_inherited(shard(1), &of_two);
    assert!(!core.knows_limit(&job("j")), "a task that runs tells nothing of the limit");
    core.limit_job(&job("j"), Some(1));
    ready(&mut core, 2, spec(Some("j")));
    ready_as(&mut core, ShardKey { shard: 1, ..shard(1) }, 0, of_two, None);
    let granted_now = granted(&mut core);
    assert_eq!(
        granted_now.iter().map(|(shard, _)| *shard).collect::<Vec<_>>(),
        [ShardKey { shard: 1, ..shard(1) }]
    );
    core.limits.left(shard(1));
    assert_eq!(granted(&mut core), []);
    ends(&mut core, ShardKey { shard: 1, ..shard(1) });
    assert_eq!(numbers(granted(&mut core)), [2]);
}

#[test]
fn whoever_finds_no_executor_holds_nobody_up() {
    let mut core = leader(BTreeMap::new());
    core.limit_job(&job("j"), Some(1));
    ready(&mut core, 1, spec(Some("j")));
    let nowhere = TaskSpec { handler: "nobody-has-it".into(), ..spec(Some("j")) };
    ready(&mut core, 2, nowhere);
    ready(&mut core, 3, spec(Some("j")));
    assert_eq!(numbers(granted(&mut core)), [1]);
    ends(&mut core, shard(1));
    let granted: Vec<_> = (0..3).flat_map(|_| numbers(granted(&mut core))).collect();
    assert_eq!(granted, [3], "the one before it takes no place");
}

#[test]
fn what_is_parked_costs_a_pass_nothing_and_goes_back_one_by_one() {
    let mut core = leader(BTreeMap::new());
    core.limit_job(&job("j"), Some(1));
    for number in 1..=200 {
        ready(&mut core, number, spec(Some("j")));
    }
    assert_eq!(numbers(granted(&mut core)), [1]);
    assert_eq!((core.waiting.len(), core.limits.parked()), (0, 199), "one leaves the room once");
    ready(&mut core, 201, spec(Some("j")));
    assert_eq!((core.waiting.len(), core.limits.parked()), (0, 200), "and whoever comes later not even that");
    // While no executor takes anything, those that may go wait in the room: one, however many passes there are.
    take_executors_away(&mut core);
    ends(&mut core, shard(1));
    for _ in 0..50 {
        assert_eq!(granted(&mut core), []);
    }
    assert_eq!((core.waiting.len(), core.limits.parked()), (1, 199));
    add_executor(&mut core, "c");
    assert_eq!(numbers(granted(&mut core)), [2], "in their order");
    for number in 2..=200 {
        ends(&mut core, shard(number));
        assert_eq!(numbers(granted(&mut core)), [number + 1]);
        assert_eq!(core.waiting.len(), 0);
    }
    ends(&mut core, shard(201));
    assert!(core.limits.tasks.is_empty() && core.limits.parked.is_empty());
    assert!(core.limits.through.is_empty() && core.limits.classes.is_empty());
}

/// Nobody takes anything any more.
fn take_executors_away(core: &mut Core) {
    for name in ["a", "b"] {
        let id = ExecutorId::new(name).expect("a valid name");
        let idx = core.fleet.find(&id).expect("it is there");
        core.fleet.set_open(idx, false);
    }
}

/// A shard of a broadcast that is for executor `a`.
fn ready_for_a(core: &mut Core, number: u8) {
    let strategy = Strategy::Pinned(ExecutorId::new("a").expect("a valid name"));
    let spec = Arc::new(TaskSpec { strategy, ..spec(Some("j")) });
    let (shard, since) = (shard(number), START.wall_ms + i64::from(number));
    let candidate = Candidate { shard, attempt: 1, since, ready: false, spec, last: None, broadcast: true };
    core.ready(candidate, START);
}

#[test]
fn a_broadcasts_shard_that_is_given_up_gives_its_place_on() {
    let mut core = leader(BTreeMap::new());
    core.limit_job(&job("j"), Some(1));
    ready_for_a(&mut core, 1);
    ready_for_a(&mut core, 2);
    assert_eq!(numbers(granted(&mut core)), [1]);
    let row = testing::executor_row("a", 1, 100);
    core.executor_row(Executor { state: ExecutorState::Offline, ..row.clone() }, START);
    ends(&mut core, shard(1));
    core.take_steps();
    core.plan(START);
    let steps = core.take_steps();
    let [Step::Propose(commands)] = &steps[..] else { panic!("{steps:?}") };
    assert!(matches!(commands[..], [Command::Graph(_)]), "{commands:?}");
    assert!(core.limits.through.is_empty());
    core.executor_row(row, START);
    ready_for_a(&mut core, 3);
    assert_eq!(numbers(granted(&mut core)), [3]);
    ready_for_a(&mut core, 4);
    assert_eq!(granted(&mut core), []);
    ends(&mut core, shard(3));
    assert_eq!(numbers(granted(&mut core)), [4], "nothing runs that it could wait for");
}

#[test]
fn what_leaves_the_room_takes_no_place_in_a_pass() {
    let mut core = leader(BTreeMap::new());
    core.limit_job(&job("j"), Some(1));
    for number in 0..700_u32 {
        let mut id = [1; 16];
        id[..4].copy_from_slice(&number.to_be_bytes());
        ready_as(
            &mut core,
            ShardKey { task: TaskId(id), shard: 0 },
            i64::from(number),
            spec(Some("j")),
            None,
        );
    }
    ready(&mut core, 9, spec(None));
    let granted = granted(&mut core);
    assert_eq!(granted.len(), 2, "one of the job, and the one behind all of it");
}

#[test]
fn all_shards_of_a_task_that_runs_may_run() {
    let mut core = leader(BTreeMap::new());
    core.limit_job(&job("j"), Some(1));
    ready(&mut core, 1, spec(Some("j")));
    assert_eq!(numbers(granted(&mut core)), [1]);
    let of_three = TaskSpec { shard_total: 3, ..spec(Some("j")) };
    for number in 0..3 {
        ready_as(&mut core, ShardKey { shard: number, ..shard(2) }, 5, of_three.clone(), None);
    }
    assert_eq!(granted(&mut core), [], "the other task runs");
    ends(&mut core, shard(1));
    assert_eq!(numbers(granted(&mut core)), [2]);
    assert_eq!(numbers(granted(&mut core)), [2, 2], "it counts once");
}

/// A step of a run of job `j`.
fn step_of(run: u8, step: &str) -> TaskSpec {
    let run = TaskId([run; 16]);
    TaskSpec {
        origin: Origin::Step { job: "j".into(), scheduled_at: 1, run, step: step.into() },
        ..spec(Some("j"))
    }
}

#[test]
fn b106_two_runs_of_a_chain_that_share_one_place_both_end() {
    let mut core = leader(BTreeMap::from([(caller(), 1)]));
    core.limit_job(&job("j"), Some(1));
    let steps = ["load", "check", "done"];
    // Of run 100 tasks 11 to 13, of run 200 tasks 21 to 23; each is ready when the one before it has ended.
    for (first, run) in [(11, 100), (21, 200)] {
        ready(&mut core, first, step_of(run, steps[0]));
    }
    let mut ended = Vec::new();
    for _ in 0..6 {
        let one = numbers(granted(&mut core));
        let [number] = one[..] else { panic!("{one:?} are granted when {ended:?} have ended") };
        assert_eq!(granted(&mut core), [], "there is one place");
        ends(&mut core, shard(number));
        ended.push(number);
        let (run, place) = (number / 10 * 100, usize::from(number % 10));
        if place < steps.len() {
            ready(&mut core, number + 1, step_of(run, steps[place]));
        }
    }
    ended.sort_unstable();
    assert_eq!(ended, [11, 12, 13, 21, 22, 23]);
    assert_eq!(core.counts().waiting, 0);
}

#[test]
fn a_place_of_the_caller_is_not_kept_by_a_job_that_may_not_use_it() {
    let mut core = leader(BTreeMap::from([(caller(), 2)]));
    core.limit_job(&job("j"), Some(1));
    for number in 1..=2 {
        ready(&mut core, number, spec(None));
    }
    assert_eq!(numbers(granted(&mut core)), [1, 2], "the caller runs as much as it may");
    for number in 3..=40 {
        ready(&mut core, number, spec(Some("j")));
    }
    ready(&mut core, 50, spec(None));
    ends(&mut core, shard(1));
    assert_eq!(numbers(granted(&mut core)), [3]);
    ends(&mut core, shard(2));
    assert_eq!(numbers(granted(&mut core)), [50], "the job is at its own limit");
}

#[test]
fn a_task_counts_until_its_report_is_committed() {
    let mut core = leader(BTreeMap::new());
    core.limit_job(&job("j"), Some(1));
    ready(&mut core, 1, spec(Some("j")));
    ready(&mut core, 2, spec(Some("j")));
    let first = granted(&mut core);
    let executor = ExecutorId::new(first[0].1.as_str()).expect("a valid name");
    core.reported(&executor, &[(shard(1), Some(1), 9)]);
    assert_eq!(granted(&mut core), [], "its slot is free, and its job at its limit");
    core.event(
        &Event::AttemptEnded { shard: shard(1), executor, fence: 9, outcome: Outcome::Succeeded },
        START,
    );
    assert_eq!(numbers(granted(&mut core)), [2]);
}

#[test]
fn a_refused_grant_gives_its_place_back() {
    let mut core = leader(BTreeMap::new());
    core.limit_job(&job("j"), Some(1));
    ready(&mut core, 1, spec(Some("j")));
    ready(&mut core, 2, spec(Some("j")));
    core.plan(START);
    let Some(Step::Propose(commands)) = core.take_steps().into_iter().next() else { panic!("no proposal") };
    let refused = Reply::Refused(orloj_model::Refusal::NotWaiting);
    assert!(core.applied(&commands[0], &refused, START));
    assert_eq!(numbers(granted(&mut core)), [2]);
}

#[test]
fn a_retry_goes_to_another_executor_while_one_has_room() {
    for last in ["a", "b"] {
        let mut core = leader(BTreeMap::new());
        for number in 1..=20 {
            ready_as(&mut core, shard(number), START.wall_ms, spec(None), Some(last));
        }
        let granted = granted(&mut core);
        // The bound on the share of one executor comes first.
        let elsewhere = granted.iter().filter(|(_, executor)| executor != last).count();
        assert!(elsewhere >= 12, "{elsewhere} of {}", granted.len());
        let mut core = leader(BTreeMap::new());
        ready_as(&mut core, shard(1), START.wall_ms, spec(None), Some(last));
        assert!(granted_elsewhere(&mut core, last));
    }
    let mut alone = Core::new(Options::default(), 7, START);
    add_executor(&mut alone, "a");
    alone.take_steps();
    ready_as(&mut alone, shard(1), START.wall_ms, spec(None), Some("a"));
    assert_eq!(granted(&mut alone), [(shard(1), "a".to_owned())], "better there than nowhere");
}

fn granted_elsewhere(core: &mut Core, last: &str) -> bool {
    granted(core).iter().all(|(_, executor)| executor != last)
}

/// A look at every gate for each new job would cost the square of their number.
#[test]
fn many_jobs_with_a_limit_do_not_make_those_without_one_be_forgotten_at_once() {
    let mut limits = Limits::default();
    let limited = KEPT_JOBS + 1_000;
    for number in 0..limited {
        limits.set_job(&job(&format!("limited-{number}")), Some(1));
    }
    let known = |limits: &Limits, name: &str| limits.gates.contains_key(&owner_of(&job(name)));
    limits.set_job(&job("free"), None);
    limits.set_job(&job("another"), None);
    assert!(known(&limits, "free"));
    for number in 0..3 * KEPT_JOBS {
        limits.set_job(&job(&format!("free-{number}")), None);
        assert!(limits.gates.len() <= 2 * limited + 1, "{} gates", limits.gates.len());
    }
    assert!(known(&limits, "limited-0") && !known(&limits, "free"));
}

#[test]
fn the_class_of_what_is_held_up_becomes_no_other_one() {
    let mut core = leader(BTreeMap::new());
    core.limit_job(&job("j"), Some(1));
    ready(&mut core, 1, spec(Some("j")));
    ready(&mut core, 2, spec(Some("j")));
    assert_eq!(numbers(granted(&mut core)), [1]);
    let held_up = core.limits.parked[&shard(2)].class;
    let ask =
        |core: &mut Core, handler: String| core.fleet.class(&handler, &BTreeMap::new(), &Strategy::Ring);
    for number in 0..=KEPT_CLASSES {
        ask(&mut core, format!("seldom-{number}"));
    }
    core.tend_executors(START);
    for number in 0..3 {
        assert_ne!(ask(&mut core, format!("new-{number}")), held_up);
    }
    ends(&mut core, shard(1));
    assert_eq!(numbers(granted(&mut core)), [2]);
    assert!(core.limits.classes.is_empty(), "nothing is held up any more");
}

#[test]
fn what_is_kept_of_a_shard_that_is_held_up_is_small() {
    assert!(size_of::<Parked>() <= 24, "there may be one for each task that waits");
}
