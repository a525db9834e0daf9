//! The end of an attempt, and what follows from it for the shard and the task.

use crate::apply::context::Context;
use crate::apply::graph::{failed_for_good, is_gone, is_stopping};
use crate::command::{Refusal, Reply, Report};
use crate::event::Event;
use crate::id::{Fence, Millis};
use crate::key::ShardKey;
use crate::mutant::{Mutant, is_on};
use crate::schema::{ExecutorTable, ShardTable, SpecTable};
use crate::tables::{ReadExt as _, Write};
use crate::task::{
    DueClock, LOG_TAIL_LIMIT, MAX_RETRY_AFTER_MS, MESSAGE_LIMIT, Outcome, Phase, RESULT_LIMIT, Reason,
    RetryPolicy, Shard, Status, Strategy, TaskEvent, TaskState,
};

/// How an attempt ended, from whoever says so.
pub(crate) struct End<'a> {
    outcome: Outcome,
    message: Option<&'a str>,
    result: Option<&'a [u8]>,
    log_tail: Option<&'a [u8]>,
    started_at: Option<Millis>,
    ended_at: Option<Millis>,
    chance: u16,
}

impl<'a> End<'a> {
    /// An end that the leader declares.
    pub(crate) fn declared(outcome: Outcome, message: &'a str, chance: u16) -> Self {
        End {
            outcome,
            message: Some(message),
            result: None,
            log_tail: None,
            started_at: None,
            ended_at: None,
            chance,
        }
    }
}

/// An executor reports. A report whose lease is over is written down on its attempt, and has no effect.
pub(crate) fn report<T: Write>(cx: &mut Context<'_, T>, report: &Report) -> Result<Reply, T::Error> {
    let key: ShardKey = report.shard.into();
    let Some((state, mut shard)) = cx.load(key)? else {
        return Ok(Reply::Refused(Refusal::TaskNotFound));
    };
    let Some(attempt) = shard.attempts.iter_mut().find(|attempt| {
        attempt.fence == report.fence
            && attempt.number == report.attempt
            && attempt.executor == report.executor
    }) else {
        return Ok(Reply::Refused(Refusal::StaleFence));
    };
    let too_long = unkept(report);
    let outcome = match too_long {
        Some(_) => Outcome::Failed { retryable: false, retry_after_ms: None },
        None => report.outcome.clone(),
    };
    match &attempt.outcome {
        None => {
            let end = End {
                outcome,
                message: too_long.as_deref().or(report.message.as_deref()),
                result: report.result.as_deref(),
                log_tail: report.log_tail.as_deref(),
                started_at: report.started_at,
                ended_at: report.ended_at,
                chance: report.chance,
            };
            finish(cx, key, state, shard, &end)
        }
        Some(known) if *known == outcome => Ok(Reply::Repeated),
        Some(_) if is_on(Mutant::FenceIgnored) || is_on(Mutant::TerminalOverwritten) => {
            decide_late(cx, key, state, shard, report)
        }
        Some(_) => {
            if attempt.late_outcome.is_none() {
                attempt.late_outcome = Some(outcome);
                cx.put_shard(key, &shard)?;
            }
            Ok(Reply::Refused(Refusal::StaleFence))
        }
    }
}

/// Why a success is none: what it returned is too long to be kept. A task that succeeded without its result would be
/// a lie to whoever waits for that.
fn unkept(report: &Report) -> Option<String> {
    let length = report.result.as_ref().filter(|_| report.outcome == Outcome::Succeeded)?.len();
    (length > RESULT_LIMIT).then(|| {
        format!("the handler succeeded, but its result has {length} bytes; at most {RESULT_LIMIT} are kept")
    })
}

/// What a mutant does with a late report: it decides as if its lease were in force.
fn decide_late<T: Write>(
    cx: &mut Context<'_, T>,
    key: ShardKey,
    mut state: TaskState,
    mut shard: Shard,
    report: &Report,
) -> Result<Reply, T::Error> {
    let (ended, succeeded) = (state.status.is_terminal(), report.outcome == Outcome::Succeeded);
    if is_on(Mutant::TerminalOverwritten) && ended {
        state.status = if succeeded { Status::Success } else { Status::Failed };
        return cx.put_task(key.task, &mut state, None);
    }
    // Of a task with more shards the index by status would have to be set right by hand.
    if is_on(Mutant::FenceIgnored) && !ended && succeeded && state.shards == 1 {
        shard.result = report.result.clone();
        cx.set_phase(key, state.priority, &mut shard, Phase::Done)?;
        cx.put_shard(key, &shard)?;
        state.running = 0;
        state.succeeded = 1;
        state.status = Status::Running;
        return settle(cx, key, state);
    }
    Ok(Reply::Refused(Refusal::StaleFence))
}

