//! Listeners that take the calls of callers, or those of administrators, alone.

use std::sync::Arc;

use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::access::put;
use super::denied::denied;
use super::{Draft, Node, Universe};
use crate::Takes;

/// The same node behind a listener that takes these calls.
fn behind(node: &Node, takes: Takes) -> Node {
    let mut node = node.clone();
    node.public = crate::public_router(node.api.clone(), Arc::new(Registry::default()), takes);
    node
}

#[tokio::test]
async fn callers_and_administrators_can_be_parted_by_their_listeners() {
    let universe = Universe::of(2).await;
    for node in &universe.nodes {
        let (callers, administrators) = (behind(node, Takes::Callers), behind(node, Takes::Administrators));
        let of_a_caller = || Draft::submit(json!({"handler": "echo"}));
        let of_an_administrator = || put("/openapi/v1/callers/shop", json!({}));
        callers.call(&of_a_caller()).await.task_id();
        administrators.call(&of_an_administrator()).await.is_ok();
        administrators.call(&of_a_caller()).await.is(404, "not_found");
        callers.call(&of_an_administrator()).await.is(404, "not_found");
        // Whoever asks: the key is not looked at.
        callers.call(&Draft::post("/openapi/v1/cluster/transfer", Value::Null)).await.is(404, "not_found");
        // What both may ask, each asks at their own.
        let cluster = || Draft::get("/openapi/v1/cluster");
        callers.call(&cluster()).await.is_ok();
        callers.call(&cluster().by_admin()).await.is(403, "scope_denied");
        administrators.call(&cluster()).await.is(403, "scope_denied");
        administrators.call(&cluster().by_admin()).await.is_ok();
        for listener in [&callers, &administrators] {
            listener.call(&Draft::get("/openapi/v1/nothing")).await.is(404, "not_found");
        }
    }
}

#[tokio::test]
async fn whoever_looks_for_calls_of_administrators_where_there_are_none_is_in_the_audit() {
    let universe = Universe::of(1).await;
    let callers = behind(universe.leader(), Takes::Callers);
    for _ in 0..2 {
        callers.call(&put("/openapi/v1/callers/shop", json!({}))).await.is(404, "not_found");
    }
    callers.call(&Draft::post("/openapi/v1/cluster/transfer", Value::Null)).await.is(404, "not_found");
    callers.call(&Draft::get("/openapi/v1/nothing")).await.is(404, "not_found");
    let recorded = denied(&universe).await;
    assert_eq!(recorded, ["adk_A put_caller not_found 2", "ak_A transfer_leader not_found 1"]);
}

#[tokio::test]
async fn a_key_that_a_follower_does_not_know_yet_passes_no_listener_of_the_other_class() {
    let universe = Universe::of(2).await;
    let callers = behind(&universe.nodes[1], Takes::Callers);
    universe.fall_behind(&universe.nodes[1]);
    let made = universe.leader().call(&Draft::post("/openapi/v1/admin-keys", json!({})).by_admin()).await;
    let text = |field: &str| made.body[field].as_str().unwrap().to_owned();
    let cluster = || Draft::get("/openapi/v1/cluster").by_admin().by(&text("accessKey"), &text("secretKey"));
    callers.call(&cluster()).await.is(403, "scope_denied");
    behind(&universe.nodes[1], Takes::Administrators).call(&cluster()).await.is_ok();
}
