//! Graphs for tests, with a leader that goes on with them as the product's does.

use orloj_model::command::{
    Command, DueTime, GraphCommand, MadeStep, PutFlow, PutJob, Report, ShardRef, Submit, SubmitGraph,
};
use orloj_model::graph::{JobFlow, Need, OnShardFailure, Step, WorkKind};
use orloj_model::id::{Fence, TaskId};
use orloj_model::job::{Definition, Filled};
use orloj_model::key::WorkKey;
use orloj_model::query;
use orloj_model::task::{Dependency, DependsOn, Outcome, Status, TaskSpec};
use orloj_model::{Event, Reply};

use super::jobs::key;
use super::{World, executor, report, spec};

pub fn graph(command: GraphCommand) -> Command {
    Command::Graph(Box::new(command))
}

pub fn needs(parents: &[(TaskId, DependsOn)]) -> Vec<Dependency> {
    parents.iter().map(|(task, on)| Dependency { task: *task, on: *on }).collect()
}

/// A submission with parents.
pub fn child(task: TaskId, parents: &[(TaskId, DependsOn)]) -> Command {
    submit_graph(task, TaskSpec { depends_on: needs(parents), ..spec() }, OnShardFailure::Wait)
}

pub fn submit_graph(task: TaskId, spec: TaskSpec, on_shard_failure: OnShardFailure) -> Command {
    let submit = Submit { task, spec, due: DueTime::After(0), claim: None, idempotency: None };
    graph(GraphCommand::Submit(Box::new(SubmitGraph { submit, on_shard_failure, siblings: Vec::new() })))
}

/// A step of this name that needs earlier ones.
pub fn step(name: &str, needs: &[(u16, DependsOn)]) -> Step {
    let mut template = super::jobs::definition(Default::default()).template;
    template.params = "{}".into();
    Step {
        name: name.into(),
        template,
        on_shard_failure: OnShardFailure::Wait,
        needs: needs.iter().map(|(step, on)| Need { step: *step, on: *on }).collect(),
    }
}

pub fn numbered(number: u32) -> TaskId {
    let mut id = [9; 16];
    id[..4].copy_from_slice(&number.to_be_bytes());
    TaskId(id)
}

impl World {
    pub fn put_flow(&self, job: &str, definition: Definition, flow: JobFlow) -> Command {
        let computed = self.computed(job, &definition);
        let put = PutJob { job: key(job), expected: None, definition, computed, claim: None };
        graph(GraphCommand::PutJob(Box::new(PutFlow { put, flow })))
    }

    pub fn status(&self, task: TaskId) -> Status {
        self.task(task).state.status
    }

    pub fn find(&self, task: TaskId) -> Option<query::TaskView> {
        query::task(&self.tables, task).expect("maps do not fail")
    }

    pub fn work(&self) -> Vec<WorkKey> {
        query::graph_work(&self.tables, None, usize::MAX).expect("maps do not fail")
    }

    /// What a leader proposes for a piece of work. Steps get ids from `ids` on.
    pub fn graph_command(&self, work: WorkKey, ids: u32, most: usize) -> Option<Command> {
        let task = work.task;
        Some(graph(match work.kind {
            WorkKind::Resolve => {
                let first = query::first_waiter(&self.tables, task).expect("maps do not fail")?;
                GraphCommand::Resolve { parent: task, first }
            }
            WorkKind::Make => {
                let run = query::run(&self.tables, task).expect("maps do not fail")?;
                let left = usize::from(run.row.total - run.row.made).min(most);
                let steps = (0..left as u32)
                    .map(|place| MadeStep { task: numbered(ids + place), filled: Filled::default() });
                GraphCommand::MakeSteps { run: task, from: run.row.made, steps: steps.collect() }
            }
            WorkKind::Replace => {
                let from = query::replaced_from(&self.tables, task).expect("maps do not fail")?;
                GraphCommand::ReplaceMore { queued: task, from }
            }
            WorkKind::Stop => {
                let from = query::stopped_steps(&self.tables, task).expect("maps do not fail")?;
                GraphCommand::StopSteps { run: task, from }
            }
        }))
    }

    /// Goes on with everything until nothing is left; answers with the number of commands.
    pub fn go_on(&mut self, ids: &mut u32) -> usize {
        let mut commands = 0;
        while let Some(work) = self.work().first().copied() {
            let command = self.graph_command(work, *ids, 64).expect("what is listed can be done");
            *ids += 64;
            let reply = self.run(command.clone());
            assert_eq!(reply, Reply::Done, "{command:?}");
            commands += 1;
            assert!(commands < 10_000, "it comes to no end");
        }
        commands
    }

    pub fn grant_shard(&mut self, task: TaskId, shard: u16, on: &str) -> Fence {
        let attempt = self.task(task).shards[usize::from(shard)].next_attempt;
        let shard = ShardRef { task, shard };
        let grant = Command::Grant { shard, attempt, executor: executor(on), incarnation: 1 };
        match self.run(grant) {
            Reply::Granted { fence } => fence,
            other => panic!("not granted: {other:?}"),
        }
    }

    /// The report of a shard's open attempt.
    pub fn report_of(&self, task: TaskId, shard: u16, outcome: Outcome) -> Command {
        let view = self.task(task);
        let open = view.shards[usize::from(shard)].open_attempt().expect("it runs");
        match report(task, open.number, open.fence, open.executor.as_str(), outcome) {
            Command::Report(one) => {
                let result = one.result.as_ref().map(|_| shard.to_string().into_bytes());
                Command::Report(Box::new(Report { shard: ShardRef { task, shard }, result, ..*one }))
            }
            other => other,
        }
    }

    /// Runs every shard of a task to this end.
    pub fn run_to(&mut self, task: TaskId, outcome: &Outcome) {
        for shard in 0..self.task(task).state.shards {
            self.grant_shard(task, shard, "a");
            let report = self.report_of(task, shard, outcome.clone());
            self.run(report);
        }
    }

    pub fn lost(&self) -> Vec<(TaskId, TaskId)> {
        let lost = |event: &Event| match event {
            Event::DependencyLost { task, parent } => Some((*task, *parent)),
            _ => None,
        };
        self.events.iter().filter_map(lost).collect()
    }
}

/// A failure that no retry helps.
pub const HOPELESS: Outcome = Outcome::Failed { retryable: false, retry_after_ms: None };
