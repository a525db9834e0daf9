//! Callbacks as the API shows them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// Where the callback of a task stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Callback {
    /// Where it goes.
    pub url: String,
    /// `waiting` until the task has ended, then `pending`, and `delivered` or `failed` in the end.
    pub state: String,
    /// Sends of the present delivery, at most 4.
    pub sends: u8,
    /// When the next send is due, while it is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Time>,
    /// Why the last send failed: `dns`, `blocked`, `connect`, `tls`, `timeout`, `status`, `secret` or `unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error_kind: Option<String>,
}

/// One send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallbackSend {
    /// 1 for the first delivery, one more for each that was asked for since.
    pub delivery: u32,
    /// 1-4 within the delivery.
    pub number: u8,
    /// When it was sent.
    pub sent_at: Time,
    /// When its end was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// Whether it was answered with a 2xx; absent while that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered: Option<bool>,
    /// The answer's status, where there was an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// As `lastErrorKind`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<String>,
}

/// The answer to `GET tasks/{id}/callbacks`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Callbacks {
    /// The callback; `null` of a task without an address for it.
    pub callback: Option<Callback>,
    /// The newest sends, oldest first.
    pub sends: Vec<CallbackSend>,
    /// The log index up to which the answering replica had applied.
    pub applied_index: u64,
}

/// The answer to `POST tasks/{id}/callbacks/redeliver`: 202.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Redelivering {
    /// The task, `tsk_…`.
    pub task_id: String,
    /// `pending`.
    pub state: String,
}
