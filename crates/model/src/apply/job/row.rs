//! The few writes that keep a job's rows and their indexes together.

use super::Checked;
use crate::apply::context::Context;
use crate::command::Refusal;
use crate::event::Event;
use crate::id::{CalendarName, CallerId};
use crate::job::{
    CalendarKey, Definition, GoneVersions, HISTORY_LIMIT, HistoryRow, Job, JobKey, JobOutcome, JobState,
};
use crate::key::{CalendarUseKey, HistoryKey, NextKey};
use crate::mutant::{Mutant, is_on};
use crate::schema::{
    CalendarUseTable, GoneVersionsTable, JobHistoryTable, JobNextTable, JobStateTable, JobTable,
    JobWantedTable,
};
use crate::tables::{ReadExt as _, Write, WriteExt as _};
use crate::trigger::Next;

impl<T: Write> Context<'_, T> {
    /// A job, whole.
    pub(super) fn load_job(&self, key: &JobKey) -> Checked<(Job, JobState), T> {
        let Some(job) = self.tables.get::<JobTable>(key)? else { return Ok(Err(Refusal::JobNotFound)) };
        let state = self.tables.get::<JobStateTable>(key)?;
        Ok(state.map(|state| (job, state)).ok_or(Refusal::JobNotFound))
    }

    /// The version with which a job or calendar of this caller begins: above those of all that it has deleted.
    pub(super) fn first_version(&self, caller: &CallerId) -> Result<u64, T::Error> {
        let gone = self.tables.get::<GoneVersionsTable>(caller)?.unwrap_or_default();
        Ok(gone.highest.saturating_add(1))
    }

    /// A job or calendar of this caller is deleted at this version.
    pub(super) fn retire(&mut self, caller: &CallerId, version: u64) -> Result<(), T::Error> {
        let gone = self.tables.get::<GoneVersionsTable>(caller)?.unwrap_or_default();
        match version > gone.highest {
            true => self.tables.put::<GoneVersionsTable>(caller, &GoneVersions { highest: version }),
            false => Ok(()),
        }
    }

    /// Takes a job out of the indexes of what fires. The caller stores the row.
    pub(super) fn drop_next(&mut self, key: &JobKey, state: &mut JobState) -> Result<(), T::Error> {
        if let Some(next) = state.next.take() {
            self.tables.delete::<JobNextTable>(&NextKey { due_at: next.due_at, job: key.clone() })?;
        }
        if state.wanted {
            state.wanted = false;
            self.tables.delete::<JobWantedTable>(key)?;
        }
        Ok(())
    }

    /// Gives a job its next fire, or none. One that cannot be is not taken, and another one is wanted. The caller
    /// has counted the revision up, and stores the row.
    pub(super) fn take_next(
        &mut self,
        key: &JobKey,
        definition: &Definition,
        state: &mut JobState,
        next: Option<&Next>,
    ) -> Result<(), T::Error> {
        if next.is_some_and(|next| !definition.may_fire(next, &state.progress, state.decided)) {
            return self.want_next(key, state);
        }
        self.drop_next(key, state)?;
        if let Some(next) = next {
            self.tables.put::<JobNextTable>(&NextKey { due_at: next.due_at, job: key.clone() }, &())?;
            state.next = Some(next.clone());
        }
        self.announce_next(key, state);
        Ok(())
    }

    /// Asks a leader for a job's next fire. The caller has counted the revision up, and stores the row.
    pub(super) fn want_next(&mut self, key: &JobKey, state: &mut JobState) -> Result<(), T::Error> {
        self.drop_next(key, state)?;
        state.wanted = true;
        self.tables.put::<JobWantedTable>(key, &())?;
        self.announce_next(key, state);
        Ok(())
    }

    /// A task is open that no trigger made. A fixed delay has no next fire until it has ended, and whoever computed one
    /// did not know of it. The caller stores the row.
    pub(super) fn opened_beside(&mut self, key: &JobKey, state: &mut JobState) -> Result<(), T::Error> {
        if !state.has_delays {
            return Ok(());
        }
        state.revision += 1;
        match state.paused {
            // Whoever resumes it looks for the next fire.
            Some(_) => Ok(()),
            None => self.want_next(key, state),
        }
    }

    /// Says what a leader has to do for a job under its present revision.
    pub(super) fn announce_next(&mut self, key: &JobKey, state: &JobState) {
        let (job, revision) = (key.clone(), state.revision);
        if state.wanted {
            self.events.push(Event::JobNeedsNext { job, revision });
        } else if let Some(next) = &state.next {
            self.events.push(Event::JobNext { job, revision, due_at: next.due_at });
        }
    }

    /// Writes a row of history, counts it, and forgets the oldest one. The caller stores the row.
    pub(super) fn record(
        &mut self,
        key: &JobKey,
        state: &mut JobState,
        outcome: JobOutcome,
    ) -> Result<(), T::Error> {
        match &outcome {
            JobOutcome::Skipped { .. } if is_on(Mutant::SkipUnrecorded) => return Ok(()),
            JobOutcome::Fired { .. } => state.counts.fired += 1,
            JobOutcome::Skipped { missed, .. } => {
                let count = state.counts.skipped.entry(missed.reason).or_default();
                *count = count.saturating_add(missed.count);
            }
            JobOutcome::Backfilled { .. } => {}
        }
        state.history += 1;
        let number = state.history;
        let row = HistoryRow { at: self.now(), outcome };
        self.tables.put::<JobHistoryTable>(&HistoryKey { job: key.clone(), number }, &row)?;
        if let Some(number) = number.checked_sub(HISTORY_LIMIT).filter(|number| *number > 0) {
            self.tables.delete::<JobHistoryTable>(&HistoryKey { job: key.clone(), number })?;
        }
        Ok(())
    }

    /// Brings the index of what uses a calendar in line with a job's list.
    pub(super) fn use_calendars(
        &mut self,
        job: &JobKey,
        old: &[CalendarName],
        new: &[CalendarName],
    ) -> Result<(), T::Error> {
        let key = |name: &CalendarName| {
            let calendar = CalendarKey { caller: job.caller.clone(), calendar: name.clone() };
            CalendarUseKey { calendar, job: job.job.clone() }
        };
        for name in old.iter().filter(|name| !new.contains(name)) {
            self.tables.delete::<CalendarUseTable>(&key(name))?;
        }
        for name in new.iter().filter(|name| !old.contains(name)) {
            self.tables.put::<CalendarUseTable>(&key(name), &())?;
        }
        Ok(())
    }
}
