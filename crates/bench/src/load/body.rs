//! What a submission says, and what its answer says. Pure. Bodies are written by hand, since one is written for
//! every task.

use std::fmt::Write as _;

use bytes::Bytes;
use orloj_wire::time::Time;
use serde::Deserialize;

use super::HANDLER;
use crate::caller::CallError;
use crate::jobs::JobPlan;
use crate::message::LoadSpec;

/// One task that is about to be submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Draft {
    /// Its id in the plan.
    pub(crate) id: u64,
    /// When it is due, or meant to be submitted, in µs since the Unix epoch.
    pub(crate) due_us: i64,
    /// The instant that the API is told, in ms; `None` for at once.
    pub(crate) due_ms: Option<i64>,
}

/// What an answer is to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Of one task.
    Task,
    /// Of many.
    Batch,
    /// Of a job.
    Job,
}

/// A request before it is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) path: &'static str,
    pub(crate) body: Bytes,
    pub(crate) kind: Kind,
}

/// What a request made: the id of a task, or a job, which has no number of its own.
pub(crate) type Made = Option<[u8; 22]>;

/// The zone of jobs that fire by cron: one whose clocks change.
const ZONE: &str = "Europe/Berlin";
/// What each submission takes beside its payload, in bytes.
const TEXT: usize = 160;

/// The request that submits these tasks.
pub(crate) fn of(spec: &LoadSpec, drafts: &[Draft]) -> Request {
    match drafts {
        [task] if spec.batch <= 1 => {
            Request { path: "/openapi/v1/tasks", body: one(spec, *task), kind: Kind::Task }
        }
        _ => Request { path: "/openapi/v1/tasks/batch", body: many(spec, drafts), kind: Kind::Batch },
    }
}

/// The request that makes a job. Its tasks learn their instant by a placeholder.
pub(crate) fn job(plan: &JobPlan, number: u64) -> Request {
    let (name, id, first_ms) = (plan.name(number), plan.id(number), plan.first_ms(number));
    let first = Time(first_ms);
    let trigger = match plan.cron {
        true => format!(
            r#"{{"kind":"cron","expression":"{} * * * * *","timeZone":"{ZONE}","startAt":"{first}"}}"#,
            first_ms.div_euclid(1_000).rem_euclid(60)
        ),
        false => {
            format!(
                r#"{{"kind":"fixedRate","everyMs":{},"anchor":"{first}"}}"#,
                plan.period_s().saturating_mul(1_000)
            )
        }
    };
    let body = format!(
        r#"{{"jobId":"{name}","handler":"{HANDLER}","params":{{"id":{id},"dueAt":"${{scheduledAt}}"}},"triggers":[{trigger}]}}"#
    );
    Request { path: "/openapi/v1/jobs", body: Bytes::from(body), kind: Kind::Job }
}

/// The body of one submission.
fn one(spec: &LoadSpec, draft: Draft) -> Bytes {
    let mut text = String::with_capacity(TEXT + spec.payload as usize);
    write(&mut text, spec, draft);
    Bytes::from(text)
}

/// The body of a batch.
fn many(spec: &LoadSpec, drafts: &[Draft]) -> Bytes {
    let mut text = String::with_capacity((TEXT + spec.payload as usize) * drafts.len());
    text.push_str("{\"tasks\":[");
    for (place, draft) in drafts.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        write(&mut text, spec, *draft);
    }
    text.push_str("]}");
    Bytes::from(text)
}

