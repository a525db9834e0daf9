//! Jobs are created, edited, paused, resumed and deleted.

mod backfill;
mod calendar;
mod ended;
mod fire;
mod replace;
mod row;
mod run;

pub(crate) use ended::hear_of_ended;
pub(crate) use replace::replace_more;

use crate::apply::cancel::cancel;
use crate::apply::context::Context;
use crate::apply::nonce::spend;
use crate::command::{Claim, Computed, JobCommand, PutJob, PutOfCaller, Refusal, Reply};
use crate::event::Event;
use crate::graph::JobFlow;
use crate::id::Millis;
use crate::job::{
    CalendarKey, Cause, Counts, Definition, HISTORY_LIMIT, Job, JobKey, JobOutcome, JobState, OPEN_LIMIT,
    Pause, TEXT_LIMIT, carry,
};
use crate::key::{KeyWriter, after_prefix};
use crate::mutant::{Mutant, is_on};
use crate::schema::{
    BackfillTable, CalendarTable, CallerTable, JobFlowTable, JobHistoryTable, JobStateTable, JobTable,
    JobTasksTable, TaskJobTable,
};
use crate::tables::{Read, ReadExt as _, Write, WriteExt as _};
use crate::trigger::{Missed, Progress, SkipReason};

/// What most commands begin with: a value, or the refusal that ends them.
type Checked<V, T> = Result<Result<V, Refusal>, <T as Read>::Error>;

/// Unwraps a [`Checked`] value; a refusal becomes the command's reply.
macro_rules! or_refuse {
    ($checked:expr) => {
        match $checked {
            Ok(value) => value,
            Err(refusal) => return Ok($crate::command::Reply::Refused(refusal)),
        }
    };
}
use or_refuse;

pub(crate) fn route<T: Write>(cx: &mut Context<'_, T>, command: &JobCommand) -> Result<Reply, T::Error> {
    match command {
        JobCommand::Put(command) => put(cx, command, None, None),
        JobCommand::Edit(command) => put(cx, &command.put, Some(&command.flow), Some(&command.missed)),
        JobCommand::PutOfCaller(command) => put_of_caller(cx, command),
        JobCommand::Pause { job, note, claim } => pause(cx, job, Some(note), claim.as_ref()),
        JobCommand::PauseWithoutNote { job, claim } => pause(cx, job, None, claim.as_ref()),
        JobCommand::Resume { job, computed, missed, claim } => {
            resume(cx, job, computed, missed.as_ref(), claim.as_ref())
        }
        JobCommand::Delete { job, expected, claim } => delete(cx, job, *expected, claim.as_ref()),
        JobCommand::PutCalendar { calendar, expected, parts, claim } => {
            calendar::put(cx, calendar, *expected, parts, claim.as_ref())
        }
        JobCommand::DeleteCalendar { calendar, expected, claim } => {
            calendar::delete(cx, calendar, *expected, claim.as_ref())
        }
        JobCommand::Fire(command) => fire::fire(cx, command),
        JobCommand::Skip(command) => fire::skip(cx, command),
        JobCommand::SetNext { job, revision, next } => fire::set_next(cx, job, *revision, next.as_ref()),
        JobCommand::SpreadCalendar { calendar, after } => calendar::spread(cx, calendar, after.as_ref()),
        JobCommand::RunNow(command) => run::run_now(cx, command),
        JobCommand::StartBackfill { job, from, to, overlap, claim } => {
            backfill::start(cx, job, (*from, *to), *overlap, claim.as_ref())
        }
        JobCommand::StepBackfill(command) => backfill::step(cx, command, &[]),
        JobCommand::BackfillBy(command) => backfill::step(cx, &command.step, &command.triggers),
        JobCommand::StopBackfill { job, claim } => backfill::stop(cx, job, claim.as_ref()),
    }
}

/// Refuses a version other than the expected one; 0 stands for what is not there.
fn check_version(expected: Option<u64>, current: u64) -> Result<(), Refusal> {
    match expected {
        Some(expected) if expected != current => Err(Refusal::VersionMismatch { current }),
        _ => Ok(()),
    }
}

