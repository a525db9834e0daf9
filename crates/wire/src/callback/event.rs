//! What a callback carries.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rest::TaskError;
use crate::time::Time;

/// The largest body, in bytes.
pub const BODY_LIMIT: usize = 20 * 1024;
/// The longest message of an error, in bytes.
const MESSAGE_LIMIT: usize = 2_000;

/// The body of a callback.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// `task.succeeded`, `task.failed`, `task.cancelled` or `task.skipped`.
    #[serde(rename = "type")]
    pub kind: String,
    /// When the task ended.
    pub timestamp: Time,
    /// The task.
    pub data: EventTask,
}

/// A task that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventTask {
    /// The task, `tsk_…`.
    pub task_id: String,
    /// What it ran.
    pub handler: String,
    /// `SUCCESS`, `FAILED`, `CANCELLED` or `SKIPPED`.
    pub status: String,
    /// Why, where there is more to say than the status does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its version when it ended.
    pub version: u64,
    /// The number of its newest attempt; 0 when it had none.
    pub attempt: u32,
    /// When it was submitted.
    pub created_at: Time,
    /// When its first attempt was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// The caller's own name for what the task is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub business_key: Option<String>,
    /// What the handler returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The result is too large for a callback: read the task.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub result_truncated: bool,
    /// Why it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TaskError>,
}

/// The type of the event that a task has ended with this status.
pub fn event_type(status: &str) -> String {
    let end = match status {
        "SUCCESS" => "succeeded".to_owned(),
        other => other.to_ascii_lowercase(),
    };
    format!("task.{end}")
}

impl Event {
    /// The bytes that are signed and sent, at most [`BODY_LIMIT`]: a result that does not fit is left out.
    pub fn encode(mut self) -> Vec<u8> {
        if let Some(message) = self.data.error.as_mut().and_then(|error| error.message.as_mut()) {
            message.truncate(message.floor_char_boundary(MESSAGE_LIMIT));
        }
        let bytes = self.to_json();
        if bytes.len() <= BODY_LIMIT {
            return bytes;
        }
        self.data.result = None;
        self.data.result_truncated = true;
        self.to_json()
    }

    fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a struct with string keys serialises")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(result: Value, message: &str) -> Event {
        Event {
            kind: event_type("FAILED"),
            timestamp: Time(1_800_000_000_000),
            data: EventTask {
                task_id: "tsk_AAECAwQFBgcICQoLDA0ODw".into(),
                handler: "h".repeat(128),
                status: "FAILED".into(),
                reason: None,
                version: u64::MAX,
                attempt: u32::MAX,
                created_at: Time(0),
                started_at: Some(Time(0)),
                finished_at: Some(Time(0)),
                business_key: Some("é".repeat(128)),
                result: Some(result),
                result_truncated: false,
                error: Some(TaskError { code: "failed".into(), message: Some(message.into()) }),
            },
        }
    }

    #[test]
    fn a_body_is_bounded_whatever_the_task_left_behind() {
        let small = event(Value::from(7), "boom").encode();
        let back: Event = serde_json::from_slice(&small).expect("JSON");
        assert_eq!((back.data.result, back.data.result_truncated), (Some(Value::from(7)), false));
        for message in ["\u{1}".repeat(4096), "é".repeat(4096), String::new()] {
            let large = event(Value::from("x".repeat(65_536)), &message).encode();
            assert!(large.len() <= BODY_LIMIT, "{}", large.len());
            let back: Event = serde_json::from_slice(&large).expect("JSON");
            assert_eq!((back.data.result, back.data.result_truncated), (None, true));
        }
    }

    #[test]
    fn types_are_named_after_the_end() {
        for (status, expected) in [
            ("SUCCESS", "task.succeeded"),
            ("FAILED", "task.failed"),
            ("CANCELLED", "task.cancelled"),
            ("SKIPPED", "task.skipped"),
        ] {
            assert_eq!(event_type(status), expected);
        }
    }
}
