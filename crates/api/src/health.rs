//! What anybody may ask: whether the process lives, whether it can serve, its metrics; and the probe, where
//! it is switched on. None of them shows a name, a parameter or a key.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use orloj_raft_store::status::{NodeState, Role};
use orloj_wire::problem::Code;
use serde::Serialize;

use crate::debug::Probe;
use crate::http::{self, new_request_id};
use crate::metrics;
use crate::outcome::{Answer, Failure, finish};
use crate::public::{Public, plain};
use crate::service::Shared;

fn respond(answer: Answer) -> Response {
    http::response(finish(answer, &new_request_id()))
}

/// `GET /healthz`: the process answers.
pub(crate) async fn alive() -> Response {
    respond(plain(200, "text/plain; charset=utf-8", "ok\n"))
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Ready {
    ready: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

/// `GET /readyz`: the node has applied, knows a leader, and when it is the leader, schedules.
pub(crate) async fn ready(State(public): State<Arc<Public>>) -> Response {
    let reason = not_ready(public.api.shared());
    let status = if reason.is_none() { 200 } else { 503 };
    respond(Answer::json(status, &Ready { ready: reason.is_none(), reason }))
}

fn not_ready(shared: &Shared) -> Option<&'static str> {
    let status = shared.backend.status();
    let leadership = *shared.backend.leadership().borrow();
    if status.state == NodeState::Failed {
        return Some("the storage has failed");
    }
    if status.applied == 0 {
        return Some("nothing is applied yet");
    }
    if status.role == Role::Stopped {
        return Some("this node is no member of the cluster");
    }
    if leadership.leader.is_none() {
        return Some("no leader is known");
    }
    (leadership.leading && shared.leader.serving().is_none()).then_some("this leader does not schedule yet")
}

/// `GET /metrics`
pub(crate) async fn metrics(State(public): State<Arc<Public>>) -> Response {
    let shared = public.api.shared();
    let text = shared.metrics.render(&public.registry, &shared.backend.status(), shared.gate.waiting());
    respond(plain(200, metrics::MEDIA_TYPE, text))
}

/// `GET /debug/probe`
pub(crate) async fn probe(State(public): State<Arc<Public>>) -> Response {
    let shared = public.api.shared();
    if !shared.options.debug_probe {
        let id = new_request_id();
        let failure = Failure::new(Code::NotFound, "the probe is switched off");
        return http::response(finish(failure.answer(&id), &id));
    }
    respond(Answer::json(200, &Probe::of(shared)))
}
