//! What changes jobs and calendars. Append-only as [`Command`](crate::Command) is.

use serde::{Deserialize, Serialize};

use crate::command::{Claim, Idempotency};
use crate::graph::JobFlow;
use crate::id::{JobId, Millis, TaskId};
use crate::job::{CalendarKey, Definition, Filled, JobKey};
use crate::trigger::overlap::OverlapPolicy;
use crate::trigger::{Calendar, Missed, Next};

/// The next fire that somebody computed, and from what.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Computed {
    /// The revision of the job's state; 0 of a job that there was not.
    pub revision: u64,
    /// The versions of the definition's calendars, in their order.
    pub calendars: Vec<u64>,
    /// Nothing up to this instant fires any more. Of a job that is created it is also the creation, from which its
    /// triggers count.
    pub after: Millis,
    /// The first fire later than that.
    pub next: Option<Next>,
}

/// A job is created or edited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutJob {
    /// The job.
    pub job: JobKey,
    /// The version that the editor saw; 0 where there must be no such job yet, `None` whatever there is.
    pub expected: Option<u64>,
    /// What it shall be.
    pub definition: Definition,
    /// Its next fire, where its triggers or its calendars are new or others than before. Where it was computed from
    /// something that is not so any more, a leader is asked for another one.
    pub computed: Computed,
    /// The signed request's nonce.
    pub claim: Option<Claim>,
}

/// A job of a caller that the tables have is created or edited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutOfCaller {
    /// The job.
    pub put: PutJob,
    /// What it says beyond its definition.
    pub flow: JobFlow,
    /// The instants that an edit keeps from coming to anything, where there are any.
    pub missed: Option<Missed>,
}

/// A job fires by a trigger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fire {
    /// The job.
    pub job: JobKey,
    /// The revision of its state.
    pub revision: u64,
    /// The instant; the job's next one.
    pub scheduled_at: Millis,
    /// The task that it makes, unless the overlap policy says otherwise. Chosen by the leader from the operating
    /// system's random numbers.
    pub task: TaskId,
    /// Texts with their placeholders filled in.
    pub filled: Filled,
    /// The fire after it, provided that it makes a task.
    pub next: Option<Next>,
}

/// Instants are passed over, from the job's next one on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipFire {
    /// The job.
    pub job: JobKey,
    /// The revision of its state.
    pub revision: u64,
    /// The first instant; the job's next one.
    pub scheduled_at: Millis,
    /// How many, and why.
    pub missed: Missed,
    /// Every instant up to this one is decided.
    pub through: Millis,
    /// The fire after that.
    pub next: Option<Next>,
}

/// A person runs a job now, also a paused one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunNow {
    /// The job.
    pub job: JobKey,
    /// The version of its definition from which `filled` was made.
    pub version: u64,
    /// The instant for which it runs: that of the request.
    pub scheduled_at: Millis,
    /// The task that it makes.
    pub task: TaskId,
    /// Texts with their placeholders filled in, or the parameters that the person gave.
    pub filled: Filled,
    /// In place of the job's own overlap policy.
    pub overlap: Option<OverlapPolicy>,
    /// The signed request's nonce.
    pub claim: Option<Claim>,
    /// The Idempotency-Key, where the caller sent one.
    pub idempotency: Option<Idempotency>,
}

/// One instant of a backfill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackfillFire {
    /// The instant.
    pub scheduled_at: Millis,
    /// The task that it makes.
    pub task: TaskId,
    /// Texts with their placeholders filled in.
    pub filled: Filled,
}

/// A backfill goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepBackfill {
    /// The job.
    pub job: JobKey,
    /// The version of its definition from which the fires were computed.
    pub version: u64,
    /// Up to where the backfill had come.
    pub from: Millis,
    /// The next instants, oldest first; at most [`crate::job::BACKFILL_STEP`].
    pub fires: Vec<BackfillFire>,
    /// Up to where there are no others.
    pub through: Millis,
}

/// A backfill goes on, and each instant says by which trigger it is: in the zone of that one are the dates of its steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackfillBy {
    /// The step.
    pub step: StepBackfill,
    /// The trigger of each of its fires: the first one where several name the instant.
    pub triggers: Vec<u16>,
}

/// A job is edited although instants that its triggers have named before are still to come to something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditJob {
    /// The edit. Refused when it was computed from another revision.
    pub put: PutJob,
    /// The rest of the job.
    pub flow: JobFlow,
    /// Those instants: they make no task.
    pub missed: Missed,
}

