//! Bodies that come slowly, or of which nobody knows yet who sends them.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use bytes::Bytes;
use futures_util::stream;
use orloj_net::Remote;
use orloj_wire::rest::BATCH_BODY_LIMIT;
use serde_json::json;
use tokio::net::TcpListener;

use super::{Draft, Node, Reply, SECRET_B, Universe};

/// More than there are places for bodies.
const MANY: usize = 300;
/// The places of one address.
const SHARE: usize = 64;

fn submit() -> Draft {
    Draft::submit(json!({"handler": "echo"}))
}

fn from(mut request: Request<Body>, address: &str) -> Request<Body> {
    let address: SocketAddr = format!("{address}:4000").parse().unwrap();
    request.extensions_mut().insert(Remote(address));
    request
}

/// Sends in the background, up to where the other side must be waited for.
async fn begin(node: &Node, request: Request<Body>) -> tokio::task::JoinHandle<Reply> {
    let node = node.clone();
    let sent = tokio::spawn(async move { node.send(request).await });
    tokio::task::yield_now().await;
    sent
}

#[tokio::test]
async fn an_address_whose_bodies_never_come_holds_up_no_other() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let mut slow = Vec::new();
    for _ in 0..MANY {
        let endless = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        let (head, _) = submit().signed().into_parts();
        slow.push(begin(node, from(Request::from_parts(head, endless), "192.0.2.1")).await);
    }
    // Before the first of them is given up.
    let other = node.send(from(submit().signed(), "192.0.2.2"));
    tokio::time::timeout(Duration::from_secs(5), other).await.expect("there are places for others").task_id();
    // Nor does it keep its own requests that have no body.
    let list = Draft::get("/openapi/v1/tasks").signed();
    assert_eq!(node.send(from(list, "192.0.2.1")).await.status, 200);
    slow.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Makes calls that nobody of the cluster has signed, each over a connection of its own, since a connection has a bound,
/// too.
fn strangers(path: &'static str) -> impl FnMut(Body, &str) -> Request<Body> {
    let mut connections = 4_000_u16..;
    move |body: Body, address: &str| {
        let mut draft = Draft::post(path, json!({}));
        draft.access_key = "e1".into();
        let (head, _) = draft.signed().into_parts();
        let mut request = Request::from_parts(head, body);
        let port = connections.next().unwrap();
        request.extensions_mut().insert(Remote(SocketAddr::new(address.parse().unwrap(), port)));
        request
    }
}

#[tokio::test]
async fn bodies_of_replicas_that_nobody_has_signed_are_bounded_together() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let mut unsigned = strangers("/raft/v1/append");
    // Each may be as large as a replica's largest, of which three have their place at one address.
    let mut slow = Vec::new();
    for number in 0..16 {
        let endless = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        let (node, sent) = (node.clone(), unsigned(endless, &format!("192.0.2.{}", 1 + number % 4)));
        slow.push(tokio::spawn(async move { node.send_internal(sent).await }));
        tokio::task::yield_now().await;
    }
    let large = || Body::from(vec![b' '; 8 * 1024]);
    let soon = Duration::from_secs(5);
    let other = tokio::time::timeout(soon, node.send_internal(unsigned(large(), "192.0.2.9"))).await;
    other.expect("there are places for others").is(401, "invalid_signature");
    let small = tokio::time::timeout(soon, node.send_internal(unsigned(Body::from("{}"), "192.0.2.1"))).await;
    small.expect("a vote needs no place").is(401, "invalid_signature");
    let mut same = tokio::spawn({
        let (node, sent) = (node.clone(), unsigned(large(), "192.0.2.1"));
        async move { node.send_internal(sent).await }
    });
    let early = tokio::time::timeout(Duration::from_millis(200), &mut same).await;
    assert!(early.is_err(), "there is no place for its body: {early:?}");
    slow.iter().for_each(tokio::task::JoinHandle::abort);
    same.await.unwrap().is(401, "invalid_signature");
}

