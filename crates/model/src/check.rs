//! Invariants of the tables, recomputed from scratch: every index says exactly what the rows say. Tests run
//! it after every command; an operator can run it on a snapshot. It reads everything.

mod access;
mod callback;
mod graph;
mod job;

use std::collections::BTreeSet;
use std::fmt::Debug;

use crate::apply::end_of_span;
use crate::id::TaskId;
use crate::key::{
    CallerTaskKey, DueKey, ReadyKey, RunningKey, ShardKey, Single, StatusTaskKey, TableKey, TimeKey,
    after_prefix,
};
use crate::schema::{
    CallerTasksTable, DueTable, ExpireTable, IdempotencyExpiryTable, IdempotencyTable, MetaTable, NonceTable,
    ReadyTable, RunTable, RunningTable, ShardTable, SpecTable, StatusTasksTable, TaskTable,
};
use crate::tables::{Read, ReadExt as _, Rows, Table};
use crate::task::{ATTEMPT_LIMIT, Outcome, Phase, Shard, Status, TaskState};

/// Every way in which the tables contradict themselves, in words; empty when they do not.
pub fn check<R: Read>(tables: &R) -> Result<Vec<String>, R::Error> {
    let mut faults = Vec::new();
    let mut expected = Expected::default();
    for (id, state) in all::<TaskTable, R>(tables)? {
        if !tables.has::<SpecTable>(&id)? {
            faults.push(format!("{id}: state without spec"));
        }
        expected.task(id, &state);
        if tables.has::<RunTable>(&id)? {
            // It has steps in place of shards.
            check_counts(id, &state, &mut faults);
            continue;
        }
        let mut shards = Vec::new();
        for index in 0..state.shards {
            let key = ShardKey { task: id, shard: index };
            match tables.get::<ShardTable>(&key)? {
                Some(shard) => {
                    expected.shard(key, &state, &shard);
                    check_shard(key, &shard, &mut faults);
                    shards.push(shard);
                }
                None => faults.push(format!("{id}: shard {index} is missing")),
            }
        }
        check_task(id, &state, &shards, &mut faults);
    }
    compare::<DueTable, R>(tables, "due", &expected.due, &mut faults)?;
    compare::<ReadyTable, R>(tables, "ready", &expected.ready, &mut faults)?;
    compare::<RunningTable, R>(tables, "running", &expected.running, &mut faults)?;
    compare::<ExpireTable, R>(tables, "expire", &expected.expire, &mut faults)?;
    compare::<CallerTasksTable, R>(tables, "caller tasks", &expected.caller_tasks, &mut faults)?;
    compare::<StatusTasksTable, R>(tables, "status tasks", &expected.status_tasks, &mut faults)?;
    pairs::<IdempotencyTable, IdempotencyExpiryTable, R>(tables, "idempotency", &mut faults)?;
    nonces(tables, &mut faults)?;
    job::check(tables, &mut faults)?;
    graph::check(tables, &mut faults)?;
    callback::check(tables, &mut faults)?;
    access::check(tables, &mut faults)?;
    Ok(faults)
}

/// What the indexes must hold, as encoded keys.
#[derive(Default)]
struct Expected {
    due: BTreeSet<Vec<u8>>,
    ready: BTreeSet<Vec<u8>>,
    running: BTreeSet<Vec<u8>>,
    expire: BTreeSet<Vec<u8>>,
    caller_tasks: BTreeSet<Vec<u8>>,
    status_tasks: BTreeSet<Vec<u8>>,
}

impl Expected {
    fn task(&mut self, task: TaskId, state: &TaskState) {
        let (caller, created_at) = (state.caller.clone(), state.created_at);
        self.caller_tasks.insert(CallerTaskKey { caller: caller.clone(), created_at, task }.encode());
        let status = state.status;
        self.status_tasks.insert(StatusTaskKey { caller, status, created_at, task }.encode());
        if let Some(at) = state.expire_at {
            self.expire.insert(TimeKey { at, task }.encode());
        }
    }

    fn shard(&mut self, key: ShardKey, state: &TaskState, shard: &Shard) {
        match shard.phase {
            Phase::Due { at, clock } => {
                self.due.insert(DueKey { at, shard: key, clock }.encode());
            }
            Phase::Ready { since } => {
                self.ready.insert(ReadyKey { priority: state.priority, since, shard: key }.encode());
            }
            Phase::Running => {
                if let Some(open) = shard.open_attempt() {
                    let executor = open.executor.clone();
                    self.running.insert(RunningKey { executor, shard: key }.encode());
                }
            }
            Phase::Blocked | Phase::Done => {}
        }
    }
}

