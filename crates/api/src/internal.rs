//! The internal listener: peers' Raft calls, requests that followers hand on, and the executors.
//!
//! Every call is signed: replicas with the cluster's secret for the address that they call, executors with
//! theirs for the audience `scheduler`. There is no unsigned route.

mod executors;

use std::future::Future;
use std::net::IpAddr;

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::{Path, State};
use axum::http::{HeaderValue, Request as HttpRequest, Version};
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use orloj_model::access::Denial;
use orloj_model::id::{ExecutorId, NodeId};
use orloj_net::{Peer, Remote, Role};
use orloj_raft_store::RpcError;
use orloj_raft_store::transport::{RPC_BODY_LIMIT, RpcEnvelope, RpcKind};
use orloj_wire::problem::Code;
use orloj_wire::rest::{BATCH_BODY_LIMIT, BODY_LIMIT};
use orloj_wire::sign::{ACCESS_KEY_HEADER, Label};

use crate::auth::{Credentials, Target};
use crate::bodies::{Asks, Bodies, Place};
use crate::forward::{ADMIT_PATH, ANSWERED_HEADER, DENIALS_PATH, FORWARD_PATH};
use crate::http::{self, new_request_id};
use crate::outcome::{Answer, Failure, finish, is_denial};
use crate::peer;
use crate::public::plain;
use crate::request::Request;
use crate::service::{Api, NotLeading};

/// Whom executors sign for.
pub const SCHEDULER_AUDIENCE: &str = "scheduler";
/// The largest head of a forwarded request, in bytes.
const FORWARD_HEAD: usize = 16 * 1024;
/// Bodies of replicas that are no longer need no place, in bytes: elections wait for nobody. There may be one on each request
/// of each connection.
const SMALL: u64 = 4 * 1024;

/// The router of the internal listener.
pub fn router(api: Api) -> Router {
    Router::new()
        .route("/raft/v1/{kind}", post(raft))
        .route(FORWARD_PATH, post(forward))
        .route(ADMIT_PATH, post(admit))
        .route(DENIALS_PATH, post(denials))
        .route("/internal/v1/executors/register", post(executors::register))
        .route("/internal/v1/executors/heartbeat", post(executors::heartbeat))
        .route("/internal/v1/executors/report", post(executors::report))
        .route("/internal/v1/executors/save", post(executors::save))
        .route("/internal/v1/executors/leave", post(executors::leave))
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

/// Who makes a call, before that is checked: for the record of one that is refused.
struct Stranger {
    action: &'static str,
    address: IpAddr,
    name: Option<HeaderValue>,
}

impl Stranger {
    fn of(action: &'static str, request: &HttpRequest<Body>) -> Self {
        let name = request.headers().get(ACCESS_KEY_HEADER).cloned();
        Stranger { action, address: Remote::of(request.extensions()), name }
    }

    /// Records a call that is refused for who made it.
    fn refused(&self, api: &Api, failure: &Failure) {
        if !is_denial(failure.code) {
            return;
        }
        let shared = api.shared();
        // A name of another form is nobody's.
        let name = self.name.as_ref().and_then(|name| name.to_str().ok()).filter(|name| is_name(name));
        shared.metrics.refused(failure.code.as_str());
        shared.denials.add(Denial {
            access_key: name.unwrap_or_default().to_owned(),
            action: self.action.to_owned(),
            code: failure.code.as_str().to_owned(),
            address: self.address.to_string(),
            request_id: new_request_id(),
            count: 1,
        });
    }
}

fn is_name(name: &str) -> bool {
    ExecutorId::new(name).is_ok()
}

/// A call whose signature has been checked.
struct Checked {
    credentials: Credentials,
    head: axum::http::request::Parts,
    body: Bytes,
    stranger: Stranger,
}

/// Reads a call and checks that it is signed by a replica for this node.
async fn from_replica(
    api: &Api,
    action: &'static str,
    request: HttpRequest<Body>,
    limit: usize,
) -> Result<Checked, Failure> {
    let stranger = Stranger::of(action, &request);
    let checked =
        check_replica(api, request, limit).await.inspect_err(|failure| stranger.refused(api, failure));
    let (credentials, head, body) = checked?;
    Ok(Checked { credentials, head, body, stranger })
}

/// The parts of a call whose signature is good.
type Parts = (Credentials, axum::http::request::Parts, Bytes);

async fn check_replica(api: &Api, request: HttpRequest<Body>, limit: usize) -> Result<Parts, Failure> {
    let options = &api.shared().options;
    let (head, body) = request.into_parts();
    certified(api, &head, Role::Replica, None)?;
    let credentials = Credentials::from_headers(&head.headers)?;
    http::check_length(&head.headers, limit)?;
    // Who has shown a replica's certificate is no stranger. Elections and signs of life wait for nobody.
    let declared = body.size_hint().exact();
    let place = match options.tls.is_some() || declared.is_some_and(|length| length <= SMALL) {
        true => None,
        false => Some(place_for(&api.shared().replica_bodies, &head, declared, limit).await?),
    };
    let body = http::read_body(body, limit, http::BODY_TIMEOUT).await?;
    let target = target(&head, &options.internal, &body);
    let now = api.shared().clock.wall_ms();
    peer::check(&credentials, target, Label::Peer, &options.cluster_secret, now)?;
    drop(place);
    Ok((credentials, head, body))
}

/// A place for a body of at most `limit` bytes, which declares this length. Until the signature is checked anybody may
/// have sent it.
async fn place_for(
    bodies: &Bodies,
    head: &axum::http::request::Parts,
    declared: Option<u64>,
    limit: usize,
) -> Result<Place, Failure> {
    let declared = declared.and_then(|length| usize::try_from(length).ok());
    let asks = Asks {
        address: Remote::of(&head.extensions),
        connection: Remote::connection(&head.extensions),
        is_multiplexed: head.version == Version::HTTP_2,
        length: declared.unwrap_or(limit).min(limit),
    };
    bodies.take(asks, http::BODY_TIMEOUT).await.ok_or_else(|| {
        let detail = "too many bodies of this kind are being read, or too many from this address";
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
    let call = match from_replica(&api, "raft", request, RPC_BODY_LIMIT).await {
        Ok(call) => call,
        Err(failure) => return refuse(failure),
    };
    let envelope = match RpcEnvelope::from_query(call.head.uri.query().unwrap_or_default()) {
        Ok(envelope) => envelope,
        Err(error) => return refuse(Failure::new(Code::InvalidRequest, error.to_string())),
    };
    if let Err(failure) = from_member(&api, &call.head, envelope.from) {
        call.stranger.refused(&api, &failure);
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
    handed_on(&api, "forward", request, |request| api.answer_forwarded(request)).await
}

async fn admit(State(api): State<Api>, request: HttpRequest<Body>) -> Response {
    handed_on(&api, "admit", request, |request| api.let_in_forwarded(request)).await
}

/// A request that a follower hands on, answered by the leader.
async fn handed_on<F: Future<Output = Result<Answer, NotLeading>>>(
    api: &Api,
    action: &'static str,
    request: HttpRequest<Body>,
    answer: impl FnOnce(Request) -> F,
) -> Response {
    let call = match from_replica(api, action, request, BATCH_BODY_LIMIT + FORWARD_HEAD).await {
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
    let call = match from_replica(&api, "denials", request, BODY_LIMIT).await {
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
    match shared.write_denials(denials, Some(call.credentials.claim())).await {
        true => http::response(Answer::empty(204)),
        // Whoever tells of them keeps them.
        false => refuse(Failure::no_leader()),
    }
}
