//! A job fires, passes instants over, or gets its next fire. Each is a guarded transition on the job and its next
//! instant: whatever leaders come and go, an instant is decided once.

use super::{or_refuse, replace};
use crate::access::may_use;
use crate::apply::cancel::cancel;
use crate::apply::context::Context;
use crate::apply::create::{New, Start, create};
use crate::apply::graph::{NewRun, create_run, keep_policy};
use crate::apply::job::calendar::not_told;
use crate::command::{Fire, Refusal, Reply, SkipFire};
use crate::graph::RunFlow;
use crate::id::{Millis, TaskId};
use crate::job::{Cause, Definition, Filled, JobKey, JobOutcome, JobState, NEXT_PASSED_LIMIT, OPEN_LIMIT};
use crate::key::{JobTaskKey, KeyWriter, after_prefix};
use crate::mutant::{Mutant, is_on};
use crate::schema::{CallerTable, JobFlowTable, JobStateTable, JobTasksTable, TaskJobTable, TaskTable};
use crate::tables::{ReadExt as _, Write, WriteExt as _};
use crate::task::{DueClock, TaskSpec};
use crate::trigger::overlap::{Decision, OpenTask, OverlapPolicy, decide};
use crate::trigger::{Missed, Next, Passed, SkipReason, Trigger};

/// A task that a job is to make.
pub(super) struct Make<'a> {
    pub(super) job: &'a JobKey,
    pub(super) definition: &'a Definition,
    pub(super) cause: Cause,
    pub(super) scheduled_at: Millis,
    pub(super) due_at: Millis,
    pub(super) clock: DueClock,
    pub(super) task: TaskId,
    pub(super) filled: &'a Filled,
    pub(super) overlap: OverlapPolicy,
    /// The trigger in whose zone the dates of the steps are; UTC of a run by hand.
    pub(super) trigger: Option<u16>,
}

/// What became of it.
pub(super) enum Made {
    Task { queued: bool },
    Skipped(SkipReason),
}

impl Made {
    pub(super) fn reply(&self, task: TaskId) -> Reply {
        match self {
            Made::Task { queued } => Reply::Fired { task, queued: *queued },
            Made::Skipped(reason) => Reply::FireSkipped { reason: *reason },
        }
    }
}

pub(super) fn fire<T: Write>(cx: &mut Context<'_, T>, fire: &Fire) -> Result<Reply, T::Error> {
    let key = &fire.job;
    let (job, mut state) = or_refuse!(cx.load_job(key)?);
    let next = or_refuse!(check_next(&state, fire.revision, fire.scheduled_at));
    if next.due_at > cx.wall() {
        return Ok(Reply::Refused(Refusal::NotDue { due_at: next.due_at }));
    }
    if !fire.filled.is_within_bounds() {
        return Ok(Reply::Refused(Refusal::Invalid));
    }
    if let Some(refusal) = not_told(cx, key, &job.definition)? {
        return Ok(Reply::Refused(refusal));
    }
    if cx.tables.has::<TaskTable>(&fire.task)? {
        return Ok(Reply::Refused(Refusal::TaskExists));
    }
    state.revision += 1;
    state.decided = fire.scheduled_at;
    record_passed(cx, key, &mut state, &next, fire.scheduled_at)?;
    let make = Make {
        job: key,
        definition: &job.definition,
        cause: Cause::Trigger,
        scheduled_at: fire.scheduled_at,
        due_at: next.due_at,
        clock: DueClock::Wall,
        task: fire.task,
        filled: &fire.filled,
        overlap: job.definition.overlap,
        trigger: next.triggers.first().copied(),
    };
    let made = make_task(cx, &mut state, &make)?;
    if is_on(Mutant::FiredTwice) {
        let other = TaskId(fire.task.0.map(|byte| !byte));
        make_task(cx, &mut state, &Make { task: other, ..make })?;
    }
    let limited = job.definition.triggers.iter().any(|trigger| trigger.limits().max_fires.is_some());
    match made {
        Made::Task { .. } => state.progress.fire(&next),
        // The leader took the fire for one that counts, and that a fixed delay waits for the end of.
        Made::Skipped(_) if limited || state.has_delays => {
            cx.want_next(key, &mut state)?;
            cx.tables.put::<JobStateTable>(key, &state)?;
            return Ok(made.reply(fire.task));
        }
        Made::Skipped(_) => {}
    }
    cx.take_next(key, &job.definition, &mut state, fire.next.as_ref())?;
    cx.tables.put::<JobStateTable>(key, &state)?;
    Ok(made.reply(fire.task))
}

