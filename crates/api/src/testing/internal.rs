//! What replicas and executors say to each other.

use axum::body::Body;
use axum::http::Request;
use orloj_net::{ClusterTls, Files, Identity, Peer, Role, Tls};
use orloj_raft_store::http::SignedParts;
use orloj_scheduler::LeaderError;
use orloj_wire::problem::Code;
use orloj_wire::sign::{
    ACCESS_KEY_HEADER, Label, NONCE_HEADER, Parts, SIGNATURE_HEADER, Secret, TIMESTAMP_HEADER, new_nonce,
};
use serde_json::{Value, json};

use super::fake::{CLUSTER_SECRET, EXECUTOR_SECRET};
use super::{Draft, T, Universe};
use crate::outcome::Failure;
use crate::peer;

mod captured;

const EXECUTORS: &str = "/internal/v1/executors";

struct Sent<'a> {
    label: Label,
    audience: &'a str,
    secret: &'a str,
    from: &'a str,
    stamped_s: i64,
}

impl Sent<'_> {
    fn at(self, stamped_s: i64) -> Self {
        Sent { stamped_s, ..self }
    }

    fn to(&self, path: &str, body: &[u8]) -> Request<Body> {
        let (timestamp, nonce) = (self.stamped_s.to_string(), new_nonce());
        let parts = Parts {
            label: self.label,
            audience: self.audience,
            access_key: self.from,
            timestamp: &timestamp,
            nonce: &nonce,
            method: "POST",
            path,
            query: "",
            idempotency_key: "",
            body,
        };
        Request::post(path)
            .header(ACCESS_KEY_HEADER, self.from)
            .header(SIGNATURE_HEADER, parts.sign(&Secret::new(self.secret).unwrap()))
            .header(TIMESTAMP_HEADER, &timestamp)
            .header(NONCE_HEADER, &nonce)
            .body(Body::from(body.to_vec()))
            .unwrap()
    }
}

fn executor(from: &str) -> Sent<'_> {
    Sent { label: Label::Executor, audience: "scheduler", secret: EXECUTOR_SECRET, from, stamped_s: T }
}

fn heartbeat(id: &str) -> Vec<u8> {
    json!({
        "executorId": id, "incarnation": 1, "round": 1, "holding": [], "freeSlots": 4, "queued": 0, "cpuPct": 1.0,
    })
    .to_string()
    .into_bytes()
}

fn leave(id: &str) -> Vec<u8> {
    json!({"executorId": id, "incarnation": 1}).to_string().into_bytes()
}

/// Every call of an executor, in the name of `id`.
fn calls(id: &str) -> [(&'static str, Vec<u8>); 5] {
    let attempt = json!({"taskId": "tsk_1", "shardIndex": 0, "attempt": 1, "fence": 9});
    let with = |more: Value| {
        let mut whole = attempt.clone();
        whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        whole
    };
    let report = with(json!({"incarnation": 1, "outcome": "succeeded", "endedAt": 0}));
    let register = json!({"executorId": id, "incarnation": 1, "address": "h:1", "handlers": ["echo"], "slots": 1,
        "queue": 1, "weight": 1, "version": "1", "holding": []});
    let body = |body: Value| body.to_string().into_bytes();
    [
        ("register", body(register)),
        ("heartbeat", heartbeat(id)),
        ("report", body(json!({"executorId": id, "reports": [report]}))),
        ("save", body(json!({"executorId": id, "saves": [with(json!({"percent": 50}))]}))),
        ("leave", leave(id)),
    ]
}

#[tokio::test]
async fn b123_an_executor_speaks_in_its_own_name() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    for (call, body) in calls("e1") {
        let path = format!("{EXECUTORS}/{call}");
        node.send_internal(executor("e2").to(&path, &body)).await.is(403, "scope_denied");
        // A caller's key is none of an executor.
        let caller = Sent { label: Label::Caller, secret: super::SECRET_A, ..executor("ak_A") };
        node.send_internal(caller.to(&path, &body)).await.is(401, "invalid_signature");
    }
    assert!(node.leader.heard.lock().unwrap().is_empty());
    for (call, body) in calls("rack.1") {
        let reply = node.send_internal(executor("rack.1").to(&format!("{EXECUTORS}/{call}"), &body)).await;
        assert!(matches!(reply.status, 200 | 204), "{call}: {}", reply.text);
    }
    let heard = ["register", "heartbeat", "report", "save", "leave"].map(|call| format!("{call} rack.1"));
    assert_eq!(*node.leader.heard.lock().unwrap(), heard);
}