fn write(text: &mut String, spec: &LoadSpec, draft: Draft) {
    let Draft { id, due_us, due_ms } = draft;
    let handler = spec.handler.as_deref().unwrap_or(HANDLER);
    // Writing to a string cannot fail.
    let _ = write!(text, r#"{{"handler":"{handler}","params":{{"id":{id},"dueUs":{due_us}"#);
    if spec.plan.sleep_ms > 0 {
        let _ = write!(text, r#","sleepMs":{}"#, spec.plan.sleep_ms);
    }
    if spec.payload > 0 {
        text.push_str(r#","payload":""#);
        text.extend(std::iter::repeat_n('x', spec.payload as usize));
        text.push('"');
    }
    text.push('}');
    if let Some(due_ms) = due_ms {
        let _ = write!(text, r#","runAt":"{}""#, Time(due_ms));
    }
    if spec.unknown_handler {
        text.push_str(r#","allowUnknownHandler":true"#);
    }
    text.push('}');
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Submitted<'a> {
    task_id: &'a str,
}

#[derive(Deserialize)]
struct Answers<'a> {
    #[serde(borrow)]
    results: Vec<One<'a>>,
}

#[derive(Deserialize)]
struct One<'a> {
    status: u16,
    #[serde(borrow)]
    task: Option<Submitted<'a>>,
    problem: Option<Problem>,
}

#[derive(Deserialize)]
struct Problem {
    code: String,
}

/// What was made, or why nothing was, in the order of the submissions.
pub(crate) fn read(answer: &[u8], kind: Kind) -> Result<Vec<Result<Made, CallError>>, CallError> {
    let misread = |error: serde_json::Error| CallError::Answer(error.to_string());
    match kind {
        Kind::Job => return Ok(vec![Ok(None)]),
        Kind::Task => {
            let submitted: Submitted<'_> = serde_json::from_slice(answer).map_err(misread)?;
            return Ok(vec![key(&submitted)]);
        }
        Kind::Batch => {}
    }
    let answers: Answers<'_> = serde_json::from_slice(answer).map_err(misread)?;
    let each = |one: One<'_>| match one.task {
        Some(task) => key(&task),
        None => Err(CallError::Refused {
            status: one.status,
            code: one.problem.map(|problem| problem.code).unwrap_or_default(),
        }),
    };
    Ok(answers.results.into_iter().map(each).collect())
}

fn key(submitted: &Submitted<'_>) -> Result<Made, CallError> {
    let key = task_key(submitted.task_id);
    key.map(Some).ok_or_else(|| CallError::Answer(submitted.task_id.to_owned()))
}

/// A task's id without its prefix; `None` when it is not one.
pub(crate) fn task_key(id: &str) -> Option<[u8; 22]> {
    id.strip_prefix("tsk_")?.as_bytes().try_into().ok()
}

#[cfg(test)]
mod tests {
    use orloj_wire::rest::job::JobSpec;
    use orloj_wire::rest::{Submit, SubmitBatch};

    use super::*;
    use crate::plan::{Due, Pace, Plan};

    fn spec(sleep_ms: u64, unknown_handler: bool) -> LoadSpec {
        let plan = Plan { first_id: 0, count: 10, due: Due::AtOnce, sleep_ms };
        LoadSpec { unknown_handler, ..LoadSpec::new(plan, Pace::Closed { clients: 1 }) }
    }

    #[test]
    fn bodies_are_submissions() {
        let draft = Draft { id: 7, due_us: 1_500, due_ms: None };
        let now: Submit = serde_json::from_slice(&one(&spec(0, false), draft)).unwrap();
        assert_eq!((now.handler.as_str(), now.run_at, now.allow_unknown_handler), ("bench", None, false));
        assert_eq!(now.params.0, serde_json::json!({"id": 7, "dueUs": 1500}));
        let later = Draft { id: 8, due_us: 2_000, due_ms: Some(2) };
        let both: SubmitBatch = serde_json::from_slice(&many(&spec(1_000, true), &[draft, later])).unwrap();
        assert_eq!(both.tasks.len(), 2);
        assert_eq!((both.tasks[1].run_at, both.tasks[1].allow_unknown_handler), (Some(Time(2)), true));
        assert_eq!(both.tasks[0].params.0["sleepMs"], 1_000);
        let other = LoadSpec { handler: Some("other".to_owned()), ..spec(0, false) };
        let other: Submit = serde_json::from_slice(&one(&other, draft)).unwrap();
        assert_eq!(other.handler, "other");
    }

    #[test]
    fn a_payload_has_its_length() {
        let draft = Draft { id: 7, due_us: 1_500, due_ms: None };
        let loaded = LoadSpec { payload: 1_000, ..spec(0, false) };
        let task: Submit = serde_json::from_slice(&one(&loaded, draft)).unwrap();
        assert_eq!(task.params.0["payload"].as_str().map(str::len), Some(1_000));
    }

    #[test]
    fn a_job_fires_as_its_plan_says() {
        let plan = JobPlan { first_id: 0, count: 100, per_s: 10, base_ms: 60_000, burst_s: 5, cron: false };
        let job = |plan: &JobPlan, number| -> JobSpec {
            let Request { path, body, kind } = super::job(plan, number);
            assert_eq!((path, kind), ("/openapi/v1/jobs", Kind::Job));
            serde_json::from_slice(&body).unwrap()
        };
        let even = job(&plan, 13);
        assert_eq!(even.job_id.as_deref(), Some("bench-000000013"));
        assert_eq!(even.faults("bench-000000013"), Vec::new());
        assert_eq!(even.params.0, serde_json::json!({"id": 13, "dueAt": "${scheduledAt}"}));
        assert_eq!((even.triggers[0].every_ms, even.triggers[0].anchor), (Some(10_000), Some(Time(61_300))));
        let cron = job(&JobPlan { cron: true, ..plan }, 75);
        assert_eq!(cron.triggers[0].expression.as_deref(), Some("15 * * * * *"));
        assert!(cron.triggers[0].check(0).is_ok());
        assert_eq!(read(b"{}", Kind::Job).unwrap()[0].as_ref().unwrap(), &None);
    }

    #[test]
    fn an_answer_names_its_task() {
        let results =
            read(br#"{"taskId":"tsk_AAECAwQFBgcICQoLDA0ODw","status":"PENDING"}"#, Kind::Task).unwrap();
        assert_eq!(results[0].as_ref().unwrap().as_ref().unwrap(), b"AAECAwQFBgcICQoLDA0ODw");
        assert!(read(br#"{"taskId":"tsk_short"}"#, Kind::Task).unwrap()[0].is_err());
        assert!(read(b"{}", Kind::Task).is_err());
    }

    #[test]
    fn the_answer_to_a_batch_tells_of_each() {
        let text = br#"{"results":[{"status":202,"task":{"taskId":"tsk_AAECAwQFBgcICQoLDA0ODw","version":1}},
            {"status":422,"problem":{"code":"handler_unknown","detail":"x"}}],"appliedIndex":5}"#;
        let results = read(text, Kind::Batch).unwrap();
        assert!(results[0].is_ok());
        assert_eq!(results[1].as_ref().unwrap_err().to_string(), "422 handler_unknown");
    }
}
