//! Operations of clients as requests, and answers as what a history says of them, apart from how they travel.
//!
//! A change whose request may have been received and that was not certainly refused is `info`, whatever went
//! wrong. A read that went wrong is `fail`: it changes nothing, and nobody was told anything.

use orloj_jepsen_core::event::{Cancel, Get, Kind, List, Meta, TaskSeen, What};
use orloj_wire::problem::{Code, Problem};
use orloj_wire::rest::{self, APPLIED_INDEX_HEADER, REPLAYED_HEADER};
use serde::de::DeserializeOwned;

use crate::generator::{Op, Told};
use crate::seen;

/// A request that is not signed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// From the first `/`.
    pub path: String,
    /// Without `?`.
    pub query: String,
    /// The Idempotency-Key.
    pub idempotency_key: Option<String>,
    /// JSON, or empty.
    pub body: Vec<u8>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Nobody has received it.
    NotSent,
    /// It may have been received.
    Lost,
}

/// The end of an operation.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// `ok`, `fail` or `info`.
    pub kind: Kind,
    /// The operation with its answer.
    pub what: What,
    /// The task, where the answer tells it.
    pub key: Option<String>,
    /// What went wrong.
    pub err: Option<String>,
    /// What else the answer told.
    pub meta: Meta,
    /// For the generator.
    pub told: Told,
    /// The replica's clock, where it refused ours, in ms since the epoch.
    pub server_ms: Option<i64>,
}

/// The operation without an answer, and its key. `last` marks a read of the final phase.
pub fn invocation(op: &Op, last: bool) -> (What, Option<String>) {
    match op {
        Op::Submit(planned) => (What::Submit(planned.seen.clone()), Some(planned.seen.label.clone())),
        Op::Get { task, .. } => (What::Get(Get { answer: None, last }), Some(task.clone())),
        Op::Cancel { task } => (What::Cancel(Cancel::default()), Some(task.clone())),
        Op::List { status, page, .. } => {
            let list = List { status: status.clone(), page: *page, ..List::default() };
            (What::List(list), None)
        }
    }
}

/// The request of an operation.
pub fn request(op: &Op) -> Ask {
    let post = |path: String, body: Vec<u8>| Ask {
        method: "POST",
        path,
        query: String::new(),
        idempotency_key: None,
        body,
    };
    let get = |path: String, query: String| Ask { method: "GET", query, ..post(path, Vec::new()) };
    match op {
        Op::Submit(planned) => {
            let body = serde_json::to_vec(&planned.body).expect("submissions have a JSON form");
            let ask = post("/openapi/v1/tasks".to_owned(), body);
            Ask { idempotency_key: planned.seen.idempotency_key.clone(), ..ask }
        }
        Op::Get { task, wait } => {
            let query =
                wait.map(|wait| format!("after_version={}&wait_ms={}", wait.after_version, wait.wait_ms));
            get(format!("/openapi/v1/tasks/{task}"), query.unwrap_or_default())
        }
        Op::Cancel { task } => post(format!("/openapi/v1/tasks/{task}/cancel"), Vec::new()),
        Op::List { status, size, token, .. } => {
            let status = status.as_ref().map(|status| format!("status={status}&")).unwrap_or_default();
            let token = token.as_ref().map(|token| format!("&page_token={token}")).unwrap_or_default();
            get("/openapi/v1/tasks".to_owned(), format!("{status}page_size={size}{token}"))
        }
    }
}

/// What came of an operation.
pub fn end(op: &Op, last: bool, reply: Result<&Reply, Failure>) -> End {
    let reply = match reply {
        Ok(reply) => reply,
        Err(Failure::NotSent) => return bad(op, last, Kind::Fail, "not_sent"),
        Err(Failure::Lost) => return bad(op, last, of_unknown(op), "lost"),
    };
    let meta = Meta {
        applied: reply.header(APPLIED_INDEX_HEADER).and_then(|index| index.parse().ok()),
        status: Some(reply.status),
        replayed: reply.header(REPLAYED_HEADER) == Some("true"),
    };
    let end = match reply.status {
        200..=299 => good(op, last, reply),
        _ => problem(op, last, reply),
    };
    End { meta, ..end }
}

fn good(op: &Op, last: bool, reply: &Reply) -> End {
    let (mut what, key) = invocation(op, last);
    let told = match &mut what {
        What::Submit(submit) => {
            read::<rest::Submitted>(reply).map(|answer| one(&mut submit.answer, seen::submitted(&answer)))
        }
        What::Get(get) => read::<rest::Task>(reply).map(|answer| one(&mut get.answer, seen::task(&answer))),
        What::Cancel(cancel) => {
            read::<rest::Cancelled>(reply).map(|answer| one(&mut cancel.answer, seen::cancelled(&answer)))
        }
        What::List(list) => read::<rest::TaskPage>(reply).map(|answer| page(list, answer)),
        _ => unreachable!("an operation of a client is one of four"),
    };
    // Whoever sent what cannot be read is not the API that we know.
    let Some(told) = told else { return bad(op, last, of_unknown(op), "malformed_answer") };
    let key = match &told {
        Told::Task(task) => Some(task.task_id.clone()),
        _ => key,
    };
    End { kind: Kind::Ok, what, key, err: None, meta: Meta::default(), told, server_ms: None }
}

fn one(place: &mut Option<TaskSeen>, task: TaskSeen) -> Told {
    *place = Some(task.clone());
    Told::Task(Box::new(task))
}