#[tokio::test]
async fn an_executor_says_all_that_it_may_hold() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    // As many slots and queue places as a registration may name, each attempt with the longest numbers that there are.
    let attempt = json!({"taskId": "tsk_AAECAwQFBgcICQoLDA0ODw", "shardIndex": u16::MAX, "attempt": u32::MAX,
        "fence": u64::MAX, "state": "queued", "runningMs": null});
    let full = 200_000 * (attempt.to_string().len() + 1);
    for (call, mut body) in calls("e1").into_iter().take(2) {
        body.resize(body.len() + full, b' ');
        let reply = node.send_internal(executor("e1").to(&format!("{EXECUTORS}/{call}"), &body)).await;
        assert_eq!(reply.status, 200, "{call}, {} bytes: {}", body.len(), reply.text);
    }
}

#[tokio::test]
async fn an_executors_signature_is_of_its_class_for_the_scheduler() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let path = format!("{EXECUTORS}/leave");
    for bad in [
        Sent { label: Label::Peer, ..executor("e1") },
        Sent { label: Label::Caller, ..executor("e1") },
        Sent { audience: "default", ..executor("e1") },
        Sent { audience: "e1", ..executor("e1") },
        Sent { secret: CLUSTER_SECRET, ..executor("e1") },
        Sent { secret: super::SECRET_A, from: "ak_A", ..executor("e1") },
    ] {
        node.send_internal(bad.to(&path, &leave("e1"))).await.is(401, "invalid_signature");
    }
    let mut elsewhere = executor("e1").to(&path, &leave("e1"));
    *elsewhere.uri_mut() = format!("{EXECUTORS}/save").parse().unwrap();
    node.send_internal(elsewhere).await.is(401, "invalid_signature");
    assert!(node.leader.heard.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_node_that_does_not_lead_says_who_does() {
    let universe = Universe::of(2).await;
    let path = format!("{EXECUTORS}/leave");
    let reply = universe.nodes[1].send_internal(executor("e1").to(&path, &leave("e1"))).await;
    assert_eq!((reply.status, reply.body), (421, json!({"code": "not_leader", "leader": "h:1"})));
}

#[test]
fn who_has_not_heard_of_the_round_is_not_sent_to_look_for_another_leader() {
    let failure = Failure::from(LeaderError::EarlierRound);
    assert_eq!((failure.code, failure.code.status()), (Code::Conflict, 409));
}

#[tokio::test]
async fn b121_no_internal_route_answers_without_a_signature() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    for path in [
        "/raft/v1/append",
        "/raft/v1/vote",
        "/raft/v1/snapshot",
        "/raft/v1/probe",
        "/raft/v1/join",
        "/raft/v1/adopt",
        "/internal/v1/forward",
        "/internal/v1/admit",
        "/internal/v1/denials",
        "/internal/v1/executors/register",
        "/internal/v1/executors/heartbeat",
        "/internal/v1/executors/report",
        "/internal/v1/executors/save",
        "/internal/v1/executors/leave",
    ] {
        node.send_internal(Request::post(path).body(Body::empty()).unwrap())
            .await
            .is(401, "missing_credentials");
        node.send_internal(Request::get(path).body(Body::empty()).unwrap())
            .await
            .is(405, "method_not_allowed");
        // A caller's signature is worth nothing here.
        let draft = Draft::post(path, Value::Null).signed();
        node.send_internal(draft).await.is(401, "invalid_signature");
    }
    for path in ["/openapi/v1/tasks", "/raft/v1/unknown", "/raft/v1/append/", "/metrics", "/"] {
        let request = executor("e1").to(path, b"");
        node.send_internal(request).await.is(404, "not_found");
    }
}

const TO_ONE: &str = "cluster=test&target=1&target-birth=b&from=2&from-birth=b";

fn raft(audience: &str, secret: &str, query: &str, body: &'static [u8]) -> Request<Body> {
    let call = SignedParts { method: "POST", path: "/raft/v1/vote", query, audience, body };
    let mut request = Request::post(format!("/raft/v1/vote?{query}"));
    for (name, value) in peer::sign(call, &Secret::new(secret).unwrap(), T * 1000) {
        request = request.header(name, value);
    }
    request.body(Body::from(body)).unwrap()
}

