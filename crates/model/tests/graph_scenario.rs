//! Dependencies, shards and workflows, one story each.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::graphs::*;
use common::jobs::{FIRST, definition, key};
use common::*;
use orloj_model::access::{Actor, CallerSettings, KeyLimits};
use orloj_model::command::{
    AccessCommand, Command, DueTime, GraphCommand, Idempotency, JobCommand, Sibling, Submit, SubmitGraph,
};
use orloj_model::graph::{JobFlow, OnShardFailure, RESOLVE_PER_COMMAND, Role, STEPS_PER_COMMAND, WorkKind};
use orloj_model::id::{ExecutorId, TaskId};
use orloj_model::job::Definition;
use orloj_model::key::WorkKey;
use orloj_model::query::Reached;
use orloj_model::task::{DependsOn, Outcome, Reason, Status, Strategy, TaskSpec};
use orloj_model::trigger::SkipReason;
use orloj_model::trigger::overlap::OverlapPolicy;
use orloj_model::{Event, Refusal, Reply, query};

use DependsOn::{Completed, Failure, Success};

fn refused(refusal: Refusal) -> Reply {
    Reply::Refused(refusal)
}

fn submitted(reply: &Reply) -> Status {
    match reply {
        Reply::Submitted { status, .. } => *status,
        other => panic!("not submitted: {other:?}"),
    }
}

#[test]
fn a_child_starts_when_its_last_parent_has_ended_well() {
    let mut world = World::ready();
    world.run(submit(task_id(1), spec(), DueTime::After(0)));
    world.run(submit(task_id(2), spec(), DueTime::After(0)));
    let both = [(task_id(1), Success), (task_id(2), Completed)];
    assert_eq!(submitted(&world.run(child(task_id(3), &both))), Status::Pending);
    let view = world.task(task_id(3));
    assert_eq!((view.state.reason, view.state.unmet), (Reason::Dependencies, 2));
    assert_eq!(world.run(grant(task_id(3), 1, "a", 1)), refused(Refusal::NotWaiting));

    world.run_to(task_id(1), &Outcome::Succeeded);
    let work = WorkKey { kind: WorkKind::Resolve, task: task_id(1) };
    assert!(world.events.contains(&Event::GraphWaits { work }));
    assert_eq!(world.go_on(&mut 0), 1);
    assert_eq!(world.task(task_id(3)).state.unmet, 1);
    world.now += 5_000;
    world.run_to(task_id(2), &HOPELESS);
    assert_eq!(world.go_on(&mut 0), 1);
    let view = world.task(task_id(3));
    assert_eq!((view.state.reason, view.state.due_at), (Reason::Ready, world.now), "due when they had ended");
    world.run_to(task_id(3), &Outcome::Succeeded);
    assert_eq!(world.status(task_id(3)), Status::Success);
    assert_eq!(world.work(), []);
}

/// Task 1 outruns its timeout until no try is left.
fn times_out(world: &mut World) {
    for attempt in 1..=3 {
        let fence = world.grant(task_id(1), attempt, "a");
        world.run(Command::TimeOut { shard: shard(task_id(1)), fence, chance: 0 });
        world.now += 60_000;
    }
}

/// Task 1 is lost with its executor until it is not tried again.
fn is_lost(world: &mut World) {
    for attempt in 1..=4 {
        let life = u64::from(attempt);
        world.run(Command::RegisterExecutor(registration("a", life)));
        let fence = match world.run(grant(task_id(1), attempt, "a", life)) {
            Reply::Granted { fence } => fence,
            other => panic!("not granted: {other:?}"),
        };
        world.run(Command::ExecutorGone { executor: executor("a"), incarnation: life });
        world.run(Command::Lose { shard: shard(task_id(1)), fence, chance: 0 });
        world.now += 60_000;
    }
}