/// A change of jobs or calendars. Those marked *round* are the leader's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobCommand {
    /// A job is created or edited. The same definition again changes nothing. Touches the rows of
    /// [`crate::job::JOB_CALENDARS_LIMIT`] calendars twice.
    Put(Box<PutJob>),
    /// No trigger of a job fires until it is resumed. Its tasks go on; one that a trigger has queued waits.
    Pause {
        /// The job.
        job: JobKey,
        /// Why; at most [`crate::job::TEXT_LIMIT`] bytes.
        note: String,
        /// The signed request's nonce.
        claim: Option<Claim>,
    },
    /// A paused job fires again. Touches the shards of one task, where one was held up.
    Resume {
        /// The job.
        job: JobKey,
        /// Its next fire.
        computed: Computed,
        /// What it missed while it was paused.
        missed: Option<Missed>,
        /// The signed request's nonce.
        claim: Option<Claim>,
    },
    /// A job goes, with its history and its backfill. Its tasks go on as if they had been submitted; only one that
    /// is queued is cancelled. Touches [`crate::job::HISTORY_LIMIT`] rows, and two for each open task.
    Delete {
        /// The job.
        job: JobKey,
        /// The version that the person saw; `None` whatever there is.
        expected: Option<u64>,
        /// The signed request's nonce.
        claim: Option<Claim>,
    },
    /// A calendar is created or edited. Its jobs want a new next fire: up to [`crate::job::SPREAD_PER_COMMAND`] at
    /// once, the others by [`JobCommand::SpreadCalendar`].
    PutCalendar {
        /// The calendar.
        calendar: CalendarKey,
        /// As in [`PutJob::expected`].
        expected: Option<u64>,
        /// Which days it excludes.
        parts: Calendar,
        /// The signed request's nonce.
        claim: Option<Claim>,
    },
    /// A calendar goes. Refused while a job uses it.
    DeleteCalendar {
        /// The calendar.
        calendar: CalendarKey,
        /// The version that the person saw; `None` whatever there is.
        expected: Option<u64>,
        /// The signed request's nonce.
        claim: Option<Claim>,
    },
    /// *Round.* A job fires by a trigger. Touches the shards of one new task and of
    /// [`crate::job::REPLACED_PER_COMMAND`] old ones.
    Fire(Fire),
    /// *Round.* Instants are passed over.
    Skip(SkipFire),
    /// *Round.* The next fire of a job that wants one.
    SetNext {
        /// The job.
        job: JobKey,
        /// The revision of its state.
        revision: u64,
        /// The first fire after what is decided.
        next: Option<Next>,
    },
    /// *Round.* More jobs hear that a calendar of theirs has changed: the next
    /// [`crate::job::SPREAD_PER_COMMAND`].
    SpreadCalendar {
        /// The calendar.
        calendar: CalendarKey,
        /// The last job that has heard of it.
        after: Option<JobId>,
    },
    /// A person runs a job now. Bounded as a fire is.
    RunNow(Box<RunNow>),
    /// A person has a stretch of the past made up for.
    StartBackfill {
        /// The job.
        job: JobKey,
        /// The first instant.
        from: Millis,
        /// The last instant; not later than the cluster's time.
        to: Millis,
        /// Its own overlap policy.
        overlap: OverlapPolicy,
        /// The signed request's nonce.
        claim: Option<Claim>,
    },
    /// *Round.* A backfill goes on. Touches the shards of its tasks, at most twice
    /// [`crate::task::MAX_SHARDS`], and of [`crate::job::REPLACED_PER_COMMAND`] old tasks for each of them.
    StepBackfill(StepBackfill),
    /// A person ends a backfill. Those of its tasks that have not begun are cancelled; up to [`crate::task::MAX_SHARDS`]
    /// shards and one task more at once, the others by further steps. Reads the rows of every open task of the job.
    StopBackfill {
        /// The job.
        job: JobKey,
        /// The signed request's nonce.
        claim: Option<Claim>,
    },
    /// *Round.* A backfill goes on; bounded as [`JobCommand::StepBackfill`] is.
    BackfillBy(BackfillBy),
    /// A job is edited, and what its triggers had named before is recorded as skipped.
    Edit(Box<EditJob>),
    /// A job of a caller that the tables have is created or edited: refused when they have it no more. Whoever let the
    /// request in knew the caller, and an administrator may have deleted it since. (A task that is submitted in such a
    /// moment is one task, which the key was good for when it came; a job would fire for ever.)
    PutOfCaller(Box<PutOfCaller>),
    /// As [`JobCommand::Pause`], with nothing said of why: a job that is paused already keeps its note.
    PauseWithoutNote {
        /// The job.
        job: JobKey,
        /// The signed request's nonce.
        claim: Option<Claim>,
    },
}

impl JobCommand {
    /// Whether it is the leader's own, and holds only in the round in which it was decided.
    pub fn is_of_the_round(&self) -> bool {
        match self {
            JobCommand::Fire(_)
            | JobCommand::Skip(_)
            | JobCommand::SetNext { .. }
            | JobCommand::SpreadCalendar { .. }
            | JobCommand::StepBackfill(_)
            | JobCommand::BackfillBy(_) => true,
            JobCommand::Put(_)
            | JobCommand::Pause { .. }
            | JobCommand::Resume { .. }
            | JobCommand::Delete { .. }
            | JobCommand::PutCalendar { .. }
            | JobCommand::DeleteCalendar { .. }
            | JobCommand::RunNow(_)
            | JobCommand::StartBackfill { .. }
            | JobCommand::StopBackfill { .. }
            | JobCommand::Edit(_)
            | JobCommand::PutOfCaller(_)
            | JobCommand::PauseWithoutNote { .. } => false,
        }
    }

    /// The signed request's nonce, of those that a person asks for.
    pub fn claim(&self) -> Option<&Claim> {
        match self {
            JobCommand::Put(put) => put.claim.as_ref(),
            JobCommand::Edit(edit) => edit.put.claim.as_ref(),
            JobCommand::PutOfCaller(of_caller) => of_caller.put.claim.as_ref(),
            JobCommand::RunNow(run) => run.claim.as_ref(),
            JobCommand::Pause { claim, .. }
            | JobCommand::PauseWithoutNote { claim, .. }
            | JobCommand::Resume { claim, .. }
            | JobCommand::Delete { claim, .. }
            | JobCommand::PutCalendar { claim, .. }
            | JobCommand::DeleteCalendar { claim, .. }
            | JobCommand::StartBackfill { claim, .. }
            | JobCommand::StopBackfill { claim, .. } => claim.as_ref(),
            JobCommand::Fire(_)
            | JobCommand::Skip(_)
            | JobCommand::SetNext { .. }
            | JobCommand::SpreadCalendar { .. }
            | JobCommand::StepBackfill(_)
            | JobCommand::BackfillBy(_) => None,
        }
    }
}
