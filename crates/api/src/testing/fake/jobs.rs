//! The fake store's reads of jobs and calendars.

use orloj_model::id::{CalendarName, CallerId, JobId};
use orloj_model::job::{BackfillRow, CalendarKey, CalendarRow, JobKey};
use orloj_model::query::{self, JobView, Reached};
use orloj_model::task::TaskSpec;

use super::{FakeStore, Universe};
use crate::backend::{At, HistoryRows, JobReads, StorageFault, read_calendars, read_history, read_jobs};

impl Universe {
    /// A job as it stands.
    pub(crate) fn job(&self, key: &JobKey) -> Option<JobView> {
        query::job(&self.shared.state.lock().unwrap().tables, key).unwrap()
    }
}

impl JobReads for FakeStore {
    fn job(&self, key: &JobKey) -> Result<At<Option<JobView>>, StorageFault> {
        self.read(|tables| query::job(tables, key))
    }

    fn jobs(
        &self,
        caller: &CallerId,
        after: Option<&JobId>,
        limit: usize,
    ) -> Result<At<Vec<JobView>>, StorageFault> {
        self.read(|tables| read_jobs(tables, caller, after, limit))
    }

    fn job_history(
        &self,
        key: &JobKey,
        before: Option<u64>,
        limit: usize,
    ) -> Result<At<Option<HistoryRows>>, StorageFault> {
        self.read(|tables| read_history(tables, key, before, limit))
    }

    fn backfill(&self, key: &JobKey) -> Result<At<Option<BackfillRow>>, StorageFault> {
        self.read(|tables| query::backfill(tables, key))
    }

    fn calendars_named(
        &self,
        caller: &CallerId,
        names: &[CalendarName],
    ) -> Result<At<Vec<Option<CalendarRow>>>, StorageFault> {
        self.read(|tables| read_calendars(tables, caller, names))
    }

    fn calendars(
        &self,
        caller: &CallerId,
        after: Option<&CalendarName>,
        limit: usize,
    ) -> Result<At<Vec<(CalendarKey, CalendarRow)>>, StorageFault> {
        let after = after.map(|name| CalendarKey { caller: caller.clone(), calendar: name.clone() });
        self.read(|tables| query::calendars_of(tables, caller, after.as_ref(), limit))
    }

    fn calendar_users(&self, key: &CalendarKey, limit: usize) -> Result<At<Vec<JobKey>>, StorageFault> {
        self.read(|tables| query::users_of(tables, key, None, limit))
    }

    fn reached_limit(
        &self,
        spec: &TaskSpec,
        configured: Option<u32>,
    ) -> Result<Option<Reached>, StorageFault> {
        Ok(self.read(|tables| query::reached_limit(tables, spec, configured))?.value)
    }
}