#[test]
fn b105_each_condition_is_met_by_the_ends_that_it_names() {
    type Act = fn(&mut World);
    let ends: [(&str, Act); 6] = [
        ("SUCCESS", |world| world.run_to(task_id(1), &Outcome::Succeeded)),
        ("FAILED", |world| world.run_to(task_id(1), &HOPELESS)),
        ("FAILED", times_out),
        ("FAILED", is_lost),
        ("CANCELLED", |world| {
            world.run(Command::Cancel { task: task_id(1), caller: None, claim: None });
        }),
        ("SKIPPED", |world| {
            world.now += 1_000;
            world.run(Command::Expire { task: task_id(1) });
        }),
    ];
    for (end, act) in ends {
        let mut world = World::ready();
        let expire_at = Some(world.now + 1_000);
        world.run(submit(task_id(1), TaskSpec { expire_at, ..spec() }, DueTime::After(0)));
        for (number, on) in [(2, Success), (3, Completed), (4, Failure)] {
            world.run(child(task_id(number), &[(task_id(1), on)]));
        }
        act(&mut world);
        assert_eq!(world.task(task_id(1)).state.status.name(), end);
        world.go_on(&mut 0);
        for (number, lets) in [(2, end == "SUCCESS"), (3, true), (4, end == "FAILED")] {
            let state = world.task(task_id(number)).state;
            let right =
                if lets { (Status::Pending, Reason::Ready) } else { (Status::Skipped, Reason::Dependency) };
            assert_eq!((state.status, state.reason), right, "{end}: task {number}");
        }
        // The same when the parent had ended before.
        for (number, on, lets) in
            [(5, Success, end == "SUCCESS"), (6, Completed, true), (7, Failure, end == "FAILED")]
        {
            let reply = world.run(child(task_id(number), &[(task_id(1), on)]));
            let right = if lets { Status::Pending } else { Status::Skipped };
            assert_eq!(submitted(&reply), right, "{end}: task {number}");
            let lost: &[_] = if lets { &[] } else { &[(task_id(number), task_id(1))] };
            assert_eq!(world.lost(), lost);
        }
    }
}

#[test]
fn a_skip_goes_down_one_level_a_command_and_raises_an_alert_each_time() {
    let mut world = World::ready();
    world.run(submit(task_id(1), spec(), DueTime::After(0)));
    for number in 2..=5 {
        world.run(child(task_id(number), &[(task_id(number - 1), Success)]));
    }
    world.run(child(task_id(6), &[(task_id(4), Completed)]));
    world.run_to(task_id(1), &HOPELESS);
    for number in 2..=5 {
        assert_eq!(world.status(task_id(number)), Status::Pending, "nobody looks further than one level");
        let work = world.work();
        assert_eq!(work[0].task, task_id(number - 1));
        let command = world.graph_command(work[0], 0, 1).unwrap();
        world.run(command);
        assert_eq!(world.status(task_id(number)), Status::Skipped);
        assert_eq!(world.lost(), [(task_id(number), task_id(number - 1))]);
    }
    assert_eq!(world.task(task_id(6)).state.reason, Reason::Ready, "told with the other child of 4");
}

#[test]
fn unknown_parents_and_those_of_others_are_refused() {
    let mut world = World::ready();
    let other = TaskSpec { caller: orloj_model::id::CallerId::new("other").unwrap(), ..spec() };
    world.run(submit(task_id(1), other, DueTime::After(0)));
    for parent in [task_id(1), task_id(9), task_id(2)] {
        let reply = world.run(child(task_id(2), &[(parent, Success)]));
        assert_eq!(reply, refused(Refusal::ParentNotFound { parent }));
    }
    assert_eq!(world.find(task_id(2)), None);
    world.run(submit(task_id(3), spec(), DueTime::After(0)));
    let twice = [(task_id(3), Success), (task_id(3), Completed)];
    assert_eq!(world.run(child(task_id(4), &twice)), refused(Refusal::Invalid));
    let plain = TaskSpec { depends_on: needs(&twice[..1]), ..spec() };
    assert_eq!(world.run(submit(task_id(4), plain, DueTime::After(0))), refused(Refusal::Invalid));
}

#[test]
fn a_parent_of_very_many_children_is_worked_off_in_bounded_steps() {
    let mut world = World::ready();
    world.run(submit(task_id(1), spec(), DueTime::After(0)));
    let children = 3 * RESOLVE_PER_COMMAND as u32 + 1;
    let submits = |number| child(numbered(number), &[(task_id(1), Success)]);
    world.run_all((0..children).map(submits).collect());
    world.run_to(task_id(1), &Outcome::Succeeded);
    // One that comes meanwhile waits for nothing, and is not told a second time.
    let late = child(task_id(2), &[(task_id(1), Success)]);
    assert_eq!(submitted(&world.run(late)), Status::Pending);
    assert_eq!(world.task(task_id(2)).state.reason, Reason::Ready);
    let work = world.work();
    let first = world.graph_command(work[0], 0, 1).unwrap();
    assert_eq!(world.run(first.clone()), Reply::Done);
    assert_eq!(world.run(first), refused(Refusal::StaleGraph), "told once");
    assert_eq!(world.go_on(&mut 0), 3);
    for number in 0..children {
        assert_eq!(world.task(numbered(number)).state.reason, Reason::Ready, "child {number}");
    }
    let wide = TaskSpec { shard_total: 600, depends_on: needs(&[(task_id(3), Success)]), ..spec() };
    world.run(submit(task_id(3), spec(), DueTime::After(0)));
    for number in 4..=6 {
        world.run(submit_graph(task_id(number), wide.clone(), OnShardFailure::Wait));
    }
    world.run_to(task_id(3), &Outcome::Succeeded);
    assert_eq!(world.go_on(&mut 0), 2, "two children of 600 shards are enough for one command");
}

