//! Calendars come, change and go, and the jobs that use them hear of it.

use super::check_version;
use super::fire::record_passed;
use crate::apply::context::Context;
use crate::apply::nonce::spend;
use crate::command::{Claim, Refusal, Reply};
use crate::event::Event;
use crate::id::JobId;
use crate::job::{CalendarKey, CalendarRow, Definition, JobKey, SPREAD_PER_COMMAND, SpreadRow};
use crate::key::{CalendarUseKey, KeyWriter, TableKey as _, after_prefix};
use crate::schema::{CalendarSpreadTable, CalendarTable, CalendarUseTable, JobStateTable};
use crate::tables::{ReadExt as _, Write, WriteExt as _};
use crate::trigger::Calendar;

pub(super) fn put<T: Write>(
    cx: &mut Context<'_, T>,
    key: &CalendarKey,
    expected: Option<u64>,
    calendar: &Calendar,
    claim: Option<&Claim>,
) -> Result<Reply, T::Error> {
    if let Some(refusal) = spend(cx, claim)? {
        return Ok(Reply::Refused(refusal));
    }
    let known = cx.tables.get::<CalendarTable>(key)?;
    super::or_refuse!(check_version(expected, known.as_ref().map_or(0, |row| row.version)));
    if let Some(known) = known.as_ref().filter(|known| known.calendar == *calendar) {
        return Ok(Reply::Calendar { version: known.version });
    }
    let now = cx.now();
    let (version, created_at) = match known {
        Some(known) => (known.version + 1, known.created_at),
        None => (cx.first_version(&key.caller)?, now),
    };
    let row = CalendarRow { calendar: calendar.clone(), version, created_at, updated_at: now };
    cx.tables.put::<CalendarTable>(key, &row)?;
    spread_from(cx, key, None)?;
    Ok(Reply::Calendar { version })
}

pub(super) fn delete<T: Write>(
    cx: &mut Context<'_, T>,
    key: &CalendarKey,
    expected: Option<u64>,
    claim: Option<&Claim>,
) -> Result<Reply, T::Error> {
    if let Some(refusal) = spend(cx, claim)? {
        return Ok(Reply::Refused(refusal));
    }
    let Some(known) = cx.tables.get::<CalendarTable>(key)? else {
        return Ok(Reply::Refused(Refusal::CalendarNotFound { calendar: key.calendar.clone() }));
    };
    super::or_refuse!(check_version(expected, known.version));
    if !users(cx, key, None, 1)?.is_empty() {
        return Ok(Reply::Refused(Refusal::CalendarInUse));
    }
    cx.retire(&key.caller, known.version)?;
    cx.tables.delete::<CalendarTable>(key)?;
    if cx.tables.has::<CalendarSpreadTable>(key)? {
        cx.tables.delete::<CalendarSpreadTable>(key)?;
    }
    cx.events.push(Event::CalendarChanged { calendar: key.clone(), spreading: false });
    Ok(Reply::Done)
}

/// Tells more jobs; refused when others have been told since.
pub(super) fn spread<T: Write>(
    cx: &mut Context<'_, T>,
    key: &CalendarKey,
    after: Option<&JobId>,
) -> Result<Reply, T::Error> {
    match cx.tables.get::<CalendarSpreadTable>(key)? {
        Some(row) if row.after.as_ref() == after => {
            spread_from(cx, key, after)?;
            Ok(Reply::Done)
        }
        _ => Ok(Reply::Refused(Refusal::NotNext)),
    }
}

/// Tells a page of jobs and remembers where it ended. Each wants a new next fire; a paused one only takes no next
/// fire that was computed before.
fn spread_from<T: Write>(
    cx: &mut Context<'_, T>,
    key: &CalendarKey,
    after: Option<&JobId>,
) -> Result<(), T::Error> {
    let mut jobs = users(cx, key, after, SPREAD_PER_COMMAND + 1)?;
    let spreading = jobs.len() > SPREAD_PER_COMMAND;
    jobs.truncate(SPREAD_PER_COMMAND);
    for job in &jobs {
        let job = JobKey { caller: key.caller.clone(), job: job.clone() };
        let Some(mut state) = cx.tables.get::<JobStateTable>(&job)? else { continue };
        state.revision += 1;
        if state.paused.is_none() {
            // A day that is no longer excluded makes up for nothing. What is due already, or waits for its jitter, is.
            if !state.wanted && state.next.as_ref().is_none_or(|next| next.scheduled_at > cx.wall()) {
                state.decided = state.decided.max(cx.wall());
                if let Some(next) = state.next.clone() {
                    record_passed(cx, &job, &mut state, &next, cx.wall())?;
                }
            }
            cx.want_next(&job, &mut state)?;
        }
        cx.tables.put::<JobStateTable>(&job, &state)?;
    }
    if spreading {
        cx.tables.put::<CalendarSpreadTable>(key, &SpreadRow { after: jobs.pop() })?;
    } else if cx.tables.has::<CalendarSpreadTable>(key)? {
        cx.tables.delete::<CalendarSpreadTable>(key)?;
    }
    cx.events.push(Event::CalendarChanged { calendar: key.clone(), spreading });
    Ok(())
}

/// Jobs that use a calendar, in order.
fn users<T: Write>(
    cx: &Context<'_, T>,
    key: &CalendarKey,
    after: Option<&JobId>,
    limit: usize,
) -> Result<Vec<JobId>, T::Error> {
    let prefix = KeyWriter::default().calendar(key).finish();
    let from = match after {
        None => prefix.clone(),
        Some(job) => after_prefix(&CalendarUseKey { calendar: key.clone(), job: job.clone() }.encode()),
    };
    let keys = cx.tables.keys::<CalendarUseTable>(&from, &after_prefix(&prefix), limit)?;
    Ok(keys.into_iter().map(|key| key.job).collect())
}

/// A calendar of the job that has changed without its having been told. It could fire on a day that is excluded.
pub(super) fn not_told<T: Write>(
    cx: &Context<'_, T>,
    job: &JobKey,
    definition: &Definition,
) -> Result<Option<Refusal>, T::Error> {
    for name in &definition.calendars {
        let key = CalendarKey { caller: job.caller.clone(), calendar: name.clone() };
        let row = cx.tables.get::<CalendarSpreadTable>(&key)?;
        if row.is_some_and(|row| row.after.is_none_or(|after| job.job > after)) {
            return Ok(Some(Refusal::CalendarSpreading { calendar: name.clone() }));
        }
    }
    Ok(None)
}
