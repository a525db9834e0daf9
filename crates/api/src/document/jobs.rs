//! The entries of the calls on jobs.

use orloj_wire::problem::Code;
use orloj_wire::rest::MAX_PAGE;
use orloj_wire::rest::job::{
    Backfill, HistoryPage, Job, JobChecked, JobDeleted, JobPage, JobRun, JobSpec, PauseJob, PreviewJob,
    RunJob, StartBackfill,
};
use orloj_wire::rest::preview::{PreviewAnswer, PreviewRequest};
use serde_json::{Value, json};

use super::call::Call;
use super::schema::{JobPatch, Nothing};
use super::tasks::{idempotent, page_token};

const TAG: &str = "jobs";
const JOB: &str = "/openapi/v1/jobs/{jobId}";

/// The entries.
pub(super) fn calls() -> Vec<Call> {
    let mut calls = vec![create(), list(), preview_triggers(), get(), replace(), patch(), delete()];
    calls.extend([pause(), resume(), run(), preview(), check(), history()]);
    calls.extend([start_backfill(), get_backfill(), stop_backfill()]);
    calls
}

pub(super) fn guarded(call: Call, what: &str) -> Call {
    let text = format!(
        "The version that {what} must have, which is signed as every parameter is; 0: there must be none."
    );
    call.query("version", json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX }), &text)
}

pub(super) fn paged(call: Call) -> Call {
    let size = json!({ "type": "integer", "minimum": 1, "maximum": MAX_PAGE });
    call.query("page_size", size, "How many, at most; 20 when absent.").query(
        "page_token",
        page_token(),
        "`nextPageToken` of the page before.",
    )
}

fn create() -> Call {
    let mut example = spec();
    example["jobId"] = json!("nightly");
    Call::new(TAG, "POST", "/openapi/v1/jobs", "Create a job")
        .takes::<JobSpec>(example)
        .answers::<Job>(201, "It was created.", job())
        .refuses(&[
            Code::JobExists,
            Code::ExecutorDenied,
            Code::HandlerUnknown,
            Code::CallbackUrlNotAllowed,
            Code::Conflict,
        ])
}

fn list() -> Call {
    let mut listed = job();
    listed["definition"].as_object_mut().expect("a definition is an object").remove("params");
    let page = json!({ "jobs": [listed], "nextPageToken": "djEuMTIz", "appliedIndex": 4711 });
    paged(Call::new(TAG, "GET", "/openapi/v1/jobs", "List jobs, by id"))
        .text("In a list, a definition is without its `params`.")
        .answers::<JobPage>(200, "A page.", page)
}

fn preview_triggers() -> Call {
    Call::new(TAG, "POST", "/openapi/v1/jobs/preview", "Show when triggers would fire, without a job")
        .takes::<PreviewRequest>(json!({
            "triggers": [{ "kind": "cron", "expression": "30 2 * * *", "timeZone": "Europe/Berlin" }],
            "calendars": ["holidays.de"], "from": "2027-03-27T00:00:00Z", "count": 2,
        }))
        .answers::<PreviewAnswer>(200, "The next fires.", fires())
}

fn get() -> Call {
    Call::new(TAG, "GET", JOB, "Show a job")
        .text("`ETag` stands for everything that is shown, the next fire and the counts among it.")
        .if_none_match()
        .answers::<Job>(200, "The job.", job())
        .answers_empty(304, "It is still the one that `If-None-Match` names.")
        .refuses(&[Code::JobNotFound])
}

fn replace() -> Call {
    guarded(Call::new(TAG, "PUT", JOB, "Replace a job, or create it under this id"), "the job")
        .takes::<JobSpec>(spec())
        .answers::<Job>(200, "It was replaced.", job())
        .answers::<Job>(201, "It was created.", job())
        .refuses(&[
            Code::VersionConflict,
            Code::ExecutorDenied,
            Code::HandlerUnknown,
            Code::CallbackUrlNotAllowed,
            Code::Conflict,
        ])
}