#[test]
fn a_cancelled_child_stays_cancelled_and_a_deadline_holds_while_it_waits() {
    let mut world = World::ready();
    world.run(submit(task_id(1), spec(), DueTime::After(0)));
    world.run(child(task_id(2), &[(task_id(1), Success)]));
    let expire_at = Some(world.now + 1_000);
    let brief = TaskSpec { expire_at, depends_on: needs(&[(task_id(1), Success)]), ..spec() };
    world.run(submit_graph(task_id(3), brief, OnShardFailure::Wait));
    world.run(Command::Cancel { task: task_id(2), caller: Some(caller()), claim: None });
    world.now += 1_000;
    world.run(Command::Expire { task: task_id(3) });
    world.run_to(task_id(1), &Outcome::Succeeded);
    world.go_on(&mut 0);
    assert_eq!(world.status(task_id(2)), Status::Cancelled);
    assert_eq!(world.task(task_id(3)).state.reason, Reason::Expired);
}

#[test]
fn a_child_that_is_due_later_waits_for_its_time_too() {
    let mut world = World::ready();
    world.run(submit(task_id(1), spec(), DueTime::After(0)));
    let at = world.now + 60_000;
    let spec_of = TaskSpec { depends_on: needs(&[(task_id(1), Success)]), ..spec() };
    let submit =
        Submit { task: task_id(2), spec: spec_of, due: DueTime::At(at), claim: None, idempotency: None };
    let command = SubmitGraph { submit, on_shard_failure: OnShardFailure::Wait, siblings: Vec::new() };
    world.run(graph(GraphCommand::Submit(Box::new(command))));
    world.run_to(task_id(1), &Outcome::Succeeded);
    world.go_on(&mut 0);
    let state = world.task(task_id(2)).state;
    assert_eq!((state.reason, state.due_at), (Reason::Scheduled, at));
    assert_eq!(world.run(grant(task_id(2), 1, "a", 1)), refused(Refusal::NotDue { due_at: at }));
}

#[test]
fn a_parent_of_the_same_batch_is_found_under_the_key_of_an_earlier_request() {
    let mut world = World::ready();
    let idempotency = |key: &str| Some(Idempotency { key: key.into(), fingerprint: [1; 32] });
    let first = |task| {
        let (due, claim) = (DueTime::After(0), None);
        Command::Submit(Box::new(Submit { task, spec: spec(), due, claim, idempotency: idempotency("k#0") }))
    };
    let second = |task, parent| {
        let spec = TaskSpec { depends_on: needs(&[(parent, Success)]), ..spec() };
        let (due, claim) = (DueTime::After(0), None);
        let submit = Submit { task, spec, due, claim, idempotency: idempotency("k#1") };
        let siblings = vec![Sibling { place: 0, key: "k#0".into() }];
        graph(GraphCommand::Submit(Box::new(SubmitGraph {
            submit,
            on_shard_failure: OnShardFailure::Wait,
            siblings,
        })))
    };
    world.run(first(task_id(1)));
    // The rest of the batch got lost; the whole comes again, with new ids.
    world.run(first(task_id(2)));
    world.run(second(task_id(3), task_id(2)));
    assert_eq!(world.task(task_id(3)).spec.depends_on, needs(&[(task_id(1), Success)]));
}

fn cancel_all(task: u8, shards: u16) -> World {
    let mut world = World::ready();
    let spec = TaskSpec { shard_total: shards, ..spec() };
    world.run(submit_graph(task_id(task), spec, OnShardFailure::Cancel));
    world
}

