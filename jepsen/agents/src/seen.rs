//! A task of the API as a history tells it.

use orloj_jepsen_core::event::{AttemptRow, CallbackState, FinalTask, TaskSeen};
use orloj_wire::rest;
use serde_json::Value;

use crate::digest::digest;

/// A task as an answer shows it. In a list the result is left out, and so is its digest.
pub fn task(task: &rest::Task) -> TaskSeen {
    TaskSeen {
        task_id: task.task_id.clone(),
        status: task.status.clone(),
        reason: task.reason.clone(),
        version: task.version,
        attempt: task.attempt,
        cancel_requested: task.cancel_requested,
        result_digest: task.result.as_ref().map(digest),
        error_code: task.error.as_ref().map(|error| error.code.clone()),
        created_at_ms: Some(task.created_at.0),
        due_at_ms: Some(task.due_at.0),
        finished_at_ms: task.finished_at.map(|time| time.0),
        callback: task.callback.as_ref().map(callback),
    }
}

fn callback(callback: &rest::Callback) -> CallbackState {
    CallbackState {
        state: callback.state.clone(),
        sends: callback.sends.into(),
        next_at_ms: callback.next_at.map(|time| time.0),
        last_error: callback.last_error_kind.clone(),
    }
}

/// The answer to a submission.
pub fn submitted(answer: &rest::Submitted) -> TaskSeen {
    TaskSeen {
        task_id: answer.task_id.clone(),
        status: answer.status.clone(),
        version: answer.version,
        created_at_ms: Some(answer.created_at.0),
        due_at_ms: Some(answer.due_at.0),
        ..TaskSeen::default()
    }
}

/// The answer to a cancel.
pub fn cancelled(answer: &rest::Cancelled) -> TaskSeen {
    TaskSeen {
        task_id: answer.task_id.clone(),
        status: answer.status.clone(),
        version: answer.version,
        cancel_requested: answer.cancel_requested,
        ..TaskSeen::default()
    }
}

/// A task of a replica's own table. `idempotency_key` stands beside the task there.
pub fn final_task(shown: &rest::Task, idempotency_key: Option<String>) -> FinalTask {
    FinalTask {
        task: task(shown),
        label: shown.params.as_ref().and_then(label),
        idempotency_key,
        shard_total: shown.shard_total.into(),
        results: if shown.shard_total > 1 { results(shown.result.as_ref()) } else { Vec::new() },
        attempts: shown.attempts.iter().flatten().map(row).collect(),
    }
}

/// The digest of what each shard returned.
fn results(result: Option<&Value>) -> Vec<String> {
    result.and_then(Value::as_array).into_iter().flatten().map(digest).collect()
}

/// The label in a task's parameters: a field of its own, or of the address that an effect goes to.
pub fn label(params: &Value) -> Option<String> {
    if let Some(label) = params.get("label").and_then(Value::as_str) {
        return Some(label.to_owned());
    }
    let (_, query) = params.get("url")?.as_str()?.split_once('?')?;
    query.split('&').find_map(|pair| pair.strip_prefix("label=")).map(str::to_owned)
}

fn row(attempt: &rest::Attempt) -> AttemptRow {
    AttemptRow {
        shard: attempt.shard_index,
        attempt: attempt.attempt,
        executor: attempt.executor_id.clone(),
        incarnation: attempt.incarnation,
        round: attempt.round,
        fence: attempt.fence,
        granted_at_ms: attempt.granted_at.0,
        ended_at_ms: attempt.ended_at.map(|time| time.0),
        outcome: attempt.outcome.clone(),
        late_outcome: attempt.late_outcome.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_label_is_found_in_parameters_and_in_an_address() {
        assert_eq!(label(&json!({"label": "c1-4"})), Some("c1-4".to_owned()));
        assert_eq!(label(&json!({"url": "http://a/effect?x=1&label=c1-5"})), Some("c1-5".to_owned()));
        assert_eq!(label(&json!({"command": "true"})), None);
    }

    #[test]
    fn a_task_keeps_what_is_judged() {
        let shown: rest::Task = serde_json::from_value(json!({
            "taskId": "tsk_1", "handler": "mock", "status": "SUCCESS", "version": 4, "priority": 5,
            "cancelRequested": false, "appliedIndex": 9, "shardTotal": 1, "attempt": 1, "strategy": "ring",
            "createdAt": "2026-01-01T00:00:00.000Z", "updatedAt": "2026-01-01T00:00:01.000Z",
            "dueAt": "2026-01-01T00:00:00.000Z", "finishedAt": "2026-01-01T00:00:01.000Z",
            "retry": rest::Retry::default(), "shardsSucceeded": 1, "shardsRunning": 0,
            "params": {"label": "c1-4"}, "result": {"label": "c1-4", "attempt": 1},
            "attempts": [{"shardIndex": 0, "attempt": 1, "executorId": "e1", "incarnation": 7, "round": 3,
                "fence": 8, "grantedAt": "2026-01-01T00:00:00.500Z", "outcome": "succeeded"}],
        }))
        .unwrap();
        let kept = final_task(&shown, Some("k".to_owned()));
        assert_eq!(kept.task.result_digest, Some(digest(&json!({"attempt": 1, "label": "c1-4"}))));
        assert_eq!(kept.task.finished_at_ms.unwrap() - kept.task.due_at_ms.unwrap(), 1_000);
        assert_eq!((kept.label.as_deref(), kept.attempts[0].fence), (Some("c1-4"), 8));
        assert_eq!((kept.shard_total, kept.results.len()), (1, 0), "a result that is no list of shards");
        let of_shards = rest::Task { shard_total: 2, result: Some(json!([{"shard": 0}, null])), ..shown };
        let kept = final_task(&of_shards, None);
        assert_eq!(kept.results, [digest(&json!({"shard": 0})), digest(&Value::Null)]);
    }
}
