//! What it takes to apply each kind of command: a hundred of them in one entry, as they come under load, on tables in
//! memory. RocksDB and its write batch come on top of it in the product.

mod common;

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use orloj_model::command::{Command, GraphCommand, JobCommand, MadeStep, PutFlow, SubmitGraph};
use orloj_model::graph::{JobFlow, OnShardFailure, RESOLVE_PER_COMMAND, STEPS_PER_COMMAND, Step};
use orloj_model::job::{Filled, Plan, plan};
use orloj_model::query;

use common::{World, bare, careful, child_of, grant, job, put, report, submit, template};

/// Commands of one entry.
const COMMANDS: u64 = 100;

/// Measures entries that `prepare` makes; all of them are applied to one replica, whose tables grow as they do in life.
fn entries(
    c: &mut Criterion,
    name: &str,
    commands: u64,
    mut prepare: impl FnMut(&mut World) -> Vec<Command>,
) {
    let mut group = c.benchmark_group("apply");
    group.throughput(Throughput::Elements(commands)).sample_size(20).measurement_time(Duration::from_secs(2));
    let world = std::cell::RefCell::new(World::ready());
    group.bench_function(name, |b| {
        let ready = || {
            let mut world = world.borrow_mut();
            let changes = prepare(&mut world);
            world.batch(changes)
        };
        b.iter_batched(ready, |batch| black_box(world.borrow_mut().apply(&batch)), BatchSize::PerIteration);
    });
    group.finish();
}

fn tasks(c: &mut Criterion) {
    entries(c, "submit", COMMANDS, |world| (0..COMMANDS).map(|_| submit(world.fresh_task())).collect());
    entries(c, "submit_with_idempotency_key", COMMANDS, |world| {
        (0..COMMANDS).map(|_| careful(world.fresh_task())).collect()
    });
    entries(c, "grant", COMMANDS, |world| world.submitted(COMMANDS).into_iter().map(grant).collect());
    entries(c, "report", COMMANDS, |world| {
        let (tasks, fence) = world.granted(COMMANDS);
        tasks.into_iter().map(|task| report(task, fence)).collect()
    });
}

fn jobs(c: &mut Criterion) {
    entries(c, "create_a_job", COMMANDS, |world| {
        (0..COMMANDS).map(|_| job(JobCommand::Put(Box::new(put(world.fresh(), world.now))))).collect()
    });
    entries(c, "fire", COMMANDS, |world| {
        let views: Vec<_> = (0..COMMANDS).map(|_| world.job()).collect();
        views.iter().flat_map(|view| world.fires(view)).collect()
    });
    let mut world = World::ready();
    let (view, task) = (world.job(), world.fresh_task());
    c.bench_function("plan/fire", |b| {
        b.iter(|| match plan(black_box(&view), &[], world.now, &mut || task) {
            Ok(Plan::Propose(commands)) => commands,
            other => panic!("no fire: {other:?}"),
        });
    });
}

fn graphs(c: &mut Criterion) {
    let graph = |command| Command::Graph(Box::new(command));
    entries(c, "submit_with_a_parent", COMMANDS, |world| {
        let parent = world.submitted(1)[0];
        let child = |world: &mut World| SubmitGraph {
            submit: bare(world.fresh_task(), child_of(parent)),
            on_shard_failure: OnShardFailure::Wait,
            siblings: Vec::new(),
        };
        (0..COMMANDS).map(|_| graph(GraphCommand::Submit(Box::new(child(world))))).collect()
    });
    // One command tells that many children, so that is what is counted.
    entries(c, "tell_a_child", RESOLVE_PER_COMMAND as u64, |world| {
        let (parents, fence) = world.granted(1);
        let parent = parents[0];
        let child = |world: &mut World| SubmitGraph {
            submit: bare(world.fresh_task(), child_of(parent)),
            on_shard_failure: OnShardFailure::Wait,
            siblings: Vec::new(),
        };
        let children =
            (0..RESOLVE_PER_COMMAND).map(|_| graph(GraphCommand::Submit(Box::new(child(world))))).collect();
        world.run(children);
        world.run(vec![report(parent, fence)]);
        let first = query::first_waiter(&world.tables, parent).expect("maps do not fail");
        vec![graph(GraphCommand::Resolve { parent, first: first.expect("children wait") })]
    });
    entries(c, "make_a_step", STEPS_PER_COMMAND as u64, |world| {
        let step = |number| Step {
            name: format!("step-{number}"),
            template: template(),
            on_shard_failure: OnShardFailure::Wait,
            needs: Vec::new(),
        };
        let flow = JobFlow {
            on_shard_failure: OnShardFailure::Wait,
            steps: (0..STEPS_PER_COMMAND).map(step).collect(),
        };
        let put = put(world.fresh(), world.now);
        let key = put.job.clone();
        world.run(vec![graph(GraphCommand::PutJob(Box::new(PutFlow { put, flow })))]);
        let view = query::job(&world.tables, &key).expect("maps do not fail").expect("it was just put");
        let fires = world.fires(&view);
        let Some(Command::Job(fire)) = fires.first() else { panic!("no fire: {fires:?}") };
        let JobCommand::Fire(fire) = &**fire else { panic!("no fire: {fire:?}") };
        let run = fire.task;
        world.run(fires);
        let steps = (0..STEPS_PER_COMMAND)
            .map(|_| MadeStep { task: world.fresh_task(), filled: Filled::default() })
            .collect();
        vec![graph(GraphCommand::MakeSteps { run, from: 0, steps })]
    });
}

criterion_group!(benches, tasks, jobs, graphs);
criterion_main!(benches);