#[tokio::test]
async fn a_peers_call_is_good_for_the_node_that_it_was_signed_for() {
    let universe = Universe::of(2).await;
    let (one, two) = (&universe.nodes[0], &universe.nodes[1]);
    let ballot = || raft(&one.address, CLUSTER_SECRET, TO_ONE, b"ballot");
    let reply = one.send_internal(ballot()).await;
    assert_eq!((reply.status, reply.text.as_str()), (200, "vote to 1: 6"));
    two.send_internal(ballot()).await.is(401, "invalid_signature");
    one.send_internal(raft(&one.address, EXECUTOR_SECRET, TO_ONE, b"")).await.is(401, "invalid_signature");
    let mut turned = ballot();
    *turned.uri_mut() = format!("/raft/v1/vote?{}", TO_ONE.replace("from=2", "from=3")).parse().unwrap();
    one.send_internal(turned).await.is(401, "invalid_signature");
    let without = raft(&one.address, CLUSTER_SECRET, "cluster=test&target=1", b"ballot");
    one.send_internal(without).await.is(400, "invalid_request");
    let to_zero = TO_ONE.replace("target=1", "target=0");
    let misdirected = raft(&one.address, CLUSTER_SECRET, &to_zero, b"ballot");
    assert_eq!(one.send_internal(misdirected).await.status, 421);
}

#[tokio::test]
async fn a_request_that_is_handed_on_is_checked_again() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let forward = |body: Vec<u8>| {
        let call = SignedParts {
            method: "POST",
            path: "/internal/v1/forward",
            query: "",
            audience: &node.address,
            body: &body,
        };
        let mut request = Request::post("/internal/v1/forward");
        for (name, value) in peer::sign(call, &Secret::new(CLUSTER_SECRET).unwrap(), T * 1000) {
            request = request.header(name, value);
        }
        request.body(Body::from(body)).unwrap()
    };
    let request = |draft: &Draft, signature: String| {
        let request = crate::request::Request {
            method: draft.method.clone(),
            path: draft.path.clone(),
            query: draft.query.clone(),
            credentials: crate::auth::Credentials {
                access_key: draft.access_key.clone(),
                timestamp: draft.timestamp.clone(),
                nonce: draft.nonce.clone(),
                signature,
                idempotency_key: None,
            },
            if_none_match: None,
            keys_of: crate::route::Access::Both,
            request_id: "r".into(),
            body: draft.body.clone().into(),
        };
        request.encode().to_vec()
    };
    let draft = Draft::submit(json!({"handler": "echo"}));
    let forged = node.send_internal(forward(request(&draft, "0".repeat(64)))).await;
    assert_eq!((forged.status, &forged.body["code"]), (401, &"invalid_signature".into()));
    assert_eq!(universe.proposals(), 0);
    node.send_internal(forward(request(&draft, draft.signature()))).await.task_id();
    node.send_internal(forward(b"junk".to_vec())).await.is(400, "invalid_request");
}

