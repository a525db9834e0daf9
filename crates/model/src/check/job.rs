//! Invariants of jobs.

use std::collections::{BTreeMap, BTreeSet};

use super::{all, compare};
use crate::id::{Millis, TaskId};
use crate::job::{
    CalendarKey, Cause, Counts, HISTORY_LIMIT, HistoryRow, Job, JobKey, JobOutcome, JobState, OPEN_LIMIT,
};
use crate::key::{CalendarUseKey, HistoryKey, JobTaskKey, NextKey, ShardKey, TableKey as _};
use crate::schema::{
    BackfillTable, CalendarSpreadTable, CalendarTable, CalendarUseTable, JobHistoryTable, JobNextTable,
    JobStateTable, JobTable, JobTasksTable, JobWantedTable, RunTable, ShardTable, SpecTable, TaskJobTable,
    TaskTable,
};
use crate::tables::{Read, ReadExt as _};
use crate::task::{Phase, Status};

/// What the indexes of jobs must hold, as encoded keys.
#[derive(Default)]
struct Expected {
    next: BTreeSet<Vec<u8>>,
    wanted: BTreeSet<Vec<u8>>,
    uses: BTreeSet<Vec<u8>>,
    states: BTreeSet<Vec<u8>>,
    backfills: BTreeSet<Vec<u8>>,
    tasks_of_open: BTreeSet<Vec<u8>>,
}

/// Adds every way in which the tables of jobs contradict themselves.
pub(super) fn check<R: Read>(tables: &R, faults: &mut Vec<String>) -> Result<(), R::Error> {
    let mut open: BTreeMap<JobKey, Vec<TaskId>> = BTreeMap::new();
    let mut expected = Expected::default();
    for (JobTaskKey { job, task }, ()) in all::<JobTasksTable, R>(tables)? {
        expected.tasks_of_open.insert(task.encode());
        if tables.get::<TaskJobTable>(&task)?.as_ref() != Some(&job) {
            faults.push(format!("{task}: open, and not known to be of {job:?}"));
        }
        open.entry(job).or_default().push(task);
    }
    let mut history: BTreeMap<JobKey, Vec<(u64, HistoryRow)>> = BTreeMap::new();
    for (HistoryKey { job, number }, row) in all::<JobHistoryTable, R>(tables)? {
        history.entry(job).or_default().push((number, row));
    }
    for (key, job) in all::<JobTable, R>(tables)? {
        expected.states.insert(key.encode());
        let Some(state) = tables.get::<JobStateTable>(&key)? else { continue };
        expected.job(&key, &job, &state);
        check_state(&key, &job, &state, faults);
        check_open(tables, &key, &state, &open.remove(&key).unwrap_or_default(), faults)?;
        check_history(&key, &state, &history.remove(&key).unwrap_or_default(), faults);
        for name in &job.definition.calendars {
            let calendar = CalendarKey { caller: key.caller.clone(), calendar: name.clone() };
            if !tables.has::<CalendarTable>(&calendar)? {
                faults.push(format!("{key:?}: there is no calendar {name}"));
            }
        }
    }
    faults.extend(open.keys().map(|key| format!("{key:?}: open tasks without a job")));
    faults.extend(history.keys().map(|key| format!("{key:?}: history without a job")));
    check_rest(tables, faults)?;
    compare::<JobStateTable, R>(tables, "job state", &expected.states, faults)?;
    compare::<JobNextTable, R>(tables, "next fires", &expected.next, faults)?;
    compare::<JobWantedTable, R>(tables, "wanted", &expected.wanted, faults)?;
    compare::<CalendarUseTable, R>(tables, "calendar uses", &expected.uses, faults)?;
    compare::<BackfillTable, R>(tables, "backfills", &expected.backfills, faults)?;
    compare::<TaskJobTable, R>(tables, "jobs of open tasks", &expected.tasks_of_open, faults)
}

impl Expected {
    fn job(&mut self, key: &JobKey, job: &Job, state: &JobState) {
        if let Some(next) = &state.next {
            self.next.insert(NextKey { due_at: next.due_at, job: key.clone() }.encode());
        }
        if state.wanted {
            self.wanted.insert(key.encode());
        }
        if state.backfilling {
            self.backfills.insert(key.encode());
        }
        for name in &job.definition.calendars {
            let calendar = CalendarKey { caller: key.caller.clone(), calendar: name.clone() };
            self.uses.insert(CalendarUseKey { calendar, job: key.job.clone() }.encode());
        }
    }
}