/// The versions of the definition's calendars, in their order.
fn versions<T: Write>(cx: &Context<'_, T>, job: &JobKey, definition: &Definition) -> Checked<Vec<u64>, T> {
    let mut versions = Vec::new();
    for name in &definition.calendars {
        let key = CalendarKey { caller: job.caller.clone(), calendar: name.clone() };
        match cx.tables.get::<CalendarTable>(&key)? {
            Some(row) => versions.push(row.version),
            None => return Ok(Err(Refusal::CalendarNotFound { calendar: name.clone() })),
        }
    }
    Ok(Ok(versions))
}

/// A job is created or edited. Without a flow it has none, whatever it had before. `missed` are instants that an edit
/// keeps from coming to anything, where there are any.
pub(crate) fn put<T: Write>(
    cx: &mut Context<'_, T>,
    put: &PutJob,
    flow: Option<&JobFlow>,
    missed: Option<&Missed>,
) -> Result<Reply, T::Error> {
    if !put.definition.is_within_bounds() || flow.is_some_and(|flow| !flow.is_within_bounds()) {
        return Ok(Reply::Refused(Refusal::Invalid));
    }
    if let Some(refusal) = spend(cx, put.claim.as_ref())? {
        return Ok(Reply::Refused(refusal));
    }
    let known = cx.tables.get::<JobTable>(&put.job)?;
    or_refuse!(check_version(put.expected, known.as_ref().map_or(0, |job| job.version)));
    let versions = or_refuse!(versions(cx, &put.job, &put.definition)?);
    let flow = flow.cloned().unwrap_or_default();
    match known {
        Some(known) => edit(cx, put, known, &versions, (&flow, missed)),
        None => {
            put_flow(cx, &put.job, &flow)?;
            create(cx, put, &versions)
        }
    }
}

/// The same of a caller that the tables have had: without it a job would fire in the name of nobody, as if it stood in
/// the secrets file.
fn put_of_caller<T: Write>(cx: &mut Context<'_, T>, command: &PutOfCaller) -> Result<Reply, T::Error> {
    if !cx.tables.has::<CallerTable>(&command.put.job.caller)? {
        return Ok(Reply::Refused(Refusal::CallerNotFound));
    }
    put(cx, &command.put, Some(&command.flow), command.missed.as_ref())
}

/// Keeps what a job says beyond its definition; answers with whether that is new.
fn put_flow<T: Write>(cx: &mut Context<'_, T>, job: &JobKey, flow: &JobFlow) -> Result<bool, T::Error> {
    let known = cx.tables.get::<JobFlowTable>(job)?.unwrap_or_default();
    if known == *flow {
        return Ok(false);
    }
    match *flow == JobFlow::default() {
        true => cx.tables.delete::<JobFlowTable>(job)?,
        false => cx.tables.put::<JobFlowTable>(job, flow)?,
    }
    Ok(true)
}

fn create<T: Write>(cx: &mut Context<'_, T>, put: &PutJob, versions: &[u64]) -> Result<Reply, T::Error> {
    let (definition, now) = (put.definition.clone(), cx.now());
    let mut state = JobState {
        revision: cx.stamp.index,
        paused: None,
        next: None,
        wanted: false,
        decided: put.computed.after,
        progress: Progress::default(),
        has_delays: definition.has_delays(),
        open: 0,
        queued: None,
        replace_from: None,
        backfilling: false,
        history: 0,
        counts: Counts::default(),
    };
    // From which its triggers were counted: whoever edits it counts from there again.
    let created_at = put.computed.after;
    let version = cx.first_version(&put.job.caller)?;
    let job = Job { definition, version, created_at, updated_at: now };
    cx.tables.put::<JobTable>(&put.job, &job)?;
    cx.use_calendars(&put.job, &[], &job.definition.calendars)?;
    match put.computed.calendars == versions {
        true => cx.take_next(&put.job, &job.definition, &mut state, put.computed.next.as_ref())?,
        false => cx.want_next(&put.job, &mut state)?,
    }
    finish_put(cx, &put.job, &job, &state)
}

