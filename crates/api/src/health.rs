//! What anybody may ask: whether the process lives, whether it can serve, its metrics; and the probe, where
//! it is switched on. None of them shows a name, a parameter or a key.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use orloj_raft_store::status::{NodeState, Role};
use orloj_wire::problem::Code;
use serde::Serialize;

use crate::http::{self, new_request_id};
use crate::metrics;
use crate::ops::role_name;
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

/// Everything about the node's place in the cluster, for tests and for people in trouble.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Probe {
    id: Option<u64>,
    term: u64,
    role: &'static str,
    leader: Option<u64>,
    round: u64,
    /// The round in which this node schedules; null when it does not.
    serving: Option<u64>,
    last_log: u64,
    committed: u64,
    applied: u64,
    purged: u64,
    snapshot: u64,
    digest: String,
    digest_index: u64,
    /// Timers in the wheel; 0 on a node that does not lead, like everything below.
    wheel_size: usize,
    /// Milliseconds until the earliest timer; negative when it is overdue.
    oldest_due_timer: Option<i64>,
    /// How far the wall clock has been stepped since this leader began, in ms.
    wall_offset: i64,
    /// Every figure of the leader's loop.
    scheduler: orloj_scheduler::Probe,
}

/// `GET /debug/probe`
pub(crate) async fn probe(State(public): State<Arc<Public>>) -> Response {
    let shared = public.api.shared();
    if !shared.options.debug_probe {
        let id = new_request_id();
        let failure = Failure::new(Code::NotFound, "the probe is switched off");
        return http::response(finish(failure.answer(&id), &id));
    }
    let scheduler = shared.leader.probe();
    let status = shared.backend.status();
    respond(Answer::json(
        200,
        &Probe {
            id: status.id,
            term: status.term,
            role: role_name(status.role),
            leader: status.leader,
            round: status.round,
            serving: shared.leader.serving(),
            last_log: status.last_log,
            committed: status.committed,
            applied: status.applied,
            purged: status.purged,
            snapshot: status.snapshot,
            digest: format!("{:016x}", status.digest),
            digest_index: status.applied,
            wheel_size: scheduler.wheel_size,
            oldest_due_timer: scheduler.oldest_due_timer_ms,
            wall_offset: scheduler.wall_offset_ms,
            scheduler,
        },
    ))
}
