//! What the calls do.

use orloj_model::task::Outcome;
use serde_json::{Value, json};

use super::{Draft, Universe};

fn get(task: &str) -> Draft {
    Draft::get(&format!("/openapi/v1/tasks/{task}"))
}

fn cancel(task: &str) -> Draft {
    Draft::post(&format!("/openapi/v1/tasks/{task}/cancel"), Value::Null)
}

#[tokio::test]
async fn a_submission_is_found_at_its_location() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let reply = node
        .call(&Draft::submit(json!({
            "handler": "echo", "params": {"n": 1}, "delayMs": 1000, "priority": 9, "timeoutMs": 500,
            "retry": {"maxRetries": 1}, "labels": {"disk": "ssd"}, "businessKey": "2027-01-15/orders",
            "strategy": {"pinned": "e1"},
        })))
        .await;
    let task = reply.task_id();
    assert_eq!(reply.header("location"), format!("/openapi/v1/tasks/{task}"));
    assert_eq!(reply.header("orloj-applied-index"), universe.applied().to_string());
    assert_eq!(reply.body["appliedIndex"], universe.applied());
    assert_eq!((&reply.body["status"], &reply.body["version"]), (&"PENDING".into(), &1.into()));
    let got = node.call(&get(&task)).await;
    let etag = got.header("etag").to_owned();
    assert!(got.status == 200 && etag.starts_with("\"1-"), "{etag}");
    for (field, value) in [
        ("handler", json!("echo")),
        ("params", json!({"n": 1})),
        ("reason", json!("scheduled")),
        ("dueAt", json!("2027-01-15T08:00:01.000Z")),
        ("createdAt", json!("2027-01-15T08:00:00.000Z")),
        ("priority", json!(9)),
        ("retry", json!({"maxRetries": 1, "backoffMs": [10000, 30000, 60000], "jitterPct": 0, "maxLost": 3})),
        ("strategy", json!({"pinned": "e1"})),
        ("businessKey", json!("2027-01-15/orders")),
        ("attempts", json!([])),
        ("cancelRequested", json!(false)),
    ] {
        assert_eq!(got.body[field], value, "{field}");
    }
    let mut known = get(&task);
    known.headers = vec![("if-none-match", etag.clone())];
    let same = node.call(&known).await;
    assert_eq!((same.status, same.text.as_str(), same.header("etag")), (304, "", etag.as_str()));
    // Several lines are one list.
    let mut known = get(&task);
    known.headers = vec![("if-none-match", "\"0\"".into()), ("if-none-match", etag.clone())];
    assert_eq!(node.call(&known).await.status, 304);
    let mut other = get(&task);
    other.headers = vec![("if-none-match", "\"0\"".into()), ("if-none-match", "\"1\"".into())];
    assert_eq!(node.call(&other).await.status, 200);
}

#[tokio::test]
async fn what_is_heard_late_of_an_attempt_is_news_though_the_version_rests() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let task = node.call(&Draft::submit(json!({"handler": "echo"}))).await.task_id();
    let fence = universe.grant(&task, 1);
    universe.report(&task, 1, fence, Outcome::TimedOut);
    let before = node.call(&get(&task)).await;
    let known = |etag: &str| {
        let mut draft = get(&task);
        draft.headers = vec![("if-none-match", etag.to_owned())];
        draft
    };
    let etag = before.header("etag").to_owned();
    assert_eq!(node.call(&known(&etag)).await.status, 304);
    universe.report(&task, 1, fence, Outcome::Succeeded);
    let after = node.call(&known(&etag)).await;
    assert_eq!((after.status, &after.body["version"]), (200, &before.body["version"]), "{}", after.text);
    assert_eq!(after.body["attempts"][0]["lateOutcome"], "succeeded");
}

