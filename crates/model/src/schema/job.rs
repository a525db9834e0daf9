//! The tables of jobs.

use crate::id::{CallerId, TaskId};
use crate::job::{
    BackfillRow, CalendarKey, CalendarRow, GoneVersions, HistoryRow, Job, JobKey, JobState, SpreadRow,
};
use crate::key::{CalendarUseKey, HistoryKey, JobTaskKey, NextKey};
use crate::tables::{Table, TableId};

table!(
    /// What a job is.
    JobTable, Job, JobKey, Job
);
table!(
    /// Where a job stands.
    JobStateTable, JobState, JobKey, JobState
);
table!(
    /// Next fires, by when they are due.
    JobNextTable, JobNext, NextKey, ()
);
table!(
    /// Jobs whose next fire a leader must compute.
    JobWantedTable, JobWanted, JobKey, ()
);
table!(
    /// What became of a job's instants, newest first.
    JobHistoryTable, JobHistory, HistoryKey, HistoryRow
);
table!(
    /// Open tasks of a job.
    JobTasksTable, JobTasks, JobTaskKey, ()
);
table!(
    /// The job of an open task.
    TaskJobTable, TaskJob, TaskId, JobKey
);
table!(
    /// Calendars.
    CalendarTable, Calendar, CalendarKey, CalendarRow
);
table!(
    /// Which jobs use a calendar.
    CalendarUseTable, CalendarUse, CalendarUseKey, ()
);
table!(
    /// Changed calendars of which not every job has been told.
    CalendarSpreadTable, CalendarSpread, CalendarKey, SpreadRow
);
table!(
    /// Backfills under way.
    BackfillTable, Backfill, JobKey, BackfillRow
);
table!(
    /// How far the versions of a caller's deleted jobs and calendars went.
    GoneVersionsTable, GoneVersions, CallerId, GoneVersions
);
