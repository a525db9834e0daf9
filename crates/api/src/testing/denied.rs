//! What was refused, in the audit: every kind of it, once each, whoever leads.

use axum::body::Body;
use axum::http::Request;
use futures_util::FutureExt as _;
use orloj_wire::sign::{ACCESS_KEY_HEADER, NONCE_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, new_nonce};
use serde_json::{Value, json};

use super::access::{CALLERS, make_key, put};
use super::{Draft, Node, T, Universe};

/// What the audit has of refused calls, as `key action code count`, oldest first: those that were signed well, and then
/// the others.
pub(super) async fn denied(universe: &Universe) -> Vec<String> {
    for node in &universe.nodes {
        node.api.finish().await;
    }
    let mut records = Vec::new();
    for kind in ["kind=denied", "kind=unsigned"] {
        let audit = Draft::get("/openapi/v1/audit").query(kind).by_admin();
        let found = universe.leader().call(&audit).await.body["records"].clone();
        records.extend(found.as_array().unwrap().iter().rev().cloned());
    }
    let text = |record: &Value, field: &str| record[field].as_str().unwrap().to_owned();
    let shown = |record: &Value| {
        let [actor, action, code] = ["actor", "action", "detail"].map(|field| text(record, field));
        format!("{actor} {action} {code} {}", record["count"])
    };
    records.iter().map(shown).collect()
}

async fn forge(node: &Node) {
    let forged = Draft::submit(json!({"handler": "echo"}));
    node.send(forged.with_signature(&"0".repeat(64))).await.is(401, "invalid_signature");
}

#[tokio::test]
async fn the_refused_parts_of_a_batch_are_recorded_with_their_number() {
    let universe = Universe::of(2).await;
    universe.leader().call(&put(CALLERS, json!({"handlers": ["echo"]}))).await.is_ok();
    let key = make_key(universe.leader()).await;
    let tasks = json!([
        {"handler": "sleep"}, {"handler": "echo"}, {"handler": "fail"},
        {"handler": "echo", "callbackUrl": "https://a.example/"}, {"handler": "a b"},
    ]);
    for node in &universe.nodes {
        let batch = Draft::post("/openapi/v1/tasks/batch", json!({ "tasks": tasks })).by(&key.0, &key.1);
        let reply = node.call(&batch).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        assert!(!reply.headers.contains_key("orloj-denied"), "it is for replicas alone");
    }
    let key = &key.0;
    let one = [
        format!("{key} submit_batch callback_url_not_allowed 1"),
        format!("{key} submit_batch executor_denied 3"),
    ];
    assert_eq!(denied(&universe).await, [one.clone(), one].concat());
}

#[tokio::test]
async fn an_address_that_no_callback_may_have_is_recorded() {
    let universe = Universe::of(1).await;
    for url in ["https://10.0.0.1/", "https://evil.example.com/"] {
        let submit = Draft::submit(json!({"handler": "echo", "callbackUrl": url}));
        universe.leader().call(&submit).await.is(422, "callback_url_not_allowed");
    }
    universe.leader().call(&Draft::submit(json!({"handler": "a b"}))).await.is(422, "validation_failed");
    assert_eq!(denied(&universe).await, ["ak_A submit callback_url_not_allowed 2"]);
}

#[tokio::test]
async fn refused_calls_between_processes_are_recorded_and_counted() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let call = |path: &str, name: &str| {
        Request::post(path)
            .header(ACCESS_KEY_HEADER, name)
            .header(SIGNATURE_HEADER, "0".repeat(64))
            .header(TIMESTAMP_HEADER, T.to_string())
            .header(NONCE_HEADER, new_nonce())
            .body(Body::from("{}"))
            .unwrap()
    };
    for (path, name) in [
        ("/internal/v1/executors/register", "rack.1"),
        ("/internal/v1/executors/register", "rack.1"),
        ("/raft/v1/vote", "replica"),
        ("/internal/v1/forward", "replica"),
    ] {
        node.send_internal(call(path, name)).await.is(401, "invalid_signature");
    }
    let mut recorded = denied(&universe).await;
    recorded.sort();
    assert_eq!(
        recorded,
        [
            "rack.1 register invalid_signature 2",
            "replica forward invalid_signature 1",
            "replica raft invalid_signature 1",
        ]
    );
    let metrics = node.send(Draft::get("/metrics").unsigned().body(Body::empty()).unwrap()).await;
    let counted = "orloj_api_refused_credentials_total{code=\"invalid_signature\"} 4\n";
    assert!(metrics.text.contains(counted), "{}", metrics.text);
}

#[tokio::test]
async fn what_is_refused_while_nobody_leads_is_recorded_once_somebody_does() {
    let universe = Universe::of(2).await;
    let node = &universe.nodes[1];
    universe.elect(None);
    forge(node).await;
    node.api.finish().await;
    forge(node).await;
    node.api.finish().await;
    universe.elect(Some(1));
    assert_eq!(denied(&universe).await, ["ak_A submit invalid_signature 2"]);
    // Nor is it lost where writing it down is broken off, as at a stop.
    forge(node).await;
    assert!(node.api.finish().now_or_never().is_none(), "it takes a call of the leader");
    assert_eq!(denied(&universe).await[1..], ["ak_A submit invalid_signature 1"]);
    // Nor where the leader cannot write it down.
    universe.fail_proposals(Some(orloj_raft_store::ProposeError::Overloaded));
    for node in &universe.nodes {
        forge(node).await;
        node.api.finish().await;
    }
    universe.fail_proposals(None);
    let recorded = denied(&universe).await;
    assert_eq!(recorded[2..], ["ak_A submit invalid_signature 1", "ak_A submit invalid_signature 1"]);
    assert_eq!(denied(&universe).await, recorded, "each once");
}
