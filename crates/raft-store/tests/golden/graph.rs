//! Lines for graphs of tasks.

use orloj_model::command::{Command, DueTime, GraphCommand, MadeStep, PutFlow, Sibling, Submit, SubmitGraph};
use orloj_model::graph::{
    JobFlow, Need, Node, OnShardFailure, Role, RunFlow, RunRow, ShardPlan, Step, WorkKind,
};
use orloj_model::key::WorkKey;
use orloj_model::task::{DependsOn, DueClock, Origin, Strategy};

use super::{Golden, executor, job, shard, spec, task};

pub(super) fn add(golden: &mut Golden) {
    commands(golden);
    rows(golden);
    for kind in WorkKind::ALL {
        golden.key(&format!("graph work {kind:?}"), &WorkKey { kind, task: task() });
    }
}

fn step() -> Step {
    let ends = [DependsOn::Success, DependsOn::Completed, DependsOn::Failure];
    Step {
        name: "s".into(),
        template: job::template(),
        on_shard_failure: OnShardFailure::Cancel,
        needs: ends.into_iter().zip(0..).map(|(on, step)| Need { step, on }).collect(),
    }
}

fn commands(golden: &mut Golden) {
    let mut add =
        |name: &str, command| golden.command(&format!("graph {name}"), Command::Graph(Box::new(command)));
    for (name, on_shard_failure) in [("wait", OnShardFailure::Wait), ("cancel", OnShardFailure::Cancel)] {
        let submit = Submit {
            task: task(),
            spec: spec(Origin::Submission, Strategy::Ring),
            due: DueTime::After(6),
            claim: None,
            idempotency: None,
        };
        let siblings = vec![Sibling { place: 1, key: "k#0".into() }];
        let command = SubmitGraph { submit, on_shard_failure, siblings };
        add(&format!("submit {name}"), GraphCommand::Submit(Box::new(command)));
    }
    add("resolve", GraphCommand::Resolve { parent: task(), first: task() });
    add("aim", GraphCommand::Aim { task: task(), targets: vec![executor()] });
    add("strand", GraphCommand::Strand { shard: shard(), executor: executor() });
    let flow = JobFlow { on_shard_failure: OnShardFailure::Cancel, steps: vec![step()] };
    add("put job", GraphCommand::PutJob(Box::new(PutFlow { put: job::put(), flow })));
    let steps = vec![MadeStep { task: task(), filled: job::filled() }];
    add("make steps", GraphCommand::MakeSteps { run: task(), from: 2, steps });
    add("stop steps", GraphCommand::StopSteps { run: task(), from: 3 });
    add("replace more", GraphCommand::ReplaceMore { queued: task(), from: task() });
}

fn rows(golden: &mut Golden) {
    let origin = Origin::Step { job: "j".into(), scheduled_at: 4, run: task(), step: "s".into() };
    golden.row("spec step", &spec(origin, Strategy::Ring));
    let plan = ShardPlan { on_failure: OnShardFailure::Cancel, stopping: true, targets: vec![executor()] };
    golden.row("shard plan", &plan);
    let roles = [("plain", Role::Plain), ("run", Role::Run), ("step", Role::Step { run: task(), index: 5 })];
    for (name, role) in roles {
        golden.row(&format!("node {name}"), &Node { role, waiters: 7, clock: DueClock::Wall });
    }
    golden.row("job flow", &JobFlow { on_shard_failure: OnShardFailure::Wait, steps: vec![step()] });
    golden.row("run", &RunRow { total: 4, made: 3, stopped: 2, begun: true });
    golden.row("run flow", &RunFlow { steps: vec![step()], time_zone: "Europe/Berlin".into() });
    golden.row("run step", &task());
}
