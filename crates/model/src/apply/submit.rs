//! Submission: one entry makes the task, spends the request's nonce and remembers its Idempotency-Key, so
//! that a request that is sent twice, to whichever leader, has one effect.

use crate::apply::context::Context;
use crate::apply::create::{self, New, Start, submitted};
use crate::apply::nonce::spend;
use crate::command::{DueTime, Idempotency, Refusal, Reply, Submit};
use crate::id::{CallerId, Millis, TaskId};
use crate::key::{CallerTextKey, KeyWriter, TimedCallerTextKey};
use crate::mutant::{Mutant, is_on};
use crate::schema::{IdempotencyExpiryTable, IdempotencyRow, IdempotencyTable, TaskTable};
use crate::tables::{ReadExt as _, Write, WriteExt as _};
use crate::task::{DueClock, MAX_RETRIES, MAX_SHARDS, TaskSpec};

/// How long an Idempotency-Key stands for its task, in milliseconds of the cluster's time: 24 hours.
pub const IDEMPOTENCY_TTL_MS: Millis = 24 * 60 * 60 * 1000;

/// The commands of one entry in so many look for expired Idempotency-Keys: looking costs more than forgetting one.
pub const SWEEP_EVERY: u64 = 16;

/// How many expired Idempotency-Keys such a command forgets. Two for each one that
/// was added meanwhile, so the tables shrink under any load.
pub const SWEEP_PER_COMMAND: usize = 2 * SWEEP_EVERY as usize;

pub(crate) fn submit<T: Write>(cx: &mut Context<'_, T>, submit: &Submit) -> Result<Reply, T::Error> {
    if !within_bounds(&submit.spec) || !submit.spec.depends_on.is_empty() {
        return Ok(Reply::Refused(Refusal::Invalid));
    }
    if let Some(refusal) = spend(cx, submit.claim.as_ref())? {
        return Ok(Reply::Refused(refusal));
    }
    if let Some(reply) = remembered(cx, &submit.spec.caller, submit.idempotency.as_ref())? {
        return Ok(reply);
    }
    if cx.tables.has::<TaskTable>(&submit.task)? {
        return Ok(Reply::Refused(Refusal::TaskExists));
    }
    remember(cx, &submit.spec.caller, submit.task, submit.idempotency.as_ref())?;
    create(cx, submit)
}

/// Whether every value but the list of parents is within its bounds.
pub(crate) fn within_bounds(spec: &TaskSpec) -> bool {
    (1..=MAX_SHARDS).contains(&spec.shard_total)
        && spec.priority <= 9
        && spec.retry.max_retries <= MAX_RETRIES
}

/// Whether the commands of this entry look for what has expired. The index is spread over all numbers, so that no
/// rhythm of entries passes every time.
fn is_swept_at(index: u64) -> bool {
    index.wrapping_mul(0x9e37_79b9_7f4a_7c15) / (u64::MAX / SWEEP_EVERY + 1) == 0
}

fn sweep_idempotency<T: Write>(cx: &mut Context<'_, T>) -> Result<(), T::Error> {
    let end = KeyWriter::default().millis(cx.now()).finish();
    for key in cx.tables.keys::<IdempotencyExpiryTable>(&[], &end, SWEEP_PER_COMMAND)? {
        cx.tables.delete::<IdempotencyTable>(&key.key)?;
        cx.tables.delete::<IdempotencyExpiryTable>(&key)?;
    }
    Ok(())
}

/// Whether an Idempotency-Key that was first used at `created_at` stands for nothing any more at `now`, whether its row
/// was swept or not.
pub fn is_forgotten(created_at: Millis, now: Millis) -> bool {
    created_at.saturating_add(IDEMPOTENCY_TTL_MS) <= now
}

/// What an earlier request under the same Idempotency-Key came to.
pub(crate) fn remembered<T: Write>(
    cx: &Context<'_, T>,
    caller: &CallerId,
    idempotency: Option<&Idempotency>,
) -> Result<Option<Reply>, T::Error> {
    let Some(idempotency) = idempotency.filter(|_| !is_on(Mutant::KeyForgotten)) else { return Ok(None) };
    let key = CallerTextKey { caller: caller.clone(), text: idempotency.key.clone() };
    let Some(row) = cx.tables.get::<IdempotencyTable>(&key)? else { return Ok(None) };
    if is_forgotten(row.created_at, cx.now()) {
        return Ok(None);
    }
    if row.fingerprint != idempotency.fingerprint {
        return Ok(Some(Reply::Refused(Refusal::IdempotencyKeyReused)));
    }
    Ok(Some(match cx.tables.get::<TaskTable>(&row.task)? {
        Some(state) => submitted(row.task, &state, true),
        None => Reply::Refused(Refusal::TaskNotFound),
    }))
}

/// Lets an Idempotency-Key stand for the task that a request makes, and forgets some that have expired.
pub(crate) fn remember<T: Write>(
    cx: &mut Context<'_, T>,
    caller: &CallerId,
    task: TaskId,
    idempotency: Option<&Idempotency>,
) -> Result<(), T::Error> {
    let Some(idempotency) = idempotency else { return Ok(()) };
    let key = CallerTextKey { caller: caller.clone(), text: idempotency.key.clone() };
    // A record that has expired but was not swept yet would otherwise leave its expiry row behind.
    if let Some(old) = cx.tables.get::<IdempotencyTable>(&key)? {
        let at = old.created_at.saturating_add(IDEMPOTENCY_TTL_MS);
        cx.tables.delete::<IdempotencyExpiryTable>(&TimedCallerTextKey { at, key: key.clone() })?;
    }
    let created_at = cx.now();
    let row = IdempotencyRow { fingerprint: idempotency.fingerprint, task, created_at };
    cx.tables.put::<IdempotencyTable>(&key, &row)?;
    let at = created_at.saturating_add(IDEMPOTENCY_TTL_MS);
    cx.tables.put::<IdempotencyExpiryTable>(&TimedCallerTextKey { at, key }, &())?;
    if is_swept_at(cx.stamp.index) {
        sweep_idempotency(cx)?;
    }
    Ok(())
}

fn create<T: Write>(cx: &mut Context<'_, T>, submit: &Submit) -> Result<Reply, T::Error> {
    let (due_at, clock) = due(cx, submit.due);
    create::create(cx, &New { task: submit.task, spec: &submit.spec, due_at, clock, start: Start::Free })
}

/// When a submission is due, and by which clock.
pub(crate) fn due<T: Write>(cx: &Context<'_, T>, due: DueTime) -> (Millis, DueClock) {
    match due {
        DueTime::At(at) => (at, DueClock::Wall),
        DueTime::After(ms) => {
            (cx.now().saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)), DueClock::Cluster)
        }
    }
}