pub(super) fn skip<T: Write>(cx: &mut Context<'_, T>, skip: &SkipFire) -> Result<Reply, T::Error> {
    let key = &skip.job;
    let (job, mut state) = or_refuse!(cx.load_job(key)?);
    let next = or_refuse!(check_next(&state, skip.revision, skip.scheduled_at));
    if skip.through < skip.scheduled_at || skip.missed.count == 0 {
        return Ok(Reply::Refused(Refusal::Invalid));
    }
    // What is not due yet is not missed, and passing it over would lose it.
    if skip.through > cx.wall() {
        return Ok(Reply::Refused(Refusal::NotDue { due_at: skip.through }));
    }
    state.revision += 1;
    state.decided = skip.through;
    record_passed(cx, key, &mut state, &next, skip.scheduled_at)?;
    let outcome = JobOutcome::Skipped { missed: skip.missed.clone(), cause: Cause::Trigger };
    cx.record(key, &mut state, outcome)?;
    cx.take_next(key, &job.definition, &mut state, skip.next.as_ref())?;
    cx.tables.put::<JobStateTable>(key, &state)?;
    Ok(Reply::FireSkipped { reason: skip.missed.reason })
}

pub(super) fn set_next<T: Write>(
    cx: &mut Context<'_, T>,
    key: &JobKey,
    revision: u64,
    next: Option<&Next>,
) -> Result<Reply, T::Error> {
    let (job, mut state) = or_refuse!(cx.load_job(key)?);
    if !state.wanted || state.revision != revision {
        return Ok(Reply::Refused(Refusal::StaleJob { revision: state.revision }));
    }
    if next.is_some_and(|next| !job.definition.may_fire(next, &state.progress, state.decided)) {
        return Ok(Reply::Refused(Refusal::Invalid));
    }
    state.revision += 1;
    cx.take_next(key, &job.definition, &mut state, next)?;
    cx.tables.put::<JobStateTable>(key, &state)?;
    Ok(Reply::Job { version: job.version, revision: state.revision })
}

/// The job's next fire, where it is the one that is meant.
fn check_next(state: &JobState, revision: u64, scheduled_at: Millis) -> Result<Next, Refusal> {
    if state.revision != revision {
        return Err(Refusal::StaleJob { revision: state.revision });
    }
    state.next.clone().filter(|next| next.scheduled_at == scheduled_at).ok_or(Refusal::NotNext)
}

/// Makes a task, or does not, as the overlap policy says of the tasks that are open, and writes it down. The caller
/// has checked that the id is free, and stores the job's row.
pub(super) fn make_task<T: Write>(
    cx: &mut Context<'_, T>,
    state: &mut JobState,
    make: &Make<'_>,
) -> Result<Made, T::Error> {
    let (job, scheduled_at, task, cause) = (make.job, make.scheduled_at, make.task, make.cause);
    let decision = match forbidden(cx, make)? {
        Some(reason) => Decision::Skip(reason),
        None if make.cause == Cause::Backfill && holds_one_alone(state, make.overlap) => Decision::Start,
        None => decide_now(cx, job, state, make.overlap)?,
    };
    let mut replaces = false;
    let queued = match decision {
        Decision::Skip(reason) => {
            let missed = Missed { reason, count: 1, exact: true, first: scheduled_at, last: scheduled_at };
            cx.record(job, state, JobOutcome::Skipped { missed, cause })?;
            return Ok(Made::Skipped(reason));
        }
        Decision::Start => false,
        Decision::Queue => true,
        Decision::Replace(_) => {
            if let Some(waiting) = state.queued.take() {
                replace::stop(cx, state, waiting)?;
                cancel(cx, waiting, None, None)?;
            }
            replaces = true;
            true
        }
    };
    // A deadline is an instant; what is due by the cluster's time is due now.
    let due_at = if make.clock == DueClock::Wall { make.due_at } else { cx.wall() };
    let spec = make.definition.task(job, cause.origin(&job.job, scheduled_at), due_at, make.filled);
    create_one(cx, make, &spec, queued)?;
    cx.tables.put::<TaskJobTable>(&task, job)?;
    cx.tables.put::<JobTasksTable>(&JobTaskKey { job: job.clone(), task }, &())?;
    state.open += 1;
    state.progress.open = true;
    if queued {
        state.queued = Some(task);
    }
    if replaces {
        replace::begin(cx, job, state, task)?;
    }
    cx.record(job, state, JobOutcome::Fired { scheduled_at, task, cause, queued })?;
    Ok(Made::Task { queued })
}

