//! Graphs of tasks: submissions with parents, and what follows for others when a task ends.

mod resolve;
mod run;
mod shards;

pub(crate) use resolve::{release, task_ended};
pub(crate) use run::{NewRun, create_run, stop_run};
pub(crate) use shards::{failed_for_good, is_gone, is_stopping, keep_policy};

use std::collections::BTreeSet;

use crate::apply::context::Context;
use crate::apply::create::{self, New, Start, submitted};
use crate::apply::job;
use crate::apply::nonce::spend;
use crate::apply::submit::{due, remember, remembered, within_bounds};
use crate::command::{GraphCommand, Refusal, Reply, Sibling, SubmitGraph};
use crate::event::Event;
use crate::graph::{MAX_PARENTS, Node, Role, WorkKind, is_met};
use crate::id::{Millis, TaskId};
use crate::key::{CallerTextKey, DepKey, WorkKey};
use crate::mutant::{Mutant, is_on};
use crate::schema::{
    DependsOnRow, DepsTable, GraphWorkTable, IdempotencyTable, NodeTable, TaskTable, WaitsTable,
};
use crate::tables::{ReadExt as _, Write, WriteExt as _};
use crate::task::{DueClock, TaskSpec};

pub(crate) fn route<T: Write>(cx: &mut Context<'_, T>, command: &GraphCommand) -> Result<Reply, T::Error> {
    match command {
        GraphCommand::Submit(command) => submit(cx, command),
        GraphCommand::Resolve { parent, first } => resolve::resolve(cx, *parent, *first),
        GraphCommand::Aim { task, targets } => shards::aim(cx, *task, targets),
        GraphCommand::Strand { shard, executor } => shards::strand(cx, (*shard).into(), executor),
        GraphCommand::PutJob(command) => job::put(cx, &command.put, Some(&command.flow), None),
        GraphCommand::MakeSteps { run, from, steps } => run::make_steps(cx, *run, *from, steps),
        GraphCommand::StopSteps { run, from } => run::stop_steps(cx, *run, *from),
        GraphCommand::ReplaceMore { queued, from } => job::replace_more(cx, *queued, *from),
    }
}

impl<T: Write> Context<'_, T> {
    /// A task's place in graphs.
    pub(crate) fn node(&self, task: TaskId) -> Result<Node, T::Error> {
        Ok(self.tables.get::<NodeTable>(&task)?.unwrap_or_default())
    }

    /// Lets a leader go on with something.
    pub(crate) fn want(&mut self, kind: WorkKind, task: TaskId) -> Result<(), T::Error> {
        let work = WorkKey { kind, task };
        self.events.push(Event::GraphWaits { work });
        self.tables.put::<GraphWorkTable>(&work, &())
    }

    /// There is nothing more to go on with.
    pub(crate) fn unlist(&mut self, kind: WorkKind, task: TaskId) -> Result<(), T::Error> {
        self.tables.delete::<GraphWorkTable>(&WorkKey { kind, task })
    }
}

fn submit<T: Write>(cx: &mut Context<'_, T>, command: &SubmitGraph) -> Result<Reply, T::Error> {
    let SubmitGraph { submit, on_shard_failure, siblings } = command;
    let (task, caller) = (submit.task, &submit.spec.caller);
    if !within_bounds(&submit.spec) || submit.spec.depends_on.len() > MAX_PARENTS {
        return Ok(Reply::Refused(Refusal::Invalid));
    }
    if let Some(refusal) = spend(cx, submit.claim.as_ref())? {
        return Ok(Reply::Refused(refusal));
    }
    if let Some(reply) = remembered(cx, caller, submit.idempotency.as_ref())? {
        return Ok(reply);
    }
    if cx.tables.has::<TaskTable>(&task)? {
        return Ok(Reply::Refused(Refusal::TaskExists));
    }
    let mut spec = submit.spec.clone();
    find_siblings(cx, &mut spec, siblings)?;
    let parents = match look_at_parents(cx, &spec)? {
        Ok(parents) => parents,
        Err(refusal) => return Ok(Reply::Refused(refusal)),
    };
    remember(cx, caller, task, submit.idempotency.as_ref())?;
    let (due_at, clock) = due(cx, submit.due);
    let child = Child { task, spec: &spec, due_at, clock, role: Role::Plain };
    let reply = create_child(cx, &child, &parents)?;
    keep_policy(cx, task, &spec, *on_shard_failure)?;
    Ok(reply)
}