#[test]
fn a_shard_that_failed_for_good_stops_the_others_if_the_task_says_so() {
    let mut world = cancel_all(1, 4);
    for shard in 0..3 {
        world.grant_shard(task_id(1), shard, "a");
    }
    let report = world.report_of(task_id(1), 0, HOPELESS);
    world.run(report);
    let asked = world.events.iter().filter(|event| matches!(event, Event::CancelRequested { .. }));
    assert_eq!(asked.count(), 2, "those that run are asked");
    assert_eq!(world.run(grant(task_id(1), 1, "a", 1)), refused(Refusal::NotWaiting));
    assert_eq!(world.status(task_id(1)), Status::Running);
    let report = world.report_of(task_id(1), 1, Outcome::Succeeded);
    world.run(report);
    let report = world.report_of(task_id(1), 2, Outcome::Cancelled);
    world.run(report);
    let view = world.task(task_id(1));
    assert_eq!((view.state.status, view.state.succeeded, view.state.failed), (Status::Failed, 1, 1));

    let mut world = cancel_all(1, 3);
    world.grant_shard(task_id(1), 2, "a");
    let report = world.report_of(task_id(1), 2, HOPELESS);
    world.run(report);
    assert_eq!(world.status(task_id(1)), Status::Failed, "none of the others ran");
}

#[test]
fn without_a_word_the_others_go_on_and_the_task_fails_after_the_last() {
    let mut world = World::ready();
    let spec = TaskSpec { shard_total: 3, ..spec() };
    world.run(submit(task_id(1), spec, DueTime::After(0)));
    world.grant_shard(task_id(1), 0, "a");
    let report = world.report_of(task_id(1), 0, HOPELESS);
    world.run(report);
    assert_eq!(world.status(task_id(1)), Status::Pending);
    for shard in 1..3 {
        world.grant_shard(task_id(1), shard, "b");
        let report = world.report_of(task_id(1), shard, Outcome::Succeeded);
        world.run(report);
    }
    let view = world.task(task_id(1));
    assert_eq!((view.state.status, view.state.succeeded, view.state.failed), (Status::Failed, 2, 1));
}

#[test]
fn a_person_who_cancels_first_is_heard_first() {
    let mut world = cancel_all(1, 2);
    world.grant_shard(task_id(1), 0, "a");
    world.grant_shard(task_id(1), 1, "a");
    world.run(Command::Cancel { task: task_id(1), caller: Some(caller()), claim: None });
    for shard in 0..2 {
        let report = world.report_of(task_id(1), shard, HOPELESS);
        world.run(report);
    }
    assert_eq!(world.status(task_id(1)), Status::Cancelled);
}

fn ids(names: &[&str]) -> Vec<ExecutorId> {
    names.iter().map(|name| executor(name)).collect()
}

fn broadcast() -> World {
    let mut world = World::ready();
    let spec = TaskSpec { strategy: Strategy::Broadcast, ..spec() };
    world.run(submit(task_id(1), spec, DueTime::After(50)));
    world
}

fn aim(targets: &[&str]) -> Command {
    graph(GraphCommand::Aim { task: task_id(1), targets: ids(targets) })
}

#[test]
fn a_broadcast_gets_a_shard_for_each_executor_once_and_when_it_is_due() {
    let mut world = broadcast();
    let due_at = world.now + 50;
    assert_eq!(world.run(aim(&["a", "b"])), refused(Refusal::NotDue { due_at }));
    world.now += 50;
    for bad in [&[][..], &["b", "a"], &["a", "a"]] {
        assert_eq!(world.run(aim(bad)), refused(Refusal::Invalid));
    }
    assert!(matches!(world.run(aim(&["a", "b"])), Reply::Task { status: Status::Pending, .. }));
    assert_eq!(world.run(aim(&["a"])), refused(Refusal::StaleGraph), "once");
    assert_eq!(world.task(task_id(1)).shards.len(), 2);
    world.run_to(task_id(1), &Outcome::Succeeded);
    assert_eq!(world.status(task_id(1)), Status::Success);
    let plan = query::shard_plan(&world.tables, task_id(1)).unwrap().unwrap();
    assert_eq!(plan.targets, ids(&["a", "b"]));
    let mut world = World::ready();
    world.run(submit(task_id(1), spec(), DueTime::After(0)));
    assert_eq!(world.run(aim(&["a"])), refused(Refusal::StaleGraph), "it is no broadcast");
}

