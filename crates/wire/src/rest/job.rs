//! The bodies of jobs: what a caller writes of one ([`JobSpec`]), and what it gets ([`Job`] and the answers of the
//! calls on it).

mod answer;
mod check;
mod spell;

use std::collections::BTreeMap;

use orloj_model::trigger::overlap::OverlapPolicy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use answer::{
    Backfill, Calendar, CalendarDeleted, CalendarPage, HistoryEntry, HistoryPage, Job, JobChange, JobChecked,
    JobCounts, JobDeleted, JobPage, JobRun, JobState, NextFire, Paused,
};
pub use check::params_faults;

use super::preview::PREVIEW_LIMIT;
use super::submit::{MAX_ATTEMPT_MS, no_params, within};
use super::trigger::TriggerSpec;
use super::{OnShardFailure, Retry, StepSpec, Strategy, Submit};
use crate::json::{Strict, objects};
use crate::time::Time;

/// The most fires that `misfireCap` allows at once, and what it is by default.
pub const MISFIRE_CAP: (u64, u64) = (1_000, 100);
/// The default of `misfireGraceMs`: five seconds cover a change of leader.
pub const MISFIRE_GRACE_MS: u64 = 5_000;
/// The longest `misfireGraceMs`: 30 days.
pub const MAX_GRACE_MS: u64 = 30 * 86_400_000;
/// The most instants that one backfill makes up for.
pub const BACKFILL_LIMIT: usize = 10_000;

/// What becomes of instants that nobody was there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Misfire {
    /// No task.
    Skip,
    /// One task for whatever was missed.
    #[default]
    FireOnce,
    /// A task for each, up to `misfireCap`.
    FireAll,
}

/// A job as its owner writes it. Only `handler` is required, and `jobId` where the path does not name it.
///
/// A number outside its bounds does not parse; [`JobSpec::faults`] tells what parses but is not acceptable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobSpec {
    /// Its id, `[A-Za-z0-9_-]{1,128}`.
    #[serde(default, alias = "job_id", skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// For people; any text, at most 512 bytes.
    #[serde(default)]
    pub title: String,
    /// For people; any text, at most 4 KiB.
    #[serde(default)]
    pub description: String,
    /// What its tasks run: the name of a handler.
    #[serde(alias = "executor", alias = "executorId", alias = "executor_id")]
    pub handler: String,
    /// Their parameters: any JSON, at most 64 KiB, also with its placeholders filled in; `{}` when absent.
    #[serde(default = "no_params")]
    pub params: Strict,
    /// When it fires; at most 32. A job without triggers runs when a person runs it.
    #[serde(default, deserialize_with = "objects")]
    pub triggers: Vec<TriggerSpec>,
    /// Calendars of its owner on whose days it does not fire; at most 16.
    #[serde(default)]
    pub calendars: Vec<String>,
    /// What becomes of instants that nobody was there for; by default `fireOnce`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misfire: Option<Misfire>,
    /// With `fireAll`: how many fires at most, 1-1,000; by default 100.
    #[serde(
        default,
        deserialize_with = "within::<_, 1, { MISFIRE_CAP.0 }>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 1, max = MISFIRE_CAP.0))]
    pub misfire_cap: Option<u64>,
    /// By how much an instant may be late and is in time nevertheless; by default 5,000.
    #[serde(
        default,
        deserialize_with = "within::<_, 0, MAX_GRACE_MS>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 0, max = MAX_GRACE_MS))]
    pub misfire_grace_ms: Option<u64>,
    /// What becomes of a fire while earlier tasks are open: `skip` (the default), `allow`, `queue`, `cancelOther`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<crate::rest::words::OverlapPolicy>")]
    pub overlap: Option<OverlapPolicy>,
    /// How many of its tasks may run at a time; no limit when absent.
    #[serde(default, deserialize_with = "within::<_, 1, 100_000>", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_running: Option<u64>,
    /// 0-9, by default 5; orders what waits for a free slot.
    #[serde(default, deserialize_with = "within::<_, 0, 9>", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 9))]
    pub priority: Option<u64>,
    /// The longest that one attempt may run, 1 ms to 30 days.
    #[serde(
        default,
        deserialize_with = "within::<_, 1, MAX_ATTEMPT_MS>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 1, max = MAX_ATTEMPT_MS))]
    pub timeout_ms: Option<u64>,
    /// A task that has not started so long after it was due is skipped, 1 ms to 30 days.
    #[serde(
        default,
        deserialize_with = "within::<_, 1, MAX_ATTEMPT_MS>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 1, max = MAX_ATTEMPT_MS))]
    pub expire_after_ms: Option<u64>,
    /// When and how often to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Labels that the executor must carry.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Place on the ring; by default the job's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
    /// Preferred zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// How an executor is chosen; by default the ring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// Handed to the handler with every attempt, so that it can be idempotent; may hold placeholders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub business_key: Option<String>,
    /// How many shards, 1-1024; by default 1.
    #[serde(
        default,
        alias = "shard_total",
        deserialize_with = "within::<_, 1, 1024>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 1, max = 1024))]
    pub shard_total: Option<u64>,
    /// Of a job without steps: what becomes of the other shards of a task when one has failed for good.
    #[serde(default, alias = "on_shard_failure", skip_serializing_if = "Option::is_none")]
    pub on_shard_failure: Option<OnShardFailure>,
    /// A workflow: at most 1,000 steps, which run in place of the job's own handler. A fire makes one run of all.
    #[serde(default, deserialize_with = "objects", skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepSpec>,
    /// Where to announce the end of each task.
    #[serde(default, alias = "callback_url", skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    /// How long a task is expected to take.
    #[serde(
        default,
        deserialize_with = "within::<_, 0, MAX_ATTEMPT_MS>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 0, max = MAX_ATTEMPT_MS))]
    pub estimated_duration_ms: Option<u64>,
    /// Take the job although no executor has registered its handler yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_unknown_handler: bool,
}

