//! The bodies of a submission of many tasks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Submit, Submitted};
use crate::json::objects;
use crate::problem::Problem;

/// The most tasks of one batch.
pub const BATCH_LIMIT: usize = 1_000;
/// The largest body of a batch, in bytes.
pub const BATCH_BODY_LIMIT: usize = 4 * 1024 * 1024;

/// Many submissions in one request. Each stands for itself: some can be taken and others refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubmitBatch {
    /// 1-1,000 submissions.
    #[serde(deserialize_with = "objects")]
    pub tasks: Vec<Submit>,
}

/// The answer to a batch: 200, with a result for each submission, in their order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubmittedBatch {
    /// As many as there were submissions.
    pub results: Vec<BatchResult>,
    /// The log index up to which the answering replica had applied.
    pub applied_index: u64,
}

/// What became of one submission of a batch: a task, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchResult {
    /// The HTTP status that the submission would have had by itself: 202 when it was taken.
    pub status: u16,
    /// The task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Submitted>,
    /// The task is that of an earlier request with the same Idempotency-Key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
    /// Why it was not taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}
