//! What the loop reads from the tables.

use std::borrow::Cow;
use std::sync::Arc;

use orloj_model::command::JobCommand;
use orloj_model::graph::ShardPlan;
use orloj_model::id::{JobId, Millis, TaskId};
use orloj_model::job::{Cause, JobKey, OPEN_LIMIT};
use orloj_model::key::{DueKey, ShardKey, TimeKey};
use orloj_model::mutant::{Mutant, is_on};
use orloj_model::query::{self, JobView};
use orloj_model::schema::{JobTable, ShardTable, SpecTable, TaskTable};
use orloj_model::tables::{Read, ReadExt as _};
use orloj_model::task::{Phase, Strategy, TaskSpec};
use orloj_model::trigger::overlap::OverlapPolicy;
use orloj_model::trigger::placeholder::{AttemptValues, expand_attempt};
use orloj_wire::protocol::Dispatch;

use super::fresh::Fresh;
use crate::core::{Candidate, Lease, attempt_ref};
use crate::results;

/// A shard that waits, with what placing it needs; `None` when it does not wait any more.
pub(super) fn candidate<R: Read>(
    view: &R,
    shard: ShardKey,
    specs: &mut Specs,
) -> Result<Option<Candidate>, R::Error> {
    let Some(row) = view.get::<ShardTable>(&shard)? else { return Ok(None) };
    let (since, ready) = match row.phase {
        Phase::Due { at, .. } => (at, false),
        Phase::Ready { since } => (since, true),
        Phase::Blocked | Phase::Running | Phase::Done => return Ok(None),
    };
    let Some(Known { spec, plan, .. }) = specs.read(view, shard.task)? else { return Ok(None) };
    let broadcast = spec.strategy == Strategy::Broadcast;
    let target = plan.as_ref().and_then(|plan| plan.targets.get(usize::from(shard.shard)));
    let spec = match target.filter(|_| broadcast) {
        // The push reads the parameters anew.
        Some(target) => Arc::new(TaskSpec {
            strategy: Strategy::Pinned(target.clone()),
            params: Vec::new(),
            ..TaskSpec::clone(spec)
        }),
        None => Arc::clone(spec),
    };
    let last = row.attempts.last().map(|attempt| attempt.executor.clone());
    Ok(Some(Candidate { shard, attempt: row.next_attempt, since, ready, spec, last, broadcast }))
}

/// The task that the next fire of a job is about to make, if all goes well, and can be handed out at once: as its rows say
/// that nothing holds it up, and of one shard, which is the whole of it.
pub(super) fn fired(job: &JobView, command: &JobCommand) -> Option<Candidate> {
    let (JobCommand::Fire(fire), Some(next)) = (command, &job.state.next) else { return None };
    let definition = &job.job.definition;
    let beside = definition.overlap == OverlapPolicy::Allow && job.state.open < OPEN_LIMIT;
    let alone = job.state.open == 0 || beside;
    let template = &definition.template;
    let whole =
        template.shard_total == 1 && template.strategy != Strategy::Broadcast && job.flow.steps.is_empty();
    if !alone || !whole {
        return None;
    }
    let origin = Cause::Trigger.origin(&job.key.job, fire.scheduled_at);
    let spec = Arc::new(definition.task(&job.key, origin, next.due_at, &fire.filled));
    let (shard, since) = (ShardKey { task: fire.task, shard: 0 }, next.due_at);
    Some(Candidate { shard, attempt: 1, since, ready: false, spec, last: None, broadcast: false })
}

/// What was read last of a task: its shards come one after the other, and share it.
#[derive(Debug, Default)]
pub(super) struct Specs(Option<Known>);

#[derive(Debug)]
struct Known {
    task: TaskId,
    spec: Arc<TaskSpec>,
    /// Of a broadcast.
    plan: Option<ShardPlan>,
}

impl Specs {
    fn read<R: Read>(&mut self, view: &R, task: TaskId) -> Result<Option<&Known>, R::Error> {
        if self.0.as_ref().is_none_or(|known| known.task != task) {
            let Some(spec) = view.get::<SpecTable>(&task)? else { return Ok(None) };
            let plan = match spec.strategy {
                Strategy::Broadcast => query::shard_plan(view, task)?,
                _ => None,
            };
            self.0 = Some(Known { task, spec: Arc::new(spec), plan });
        }
        Ok(self.0.as_ref())
    }
}

/// Of a lease: what was asked for, and whether a cancel was.
pub(super) fn of_lease<R: Read>(view: &R, shard: ShardKey) -> Result<(Option<TaskSpec>, bool), R::Error> {
    let spec = view.get::<SpecTable>(&shard.task)?;
    let cancel = view.get::<TaskTable>(&shard.task)?.is_some_and(|state| state.cancel_requested);
    Ok((spec, cancel))
}

