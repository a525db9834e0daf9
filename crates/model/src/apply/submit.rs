//! Submission: one entry makes the task, spends the request's nonce and remembers its Idempotency-Key, so
//! that a request that is sent twice, to whichever leader, has one effect.

use std::sync::Arc;

use crate::apply::context::Context;
use crate::command::{Claim, DueTime, Idempotency, Refusal, Reply, Submit};
use crate::event::Event;
use crate::id::{Millis, TaskId};
use crate::key::{
    BusinessTaskKey, CallerTaskKey, CallerTextKey, DueKey, KeyWriter, NonceKey, ShardKey, StatusTaskKey,
    TimeKey, TimedCallerTextKey, TimedNonceKey,
};
use crate::mutant::{self, Mutant, is_on};
use crate::schema::{
    BusinessKeyTable, CallerTasksTable, DueTable, ExpireTable, IdempotencyExpiryTable, IdempotencyRow,
    IdempotencyTable, NonceExpiryTable, NonceRow, NonceTable, ShardTable, SpecTable, StatusTasksTable,
    TaskTable,
};
use crate::tables::{ReadExt as _, Write, WriteExt as _};
use crate::task::{DueClock, MAX_RETRIES, MAX_SHARDS, Phase, Reason, Shard, Status, TaskSpec, TaskState};

/// How long an Idempotency-Key stands for its task, in milliseconds of the cluster's time: 24 hours.
pub const IDEMPOTENCY_TTL_MS: Millis = 24 * 60 * 60 * 1000;

/// The commands of one entry in so many look for expired nonces and Idempotency-Keys: looking costs more than
/// forgetting one.
pub const SWEEP_EVERY: u64 = 16;

/// How many expired nonces and how many expired Idempotency-Keys such a command forgets. Two for each one that
/// was added meanwhile, so the tables shrink under any load.
pub const SWEEP_PER_COMMAND: usize = 2 * SWEEP_EVERY as usize;

/// The largest parameters that an event carries, in bytes: thousands of events may wait for a slow reader.
const TOLD_PARAMS: usize = 4 << 10;

pub(crate) fn submit<T: Write>(cx: &mut Context<'_, T>, submit: &Submit) -> Result<Reply, T::Error> {
    if !within_bounds(&submit.spec) {
        return Ok(Reply::Refused(Refusal::Invalid));
    }
    if let Some(refusal) = spend(cx, submit.claim.as_ref())? {
        return Ok(Reply::Refused(refusal));
    }
    if let Some(idempotency) = &submit.idempotency
        && !is_on(Mutant::KeyForgotten)
        && let Some(reply) = remembered(cx, &submit.spec, idempotency)?
    {
        return Ok(reply);
    }
    if cx.tables.has::<TaskTable>(&submit.task)? {
        return Ok(Reply::Refused(Refusal::TaskExists));
    }
    if let Some(idempotency) = &submit.idempotency {
        remember(cx, submit, idempotency)?;
        if is_swept_at(cx.stamp.index) {
            sweep_idempotency(cx)?;
        }
    }
    create(cx, submit)
}

fn within_bounds(spec: &TaskSpec) -> bool {
    (1..=MAX_SHARDS).contains(&spec.shard_total)
        && spec.priority <= 9
        && spec.retry.max_retries <= MAX_RETRIES
        && spec.depends_on.is_empty()
}

