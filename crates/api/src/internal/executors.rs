//! What executors say: checked, said in their own name, answered by the leader's loop.

use std::future::Future;
use std::sync::Arc;

use axum::body::{Body, HttpBody as _};
use axum::extract::State;
use axum::http::Request as HttpRequest;
use axum::response::Response;
use orloj_model::command::Command;
use orloj_model::id::{ExecutorId, Millis};
use orloj_model::{Refusal, Reply};
use orloj_net::Role;
use orloj_scheduler::LeaderError;
use orloj_wire::problem::Code;
use orloj_wire::protocol::{Heartbeat, Leave, NotLeader, Register, Reports, Saves};
use orloj_wire::sign::Label;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Checked, Parts, SCHEDULER_AUDIENCE, Stranger, certified, is_name, place_for, refuse, target};
use crate::auth::Credentials;
use crate::http;
use crate::outcome::{Answer, Failure};
use crate::peer;
use crate::service::{Api, Shared};

/// The largest message of an executor, in bytes: 256 reports with their results and log tails, and all attempts that it may
/// hold, 100,000 in slots and as many in its queue. Whoever could not say what it holds would be taken for dead while it works.
const LIMIT: usize = 32 * 1024 * 1024;

/// A call of executors.
#[derive(Debug, Clone, Copy)]
struct Call {
    name: &'static str,
    single: Single,
    tells: Tells,
}

/// Why a call that was captured has no effect when it is repeated. With TLS nobody can capture it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Single {
    /// What it names is over then: a fence, a life.
    InItself,
    /// The leader remembers what it has heard. Under a later leader what it names is over: a round, a fence.
    Remembered,
    /// Its nonce is spent in the log, for every leader to come: it makes an executor that has left come back.
    Spent,
}

/// What a call tells of. Each has places of its own for bodies: an executor must not be taken for dead because results, of
/// its own or of others at its address, are read slowly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tells {
    /// That the executor lives.
    Life,
    /// What attempts have come to.
    Results,
}

const REGISTER: Call = Call { name: "register", single: Single::Spent, tells: Tells::Life };
const HEARTBEAT: Call = Call { name: "heartbeat", single: Single::Remembered, tells: Tells::Life };
const REPORT: Call = Call { name: "report", single: Single::InItself, tells: Tells::Results };
const SAVE: Call = Call { name: "save", single: Single::Remembered, tells: Tells::Results };
const LEAVE: Call = Call { name: "leave", single: Single::InItself, tells: Tells::Life };

pub(super) async fn register(State(api): State<Api>, request: HttpRequest<Body>) -> Response {
    let leader = Arc::clone(&api.shared().leader);
    executor_call(
        &api,
        REGISTER,
        request,
        |m: &Register| &m.executor_id,
        |m| async move { leader.register(m).await },
    )
    .await
}

pub(super) async fn heartbeat(State(api): State<Api>, request: HttpRequest<Body>) -> Response {
    let leader = Arc::clone(&api.shared().leader);
    executor_call(
        &api,
        HEARTBEAT,
        request,
        |m: &Heartbeat| &m.executor_id,
        |m| async move { leader.heartbeat(m).await },
    )
    .await
}

pub(super) async fn report(State(api): State<Api>, request: HttpRequest<Body>) -> Response {
    let leader = Arc::clone(&api.shared().leader);
    executor_call(
        &api,
        REPORT,
        request,
        |m: &Reports| &m.executor_id,
        |m| async move { leader.report(m).await },
    )
    .await
}

pub(super) async fn save(State(api): State<Api>, request: HttpRequest<Body>) -> Response {
    let leader = Arc::clone(&api.shared().leader);
    executor_call(&api, SAVE, request, |m: &Saves| &m.executor_id, |m| async move { leader.save(m).await })
        .await
}

pub(super) async fn leave(State(api): State<Api>, request: HttpRequest<Body>) -> Response {
    let leader = Arc::clone(&api.shared().leader);
    executor_call(&api, LEAVE, request, |m: &Leave| &m.executor_id, |m| async move { leader.leave(m).await })
        .await
}

/// Reads a call and checks that it is signed by an executor.
async fn from_executor(api: &Api, call: Call, request: HttpRequest<Body>) -> Result<Checked, Failure> {
    let stranger = Stranger::of(call.name, &request);
    let checked =
        check_executor(api, call, request).await.inspect_err(|failure| stranger.refused(api, failure));
    let (credentials, head, body) = checked?;
    Ok(Checked { credentials, head, body, stranger })
}

