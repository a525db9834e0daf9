//! Jobs: the records of what fires, of what has become of it, and of the calendars that it heeds.
//!
//! A job is stored in two rows, so that a fire does not rewrite its definition: [`Job`] (what its owner wrote,
//! changed by edits alone) and [`JobState`] (where it stands, changed by every fire). Three rules hold for ever:
//!
//! * An instant is decided once. [`JobState::decided`] only grows, and the next fire is always later.
//! * What a leader computes names the [`JobState::revision`] that it was computed from. Whatever could change the
//!   result counts the revision up, so that a late leader, or a second one, is refused.
//! * Who may run beside whom is decided in apply, by the open tasks that the tables show.

mod compute;
mod plan;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{CalendarName, CallerId, JobId, Millis, NAME_LIMIT, TaskId, check_name};
use crate::task::{MAX_RETRIES, MAX_SHARDS, Origin, RetryPolicy, Strategy, TaskSpec};
use crate::trigger::overlap::OverlapPolicy;
use crate::trigger::{
    Calendar, CatchUp, Kind, MAX_JITTER_MS, Missed, Next, Progress, SkipReason, TRIGGER_LIMIT, Trigger,
};

pub use compute::{Heeded, computed_for_put, computed_for_resume, dropped_by_edit};
pub use plan::{Plan, Weight, plan, plan_backfill};

/// The longest title of a job, in bytes.
pub const TITLE_LIMIT: usize = 512;
/// The longest description of a job, and the longest note of a pause, in bytes.
pub const TEXT_LIMIT: usize = 4 * 1024;
/// The longest parameters of a job, in bytes, also after its placeholders are filled in.
pub const PARAMS_LIMIT: usize = 64 * 1024;
/// The longest of the other texts of a job (routing key, business key, callback address, …), in bytes.
pub const FIELD_LIMIT: usize = 2 * 1024;
/// The most labels of a job, and the most delays in its backoff list.
pub const LIST_LIMIT: usize = 64;
/// The most calendars of a job.
pub const JOB_CALENDARS_LIMIT: usize = 16;
/// The most tasks of one job that are open at a time. Whatever the overlap policy, the fire of one more is skipped
/// with the reason `overlap`.
pub const OPEN_LIMIT: u32 = 1_000;
/// How many rows of history a job keeps, newest first.
pub const HISTORY_LIMIT: u64 = 1_000;
/// How many fires one step of a backfill makes at most. It also ends when its tasks have [`MAX_SHARDS`] shards.
pub const BACKFILL_STEP: usize = 16;
/// How many jobs one command tells at most of a changed calendar.
pub const SPREAD_PER_COMMAND: usize = 100;
/// How many open tasks one command asks to end at most under `cancelOther`. What is left follows in further commands.
pub const REPLACED_PER_COMMAND: usize = 4;
/// The most passed occurrences that a next fire brings along.
pub const NEXT_PASSED_LIMIT: usize = 16;

/// A job and its owner. Each caller has names of its own: another caller's job is one that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobKey {
    /// The owner.
    pub caller: CallerId,
    /// Its job.
    pub job: JobId,
}

/// A calendar and its owner, whose jobs share it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CalendarKey {
    /// The owner.
    pub caller: CallerId,
    /// Its calendar.
    pub calendar: CalendarName,
}

/// What the tasks of a job are made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    /// The handler to run.
    pub handler: String,
    /// Its parameters: JSON, with placeholders as they were written.
    pub params: String,
    /// 0-9; orders what waits for a slot.
    pub priority: u8,
    /// Labels that the executor must carry.
    pub labels: BTreeMap<String, String>,
    /// Place on the ring; the job's id where there is none.
    pub routing_key: Option<String>,
    /// Preferred zone.
    pub zone: Option<String>,
    /// How an executor is chosen.
    pub strategy: Strategy,
    /// Handed to the handler with every attempt; may hold placeholders.
    pub business_key: Option<String>,
    /// When and how often to try again.
    pub retry: RetryPolicy,
    /// The longest an attempt may run, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// A task that has not started so many milliseconds after it was due is skipped.
    pub expire_after_ms: Option<u64>,
    /// How many shards; 1-[`MAX_SHARDS`].
    pub shard_total: u16,
    /// Where to announce the end of each task.
    pub callback_url: Option<String>,
    /// How long a task is expected to take, in milliseconds.
    pub estimated_duration_ms: Option<u64>,
}