fn patch() -> Call {
    guarded(Call::new(TAG, "PATCH", JOB, "Change parts of a job"), "the job")
        .text("The body is a JSON merge patch (RFC 7396) of the job's definition: `null` takes a field out.")
        .takes::<JobPatch>(json!({ "priority": 7, "businessKey": null }))
        .answers::<Job>(200, "It was changed.", job())
        .refuses(&[
            Code::JobNotFound,
            Code::VersionConflict,
            Code::ExecutorDenied,
            Code::HandlerUnknown,
            Code::CallbackUrlNotAllowed,
            Code::Conflict,
        ])
}

fn delete() -> Call {
    guarded(Call::new(TAG, "DELETE", JOB, "Delete a job"), "the job")
        .text("Its tasks go on.")
        .may_take::<Nothing>(json!({}))
        .answers::<JobDeleted>(200, "It is gone.", json!({ "jobId": "nightly", "appliedIndex": 4711 }))
        .refuses(&[Code::JobNotFound, Code::VersionConflict])
}

fn pause() -> Call {
    let mut paused = job();
    paused["state"]["paused"] = json!({ "note": "the report is wrong", "since": "2027-01-15T08:00:00.000Z" });
    Call::new(TAG, "POST", "/openapi/v1/jobs/{jobId}/pause", "Pause a job")
        .may_take::<PauseJob>(json!({ "note": "the report is wrong" }))
        .answers::<Job>(200, "It is paused.", paused)
        .refuses(&[Code::JobNotFound, Code::Conflict])
}

fn resume() -> Call {
    Call::new(TAG, "POST", "/openapi/v1/jobs/{jobId}/resume", "Let a job fire again")
        .may_take::<Nothing>(json!({}))
        .answers::<Job>(200, "It fires again.", job())
        .refuses(&[Code::JobNotFound, Code::ExecutorDenied, Code::Conflict])
}

fn run() -> Call {
    let ran = json!({
        "jobId": "nightly", "taskId": "tsk_AAECAwQFBgcICQoLDA0ODw", "queued": false, "appliedIndex": 4711,
    });
    let call = Call::new(TAG, "POST", "/openapi/v1/jobs/{jobId}/run", "Run a job now")
        .may_take::<RunJob>(json!({ "params": { "command": "report --again" }, "overlap": "queue" }))
        .answers::<JobRun>(202, "The task that it made.", ran)
        .refuses(&[
            Code::JobNotFound,
            Code::OverlapSkipped,
            Code::ExecutorDenied,
            Code::IdempotencyKeyReused,
        ]);
    idempotent(call)
}

fn preview() -> Call {
    Call::new(TAG, "POST", "/openapi/v1/jobs/{jobId}/preview", "Show when a job fires next")
        .may_take::<PreviewJob>(json!({ "from": "2027-03-27T00:00:00Z", "count": 2 }))
        .answers::<PreviewAnswer>(200, "The next fires.", fires())
        .refuses(&[Code::JobNotFound, Code::Conflict])
}

fn check() -> Call {
    let checked = json!({
        "jobId": "nightly", "change": "replace", "version": 3, "unknownHandlers": [], "appliedIndex": 4711,
    });
    guarded(
        Call::new(TAG, "POST", "/openapi/v1/jobs/{jobId}/check", "Check a job without storing it"),
        "the job",
    )
    .text("It is refused as replacing or creating the job would be, and changes nothing.")
    .takes::<JobSpec>(spec())
    .answers::<JobChecked>(200, "It is acceptable.", checked)
    .refuses(&[
        Code::VersionConflict,
        Code::ExecutorDenied,
        Code::HandlerUnknown,
        Code::CallbackUrlNotAllowed,
        Code::Conflict,
    ])
}

