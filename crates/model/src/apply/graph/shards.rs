//! How the shards of one task hang together: broadcasts, and what one that failed for good means for the others.

use crate::apply::cancel::ask_executors;
use crate::apply::context::Context;
use crate::apply::create::new_shard;
use crate::apply::finish::{End, finish};
use crate::command::{Refusal, Reply};
use crate::event::Event;
use crate::executor::{Executor, ExecutorState};
use crate::graph::{OnShardFailure, ShardPlan, are_targets, is_broadcast};
use crate::id::{ExecutorId, TaskId};
use crate::key::ShardKey;
use crate::schema::{ExecutorTable, ShardPlanTable, SpecTable};
use crate::tables::{ReadExt as _, Write, WriteExt as _};
use crate::task::{Attempt, DueClock, Outcome, Phase, Reason, Status, TaskEvent, TaskSpec, TaskState};

/// Keeps what a task says of its shards, where that is not the default.
pub(crate) fn keep_policy<T: Write>(
    cx: &mut Context<'_, T>,
    task: TaskId,
    spec: &TaskSpec,
    on_failure: OnShardFailure,
) -> Result<(), T::Error> {
    let alone = spec.shard_total == 1 && !is_broadcast(spec);
    if alone || on_failure == OnShardFailure::default() {
        return Ok(());
    }
    cx.tables.put::<ShardPlanTable>(&task, &ShardPlan { on_failure, ..ShardPlan::default() })
}

/// A broadcast is due: it gets one shard for each of these executors.
pub(super) fn aim<T: Write>(
    cx: &mut Context<'_, T>,
    task: TaskId,
    targets: &[ExecutorId],
) -> Result<Reply, T::Error> {
    let seed = ShardKey { task, shard: 0 };
    let Some((mut state, shard)) = cx.load(seed)? else {
        return Ok(Reply::Refused(Refusal::TaskNotFound));
    };
    let spec = cx.tables.get::<SpecTable>(&task)?;
    let plan = cx.tables.get::<ShardPlanTable>(&task)?.unwrap_or_default();
    if !spec.is_some_and(|spec| is_broadcast(&spec)) || !plan.targets.is_empty() {
        return Ok(Reply::Refused(Refusal::StaleGraph));
    }
    let since = match shard.phase {
        Phase::Due { at, clock } if cx.is_early(at, clock) => {
            return Ok(Reply::Refused(Refusal::NotDue { due_at: at }));
        }
        Phase::Due { at, .. } => at,
        Phase::Ready { since } => since,
        _ => return Ok(Reply::Refused(Refusal::NotWaiting)),
    };
    if state.expire_at.is_some_and(|at| at <= cx.wall()) {
        return Ok(Reply::Refused(Refusal::Expired));
    }
    if !are_targets(targets) {
        return Ok(Reply::Refused(Refusal::Invalid));
    }
    // At most [`crate::task::MAX_SHARDS`].
    state.shards = targets.len() as u16;
    for index in 0..state.shards {
        let key = ShardKey { task, shard: index };
        if index > 0 {
            let mut new = new_shard(Phase::Blocked);
            cx.set_phase(key, state.priority, &mut new, shard.phase)?;
            cx.put_shard(key, &new)?;
        }
        cx.events.push(Event::Waiting { shard: key, due_at: since, clock: DueClock::Cluster });
    }
    cx.tables.put::<ShardPlanTable>(&task, &ShardPlan { targets: targets.to_vec(), ..plan })?;
    state.reason = Reason::Ready;
    cx.put_task(task, &mut state, None)
}

/// Whether a row says that its executor is not there.
fn is_away(row: &Executor) -> bool {
    matches!(row.state, ExecutorState::Offline | ExecutorState::Left)
}

/// Whether an executor is not there: then nobody else can take the shard of a broadcast that was meant for it.
pub(crate) fn is_gone<T: Write>(cx: &Context<'_, T>, executor: &ExecutorId) -> Result<bool, T::Error> {
    Ok(cx.tables.get::<ExecutorTable>(executor)?.is_none_or(|row| is_away(&row)))
}

/// The executor of a broadcast's shard went away before it got it. The shard fails by an attempt that was lost as
/// soon as it was granted, so that its record says why.
pub(super) fn strand<T: Write>(
    cx: &mut Context<'_, T>,
    key: ShardKey,
    executor: &ExecutorId,
) -> Result<Reply, T::Error> {
    let Some((mut state, mut shard)) = cx.load(key)? else {
        return Ok(Reply::Refused(Refusal::TaskNotFound));
    };
    let plan = cx.tables.get::<ShardPlanTable>(&key.task)?.unwrap_or_default();
    if plan.targets.get(usize::from(key.shard)) != Some(executor) {
        return Ok(Reply::Refused(Refusal::StaleGraph));
    }
    if !matches!(shard.phase, Phase::Due { .. } | Phase::Ready { .. }) {
        return Ok(Reply::Refused(Refusal::NotWaiting));
    }
    let Some(row) = cx.tables.get::<ExecutorTable>(executor)?.filter(is_away) else {
        return Ok(Reply::Refused(Refusal::ExecutorAlive));
    };
    shard.make_room();
    shard.attempts.push(Attempt {
        number: shard.next_attempt,
        executor: executor.clone(),
        incarnation: row.registration.incarnation,
        round: cx.meta.round,
        fence: cx.stamp.index,
        granted_at: cx.now(),
        started_at: None,
        ended_at: None,
        outcome: None,
        message: None,
        late_outcome: None,
    });
    shard.next_attempt += 1;
    cx.set_phase(key, state.priority, &mut shard, Phase::Running)?;
    state.running += 1;
    state.started_at.get_or_insert(cx.stamp.now_ms);
    if state.status == Status::Pending {
        cx.put_task(key.task, &mut state, Some(TaskEvent::Granted))?;
    }
    let end = End::declared(Outcome::Lost, "its executor went away before it was handed over", 0);
    finish(cx, key, state, shard, &end)
}

/// A shard has failed for good and its row says so: the others may have to stop.
pub(crate) fn failed_for_good<T: Write>(
    cx: &mut Context<'_, T>,
    task: TaskId,
    state: &mut TaskState,
) -> Result<(), T::Error> {
    if state.shards == 1 || state.cancel_requested {
        return Ok(());
    }
    let Some(plan) = cx.tables.get::<ShardPlanTable>(&task)? else { return Ok(()) };
    if plan.on_failure == OnShardFailure::Cancel {
        cx.tables.put::<ShardPlanTable>(&task, &ShardPlan { stopping: true, ..plan })?;
        state.cancel_requested = true;
        ask_executors(cx, task, state)?;
    }
    Ok(())
}

/// Whether the shards of a task were told to stop because one failed, and not because somebody cancelled it.
pub(crate) fn is_stopping<T: Write>(
    cx: &Context<'_, T>,
    task: TaskId,
    state: &TaskState,
) -> Result<bool, T::Error> {
    let plan = if state.shards == 1 { None } else { cx.tables.get::<ShardPlanTable>(&task)? };
    Ok(plan.is_some_and(|plan| plan.stopping))
}
