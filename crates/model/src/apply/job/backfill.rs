//! A stretch of the past is made up for, in steps that the leader takes. The row says how far it has come, so that
//! another leader goes on from there and no instant is made up for twice.

use super::fire::{Made, Make, make_task};
use super::{check_version, or_refuse};
use crate::apply::context::Context;
use crate::apply::submit::spend;
use crate::command::{Claim, Refusal, Reply, StepBackfill};
use crate::event::Event;
use crate::id::Millis;
use crate::job::{BACKFILL_STEP, BackfillRow, Cause, Definition, JobKey, JobOutcome, JobState, OPEN_LIMIT};
use crate::schema::{BackfillTable, JobStateTable, TaskTable};
use crate::tables::{ReadExt as _, Write, WriteExt as _};
use crate::task::{DueClock, MAX_SHARDS};
use crate::trigger::overlap::OverlapPolicy;

pub(super) fn start<T: Write>(
    cx: &mut Context<'_, T>,
    key: &JobKey,
    (from, to): (Millis, Millis),
    overlap: OverlapPolicy,
    claim: Option<&Claim>,
) -> Result<Reply, T::Error> {
    if from > to || to > cx.wall() || from == Millis::MIN {
        return Ok(Reply::Refused(Refusal::Invalid));
    }
    if let Some(refusal) = spend(cx, claim)? {
        return Ok(Reply::Refused(refusal));
    }
    let (_, mut state) = or_refuse!(cx.load_job(key)?);
    if state.backfilling {
        return Ok(Reply::Refused(Refusal::BackfillRunning));
    }
    let created_at = cx.now();
    let row = BackfillRow { from, to, overlap, through: from - 1, fired: 0, skipped: 0, created_at };
    cx.tables.put::<BackfillTable>(key, &row)?;
    state.backfilling = true;
    cx.tables.put::<JobStateTable>(key, &state)?;
    cx.events.push(Event::BackfillWaits { job: key.clone() });
    Ok(reply(&row, false))
}

/// `triggers` says by which trigger each fire is; of an entry of before that was said it is the first one.
pub(super) fn step<T: Write>(
    cx: &mut Context<'_, T>,
    step: &StepBackfill,
    triggers: &[u16],
) -> Result<Reply, T::Error> {
    let key = &step.job;
    let (job, mut state) = or_refuse!(cx.load_job(key)?);
    or_refuse!(check_version(Some(step.version), job.version));
    let row = cx.tables.get::<BackfillTable>(key)?.filter(|row| row.through == step.from);
    let Some(mut row) = row else { return Ok(Reply::Refused(Refusal::BackfillNotFound)) };
    if !is_valid(step, &row) {
        return Ok(Reply::Refused(Refusal::Invalid));
    }
    for fire in &step.fires {
        if cx.tables.has::<TaskTable>(&fire.task)? {
            return Ok(Reply::Refused(Refusal::TaskExists));
        }
    }
    let fired = row.fired;
    let came_through = make_up(cx, (step, triggers), &job.definition, &mut state, &mut row)?;
    if row.fired > fired {
        cx.opened_beside(key, &mut state)?;
    }
    if came_through {
        row.through = step.through;
    }
    if row.through == step.from {
        return Ok(reply(&row, false));
    }
    let ended = row.through >= row.to;
    if ended {
        end(cx, key, &mut state, &row)?;
    } else {
        cx.tables.put::<BackfillTable>(key, &row)?;
        cx.events.push(Event::BackfillWaits { job: key.clone() });
    }
    cx.tables.put::<JobStateTable>(key, &state)?;
    Ok(reply(&row, ended))
}

pub(super) fn stop<T: Write>(
    cx: &mut Context<'_, T>,
    key: &JobKey,
    claim: Option<&Claim>,
) -> Result<Reply, T::Error> {
    if let Some(refusal) = spend(cx, claim)? {
        return Ok(Reply::Refused(refusal));
    }
    let (_, mut state) = or_refuse!(cx.load_job(key)?);
    let Some(row) = cx.tables.get::<BackfillTable>(key)? else {
        return Ok(Reply::Refused(Refusal::BackfillNotFound));
    };
    end(cx, key, &mut state, &row)?;
    cx.tables.put::<JobStateTable>(key, &state)?;
    Ok(reply(&row, true))
}

/// Makes the tasks of a step, as many as there is room for; whether it was all of them.
fn make_up<T: Write>(
    cx: &mut Context<'_, T>,
    (step, triggers): (&StepBackfill, &[u16]),
    definition: &Definition,
    state: &mut JobState,
    row: &mut BackfillRow,
) -> Result<bool, T::Error> {
    let mut shards = 0;
    for (place, fire) in step.fires.iter().enumerate() {
        if shards >= MAX_SHARDS || !has_room(state, row.overlap) {
            return Ok(false);
        }
        let make = Make {
            job: &step.job,
            definition,
            cause: Cause::Backfill,
            scheduled_at: fire.scheduled_at,
            due_at: cx.now(),
            clock: DueClock::Cluster,
            task: fire.task,
            filled: &fire.filled,
            overlap: row.overlap,
            trigger: Some(triggers.get(place).copied().unwrap_or_default()),
        };
        match make_task(cx, state, &make)? {
            Made::Task { .. } => {
                shards += definition.template.shard_total;
                row.fired += 1;
            }
            Made::Skipped(_) => row.skipped += 1,
        }
        row.through = fire.scheduled_at;
    }
    Ok(true)
}

/// Whether another instant may be decided: a backfill skips nothing for want of room, it waits.
fn has_room(state: &JobState, overlap: OverlapPolicy) -> bool {
    state.open < OPEN_LIMIT && (overlap != OverlapPolicy::Queue || state.queued.is_none())
}

fn is_valid(step: &StepBackfill, row: &BackfillRow) -> bool {
    let fires = &step.fires;
    let tasks = fires.iter().enumerate();
    let repeated = |(place, task): (usize, &crate::command::BackfillFire)| {
        fires[..place].iter().any(|f| f.task == task.task)
    };
    fires.len() <= BACKFILL_STEP
        && fires.windows(2).all(|pair| pair[0].scheduled_at < pair[1].scheduled_at)
        && fires.first().is_none_or(|first| first.scheduled_at > row.through)
        && fires.last().is_none_or(|last| last.scheduled_at <= step.through)
        && (row.through..=row.to).contains(&step.through)
        && fires.iter().all(|fire| fire.filled.is_within_bounds())
        && !tasks.into_iter().any(repeated)
}

/// Ends a backfill. The caller stores the job's row.
fn end<T: Write>(
    cx: &mut Context<'_, T>,
    key: &JobKey,
    state: &mut JobState,
    row: &BackfillRow,
) -> Result<(), T::Error> {
    cx.tables.delete::<BackfillTable>(key)?;
    state.backfilling = false;
    let &BackfillRow { from, to, through, fired, skipped, .. } = row;
    cx.record(key, state, JobOutcome::Backfilled { from, to, through, fired, skipped })
}

fn reply(row: &BackfillRow, ended: bool) -> Reply {
    Reply::Backfill { through: row.through, fired: row.fired, skipped: row.skipped, ended }
}