/// What its owner wrote of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// For people; any text.
    pub title: String,
    /// For people; any text.
    pub description: String,
    /// What its tasks are made of.
    pub template: Template,
    /// When it fires.
    pub triggers: Vec<Trigger>,
    /// Calendars of its owner on whose days it does not fire.
    pub calendars: Vec<CalendarName>,
    /// What becomes of instants that nobody was there for.
    pub misfire: CatchUp,
    /// What becomes of a fire while earlier tasks are open.
    pub overlap: OverlapPolicy,
    /// How many of its tasks may run at a time.
    pub max_running: Option<u32>,
}

impl Definition {
    /// Whether every value is within its bounds. The edge says so in better words; this keeps rows small.
    pub fn is_within_bounds(&self) -> bool {
        let calendars = &self.calendars;
        let repeated = calendars.iter().enumerate().any(|(place, name)| calendars[..place].contains(name));
        self.title.len() <= TITLE_LIMIT
            && self.description.len() <= TEXT_LIMIT
            && self.triggers.len() <= TRIGGER_LIMIT
            && calendars.len() <= JOB_CALENDARS_LIMIT
            && !repeated
            && self.max_running != Some(0)
            && self.template.is_within_bounds()
    }

    /// Whether a trigger counts from the end of the last task, so that the end of a task changes the next fire.
    pub fn has_delays(&self) -> bool {
        self.triggers.iter().any(is_delay)
    }

    /// A fixed delay has no fire while a task is open.
    fn may_fire_beside(&self, progress: &Progress, trigger: u16) -> bool {
        !progress.open || !self.triggers.get(usize::from(trigger)).is_some_and(is_delay)
    }

    /// Whether a trigger may still create tasks.
    pub fn has_fires_left(&self, progress: &Progress, trigger: u16) -> bool {
        let place = usize::from(trigger);
        let fired = progress.fired.get(place).copied().unwrap_or(0);
        let limits = self.triggers.get(place).map(Trigger::limits);
        limits.is_some_and(|limits| limits.max_fires.is_none_or(|most| fired < most))
    }

    /// Whether `next` may be the next fire after everything up to `decided`: later, due when its jitter allows, and
    /// named by triggers that have fires left.
    pub fn may_fire(&self, next: &Next, progress: &Progress, decided: Millis) -> bool {
        let jitter = next.due_at.checked_sub(next.scheduled_at);
        let triggers = &next.triggers;
        next.scheduled_at > decided
            && jitter.is_some_and(|jitter| (0..=MAX_JITTER_MS as i64).contains(&jitter))
            && !triggers.is_empty()
            && triggers.windows(2).all(|pair| pair[0] < pair[1])
            && triggers.iter().all(|trigger| self.has_fires_left(progress, *trigger))
            && triggers.iter().all(|trigger| self.may_fire_beside(progress, *trigger))
            && next.passed.len() <= NEXT_PASSED_LIMIT
    }

    /// A task of this job, without its parents.
    pub fn task(&self, key: &JobKey, origin: Origin, due_at: Millis, filled: &Filled) -> TaskSpec {
        self.template.task(&key.caller, origin, due_at, filled)
    }
}

fn is_delay(trigger: &Trigger) -> bool {
    matches!(trigger.kind(), Kind::FixedDelay { .. })
}

