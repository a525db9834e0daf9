//! Reads of jobs, their history and their calendars.

use super::next;
use crate::graph::JobFlow;
use crate::id::{CallerId, JobId, Millis, TaskId};
use crate::job::{BackfillRow, CalendarKey, CalendarRow, HistoryRow, Job, JobKey, JobState, SpreadRow};
use crate::key::{CalendarUseKey, HistoryKey, JobTaskKey, KeyWriter, NextKey, TableKey as _, after_prefix};
use crate::schema::{
    BackfillTable, CalendarSpreadTable, CalendarTable, CalendarUseTable, JobFlowTable, JobHistoryTable,
    JobNextTable, JobStateTable, JobTable, JobTasksTable, JobWantedTable,
};
use crate::tables::{Read, ReadExt as _};

/// A job, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobView {
    /// Its id and its owner.
    pub key: JobKey,
    /// What it is.
    pub job: Job,
    /// Where it stands.
    pub state: JobState,
    /// What it says beyond its definition.
    pub flow: JobFlow,
}

/// A job, whole.
pub fn job<R: Read>(tables: &R, key: &JobKey) -> Result<Option<JobView>, R::Error> {
    let Some(job) = tables.get::<JobTable>(key)? else { return Ok(None) };
    let state = tables.get::<JobStateTable>(key)?;
    let flow = tables.get::<JobFlowTable>(key)?.unwrap_or_default();
    Ok(state.map(|state| JobView { key: key.clone(), job, state, flow }))
}

/// A caller's jobs by id; at most `limit`, after `after`.
pub fn jobs_of<R: Read>(
    tables: &R,
    caller: &CallerId,
    after: Option<&JobId>,
    limit: usize,
) -> Result<Vec<JobKey>, R::Error> {
    let prefix = KeyWriter::default().text(caller.as_str()).finish();
    let from = after.map(|job| next(JobKey { caller: caller.clone(), job: job.clone() }.encode()));
    let from = from.unwrap_or_else(|| prefix.clone());
    tables.keys::<JobStateTable>(&from, &after_prefix(&prefix), limit)
}

/// Jobs of every caller, by caller and id; at most `limit`, after `after`.
pub fn jobs<R: Read>(tables: &R, after: Option<&JobKey>, limit: usize) -> Result<Vec<JobKey>, R::Error> {
    let from = after.map(|key| next(key.encode())).unwrap_or_default();
    tables.keys::<JobStateTable>(&from, &after_prefix(&[]), limit)
}

/// Jobs whose next fire is due before `until`, in order; at most `limit`, after `after`.
pub fn due_jobs<R: Read>(
    tables: &R,
    after: Option<&NextKey>,
    until: Millis,
    limit: usize,
) -> Result<Vec<NextKey>, R::Error> {
    let from = after.map(|key| next(key.encode())).unwrap_or_default();
    tables.keys::<JobNextTable>(&from, &KeyWriter::default().millis(until).finish(), limit)
}

/// The first page of [`due_jobs`] from an instant on.
pub fn due_jobs_from<R: Read>(
    tables: &R,
    from: Millis,
    until: Millis,
    limit: usize,
) -> Result<Vec<NextKey>, R::Error> {
    let from = KeyWriter::default().millis(from).finish();
    tables.keys::<JobNextTable>(&from, &KeyWriter::default().millis(until).finish(), limit)
}

/// Jobs whose next fire a leader must compute; at most `limit`, after `after`.
pub fn wanted_jobs<R: Read>(
    tables: &R,
    after: Option<&JobKey>,
    limit: usize,
) -> Result<Vec<JobKey>, R::Error> {
    let from = after.map(|key| next(key.encode())).unwrap_or_default();
    tables.keys::<JobWantedTable>(&from, &after_prefix(&[]), limit)
}

/// A job's history, newest first, each row with its number; at most `limit`, older than the row `before`.
pub fn history<R: Read>(
    tables: &R,
    key: &JobKey,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<(u64, HistoryRow)>, R::Error> {
    let prefix = KeyWriter::default().job(key).finish();
    let from = before.map(|number| next(HistoryKey { job: key.clone(), number }.encode()));
    let from = from.unwrap_or_else(|| prefix.clone());
    let rows = tables.range::<JobHistoryTable>(&from, &after_prefix(&prefix), limit)?;
    Ok(rows.into_iter().map(|(key, row)| (key.number, row)).collect())
}

/// Open tasks of a job by id; at most `limit`, after `after`.
pub fn open_tasks_of<R: Read>(
    tables: &R,
    key: &JobKey,
    after: Option<TaskId>,
    limit: usize,
) -> Result<Vec<TaskId>, R::Error> {
    let prefix = KeyWriter::default().job(key).finish();
    let from = after.map(|task| next(JobTaskKey { job: key.clone(), task }.encode()));
    let from = from.unwrap_or_else(|| prefix.clone());
    let keys = tables.keys::<JobTasksTable>(&from, &after_prefix(&prefix), limit)?;
    Ok(keys.into_iter().map(|key| key.task).collect())
}

/// A calendar.
pub fn calendar<R: Read>(tables: &R, key: &CalendarKey) -> Result<Option<CalendarRow>, R::Error> {
    tables.get::<CalendarTable>(key)
}

/// A caller's calendars by name; at most `limit`, after `after`.
pub fn calendars_of<R: Read>(
    tables: &R,
    caller: &CallerId,
    after: Option<&CalendarKey>,
    limit: usize,
) -> Result<Vec<(CalendarKey, CalendarRow)>, R::Error> {
    let prefix = KeyWriter::default().text(caller.as_str()).finish();
    let from = after.map(|key| next(key.encode())).unwrap_or_else(|| prefix.clone());
    tables.range::<CalendarTable>(&from, &after_prefix(&prefix), limit)
}

/// Jobs that use a calendar, by id; at most `limit`, after `after`.
pub fn users_of<R: Read>(
    tables: &R,
    key: &CalendarKey,
    after: Option<&JobId>,
    limit: usize,
) -> Result<Vec<JobKey>, R::Error> {
    let prefix = KeyWriter::default().calendar(key).finish();
    let from = after.map(|job| next(CalendarUseKey { calendar: key.clone(), job: job.clone() }.encode()));
    let from = from.unwrap_or_else(|| prefix.clone());
    let keys = tables.keys::<CalendarUseTable>(&from, &after_prefix(&prefix), limit)?;
    Ok(keys.into_iter().map(|use_| JobKey { caller: key.caller.clone(), job: use_.job }).collect())
}

/// Changed calendars of which not every job has been told, as a rule none; at most `limit`.
pub fn spreading<R: Read>(tables: &R, limit: usize) -> Result<Vec<(CalendarKey, SpreadRow)>, R::Error> {
    tables.range::<CalendarSpreadTable>(&[], &after_prefix(&[]), limit)
}

/// A job's backfill, while it is under way.
pub fn backfill<R: Read>(tables: &R, key: &JobKey) -> Result<Option<BackfillRow>, R::Error> {
    tables.get::<BackfillTable>(key)
}

/// Backfills under way; at most `limit`, after `after`.
pub fn backfills<R: Read>(
    tables: &R,
    after: Option<&JobKey>,
    limit: usize,
) -> Result<Vec<(JobKey, BackfillRow)>, R::Error> {
    let from = after.map(|key| next(key.encode())).unwrap_or_default();
    tables.range::<BackfillTable>(&from, &after_prefix(&[]), limit)
}
