//! Every replica answers every call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use bytes::Bytes;
use orloj_net::Bounds;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::{Draft, Universe};

fn submit() -> Draft {
    Draft::submit(json!({"handler": "echo"}))
}

#[tokio::test]
async fn a_follower_answers_like_the_leader() {
    let universe = Universe::of(3).await;
    for node in &universe.nodes {
        let reply = node.call(&submit().key("k")).await;
        let task = reply.task_id();
        assert_eq!(reply.header("location"), format!("/openapi/v1/tasks/{task}"));
        assert_eq!(reply.header("cache-control"), "no-store");
        assert_eq!(reply.headers.get_all("x-request-id").iter().count(), 1);
        assert!(reply.headers.contains_key("ratelimit"));
        assert!(!reply.headers.contains_key("x-orloj-answered"));
        let mut get = Draft::get(&format!("/openapi/v1/tasks/{task}"));
        let got = node.call(&get).await;
        assert_eq!(got.status, 200);
        get.nonce = orloj_wire::sign::new_nonce();
        get.headers = vec![("if-none-match", got.header("etag").to_owned())];
        assert_eq!(node.call(&get).await.status, 304);
        node.call(&Draft::submit(json!({"handler": "a b"}))).await.is(422, "validation_failed");
    }
    assert_eq!(universe.proposals(), 3);
}

#[tokio::test]
async fn a_nonce_is_spent_on_every_node_and_under_every_leader() {
    let universe = Universe::of(3).await;
    let (write, read) = (submit(), Draft::get("/openapi/v1/tasks"));
    universe.nodes[0].call(&write).await.task_id();
    assert_eq!(universe.nodes[1].call(&read).await.status, 200);
    for node in &universe.nodes {
        node.call(&write).await.is(401, "nonce_replayed");
        node.call(&read).await.is(401, "nonce_replayed");
    }
    universe.elect(Some(2));
    for node in &universe.nodes {
        node.call(&write).await.is(401, "nonce_replayed");
    }
    assert_eq!(universe.proposals(), 2, "the new leader learns it from the tables, once");
}

#[tokio::test]
async fn an_administrators_request_has_no_effect_under_the_next_leader_again() {
    let universe = Universe::of(3).await;
    let drain = |on| Draft::post("/openapi/v1/executors/e1/drain", json!({ "on": on })).by_admin();
    let members = || Draft::post("/openapi/v1/cluster/members/3/remove", json!({})).by_admin();
    let (captured, removed) = (drain(true), members());
    assert_eq!(universe.nodes[1].call(&captured).await.status, 200);
    assert_eq!(universe.nodes[1].call(&removed).await.status, 200);
    assert_eq!(universe.nodes[1].call(&drain(false)).await.status, 200);
    universe.elect(Some(2));
    for replayed in [&captured, &removed] {
        universe.nodes[1].call(replayed).await.is(401, "nonce_replayed");
    }
    let list = universe.nodes[1].call(&Draft::get("/openapi/v1/executors").by_admin()).await;
    assert_eq!(list.body["executors"][0]["state"], "online", "{}", list.text);
}

#[tokio::test]
async fn without_a_leader_the_answer_comes_within_a_second() {
    let universe = Universe::of(3).await;
    universe.elect(None);
    let draft = submit();
    let began = Instant::now();
    let reply = universe.nodes[1].call(&draft).await;
    reply.is(503, "no_leader");
    assert_eq!(reply.header("retry-after"), "1");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    universe.elect(Some(3));
    universe.nodes[1].call(&draft).await.task_id();
}

#[tokio::test]
async fn a_request_waits_for_the_leader_that_is_being_elected() {
    let universe = Universe::of(2).await;
    universe.elect(None);
    let node = universe.nodes[1].clone();
    let waiting = tokio::spawn(async move { node.call(&submit()).await });
    tokio::task::yield_now().await;
    universe.elect(Some(1));
    waiting.await.unwrap().task_id();
}