/// Makes the task, or the run of a job with steps.
fn create_one<T: Write>(
    cx: &mut Context<'_, T>,
    make: &Make<'_>,
    spec: &TaskSpec,
    queued: bool,
) -> Result<(), T::Error> {
    let &Make { task, due_at, clock, .. } = make;
    let flow = cx.tables.get::<JobFlowTable>(make.job)?.unwrap_or_default();
    if flow.steps.is_empty() {
        let start = if queued { Start::Queued } else { Start::Free };
        create(cx, &New { task, spec, due_at, clock, start })?;
        return keep_policy(cx, task, spec, flow.on_shard_failure);
    }
    let trigger = make.trigger.and_then(|place| make.definition.triggers.get(usize::from(place)));
    let time_zone = trigger.map_or("UTC", Trigger::time_zone).to_owned();
    let flow = RunFlow { steps: flow.steps, time_zone };
    create_run(cx, &NewRun { task, spec, due_at, clock, queued, flow })
}

/// Why the job's caller may make no task of it now. One of which the tables know nothing stands in the secrets file of
/// the replicas, and may do everything.
fn forbidden<T: Write>(cx: &Context<'_, T>, make: &Make<'_>) -> Result<Option<SkipReason>, T::Error> {
    let Some(caller) = cx.tables.get::<CallerTable>(&make.job.caller)? else { return Ok(None) };
    if !caller.settings.enabled {
        return Ok(Some(SkipReason::CallerDisabled));
    }
    let handlers = &caller.settings.handlers;
    if handlers.iter().any(|one| one == "*") {
        return Ok(None);
    }
    let flow = cx.tables.get::<JobFlowTable>(make.job)?.unwrap_or_default();
    let may = |handler: &str| may_use(handlers, handler);
    let all = match flow.steps.is_empty() {
        true => may(&make.definition.template.handler),
        false => flow.steps.iter().all(|step| may(&step.template.handler)),
    };
    Ok((!all).then_some(SkipReason::HandlerDenied))
}

/// Whether the only open task waits for the end of the pause: under `queue` it is in the way of no backfill, which would
/// otherwise wait for it.
pub(super) fn holds_one_alone(state: &JobState, overlap: OverlapPolicy) -> bool {
    overlap == OverlapPolicy::Queue && state.paused.is_some() && state.open == 1 && state.queued.is_some()
}

/// What the policy says of the open tasks. Reads no more of them than it needs.
fn decide_now<T: Write>(
    cx: &Context<'_, T>,
    job: &JobKey,
    state: &JobState,
    policy: OverlapPolicy,
) -> Result<Decision, T::Error> {
    if state.open >= OPEN_LIMIT {
        return Ok(Decision::Skip(SkipReason::Overlap));
    }
    if state.open == 0 || policy == OverlapPolicy::Allow {
        return Ok(decide(policy, &[]));
    }
    let prefix = KeyWriter::default().job(job).finish();
    let keys = cx.tables.keys::<JobTasksTable>(&prefix, &after_prefix(&prefix), 1)?;
    let mut open: Vec<OpenTask> = keys
        .into_iter()
        .map(|key| OpenTask { task: key.task, queued: state.queued == Some(key.task) })
        .collect();
    open.extend(state.queued.map(|task| OpenTask { task, queued: true }));
    Ok(decide(policy, &open))
}

/// Writes down what the triggers passed over on the way to a fire, up to an instant, counted by reason.
pub(super) fn record_passed<T: Write>(
    cx: &mut Context<'_, T>,
    job: &JobKey,
    state: &mut JobState,
    next: &Next,
    until: Millis,
) -> Result<(), T::Error> {
    for reason in SkipReason::ALL {
        let of_reason = |passed: &&Passed| passed.reason == reason && passed.at <= until;
        let mut ats = next.passed.iter().filter(of_reason).map(|passed| passed.at);
        let Some(at) = ats.next() else { continue };
        let exact = next.passed.len() < NEXT_PASSED_LIMIT;
        let mut missed = Missed { reason, count: 1, exact, first: at, last: at };
        for at in ats {
            missed.count += 1;
            missed.first = missed.first.min(at);
            missed.last = missed.last.max(at);
        }
        cx.record(job, state, JobOutcome::Skipped { missed, cause: Cause::Trigger })?;
    }
    Ok(())
}
