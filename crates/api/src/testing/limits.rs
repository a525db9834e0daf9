//! How much, how large, how often.

use axum::body::Body;
use bytes::Bytes;
use orloj_raft_store::ProposeError;
use serde_json::{Value, json};

use super::{Draft, T, Universe};

#[tokio::test]
async fn the_third_submission_at_once_waits_whichever_node_takes_it() {
    let universe = Universe::of(3).await;
    let submit = || Draft::submit(json!({"handler": "echo"})).by_b();
    let first = universe.nodes[0].call(&submit()).await;
    first.task_id();
    assert_eq!(first.header("ratelimit-policy"), "\"general\";q=20;w=1, \"submit\";q=2;w=1");
    assert_eq!(first.header("ratelimit"), "\"general\";r=19;t=1, \"submit\";r=1;t=1");
    universe.nodes[1].call(&submit()).await.task_id();
    let third = universe.nodes[2].call(&submit()).await;
    third.is(429, "rate_limited");
    assert_eq!(third.body["violated-policies"], json!(["submit"]));
    assert_eq!(third.header("retry-after"), "1");
    assert!(third.header("ratelimit").contains("\"submit\";r=0"), "{}", third.header("ratelimit"));
    // Reads have tokens left, and so has everybody else.
    assert_eq!(universe.nodes[2].call(&Draft::get("/openapi/v1/tasks").by_b()).await.status, 200);
    universe.nodes[2].call(&Draft::submit(json!({"handler": "echo"}))).await.task_id();
    universe.clock.advance_ms(500);
    universe.nodes[2].call(&submit()).await.task_id();
}

#[tokio::test]
async fn neither_forgeries_nor_replays_drain_a_keys_tokens() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let submit = || Draft::submit(json!({"handler": "echo"})).by_b();
    for _ in 0..50 {
        node.send(submit().with_signature(&"0".repeat(64))).await.is(401, "invalid_signature");
    }
    let draft = submit();
    node.call(&draft).await.task_id();
    for _ in 0..50 {
        node.call(&draft).await.is(401, "nonce_replayed");
    }
    node.call(&submit()).await.task_id();
}

#[tokio::test]
async fn an_address_with_too_many_bad_credentials_of_one_key_waits() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let forged_by_b = || Draft::get("/openapi/v1/tasks").by_b().with_signature(&"0".repeat(64));
    let forged = || Draft::get("/openapi/v1/tasks").with_signature(&"0".repeat(64));
    for _ in 0..1000 {
        assert_eq!(node.send(forged()).await.status, 401);
    }
    node.send(forged()).await.is(429, "rate_limited");
    // Others behind the same proxy do not pay for it, whether they fail or not.
    node.send(forged_by_b()).await.is(401, "invalid_signature");
    node.call(&Draft::get("/openapi/v1/tasks").by_b()).await.is_ok();
    universe.clock.advance_ms(100);
    node.send(forged()).await.is(401, "invalid_signature");
}

#[tokio::test]
async fn bodies_are_bounded_plain_and_typed() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let mut large = Draft::submit(json!({"handler": "echo"}));
    large.body.resize(256 * 1024, b' ');
    node.call(&large).await.task_id();
    let mut larger = Draft::submit(json!({"handler": "echo"}));
    larger.body.resize(256 * 1024 + 1, b' ');
    node.call(&larger).await.is(413, "payload_too_large");
    let declared = Draft::submit(json!({"handler": "echo"}));
    let mut declared = declared.signed();
    declared.headers_mut().insert("content-length", "10000000".parse().unwrap());
    *declared.body_mut() =
        Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
    node.send(declared).await.is(413, "payload_too_large");
    for (name, value) in [
        ("content-type", "text/plain"),
        ("content-type", "application/x-www-form-urlencoded"),
        ("content-encoding", "gzip"),
    ] {
        let mut draft = Draft::submit(json!({"handler": "echo"}));
        draft.headers = vec![(name, value.into())];
        node.call(&draft).await.is(415, "unsupported_media_type");
    }
    let mut get = Draft::get("/openapi/v1/tasks");
    get.body = b"{}".to_vec();
    node.call(&get).await.is(400, "invalid_request");
}