#[test]
fn a_broadcasts_shard_ends_with_its_executor_for_good_and_goes_on_with_a_new_life() {
    let mut world = broadcast();
    world.now += 50;
    world.run(aim(&["a", "b"]));
    let fence = world.grant_shard(task_id(1), 0, "a");
    world.run(Command::RegisterExecutor(registration("a", 2)));
    let of = |shard| orloj_model::command::ShardRef { task: task_id(1), shard };
    world.run(Command::Lose { shard: of(0), fence, chance: 0 });
    assert_eq!(world.task(task_id(1)).state.failed, 0, "another life of it may try again");
    let strand = |shard, on: &str| graph(GraphCommand::Strand { shard: of(shard), executor: executor(on) });
    assert_eq!(world.run(strand(1, "b")), refused(Refusal::ExecutorAlive));
    assert_eq!(world.run(strand(1, "a")), refused(Refusal::StaleGraph), "that is not its executor");
    world.run(Command::ExecutorGone { executor: executor("b"), incarnation: 1 });
    assert!(matches!(world.run(strand(1, "b")), Reply::Task { .. }));
    assert_eq!(world.run(strand(1, "b")), refused(Refusal::NotWaiting));
    let view = world.task(task_id(1));
    assert_eq!((view.state.status, view.state.failed), (Status::Pending, 1));
    assert_eq!(view.shards[1].attempts[0].outcome, Some(Outcome::Lost));
    world.now += 10_000;
    let grant = Command::Grant { shard: of(0), attempt: 2, executor: executor("a"), incarnation: 2 };
    let Reply::Granted { fence } = world.run(grant) else { panic!("not granted") };
    world.run(Command::ExecutorLeft { executor: executor("a"), incarnation: 2 });
    world.run(Command::Lose { shard: of(0), fence, chance: 0 });
    let view = world.task(task_id(1));
    assert_eq!((view.state.status, view.state.failed), (Status::Failed, 2), "nobody else can run it");
}

#[test]
fn b107_a_child_of_a_task_of_many_shards_starts_once_and_after_the_last_one() {
    let mut world = World::ready();
    world.run(submit(task_id(1), TaskSpec { shard_total: 10, ..spec() }, DueTime::After(0)));
    world.run(child(task_id(2), &[(task_id(1), Success)]));
    let mut released = 0;
    let mut note = |world: &World| {
        let waits =
            |event: &&Event| matches!(event, Event::Waiting { shard, .. } if shard.task == task_id(2));
        released += world.events.iter().filter(waits).count();
    };
    for shard in (0..10).filter(|shard| *shard != 7) {
        world.grant_shard(task_id(1), shard, "a");
        let report = world.report_of(task_id(1), shard, Outcome::Succeeded);
        for _ in 0..2 {
            world.run(report.clone());
            note(&world);
        }
    }
    for outcome in [FAILED, FAILED, Outcome::Succeeded] {
        assert_eq!(world.status(task_id(2)), Status::Pending);
        assert_eq!(world.task(task_id(2)).state.unmet, 1, "nine of ten are not enough");
        world.grant_shard(task_id(1), 7, "b");
        let report = world.report_of(task_id(1), 7, outcome);
        world.run(report);
        world.now += 60_000;
    }
    while let Some(work) = world.work().first().copied() {
        let command = world.graph_command(work, 100, 64).expect("what is listed can be done");
        world.run(command);
        note(&world);
    }
    assert_eq!((released, world.task(task_id(2)).state.unmet), (1, 0));
}

/// load, then check and (when that fails) undo, then done after both.
fn flow() -> JobFlow {
    let steps = vec![
        step("load", &[]),
        step("check", &[(0, Success)]),
        step("undo", &[(1, Failure)]),
        step("done", &[(1, Completed), (2, Completed)]),
    ];
    JobFlow { steps, ..JobFlow::default() }
}

fn with_flow(overlap: OverlapPolicy, flow: JobFlow) -> World {
    let mut world = World::ready();
    let put = world.put_flow("j", definition(overlap), flow);
    assert!(matches!(world.run(put), Reply::Job { version: 1, .. }));
    world
}

/// The steps of a run by name.
fn steps(world: &World, run: TaskId) -> BTreeMap<String, TaskId> {
    let graph = query::graph(&world.tables, run, 2_000).expect("maps do not fail").expect("it is there");
    assert_eq!(graph.nodes[0].role, Role::Run);
    let name = |origin: &orloj_model::task::Origin| match origin {
        orloj_model::task::Origin::Step { step, .. } => step.clone(),
        other => panic!("no step: {other:?}"),
    };
    graph.nodes[1..].iter().map(|node| (name(&node.origin), node.task)).collect()
}

#[test]
fn a_fire_of_a_job_with_steps_makes_one_run_that_counts_them() {
    let mut world = with_flow(OverlapPolicy::Skip, flow());
    let run = task_id(1);
    assert!(matches!(world.fires("j", run), Reply::Fired { queued: false, .. }));
    assert_eq!(world.status(run), Status::Pending);
    assert_eq!(world.go_on(&mut 100), 1);
    let view = world.task(run);
    assert_eq!((view.state.status, view.state.running, view.state.shards), (Status::Running, 4, 4));
    let steps = steps(&world, run);
    let origin = &world.task(steps["check"]).spec.origin;
    assert_eq!(origin.job(), Some(("j", FIRST)));
    world.run_to(steps["load"], &Outcome::Succeeded);
    world.go_on(&mut 200);
    world.run_to(steps["check"], &Outcome::Succeeded);
    world.go_on(&mut 300);
    assert_eq!(world.status(steps["undo"]), Status::Skipped, "there was nothing to undo");
    world.run_to(steps["done"], &Outcome::Succeeded);
    let view = world.task(run);
    assert_eq!((view.state.status, view.state.succeeded), (Status::Success, 4), "not needed is well");
    assert_eq!(world.job("j").state.open, 0);
}

