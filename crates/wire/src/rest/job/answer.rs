//! What the calls on jobs and calendars answer.

use std::collections::BTreeMap;

use orloj_model::trigger::overlap::OverlapPolicy;
use orloj_model::trigger::{DstEffect, SkipReason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::JobSpec;
use crate::json::read_object;
use crate::problem::FieldError;
use crate::rest::trigger::CalendarSpec;
use crate::time::Time;

/// A job. In a list, the definition is without its `params`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// Its id.
    pub job_id: String,
    /// Grows by one with every edit, from 1, or from above every version that its caller has deleted.
    pub version: u64,
    /// When it was created.
    pub created_at: Time,
    /// When it was last edited.
    pub updated_at: Time,
    /// What its owner wrote, with every default spelled out: what a replacement takes. A value, so that a field
    /// that a newer server adds is passed on.
    pub definition: Value,
    /// Where it stands.
    pub state: JobState,
    /// The log index up to which the answering replica had applied.
    pub applied_index: u64,
}

impl Job {
    /// The definition as it can be sent again.
    ///
    /// # Errors
    /// The server knows fields that this release does not.
    pub fn spec(&self) -> Result<JobSpec, FieldError> {
        read_object(self.definition.to_string().as_bytes())
    }
}

/// Where a job stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobState {
    /// Why and since when it is paused; absent when it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// Its next fire; absent where there is none, and for the instant in which the leader looks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_fire: Option<NextFire>,
    /// Its tasks that have not ended.
    pub open_tasks: u32,
    /// The one of them that waits for the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_task: Option<String>,
    /// A backfill is under way.
    pub backfilling: bool,
    /// What became of its instants.
    pub counts: JobCounts,
}

/// A pause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Paused {
    /// In a person's words.
    pub note: String,
    /// Since when.
    pub since: Time,
}

/// A fire that is to come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NextFire {
    /// The instant that it stands for.
    pub scheduled_at: Time,
    /// When it is due: `scheduledAt` and the jitter.
    pub due_at: Time,
    /// `scheduledAt` in the trigger's zone.
    pub local: String,
    /// What a clock change does to it.
    #[schemars(with = "Option<crate::rest::words::DstEffect>")]
    pub dst: Option<DstEffect>,
}

/// What became of a job's instants, since it was created.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobCounts {
    /// Tasks that were made, by whatever cause.
    pub fired: u64,
    /// Instants that made none because nobody was there in time.
    pub missed: u64,
    /// Instants that made none, by reason; those that were missed are among them.
    pub skipped: BTreeMap<String, u64>,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobPage {
    /// By id.
    pub jobs: Vec<Job>,
    /// For the next page; absent on the last one. Good for an hour, for the same caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
    /// The log index up to which the answering replica had applied.
    pub applied_index: u64,
}

/// The answer to a run: the task that it made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobRun {
    /// The job.
    pub job_id: String,
    /// The task.
    pub task_id: String,
    /// It waits until the job's other tasks have ended. Of a repeated run it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<bool>,
    /// The log index up to which the answering replica had applied.
    pub applied_index: u64,
}

/// What putting a job would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum JobChange {
    /// There is no such job yet.
    Create,
    /// The job is another one.
    Replace,
    /// The job is so already.
    None,
}

/// The answer to a check: the job is acceptable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobChecked {
    /// The job.
    pub job_id: String,
    /// What putting it would do.
    pub change: JobChange,
    /// The version that is there; 0 for none.
    pub version: u64,
    /// Handlers of its tasks that no executor has at the moment: such tasks wait for one.
    pub unknown_handlers: Vec<String>,
    /// The log index up to which the answering replica had applied.
    pub applied_index: u64,
}

/// The answer to a deletion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobDeleted {
    /// The job.
    pub job_id: String,
    /// The log index up to which the answering replica had applied.
    pub applied_index: u64,
}

/// A backfill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Backfill {
    /// The job.
    pub job_id: String,
    /// The first instant.
    pub from: Time,
    /// The last instant.
    pub to: Time,
    /// Its own overlap policy.
    #[schemars(with = "crate::rest::words::OverlapPolicy")]
    pub overlap: OverlapPolicy,
    /// Every instant from `from` up to this one is done; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<Time>,
    /// Tasks that it has made.
    pub fired: u64,
    /// Instants that it has skipped.
    pub skipped: u64,
    /// It goes on.
    pub running: bool,
    /// When it began.
    pub created_at: Time,
    /// The log index up to which the answering replica had applied.
    pub applied_index: u64,
}

/// A page of a job's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryPage {
    /// The job.
    pub job_id: String,
    /// What became of all its instants, also of those whose entries are not kept any more.
    pub counts: JobCounts,
    /// Newest first; the newest 1,000 are kept.
    pub entries: Vec<HistoryEntry>,
    /// For the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
    /// The log index up to which the answering replica had applied.
    pub applied_index: u64,
}

/// One entry of a job's history; which of the fields it has follows from `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// Counted from 1.
    pub number: u64,
    /// When it was written, in the cluster's time.
    pub at: Time,
    /// `fired`, `skipped` or `backfilled`.
    pub kind: String,
    /// What made the task, or would have: `trigger`, `run` or `backfill`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Of a fire: the instant that it stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_at: Option<Time>,
    /// Of a fire: the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Of a fire: the task waited for the open ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<bool>,
    /// Of what was skipped: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<crate::rest::words::SkipReason>")]
    pub reason: Option<SkipReason>,
    /// Of what was skipped: how many instants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Of what was skipped: `false` when there were more than `count`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact: Option<bool>,
    /// Of what was skipped: the first instant. Of a backfill: where it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Time>,
    /// Of what was skipped: the last instant. Of a backfill: where it was to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Time>,
    /// Of a backfill: up to where it came; absent where it made no step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<Time>,
    /// Of a backfill: tasks that it made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fired: Option<u64>,
    /// Of a backfill: instants that it skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u64>,
}

/// A calendar.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Calendar {
    /// Its name.
    pub name: String,
    /// Grows by one with every edit, from 1, or from above every version that its caller has deleted.
    pub version: u64,
    /// When it was created.
    pub created_at: Time,
    /// When it was last edited.
    pub updated_at: Time,
    /// Which days it excludes: what a replacement takes. A value, so that a field that a newer server adds is
    /// passed on.
    pub calendar: Value,
    /// The log index up to which the answering replica had applied.
    pub applied_index: u64,
}

impl Calendar {
    /// The days as they can be sent again.
    ///
    /// # Errors
    /// The server knows fields that this release does not.
    pub fn spec(&self) -> Result<CalendarSpec, FieldError> {
        read_object(self.calendar.to_string().as_bytes())
    }
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CalendarPage {
    /// By name.
    pub calendars: Vec<Calendar>,
    /// For the next page; absent on the last one. Good for an hour, for the same caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
    /// The log index up to which the answering replica had applied.
    pub applied_index: u64,
}

/// The answer to a deletion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CalendarDeleted {
    /// The calendar.
    pub name: String,
    /// The log index up to which the answering replica had applied.
    pub applied_index: u64,
}
