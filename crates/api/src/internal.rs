//! The internal listener: peers' Raft calls, requests that followers hand on, and the executors.
//!
//! Every call is signed: replicas with the cluster's secret for the address that they call, executors with
//! theirs for the audience `scheduler`. There is no unsigned route.

use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::{Path, State};
use axum::http::Request as HttpRequest;
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use orloj_model::command::Claim;
use orloj_model::id::{ExecutorId, NodeId};
use orloj_net::{Peer, Remote, Role};
use orloj_raft_store::RpcError;
use orloj_raft_store::transport::{RPC_BODY_LIMIT, RpcEnvelope, RpcKind};
use orloj_scheduler::LeaderError;
use orloj_wire::problem::Code;
use orloj_wire::protocol::{Heartbeat, Leave, NotLeader, Register, Reports, Saves};
use orloj_wire::rest::{BATCH_BODY_LIMIT, BODY_LIMIT};
use orloj_wire::sign::{Label, NONCE_KEEP_S};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::auth::{Credentials, Target};
use crate::bodies::{Asks, Place};
use crate::forward::{ADMIT_PATH, ANSWERED_HEADER, DENIALS_PATH, FORWARD_PATH};
use crate::http::{self, new_request_id};
use crate::outcome::{Answer, Failure, finish};
use crate::peer;
use crate::public::plain;
use crate::request::Request;
use crate::service::{Api, NotLeading};

/// Whom executors sign for.
pub const SCHEDULER_AUDIENCE: &str = "scheduler";
/// The largest head of a forwarded request, in bytes.
const FORWARD_HEAD: usize = 16 * 1024;
/// The largest message of an executor: 256 reports with their results and log tails, in bytes.
const EXECUTOR_LIMIT: usize = 32 * 1024 * 1024;

/// The router of the internal listener.
pub fn router(api: Api) -> Router {
    Router::new()
        .route("/raft/v1/{kind}", post(raft))
        .route(FORWARD_PATH, post(forward))
        .route(ADMIT_PATH, post(admit))
        .route(DENIALS_PATH, post(denials))
        .route("/internal/v1/executors/register", post(register))
        .route("/internal/v1/executors/heartbeat", post(heartbeat))
        .route("/internal/v1/executors/report", post(report))
        .route("/internal/v1/executors/save", post(save))
        .route("/internal/v1/executors/leave", post(leave))
        .fallback(nothing)
        .method_not_allowed_fallback(only_post)
        .with_state(api)
}

async fn nothing() -> Response {
    refuse(Failure::new(Code::NotFound, "no internal call has this path"))
}

async fn only_post() -> Response {
    refuse(Failure::method("POST"))
}

fn refuse(failure: Failure) -> Response {
    let id = new_request_id();
    http::response(finish(failure.answer(&id), &id))
}

/// A call whose signature has been checked.
struct Checked {
    credentials: Credentials,
    head: axum::http::request::Parts,
    body: Bytes,
}

/// Reads a call and checks that it is signed by a replica for this node.
async fn from_replica(api: &Api, request: HttpRequest<Body>, limit: usize) -> Result<Checked, Failure> {
    let options = &api.shared().options;
    let (head, body) = request.into_parts();
    certified(api, &head, Role::Replica, None)?;
    let credentials = Credentials::from_headers(&head.headers)?;
    http::check_length(&head.headers, limit)?;
    let body = http::read_body(body, limit, http::BODY_TIMEOUT).await?;
    let target = target(&head, &options.internal, &body);
    let now = api.shared().clock.wall_ms();
    peer::check(&credentials, target, Label::Peer, &options.cluster_secret, now)?;
    Ok(Checked { credentials, head, body })
}

/// Reads a call and checks that it is signed by an executor.
async fn from_executor(api: &Api, request: HttpRequest<Body>) -> Result<Checked, Failure> {
    let shared = api.shared();
    let (head, body) = request.into_parts();
    let is_name = |name: &str| ExecutorId::new(name).is_ok();
    let credentials = Credentials::from_headers_of(&head.headers, "must be the executor's id", is_name)?;
    certified(api, &head, Role::Executor, Some(&credentials.access_key))?;
    http::check_length(&head.headers, EXECUTOR_LIMIT)?;
    // Until the signature is checked anybody may have sent it.
    let declared = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
    let place = place_for(api, &head, declared.unwrap_or(EXECUTOR_LIMIT)).await?;
    let body = http::read_body(body, EXECUTOR_LIMIT, http::BODY_TIMEOUT).await?;
    let secret = ExecutorId::new(credentials.access_key.as_str())
        .ok()
        .and_then(|id| shared.directory.executor(&id).cloned())
        .ok_or_else(|| Failure::new(Code::InvalidSignature, "the sender or the signature is wrong"))?;
    let target = target(&head, SCHEDULER_AUDIENCE, &body);
    peer::check(&credentials, target, Label::Executor, &secret, shared.clock.wall_ms())?;
    drop(place);
    Ok(Checked { credentials, head, body })
}