impl Template {
    /// A task made of it, without its parents.
    pub fn task(&self, caller: &CallerId, origin: Origin, due_at: Millis, filled: &Filled) -> TaskSpec {
        let params = filled.params.clone().unwrap_or_else(|| self.params.clone().into_bytes());
        let expires = |ms: u64| due_at.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX));
        TaskSpec {
            caller: caller.clone(),
            access_key: String::new(),
            handler: self.handler.clone(),
            params,
            origin,
            priority: self.priority,
            labels: self.labels.clone(),
            routing_key: self.routing_key.clone(),
            zone: self.zone.clone(),
            strategy: self.strategy.clone(),
            business_key: filled.business_key.clone().or_else(|| self.business_key.clone()),
            dedupe_key: None,
            retry: self.retry.clone(),
            timeout_ms: self.timeout_ms,
            expire_at: self.expire_after_ms.map(expires),
            shard_total: self.shard_total,
            depends_on: Vec::new(),
            callback_url: self.callback_url.clone(),
            estimated_duration_ms: self.estimated_duration_ms,
        }
    }

    pub(crate) fn is_within_bounds(&self) -> bool {
        let fields = [&self.routing_key, &self.zone, &self.business_key, &self.callback_url];
        let label = |(key, value): (&String, &String)| check_name(key).is_ok() && value.len() <= NAME_LIMIT;
        check_name(&self.handler).is_ok()
            && self.params.len() <= PARAMS_LIMIT
            && self.priority <= 9
            && self.labels.len() <= LIST_LIMIT
            && self.labels.iter().all(label)
            && fields.into_iter().flatten().all(|field| field.len() <= FIELD_LIMIT)
            && self.retry.max_retries <= MAX_RETRIES
            && self.retry.backoff_ms.len() <= LIST_LIMIT
            && (1..=MAX_SHARDS).contains(&self.shard_total)
    }
}

/// Texts of the template after the leader has filled in their placeholders; `None` where there are none to fill in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Filled {
    /// The parameters; also those that a person gave for one run.
    #[serde(with = "crate::blob::option")]
    pub params: Option<Vec<u8>>,
    /// The business key.
    pub business_key: Option<String>,
}

impl Filled {
    /// Whether both are within their bounds.
    pub fn is_within_bounds(&self) -> bool {
        self.params.as_ref().is_none_or(|params| params.len() <= PARAMS_LIMIT)
            && self.business_key.as_ref().is_none_or(|key| key.len() <= FIELD_LIMIT)
    }
}

/// A job as its owner wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// What it is.
    pub definition: Definition,
    /// Grows by one with every edit. The first one lies above every version of a job or calendar that its caller has
    /// deleted before; it is 1 where there was none.
    pub version: u64,
    /// When it was created.
    pub created_at: Millis,
    /// When it was last edited.
    pub updated_at: Millis,
}

/// How far the versions of what a caller has deleted went: jobs and calendars together. What it creates under a name that
/// it has used before begins above, so that nobody who holds a version of the old one changes the new one by it. One row
/// for all names: one for each would be kept for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GoneVersions {
    /// The highest of them.
    pub highest: u64,
}

/// Why and since when a job is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// In a person's words; at most [`TEXT_LIMIT`] bytes.
    pub note: String,
    /// Since when.
    pub at: Millis,
}

/// How much has become of a job's instants and runs, since it was created.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Tasks that were made, by whatever cause.
    pub fired: u64,
    /// Instants that made none, by reason.
    pub skipped: BTreeMap<SkipReason, u64>,
}

impl Counts {
    /// Instants that made no task because nobody was there in time.
    pub fn missed(&self) -> u64 {
        let count = |reason| self.skipped.get(&reason).copied().unwrap_or(0);
        count(SkipReason::Misfire).saturating_add(count(SkipReason::MisfireCap))
    }
}

/// Where a job stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobState {
    /// Grows with every change that what a leader computes of the job depends on. The first one is the log index
    /// at which the job was created, so that a job created anew under an old id takes no command of the old one.
    pub revision: u64,
    /// It is paused: no trigger fires, and what one has queued waits on.
    pub paused: Option<Pause>,
    /// The next fire; `None` while it is paused or wanted, and where there is none.
    pub next: Option<Next>,
    /// A leader must compute the next fire from `decided` and `progress`.
    pub wanted: bool,
    /// Every instant up to this one has fired, was skipped, or lies before the job's time.
    pub decided: Millis,
    /// What has become of its triggers.
    pub progress: Progress,
    /// A trigger counts from the end of the last task.
    pub has_delays: bool,
    /// How many of its tasks are open.
    pub open: u32,
    /// The one of them that waits until all others have ended.
    pub queued: Option<TaskId>,
    /// The others are to be cancelled, as far as that has not been asked for: those from this id on.
    pub replace_from: Option<TaskId>,
    /// A backfill is under way.
    pub backfilling: bool,
    /// How many rows of history it has ever had; the newest has this number.
    pub history: u64,
    /// What became of its instants.
    pub counts: Counts,
}

