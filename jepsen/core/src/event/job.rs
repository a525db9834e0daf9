//! Jobs: what was asked of them, and what the tables say became of their instants.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Submit;

/// When a job fires, as far as it is judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Fires {
    /// At the anchor, and every so often from there.
    #[serde(rename_all = "camelCase")]
    FixedRate {
        /// In ms.
        every_ms: u64,
        /// In ms since the epoch.
        anchor_ms: i64,
    },
    /// By an expression of six fields in UTC of which only those for seconds, minutes and hours say anything.
    Cron {
        /// Numbers, ranges, steps, lists and `*`.
        expression: String,
    },
    /// So long after the last task has ended.
    #[serde(rename_all = "camelCase")]
    FixedDelay {
        /// In ms.
        delay_ms: u64,
    },
    /// At one instant.
    #[serde(rename_all = "camelCase")]
    Once {
        /// In ms since the epoch.
        at_ms: i64,
    },
}

/// A job was created, and acknowledged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobPut {
    /// Its id.
    pub job: String,
    /// When it fires: whatever any of these says.
    pub fires: Vec<Fires>,
    /// Each fire is due up to so much after its instant, in ms.
    pub jitter_ms: u64,
    /// `skip`, `fireOnce` or `fireAll`.
    pub misfire: String,
    /// An instant that is late by at most so much is in time, in ms.
    pub grace_ms: u64,
    /// `allow`, `skip`, `queue` or `cancelOther`.
    pub overlap: String,
    /// How many of its tasks may run at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_running: Option<u64>,
    /// Its first instant is later than this, in ms since the epoch.
    pub after_ms: i64,
    /// What each of its tasks is, as a submission of it would have been.
    pub task: Submit,
}

/// A job was told to fire no more, and that was acknowledged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobStopped {
    /// Its id.
    pub job: String,
    /// The wall clock of the harness, ms since the epoch, which nothing steps.
    pub wall_ms: i64,
    /// When that took effect, by the cluster, as the acknowledgement says; absent where nobody told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done_at_ms: Option<i64>,
}

/// One job of the table of one replica at the end of the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FinalJob {
    /// Its id.
    pub job: String,
    /// Fires of its triggers, oldest first.
    pub fired: Vec<FiredRow>,
    /// Skipped instants, oldest first.
    pub skipped: Vec<SkippedRow>,
    /// Its history has forgotten nothing.
    pub whole: bool,
    /// How many tasks it says that it has made.
    pub fired_count: u64,
    /// How many instants it says that it has skipped, by reason.
    pub skipped_count: BTreeMap<String, u64>,
}

/// An instant that made a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FiredRow {
    /// The instant, in ms since the epoch.
    pub scheduled_at_ms: i64,
    /// The task.
    pub task: String,
    /// When it was made, by the cluster; absent where nobody told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made_at_ms: Option<i64>,
}

/// Instants that made none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SkippedRow {
    /// Why.
    pub reason: String,
    /// How many.
    pub count: u64,
    /// There were no more than `count`.
    pub exact: bool,
    /// The first, in ms since the epoch.
    pub first_ms: i64,
    /// The last, in ms since the epoch.
    pub last_ms: i64,
}