/// The executor would not take it, or hands it back unstarted: not counted as a try.
pub(crate) fn requeue<T: Write>(
    cx: &mut Context<'_, T>,
    key: ShardKey,
    fence: Fence,
    message: &str,
) -> Result<Reply, T::Error> {
    declare(cx, key, fence, &End::declared(Outcome::Refused, message, 0))
}

/// The executor went away with it. Refused while the executor may still hold the attempt: only a row that
/// says offline, left, or another life proves that its lease is over.
pub(crate) fn lose<T: Write>(
    cx: &mut Context<'_, T>,
    key: ShardKey,
    fence: Fence,
    chance: u16,
) -> Result<Reply, T::Error> {
    if let Some((_, shard)) = cx.load(key)?
        && let Some(open) = shard.open_attempt()
        && let Some(row) = cx.tables.get::<ExecutorTable>(&open.executor)?
        && open.fence == fence
        && row.may_hold(open.incarnation)
        && !is_on(Mutant::LostUnasked)
    {
        return Ok(Reply::Refused(Refusal::ExecutorAlive));
    }
    declare(cx, key, fence, &End::declared(Outcome::Lost, "its executor went away", chance))
}

/// The executor did not stop an attempt that outran its timeout.
pub(crate) fn time_out<T: Write>(
    cx: &mut Context<'_, T>,
    key: ShardKey,
    fence: Fence,
    chance: u16,
) -> Result<Reply, T::Error> {
    let message = "it outran its timeout and its executor did not say that it had stopped";
    declare(cx, key, fence, &End::declared(Outcome::TimedOut, message, chance))
}

fn declare<T: Write>(
    cx: &mut Context<'_, T>,
    key: ShardKey,
    fence: Fence,
    end: &End<'_>,
) -> Result<Reply, T::Error> {
    let Some((state, shard)) = cx.load(key)? else {
        return Ok(Reply::Refused(Refusal::TaskNotFound));
    };
    match shard.open_attempt() {
        Some(open) if open.fence == fence => finish(cx, key, state, shard, end),
        _ => Ok(Reply::Refused(Refusal::StaleFence)),
    }
}

/// An attempt that is open is over.
pub(crate) fn finish<T: Write>(
    cx: &mut Context<'_, T>,
    key: ShardKey,
    mut state: TaskState,
    mut shard: Shard,
    end: &End<'_>,
) -> Result<Reply, T::Error> {
    let (now, failed) = (cx.now(), state.failed);
    let next = next_phase(cx, key, &mut state, &mut shard, end)?;
    cx.set_phase(key, state.priority, &mut shard, next)?;
    close(&mut shard, end, now);
    if let Some(attempt) = shard.attempts.last() {
        let (executor, fence) = (attempt.executor.clone(), attempt.fence);
        cx.events.push(Event::AttemptEnded { shard: key, executor, fence, outcome: end.outcome.clone() });
    }
    cx.put_shard(key, &shard)?;
    state.running -= 1;
    if state.failed > failed {
        failed_for_good(cx, key.task, &mut state)?;
    }
    if end.outcome != Outcome::Refused {
        cx.drop_expiry(key.task, &mut state)?;
    } else if let Some(at) = state.expire_at {
        cx.events.push(Event::Expires { task: key.task, at });
    }
    match next {
        Phase::Due { at, clock } => {
            state.due_at = at;
            state.reason = Reason::Retry;
            cx.events.push(Event::Waiting { shard: key, due_at: at, clock });
        }
        Phase::Ready { since } => {
            state.reason = Reason::Ready;
            cx.events.push(Event::Waiting { shard: key, due_at: since, clock: DueClock::Cluster });
        }
        _ => {}
    }
    settle(cx, key, state)
}

/// Writes the end into the attempt and the shard.
fn close(shard: &mut Shard, end: &End<'_>, now: Millis) {
    if let Some(attempt) = shard.attempts.last_mut() {
        attempt.outcome = Some(end.outcome.clone());
        attempt.message = end.message.map(|text| head(text, MESSAGE_LIMIT).to_owned());
        attempt.started_at = end.started_at;
        attempt.ended_at = Some(end.ended_at.unwrap_or(now));
    }
    if end.outcome == Outcome::Succeeded {
        shard.result = end.result.map(<[u8]>::to_vec);
    }
    if let Some(tail) = end.log_tail {
        shard.log_tail = Some(tail[tail.len().saturating_sub(LOG_TAIL_LIMIT)..].to_vec());
    }
}

