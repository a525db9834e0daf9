//! The entries of the calls that look after executors and replicas.

use orloj_wire::problem::Code;
use orloj_wire::rest::{AddMember, Cluster, Drain, Drained, Executors, MemberChanged, Transfer, Transferred};
use serde_json::json;

use super::call::Call;
use super::schema::Nothing;

/// The entries.
pub(super) fn calls() -> Vec<Call> {
    vec![executors(), drain(), cluster(), transfer(), add(), remove()]
}

fn executors() -> Call {
    Call::new("executors", "GET", "/openapi/v1/executors", "List the executors").answers::<Executors>(
        200,
        "Every executor, by id.",
        json!({ "executors": [{
            "executorId": "executor-1", "state": "online", "incarnation": 3, "address": "10.0.0.7:7080",
            "handlers": ["echo", "shell"], "slots": 8, "queue": 8, "weight": 100, "zone": "a",
            "labels": { "disk": "ssd" }, "version": "0.1.0", "registeredAt": "2027-01-15T07:00:00.000Z",
            "freeSlots": 7, "queued": 0, "cpuPct": 12.5, "lastHeartbeatMs": 812,
        }], "appliedIndex": 4711 }),
    )
}

fn drain() -> Call {
    Call::new(
        "executors",
        "POST",
        "/openapi/v1/executors/{executorId}/drain",
        "Give an executor no more work",
    )
    .text("An empty body drains; `{\"on\":false}` takes it back.")
    .may_take::<Drain>(json!({ "on": true }))
    .answers::<Drained>(
        200,
        "How it stands now.",
        json!({
            "executorId": "executor-1", "draining": true, "appliedIndex": 4711,
        }),
    )
    .refuses(&[Code::NotFound, Code::Conflict])
}

fn cluster() -> Call {
    Call::new("cluster", "GET", "/openapi/v1/cluster", "Show the replicas and who leads")
        .text(
            "Every replica answers by itself. Without a leader it answers the keys of the secrets file alone: of any \
             other it cannot know whether it was disabled meanwhile.",
        )
        .answers::<Cluster>(200, "The cluster as the answering replica sees it.", json!({
            "clusterId": "orloj", "leader": 1, "round": 7, "term": 9,
            "members": [{
                "id": 1, "api": "https://10.0.0.1:7070", "role": "leader", "state": "ok", "appliedIndex": 4711,
                "digest": "0123456789abcdef", "lagEntries": 0,
            }],
        }))
}

fn transfer() -> Call {
    Call::new("cluster", "POST", "/openapi/v1/cluster/transfer", "Move the leadership to a replica")
        .takes::<Transfer>(json!({ "to": 2 }))
        .answers::<Transferred>(200, "Who leads now.", json!({ "leader": 2 }))
        .refuses(&[Code::NotFound, Code::Conflict])
}

fn add() -> Call {
    Call::new("cluster", "POST", "/openapi/v1/cluster/members", "Add a replica that was started without data")
        .takes::<AddMember>(json!({ "internal": "10.0.0.4:7071", "api": "https://10.0.0.4:7070" }))
        .answers::<MemberChanged>(200, "It is a member.", json!({ "id": 4, "member": true }))
        .refuses(&[Code::Conflict])
}

fn remove() -> Call {
    Call::new("cluster", "POST", "/openapi/v1/cluster/members/{memberId}/remove", "Take a replica out")
        .text("Its id never comes back.")
        .may_take::<Nothing>(json!({}))
        .answers::<MemberChanged>(200, "It is no member any more.", json!({ "id": 4, "member": false }))
        .refuses(&[Code::NotFound, Code::Conflict])
}