#[tokio::test]
async fn b133_parameters_come_back_unchanged_up_to_their_limit() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let limit = orloj_wire::rest::PARAMS_LIMIT;
    for unit in ["x", "😀"] {
        let text = |bytes: usize| unit.repeat(bytes / unit.len());
        let fits = text(limit - 2);
        let task = node.call(&Draft::submit(json!({"handler": "echo", "params": fits}))).await.task_id();
        let got = node.call(&Draft::get(&format!("/openapi/v1/tasks/{task}"))).await;
        assert_eq!(got.body["params"], Value::from(fits));
        let reply = node.call(&Draft::submit(json!({"handler": "echo", "params": text(limit + 2)}))).await;
        reply.is(422, "validation_failed");
        assert_eq!(reply.body["errors"][0]["pointer"], "/params");
    }
    let mut deep = Draft::submit(json!({}));
    deep.body = format!(r#"{{"handler":"echo","params":{}"#, "[".repeat(100_000)).into_bytes();
    node.call(&deep).await.is(400, "invalid_request");
    deep.nonce = orloj_wire::sign::new_nonce();
    deep.body = br#"{"handler":"echo","params":{"a":1,"a":2}}"#.to_vec();
    node.call(&deep).await.is(400, "invalid_request");
}

#[tokio::test]
async fn long_polls_are_bounded_by_key() {
    let universe = Universe::of(1).await;
    let node = universe.leader().clone();
    let task = node.call(&Draft::submit(json!({"handler": "echo"})).by_b()).await.task_id();
    let poll =
        || Draft::get(&format!("/openapi/v1/tasks/{task}")).query("after_version=1&wait_ms=30000").by_b();
    let waiting: Vec<_> = (0..10)
        .map(|_| {
            let (node, draft) = (node.clone(), poll());
            tokio::spawn(async move { node.call(&draft).await })
        })
        .collect();
    let metrics = || Draft::get("/metrics").unsigned().body(Body::empty()).unwrap();
    super::eventually("ten polls wait", async || {
        node.send(metrics()).await.text.contains("orloj_api_waiting_polls 10\n")
    })
    .await;
    node.call(&poll()).await.is(429, "too_many_waiters");
    universe.grant(&task, 1);
    for poll in waiting {
        assert_eq!(poll.await.unwrap().body["status"], "RUNNING");
    }
}

