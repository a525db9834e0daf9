//! Operations of clients as requests, and answers as what a history says of them.
//!
//! A change whose request may have been received and that was not certainly refused is `info`, whatever went
//! wrong. A read that went wrong is `fail`: it changes nothing, and nobody was told anything.

use hyper::Method;
use orloj_jepsen_agents::generator::{Op, Told};
use orloj_jepsen_agents::seen;
use orloj_jepsen_core::event::{Cancel, Get, Kind, List, Meta, TaskSeen, What};
use orloj_wire::problem::{Code, Problem};
use orloj_wire::rest::{self, APPLIED_INDEX_HEADER, REPLAYED_HEADER};
use serde::de::DeserializeOwned;

use super::http::{Ask, Failure, Reply};

/// The end of an operation.
#[derive(Debug, Clone)]
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
    /// The replica's clock, where it refused ours.
    pub server_ms: Option<i64>,
}

/// The operation without an answer, and its key.
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

/// The request of an operation, and its Idempotency-Key.
pub fn request(op: &Op) -> (Ask, Option<String>) {
    let post = |path: String, body: Vec<u8>| Ask { method: Method::POST, path, body, ..Ask::default() };
    let get = |path: String, query: String| Ask { path, query, ..Ask::default() };
    match op {
        Op::Submit(planned) => {
            let body = serde_json::to_vec(&planned.body).expect("submissions have a JSON form");
            (post("/openapi/v1/tasks".to_owned(), body), planned.seen.idempotency_key.clone())
        }
        Op::Get { task, wait } => {
            let query =
                wait.map(|wait| format!("after_version={}&wait_ms={}", wait.after_version, wait.wait_ms));
            (get(format!("/openapi/v1/tasks/{task}"), query.unwrap_or_default()), None)
        }
        Op::Cancel { task } => (post(format!("/openapi/v1/tasks/{task}/cancel"), Vec::new()), None),
        Op::List { status, size, token, .. } => {
            let status = status.as_ref().map(|status| format!("status={status}&")).unwrap_or_default();
            let token = token.as_ref().map(|token| format!("&page_token={token}")).unwrap_or_default();
            (get("/openapi/v1/tasks".to_owned(), format!("{status}page_size={size}{token}")), None)
        }
    }
}

/// What came of an operation.
pub fn end(op: &Op, last: bool, reply: Result<Reply, Failure>) -> End {
    let reply = match reply {
        Ok(reply) => reply,
        Err(Failure::NotSent(problem)) => return bad(op, last, Kind::Fail, "not_sent", &problem),
        Err(Failure::Lost(problem)) => return bad(op, last, of_unknown(op), "lost", &problem),
    };
    let meta = Meta {
        applied: reply.header(APPLIED_INDEX_HEADER).and_then(|index| index.parse().ok()),
        status: Some(reply.status),
        replayed: reply.header(REPLAYED_HEADER) == Some("true"),
    };
    let end = match reply.status {
        200..=299 => good(op, last, &reply),
        _ => problem(op, last, &reply),
    };
    End { meta, ..end }
}

fn good(op: &Op, last: bool, reply: &Reply) -> End {
    let (mut what, key) = invocation(op, last);
    let told = match &mut what {
        What::Submit(submit) => {
            read(reply).map(|answer: rest::Submitted| one(&mut submit.answer, seen::submitted(&answer)))
        }
        What::Get(get) => read(reply).map(|answer: rest::Task| one(&mut get.answer, seen::task(&answer))),
        What::Cancel(cancel) => {
            read(reply).map(|answer: rest::Cancelled| one(&mut cancel.answer, seen::cancelled(&answer)))
        }
        What::List(list) => read(reply).map(|answer: rest::TaskPage| page(list, answer)),
        _ => unreachable!("an operation of a client is one of four"),
    };
    let told = match told {
        Ok(told) => told,
        // Whoever sent this is not the API that we know.
        Err(problem) => return bad(op, last, of_unknown(op), "malformed_answer", &problem),
    };
    let key = match &told {
        Told::Task(task) => Some(task.task_id.clone()),
        _ => key,
    };
    End { kind: Kind::Ok, what, key, err: None, meta: Meta::default(), told, server_ms: None }
}

fn one(place: &mut Option<TaskSeen>, task: TaskSeen) -> Told {
    *place = Some(task.clone());
    Told::Task(task)
}

fn page(list: &mut List, answer: rest::TaskPage) -> Told {
    let tasks: Vec<TaskSeen> = answer.tasks.iter().map(seen::task).collect();
    list.answer = Some(tasks.clone());
    list.more = answer.next_page_token.is_some();
    Told::Page { tasks, next: answer.next_page_token }
}

fn read<T: DeserializeOwned>(reply: &Reply) -> Result<T, String> {
    serde_json::from_slice(&reply.body).map_err(|error| error.to_string())
}

