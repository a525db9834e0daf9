//! A person runs a job now.

use super::fire::{Made, Make, make_task};
use super::{check_version, or_refuse};
use crate::apply::context::Context;
use crate::apply::submit::{remember, remembered, spend};
use crate::command::{Refusal, Reply, RunNow};
use crate::job::Cause;
use crate::schema::{JobStateTable, TaskTable};
use crate::tables::{ReadExt as _, Write, WriteExt as _};
use crate::task::DueClock;

/// Also while the job is paused: a person who asks for a run means it. The overlap policy holds all the same. It
/// counts for no trigger, and moves no next fire.
pub(super) fn run_now<T: Write>(cx: &mut Context<'_, T>, run: &RunNow) -> Result<Reply, T::Error> {
    if !run.filled.is_within_bounds() {
        return Ok(Reply::Refused(Refusal::Invalid));
    }
    if let Some(refusal) = spend(cx, run.claim.as_ref())? {
        return Ok(Reply::Refused(refusal));
    }
    if let Some(reply) = remembered(cx, &run.job.caller, run.idempotency.as_ref())? {
        return Ok(reply);
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
    }
    cx.tables.put::<JobStateTable>(&run.job, &state)?;
    Ok(made.reply(run.task))
}