#[tokio::test]
async fn bodies_of_executors_that_nobody_has_signed_are_bounded_together() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let mut unsigned = strangers("/internal/v1/executors/heartbeat");
    let mut slow = Vec::new();
    for number in 0..MANY {
        let endless = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        let (node, sent) = (node.clone(), unsigned(endless, &format!("192.0.2.{}", 1 + number % 3)));
        slow.push(tokio::spawn(async move { node.send_internal(sent).await }));
        tokio::task::yield_now().await;
    }
    // What does not say how long it is takes all that its address may have: the second of each address waits.
    let other = node.send_internal(unsigned(Body::from("{}"), "192.0.2.9"));
    let other = tokio::time::timeout(Duration::from_secs(5), other).await;
    other.expect("there are places for others").is(401, "invalid_signature");
    let mut same = tokio::spawn({
        let (node, sent) = (node.clone(), unsigned(Body::from("{}"), "192.0.2.1"));
        async move { node.send_internal(sent).await }
    });
    let early = tokio::time::timeout(Duration::from_millis(200), &mut same).await;
    assert!(early.is_err(), "there is no place for its body: {early:?}");
    slow.iter().for_each(tokio::task::JoinHandle::abort);
    same.await.unwrap().is(401, "invalid_signature");
}

#[tokio::test]
async fn batches_that_wait_for_places_do_not_keep_their_connection_from_those_that_have_them() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let client = reqwest::Client::builder().http2_prior_knowledge().no_proxy().build().unwrap();
    let send = |draft: Draft| {
        let (head, _) = draft.signed().into_parts();
        let url = format!("{}{}", node.url, draft.path);
        let request = client.request(head.method, url).headers(head.headers).body(draft.body);
        async move { request.send().await.unwrap() }
    };
    // The one connection, before there is a race for it.
    assert_eq!(send(Draft::get("/openapi/v1/tasks")).await.status(), 200);
    let large = || {
        let mut draft = Draft::post("/openapi/v1/tasks/batch", json!({"tasks": [{"handler": "echo"}]}));
        draft.body.resize(BATCH_BODY_LIMIT, b' ');
        draft
    };
    let sent: Vec<_> = (0..8).map(|_| tokio::spawn(send(large()))).collect();
    let mut taken = 0;
    for sent in sent {
        let answer = sent.await.unwrap();
        match answer.status().as_u16() {
            200 => taken += 1,
            status => {
                let problem: serde_json::Value = answer.json().await.unwrap();
                assert_eq!((status, &problem["code"]), (503, &json!("overloaded")), "{problem}");
            }
        }
    }
    // Four have places, three wait: one at most is one too many.
    assert!(taken >= 7, "{taken}");
}

#[tokio::test]
async fn a_body_of_nobody_known_keeps_its_place_until_the_leader_has_answered() {
    let universe = Universe::of(2).await;
    // It accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    universe.move_node(1, &silent.local_addr().unwrap().to_string());
    let follower = &universe.nodes[1];
    let mut handed_on = Vec::new();
    for _ in 0..SHARE {
        let unknown = submit().by("ak_UNKNOWN", SECRET_B).signed();
        handed_on.push(begin(follower, from(unknown, "192.0.2.1")).await);
    }
    // This one would be refused as soon as its body is read.
    let wrong = Draft { headers: vec![("content-type", "text/plain".into())], ..submit() };
    let mut waits = begin(follower, from(wrong.signed(), "192.0.2.1")).await;
    let early = tokio::time::timeout(Duration::from_millis(200), &mut waits).await;
    assert!(early.is_err(), "there is no place for its body: {early:?}");
    follower.send(from(wrong.signed(), "192.0.2.2")).await.is(415, "unsupported_media_type");
    universe.elect(Some(2));
    waits.await.unwrap().is(415, "unsupported_media_type");
    for sent in handed_on {
        sent.await.unwrap().is(503, "commit_unknown");
    }
}