async fn check_executor(api: &Api, call: Call, request: HttpRequest<Body>) -> Result<Parts, Failure> {
    let shared = api.shared();
    let (head, body) = request.into_parts();
    let credentials = Credentials::from_headers_of(&head.headers, "must be the executor's id", is_name)?;
    certified(api, &head, Role::Executor, Some(&credentials.access_key))?;
    let bodies = match call.tells {
        Tells::Life => &shared.executor_signs,
        Tells::Results => &shared.executor_bodies,
    };
    http::check_length(&head.headers, LIMIT)?;
    let declared = body.size_hint().exact();
    let place = place_for(bodies, &head, declared, LIMIT).await?;
    let body = http::read_body(body, LIMIT, http::BODY_TIMEOUT).await?;
    let secret = ExecutorId::new(credentials.access_key.as_str())
        .ok()
        .and_then(|id| shared.directory.executor(&id).cloned())
        .ok_or_else(|| Failure::new(Code::InvalidSignature, "the sender or the signature is wrong"))?;
    let target = target(&head, SCHEDULER_AUDIENCE, &body);
    peer::check(&credentials, target, Label::Executor, &secret, now_ms(shared, call)?)?;
    drop(place);
    if shared.options.tls.is_none() && call.single == Single::Remembered {
        shared.heard.take(&credentials)?;
    }
    Ok((credentials, head, body))
}

/// The time by which a call is judged. What is spent in the log is forgotten there by the cluster's time.
fn now_ms(shared: &Shared, call: Call) -> Result<Millis, Failure> {
    Ok(match call.single {
        Single::Spent => shared.heard.now_since_ms(shared.backend.now_ms()?),
        Single::InItself | Single::Remembered => shared.heard.now_ms(),
    })
}

/// One call of an executor: checked, read, spoken in its own name, answered by the leader's loop.
async fn executor_call<M, A, F>(
    api: &Api,
    call: Call,
    request: HttpRequest<Body>,
    sender: fn(&M) -> &str,
    ask: impl FnOnce(M) -> F,
) -> Response
where
    M: DeserializeOwned,
    A: Serialize,
    F: Future<Output = Result<A, LeaderError>>,
{
    let checked = match from_executor(api, call, request).await {
        Ok(checked) => checked,
        Err(failure) => return refuse(failure),
    };
    let message: M = match orloj_wire::json::read(&checked.body) {
        Ok(message) => message,
        Err(fault) => return refuse(Failure::fields(Code::InvalidRequest, vec![fault])),
    };
    let name = &checked.credentials.access_key;
    if sender(&message) != name {
        let detail = format!("executor {name:?} speaks in the name of {:?}", sender(&message));
        let failure = Failure::new(Code::ScopeDenied, detail);
        checked.stranger.refused(api, &failure);
        return refuse(failure);
    }
    if call.single == Single::Spent
        && let Some(refused) = spend(api, &checked).await
    {
        return refused;
    }
    match ask(message).await {
        Ok(answer) => http::response(Answer::json(200, &answer)),
        Err(error) => excuse(error),
    }
}

/// Spends the nonce of a call in the log. What it is answered, where it must go no further.
async fn spend(api: &Api, checked: &Checked) -> Option<Response> {
    let shared = api.shared();
    if shared.options.tls.is_some() {
        return None;
    }
    if shared.leader.serving().is_none() {
        return Some(excuse(not_serving(shared)));
    }
    let claim = checked.credentials.claim();
    match shared.backend.propose(Command::Spend { claim }).await.map(|applied| applied.reply) {
        Ok(Reply::Done) => None,
        Ok(_) => {
            let failure = Failure::from(Refusal::NonceReplayed);
            checked.stranger.refused(api, &failure);
            Some(refuse(failure))
        }
        Err(error) => Some(refuse(error.into())),
    }
}

/// What the loop of a replica that does not schedule would say.
fn not_serving(shared: &Shared) -> LeaderError {
    if shared.leads() {
        return LeaderError::NotServing;
    }
    let leader = shared.backend.leadership().borrow().leader;
    LeaderError::NotLeader { leader: leader.and_then(|leader| shared.internal_address(leader)) }
}

fn excuse(error: LeaderError) -> Response {
    match error {
        LeaderError::NotLeader { leader } => {
            let body = NotLeader { code: Code::NotLeader.as_str().to_owned(), leader };
            http::response(Answer::json(421, &body))
        }
        other => refuse(other.into()),
    }
}