#[tokio::test]
async fn bad_submissions_name_every_fault() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let reply = node
        .call(&Draft::submit(json!({
            "handler": "a b", "businessKey": "", "shardTotal": 2, "strategy": "broadcast", "zone": "z/1",
            "dependsOn": [{"taskId": "tsk_x"}],
        })))
        .await;
    reply.is(422, "validation_failed");
    let pointers: Vec<_> = reply.body["errors"].as_array().unwrap().iter().map(|e| &e["pointer"]).collect();
    assert_eq!(pointers, ["/handler", "/zone", "/businessKey", "/dependsOn/0/taskId", "/shardTotal"]);
    for (body, status, code) in [
        (json!({}), 400, "invalid_request"),
        (json!([]), 400, "invalid_request"),
        (json!({"handler": 1}), 400, "invalid_request"),
        (json!({"handler": "echo", "unknown": 1}), 400, "invalid_request"),
        (json!({"handler": "echo", "executorId": "echo"}), 400, "invalid_request"),
        (json!({"handler": "nobody-has-it"}), 422, "handler_unknown"),
        (
            json!({"handler": "echo", "callbackUrl": "https://evil.example.com/cb"}),
            422,
            "callback_url_not_allowed",
        ),
    ] {
        node.call(&Draft::submit(body)).await.is(status, code);
    }
    node.call(&Draft::post("/openapi/v1/tasks", Value::Null)).await.is(400, "invalid_request");
    assert_eq!(universe.proposals(), 0);
    node.call(&Draft::submit(json!({"handler": "nobody-has-it", "allowUnknownHandler": true})))
        .await
        .task_id();
    node.call(&Draft::submit(json!({"executorId": "echo"}))).await.task_id();
}

#[tokio::test]
async fn a_new_handler_is_known_at_once() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    node.call(&Draft::submit(json!({"handler": "fresh"}))).await.is(422, "handler_unknown");
    universe.register("e2", &["fresh"]);
    node.call(&Draft::submit(json!({"handler": "fresh"}))).await.task_id();
}

#[tokio::test]
async fn a_repeated_submission_is_answered_whoever_has_left_since() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let submit = || Draft::submit(json!({"handler": "fresh"}));
    universe.register("e2", &["fresh"]);
    let first = node.call(&submit().key("k")).await.task_id();
    universe.register("e2", &["other"]);
    let forgotten = async {
        while node.call(&submit()).await.status != 422 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), forgotten).await.unwrap();
    assert_eq!(node.call(&submit().key("k")).await.task_id(), first);
    node.call(&submit().key("l")).await.is(422, "handler_unknown");
}

#[tokio::test]
async fn b132_an_idempotency_key_makes_one_task() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let submit = |n: u32| Draft::submit(json!({"handler": "echo", "params": n}));
    let first = node.call(&submit(1).key("k")).await;
    assert_eq!(first.header("idempotency-replayed"), "");
    universe.grant(&first.task_id(), 1);
    for key in ["k", "\"k\""] {
        let again = node.call(&submit(1).key(key)).await;
        assert_eq!(again.task_id(), first.task_id());
        assert_eq!(again.header("idempotency-replayed"), "true");
        assert_eq!(again.body["status"], "RUNNING", "the status is that of now");
    }
    node.call(&submit(2).key("k")).await.is(422, "idempotency_key_reused");
    assert_ne!(node.call(&submit(1).key("k").by_b()).await.task_id(), first.task_id(), "keys are per caller");
    for bad in ["", "a b", "é", "\"", "\"k", "k\"\"", &"x".repeat(129)] {
        node.call(&submit(1).key(bad)).await.is(400, "invalid_request");
    }
}

#[tokio::test]
async fn b132_a_refused_submission_leaves_its_idempotency_key_free() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    node.call(&Draft::submit(json!({"handler": "a b"})).key("k")).await.is(422, "validation_failed");
    let task = node.call(&Draft::submit(json!({"handler": "echo"})).key("k")).await;
    assert_eq!(task.header("idempotency-replayed"), "");
    task.task_id();
}

#[tokio::test]
async fn cancelling() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let submit = || Draft::submit(json!({"handler": "echo", "delayMs": 0}));
    let pending = node.call(&submit()).await.task_id();
    for _ in 0..2 {
        let reply = node.call(&cancel(&pending)).await;
        assert_eq!((reply.status, &reply.body["status"]), (200, &"CANCELLED".into()));
    }
    assert_eq!(node.call(&get(&pending)).await.body["error"], json!({"code": "cancelled"}));
    let running = node.call(&submit()).await.task_id();
    universe.grant(&running, 1);
    for _ in 0..2 {
        let reply = node.call(&cancel(&running)).await;
        assert_eq!((reply.status, &reply.body["cancelRequested"]), (202, &true.into()));
    }
    let ended = node.call(&submit()).await.task_id();
    let fence = universe.grant(&ended, 1);
    universe.succeed(&ended, 1, fence);
    let reply = node.call(&cancel(&ended)).await;
    reply.is(409, "task_already_terminal");
    assert_eq!(reply.body["task"]["status"], "SUCCESS");
    node.call(&cancel("tsk_AAECAwQFBgcICQoLDA0ODw")).await.is(404, "task_not_found");
    node.call(&cancel("no-task-id")).await.is(404, "task_not_found");
    let mut with_body = cancel(&ended);
    with_body.body = b"{}".to_vec();
    node.call(&with_body).await.is(409, "task_already_terminal");
    with_body.nonce = orloj_wire::sign::new_nonce();
    with_body.body = br#"{"force":true}"#.to_vec();
    node.call(&with_body).await.is(400, "invalid_request");
}

