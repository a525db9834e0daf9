//! What must be computed before a job is put, resumed or made to fire: by whichever replica, from what its tables
//! show. The command names what it was computed from, so that apply can tell whether it still holds.

use crate::command::Computed;
use crate::id::{CalendarName, CallerId, Millis, TaskId};
use crate::job::{CalendarKey, Definition, Filled, JobKey, Template, carry};
use crate::query::{self, JobView};
use crate::tables::Read;
use crate::trigger::placeholder::{FireValues, PlaceholderError, expand_fire};
use crate::trigger::{
    Calendar, CatchUp, Misfire, Missed, Progress, Schedule, SkipReason, TriggerError, Zone,
};

/// The calendars that a definition names, as they stand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Heeded {
    /// What they exclude, in the definition's order.
    pub calendars: Vec<Calendar>,
    /// Their versions, in the same order.
    pub versions: Vec<u64>,
}

impl Heeded {
    /// Reads them; the name of one that there is not in place of them.
    pub fn read<R: Read>(
        tables: &R,
        caller: &CallerId,
        definition: &Definition,
    ) -> Result<Result<Heeded, CalendarName>, R::Error> {
        let mut heeded = Heeded::default();
        for name in &definition.calendars {
            let key = CalendarKey { caller: caller.clone(), calendar: name.clone() };
            let Some(row) = query::calendar(tables, &key)? else { return Ok(Err(name.clone())) };
            heeded.calendars.push(row.calendar);
            heeded.versions.push(row.version);
        }
        Ok(Ok(heeded))
    }
}

/// The next fire of a job that is to be created, or edited to `definition`. `now` is the wall clock; an edit makes
/// up for nothing before it. Fails as [`Schedule::new`] does.
pub fn computed_for_put(
    key: &JobKey,
    known: Option<&JobView>,
    definition: &Definition,
    heeded: &Heeded,
    now: Millis,
) -> Result<Computed, TriggerError> {
    let progress = match known {
        Some(view) => carry(&view.state.progress, &view.job.definition.triggers, &definition.triggers),
        None => Progress::default(),
    };
    let after = known.map_or(now, |view| view.state.decided.max(now));
    let schedule = Schedule::new(key.job.as_str(), &definition.triggers, &heeded.calendars)?;
    Ok(Computed {
        revision: known.map_or(0, |view| view.state.revision),
        calendars: heeded.versions.clone(),
        after,
        next: schedule.next(&progress, after),
    })
}

/// What a job's triggers named up to `after` and an edit of them keeps from coming to anything: instants that wait for the
/// end of their jitter, or for a leader, or that a pause has held up. `heeded` are the calendars that the job has had. Fails as
/// [`Schedule::new`] does.
pub fn dropped_by_edit(
    view: &JobView,
    heeded: &Heeded,
    after: Millis,
) -> Result<Option<Missed>, TriggerError> {
    let state = &view.state;
    let reason = if state.paused.is_some() { SkipReason::Paused } else { SkipReason::Edited };
    let schedule = view.schedule(&heeded.calendars)?;
    Ok(schedule.passed_over(&state.progress, state.decided, after, reason))
}

/// The next fire of a paused job that is to be resumed, and the instants that it passed over while it was paused. An
/// instant that is due at `now`, the wall clock, is one of them; one whose jitter is not over is not. Fails as
/// [`Schedule::new`] does.
pub fn computed_for_resume(
    view: &JobView,
    heeded: &Heeded,
    now: Millis,
) -> Result<(Computed, Option<Missed>), TriggerError> {
    let schedule = view.schedule(&heeded.calendars)?;
    let nothing = CatchUp { policy: Misfire::Skip, grace_ms: 0 };
    let due = schedule.catch_up(nothing, &view.state.progress, view.state.decided, now);
    let mut missed = due.skipped.into_iter().next();
    for fire in due.fires {
        let at = fire.scheduled_at;
        let missed = missed.get_or_insert(Missed {
            reason: SkipReason::Paused,
            count: 0,
            exact: true,
            first: at,
            last: at,
        });
        missed.count += 1;
        missed.first = missed.first.min(at);
        missed.last = missed.last.max(at);
    }
    let computed = Computed {
        revision: view.state.revision,
        calendars: heeded.versions.clone(),
        after: due.through,
        next: schedule.next(&view.state.progress, due.through),
    };
    Ok((computed, missed.map(|missed| Missed { reason: SkipReason::Paused, ..missed })))
}

impl JobView {
    /// Its triggers and calendars, ready for computing. Fails as [`Schedule::new`] does.
    pub fn schedule(&self, calendars: &[Calendar]) -> Result<Schedule, TriggerError> {
        Schedule::new(self.key.job.as_str(), &self.job.definition.triggers, calendars)
    }
}

impl Definition {
    /// Fills in the placeholders that are known at a fire. `zone` is the name of the zone in which dates are shown:
    /// that of the trigger that fires ([`Schedule::time_zone`]), UTC of a run by hand. What comes out may be longer
    /// than it may be: see [`Filled::is_within_bounds`].
    pub fn fill(
        &self,
        key: &JobKey,
        task: TaskId,
        scheduled_at: Millis,
        zone: &str,
    ) -> Result<Filled, PlaceholderError> {
        self.template.fill(key, task, scheduled_at, zone)
    }
}

impl Template {
    /// The same of one template.
    pub fn fill(
        &self,
        key: &JobKey,
        task: TaskId,
        scheduled_at: Millis,
        zone: &str,
    ) -> Result<Filled, PlaceholderError> {
        let params = fill_text(&self.params, key, task, scheduled_at, zone)?;
        let business_key = match &self.business_key {
            Some(text) => fill_text(text, key, task, scheduled_at, zone)?,
            None => None,
        };
        Ok(Filled { params: params.map(String::into_bytes), business_key })
    }
}

/// `None` where there is nothing to fill in.
fn fill_text(
    text: &str,
    key: &JobKey,
    task: TaskId,
    scheduled_at: Millis,
    zone: &str,
) -> Result<Option<String>, PlaceholderError> {
    if !text.contains("${") {
        return Ok(None);
    }
    // A zone that the database of this release has lost: the instant is the same in UTC.
    let zone = Zone::named(zone).unwrap_or_else(|_| Zone::utc());
    let values = FireValues { job: key.job.as_str(), task, scheduled_at, zone: &zone };
    let filled = expand_fire(text, &values)?;
    Ok((filled != text).then_some(filled))
}