/// Where the shard goes from here; counts the try.
fn next_phase<T: Write>(
    cx: &Context<'_, T>,
    key: ShardKey,
    state: &mut TaskState,
    shard: &mut Shard,
    end: &End<'_>,
) -> Result<Phase, T::Error> {
    let invented = end.outcome == Outcome::Lost && is_on(Mutant::SuccessInvented);
    if end.outcome == Outcome::Succeeded || invented {
        state.succeeded += 1;
        return Ok(Phase::Done);
    }
    if state.cancel_requested {
        return Ok(Phase::Done);
    }
    if end.outcome == Outcome::Refused {
        return Ok(Phase::Ready { since: state.due_at.min(cx.now()) });
    }
    let (policy, broadcast) = match cx.tables.get::<SpecTable>(&key.task)? {
        Some(spec) => (spec.retry, spec.strategy == Strategy::Broadcast),
        None => (RetryPolicy::default(), false),
    };
    let (again, asked_ms) = match end.outcome {
        Outcome::Lost => {
            shard.losses += 1;
            let holder = shard.attempts.last().filter(|_| broadcast).map(|last| &last.executor);
            let nobody = holder.map_or(Ok(false), |executor| is_gone(cx, executor))?;
            (shard.losses <= u32::from(policy.max_lost) && !nobody, None)
        }
        Outcome::Failed { retryable: false, .. } => {
            shard.failures += 1;
            (false, None)
        }
        Outcome::Failed { retry_after_ms, .. } => {
            shard.failures += 1;
            (shard.failures <= u32::from(policy.max_retries), retry_after_ms)
        }
        _ => {
            shard.failures += 1;
            (shard.failures <= u32::from(policy.max_retries), None)
        }
    };
    if !again && !is_on(Mutant::TriesUnlimited) {
        state.failed += 1;
        return Ok(Phase::Done);
    }
    let backoff_ms = policy.delay_ms(shard.failures + shard.losses, end.chance);
    let delay_ms = asked_ms.unwrap_or(0).min(MAX_RETRY_AFTER_MS).max(backoff_ms);
    let delay_ms = if is_on(Mutant::BackoffIgnored) { delay_ms / 4 } else { delay_ms };
    let at = cx.now().saturating_add(i64::try_from(delay_ms).unwrap_or(i64::MAX));
    Ok(Phase::Due { at, clock: DueClock::Cluster })
}

/// Brings the task's status in line with its shards.
fn settle<T: Write>(cx: &mut Context<'_, T>, key: ShardKey, mut state: TaskState) -> Result<Reply, T::Error> {
    let event = if state.succeeded == state.shards {
        Some(TaskEvent::Succeeded)
    } else if state.running > 0 {
        None
    } else if state.cancel_requested && is_stopping(cx, key.task, &state)? {
        Some(TaskEvent::FailedForGood)
    } else if state.cancel_requested {
        Some(TaskEvent::Cancelled)
    } else if state.succeeded + state.failed == state.shards {
        Some(TaskEvent::FailedForGood)
    } else {
        Some(TaskEvent::Paused)
    };
    if !matches!(event, Some(TaskEvent::Paused)) {
        state.reason = Reason::None;
    }
    if event == Some(TaskEvent::Cancelled) {
        drop_waiting(cx, key, &state)?;
    }
    cx.put_task(key.task, &mut state, event)
}

/// Takes the other shards of a cancelled task out of the indexes.
fn drop_waiting<T: Write>(
    cx: &mut Context<'_, T>,
    ended: ShardKey,
    state: &TaskState,
) -> Result<(), T::Error> {
    for index in (0..state.shards).filter(|index| *index != ended.shard) {
        let key = ShardKey { task: ended.task, shard: index };
        if let Some(mut shard) = cx.tables.get::<ShardTable>(&key)?
            && !matches!(shard.phase, Phase::Done | Phase::Running)
        {
            cx.set_phase(key, state.priority, &mut shard, Phase::Done)?;
            cx.put_shard(key, &shard)?;
        }
    }
    Ok(())
}

/// The longest start of `text` that is at most `limit` bytes and ends between characters.
fn head(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}
