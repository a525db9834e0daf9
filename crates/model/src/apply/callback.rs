//! Callbacks enter the outbox, are sent, and leave it.

use crate::apply::context::Context;
use crate::apply::nonce::spend;
use crate::callback::{
    Callback, FailureKind, MAX_SENDS, SEND_LIMIT_MS, SENDS_KEPT, Send, SendOutcome, Stage, delay_ms, lane,
};
use crate::command::{CallbackCommand, Claim, Refusal, Reply};
use crate::event::Event;
use crate::id::{CallerId, Millis, TaskId};
use crate::key::CallbackDueKey;
use crate::mutant::{Mutant, is_on};
use crate::schema::{CallbackDueTable, CallbackTable, TaskTable};
use crate::tables::{ReadExt as _, Write, WriteExt as _};

/// After so many ms a mutant sends again what was heard: soon, so that no fault lies between.
const REPEATED_MS: u64 = 100;

pub(crate) fn route<T: Write>(cx: &mut Context<'_, T>, command: &CallbackCommand) -> Result<Reply, T::Error> {
    match command {
        CallbackCommand::Start { task, series, number, chance } => {
            start(cx, *task, (*series, *number), *chance)
        }
        CallbackCommand::Finish { task, series, number, outcome, chance } => {
            finish(cx, *task, (*series, *number), *outcome, *chance)
        }
        CallbackCommand::Redeliver { task, caller, claim } => redeliver(cx, *task, caller, claim.as_ref()),
    }
}

/// A task with a callback address was made.
pub(crate) fn create<T: Write>(
    cx: &mut Context<'_, T>,
    (task, caller): (TaskId, &CallerId),
    url: &str,
) -> Result<(), T::Error> {
    let callback = Callback::new(url.to_owned());
    if is_on(Mutant::CallbackEarly) {
        let now = cx.now();
        return put(cx, (task, caller), Callback { stage: Stage::Pending, ..callback }, Some(now));
    }
    cx.tables.put::<CallbackTable>(&task, &callback)
}

/// A task has become terminal: its callback, if it has one, goes into the outbox in the same entry.
pub(crate) fn announce<T: Write>(
    cx: &mut Context<'_, T>,
    task: TaskId,
    caller: &CallerId,
) -> Result<(), T::Error> {
    let Some(mut callback) = cx.tables.get::<CallbackTable>(&task)? else { return Ok(()) };
    if callback.stage != Stage::Waiting {
        return Ok(());
    }
    callback.stage = Stage::Pending;
    let now = cx.now();
    put(cx, (task, caller), callback, Some(now))
}

fn start<T: Write>(
    cx: &mut Context<'_, T>,
    task: TaskId,
    (series, number): (u32, u8),
    chance: u16,
) -> Result<Reply, T::Error> {
    let Some((mut callback, caller)) = get(cx, task)? else {
        return Ok(Reply::Refused(Refusal::CallbackNotFound));
    };
    let now = cx.now();
    match callback.next_at {
        Some(due_at) if due_at > now => return Ok(Reply::Refused(Refusal::NotDue { due_at })),
        Some(_) if callback.series == series && callback.sent + 1 == number && number <= MAX_SENDS => {}
        _ => return Ok(Reply::Refused(Refusal::StaleCallback)),
    }
    close(&mut callback, now, SendOutcome::failed(FailureKind::Unknown));
    callback.sent = number;
    if callback.sends.len() >= SENDS_KEPT {
        callback.sends.remove(0);
    }
    let round = cx.meta.round;
    callback.sends.push(Send { series, number, round, started_at: now, ended_at: None, outcome: None });
    // Of the last one this is when it counts as failed; of another one, when the next is due if it did.
    let backoff = if number < MAX_SENDS { delay_ms(number, None, chance) } else { 0 };
    put(cx, (task, &caller), callback, Some(after(now, SEND_LIMIT_MS + backoff)))?;
    Ok(Reply::Done)
}

