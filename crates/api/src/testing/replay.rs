//! Captured requests, sent again: to others, under other leaders, at once.

use axum::body::Body;
use axum::http::Request;
use orloj_raft_store::http::SignedParts;
use orloj_wire::sign::Secret;
use serde_json::{Value, json};

use super::fake::CLUSTER_SECRET;
use super::{Draft, Node, T, Universe};
use crate::peer;

#[tokio::test]
async fn what_any_replica_can_answer_by_itself_is_good_once_at_all_of_them() {
    let universe = Universe::of(3).await;
    for first in 0..3 {
        let draft = Draft::get("/openapi/v1/cluster");
        universe.nodes[first].call(&draft).await.is_ok();
        for node in &universe.nodes {
            node.call(&draft).await.is(401, "nonce_replayed");
        }
    }
}

#[tokio::test]
async fn a_bad_signature_spends_no_nonce_at_any_replica() {
    let universe = Universe::of(3).await;
    for draft in [Draft::submit(json!({"handler": "echo"})), Draft::get("/openapi/v1/cluster")] {
        for node in &universe.nodes {
            node.send(draft.with_signature(&"0".repeat(64))).await.is(401, "invalid_signature");
        }
        universe.nodes[1].call(&draft).await.is_ok();
    }
}

#[tokio::test]
async fn b132_a_hundred_copies_at_once_over_three_replicas_make_one_task() {
    let universe = Universe::of(3).await;
    let submit = || Draft::submit(json!({"handler": "echo", "params": {"n": 1}})).key("order-42");
    let copies: Vec<_> = (0..100)
        .map(|place| {
            let (node, draft) = (universe.nodes[place % 3].clone(), submit());
            tokio::spawn(async move { node.call(&draft).await })
        })
        .collect();
    let (mut ids, mut made) = (Vec::new(), 0);
    for copy in copies {
        let reply = copy.await.unwrap();
        ids.push(reply.task_id());
        made += usize::from(reply.header("idempotency-replayed").is_empty());
    }
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), made), (1, 1));
    universe.elect(Some(3));
    let later = universe.nodes[0].call(&submit()).await;
    assert_eq!((later.task_id(), later.header("idempotency-replayed")), (ids[0].clone(), "true"));
    // Also once it is over.
    let cancel = Draft::post(&format!("/openapi/v1/tasks/{}/cancel", ids[0]), Value::Null);
    universe.nodes[0].call(&cancel).await.is_ok();
    let ended = universe.nodes[1].call(&submit()).await;
    assert_eq!((ended.task_id(), &ended.body["status"]), (ids[0].clone(), &json!("CANCELLED")));
}

/// A replica tells the leader of a refused call.
fn telling(node: &Node, timestamp_s: i64) -> (Vec<(&'static str, String)>, Vec<u8>) {
    let denial = json!([{"access_key": "ak_A", "action": "submit", "code": "invalid_signature",
                         "address": "10.0.0.1", "request_id": "r", "count": 5}]);
    let body = denial.to_string().into_bytes();
    let path = "/internal/v1/denials";
    let call = SignedParts { method: "POST", path, query: "", audience: &node.address, body: &body };
    let secret = Secret::new(CLUSTER_SECRET).unwrap();
    (peer::sign(call, &secret, timestamp_s * 1000).into(), body)
}

async fn tell(node: &Node, (headers, body): &(Vec<(&'static str, String)>, Vec<u8>)) -> super::Reply {
    let mut request = Request::post("/internal/v1/denials");
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    node.send_internal(request.body(Body::from(body.clone())).unwrap()).await
}

#[tokio::test]
async fn a_captured_report_of_refused_calls_is_written_down_once() {
    let universe = Universe::of(2).await;
    let node = universe.leader();
    let captured = telling(node, T);
    assert_eq!(tell(node, &captured).await.status, 204);
    let count = async || {
        let audit = Draft::get("/openapi/v1/audit").query("kind=unsigned").by_admin();
        let records = universe.nodes[0].call(&audit).await.body["records"].clone();
        let counts = records.as_array().unwrap().iter().map(|record| record["count"].as_u64().unwrap());
        counts.sum::<u64>()
    };
    assert_eq!(count().await, 5);
    tell(&universe.nodes[0], &captured).await;
    universe.elect(Some(2));
    universe.elect(Some(1));
    tell(&universe.nodes[0], &captured).await;
    assert_eq!(count().await, 5, "its nonce is spent in the log");
    for timestamp_s in [T - 301, T + 301] {
        tell(&universe.nodes[0], &telling(&universe.nodes[0], timestamp_s))
            .await
            .is(401, "timestamp_out_of_window");
    }
    assert_eq!(count().await, 5);
}
