//! Callbacks, from records to bodies.

use orloj_model::callback::{Callback, Send, SendOutcome};
use orloj_model::query::TaskView;
use orloj_wire::callback::{Event, EventTask, event_type};
use orloj_wire::rest;
use orloj_wire::time::Time;

use super::{Detail, task};

/// Where a callback stands.
pub fn callback(row: &Callback) -> rest::Callback {
    rest::Callback {
        url: row.url.clone(),
        state: row.stage.name().to_owned(),
        sends: row.sent,
        next_at: row.next_at.map(Time),
        last_error_kind: row.sends.iter().rev().find_map(|send| send.outcome).and_then(error_kind),
    }
}

/// What became of its sends.
pub fn callback_sends(row: &Callback) -> Vec<rest::CallbackSend> {
    row.sends.iter().map(send).collect()
}

fn send(send: &Send) -> rest::CallbackSend {
    let status = match send.outcome {
        Some(SendOutcome::Delivered { status }) => Some(status),
        Some(SendOutcome::Failed { status, .. }) => status,
        None => None,
    };
    rest::CallbackSend {
        delivery: send.series,
        number: send.number,
        sent_at: Time(send.started_at),
        ended_at: send.ended_at.map(Time),
        delivered: send.outcome.map(|outcome| matches!(outcome, SendOutcome::Delivered { .. })),
        status,
        error_kind: send.outcome.and_then(error_kind),
    }
}

fn error_kind(outcome: SendOutcome) -> Option<String> {
    match outcome {
        SendOutcome::Delivered { .. } => None,
        SendOutcome::Failed { kind, .. } => Some(kind.name().to_owned()),
    }
}

/// The body of the callback of a task that has ended.
pub fn event(view: &TaskView) -> Event {
    let shown = task(view, Detail::Whole, 0);
    Event {
        kind: event_type(&shown.status),
        timestamp: shown.finished_at.unwrap_or(shown.updated_at),
        data: EventTask {
            task_id: shown.task_id,
            handler: shown.handler,
            status: shown.status,
            reason: shown.reason,
            version: shown.version,
            attempt: shown.attempt,
            created_at: shown.created_at,
            started_at: shown.started_at,
            finished_at: shown.finished_at,
            business_key: shown.business_key,
            result: shown.result,
            result_truncated: false,
            error: shown.error,
        },
    }
}