/// A place for the body of an executor's call, which may have so many bytes.
async fn place_for(api: &Api, head: &axum::http::request::Parts, length: usize) -> Result<Place, Failure> {
    let asks = Asks {
        address: Remote::of(&head.extensions),
        connection: Remote::connection(&head.extensions),
        length: length.min(EXECUTOR_LIMIT),
    };
    let place = api.shared().executor_bodies.take(asks, http::BODY_TIMEOUT).await;
    place.ok_or_else(|| {
        let detail = "too many bodies of executors are being read, or too many from this address";
        Failure::new(Code::Overloaded, detail)
    })
}

/// Where there is TLS: checks that the caller's certificate names this one of the cluster.
fn certified(
    api: &Api,
    head: &axum::http::request::Parts,
    role: Role,
    name: Option<&str>,
) -> Result<(), Failure> {
    let Some(tls) = &api.shared().options.tls else { return Ok(()) };
    tls.check(head.extensions.get::<Peer>(), role, name).map_err(|impostor| {
        let remote = Remote::of(&head.extensions);
        tracing::warn!(%remote, %impostor, path = head.uri.path(), "a call was refused for its certificate");
        Failure::new(Code::CertificateDenied, impostor.to_string())
    })
}

/// Where there is TLS: checks that the certificate of who calls as the member `from` names that member's address.
/// A member that this node has not heard of yet, and a node without an id, are any replica of the cluster.
fn from_member(api: &Api, head: &axum::http::request::Parts, from: NodeId) -> Result<(), Failure> {
    if api.shared().options.tls.is_none() {
        return Ok(());
    }
    let member = api.shared().backend.members().into_iter().find(|member| member.id == from);
    let address = member.map(|member| member.internal);
    certified(api, head, Role::Replica, address.as_deref())
}

fn target<'a>(head: &'a axum::http::request::Parts, audience: &'a str, body: &'a [u8]) -> Target<'a> {
    Target {
        audience,
        method: head.method.as_str(),
        path: head.uri.path(),
        query: head.uri.query().unwrap_or_default(),
        body,
    }
}

async fn raft(State(api): State<Api>, Path(kind): Path<String>, request: HttpRequest<Body>) -> Response {
    let Ok(kind) = kind.parse::<RpcKind>() else { return nothing().await };
    let call = match from_replica(&api, request, RPC_BODY_LIMIT).await {
        Ok(call) => call,
        Err(failure) => return refuse(failure),
    };
    let envelope = match RpcEnvelope::from_query(call.head.uri.query().unwrap_or_default()) {
        Ok(envelope) => envelope,
        Err(error) => return refuse(Failure::new(Code::InvalidRequest, error.to_string())),
    };
    if let Err(failure) = from_member(&api, &call.head, envelope.from) {
        return refuse(failure);
    }
    let answer = match api.shared().backend.handle_rpc(kind, envelope, call.body).await {
        Ok(body) => plain(200, "application/octet-stream", body),
        Err(error) => {
            let status = match error {
                RpcError::Misdirected(_) => 421,
                RpcError::Malformed(_) => 400,
                RpcError::NotReady | RpcError::Stopped(_) => 503,
            };
            plain(status, "text/plain; charset=utf-8", error.to_string())
        }
    };
    http::response(answer)
}

async fn forward(State(api): State<Api>, request: HttpRequest<Body>) -> Response {
    handed_on(&api, request, |request| api.answer_forwarded(request)).await
}

async fn admit(State(api): State<Api>, request: HttpRequest<Body>) -> Response {
    handed_on(&api, request, |request| api.let_in_forwarded(request)).await
}

