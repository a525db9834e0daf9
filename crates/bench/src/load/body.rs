//! What a submission says, and what its answer says. Pure. Bodies are written by hand, since one is written for
//! every task.

use std::fmt::Write as _;

use bytes::Bytes;
use orloj_wire::time::Time;
use serde::Deserialize;

use super::HANDLER;
use crate::caller::CallError;
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

/// The body of one submission.
pub(crate) fn one(spec: &LoadSpec, draft: Draft) -> Bytes {
    let mut text = String::with_capacity(160);
    write(&mut text, spec, draft);
    Bytes::from(text)
}

/// The body of a batch.
pub(crate) fn many(spec: &LoadSpec, drafts: &[Draft]) -> Bytes {
    let mut text = String::with_capacity(160 * drafts.len());
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
    // Writing to a string cannot fail.
    let _ = write!(text, r#"{{"handler":"{HANDLER}","params":{{"id":{id},"dueUs":{due_us}"#);
    if spec.plan.sleep_ms > 0 {
        let _ = write!(text, r#","sleepMs":{}"#, spec.plan.sleep_ms);
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

/// The ids of the tasks that were made, or why there is none, in the order of the submissions.
pub(crate) fn read(answer: &[u8], batch: bool) -> Result<Vec<Result<[u8; 22], CallError>>, CallError> {
    let misread = |error: serde_json::Error| CallError::Answer(error.to_string());
    if !batch {
        let submitted: Submitted<'_> = serde_json::from_slice(answer).map_err(misread)?;
        return Ok(vec![key(&submitted)]);
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

fn key(submitted: &Submitted<'_>) -> Result<[u8; 22], CallError> {
    task_key(submitted.task_id).ok_or_else(|| CallError::Answer(submitted.task_id.to_owned()))
}

/// A task's id without its prefix; `None` when it is not one.
pub(crate) fn task_key(id: &str) -> Option<[u8; 22]> {
    id.strip_prefix("tsk_")?.as_bytes().try_into().ok()
}

#[cfg(test)]
mod tests {
    use orloj_wire::rest::{Submit, SubmitBatch};

    use super::*;
    use crate::plan::{Due, Pace, Plan};

    fn spec(sleep_ms: u64, unknown_handler: bool) -> LoadSpec {
        LoadSpec {
            plan: Plan { first_id: 0, count: 10, due: Due::AtOnce, sleep_ms },
            pace: Pace::Closed { clients: 1 },
            batch: 1,
            limit_s: 1.0,
            key_prefix: None,
            outstanding: None,
            unknown_handler,
            remember: false,
        }
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
    }

    #[test]
    fn an_answer_names_its_task() {
        let results = read(br#"{"taskId":"tsk_AAECAwQFBgcICQoLDA0ODw","status":"PENDING"}"#, false).unwrap();
        assert_eq!(results[0].as_ref().unwrap(), b"AAECAwQFBgcICQoLDA0ODw");
        assert!(read(br#"{"taskId":"tsk_short"}"#, false).unwrap()[0].is_err());
        assert!(read(b"{}", false).is_err());
    }

    #[test]
    fn the_answer_to_a_batch_tells_of_each() {
        let text = br#"{"results":[{"status":202,"task":{"taskId":"tsk_AAECAwQFBgcICQoLDA0ODw","version":1}},
            {"status":422,"problem":{"code":"handler_unknown","detail":"x"}}],"appliedIndex":5}"#;
        let results = read(text, true).unwrap();
        assert!(results[0].is_ok());
        assert_eq!(results[1].as_ref().unwrap_err().to_string(), "422 handler_unknown");
    }
}
