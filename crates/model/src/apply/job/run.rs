//! A person runs a job now.

use super::fire::{Made, Make, make_task};
use super::{check_version, or_refuse};
use crate::apply::context::Context;
use crate::apply::nonce::spend;
use crate::apply::submit::{remember, remembered};
use crate::command::{Refusal, Reply, RunNow};
use crate::job::Cause;
use crate::key::CallerTextKey;
use crate::schema::{IdempotencyTable, JobStateTable, JobTable, SpecTable, TaskTable};
use crate::tables::{ReadExt as _, Write, WriteExt as _};
use crate::task::{DueClock, Origin};

/// Also while the job is paused: a person who asks for a run means it. The overlap policy holds all the same. It
/// counts for no trigger, and moves no next fire but that of a fixed delay, which counts from its end.
pub(super) fn run_now<T: Write>(cx: &mut Context<'_, T>, run: &RunNow) -> Result<Reply, T::Error> {
    if !run.filled.is_within_bounds() {
        return Ok(Reply::Refused(Refusal::Invalid));
    }
    if let Some(refusal) = spend(cx, run.claim.as_ref())? {
        return Ok(Reply::Refused(refusal));
    }
    match remembered(cx, &run.job.caller, run.idempotency.as_ref())? {
        Some(Reply::Refused(Refusal::IdempotencyKeyReused)) if names_a_run_before(cx, run)? => {}
        Some(reply) => return Ok(reply),
        None => {}
    }
    let (job, mut state) = or_refuse!(cx.load_job(&run.job)?);
    or_refuse!(check_version(Some(run.version), job.version));
    if cx.tables.has::<TaskTable>(&run.task)? {
        return Ok(Reply::Refused(Refusal::TaskExists));
    }
    let make = Make {
        job: &run.job,
        definition: &job.definition,
        cause: Cause::Run,
        scheduled_at: run.scheduled_at,
        due_at: cx.now(),
        clock: DueClock::Cluster,
        task: run.task,
        filled: &run.filled,
        overlap: run.overlap.unwrap_or(job.definition.overlap),
        // Dates in parameters are those of the zone in which the job counts them.
        trigger: (!job.definition.triggers.is_empty()).then_some(0),
    };
    let made = make_task(cx, &mut state, &make)?;
    if let Made::Task { .. } = made {
        remember(cx, &run.job.caller, run.task, run.idempotency.as_ref())?;
        cx.opened_beside(&run.job, &mut state)?;
    }
    cx.tables.put::<JobStateTable>(&run.job, &state)?;
    Ok(made.reply(run.task))
}

/// Whether the request's Idempotency-Key stands for a run of a job that had this one's id before it. The fingerprint of a
/// run holds when its job was created, so a run of this job never looks like another request.
fn names_a_run_before<T: Write>(cx: &Context<'_, T>, run: &RunNow) -> Result<bool, T::Error> {
    let Some(idempotency) = &run.idempotency else { return Ok(false) };
    let key = CallerTextKey { caller: run.job.caller.clone(), text: idempotency.key.clone() };
    let Some(row) = cx.tables.get::<IdempotencyTable>(&key)? else { return Ok(false) };
    let Some(job) = cx.tables.get::<JobTable>(&run.job)? else { return Ok(false) };
    let spec = cx.tables.get::<SpecTable>(&row.task)?;
    let ran = spec
        .is_some_and(|spec| matches!(spec.origin, Origin::Run { job, .. } if job == run.job.job.as_str()));
    Ok(ran && row.created_at < job.created_at)
}