/// A request that a follower hands on, answered by the leader.
async fn handed_on<F: Future<Output = Result<Answer, NotLeading>>>(
    api: &Api,
    request: HttpRequest<Body>,
    answer: impl FnOnce(Request) -> F,
) -> Response {
    let call = match from_replica(api, request, BATCH_BODY_LIMIT + FORWARD_HEAD).await {
        Ok(call) => call,
        Err(failure) => return refuse(failure),
    };
    let Some(request) = Request::decode(call.body) else {
        return refuse(Failure::new(Code::InvalidRequest, "not a request that a replica hands on"));
    };
    match answer(request).await {
        Ok(answer) => http::response(answer.with(ANSWERED_HEADER, "1")),
        Err(NotLeading) => refuse(Failure::new(Code::NotLeader, "this replica does not lead")),
    }
}

async fn denials(State(api): State<Api>, request: HttpRequest<Body>) -> Response {
    let call = match from_replica(&api, request, BODY_LIMIT).await {
        Ok(call) => call,
        Err(failure) => return refuse(failure),
    };
    let Ok(denials) = serde_json::from_slice(&call.body) else {
        return refuse(Failure::new(Code::InvalidRequest, "no list of refused calls"));
    };
    // Unlike a peer's other calls this one has an effect each time. Its nonce is spent in the log, and its time is
    // checked, so that the log need not remember it for ever.
    let shared = api.shared();
    if let Err(failure) = shared.auth_s().and_then(|now_s| call.credentials.check_time(now_s)) {
        return refuse(failure);
    }
    let expires_at = (call.credentials.timestamp_s() + NONCE_KEEP_S) * 1000;
    let claim = Claim { nonce: call.credentials.nonce_hash(), expires_at };
    shared.write_denials(denials, Some(claim)).await;
    http::response(Answer::empty(204))
}

async fn register(State(api): State<Api>, request: HttpRequest<Body>) -> Response {
    let leader = Arc::clone(&api.shared().leader);
    executor_call(&api, request, |m: &Register| &m.executor_id, |m| async move { leader.register(m).await })
        .await
}

async fn heartbeat(State(api): State<Api>, request: HttpRequest<Body>) -> Response {
    let leader = Arc::clone(&api.shared().leader);
    executor_call(&api, request, |m: &Heartbeat| &m.executor_id, |m| async move { leader.heartbeat(m).await })
        .await
}

async fn report(State(api): State<Api>, request: HttpRequest<Body>) -> Response {
    let leader = Arc::clone(&api.shared().leader);
    executor_call(&api, request, |m: &Reports| &m.executor_id, |m| async move { leader.report(m).await })
        .await
}

async fn save(State(api): State<Api>, request: HttpRequest<Body>) -> Response {
    let leader = Arc::clone(&api.shared().leader);
    executor_call(&api, request, |m: &Saves| &m.executor_id, |m| async move { leader.save(m).await }).await
}

async fn leave(State(api): State<Api>, request: HttpRequest<Body>) -> Response {
    let leader = Arc::clone(&api.shared().leader);
    executor_call(&api, request, |m: &Leave| &m.executor_id, |m| async move { leader.leave(m).await }).await
}

/// One call of an executor: checked, read, spoken in its own name, answered by the leader's loop.
async fn executor_call<M, A, F>(
    api: &Api,
    request: HttpRequest<Body>,
    sender: fn(&M) -> &str,
    ask: impl FnOnce(M) -> F,
) -> Response
where
    M: DeserializeOwned,
    A: Serialize,
    F: Future<Output = Result<A, LeaderError>>,
{
    let call = match from_executor(api, request).await {
        Ok(call) => call,
        Err(failure) => return refuse(failure),
    };
    let message: M = match orloj_wire::json::read(&call.body) {
        Ok(message) => message,
        Err(fault) => return refuse(Failure::fields(Code::InvalidRequest, vec![fault])),
    };
    if sender(&message) != call.credentials.access_key {
        let detail = format!(
            "executor {:?} speaks in the name of {:?}",
            call.credentials.access_key,
            sender(&message)
        );
        return refuse(Failure::new(Code::ScopeDenied, detail));
    }
    match ask(message).await {
        Ok(answer) => http::response(Answer::json(200, &answer)),
        Err(LeaderError::NotLeader { leader }) => {
            let body = NotLeader { code: Code::NotLeader.as_str().to_owned(), leader };
            http::response(Answer::json(421, &body))
        }
        Err(other) => refuse(other.into()),
    }
}
