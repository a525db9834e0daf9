//! The graph of tasks around one, and what a submission says of parents and shards.

use orloj_model::command::{Command, GraphCommand, Sibling, Submit, SubmitGraph};
use orloj_model::graph::OnShardFailure;
use orloj_model::id::TaskId;
use orloj_model::mutant::{Mutant, is_on};
use orloj_model::task::{Dependency, DependsOn};
use orloj_wire::problem::{Code, FieldError};
use orloj_wire::rest::{self, GRAPH_LIMIT, Parent};

use super::{Call, task_id};
use crate::backend::At;
use crate::outcome::{Answer, Failure};
use crate::view;

/// A submission that stands before another one in a batch: its task, and the Idempotency-Key under which it was
/// submitted. `None` of one that was refused.
pub(super) type Earlier = Option<(TaskId, Option<String>)>;

/// What a submission says beyond its task.
pub(super) struct Beyond {
    /// The parents, in their order.
    pub(super) parents: Vec<Dependency>,
    siblings: Vec<Sibling>,
    on_shard_failure: OnShardFailure,
}

impl Call<'_> {
    pub(super) async fn get_graph(&self, id: &str) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let id = task_id(id)?;
        if !is_on(Mutant::LocalReads) {
            self.shared.backend.barrier().await?;
        }
        // A task's parents and children are of its own caller.
        self.own_task(id)?;
        let At { applied, value } = self.shared.backend.graph(id, GRAPH_LIMIT + 1)?;
        let graph = value.ok_or_else(|| Failure::from(orloj_model::Refusal::TaskNotFound))?;
        Ok(Answer::json(200, &view::graph(id, &graph, applied)).at(applied))
    }
}

/// What a body says of parents and shards. `earlier` are the submissions before it in its batch.
pub(super) fn beyond(body: &rest::Submit, earlier: &[Earlier]) -> Result<Beyond, Vec<FieldError>> {
    let (mut parents, mut siblings, mut faults) = (Vec::new(), Vec::new(), Vec::new());
    for (place, parent) in body.depends_on.iter().enumerate() {
        let mut fault = |message| {
            faults.push(FieldError::new(
                format!("/dependsOn/{place}/taskId"),
                format!("{:?} {message}", parent.task_id),
            ));
        };
        let on = on(parent.on);
        match Parent::parse(&parent.task_id) {
            Some(Parent::Task(task)) => parents.push(Dependency { task, on }),
            Some(Parent::Batch(number)) => match earlier.get(number) {
                Some(Some((task, key))) => {
                    parents.push(Dependency { task: *task, on });
                    // At most [`rest::DEPENDS_LIMIT`] parents.
                    let place = place as u16;
                    siblings.extend(key.clone().map(|key| Sibling { place, key }));
                }
                Some(None) => fault("was refused"),
                None => fault("is no earlier submission of the same batch"),
            },
            None => fault("is no task id"),
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    Ok(Beyond { parents, siblings, on_shard_failure: on_shard_failure(body.on_shard_failure) })
}

/// The command of a submission: the plain one where it says no more than that can.
pub(super) fn command(submit: Submit, beyond: Beyond) -> Command {
    let Beyond { parents, siblings, on_shard_failure } = beyond;
    if parents.is_empty() && on_shard_failure == OnShardFailure::default() {
        return Command::Submit(Box::new(submit));
    }
    Command::Graph(Box::new(GraphCommand::Submit(Box::new(SubmitGraph {
        submit,
        on_shard_failure,
        siblings,
    }))))
}

/// The command of a submission whose parents are those of an earlier one.
pub(super) fn command_again(submit: Submit, on_shard_failure: OnShardFailure) -> Command {
    let parents = submit.spec.depends_on.clone();
    command(submit, Beyond { parents, siblings: Vec::new(), on_shard_failure })
}

/// The submission that a command is.
pub(super) fn submit_of(command: &Command) -> Option<&Submit> {
    match command {
        Command::Submit(submit) => Some(submit),
        Command::Graph(command) => match command.as_ref() {
            GraphCommand::Submit(command) => Some(&command.submit),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn on(on: rest::DependsOnEnd) -> DependsOn {
    match on {
        rest::DependsOnEnd::Success => DependsOn::Success,
        rest::DependsOnEnd::Completed => DependsOn::Completed,
        rest::DependsOnEnd::Failure => DependsOn::Failure,
    }
}

pub(super) fn on_shard_failure(policy: Option<rest::OnShardFailure>) -> OnShardFailure {
    match policy.unwrap_or_default() {
        rest::OnShardFailure::Wait => OnShardFailure::Wait,
        rest::OnShardFailure::Cancel => OnShardFailure::Cancel,
    }
}

/// A parent that the tables do not have.
pub(crate) fn parent_not_found(parent: TaskId) -> Failure {
    let message = format!("no task of this caller has the id \"{parent}\"");
    Failure::fields(Code::ValidationFailed, vec![FieldError::new("/dependsOn", message)])
}
