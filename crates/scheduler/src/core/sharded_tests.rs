//! Shards of one task: spread, kept together and forgotten together.

use std::collections::BTreeMap;
use std::sync::Arc;

use orloj_model::Event;
use orloj_model::executor::{Executor, ExecutorState, Registration};
use orloj_model::id::CallerId;
use orloj_model::task::{Origin, Outcome, RetryPolicy, Status, TaskSpec};

use super::*;
use crate::core::{Candidate, Step};
use crate::options::Options;

const START: Now = Now { mono_ms: 1_000, wall_ms: 1_000_000, cluster_ms: 1_000_000 };
const TASK: TaskId = TaskId([7; 16]);

fn id(name: &str) -> ExecutorId {
    ExecutorId::new(name).expect("a valid name")
}

fn row(name: &str, slots: u32, state: ExecutorState) -> Executor {
    Executor {
        registration: Registration {
            id: id(name),
            incarnation: 1,
            address: "127.0.0.1:1".into(),
            handlers: vec!["echo".into()],
            slots,
            queue: 0,
            weight: 100,
            zone: None,
            labels: BTreeMap::new(),
            version: "0".into(),
        },
        state,
        registered_at: 0,
        changed_at: 0,
    }
}

fn spec(shard_total: u16, strategy: Strategy) -> Arc<TaskSpec> {
    Arc::new(TaskSpec {
        caller: CallerId::new("c").expect("a valid name"),
        access_key: String::new(),
        handler: "echo".into(),
        params: b"{}".to_vec(),
        origin: Origin::Submission,
        priority: 5,
        labels: BTreeMap::new(),
        routing_key: None,
        zone: None,
        strategy,
        business_key: None,
        dedupe_key: None,
        retry: RetryPolicy::default(),
        timeout_ms: None,
        expire_at: None,
        shard_total,
        depends_on: Vec::new(),
        callback_url: None,
        estimated_duration_ms: None,
    })
}

fn leader(executors: usize, slots: u32) -> Core {
    let mut core = Core::new(Options::default(), 7, START);
    for number in 0..executors {
        core.executor_row(row(&format!("e{number}"), slots, ExecutorState::Online), START);
    }
    let (_, until) = core.window(START).expect("nothing is loaded yet");
    core.load_window(until, &[], &[], START);
    core.take_steps();
    core
}

fn shard(number: u16) -> ShardKey {
    ShardKey { task: TASK, shard: number }
}

/// The shard is due and its rows have been read.
fn ready(core: &mut Core, shard: ShardKey, spec: &Arc<TaskSpec>, broadcast: bool) {
    core.track_due(shard, START.wall_ms, orloj_model::task::DueClock::Cluster, START);
    core.next_due(START);
    let candidate = Candidate {
        shard,
        attempt: 1,
        since: START.wall_ms,
        ready: false,
        spec: Arc::clone(spec),
        last: None,
        broadcast,
    };
    core.ready(candidate, START);
}

fn proposed(core: &mut Core) -> Vec<Command> {
    core.plan(START);
    let steps = core.take_steps().into_iter();
    steps.flat_map(|step| if let Step::Propose(commands) = step { commands } else { Vec::new() }).collect()
}

/// How many shards each executor was granted.
fn spread(commands: &[Command]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for command in commands {
        if let Command::Grant { executor, .. } = command {
            *counts.entry(executor.to_string()).or_default() += 1;
        }
    }
    counts
}

#[test]
fn the_shards_of_a_task_go_to_different_executors_while_there_are_enough() {
    for strategy in [Strategy::Ring, Strategy::RoundRobin, Strategy::LeastLoaded, Strategy::Random] {
        let mut core = leader(6, 4);
        let spec = spec(6, strategy.clone());
        (0..6).for_each(|number| ready(&mut core, shard(number), &spec, false));
        let counts = spread(&proposed(&mut core));
        assert_eq!(counts.len(), 6, "{strategy:?}: {counts:?}");
    }
}

#[test]
fn a_thousand_shards_are_spread_evenly_over_few_executors() {
    let mut core = leader(8, 200);
    let spec = spec(1_024, Strategy::Ring);
    (0..1_024).for_each(|number| ready(&mut core, shard(number), &spec, false));
    let first = proposed(&mut core);
    let mut counts = spread(&first);
    for command in &first {
        core.applied(command, &Reply::Granted { fence: 9 }, START);
    }
    for (executor, more) in spread(&proposed(&mut core)) {
        *counts.entry(executor).or_default() += more;
    }
    assert_eq!(counts.values().sum::<usize>(), 1_024, "{counts:?}");
    assert!(counts.len() == 8 && counts.values().all(|count| *count <= 160), "{counts:?}");
}