#[test]
fn a_failing_branch_is_compensated_and_the_run_fails_all_the_same() {
    let mut world = with_flow(OverlapPolicy::Skip, flow());
    let run = task_id(1);
    world.fires("j", run);
    world.go_on(&mut 100);
    let steps = steps(&world, run);
    world.run_to(steps["load"], &Outcome::Succeeded);
    world.go_on(&mut 200);
    world.run_to(steps["check"], &HOPELESS);
    world.go_on(&mut 300);
    world.run_to(steps["undo"], &Outcome::Succeeded);
    world.go_on(&mut 400);
    world.run_to(steps["done"], &Outcome::Succeeded);
    let view = world.task(run);
    assert_eq!((view.state.status, view.state.succeeded, view.state.failed), (Status::Failed, 3, 1));
}

#[test]
fn b106_overlap_looks_at_the_whole_run_and_a_queued_one_makes_no_step() {
    let mut world = with_flow(OverlapPolicy::Queue, flow());
    world.fires("j", task_id(1));
    world.go_on(&mut 100);
    assert!(matches!(world.fires("j", task_id(2)), Reply::Fired { queued: true, .. }));
    assert_eq!(world.work(), [], "nothing is made of a run that waits");
    let skipped = world.fires("j", task_id(3));
    assert_eq!(skipped, Reply::FireSkipped { reason: SkipReason::Overlap });
    let first = steps(&world, task_id(1));
    world.run_to(first["load"], &HOPELESS);
    world.go_on(&mut 200);
    assert_eq!(world.status(task_id(1)), Status::Running, "a step of it is still to run");
    assert_eq!(world.status(task_id(2)), Status::Pending);
    world.run_to(first["done"], &Outcome::Succeeded);
    assert_eq!(world.status(task_id(1)), Status::Failed);
    world.go_on(&mut 300);
    assert_eq!(world.status(task_id(2)), Status::Running);
    assert_eq!(steps(&world, task_id(2)).len(), 4);
}

/// B105: upstream of a step stands its job, too.
/// What is done to a job while it runs.
type Befall<'a> = &'a dyn Fn(&World) -> Command;

#[test]
fn a_run_counts_against_no_limit_and_each_of_its_steps_does() {
    let mut world = World::ready();
    let limited = Definition { max_running: Some(1), ..definition(OverlapPolicy::Skip) };
    let flow = JobFlow { steps: vec![step("one", &[]), step("two", &[])], ..JobFlow::default() };
    let put = world.put_flow("j", limited, flow);
    world.run(put);
    let run = task_id(1);
    world.fires("j", run);
    world.go_on(&mut 100);
    let steps = steps(&world, run);
    let reached = |world: &World| {
        let spec = world.task(steps["two"]).spec;
        query::reached_limit(&world.tables, &spec, None).expect("maps do not fail")
    };
    assert_eq!((world.status(run), reached(&world)), (Status::Running, None));
    world.grant(steps["one"], 1, "a");
    assert_eq!(reached(&world), Some(Reached { job: Some(key("j").job), most: 1 }));
}