impl JobSpec {
    /// A job of this handler with every default, and no trigger.
    pub fn new(handler: impl Into<String>, params: Value) -> Self {
        JobSpec {
            job_id: None,
            title: String::new(),
            description: String::new(),
            handler: handler.into(),
            params: Strict(params),
            triggers: Vec::new(),
            calendars: Vec::new(),
            misfire: None,
            misfire_cap: None,
            misfire_grace_ms: None,
            overlap: None,
            max_running: None,
            priority: None,
            timeout_ms: None,
            expire_after_ms: None,
            retry: None,
            labels: BTreeMap::new(),
            routing_key: None,
            zone: None,
            strategy: None,
            business_key: None,
            shard_total: None,
            on_shard_failure: None,
            steps: Vec::new(),
            callback_url: None,
            estimated_duration_ms: None,
            allow_unknown_handler: false,
        }
    }

    /// The submission that would make one of its tasks: it is held to the same rules.
    pub fn submission(&self) -> Submit {
        Submit {
            priority: self.priority,
            timeout_ms: self.timeout_ms,
            retry: self.retry.clone(),
            labels: self.labels.clone(),
            routing_key: self.routing_key.clone(),
            zone: self.zone.clone(),
            strategy: self.strategy.clone(),
            business_key: self.business_key.clone(),
            shard_total: self.shard_total,
            on_shard_failure: self.on_shard_failure,
            callback_url: self.callback_url.clone(),
            estimated_duration_ms: self.estimated_duration_ms,
            allow_unknown_handler: self.allow_unknown_handler,
            ..Submit::new(self.handler.clone(), self.params.0.clone())
        }
    }
}

/// Pauses a job. An empty body pauses it without a note, and leaves the note of a job that is paused already.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PauseJob {
    /// Why, in a person's words; at most 4 KiB. An empty one takes away what was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Runs a job now. An empty body runs it as it would fire.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunJob {
    /// In place of the job's own parameters; may hold placeholders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Strict>,
    /// In place of the job's own overlap policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<crate::rest::words::OverlapPolicy>")]
    pub overlap: Option<OverlapPolicy>,
}

/// Makes up for a stretch of the past.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartBackfill {
    /// The first instant.
    pub from: Time,
    /// The last instant; not in the future.
    pub to: Time,
    /// Its own overlap policy; by default `queue`, under which one task follows the other and none is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<crate::rest::words::OverlapPolicy>")]
    pub overlap: Option<OverlapPolicy>,
}

/// A preview of a stored job. An empty body shows what comes from now on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PreviewJob {
    /// From when on, this instant included; now where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Time>,
    /// How many fires, 1-1,000; by default 10.
    #[serde(
        default,
        deserialize_with = "within::<_, 1, PREVIEW_LIMIT>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 1, max = PREVIEW_LIMIT))]
    pub count: Option<u64>,
}

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