#[tokio::test]
async fn a_finished_task_shows_how_it_went() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let task = node.call(&Draft::submit(json!({"handler": "echo"}))).await.task_id();
    let fence = universe.grant(&task, 1);
    universe.succeed(&task, 1, fence);
    let got = node.call(&get(&task)).await;
    assert_eq!(got.body["status"], "SUCCESS");
    assert_eq!(got.body["result"], json!({"n": 1}));
    assert_eq!(got.body["logTail"], "done €\n");
    assert!(got.body["error"].is_null());
    let attempt = &got.body["attempts"][0];
    assert_eq!((&attempt["executorId"], &attempt["outcome"]), (&"e1".into(), &"succeeded".into()));
    assert_eq!((&attempt["fence"], &attempt["attempt"]), (&fence.into(), &1.into()));
    let attempts = node.call(&Draft::get(&format!("/openapi/v1/tasks/{task}/attempts"))).await;
    assert_eq!(attempts.body["attempts"], got.body["attempts"]);
    assert_eq!(attempts.body["version"], got.body["version"]);
}

#[tokio::test]
async fn a_long_poll_ends_with_the_change_that_it_waits_for() {
    let universe = Universe::of(1).await;
    let node = universe.leader().clone();
    let task = node.call(&Draft::submit(json!({"handler": "echo"}))).await.task_id();
    let poll = get(&task).query("after_version=1&wait_ms=30000");
    let waiting = tokio::spawn({
        let node = node.clone();
        async move { node.call(&poll).await }
    });
    super::eventually("the poll waits", async || {
        let metrics = Draft::get("/metrics").unsigned().body(axum::body::Body::empty()).unwrap();
        node.send(metrics).await.text.contains("orloj_api_waiting_polls 1\n")
    })
    .await;
    let fence = universe.grant(&task, 1);
    let reply = waiting.await.unwrap();
    assert_eq!((&reply.body["status"], &reply.body["version"]), (&"RUNNING".into(), &2.into()));
    let known = node.call(&get(&task).query("after_version=1&wait_ms=30000")).await;
    assert_eq!(known.body["version"], 2, "a version that is there already is answered at once");
    let unchanged = node.call(&get(&task).query("after_version=2&wait_ms=20")).await;
    assert_eq!(unchanged.body["version"], 2);
    universe.succeed(&task, 1, fence);
    let ended = node.call(&get(&task).query("after_version=99&wait_ms=30000")).await;
    assert_eq!(ended.body["status"], "SUCCESS", "a task that has ended is not waited for");
    for bad in ["wait_ms=10", "after_version=1&wait_ms=30001", "after_version=-1", "after_version=x"] {
        node.call(&get(&task).query(bad)).await.is(400, "invalid_query");
    }
}

#[tokio::test]
async fn a_poll_ends_with_the_leadership_and_is_not_answered_from_old_tables() {
    let universe = Universe::of(1).await;
    let node = universe.leader().clone();
    let task = node.call(&Draft::submit(json!({"handler": "echo"}))).await.task_id();
    let poll = get(&task).query("after_version=1&wait_ms=30000");
    let waiting = tokio::spawn({
        let node = node.clone();
        async move { node.call(&poll).await }
    });
    super::eventually("the poll waits", async || {
        let metrics = Draft::get("/metrics").unsigned().body(axum::body::Body::empty()).unwrap();
        node.send(metrics).await.text.contains("orloj_api_waiting_polls 1\n")
    })
    .await;
    universe.elect(None);
    let ended = tokio::time::timeout(std::time::Duration::from_secs(10), waiting).await;
    ended.expect("the poll ends long before its wait is over").unwrap().is(503, "no_leader");
}