/// Why a task of a job was made, or was not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// A trigger.
    Trigger,
    /// A person ran it now.
    Run,
    /// A person had the past made up for.
    Backfill,
}

impl Cause {
    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Trigger => "trigger",
            Cause::Run => "run",
            Cause::Backfill => "backfill",
        }
    }

    /// Where a task of this cause comes from.
    pub fn origin(self, job: &JobId, scheduled_at: Millis) -> Origin {
        let job = job.to_string();
        match self {
            Cause::Trigger => Origin::Fire { job, scheduled_at },
            Cause::Run => Origin::Run { job, scheduled_at },
            Cause::Backfill => Origin::Backfill { job, scheduled_at },
        }
    }
}

/// What became of an instant, or of several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobOutcome {
    /// It made a task.
    Fired {
        /// The instant that it stands for.
        scheduled_at: Millis,
        /// The task.
        task: TaskId,
        /// Why it was made.
        cause: Cause,
        /// It waited for the open ones, or replaced them.
        queued: bool,
    },
    /// It, or each of them, made none.
    Skipped {
        /// Why, how many, and which.
        missed: Missed,
        /// What would have made it.
        cause: Cause,
    },
    /// A backfill ended, or was stopped.
    Backfilled {
        /// Where it began.
        from: Millis,
        /// Where it was to end.
        to: Millis,
        /// Up to where it came: every instant up to this one is done, or its task has begun.
        through: Millis,
        /// Tasks that it made, without those that were taken back.
        fired: u64,
        /// Instants that it skipped.
        skipped: u64,
    },
}

/// One row of a job's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryRow {
    /// When it was written, in the cluster's time.
    pub at: Millis,
    /// What happened.
    pub outcome: JobOutcome,
}

/// A calendar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CalendarRow {
    /// Which days it excludes.
    pub calendar: Calendar,
    /// Grows by one with every edit; the first one as of a [`Job`].
    pub version: u64,
    /// When it was created.
    pub created_at: Millis,
    /// When it was last edited.
    pub updated_at: Millis,
}

/// A changed calendar of which not every job that uses it has been told.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SpreadRow {
    /// The last job that has been; the others follow in order.
    pub after: Option<JobId>,
}

/// A backfill that is under way; a job has one at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackfillRow {
    /// The first instant.
    pub from: Millis,
    /// The last instant; that up to which it came, once it is stopped, while tasks of it are being taken back.
    pub to: Millis,
    /// Its own overlap policy. Under `queue` nothing is skipped: the next instant waits until there is room.
    pub overlap: OverlapPolicy,
    /// Every instant from `from` up to this one is done.
    pub through: Millis,
    /// Tasks that it has made.
    pub fired: u64,
    /// Instants that it has skipped.
    pub skipped: u64,
    /// When it began.
    pub created_at: Millis,
}

/// The progress of `old` triggers as that of `new` ones: a trigger that is the same keeps its count, wherever it
/// stands now; any other begins at 0. To be asked by whoever computes the next fire after an edit.
pub fn carry(progress: &Progress, old: &[Trigger], new: &[Trigger]) -> Progress {
    let fired = |trigger: &Trigger| {
        let place = old.iter().position(|known| known == trigger);
        place.and_then(|place| progress.fired.get(place)).copied().unwrap_or(0)
    };
    let mut fired: Vec<u64> = new.iter().map(fired).collect();
    let used = fired.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    fired.truncate(used);
    Progress { fired, ..progress.clone() }
}