/// Spends a request's nonce; a refusal when it has been spent before.
pub(crate) fn spend<T: Write>(
    cx: &mut Context<'_, T>,
    claim: Option<&Claim>,
) -> Result<Option<Refusal>, T::Error> {
    let Some(claim) = claim else { return Ok(None) };
    let key: NonceKey = claim.key();
    match cx.tables.get::<NonceTable>(&key)? {
        Some(row) if row.expires_at > cx.now() => return Ok(Some(Refusal::NonceReplayed)),
        Some(row) => {
            cx.tables.delete::<NonceExpiryTable>(&TimedNonceKey { at: row.expires_at, nonce: key })?
        }
        None => {}
    }
    cx.tables.put::<NonceTable>(&key, &NonceRow { expires_at: claim.expires_at })?;
    cx.tables.put::<NonceExpiryTable>(&TimedNonceKey { at: claim.expires_at, nonce: key }, &())?;
    if is_swept_at(cx.stamp.index) {
        sweep_nonces(cx)?;
    }
    Ok(None)
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

fn sweep_nonces<T: Write>(cx: &mut Context<'_, T>) -> Result<(), T::Error> {
    let end = KeyWriter::default().millis(cx.now()).finish();
    for key in cx.tables.keys::<NonceExpiryTable>(&[], &end, SWEEP_PER_COMMAND)? {
        cx.tables.delete::<NonceTable>(&key.nonce)?;
        cx.tables.delete::<NonceExpiryTable>(&key)?;
    }
    Ok(())
}

/// What an earlier submission under the same Idempotency-Key came to.
fn remembered<T: Write>(
    cx: &Context<'_, T>,
    spec: &TaskSpec,
    idempotency: &Idempotency,
) -> Result<Option<Reply>, T::Error> {
    let key = CallerTextKey { caller: spec.caller.clone(), text: idempotency.key.clone() };
    let Some(row) = cx.tables.get::<IdempotencyTable>(&key)? else { return Ok(None) };
    if row.created_at.saturating_add(IDEMPOTENCY_TTL_MS) <= cx.now() {
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

fn remember<T: Write>(
    cx: &mut Context<'_, T>,
    submit: &Submit,
    idempotency: &Idempotency,
) -> Result<(), T::Error> {
    let key = CallerTextKey { caller: submit.spec.caller.clone(), text: idempotency.key.clone() };
    // A record that has expired but was not swept yet would otherwise leave its expiry row behind.
    if let Some(old) = cx.tables.get::<IdempotencyTable>(&key)? {
        let at = old.created_at.saturating_add(IDEMPOTENCY_TTL_MS);
        cx.tables.delete::<IdempotencyExpiryTable>(&TimedCallerTextKey { at, key: key.clone() })?;
    }
    let created_at = cx.now();
    let row = IdempotencyRow { fingerprint: idempotency.fingerprint, task: submit.task, created_at };
    cx.tables.put::<IdempotencyTable>(&key, &row)?;
    let at = created_at.saturating_add(IDEMPOTENCY_TTL_MS);
    cx.tables.put::<IdempotencyExpiryTable>(&TimedCallerTextKey { at, key }, &())
}

fn create<T: Write>(cx: &mut Context<'_, T>, submit: &Submit) -> Result<Reply, T::Error> {
    let (task, spec, now) = (submit.task, &submit.spec, cx.now());
    let (due_at, clock) = match submit.due {
        DueTime::At(at) => (at, DueClock::Wall),
        DueTime::After(ms) => (now.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)), DueClock::Cluster),
    };
    let state = TaskState {
        caller: spec.caller.clone(),
        status: Status::Pending,
        reason: if due_at <= now { Reason::Ready } else { Reason::Scheduled },
        version: 1,
        created_at: now,
        updated_at: now + mutant::difference(),
        due_at,
        started_at: None,
        finished_at: None,
        cancel_requested: false,
        priority: spec.priority,
        expire_at: spec.expire_at,
        unmet: 0,
        shards: spec.shard_total,
        running: 0,
        succeeded: 0,
        failed: 0,
    };
    cx.tables.put::<SpecTable>(&task, spec)?;
    cx.tables.put::<TaskTable>(&task, &state)?;
    index(cx, task, spec, &state)?;
    if spec.params.len() <= TOLD_PARAMS {
        cx.events.push(Event::Submitted { task, due_at, spec: Arc::new(spec.clone()) });
    }
    for shard in 0..spec.shard_total {
        let key = ShardKey { task, shard };
        cx.tables.put::<ShardTable>(&key, &new_shard(Phase::Due { at: due_at, clock }))?;
        cx.tables.put::<DueTable>(&DueKey { at: due_at, shard: key, clock }, &())?;
        cx.events.push(Event::Waiting { shard: key, due_at, clock });
    }
    cx.events.push(Event::TaskChanged { task, version: state.version, status: state.status });
    Ok(submitted(task, &state, false))
}

fn index<T: Write>(
    cx: &mut Context<'_, T>,
    task: TaskId,
    spec: &TaskSpec,
    state: &TaskState,
) -> Result<(), T::Error> {
    let (caller, created_at) = (spec.caller.clone(), state.created_at);
    cx.tables.put::<CallerTasksTable>(&CallerTaskKey { caller: caller.clone(), created_at, task }, &())?;
    let status = state.status;
    cx.tables
        .put::<StatusTasksTable>(&StatusTaskKey { caller: caller.clone(), status, created_at, task }, &())?;
    if let Some(business_key) = &spec.business_key {
        let key = CallerTextKey { caller, text: business_key.clone() };
        cx.tables.put::<BusinessKeyTable>(&BusinessTaskKey { key, task }, &())?;
    }
    if let Some(at) = state.expire_at {
        cx.tables.put::<ExpireTable>(&TimeKey { at, task }, &())?;
        cx.events.push(Event::Expires { task, at });
    }
    Ok(())
}

fn new_shard(phase: Phase) -> Shard {
    Shard {
        phase,
        next_attempt: 1,
        attempts: Vec::new(),
        failures: 0,
        losses: 0,
        progress: None,
        checkpoint: None,
        result: None,
        log_tail: None,
    }
}

fn submitted(task: TaskId, state: &TaskState, replayed: bool) -> Reply {
    Reply::Submitted {
        task,
        status: state.status,
        version: state.version,
        created_at: state.created_at,
        due_at: state.due_at,
        replayed,
    }
}