/// An edit keeps the next fire unless it changes the triggers or the calendars.
fn edit<T: Write>(
    cx: &mut Context<'_, T>,
    put: &PutJob,
    known: Job,
    versions: &[u64],
    (flow, missed): (&JobFlow, Option<&Missed>),
) -> Result<Reply, T::Error> {
    let Some(mut state) = cx.tables.get::<JobStateTable>(&put.job)? else {
        return Ok(Reply::Refused(Refusal::JobNotFound));
    };
    if missed.is_some() && put.computed.revision != state.revision {
        return Ok(Reply::Refused(Refusal::StaleJob { revision: state.revision }));
    }
    let (old, mut new) = (known.definition, put.definition.clone());
    if is_on(Mutant::StopIgnored) && new.triggers.is_empty() {
        new.triggers.clone_from(&old.triggers);
    }
    let flows = put_flow(cx, &put.job, flow)?;
    if old == new && !flows {
        return Ok(Reply::Job { version: known.version, revision: state.revision });
    }
    let still_so = put.computed.revision == state.revision && put.computed.calendars == versions;
    state.revision += 1;
    cx.use_calendars(&put.job, &old.calendars, &new.calendars)?;
    if old.triggers != new.triggers || old.calendars != new.calendars {
        state.progress = carry(&state.progress, &old.triggers, &new.triggers);
        state.has_delays = new.has_delays();
        // An edit makes up for nothing: what the new triggers name before it lies before their time.
        let decided = state.decided.max(put.computed.after);
        record_dropped(cx, &put.job, &mut state, missed, decided)?;
        state.decided = decided;
        // The last task may have ended since the edit was computed, and did not tell a job without delays.
        let misses_an_end = state.has_delays && state.open == 0 && put.computed.next.is_none();
        if state.paused.is_none() {
            match still_so && !misses_an_end {
                true => cx.take_next(&put.job, &new, &mut state, put.computed.next.as_ref())?,
                false => cx.want_next(&put.job, &mut state)?,
            }
        }
    } else {
        cx.announce_next(&put.job, &state);
    }
    let (version, created_at, updated_at) = (known.version + 1, known.created_at, cx.now());
    let job = Job { definition: new, version, created_at, updated_at };
    cx.tables.put::<JobTable>(&put.job, &job)?;
    finish_put(cx, &put.job, &job, &state)
}

/// An edit makes up for nothing, and nothing comes to nothing without a record: the instants that `missed` counts, or
/// else the job's next one where that lies before `decided`, as when it waits for the end of its jitter; and what was passed
/// over on the way to the next one, and lies before `decided`.
fn record_dropped<T: Write>(
    cx: &mut Context<'_, T>,
    key: &JobKey,
    state: &mut JobState,
    missed: Option<&Missed>,
    decided: Millis,
) -> Result<(), T::Error> {
    if let Some(next) = state.next.clone() {
        fire::record_passed(cx, key, state, &next, decided)?;
    }
    let next = state.next.as_ref().map(|next| next.scheduled_at).filter(|at| *at <= decided);
    let alone =
        next.map(|at| Missed { reason: SkipReason::Edited, count: 1, exact: false, first: at, last: at });
    match missed.cloned().or(alone) {
        Some(missed) => cx.record(key, state, JobOutcome::Skipped { missed, cause: Cause::Trigger }),
        None => Ok(()),
    }
}

fn finish_put<T: Write>(
    cx: &mut Context<'_, T>,
    key: &JobKey,
    job: &Job,
    state: &JobState,
) -> Result<Reply, T::Error> {
    cx.tables.put::<JobStateTable>(key, state)?;
    cx.events.push(Event::JobChanged { job: key.clone(), version: Some(job.version) });
    Ok(Reply::Job { version: job.version, revision: state.revision })
}

