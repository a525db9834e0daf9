//! What the API reads of jobs and calendars.

use orloj_model::id::{CalendarName, CallerId, JobId};
use orloj_model::job::{BackfillRow, CalendarKey, CalendarRow, HistoryRow, JobKey};
use orloj_model::query::{self, JobView, Reached};
use orloj_model::tables::Read;
use orloj_model::task::TaskSpec;
use orloj_raft_store::Store;

use super::{At, StorageFault};

/// Rows of a job's history with their numbers, and the job's own row.
pub type HistoryRows = (JobView, Vec<(u64, HistoryRow)>);

/// Reads of jobs and calendars, of this node's own tables.
pub trait JobReads {
    /// A job, whole.
    fn job(&self, key: &JobKey) -> Result<At<Option<JobView>>, StorageFault>;
    /// A caller's jobs by id; at most `limit`, after `after`.
    fn jobs(
        &self,
        caller: &CallerId,
        after: Option<&JobId>,
        limit: usize,
    ) -> Result<At<Vec<JobView>>, StorageFault>;
    /// A job with its history, newest first; at most `limit` rows, older than the row `before`.
    fn job_history(
        &self,
        key: &JobKey,
        before: Option<u64>,
        limit: usize,
    ) -> Result<At<Option<HistoryRows>>, StorageFault>;
    /// A job's backfill, while it is under way.
    fn backfill(&self, key: &JobKey) -> Result<At<Option<BackfillRow>>, StorageFault>;
    /// Calendars of a caller by their names, each where there is one.
    fn calendars_named(
        &self,
        caller: &CallerId,
        names: &[CalendarName],
    ) -> Result<At<Vec<Option<CalendarRow>>>, StorageFault>;
    /// A caller's calendars by name; at most `limit`, after `after`.
    fn calendars(
        &self,
        caller: &CallerId,
        after: Option<&CalendarName>,
        limit: usize,
    ) -> Result<At<Vec<(CalendarKey, CalendarRow)>>, StorageFault>;
    /// Jobs that use a calendar, by id; at most `limit`.
    fn calendar_users(&self, key: &CalendarKey, limit: usize) -> Result<At<Vec<JobKey>>, StorageFault>;
    /// The limit on running tasks that holds a task which waits; `configured` is one of its caller.
    fn reached_limit(
        &self,
        spec: &TaskSpec,
        configured: Option<u32>,
    ) -> Result<Option<Reached>, StorageFault>;
}

/// Reads a page of jobs from any tables.
pub fn read_jobs<R: Read>(
    tables: &R,
    caller: &CallerId,
    after: Option<&JobId>,
    limit: usize,
) -> Result<Vec<JobView>, R::Error> {
    let mut jobs = Vec::with_capacity(limit);
    for key in query::jobs_of(tables, caller, after, limit)? {
        jobs.extend(query::job(tables, &key)?);
    }
    Ok(jobs)
}

/// Reads a job and its history from any tables.
pub fn read_history<R: Read>(
    tables: &R,
    key: &JobKey,
    before: Option<u64>,
    limit: usize,
) -> Result<Option<HistoryRows>, R::Error> {
    let Some(job) = query::job(tables, key)? else { return Ok(None) };
    Ok(Some((job, query::history(tables, key, before, limit)?)))
}

/// Reads calendars from any tables.
pub fn read_calendars<R: Read>(
    tables: &R,
    caller: &CallerId,
    names: &[CalendarName],
) -> Result<Vec<Option<CalendarRow>>, R::Error> {
    let key = |name: &CalendarName| CalendarKey { caller: caller.clone(), calendar: name.clone() };
    names.iter().map(|name| query::calendar(tables, &key(name))).collect()
}

impl JobReads for Store {
    fn job(&self, key: &JobKey) -> Result<At<Option<JobView>>, StorageFault> {
        let view = self.view();
        Ok(At { applied: view.applied(), value: query::job(&view, key)? })
    }

    fn jobs(
        &self,
        caller: &CallerId,
        after: Option<&JobId>,
        limit: usize,
    ) -> Result<At<Vec<JobView>>, StorageFault> {
        let view = self.view();
        Ok(At { applied: view.applied(), value: read_jobs(&view, caller, after, limit)? })
    }

    fn job_history(
        &self,
        key: &JobKey,
        before: Option<u64>,
        limit: usize,
    ) -> Result<At<Option<HistoryRows>>, StorageFault> {
        let view = self.view();
        Ok(At { applied: view.applied(), value: read_history(&view, key, before, limit)? })
    }

    fn backfill(&self, key: &JobKey) -> Result<At<Option<BackfillRow>>, StorageFault> {
        let view = self.view();
        Ok(At { applied: view.applied(), value: query::backfill(&view, key)? })
    }

    fn calendars_named(
        &self,
        caller: &CallerId,
        names: &[CalendarName],
    ) -> Result<At<Vec<Option<CalendarRow>>>, StorageFault> {
        let view = self.view();
        Ok(At { applied: view.applied(), value: read_calendars(&view, caller, names)? })
    }

    fn calendars(
        &self,
        caller: &CallerId,
        after: Option<&CalendarName>,
        limit: usize,
    ) -> Result<At<Vec<(CalendarKey, CalendarRow)>>, StorageFault> {
        let view = self.view();
        let after = after.map(|name| CalendarKey { caller: caller.clone(), calendar: name.clone() });
        let value = query::calendars_of(&view, caller, after.as_ref(), limit)?;
        Ok(At { applied: view.applied(), value })
    }

    fn calendar_users(&self, key: &CalendarKey, limit: usize) -> Result<At<Vec<JobKey>>, StorageFault> {
        let view = self.view();
        Ok(At { applied: view.applied(), value: query::users_of(&view, key, None, limit)? })
    }

    fn reached_limit(
        &self,
        spec: &TaskSpec,
        configured: Option<u32>,
    ) -> Result<Option<Reached>, StorageFault> {
        Ok(query::reached_limit(&self.view(), spec, configured)?)
    }
}
