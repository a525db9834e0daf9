//! The entries of the calls that submit tasks and look after them.

use orloj_wire::problem::Code;
use orloj_wire::rest::{
    Attempts, Callbacks, Cancelled, LogPiece, MAX_LOG_PIECE, MAX_PAGE, MAX_WAIT_MS, Redelivering, Submit,
    SubmitBatch, Submitted, SubmittedBatch, Task, TaskGraph, TaskPage,
};
use serde_json::{Value, json};

use super::call::Call;
use super::schema::Nothing;

const TAG: &str = "tasks";
const TASK: &str = "tsk_AAECAwQFBgcICQoLDA0ODw";

/// The entries.
pub(super) fn calls() -> Vec<Call> {
    let mut calls = vec![submit(), batch(), sync(), list(), get(), cancel(), retry(), attempts()];
    calls.extend([logs(), graph(), callbacks(), redeliver()]);
    calls
}

fn number(min: u64, max: u64) -> Value {
    json!({ "type": "integer", "minimum": min, "maximum": max })
}

fn any_number() -> Value {
    number(0, u64::MAX)
}

fn handler_name() -> Value {
    json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$" })
}

/// Where a page begins: nobody but a replica can make one.
pub(super) fn page_token() -> Value {
    json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]+$" })
}

pub(super) fn idempotent(call: Call) -> Call {
    call.header(
        "Idempotency-Key",
        json!({ "type": "string", "pattern": "^(\"[A-Za-z0-9._:-]{1,128}\"|[A-Za-z0-9._:-]{1,128})$" }),
        "The same key with the same request answers the first one's task, with `Idempotency-Replayed: true`, for 24 \
         hours; with another request it is refused. It is part of what is signed.",
    )
}

fn submit() -> Call {
    let call = Call::new(TAG, "POST", "/openapi/v1/tasks", "Submit a task")
        .text("Answered after the commit: from then on the task is on the disks of a majority, and the next read finds it.")
        .takes::<Submit>(json!({
            "handler": "shell",
            "params": { "command": "echo hello" },
            "delayMs": 60_000,
            "retry": { "maxRetries": 2, "backoffMs": [10_000, 30_000], "jitterPct": 10, "maxLost": 3 },
            "businessKey": "report-2027-01-15",
        }))
        .answers::<Submitted>(202, "It was taken.", submitted())
        .refuses(&[
            Code::HandlerUnknown,
            Code::ExecutorDenied,
            Code::CallbackUrlNotAllowed,
            Code::IdempotencyKeyReused,
        ]);
    idempotent(call)
}

fn submitted() -> Value {
    json!({
        "taskId": TASK, "status": "PENDING", "version": 1, "createdAt": "2027-01-15T08:00:00.000Z",
        "dueAt": "2027-01-15T08:01:00.000Z", "appliedIndex": 4711,
    })
}

fn batch() -> Call {
    let call = Call::new(TAG, "POST", "/openapi/v1/tasks/batch", "Submit up to 1,000 tasks")
        .text(
            "Each submission stands for itself: some can be taken and others refused. The results are in the order of \
             the submissions. A body that cannot be read is refused as a whole. After `commit_unknown` any number of \
             the tasks may exist; the same request with the same `Idempotency-Key` makes the rest.",
        )
        .takes::<SubmitBatch>(json!({ "tasks": [
            { "handler": "shell", "params": { "command": "echo 1" } },
            { "handler": "no such handler", "params": {} },
        ] }))
        .answers::<SubmittedBatch>(200, "A result for each submission.", json!({
            "results": [
                { "status": 202, "task": submitted() },
                { "status": 422, "problem": {
                    "type": "urn:orloj:problem:validation_failed", "title": "A value is not acceptable", "status": 422,
                    "detail": "/handler: \"no such handler\": has the character ' '",
                    "instance": "urn:orloj:request:0123456789abcdef0123456789abcdef", "code": "validation_failed",
                    "errors": [{ "pointer": "/handler", "message": "\"no such handler\": has the character ' '" }],
                } },
            ],
            "appliedIndex": 4711,
        }));
    idempotent(call)
}

