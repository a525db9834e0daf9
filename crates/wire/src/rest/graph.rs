//! The graph of tasks around one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::DependsOnEnd;
use crate::time::Time;

/// The most tasks that one answer shows beside the one that was asked for.
pub const GRAPH_LIMIT: usize = 1_000;

/// The answer to `GET /openapi/v1/tasks/{taskId}/graph`: of a run or one of its steps the whole run, of any other task
/// everything that it reaches over parents and children, nearest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskGraph {
    /// The task that was asked for.
    pub task_id: String,
    /// The tasks.
    pub nodes: Vec<GraphNode>,
    /// Who waits for whom, among those.
    pub edges: Vec<GraphEdge>,
    /// There is more than one answer shows (1,001 tasks, 20,000 parents and children, 32 MiB of parameters to read over): ask
    /// for the graph of one of these.
    pub truncated: bool,
    /// The log index up to which the answering replica had applied.
    pub applied_index: u64,
}

/// A task of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GraphNode {
    /// The task, `tsk_…`.
    pub task_id: String,
    /// `task`, `run` or `step`.
    pub role: String,
    /// Of a step: its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// What it runs.
    pub handler: String,
    /// Where it stands.
    pub status: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it was created.
    pub created_at: Time,
    /// When its first attempt was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// How many shards it has; of a run, steps.
    pub shard_total: u16,
    /// Those that succeeded; of a run also those that were not needed.
    pub shards_succeeded: u16,
    /// Those that run; of a run those that have not ended.
    pub shards_running: u16,
    /// Those that failed for good.
    pub shards_failed: u16,
}

/// One task waits for another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GraphEdge {
    /// The one that is waited for.
    pub parent: String,
    /// The one that waits.
    pub child: String,
    /// For which end of it.
    pub on: DependsOnEnd,
    /// Whether it ended so; absent while it has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
}
