//! Which limit on running tasks holds a task, as far as the tables tell. A word for people: the leader counts by itself.

use super::tasks_of;
use crate::graph::Role;
use crate::id::{JobId, TaskId};
use crate::job::JobKey;
use crate::schema::{CallerLimitsTable, JobTable, NodeTable, TaskJobTable};
use crate::tables::{Read, ReadExt as _};
use crate::task::{Status, TaskSpec};

/// The most running tasks of a caller that are looked at. Whether a higher limit is reached is not found out, and where there
/// is no lower one nothing is looked at.
const LOOKED_AT: u32 = 1_000;

/// A limit on running tasks that has no place left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// The job whose limit it is; `None` where it is the caller's.
    pub job: Option<JobId>,
    /// How many may run at a time.
    pub most: u32,
}

/// The limit that holds a task which waits: that of its job, or of its caller, of which as many run as may. `configured` is
/// what the configuration of the replicas says of its caller, which stands above what the tables say.
pub fn reached_limit<R: Read>(
    tables: &R,
    spec: &TaskSpec,
    configured: Option<u32>,
) -> Result<Option<Reached>, R::Error> {
    let job = spec.origin.job().and_then(|(job, _)| JobId::new(job).ok());
    let job = job.map(|job| JobKey { caller: spec.caller.clone(), job });
    let of_job = match &job {
        Some(key) => tables.get::<JobTable>(key)?.and_then(|job| job.definition.max_running),
        None => None,
    };
    let of_caller = match configured {
        Some(most) => Some(most),
        None => tables.get::<CallerLimitsTable>(&spec.caller)?.map(|limits| limits.max_running),
    };
    let can_be_told = |most: &u32| *most <= LOOKED_AT;
    let (of_job, of_caller) = (of_job.filter(can_be_told), of_caller.filter(can_be_told));
    if of_job.is_none() && of_caller.is_none() {
        return Ok(None);
    }
    let (mut jobs, mut callers) = (0, 0);
    for task in tasks_of(tables, &spec.caller, Some(Status::Running), None, LOOKED_AT as usize)? {
        let role = tables.get::<NodeTable>(&task)?.map(|node| node.role).unwrap_or_default();
        // What stands for a run of steps counts against no limit; its steps do.
        if role == Role::Run {
            continue;
        }
        callers += 1;
        if of_job.is_some() && job_of(tables, task, role)? == job {
            jobs += 1;
        }
        if of_job.is_some_and(|most| jobs >= most) {
            let job = job.map(|key| key.job);
            return Ok(of_job.map(|most| Reached { job, most }));
        }
        if of_caller.is_some_and(|most| callers >= most) {
            return Ok(of_caller.map(|most| Reached { job: None, most }));
        }
    }
    Ok(None)
}

/// The job that an open task is of.
fn job_of<R: Read>(tables: &R, task: TaskId, role: Role) -> Result<Option<JobKey>, R::Error> {
    let of = if let Role::Step { run, .. } = role { run } else { task };
    tables.get::<TaskJobTable>(&of)
}