#[tokio::test]
async fn malformed_messages_name_the_field() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let path = format!("{EXECUTORS}/leave");
    let reply =
        node.send_internal(executor("e1").to(&path, br#"{"executorId":"e1","incarnation":-1}"#)).await;
    reply.is(400, "invalid_request");
    assert_eq!(reply.body["errors"][0]["pointer"], "/incarnation");
}

#[tokio::test]
async fn b73_a_report_that_can_never_be_taken_is_refused_in_words_that_say_so() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let path = format!("{EXECUTORS}/report");
    let body = |report: Value| json!({"executorId": "e1", "reports": [report]}).to_string().into_bytes();
    let report = json!({"taskId": "tsk_1", "shardIndex": 0, "attempt": 1, "fence": 9, "incarnation": 1,
        "outcome": "succeeded", "endedAt": 0});
    let send = |body: Vec<u8>| node.send_internal(executor("e1").to(&path, &body));
    // What a newer executor says beyond this is passed over; so is a NUL that is escaped.
    let mut newer = report.clone();
    newer["somethingNew"] = 1.into();
    newer["message"] = "\0".into();
    assert_eq!(send(body(newer)).await.status, 200);
    // Every other refusal is a 4xx that an executor takes for final.
    let raw_nul = body(report.clone()).into_iter().chain([0]).collect();
    send(raw_nul).await.is(400, "invalid_request");
    let mut odd = report.clone();
    odd["outcome"] = "forgotten".into();
    let refused = send(body(odd)).await;
    refused.is(400, "invalid_request");
    assert_eq!(refused.body["errors"][0]["pointer"], "/reports/0/outcome");
    let invalid_utf8 = body(report).into_iter().map(|byte| if byte == b'1' { 0xff } else { byte }).collect();
    send(invalid_utf8).await.is(400, "invalid_request");
    let long = Request::post(&path).header("content-length", (32 << 20) + 1);
    let signed = executor("e1").to(&path, b"");
    let long = signed.headers().iter().fold(long, |long, (name, value)| long.header(name, value));
    node.send_internal(long.body(Body::empty()).unwrap()).await.is(413, "payload_too_large");
    assert_eq!(node.leader.heard.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn b78_a_weight_is_a_whole_number_from_zero_on() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let path = format!("{EXECUTORS}/register");
    for (weight, taken) in [
        (json!(0), true),
        (json!(100_000), true),
        (json!(-1), false),
        (json!(0.5), false),
        (json!(1e18), false),
        (json!("1"), false),
        (Value::Null, false),
    ] {
        let (_, body) = &calls("e1")[0];
        let mut body: Value = serde_json::from_slice(body).unwrap();
        body["weight"] = weight.clone();
        let reply = node.send_internal(executor("e1").to(&path, body.to_string().as_bytes())).await;
        if taken {
            assert_eq!(reply.status, 200, "{weight}: {}", reply.text);
        } else {
            reply.is(400, "invalid_request");
            assert_eq!(reply.body["errors"][0]["pointer"], "/weight", "{weight}: {}", reply.text);
        }
    }
}

/// What a listener of TLS puts into a request whose certificate names this one.
fn shown(mut request: Request<Body>, cluster: &str, role: Role, name: &str) -> Request<Body> {
    request.extensions_mut().insert(Peer::new(vec![Identity::new(cluster, role, name).unwrap()]));
    request
}

#[tokio::test]
async fn with_tls_everybody_speaks_for_whom_the_certificate_names() {
    let tls = || ClusterTls { tls: Tls::load(Files::default()).unwrap(), cluster: "blue".to_owned() };
    let universe = Universe::with(2, |options| options.tls = Some(tls())).await;
    let (one, two) = (&universe.nodes[0], &universe.nodes[1]);
    // Calls of the second replica: by its certificate, by the first one's, by an executor's, by another cluster's.
    let vote = || raft(&one.address, CLUSTER_SECRET, TO_ONE, b"ballot");
    let good = one.send_internal(shown(vote(), "blue", Role::Replica, &two.address)).await;
    assert_eq!(good.status, 200, "{}", good.text);
    for (cluster, role, name) in [
        ("blue", Role::Replica, one.address.as_str()),
        ("blue", Role::Executor, two.address.as_str()),
        ("blue", Role::Client, two.address.as_str()),
        ("green", Role::Replica, two.address.as_str()),
    ] {
        one.send_internal(shown(vote(), cluster, role, name)).await.is(403, "certificate_denied");
    }
    one.send_internal(vote()).await.is(403, "certificate_denied");
    // A member that this node has not heard of yet is any replica of the cluster.
    let newcomer = TO_ONE.replace("from=2", "from=9");
    let newcomer = raft(&one.address, CLUSTER_SECRET, &newcomer, b"ballot");
    let heard = one.send_internal(shown(newcomer, "blue", Role::Replica, "h:9")).await;
    assert_eq!(heard.status, 200, "{}", heard.text);
    // Executors.
    let leave = || executor("e1").to(&format!("{EXECUTORS}/leave"), &leave("e1"));
    let left = one.send_internal(shown(leave(), "blue", Role::Executor, "e1")).await;
    assert_eq!(left.status, 200, "{}", left.text);
    for (role, name) in [(Role::Executor, "e2"), (Role::Replica, "e1"), (Role::Replica, &*one.address)] {
        one.send_internal(shown(leave(), "blue", role, name)).await.is(403, "certificate_denied");
    }
    one.send_internal(leave()).await.is(403, "certificate_denied");
    // Who has the shared secret can sign as any executor; its certificate names one.
    one.leader.heard.lock().unwrap().clear();
    for (call, body) in calls("e1") {
        let path = format!("{EXECUTORS}/{call}");
        for signer in ["e1", "e2"] {
            let forged = shown(executor(signer).to(&path, &body), "blue", Role::Executor, "e2");
            let refused = one.send_internal(forged).await;
            refused.is(403, if signer == "e1" { "certificate_denied" } else { "scope_denied" });
        }
    }
    assert!(one.leader.heard.lock().unwrap().is_empty());
}