fn check_shard(key: ShardKey, shard: &Shard, faults: &mut Vec<String>) {
    let mut fault = |what: &str| faults.push(format!("{key:?}: {what}"));
    if (shard.phase == Phase::Running) != shard.open_attempt().is_some() {
        fault("running if and only if its last attempt is open");
    }
    let closed = shard.attempts.len().saturating_sub(1);
    if shard.attempts.iter().take(closed).any(|attempt| attempt.outcome.is_none()) {
        fault("an attempt before the last one is open");
    }
    if shard.attempts.windows(2).any(|pair| pair[0].number >= pair[1].number) {
        fault("attempt numbers do not grow");
    }
    if shard.attempts.windows(2).any(|pair| pair[0].fence > pair[1].fence || pair[0].round > pair[1].round) {
        fault("fences or rounds go back");
    }
    if shard.attempts.last().is_some_and(|attempt| attempt.number >= shard.next_attempt) {
        fault("the next attempt's number is taken");
    }
    if shard.attempts.len() > ATTEMPT_LIMIT {
        fault("too many attempts kept");
    }
    let successes = shard.attempts.iter().filter(|a| a.outcome == Some(Outcome::Succeeded)).count();
    if successes > 1 {
        fault("two attempts succeeded");
    }
    if shard.result.is_some() && successes == 0 {
        fault("a result without a success");
    }
}

fn check_task(id: TaskId, state: &TaskState, shards: &[Shard], faults: &mut Vec<String>) {
    let mut fault = |what: &str| faults.push(format!("{id}: {what}"));
    let count = |test: fn(&Shard) -> bool| shards.iter().filter(|shard| test(shard)).count();
    let succeeded = |shard: &Shard| {
        shard.attempts.last().is_some_and(|attempt| attempt.outcome == Some(Outcome::Succeeded))
    };
    if usize::from(state.running) != count(|shard| shard.phase == Phase::Running) {
        fault("the count of running shards is wrong");
    }
    if usize::from(state.succeeded) != count(succeeded) {
        fault("the count of succeeded shards is wrong");
    }
    let done = count(|shard| shard.phase == Phase::Done);
    if state.status.is_terminal() {
        if done != shards.len() {
            fault("terminal with a shard that is not done");
        }
    } else if done == shards.len() {
        fault("every shard is done and the task is not terminal");
    }
    check_counts(id, state, faults);
}

/// What holds of a task with shards as of a run with steps.
fn check_counts(id: TaskId, state: &TaskState, faults: &mut Vec<String>) {
    let mut fault = |what: &str| faults.push(format!("{id}: {what}"));
    if state.status.is_terminal() && (state.finished_at.is_none() || state.expire_at.is_some()) {
        fault("terminal without an end, or still in the expiry index");
    }
    if (state.status == Status::Running) != (state.running > 0) {
        fault("RUNNING if and only if a shard is running");
    }
    if (state.status == Status::Success) != (state.succeeded == state.shards) {
        fault("SUCCESS if and only if every shard succeeded");
    }
}

fn all<T: Table, R: Read>(tables: &R) -> Result<Rows<T>, R::Error> {
    tables.range::<T>(&[], &after_prefix(&[]), usize::MAX)
}

fn compare<T: Table, R: Read>(
    tables: &R,
    name: &str,
    expected: &BTreeSet<Vec<u8>>,
    faults: &mut Vec<String>,
) -> Result<(), R::Error>
where
    T::Key: Debug,
{
    let rows = tables.range_raw(T::ID, &[], &after_prefix(&[]), usize::MAX)?;
    let found: BTreeSet<Vec<u8>> = rows.into_iter().map(|(key, _)| key).collect();
    for key in found.symmetric_difference(expected) {
        let side = if found.contains(key) { "too much" } else { "missing" };
        faults.push(format!("{name} index: {side}: {:?}", T::Key::decode(key)));
    }
    Ok(())
}

fn nonces<R: Read>(tables: &R, faults: &mut Vec<String>) -> Result<(), R::Error> {
    let now_ms = tables.get::<MetaTable>(&Single)?.unwrap_or_default().now_ms;
    for (key, row) in tables.range::<NonceTable>(&[], &after_prefix(&[]), usize::MAX)? {
        if key.until != end_of_span(row.expires_at) {
            faults.push(format!("{key:?}: expires at {}, in another span", row.expires_at));
        }
        if key.until <= now_ms {
            faults.push(format!("{key:?}: is to be forgotten at {now_ms}"));
        }
    }
    Ok(())
}

fn pairs<A: Table, B: Table, R: Read>(
    tables: &R,
    name: &str,
    faults: &mut Vec<String>,
) -> Result<(), R::Error> {
    let count = |id| tables.range_raw(id, &[], &after_prefix(&[]), usize::MAX).map(|rows| rows.len());
    let (rows, expiries) = (count(A::ID)?, count(B::ID)?);
    if rows != expiries {
        faults.push(format!("{name}: {rows} rows but {expiries} expiries"));
    }
    Ok(())
}