fn sync() -> Call {
    let mut open = task();
    let fields = open.as_object_mut().expect("a task is an object");
    for not_yet in ["result", "logTail", "finishedAt"] {
        fields.remove(not_yet);
    }
    fields.insert("status".to_owned(), json!("RUNNING"));
    fields.insert("shardsSucceeded".to_owned(), json!(0));
    fields.insert("shardsRunning".to_owned(), json!(1));
    fields.insert("attempts".to_owned(), json!([]));
    let call = Call::new(TAG, "POST", "/openapi/v1/tasks/sync", "Submit a short task and wait for its end")
        .text(
            "For what ends within 3 seconds: `estimatedDurationMs`, with the time until it is due, must be below \
             3,000; else submit it with `POST /openapi/v1/tasks`. The task is committed before the wait begins and goes \
             on whatever becomes of the connection. A key that was used on `POST /openapi/v1/tasks` is refused here with 422 \
             `idempotency_key_reused`, and the other way round: the path is part of the request that it stands for.",
        )
        .takes::<Submit>(json!({
            "handler": "shell", "params": { "command": "echo hello" }, "estimatedDurationMs": 200,
        }))
        .answers::<Task>(200, "It has ended: see its `status`.", task())
        .answers::<Task>(202, "It has not ended within 3 seconds: the task as it stood, to be read at `Location`.", open)
        .refuses(&[
            Code::SyncDurationTooLong,
            Code::HandlerUnknown,
            Code::ExecutorDenied,
            Code::CallbackUrlNotAllowed,
            Code::IdempotencyKeyReused,
            Code::TooManyWaiters,
        ]);
    idempotent(call)
}

fn list() -> Call {
    let statuses = json!({ "type": "string", "enum": ["PENDING", "RUNNING", "SUCCESS", "FAILED", "CANCELLED", "SKIPPED"] });
    let mut task = task();
    for left_out in ["params", "result", "logTail", "attempts"] {
        task.as_object_mut().expect("a task is an object").remove(left_out);
    }
    Call::new(TAG, "GET", "/openapi/v1/tasks", "List tasks, newest first")
        .text("In a list, `params`, `attempts`, `result` and `logTail` are left out. A page may be short although more follow.")
        .query("status", statuses, "Only tasks with this status.")
        .query("handler", handler_name(), "Only tasks of this handler.")
        .query("page_size", number(1, MAX_PAGE as u64), "How many, at most; 20 when absent.")
        .query("page_token", page_token(), "`nextPageToken` of the page before, with the same filters.")
        .answers::<TaskPage>(200, "A page.", json!({
            "tasks": [task], "nextPageToken": "djEuMTIz", "appliedIndex": 4711,
        }))
}

fn get() -> Call {
    Call::new(TAG, "GET", "/openapi/v1/tasks/{taskId}", "Show a task, at once or as soon as it has changed")
        .text(
            "With `after_version` and `wait_ms` it is a long poll. `ETag` stands for everything that is shown: a \
             callback, and what is heard late of an attempt, do not change the version.",
        )
        .query("after_version", any_number(), "Answer as soon as the version is above this.")
        .query("wait_ms", number(0, MAX_WAIT_MS), "How long to wait for that, in ms; needs `after_version`.")
        .if_none_match()
        .answers::<Task>(200, "The task.", task())
        .answers_empty(304, "It is still the one that `If-None-Match` names.")
        .refuses(&[Code::TaskNotFound, Code::TooManyWaiters])
}

fn cancel() -> Call {
    let cancelled = |status: &str, requested: bool| {
        json!({
            "taskId": TASK, "status": status, "cancelRequested": requested, "version": 3, "appliedIndex": 4711,
        })
    };
    Call::new(TAG, "POST", "/openapi/v1/tasks/{taskId}/cancel", "Cancel a task")
        .may_take::<Nothing>(json!({}))
        .answers::<Cancelled>(200, "It is cancelled.", cancelled("CANCELLED", false))
        .answers::<Cancelled>(
            202,
            "Its executor has been asked to stop it; it may still end in another way.",
            cancelled("RUNNING", true),
        )
        .refuses(&[Code::TaskNotFound, Code::TaskAlreadyTerminal])
}

fn retry() -> Call {
    let call = Call::new(TAG, "POST", "/openapi/v1/tasks/{taskId}/retry", "Submit a task that did not succeed again")
        .text(
            "A new task with what was asked for and every try ahead of it, due at once; its `retryOf` points back. A \
             job does not count it among its own. Not of a task that has succeeded or not ended, nor of one that its \
             parents would skip again or whose parents are gone, nor of a step or a run of a workflow: a job is run \
             again as a whole.",
        )
        .may_take::<Nothing>(json!({}))
        .answers::<Submitted>(202, "It was taken.", submitted())
        .refuses(&[
            Code::TaskNotFound,
            Code::Conflict,
            Code::HandlerUnknown,
            Code::ExecutorDenied,
            Code::CallbackUrlNotAllowed,
            Code::IdempotencyKeyReused,
        ]);
    idempotent(call)
}

fn attempts() -> Call {
    Call::new(TAG, "GET", "/openapi/v1/tasks/{taskId}/attempts", "Show every attempt of a task")
        .answers::<Attempts>(
            200,
            "The attempts that are kept, oldest first within a shard.",
            json!({
                "taskId": TASK, "attempts": [attempt()], "version": 3, "appliedIndex": 4711,
            }),
        )
        .refuses(&[Code::TaskNotFound])
}