#[tokio::test]
async fn a_log_that_is_waited_for_counts_as_a_long_poll() {
    let universe = Universe::of(1).await;
    let node = universe.leader().clone();
    let task = node.call(&Draft::submit(json!({"handler": "echo"})).by_b()).await.task_id();
    universe.grant(&task, 1);
    *node.leader.log.lock().unwrap() = Some(Vec::new());
    let path = format!("/openapi/v1/tasks/{task}");
    let polls: Vec<_> = (0..10)
        .map(|_| {
            let (node, draft) =
                (node.clone(), Draft::get(&path).query("after_version=2&wait_ms=30000").by_b());
            tokio::spawn(async move { node.call(&draft).await })
        })
        .collect();
    let metrics = || Draft::get("/metrics").unsigned().body(Body::empty()).unwrap();
    super::eventually("ten polls wait", async || {
        node.send(metrics()).await.text.contains("orloj_api_waiting_polls 10\n")
    })
    .await;
    let log = |query: &str| Draft::get(&format!("{path}/logs")).query(query).by_b();
    node.call(&log("wait_ms=1000")).await.is(429, "too_many_waiters");
    assert_eq!(node.call(&log("")).await.status, 200, "without a wait it is no long poll");
    polls.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn slow_bodies_keep_nobody_from_asking() {
    let universe = Universe::of(1).await;
    let node = universe.leader().clone();
    let slow: Vec<_> = (0..256)
        .map(|_| {
            let mut request = Draft::submit(json!({"handler": "echo"})).signed();
            *request.body_mut() =
                Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
            let node = node.clone();
            tokio::spawn(async move { node.send(request).await })
        })
        .collect();
    // On one thread every one of them runs up to its body before this goes on.
    tokio::task::yield_now().await;
    let get = Draft::get("/openapi/v1/tasks");
    let answer = tokio::time::timeout(std::time::Duration::from_secs(5), node.call(&get)).await;
    assert_eq!(answer.expect("a request without a body waits for no place").status, 200);
    slow.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn what_the_store_cannot_do_is_said_in_a_stable_code() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    for (failure, status, code) in [
        (ProposeError::Overloaded, 503, "overloaded"),
        (ProposeError::DiskLow, 503, "disk_low"),
        (ProposeError::NoLeader, 503, "no_leader"),
        (ProposeError::NotLeader { leader: 2 }, 503, "no_leader"),
        (ProposeError::Unknown, 503, "commit_unknown"),
        (ProposeError::Stopped, 503, "commit_unknown"),
        (ProposeError::TooLarge { size: 2, limit: 1 }, 413, "payload_too_large"),
    ] {
        universe.fail_proposals(Some(failure));
        node.call(&Draft::submit(json!({"handler": "echo"}))).await.is(status, code);
    }
}

#[tokio::test]
async fn b135_delays_become_exact_instants() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    for (field, value, due_at) in [
        ("delayMs", json!(0), "2027-01-15T08:00:00.000Z"),
        ("delayMs", json!(1), "2027-01-15T08:00:00.001Z"),
        ("delayMs", json!(2_147_483_647_u64), "2027-02-09T04:31:23.647Z"),
        ("delayMs", json!(2_147_483_648_u64), "2027-02-09T04:31:23.648Z"),
        ("delayMs", json!(31_536_000_000_000_u64), "3026-05-18T08:00:00.000Z"),
        ("runAt", json!("2027-01-15T10:00:00.0001+02:00"), "2027-01-15T08:00:00.001Z"),
        ("run_at", json!("9999-12-30T21:59:59.999Z"), "9999-12-30T21:59:59.999Z"),
        ("runAt", json!("1970-01-01T00:00:00Z"), "1970-01-01T00:00:00.000Z"),
    ] {
        let reply = node.call(&Draft::submit(json!({"handler": "echo", field: value}))).await;
        let task = reply.task_id();
        assert_eq!(reply.body["dueAt"], due_at, "{field} {value}");
        let got = node.call(&Draft::get(&format!("/openapi/v1/tasks/{task}"))).await;
        assert_eq!(got.body["dueAt"], due_at);
    }
    for (field, value) in [
        ("delayMs", json!(-1)),
        ("delayMs", json!(1.5)),
        ("delayMs", json!("10")),
        ("delayMs", json!(9_007_199_254_740_992_u64)),
        ("delayMs", json!(u64::MAX)),
        ("runAt", json!("10000-01-01T00:00:00Z")),
        ("runAt", json!("0001-01-01T00:00:00Z")),
        ("runAt", json!("2027-01-15T08:00:00")),
        ("runAt", json!("2016-12-31T23:59:60Z")),
    ] {
        let reply = node.call(&Draft::submit(json!({"handler": "echo", field: value}))).await;
        reply.is(400, "invalid_request");
        assert_eq!(reply.body["errors"][0]["pointer"], format!("/{field}"));
    }
    assert_eq!(T * 1000, 1_800_000_000_000);
}

#[tokio::test]
async fn on_a_disk_that_takes_no_record_an_administrator_can_only_move_the_work_elsewhere() {
    let universe = Universe::of(3).await;
    let node = universe.leader();
    universe.fail_proposals(Some(ProposeError::DiskLow));
    let remove = Draft::post("/openapi/v1/cluster/members/3/remove", json!({})).by_admin();
    let add = Draft::post("/openapi/v1/cluster/members", json!({"internal": "h:1", "api": "http://h:2"}));
    for draft in [remove, add.by_admin()] {
        node.call(&draft).await.is(503, "disk_low");
    }
    let shown = node.call(&Draft::get("/openapi/v1/cluster")).await;
    assert_eq!(shown.body["members"].as_array().unwrap().len(), 3, "nothing goes without a record");
    let transfer = Draft::post("/openapi/v1/cluster/transfer", json!({"to": 2})).by_admin();
    node.call(&transfer).await.is_ok();
}
