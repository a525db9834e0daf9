//! What anybody may ask: whether the process lives, whether it can serve, its metrics; and the probe, where
//! it is switched on. None of them shows a name, a parameter or a key.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use orloj_raft_store::status::{NodeState, NodeStatus, Role};
use orloj_wire::problem::Code;
use serde::Serialize;

use crate::debug::Probe;
use crate::http::{self, new_request_id};
use crate::metrics;
use crate::outcome::{Answer, Failure, finish};
use crate::public::{Public, plain};

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
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

/// Why a replica cannot serve: a stable code, and the same for people.
pub(crate) type Unready = (&'static str, &'static str);

pub(crate) const STORAGE_FAILED: Unready = ("storage_failed", "the storage has failed");
pub(crate) const NOTHING_APPLIED: Unready = ("nothing_applied", "nothing is applied yet");
pub(crate) const NOT_A_MEMBER: Unready = ("not_a_member", "this node is no member of the cluster");
pub(crate) const NO_LEADER: Unready = ("no_leader", "no leader is heard");
pub(crate) const NO_MAJORITY: Unready =
    ("no_majority", "this leader does not hear a majority of the replicas");
pub(crate) const NOT_SCHEDULING: Unready = ("not_scheduling", "this leader does not schedule yet");

/// Every reason, the first that holds is told.
pub(crate) const REASONS: [Unready; 6] =
    [STORAGE_FAILED, NOTHING_APPLIED, NOT_A_MEMBER, NO_LEADER, NO_MAJORITY, NOT_SCHEDULING];

/// `GET /readyz`: the node has applied, hears a leader that has a majority, and when it is the leader, schedules.
pub(crate) async fn ready(State(public): State<Arc<Public>>) -> Response {
    let shared = public.api.shared();
    let leading = shared.backend.leadership().borrow().leading;
    let unready = not_ready(&shared.backend.status(), leading, shared.leader.serving().is_some());
    let status = if unready.is_none() { 200 } else { 503 };
    let (code, reason) = unready.unzip();
    respond(Answer::json(status, &Ready { ready: unready.is_none(), code, reason }))
}

fn not_ready(status: &NodeStatus, leading: bool, serving: bool) -> Option<Unready> {
    match status {
        NodeStatus { state: NodeState::Failed, .. } => Some(STORAGE_FAILED),
        NodeStatus { applied: 0, .. } => Some(NOTHING_APPLIED),
        NodeStatus { role: Role::Stopped, .. } => Some(NOT_A_MEMBER),
        NodeStatus { leader: None, .. } if leading => Some(NO_MAJORITY),
        NodeStatus { leader: None, .. } => Some(NO_LEADER),
        _ if leading && !serving => Some(NOT_SCHEDULING),
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_serves_while_it_hears_a_leader_that_has_a_majority() {
        let well = NodeStatus { role: Role::Follower, applied: 7, leader: Some(2), ..NodeStatus::default() };
        let leads = NodeStatus { role: Role::Leader, ..well.clone() };
        let cases = [
            (well.clone(), false, false, None),
            (leads.clone(), true, true, None),
            (leads.clone(), true, false, Some(NOT_SCHEDULING)),
            (NodeStatus { leader: None, ..well.clone() }, false, false, Some(NO_LEADER)),
            (NodeStatus { leader: None, ..leads }, true, true, Some(NO_MAJORITY)),
            (NodeStatus { role: Role::Stopped, ..well.clone() }, false, false, Some(NOT_A_MEMBER)),
            (NodeStatus { applied: 0, ..well.clone() }, false, false, Some(NOTHING_APPLIED)),
            (NodeStatus { state: NodeState::Failed, ..well.clone() }, false, false, Some(STORAGE_FAILED)),
            (NodeStatus { state: NodeState::DiskLow, ..well }, false, false, None),
        ];
        for (status, leading, serving, right) in cases {
            assert_eq!(not_ready(&status, leading, serving), right, "{status:?}");
        }
    }
}