fn finish<T: Write>(
    cx: &mut Context<'_, T>,
    task: TaskId,
    (series, number): (u32, u8),
    outcome: SendOutcome,
    chance: u16,
) -> Result<Reply, T::Error> {
    let Some((mut callback, caller)) = get(cx, task)? else {
        return Ok(Reply::Refused(Refusal::CallbackNotFound));
    };
    let is_open = callback.open_send().is_some_and(|send| (send.series, send.number) == (series, number));
    if !is_open {
        return Ok(Reply::Refused(Refusal::StaleCallback));
    }
    let now = cx.now();
    close(&mut callback, now, outcome);
    let next_at = match outcome {
        SendOutcome::Delivered { .. } if is_on(Mutant::CallbackRepeated) && number < MAX_SENDS => {
            Some(after(now, REPEATED_MS))
        }
        SendOutcome::Delivered { .. } => {
            callback.stage = Stage::Delivered;
            None
        }
        SendOutcome::Failed { .. } if is_on(Mutant::CallbackGivenUp) => {
            callback.stage = Stage::Failed;
            None
        }
        SendOutcome::Failed { retry_after_ms, .. } if number < MAX_SENDS && !outcome.is_for_good() => {
            Some(after(now, delay_ms(number, retry_after_ms, chance)))
        }
        SendOutcome::Failed { .. } => {
            callback.stage = Stage::Failed;
            None
        }
    };
    put(cx, (task, &caller), callback, next_at)?;
    Ok(Reply::Done)
}

/// Begins another delivery, with as many sends as the first one had.
fn redeliver<T: Write>(
    cx: &mut Context<'_, T>,
    task: TaskId,
    caller: &CallerId,
    claim: Option<&Claim>,
) -> Result<Reply, T::Error> {
    if let Some(refusal) = spend(cx, claim)? {
        return Ok(Reply::Refused(refusal));
    }
    let owned = cx.tables.get::<TaskTable>(&task)?.is_some_and(|state| state.caller == *caller);
    if !owned {
        return Ok(Reply::Refused(Refusal::TaskNotFound));
    }
    let Some(mut callback) = cx.tables.get::<CallbackTable>(&task)? else {
        return Ok(Reply::Refused(Refusal::CallbackNotFound));
    };
    if matches!(callback.stage, Stage::Waiting | Stage::Pending) {
        return Ok(Reply::Refused(Refusal::CallbackOpen));
    }
    callback.stage = Stage::Pending;
    callback.series = callback.series.saturating_add(1);
    callback.sent = 0;
    let now = cx.now();
    put(cx, (task, caller), callback, Some(now))?;
    Ok(Reply::Done)
}

/// Writes down how the send under way ended.
fn close(callback: &mut Callback, now: Millis, outcome: SendOutcome) {
    if let Some(send) = callback.sends.last_mut().filter(|send| send.outcome.is_none()) {
        send.outcome = Some(outcome);
        send.ended_at = Some(now);
    }
}

/// A callback, and the caller whose task it is of.
fn get<T: Write>(cx: &Context<'_, T>, task: TaskId) -> Result<Option<(Callback, CallerId)>, T::Error> {
    let Some(callback) = cx.tables.get::<CallbackTable>(&task)? else { return Ok(None) };
    Ok(cx.tables.get::<TaskTable>(&task)?.map(|state| (callback, state.caller)))
}

/// Stores a callback that is due at `next_at`, or out of the outbox.
fn put<T: Write>(
    cx: &mut Context<'_, T>,
    (task, caller): (TaskId, &CallerId),
    mut callback: Callback,
    next_at: Option<Millis>,
) -> Result<(), T::Error> {
    let lane = lane(&callback.url, caller);
    if let Some(at) = callback.next_at {
        cx.tables.delete::<CallbackDueTable>(&CallbackDueKey { lane: lane.clone(), at, task })?;
    }
    callback.next_at = next_at;
    if let Some(at) = next_at {
        cx.tables.put::<CallbackDueTable>(&CallbackDueKey { lane: lane.clone(), at, task }, &())?;
        cx.events.push(Event::CallbackDue { lane, at });
    }
    cx.tables.put::<CallbackTable>(&task, &callback)
}

fn after(now: Millis, ms: u64) -> Millis {
    now.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX))
}