fn history() -> Call {
    let page = json!({
        "jobId": "nightly", "counts": { "fired": 41, "missed": 0, "skipped": { "overlap": 1 } },
        "entries": [
            { "number": 42, "at": "2027-01-15T01:30:00.004Z", "kind": "fired", "cause": "trigger",
              "scheduledAt": "2027-01-15T01:30:00.000Z", "taskId": "tsk_AAECAwQFBgcICQoLDA0ODw", "queued": false },
            { "number": 41, "at": "2027-01-14T01:30:00.003Z", "kind": "skipped", "cause": "trigger",
              "reason": "overlap", "count": 1, "exact": true, "from": "2027-01-14T01:30:00.000Z",
              "to": "2027-01-14T01:30:00.000Z" },
        ],
        "nextPageToken": "djEuMTIz", "appliedIndex": 4711,
    });
    paged(Call::new(TAG, "GET", "/openapi/v1/jobs/{jobId}/history", "Show what became of a job's instants"))
        .answers::<HistoryPage>(200, "A page, newest first; the newest 1,000 entries are kept.", page)
        .refuses(&[Code::JobNotFound])
}

fn start_backfill() -> Call {
    Call::new(TAG, "POST", "/openapi/v1/jobs/{jobId}/backfill", "Make up for a stretch of the past")
        .text("Also of a paused job.")
        .takes::<StartBackfill>(json!({
            "from": "2027-01-01T00:00:00Z", "to": "2027-01-14T00:00:00Z", "overlap": "queue",
        }))
        .answers::<Backfill>(202, "It has begun.", backfill())
        .refuses(&[Code::JobNotFound, Code::ExecutorDenied, Code::BackfillRunning, Code::Conflict])
}

fn get_backfill() -> Call {
    Call::new(TAG, "GET", "/openapi/v1/jobs/{jobId}/backfill", "Show the backfill of a job")
        .answers::<Backfill>(200, "Where it stands.", backfill())
        .refuses(&[Code::JobNotFound, Code::BackfillNotFound])
}

fn stop_backfill() -> Call {
    let mut stopped = backfill();
    stopped["running"] = json!(false);
    Call::new(TAG, "DELETE", "/openapi/v1/jobs/{jobId}/backfill", "Stop the backfill of a job")
        .text(
            "Its tasks that no executor has taken yet are cancelled, with the reason `backfillStopped`; those that have \
             begun go on. `through` and `fired` are without what was taken back.",
        )
        .may_take::<Nothing>(json!({}))
        .answers::<Backfill>(200, "Where it stopped.", stopped)
        .refuses(&[Code::JobNotFound, Code::BackfillNotFound])
}

fn backfill() -> Value {
    json!({
        "jobId": "nightly", "from": "2027-01-01T00:00:00.000Z", "to": "2027-01-14T00:00:00.000Z", "overlap": "queue",
        "through": "2027-01-03T01:30:00.000Z", "fired": 3, "skipped": 0, "running": true,
        "createdAt": "2027-01-15T08:00:00.000Z", "appliedIndex": 4711,
    })
}

fn spec() -> Value {
    json!({
        "title": "The nightly report", "handler": "shell", "params": { "command": "report --day ${date:%Y-%m-%d}" },
        "triggers": [{ "kind": "cron", "expression": "30 2 * * *", "timeZone": "Europe/Berlin" }],
        "calendars": ["holidays.de"], "overlap": "queue", "misfire": "fireOnce",
        "businessKey": "report-${scheduledAt}",
    })
}

fn job() -> Value {
    json!({
        "jobId": "nightly", "version": 1, "createdAt": "2027-01-01T00:00:00.000Z",
        "updatedAt": "2027-01-01T00:00:00.000Z", "definition": spec(),
        "state": {
            "nextFire": {
                "scheduledAt": "2027-01-16T01:30:00.000Z", "dueAt": "2027-01-16T01:30:00.000Z",
                "local": "2027-01-16T02:30:00+01:00", "dst": null,
            },
            "openTasks": 0, "backfilling": false,
            "counts": { "fired": 41, "missed": 0, "skipped": { "overlap": 1 } },
        },
        "appliedIndex": 4711,
    })
}

fn fires() -> Value {
    json!({
        "fires": [
            { "scheduledAt": "2027-03-27T01:30:00.000Z", "local": "2027-03-27T02:30:00+01:00", "dst": null },
            { "scheduledAt": "2027-03-28T01:00:00.000Z", "local": "2027-03-28T03:00:00+02:00", "dst": "gapShifted" },
        ],
        "skipped": [],
    })
}