#[test]
fn a_shard_that_comes_back_goes_where_no_other_one_is() {
    let mut core = leader(3, 4);
    let spec = spec(3, Strategy::Ring);
    (0..3).for_each(|number| ready(&mut core, shard(number), &spec, false));
    let grants = proposed(&mut core);
    for command in &grants {
        core.applied(command, &Reply::Granted { fence: 9 }, START);
    }
    let Command::Grant { shard: of, executor, .. } = &grants[1] else { panic!("{grants:?}") };
    let (of, executor) = (ShardKey::from(*of), executor.clone());
    let ended =
        Event::AttemptEnded { shard: of, executor: executor.clone(), fence: 9, outcome: Outcome::Lost };
    core.event(&ended, START);
    ready(&mut core, of, &spec, false);
    assert_eq!(spread(&proposed(&mut core)), BTreeMap::from([(executor.to_string(), 1)]));
}

#[test]
fn who_holds_a_shard_is_known_whether_or_not_number_0_was_placed_before_the_others_were_known() {
    let core = leader(1, 4);
    let executor = core.fleet.find(&id("e0")).expect("it is there");
    let mut sharded = Sharded::default();
    sharded.taken(shard(0), executor);
    sharded.note(shard(1));
    sharded.taken(shard(1), executor);
    sharded.left(shard(0), executor);
    assert!(sharded.holders(TASK).contains(executor));
    sharded.taken(shard(0), executor);
    sharded.left(shard(1), executor);
    assert!(sharded.holders(TASK).contains(executor));
    sharded.left(shard(0), executor);
    assert!(!sharded.holders(TASK).contains(executor));
}

#[test]
fn nothing_of_a_task_that_has_ended_waits_on() {
    let mut core = leader(0, 0);
    let spec = spec(1_024, Strategy::Ring);
    (0..1_024).for_each(|number| ready(&mut core, shard(number), &spec, false));
    assert_eq!(core.counts().waiting, 1_024);
    core.event(&Event::TaskChanged { task: TASK, version: 2, status: Status::Cancelled }, START);
    assert_eq!(core.counts().waiting, 0);
    assert!(core.tracked.is_empty() && core.sharded.0.is_empty());
}

#[test]
fn a_broadcast_is_aimed_at_those_that_take_work_and_waits_while_there_is_none() {
    let mut core = leader(3, 1);
    core.executor_row(row("e1", 1, ExecutorState::Draining), START);
    let broadcast = spec(1, Strategy::Broadcast);
    ready(&mut core, shard(0), &broadcast, true);
    let targets = vec![id("e0"), id("e2")];
    let aim = Command::Graph(Box::new(GraphCommand::Aim { task: TASK, targets }));
    assert_eq!(proposed(&mut core), [aim]);
    assert!(core.tracked.is_empty(), "events put it back");

    let mut core = leader(0, 0);
    ready(&mut core, shard(0), &broadcast, true);
    assert_eq!(proposed(&mut core), []);
    core.executor_row(row("late", 1, ExecutorState::Online), START);
    assert_eq!(proposed(&mut core).len(), 1);
}

#[test]
fn a_broadcasts_shard_waits_for_its_executor_and_is_given_up_only_when_that_has_gone() {
    let mut core = leader(2, 1);
    let pinned = spec(1, Strategy::Pinned(id("e0")));
    ready(&mut core, shard(1), &pinned, true);
    ready(&mut core, ShardKey { task: TaskId([8; 16]), shard: 1 }, &pinned, true);
    ready(&mut core, ShardKey { task: TaskId([9; 16]), shard: 0 }, &pinned, false);
    assert_eq!(spread(&proposed(&mut core)).len(), 1, "it has one slot, and the others wait");
    core.executor_row(row("e0", 1, ExecutorState::Offline), START);
    let strand = GraphCommand::Strand {
        shard: ShardKey { task: TaskId([8; 16]), shard: 1 }.into(),
        executor: id("e0"),
    };
    let commands = proposed(&mut core);
    assert_eq!(commands, [Command::Graph(Box::new(strand.clone()))], "a pinned task waits on");
    core.graph_applied(&strand, &Reply::Refused(Refusal::ExecutorAlive), START);
    assert_eq!(core.counts().waiting, 1);
    assert_eq!(core.next_due(START).len(), 1, "it came back meanwhile: its rows are read again");
}