#[tokio::test]
async fn a_follower_that_comes_to_lead_answers_itself() {
    let universe = Universe::of(2).await;
    universe.elect(None);
    let node = universe.nodes[1].clone();
    let waiting = tokio::spawn(async move { node.call(&submit()).await });
    tokio::task::yield_now().await;
    universe.elect(Some(2));
    waiting.await.unwrap().task_id();
}

#[tokio::test]
async fn a_leader_that_cannot_be_reached_is_no_leader() {
    let universe = Universe::of(2).await;
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    universe.move_node(1, &nobody.to_string());
    universe.nodes[1].call(&submit()).await.is(503, "no_leader");
    assert_eq!(universe.proposals(), 0);
}

#[tokio::test]
async fn a_leader_that_takes_a_request_and_says_nothing_leaves_it_unknown() {
    let universe = Universe::of(2).await;
    // It accepts connections and never answers, like a process that was stopped.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    universe.move_node(1, &silent.local_addr().unwrap().to_string());
    let node = universe.nodes[1].clone();
    let write = tokio::spawn(async move { node.call(&submit()).await });
    let (_connection, _) = silent.accept().await.unwrap();
    universe.elect(Some(2));
    write.await.unwrap().is(503, "commit_unknown");
}

#[tokio::test]
async fn a_read_goes_to_the_next_leader() {
    let universe = Universe::of(2).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    universe.move_node(1, &silent.local_addr().unwrap().to_string());
    let node = universe.nodes[1].clone();
    let read = tokio::spawn(async move { node.call(&Draft::get("/openapi/v1/tasks")).await });
    let (_connection, _) = silent.accept().await.unwrap();
    universe.elect(Some(2));
    assert_eq!(read.await.unwrap().status, 200);
}

#[tokio::test]
async fn a_read_whose_answer_is_lost_on_the_way_is_not_called_a_replay() {
    for (path, local) in [("/openapi/v1/tasks", false), ("/openapi/v1/cluster", true)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let universe = Universe::with(2, |options| options.internal.clone_from(&address)).await;
        universe.move_node(1, &address);
        let (leader, calls) = (universe.leader().internal.clone(), Arc::new(AtomicUsize::new(0)));
        // Every call gets to the leader; the answer to the first one is lost.
        let counted = Arc::clone(&calls);
        let between = Router::new().fallback(move |request: Request<Body>| async move {
            let answer = leader.oneshot(request).await.unwrap();
            match counted.fetch_add(1, Ordering::SeqCst) {
                0 => {
                    let lost = async { Err::<Bytes, _>(std::io::Error::other("lost")) };
                    Response::new(Body::from_stream(futures_util::stream::once(lost)))
                }
                _ => answer,
            }
        });
        let stop = CancellationToken::new();
        let _stop = stop.clone().drop_guard();
        tokio::spawn(orloj_net::serve(listener, between, Bounds::INTERNAL, None, stop));
        let reply = universe.nodes[1].call(&Draft::get(path)).await;
        match local {
            // Nobody could be asked whether to let it in.
            true => reply.is_ok(),
            false => reply.is(503, "no_leader"),
        }
        assert_eq!(calls.load(Ordering::SeqCst), 2, "it was asked again");
        universe.nodes[1].call(&Draft::get(path)).await.is_ok();
    }
}

#[tokio::test]
async fn a_follower_refuses_by_itself_what_it_can() {
    let universe = Universe::of(2).await;
    universe.elect(None);
    let node = &universe.nodes[1];
    node.send(submit().with_signature(&"0".repeat(64))).await.is(401, "invalid_signature");
    node.call(&submit().by_admin()).await.is(403, "scope_denied");
    // Whether a timestamp is in time, only the leader's clock decides.
    let mut old = submit();
    old.timestamp = "1700000000".into();
    node.call(&old).await.is(503, "no_leader");
    universe.elect(Some(1));
    old.nonce = orloj_wire::sign::new_nonce();
    node.call(&old).await.is(401, "timestamp_out_of_window");
}