fn check_state(key: &JobKey, job: &Job, state: &JobState, faults: &mut Vec<String>) {
    let mut fault = |what: &str| faults.push(format!("{key:?}: {what}"));
    if !job.definition.is_within_bounds() || job.version == 0 {
        fault("a definition outside its bounds");
    }
    if state.wanted && state.next.is_some() {
        fault("a next fire is there and wanted");
    }
    if state.paused.is_some() && (state.wanted || state.next.is_some()) {
        fault("paused and about to fire");
    }
    if let Some(next) = &state.next
        && !job.definition.may_fire(next, &state.progress, state.decided)
    {
        fault("a next fire that cannot be");
    }
    if state.has_delays != job.definition.has_delays() {
        fault("it does not know whether it has delays");
    }
    if state.progress.open != (state.open > 0) {
        fault("its progress does not know whether a task is open");
    }
    let fired = state.progress.fired.iter().enumerate();
    let over = fired.filter(|(place, count)| {
        let most = job.definition.triggers.get(*place).map(|trigger| trigger.limits().max_fires);
        most.is_none_or(|most| most.is_some_and(|most| **count > most))
    });
    if over.count() > 0 {
        fault("a trigger fired more often than it may, or is not there");
    }
    if state.replace_from.is_some() && state.queued.is_none() {
        fault("it replaces tasks by none");
    }
}

fn check_open<R: Read>(
    tables: &R,
    key: &JobKey,
    state: &JobState,
    open: &[TaskId],
    faults: &mut Vec<String>,
) -> Result<(), R::Error> {
    let mut fault = |what: String| faults.push(format!("{key:?}: {what}"));
    if state.open as usize != open.len() || state.open > OPEN_LIMIT {
        fault(format!("{} open tasks, counted as {}", open.len(), state.open));
    }
    if state.queued.is_some_and(|task| !open.contains(&task)) {
        fault("the queued task is not open".to_owned());
    }
    if state.queued.is_some() && open.len() == 1 && state.paused.is_none() {
        fault("the queued task waits for nothing".to_owned());
    }
    for task in open {
        let status = tables.get::<TaskTable>(task)?.map(|state| state.status);
        if status.is_none_or(Status::is_terminal) {
            fault(format!("{task} is not open: {status:?}"));
        }
        let spec = tables.get::<SpecTable>(task)?;
        let origin = spec.as_ref().and_then(|spec| spec.origin.job());
        if origin.is_none_or(|(job, _)| job != key.job.as_str()) {
            fault(format!("{task} is of another origin"));
        }
        let blocked = tables.get::<ShardTable>(&ShardKey { task: *task, shard: 0 })?;
        let blocked = match tables.get::<RunTable>(task)? {
            Some(run) => !run.begun,
            None => blocked.is_some_and(|shard| shard.phase == Phase::Blocked),
        };
        if blocked != (state.queued == Some(*task)) {
            fault(format!("{task} waits for the others if and only if it is queued"));
        }
    }
    Ok(())
}

fn check_history(key: &JobKey, state: &JobState, rows: &[(u64, HistoryRow)], faults: &mut Vec<String>) {
    let mut fault = |what: &str| faults.push(format!("{key:?}: history: {what}"));
    let kept = state.history.min(HISTORY_LIMIT);
    if rows.len() as u64 != kept
        || !rows.iter().map(|(number, _)| *number).eq((1..=state.history).rev().take(rows.len()))
    {
        fault("rows are missing or too many");
    }
    let mut instants = BTreeSet::<Millis>::new();
    let mut counts = Counts::default();
    for (_, row) in rows {
        match &row.outcome {
            JobOutcome::Fired { scheduled_at, cause, .. } => {
                counts.fired += 1;
                if *cause == Cause::Trigger && !instants.insert(*scheduled_at) {
                    fault("an instant made two tasks");
                }
                if *cause == Cause::Trigger && *scheduled_at > state.decided {
                    fault("an instant fired that is not decided");
                }
            }
            JobOutcome::Skipped { missed, .. } => {
                *counts.skipped.entry(missed.reason).or_default() += missed.count;
            }
            JobOutcome::Backfilled { .. } => {}
        }
    }
    if state.history <= HISTORY_LIMIT && counts != state.counts {
        fault("it does not add up to the counts");
    }
}

fn check_rest<R: Read>(tables: &R, faults: &mut Vec<String>) -> Result<(), R::Error> {
    for (key, _) in all::<CalendarSpreadTable, R>(tables)? {
        if !tables.has::<CalendarTable>(&key)? {
            faults.push(format!("{key:?}: spreads and is not there"));
        }
    }
    for (key, row) in all::<BackfillTable, R>(tables)? {
        // One that is being stopped goes no further than it has come.
        if row.through < row.from - 1 || row.through > row.to {
            faults.push(format!("{key:?}: a backfill stands outside its stretch"));
        }
    }
    Ok(())
}