#[tokio::test]
async fn logs_come_from_the_executor_or_from_the_kept_end() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let task = node.call(&Draft::submit(json!({"handler": "echo"}))).await.task_id();
    let logs = |query: &str| Draft::get(&format!("/openapi/v1/tasks/{task}/logs")).query(query);
    let none = node.call(&logs("")).await;
    assert_eq!((&none.body["source"], &none.body["complete"]), (&"none".into(), &false.into()));
    let fence = universe.grant(&task, 1);
    *node.leader.log.lock().unwrap() = Some("ab€".as_bytes().to_vec());
    let piece = node.call(&logs("limit=4")).await;
    assert_eq!((&piece.body["text"], &piece.body["nextOffset"]), (&"ab".into(), &2.into()));
    let rest = node.call(&logs("offset=2")).await;
    assert_eq!((&rest.body["text"], &rest.body["complete"]), (&"€".into(), &true.into()));
    assert_eq!((&rest.body["source"], &rest.body["attempt"]), (&"executor".into(), &1.into()));
    universe.succeed(&task, 1, fence);
    *node.leader.log.lock().unwrap() = None;
    let tail = node.call(&logs("")).await;
    assert_eq!((&tail.body["text"], &tail.body["source"]), (&"done €\n".into(), &"tail".into()));
    node.call(&logs("attempt=2")).await.is(404, "not_found");
    node.call(&logs("shard_index=1")).await.is(404, "not_found");
    for bad in ["limit=0", "limit=262145", "offset=-1", "wait_ms=20001", "attempt=0", "tail=1"] {
        node.call(&logs(bad)).await.is(400, "invalid_query");
    }
}

#[tokio::test]
async fn executors_are_listed_and_drained() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let list = node.call(&Draft::get("/openapi/v1/executors")).await;
    let first = &list.body["executors"][0];
    assert_eq!((&first["executorId"], &first["state"]), (&"e1".into(), &"online".into()));
    assert_eq!(first["handlers"], json!(["echo", "sleep"]));
    let drain =
        |id: &str, body: Value| Draft::post(&format!("/openapi/v1/executors/{id}/drain"), body).by_admin();
    assert_eq!(node.call(&drain("e1", Value::Null)).await.body["draining"], true);
    let state = async || {
        node.call(&Draft::get("/openapi/v1/executors").by_admin()).await.body["executors"][0]["state"].clone()
    };
    assert_eq!(state().await, "draining");
    assert_eq!(node.call(&drain("e1", json!({"on": false}))).await.body["draining"], false);
    assert_eq!(state().await, "online");
    node.call(&drain("e9", Value::Null)).await.is(404, "not_found");
}

#[tokio::test]
async fn the_cluster_shows_every_member() {
    let universe = Universe::of(3).await;
    let reply = universe.nodes[1].call(&Draft::get("/openapi/v1/cluster")).await;
    let keys: Vec<_> = reply.body.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["clusterId", "leader", "members", "round", "term"]);
    assert_eq!((&reply.body["leader"], &reply.body["round"]), (&1.into(), &1.into()));
    let members = reply.body["members"].as_array().unwrap();
    let fields: Vec<_> = members[0].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["api", "appliedIndex", "digest", "id", "lagEntries", "role", "state"]);
    assert_eq!((&members[2]["state"], &members[2]["digest"]), (&"unreachable".into(), &Value::Null));
    universe.elect(None);
    let reply = universe.nodes[1].call(&Draft::get("/openapi/v1/cluster")).await;
    assert_eq!((reply.status, &reply.body["leader"]), (200, &Value::Null));
}

#[tokio::test]
async fn members_come_and_go_and_leadership_moves() {
    let universe = Universe::of(2).await;
    let node = universe.leader();
    let admin =
        |path: &str, body: Value| Draft::post(&format!("/openapi/v1/cluster/{path}"), body).by_admin();
    let added =
        node.call(&admin("members", json!({"internal": "10.0.0.9:7000", "api": "http://10.0.0.9:80"}))).await;
    assert_eq!(added.body, json!({"id": 3, "member": true}));
    let removed = node.call(&admin("members/3/remove", Value::Null)).await;
    assert_eq!(removed.body, json!({"id": 3, "member": false}));
    node.call(&admin("members/9/remove", Value::Null)).await.is(404, "not_found");
    node.call(&admin("members/x/remove", Value::Null)).await.is(404, "not_found");
    let bad = node.call(&admin("members", json!({"internal": "here", "api": "there"}))).await;
    bad.is(422, "validation_failed");
    assert_eq!(bad.body["errors"].as_array().unwrap().len(), 2);
    node.call(&admin("transfer", json!({"to": 9}))).await.is(404, "not_found");
    assert_eq!(node.call(&admin("transfer", json!({"to": 2}))).await.body, json!({"leader": 2}));
}