/// Without a note, one that is there stays.
fn pause<T: Write>(
    cx: &mut Context<'_, T>,
    key: &JobKey,
    note: Option<&str>,
    claim: Option<&Claim>,
) -> Result<Reply, T::Error> {
    if note.is_some_and(|note| note.len() > TEXT_LIMIT) {
        return Ok(Reply::Refused(Refusal::Invalid));
    }
    if let Some(refusal) = spend(cx, claim)? {
        return Ok(Reply::Refused(refusal));
    }
    let (job, mut state) = or_refuse!(cx.load_job(key)?);
    match &mut state.paused {
        Some(pause) if note.is_none_or(|note| pause.note == note) => {
            return Ok(Reply::Job { version: job.version, revision: state.revision });
        }
        Some(pause) => pause.note = note.unwrap_or_default().to_owned(),
        None => {
            state.paused = Some(Pause { note: note.unwrap_or_default().to_owned(), at: cx.now() });
            if let Some(next) = state.next.clone() {
                fire::record_passed(cx, key, &mut state, &next, cx.wall())?;
            }
            cx.drop_next(key, &mut state)?;
        }
    }
    state.revision += 1;
    finish_put(cx, key, &job, &state)
}

/// Refused when the job is not as it was for whoever computed its next fire: nobody else would look for one.
fn resume<T: Write>(
    cx: &mut Context<'_, T>,
    key: &JobKey,
    computed: &Computed,
    missed: Option<&Missed>,
    claim: Option<&Claim>,
) -> Result<Reply, T::Error> {
    if let Some(refusal) = spend(cx, claim)? {
        return Ok(Reply::Refused(refusal));
    }
    let (job, mut state) = or_refuse!(cx.load_job(key)?);
    if state.paused.is_none() {
        return Ok(Reply::Job { version: job.version, revision: state.revision });
    }
    let versions = or_refuse!(versions(cx, key, &job.definition)?);
    if computed.revision != state.revision || computed.calendars != versions {
        return Ok(Reply::Refused(Refusal::StaleJob { revision: state.revision }));
    }
    state.revision += 1;
    state.paused = None;
    state.decided = state.decided.max(computed.after);
    if let Some(missed) = missed {
        let outcome = JobOutcome::Skipped { missed: missed.clone(), cause: Cause::Trigger };
        cx.record(key, &mut state, outcome)?;
    }
    cx.take_next(key, &job.definition, &mut state, computed.next.as_ref())?;
    ended::release_if_alone(cx, &mut state)?;
    finish_put(cx, key, &job, &state)
}

fn delete<T: Write>(
    cx: &mut Context<'_, T>,
    key: &JobKey,
    expected: Option<u64>,
    claim: Option<&Claim>,
) -> Result<Reply, T::Error> {
    if let Some(refusal) = spend(cx, claim)? {
        return Ok(Reply::Refused(refusal));
    }
    let (job, mut state) = or_refuse!(cx.load_job(key)?);
    or_refuse!(check_version(expected, job.version));
    cx.drop_next(key, &mut state)?;
    cx.use_calendars(key, &job.definition.calendars, &[])?;
    cx.retire(&key.caller, job.version)?;
    cx.tables.delete::<JobTable>(key)?;
    cx.tables.delete::<JobStateTable>(key)?;
    cx.tables.delete::<JobFlowTable>(key)?;
    if state.backfilling {
        cx.tables.delete::<BackfillTable>(key)?;
    }
    let prefix = KeyWriter::default().job(key).finish();
    let end = after_prefix(&prefix);
    for row in cx.tables.keys::<JobHistoryTable>(&prefix, &end, HISTORY_LIMIT as usize)? {
        cx.tables.delete::<JobHistoryTable>(&row)?;
    }
    // From here on its tasks are nobody's: their ends concern no job that may come under its id.
    for open in cx.tables.keys::<JobTasksTable>(&prefix, &end, OPEN_LIMIT as usize)? {
        cx.tables.delete::<TaskJobTable>(&open.task)?;
        cx.tables.delete::<JobTasksTable>(&open)?;
    }
    if let Some(queued) = state.queued {
        replace::stop(cx, &mut state, queued)?;
        cancel(cx, queued, None, None)?;
    }
    cx.events.push(Event::JobChanged { job: key.clone(), version: None });
    Ok(Reply::Done)
}