#[test]
fn b105_a_run_that_has_begun_ends_when_its_job_is_paused_or_deleted_or_its_caller_disabled() {
    let pause = |_: &World| {
        common::jobs::command(JobCommand::Pause { job: key("j"), note: String::new(), claim: None })
    };
    let disable = |_: &World| {
        let limits = KeyLimits {
            requests_per_1000s: 1,
            requests_burst: 1,
            submits_per_1000s: 1,
            submits_burst: 1,
            waiters: 1,
        };
        let settings = CallerSettings {
            enabled: false,
            description: String::new(),
            scopes: BTreeSet::new(),
            handlers: Vec::new(),
            callback_hosts: Vec::new(),
            limits,
        };
        let by = Actor { access_key: "adk_A".into(), request_id: "r".into(), claim: None };
        let put = AccessCommand::PutCaller { caller: caller(), expected: None, settings, by };
        Command::Access(Box::new(put))
    };
    let befalls: [(&str, Befall<'_>); 3] =
        [("paused", &pause), ("deleted", &|_| command_of_delete("j")), ("disabled", &disable)];
    for (what, befall) in befalls {
        let mut world = with_flow(OverlapPolicy::Skip, flow());
        let run = task_id(1);
        world.fires("j", run);
        world.go_on(&mut 100);
        let steps = steps(&world, run);
        world.run_to(steps["load"], &Outcome::Succeeded);
        let command = befall(&world);
        let reply = world.run(command);
        assert!(!matches!(reply, Reply::Refused(_)), "{what}: {reply:?}");
        world.go_on(&mut 200);
        world.run_to(steps["check"], &Outcome::Succeeded);
        world.go_on(&mut 300);
        world.run_to(steps["done"], &Outcome::Succeeded);
        assert_eq!(world.status(run), Status::Success, "{what}");
        assert_eq!(world.work(), [], "{what}: nothing waits");
    }
}

#[test]
fn cancelling_a_run_cancels_its_steps_from_the_last_on_and_makes_no_more() {
    let many: Vec<_> = (0..200).map(|number| step(&format!("s{number}"), &[])).collect();
    let mut world = with_flow(OverlapPolicy::Skip, JobFlow { steps: many, ..JobFlow::default() });
    let run = task_id(1);
    world.fires("j", run);
    let work = world.work();
    let command = world.graph_command(work[0], 100, STEPS_PER_COMMAND).unwrap();
    world.run(command.clone());
    assert_eq!(world.run(command), refused(Refusal::StaleGraph), "made once");
    let first = numbered(100);
    world.grant_shard(first, 0, "a");
    world.run(Command::Cancel { task: run, caller: Some(caller()), claim: None });
    let state = world.task(run).state;
    assert_eq!((state.status, state.running), (Status::Running, STEPS_PER_COMMAND as u16));
    world.go_on(&mut 1_000);
    assert_eq!(world.find(numbered(100 + STEPS_PER_COMMAND as u32)), None);
    assert!(world.task(first).state.cancel_requested);
    let report = world.report_of(first, 0, Outcome::Cancelled);
    world.run(report);
    assert_eq!(world.status(run), Status::Cancelled);
    assert_eq!(world.job("j").state.open, 0);
}

#[test]
fn an_edit_does_not_reach_a_run_that_has_begun() {
    let many: Vec<_> = (0..100).map(|number| step(&format!("s{number}"), &[])).collect();
    let mut world = with_flow(OverlapPolicy::Skip, JobFlow { steps: many, ..JobFlow::default() });
    world.fires("j", task_id(1));
    let work = world.work();
    let command = world.graph_command(work[0], 100, 40).unwrap();
    world.run(command);
    let put = world.put_flow("j", definition(OverlapPolicy::Skip), flow());
    assert!(matches!(world.run(put.clone()), Reply::Job { version: 2, .. }), "the steps alone are an edit");
    let Command::Graph(again) = put else { panic!("a put") };
    let GraphCommand::PutJob(mut again) = *again else { panic!("a put") };
    again.put.computed = world.computed("j", &again.put.definition);
    let again = world.run(graph(GraphCommand::PutJob(again)));
    assert!(matches!(again, Reply::Job { version: 2, .. }), "the same again changes nothing");
    world.go_on(&mut 1_000);
    assert_eq!(steps(&world, task_id(1)).len(), 100);
    world.run(command_of_delete("j"));
    for task in steps(&world, task_id(1)).into_values() {
        world.run_to(task, &Outcome::Succeeded);
    }
    assert_eq!(world.status(task_id(1)), Status::Success, "nor does the job's end");
}

fn command_of_delete(job: &str) -> Command {
    common::jobs::command(orloj_model::command::JobCommand::Delete {
        job: key(job),
        expected: None,
        claim: None,
    })
}

#[test]
fn a_flow_outside_its_bounds_never_enters_the_table() {
    let mut world = World::ready();
    let bad = |steps| JobFlow { steps, ..JobFlow::default() };
    let mut late = step("late", &[]);
    late.template.expire_after_ms = Some(1);
    let mut calls = step("calls", &[]);
    calls.template.callback_url = Some("https://h/".into());
    let mut big = step("big", &[]);
    big.template.params = "x".repeat(60 << 10);
    let bigs = (0..9).map(|number| orloj_model::graph::Step { name: format!("b{number}"), ..big.clone() });
    for flow in [
        bad(vec![step("a", &[(0, Success)])]),
        bad(vec![step("a", &[]), step("b", &[(2, Success)]), step("c", &[])]),
        bad(vec![step("a", &[]), step("b", &[(0, Success), (0, Failure)])]),
        bad(vec![step("a", &[]), step("a", &[])]),
        bad(vec![step("a b", &[])]),
        bad((0..1_001).map(|number| step(&format!("s{number}"), &[])).collect()),
        bad(vec![late]),
        bad(vec![calls]),
        bad(bigs.collect()),
    ] {
        let put = world.put_flow("j", definition(OverlapPolicy::Skip), flow);
        assert_eq!(world.run(put), refused(Refusal::Invalid));
    }
}

#[test]
fn the_graph_of_a_task_is_what_it_reaches_over_parents_and_children() {
    let mut world = World::ready();
    world.run(submit(task_id(1), spec(), DueTime::After(0)));
    world.run(child(task_id(2), &[(task_id(1), Success)]));
    world.run(child(task_id(3), &[(task_id(1), Failure)]));
    world.run(child(task_id(4), &[(task_id(2), Success), (task_id(3), Completed)]));
    world.run(submit(task_id(5), spec(), DueTime::After(0)));
    let of = |task, limit| query::graph(&world.tables, task, limit).unwrap().unwrap();
    for task in 1..=4 {
        let mut found: Vec<_> = of(task_id(task), 10).nodes.iter().map(|node| node.task).collect();
        found.sort();
        assert_eq!(found, [1, 2, 3, 4].map(task_id));
    }
    assert_eq!(of(task_id(5), 10).nodes.len(), 1);
    let part = of(task_id(4), 3);
    assert_eq!((part.nodes.len(), part.truncated, part.nodes[0].task), (3, true, task_id(4)));
    assert_eq!(query::graph(&world.tables, task_id(9), 3).unwrap(), None);
}

#[test]
fn a_graph_is_read_within_its_bounds_and_says_so() {
    let mut world = World::ready();
    let params = vec![b'1'; 1_000];
    for number in 1..=3 {
        let heavy = TaskSpec { params: params.clone(), ..spec() };
        world.run(submit(task_id(number), heavy, DueTime::After(0)));
    }
    // Each of 4 to 9 waits for all of 1 to 3: 18 parents, and as many children.
    for number in 4..=9 {
        let parents: Vec<_> = (1..=3).map(|parent| (task_id(parent), Success)).collect();
        let depends_on = needs(&parents);
        let heavy = TaskSpec { params: params.clone(), depends_on, ..spec() };
        world.run(submit_graph(task_id(number), heavy, OnShardFailure::Wait));
    }
    let roomy = query::GraphBounds { tasks: 9, links: 100, bytes: 100_000 };
    let read = |bounds| {
        let graph = query::graph_within(&world.tables, task_id(1), bounds).unwrap().unwrap();
        assert_eq!(graph.nodes[0].task, task_id(1), "the one that was asked for is there always");
        let links: usize = graph.nodes.iter().map(|node| node.depends_on.len()).sum();
        (graph.nodes.len(), links, graph.truncated)
    };
    assert_eq!(read(roomy), (9, 18, false));
    let (tasks, links, truncated) = read(query::GraphBounds { links: 20, ..roomy });
    assert!(truncated && tasks == 9 && links <= 20, "{tasks} tasks, {links} links");
    assert_eq!(read(query::GraphBounds { links: 0, ..roomy }), (1, 0, true));
    assert_eq!(
        read(query::GraphBounds { bytes: 3_500, ..roomy }),
        (4, 9, true),
        "the last one may go beyond"
    );
    assert_eq!(read(query::GraphBounds { bytes: 0, ..roomy }), (1, 0, true));
}

#[test]
fn the_graph_of_a_run_is_read_within_its_bounds_too() {
    let mut world = World::ready();
    let steps: Vec<_> = (0..6_u16)
        .map(|place| step(&format!("s{place}"), &(0..place).map(|on| (on, Success)).collect::<Vec<_>>()))
        .collect();
    let put =
        world.put_flow("flow", definition(OverlapPolicy::Allow), JobFlow { steps, ..JobFlow::default() });
    world.run(put);
    world.fires("flow", task_id(1));
    world.go_on(&mut 0);
    let read = |links| {
        let bounds = query::GraphBounds { tasks: 100, links, bytes: 100_000 };
        let graph = query::graph_within(&world.tables, task_id(1), bounds).unwrap().unwrap();
        let links: usize = graph.nodes.iter().map(|node| node.depends_on.len()).sum();
        (graph.nodes.len(), links, graph.truncated)
    };
    assert_eq!(read(15), (7, 15, false));
    assert_eq!(read(14), (7, 14, true), "every step is shown, and that something is missing");
}