/// A parent of the same batch may have been made by an earlier request under the same key.
fn find_siblings<T: Write>(
    cx: &Context<'_, T>,
    spec: &mut TaskSpec,
    siblings: &[Sibling],
) -> Result<(), T::Error> {
    for sibling in siblings {
        let key = CallerTextKey { caller: spec.caller.clone(), text: sibling.key.clone() };
        if let Some(row) = cx.tables.get::<IdempotencyTable>(&key)?
            && let Some(dependency) = spec.depends_on.get_mut(usize::from(sibling.place))
        {
            dependency.task = row.task;
        }
    }
    Ok(())
}

/// How the parents of a task that is to be made stand.
struct Parents {
    /// Those that have not ended, by their place.
    open: Vec<usize>,
    /// One that has ended otherwise than it must.
    lost: Option<TaskId>,
}

fn look_at_parents<T: Write>(
    cx: &Context<'_, T>,
    spec: &TaskSpec,
) -> Result<Result<Parents, Refusal>, T::Error> {
    let mut parents = Parents { open: Vec::new(), lost: None };
    let mut seen = BTreeSet::new();
    for (place, dependency) in spec.depends_on.iter().enumerate() {
        let parent = dependency.task;
        if !seen.insert(parent) {
            return Ok(Err(Refusal::Invalid));
        }
        // Another caller's task is one that does not exist.
        let state = cx.tables.get::<TaskTable>(&parent)?.filter(|state| state.caller == spec.caller);
        let Some(state) = state else { return Ok(Err(Refusal::ParentNotFound { parent })) };
        match is_met(dependency.on, state.status) {
            None => parents.open.push(place),
            Some(true) => {}
            Some(false) => parents.lost = parents.lost.or(Some(parent)),
        }
    }
    Ok(Ok(parents))
}

/// A task with parents that is to be made; there must be no such task.
struct Child<'a> {
    task: TaskId,
    spec: &'a TaskSpec,
    due_at: Millis,
    clock: DueClock,
    role: Role,
}

/// Makes a task that waits for those of its parents that have not ended. One that waits in vain is skipped at once.
fn create_child<T: Write>(
    cx: &mut Context<'_, T>,
    child: &Child<'_>,
    parents: &Parents,
) -> Result<Reply, T::Error> {
    let Child { task, spec, due_at, clock, role } = *child;
    let waits = parents.lost.is_none() && !parents.open.is_empty() && !is_on(Mutant::ChildEarly);
    let start = match parents.lost {
        // At most [`MAX_PARENTS`].
        _ if waits => Start::Parents(parents.open.len() as u16),
        Some(_) => Start::Parents(0),
        None => Start::Free,
    };
    let reply = create::create(cx, &New { task, spec, due_at, clock, start })?;
    for dependency in &spec.depends_on {
        let key = DepKey { parent: dependency.task, child: task };
        cx.tables.put::<DepsTable>(&key, &DependsOnRow { on: dependency.on })?;
    }
    if waits {
        for dependency in parents.open.iter().filter_map(|place| spec.depends_on.get(*place)) {
            let parent = dependency.task;
            cx.tables.put::<WaitsTable>(&DepKey { parent, child: task }, &())?;
            let node = cx.node(parent)?;
            cx.tables.put::<NodeTable>(&parent, &Node { waiters: node.waiters + 1, ..node })?;
        }
    }
    if waits || role != Role::Plain {
        cx.tables.put::<NodeTable>(&task, &Node { role, waiters: 0, clock })?;
    }
    let Some(parent) = parents.lost else { return Ok(reply) };
    let Some(mut state) = cx.tables.get::<TaskTable>(&task)? else { return Ok(reply) };
    resolve::skip(cx, task, &mut state, parent)?;
    Ok(submitted(task, &state, false))
}