/// The job of a task, where one made it.
pub(super) fn job_of(spec: &TaskSpec) -> Option<JobKey> {
    let (job, _) = spec.origin.job()?;
    Some(JobKey { caller: spec.caller.clone(), job: JobId::new(job).ok()? })
}

/// How many tasks of a job may run at a time.
pub(super) fn limit_of<R: Read>(view: &R, job: &JobKey) -> Result<Option<u32>, R::Error> {
    Ok(view.get::<JobTable>(job)?.and_then(|job| job.definition.max_running))
}

/// Everything in the due index with `from <= at < until`, read in pages.
pub(super) fn due_between<R: Read>(
    view: &R,
    from: Millis,
    until: Millis,
    page: usize,
) -> Result<Vec<DueKey>, R::Error> {
    let mut keys = query::due_from(view, from, until, page)?;
    while let Some(last) = keys.last().copied() {
        let more = query::due(view, Some(last), until, page)?;
        if more.is_empty() {
            break;
        }
        keys.extend(more);
    }
    Ok(keys)
}

/// Everything in the expiry index with `from <= at < until`, read in pages.
pub(super) fn expiring_between<R: Read>(
    view: &R,
    from: Millis,
    until: Millis,
    page: usize,
) -> Result<Vec<TimeKey>, R::Error> {
    let mut keys = query::expiring_from(view, from, until, page)?;
    while let Some(last) = keys.last().copied() {
        let more = query::expiring(view, Some(last), until, page)?;
        if more.is_empty() {
            break;
        }
        keys.extend(more);
    }
    Ok(keys)
}

/// The body of a push for a lease; `None` when the lease is over.
pub(super) fn dispatch<R: Read>(view: &R, lease: &Lease) -> Result<Option<Dispatch>, R::Error> {
    let Some(row) = view.get::<ShardTable>(&lease.shard)? else { return Ok(None) };
    let granted = row.open_attempt().is_some_and(|open| open.fence == lease.fence);
    if !granted && !is_on(Mutant::PushBeforeGrant) {
        return Ok(None);
    }
    let Some(mut spec) = view.get::<SpecTable>(&lease.shard.task)? else { return Ok(None) };
    let Some(state) = view.get::<TaskTable>(&lease.shard.task)? else { return Ok(None) };
    // A broadcast has its number of shards from when it was due.
    spec.shard_total = state.shards;
    let mut body = body(lease, &spec, state.due_at, row.checkpoint);
    body.params = results::fill(view, &spec, body.params)?;
    Ok(Some(body))
}

/// The body of the push for a first attempt, of what is in hand.
pub(super) fn first_dispatch(lease: &Lease, fresh: &Fresh) -> Dispatch {
    body(lease, &fresh.spec, fresh.due_at, None)
}

fn body(lease: &Lease, spec: &TaskSpec, due_at: Millis, checkpoint: Option<Vec<u8>>) -> Dispatch {
    let (job_id, scheduled_at) = spec.origin.job().map(|(job, at)| (job.to_owned(), at)).unzip();
    Dispatch {
        attempt: attempt_ref(lease),
        shard_total: spec.shard_total,
        handler: spec.handler.clone(),
        params: params(lease, spec),
        caller_id: spec.caller.to_string(),
        business_key: spec.business_key.as_ref().map(|key| expanded(lease, spec, key).into_owned()),
        dedupe_key: spec.dedupe_key.clone().unwrap_or_else(|| lease.shard.task.to_string()),
        timeout_ms: spec.timeout_ms.map(|ms| if is_on(Mutant::TimeoutDoubled) { 2 * ms } else { ms }),
        due_at,
        scheduled_at,
        job_id,
        checkpoint,
    }
}

/// The parameters of an attempt. They were parsed when they were submitted, or when the job was.
fn params(lease: &Lease, spec: &TaskSpec) -> serde_json::Value {
    let text = std::str::from_utf8(&spec.params).unwrap_or_default();
    serde_json::from_str(&expanded(lease, spec, text)).unwrap_or_default()
}

/// Fills in what a job's text says of the attempt. A submission's text means nothing but itself, and neither does
/// one that a person gave for one run and that is no placeholder.
fn expanded<'a>(lease: &Lease, spec: &TaskSpec, text: &'a str) -> Cow<'a, str> {
    if spec.origin.job().is_none() || !text.contains("${") {
        return Cow::Borrowed(text);
    }
    let (attempt, shard_index, shard_total) = (lease.attempt, lease.shard.shard, spec.shard_total);
    match expand_attempt(text, AttemptValues { attempt, shard_index, shard_total }) {
        Ok(filled) => Cow::Owned(filled),
        Err(_) => Cow::Borrowed(text),
    }
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