fn logs() -> Call {
    Call::new(TAG, "GET", "/openapi/v1/tasks/{taskId}/logs", "Read a piece of an attempt's log")
        .text("Comes live from the executor that holds it; when that cannot be reached, from the end that the task keeps.")
        .query("offset", any_number(), "Where to begin, in bytes; 0 when absent.")
        .query("limit", number(4, MAX_LOG_PIECE.into()), "How many bytes, at most; 65,536 when absent.")
        .query("wait_ms", number(0, 20_000), "How long to wait for more while the attempt runs, in ms.")
        .query("attempt", number(1, u32::MAX.into()), "The attempt; the newest when absent.")
        .query("shard_index", number(0, 1023), "The shard; 0 when absent.")
        .answers::<LogPiece>(200, "A piece, which may be empty.", json!({
            "taskId": TASK, "shardIndex": 0, "attempt": 1, "offset": 0, "text": "hello\n", "nextOffset": 6,
            "complete": true, "source": "executor",
        }))
        .refuses(&[Code::TaskNotFound, Code::NotFound, Code::TooManyWaiters])
}

fn graph() -> Call {
    let node = |id: &str, status: &str| {
        json!({
            "taskId": id, "role": "task", "handler": "shell", "status": status, "createdAt": "2027-01-15T08:00:00.000Z",
            "shardTotal": 1, "shardsSucceeded": 0, "shardsRunning": 0, "shardsFailed": 0,
        })
    };
    let parent = "tsk_AQECAwQFBgcICQoLDA0ODw";
    Call::new(TAG, "GET", "/openapi/v1/tasks/{taskId}/graph", "Show who waits for whom around a task")
        .text("Of a run or one of its steps the whole run, of any other task all that it reaches, nearest first.")
        .answers::<TaskGraph>(200, "The tasks and who waits for whom.", json!({
            "taskId": TASK, "nodes": [node(TASK, "PENDING"), node(parent, "RUNNING")],
            "edges": [{ "parent": parent, "child": TASK, "on": "success" }],
            "truncated": false, "appliedIndex": 4711,
        }))
        .refuses(&[Code::TaskNotFound])
}

fn callbacks() -> Call {
    Call::new(TAG, "GET", "/openapi/v1/tasks/{taskId}/callbacks", "Show where a task's callback stands")
        .answers::<Callbacks>(
            200,
            "The callback and its newest sends.",
            json!({
                "callback": { "url": "https://hooks.example.com/orloj", "state": "delivered", "sends": 1 },
                "sends": [{
                    "delivery": 1, "number": 1, "sentAt": "2027-01-15T08:01:00.035Z",
                    "endedAt": "2027-01-15T08:01:00.052Z", "delivered": true, "status": 204,
                }],
                "appliedIndex": 4711,
            }),
        )
        .refuses(&[Code::TaskNotFound])
}

fn redeliver() -> Call {
    Call::new(
        TAG,
        "POST",
        "/openapi/v1/tasks/{taskId}/callbacks/redeliver",
        "Deliver the callback of an ended task again",
    )
    .may_take::<Nothing>(json!({}))
    .answers::<Redelivering>(
        202,
        "It is in the outbox again, with four sends before it.",
        json!({ "taskId": TASK, "state": "pending" }),
    )
    .refuses(&[Code::TaskNotFound, Code::Conflict])
}

fn attempt() -> Value {
    json!({
        "shardIndex": 0, "attempt": 1, "executorId": "executor-1", "incarnation": 3, "round": 7, "fence": 4708,
        "grantedAt": "2027-01-15T08:01:00.004Z", "startedAt": "2027-01-15T08:01:00.006Z",
        "endedAt": "2027-01-15T08:01:00.031Z", "outcome": "succeeded",
    })
}

fn task() -> Value {
    json!({
        "taskId": TASK, "handler": "shell", "status": "SUCCESS", "cancelRequested": false, "version": 3, "attempt": 1,
        "priority": 5, "createdAt": "2027-01-15T08:00:00.000Z", "updatedAt": "2027-01-15T08:01:00.031Z",
        "dueAt": "2027-01-15T08:01:00.000Z", "startedAt": "2027-01-15T08:01:00.004Z",
        "finishedAt": "2027-01-15T08:01:00.031Z",
        "retry": { "maxRetries": 2, "backoffMs": [10_000, 30_000], "jitterPct": 10, "maxLost": 3 },
        "strategy": "ring", "businessKey": "report-2027-01-15", "shardTotal": 1, "shardsSucceeded": 1,
        "shardsRunning": 0, "shardsFailed": 0, "params": { "command": "echo hello" }, "result": { "exitCode": 0 }, "logTail": "hello\n",
        "attempts": [attempt()], "appliedIndex": 4711,
    })
}
