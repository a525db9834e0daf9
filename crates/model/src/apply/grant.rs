//! From waiting to leased. A grant is the first of the three walls against running twice: only one grant
//! of an attempt can commit, and only in the current round.

use crate::apply::context::Context;
use crate::command::{Refusal, Reply};
use crate::event::Event;
use crate::executor::ExecutorState;
use crate::id::{ExecutorId, Incarnation};
use crate::key::ShardKey;
use crate::schema::ExecutorTable;
use crate::tables::{ReadExt as _, Write};
use crate::task::{Attempt, Phase, Reason, Status, TaskEvent};

/// A due shard found no slot: it joins the waiting room, aged from when it was due.
pub(crate) fn make_ready<T: Write>(cx: &mut Context<'_, T>, key: ShardKey) -> Result<Reply, T::Error> {
    let Some((mut state, mut shard)) = cx.load(key)? else {
        return Ok(Reply::Refused(Refusal::TaskNotFound));
    };
    match shard.phase {
        Phase::Due { at, clock } if cx.is_early(at, clock) => {
            Ok(Reply::Refused(Refusal::NotDue { due_at: at }))
        }
        Phase::Due { at, .. } => {
            cx.set_phase(key, state.priority, &mut shard, Phase::Ready { since: at })?;
            cx.put_shard(key, &shard)?;
            if state.status == Status::Pending {
                state.reason = Reason::Ready;
            }
            cx.put_task(key.task, &mut state, None)
        }
        // Also when it is ready already, so that a repeated command changes nothing.
        _ => Ok(Reply::Refused(Refusal::NotWaiting)),
    }
}

pub(crate) fn grant<T: Write>(
    cx: &mut Context<'_, T>,
    key: ShardKey,
    number: u32,
    executor: &ExecutorId,
    incarnation: Incarnation,
) -> Result<Reply, T::Error> {
    let Some((mut state, mut shard)) = cx.load(key)? else {
        return Ok(Reply::Refused(Refusal::TaskNotFound));
    };
    let now = cx.now();
    match shard.phase {
        Phase::Due { at, clock } if cx.is_early(at, clock) => {
            return Ok(Reply::Refused(Refusal::NotDue { due_at: at }));
        }
        Phase::Due { .. } | Phase::Ready { .. } => {}
        _ => return Ok(Reply::Refused(Refusal::NotWaiting)),
    }
    // The deadline is one to the first start, and this would be it: too late, and about to be skipped. The other shards of
    // a task that runs start whenever there is room for them.
    if state.status == Status::Pending && state.expire_at.is_some_and(|at| at <= cx.wall()) {
        return Ok(Reply::Refused(Refusal::Expired));
    }
    if number != shard.next_attempt {
        return Ok(Reply::Refused(Refusal::WrongAttempt { next: shard.next_attempt }));
    }
    match cx.tables.get::<ExecutorTable>(executor)? {
        None => return Ok(Reply::Refused(Refusal::ExecutorUnknown)),
        Some(row) if row.state == ExecutorState::Online && row.registration.incarnation == incarnation => {}
        Some(_) => return Ok(Reply::Refused(Refusal::ExecutorNotOnline)),
    }
    let fence = cx.stamp.index;
    shard.make_room();
    shard.attempts.push(Attempt {
        number,
        executor: executor.clone(),
        incarnation,
        round: cx.meta.round,
        fence,
        granted_at: now,
        started_at: None,
        ended_at: None,
        outcome: None,
        message: None,
        late_outcome: None,
    });
    shard.next_attempt += 1;
    cx.set_phase(key, state.priority, &mut shard, Phase::Running)?;
    cx.put_shard(key, &shard)?;
    state.running += 1;
    state.reason = Reason::None;
    state.started_at.get_or_insert(now);
    cx.put_task(key.task, &mut state, Some(TaskEvent::Granted))?;
    cx.events.push(Event::Granted { shard: key, executor: executor.clone(), fence });
    Ok(Reply::Granted { fence })
}
