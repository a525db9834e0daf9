//! A task has ended: its children are told, one level down and in bounded commands.

use super::run;
use crate::apply::cancel::end_waiting;
use crate::apply::context::Context;
use crate::command::{Refusal, Reply};
use crate::event::Event;
use crate::graph::{Node, RESOLVE_PER_COMMAND, Role, WorkKind, is_met};
use crate::id::{Millis, TaskId};
use crate::key::{DepKey, ShardKey, TableKey as _, WorkKey, after_prefix};
use crate::schema::{DepsTable, NodeTable, ShardTable, TaskTable, WaitsTable};
use crate::tables::{ReadExt as _, Write, WriteExt as _};
use crate::task::{DependsOn, DueClock, MAX_SHARDS, Phase, Reason, Status, TaskEvent, TaskState};

/// What follows in graphs from the end of a task. Costs one read of a task without a place in any.
pub(crate) fn task_ended<T: Write>(cx: &mut Context<'_, T>, task: TaskId) -> Result<(), T::Error> {
    let Some(node) = cx.tables.get::<NodeTable>(&task)? else { return Ok(()) };
    if node.waiters > 0 {
        cx.want(WorkKind::Resolve, task)?;
    }
    match node.role {
        Role::Plain => Ok(()),
        Role::Run => run::ended(cx, task),
        Role::Step { run, .. } => run::step_ended(cx, task, run),
    }
}

pub(super) fn resolve<T: Write>(
    cx: &mut Context<'_, T>,
    parent: TaskId,
    first: TaskId,
) -> Result<Reply, T::Error> {
    let Some(state) = cx.tables.get::<TaskTable>(&parent)? else {
        return Ok(Reply::Refused(Refusal::TaskNotFound));
    };
    let prefix = parent.encode();
    let waiting = cx.tables.keys::<WaitsTable>(&prefix, &after_prefix(&prefix), RESOLVE_PER_COMMAND)?;
    if !state.status.is_terminal() || waiting.first().map(|key| key.child) != Some(first) {
        return Ok(Reply::Refused(Refusal::StaleGraph));
    }
    let (mut shards, mut told) = (0, 0);
    for key in &waiting {
        if shards >= MAX_SHARDS {
            break;
        }
        shards += tell(cx, state.status, key)?;
        told += 1;
    }
    let node = cx.node(parent)?;
    let waiters = node.waiters.saturating_sub(told);
    cx.tables.put::<NodeTable>(&parent, &Node { waiters, ..node })?;
    if waiters == 0 {
        cx.unlist(WorkKind::Resolve, parent)?;
    } else {
        let work = WorkKey { kind: WorkKind::Resolve, task: parent };
        cx.events.push(Event::GraphWaits { work });
    }
    Ok(Reply::Done)
}

/// Tells one child; answers with how many shards that touched.
fn tell<T: Write>(cx: &mut Context<'_, T>, parent: Status, key: &DepKey) -> Result<u16, T::Error> {
    cx.tables.delete::<WaitsTable>(key)?;
    let state = cx.tables.get::<TaskTable>(&key.child)?;
    // One that was cancelled, or skipped for another parent, hears of nothing any more.
    let Some(mut state) = state.filter(|state| !state.status.is_terminal()) else { return Ok(0) };
    let on = cx.tables.get::<DepsTable>(key)?.map_or(DependsOn::Success, |row| row.on);
    let shards = state.shards;
    if is_met(on, parent) != Some(true) {
        skip(cx, key.child, &mut state, key.parent)?;
        return Ok(shards);
    }
    state.unmet = state.unmet.saturating_sub(1);
    if state.unmet > 0 {
        cx.put_task(key.child, &mut state, None)?;
        return Ok(1);
    }
    let clock = cx.node(key.child)?.clock;
    let (at, clock) = match state.due_at <= cx.shown(clock) {
        true => (cx.now(), DueClock::Cluster),
        false => (state.due_at, clock),
    };
    release(cx, key.child, state, at, clock)?;
    Ok(shards)
}

/// Skips a task of which a parent did not end as it must.
pub(super) fn skip<T: Write>(
    cx: &mut Context<'_, T>,
    task: TaskId,
    state: &mut TaskState,
    parent: TaskId,
) -> Result<(), T::Error> {
    end_waiting(cx, task, state)?;
    state.reason = Reason::Dependency;
    cx.put_task(task, state, Some(TaskEvent::DependencyLost))?;
    cx.events.push(Event::DependencyLost { task, parent });
    Ok(())
}

/// Lets a task that waited for others wait for its time, or for a slot. No clock holds up what is due already.
pub(crate) fn release<T: Write>(
    cx: &mut Context<'_, T>,
    task: TaskId,
    mut state: TaskState,
    at: Millis,
    clock: DueClock,
) -> Result<(), T::Error> {
    if cx.node(task)?.role == Role::Run {
        return run::begin(cx, task, state);
    }
    let is_due = at <= cx.shown(clock);
    let clock = if is_due { DueClock::Cluster } else { clock };
    for shard in 0..state.shards {
        let key = ShardKey { task, shard };
        let Some(mut shard) = cx.tables.get::<ShardTable>(&key)? else { continue };
        cx.set_phase(key, state.priority, &mut shard, Phase::Due { at, clock })?;
        cx.put_shard(key, &shard)?;
        cx.events.push(Event::Waiting { shard: key, due_at: at, clock });
    }
    state.due_at = at;
    state.reason = if is_due { Reason::Ready } else { Reason::Scheduled };
    cx.put_task(task, &mut state, None)?;
    Ok(())
}