fn page(list: &mut List, answer: rest::TaskPage) -> Told {
    let tasks: Vec<TaskSeen> = answer.tasks.iter().map(seen::task).collect();
    list.answer = Some(tasks.clone());
    list.more = answer.next_page_token.is_some();
    Told::Page { tasks, next: answer.next_page_token }
}

fn read<T: DeserializeOwned>(reply: &Reply) -> Option<T> {
    serde_json::from_slice(&reply.body).ok()
}

/// An answer that is no success.
fn problem(op: &Op, last: bool, reply: &Reply) -> End {
    let problem: Option<Problem> = read(reply);
    let code = problem.as_ref().and_then(|problem| Code::from_text(&problem.code));
    if let (Op::Get { .. }, Some(Code::TaskNotFound)) = (op, code) {
        let (what, key) = invocation(op, last);
        let (meta, told) = (Meta::default(), Told::Absent);
        return End { kind: Kind::Ok, what, key, err: None, meta, told, server_ms: None };
    }
    let kind = if is_refusal(reply.status, code) { Kind::Fail } else { of_unknown(op) };
    let mut end = bad(op, last, kind, code.map_or("no_problem", Code::as_str));
    if let Some(problem) = problem {
        end.server_ms = problem.server_time.map(|time| time.0);
        // Where the task stands that can be cancelled no more.
        if let (What::Cancel(cancel), Some(task)) = (&mut end.what, problem.task) {
            cancel.answer = Some(seen::task(&task));
        }
    }
    end
}

/// Whether an answer says for certain that nothing was changed: what was refused for its form, its sender, its
/// target or its rate, and what docs/openapi.md tells apart from `commit_unknown`. A nonce that was seen before
/// says only that this request had arrived twice.
fn is_refusal(status: u16, code: Option<Code>) -> bool {
    match code {
        None | Some(Code::NonceReplayed) => false,
        Some(Code::NoLeader | Code::Overloaded | Code::DiskLow) => true,
        Some(_) => (400..500).contains(&status),
    }
}

/// The end of an operation of which nobody knows what became.
fn of_unknown(op: &Op) -> Kind {
    match op {
        Op::Submit(_) | Op::Cancel { .. } => Kind::Info,
        Op::Get { .. } | Op::List { .. } => Kind::Fail,
    }
}

fn bad(op: &Op, last: bool, kind: Kind, code: &str) -> End {
    let (what, key) = invocation(op, last);
    let told = if kind == Kind::Info { Told::Unknown } else { Told::Refused };
    End { kind, what, key, err: Some(code.to_owned()), meta: Meta::default(), told, server_ms: None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Now;
    use crate::generator::{Generator, Mix};

    fn submit() -> Op {
        Generator::new(1, "c", Mix::default()).next(Now::default(), 1)
    }

    fn get() -> Op {
        Op::Get { task: "tsk_1".to_owned(), wait: None }
    }

    fn refused(code: Code) -> Reply {
        let body = serde_json::to_vec(&Problem::new(code, "")).unwrap();
        Reply { status: code.status(), headers: Vec::new(), body }
    }

    #[test]
    fn a_change_is_unknown_unless_it_was_certainly_refused() {
        assert_eq!(end(&submit(), false, Err(Failure::NotSent)).kind, Kind::Fail);
        assert_eq!(end(&submit(), false, Err(Failure::Lost)).kind, Kind::Info);
        let kind = |code| end(&submit(), false, Ok(&refused(code))).kind;
        for code in [Code::ValidationFailed, Code::InvalidSignature, Code::NoLeader, Code::Overloaded] {
            assert_eq!(kind(code), Kind::Fail, "{code:?}");
        }
        for code in [Code::CommitUnknown, Code::Internal, Code::NotReady, Code::NonceReplayed] {
            assert_eq!(kind(code), Kind::Info, "{code:?}");
        }
    }

    #[test]
    fn a_read_that_was_called_a_replay_says_so() {
        let end = end(&get(), false, Ok(&refused(Code::NonceReplayed)));
        assert_eq!((end.kind, end.err.as_deref()), (Kind::Fail, Some("nonce_replayed")));
    }

    #[test]
    fn a_read_is_never_unknown_and_an_absent_task_is_an_answer() {
        assert_eq!(end(&get(), false, Err(Failure::Lost)).kind, Kind::Fail);
        assert_eq!(end(&get(), false, Ok(&refused(Code::Internal))).kind, Kind::Fail);
        let absent = end(&get(), true, Ok(&refused(Code::TaskNotFound)));
        assert_eq!((absent.kind, absent.told), (Kind::Ok, Told::Absent));
    }

    #[test]
    fn an_answer_carries_what_is_judged() {
        let body = json!({"taskId": "tsk_1", "status": "CANCELLED", "cancelRequested": false, "version": 3,
            "appliedIndex": 9});
        let headers =
            [(APPLIED_INDEX_HEADER, "9"), (REPLAYED_HEADER, "true")].map(|(n, v)| (n.into(), v.into()));
        let reply = Reply { status: 200, headers: headers.into(), body: body.to_string().into_bytes() };
        let op = Op::Cancel { task: "tsk_1".to_owned() };
        let ended = end(&op, false, Ok(&reply));
        assert_eq!(ended.meta, Meta { applied: Some(9), status: Some(200), replayed: true });
        let What::Cancel(cancel) = ended.what else { panic!("a cancel ends as one") };
        assert_eq!((cancel.answer.unwrap().version, ended.key.as_deref()), (3, Some("tsk_1")));
        assert_eq!(request(&op).path, "/openapi/v1/tasks/tsk_1/cancel");
    }
}