/// An answer that is no success.
fn problem(op: &Op, last: bool, reply: &Reply) -> End {
    let problem: Option<Problem> = serde_json::from_slice(&reply.body).ok();
    let code = problem.as_ref().and_then(|problem| Code::from_text(&problem.code));
    if let (Op::Get { .. }, Some(Code::TaskNotFound)) = (op, code) {
        let (what, key) = invocation(op, last);
        let (meta, told) = (Meta::default(), Told::Absent);
        return End { kind: Kind::Ok, what, key, err: None, meta, told, server_ms: None };
    }
    let kind = if is_refusal(reply.status, code) { Kind::Fail } else { of_unknown(op) };
    let name = code.map_or("no_problem", Code::as_str);
    let mut end = bad(op, last, kind, name, "");
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

fn bad(op: &Op, last: bool, kind: Kind, code: &str, detail: &str) -> End {
    let (what, key) = invocation(op, last);
    let err = if detail.is_empty() { code.to_owned() } else { format!("{code}: {detail}") };
    let told = if kind == Kind::Info { Told::Unknown } else { Told::Refused };
    End { kind, what, key, err: Some(err), meta: Meta::default(), told, server_ms: None }
}

#[cfg(test)]
mod tests {
    use hyper::HeaderMap;
    use orloj_jepsen_agents::Now;
    use orloj_jepsen_agents::generator::{Generator, Mix};
    use serde_json::json;

    use super::*;

    fn submit() -> Op {
        let mut generator = Generator::new(1, "c", Mix::default());
        generator.next(Now::default())
    }

    fn cancel() -> Op {
        Op::Cancel { task: "tsk_1".to_owned() }
    }

    fn get() -> Op {
        Op::Get { task: "tsk_1".to_owned(), wait: None }
    }

    fn reply(status: u16, body: &serde_json::Value) -> Result<Reply, Failure> {
        let body = body.to_string().into_bytes().into();
        Ok(Reply { status, headers: HeaderMap::new(), body })
    }

    fn refused(code: Code) -> Result<Reply, Failure> {
        reply(code.status(), &serde_json::to_value(Problem::new(code, "")).unwrap())
    }

    #[test]
    fn a_change_is_unknown_unless_it_was_certainly_refused() {
        let kind = |reply| end(&submit(), false, reply).kind;
        assert_eq!(kind(Err(Failure::NotSent(String::new()))), Kind::Fail);
        assert_eq!(kind(Err(Failure::Lost(String::new()))), Kind::Info);
        for code in [Code::ValidationFailed, Code::InvalidSignature, Code::RateLimited, Code::TaskNotFound] {
            assert_eq!(kind(refused(code)), Kind::Fail, "{code:?}");
        }
        for code in [Code::NoLeader, Code::Overloaded, Code::DiskLow] {
            assert_eq!(kind(refused(code)), Kind::Fail, "{code:?}: the API says that nothing was changed");
        }
        for code in [Code::CommitUnknown, Code::Internal, Code::NotReady, Code::NonceReplayed] {
            assert_eq!(kind(refused(code)), Kind::Info, "{code:?}");
        }
        assert_eq!(kind(reply(502, &json!("some proxy"))), Kind::Info);
        assert_eq!(kind(reply(400, &json!("no problem document"))), Kind::Info);
        assert_eq!(kind(reply(202, &json!({"not": "ours"}))), Kind::Info);
    }

    #[test]
    fn a_read_is_never_unknown_and_an_absent_task_is_an_answer() {
        assert_eq!(end(&get(), false, Err(Failure::Lost(String::new()))).kind, Kind::Fail);
        assert_eq!(end(&get(), false, refused(Code::Internal)).kind, Kind::Fail);
        let absent = end(&get(), true, refused(Code::TaskNotFound));
        assert_eq!((absent.kind, absent.told), (Kind::Ok, Told::Absent));
        assert_eq!(absent.what, What::Get(Get { answer: None, last: true }));
        assert_eq!(end(&cancel(), false, refused(Code::TaskNotFound)).kind, Kind::Fail);
    }

    #[test]
    fn an_answer_carries_what_is_judged() {
        let body = json!({"taskId": "tsk_1", "status": "CANCELLED", "cancelRequested": false, "version": 3,
            "appliedIndex": 9});
        let mut headers = HeaderMap::new();
        headers.insert(APPLIED_INDEX_HEADER, "9".parse().unwrap());
        headers.insert(REPLAYED_HEADER, "true".parse().unwrap());
        let reply = Reply { status: 200, headers, body: body.to_string().into_bytes().into() };
        let ended = end(&cancel(), false, Ok(reply));
        assert_eq!(ended.meta, Meta { applied: Some(9), status: Some(200), replayed: true });
        let What::Cancel(cancel) = ended.what else { panic!("a cancel ends as one") };
        assert_eq!(cancel.answer.unwrap().version, 3);
        assert_eq!(ended.key.as_deref(), Some("tsk_1"));
    }

    #[test]
    fn requests_are_as_the_api_has_them() {
        let op = Op::List { status: Some("FAILED".into()), size: 7, page: 1, token: Some("t".into()) };
        let (ask, key) = request(&op);
        assert_eq!((ask.query.as_str(), key), ("status=FAILED&page_size=7&page_token=t", None));
        let (ask, _) = request(&cancel());
        assert_eq!((ask.method, ask.path.as_str()), (Method::POST, "/openapi/v1/tasks/tsk_1/cancel"));
    }
}
