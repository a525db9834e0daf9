//! `POST /openapi/v1/tasks/sync`.

use serde_json::{Value, json};

use super::{Draft, Node, Reply, SECRET_A2, Universe, access};

const PATH: &str = "/openapi/v1/tasks/sync";

fn sync(body: Value) -> Draft {
    Draft::post(PATH, body)
}

fn short() -> Draft {
    sync(json!({"handler": "echo", "params": {"n": 1}, "estimatedDurationMs": 100}))
}

/// Sends it and answers with what comes back once the task, which the executor has been given meanwhile, has ended.
async fn run(universe: &Universe, node: &Node, draft: &Draft) -> Reply {
    let known = universe.applied();
    let waiting = tokio::spawn({
        let (node, draft) = (node.clone(), draft.clone());
        async move { node.call(&draft).await }
    });
    super::eventually("it is committed", async || universe.applied() > known).await;
    let task = universe.pending_task();
    let fence = universe.grant(&task, 1);
    universe.succeed(&task, 1, fence);
    waiting.await.unwrap()
}

#[tokio::test]
async fn the_answer_is_the_task_that_has_ended_through_every_replica() {
    let universe = Universe::of(3).await;
    for node in &universe.nodes {
        let ended = run(&universe, node, &short()).await;
        assert_eq!((ended.status, &ended.body["status"]), (200, &"SUCCESS".into()), "{}", ended.text);
        assert_eq!((&ended.body["result"], &ended.body["params"]), (&json!({"n": 1}), &json!({"n": 1})));
        let path = format!("/openapi/v1/tasks/{}", ended.body["taskId"].as_str().unwrap());
        assert_eq!(ended.header("location"), path);
        let got = node.call(&Draft::get(&path)).await;
        assert_eq!((got.header("etag"), &got.body["status"]), (ended.header("etag"), &"SUCCESS".into()));
    }
    assert_eq!(universe.proposals(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_has_not_ended_in_three_seconds_is_answered_as_it_stands_and_goes_on() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let began = tokio::time::Instant::now();
    let open = node.call(&short()).await;
    assert_eq!((open.status, &open.body["status"]), (202, &"PENDING".into()), "{}", open.text);
    assert!((3_000..3_100).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    let task = universe.pending_task();
    assert_eq!(open.header("location"), format!("/openapi/v1/tasks/{task}"));
    assert!(open.header("etag").starts_with("\"1-"), "{}", open.header("etag"));
    let fence = universe.grant(&task, 1);
    universe.succeed(&task, 1, fence);
    let got = node.call(&Draft::get(open.header("location"))).await;
    assert_eq!(got.body["status"], "SUCCESS");
}

#[tokio::test]
async fn a_leader_that_goes_answers_at_once_what_it_knows() {
    let universe = Universe::of(2).await;
    let node = universe.leader().clone();
    let waiting = tokio::spawn(async move { node.call(&short()).await });
    super::eventually("it is committed", async || universe.proposals() == 1).await;
    universe.elect(Some(2));
    let open = waiting.await.unwrap();
    assert_eq!((open.status, &open.body["status"]), (202, &"PENDING".into()), "{}", open.text);
}

#[tokio::test]
async fn what_takes_long_is_refused_with_the_call_that_takes_it() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    for (body, why) in [
        (json!({"estimatedDurationMs": 3_000}), "estimated to take 3000 ms"),
        (json!({"estimatedDurationMs": 100, "delayMs": 2_900}), "due in 2900 ms"),
        (json!({"estimatedDurationMs": 0, "runAt": "2027-01-15T08:00:03.000Z"}), "due in 3000 ms"),
        (json!({"estimatedDurationMs": 0, "runAt": "9999-12-30T00:00:00.000Z"}), "due in"),
    ] {
        let mut body = body;
        body["handler"] = json!("echo");
        let refused = node.call(&sync(body)).await;
        refused.is(400, "sync_duration_too_long");
        let detail = refused.body["detail"].as_str().unwrap();
        assert!(detail.contains(why) && detail.contains("POST /openapi/v1/tasks"), "{detail}");
    }
    let refused = node.call(&sync(json!({"handler": "echo"}))).await;
    refused.is(422, "validation_failed");
    assert_eq!(refused.body["errors"][0]["pointer"], "/estimatedDurationMs");
    node.call(&sync(json!({"handler": "no-such", "estimatedDurationMs": 1})))
        .await
        .is(422, "handler_unknown");
    assert_eq!(universe.proposals(), 0);
}

#[tokio::test(start_paused = true)]
async fn b132_one_key_is_one_task_here_too_and_another_request_on_the_other_path() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let ended = run(&universe, node, &short().key("k")).await;
    let again = node.call(&short().key("k")).await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (200, "true"), "{}", again.text);
    assert_eq!(again.body["taskId"], ended.body["taskId"]);
    let body = json!({"handler": "echo", "params": {"n": 1}, "estimatedDurationMs": 100});
    node.call(&Draft::submit(body).key("k")).await.is(422, "idempotency_key_reused");
    let draft = short();
    assert_eq!(node.call(&draft).await.status, 202);
    node.call(&draft).await.is(401, "nonce_replayed");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_taken_is_answered_under_its_key_whatever_the_clock_says_by_now() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let soon = || {
        let body =
            json!({"handler": "echo", "estimatedDurationMs": 100, "runAt": "2027-01-15T08:00:02.000Z"});
        sync(body).key("k")
    };
    let open = node.call(&soon()).await;
    assert_eq!(open.status, 202, "{}", open.text);
    universe.clock.step_wall_ms(-2_000);
    let again = node.call(&soon()).await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (202, "true"), "{}", again.text);
    assert_eq!(again.body["taskId"], open.body["taskId"]);
    node.call(&soon().key("other")).await.is(400, "sync_duration_too_long");
}

#[tokio::test]
async fn whether_a_handler_may_be_used_comes_before_how_long_it_takes() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    node.call(&access::put(access::CALLERS, json!({"handlers": ["sleep"]}))).await.is_ok();
    let key = access::make_key(node).await;
    let long =
        |handler: &str| sync(json!({"handler": handler, "estimatedDurationMs": 9_000})).by(&key.0, &key.1);
    node.call(&long("echo")).await.is(403, "executor_denied");
    node.call(&long("sleep")).await.is(400, "sync_duration_too_long");
}

#[tokio::test]
async fn it_costs_what_a_submission_costs_and_wants_its_scope() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    for _ in 0..2 {
        node.call(&Draft::submit(json!({"handler": "echo"})).by_b()).await.task_id();
    }
    node.call(&short().by_b()).await.is(429, "rate_limited");
    node.call(&short().by_admin()).await.is(403, "scope_denied");
    node.call(&Draft::get(PATH)).await.is(405, "method_not_allowed");
}

#[tokio::test(start_paused = true)]
async fn places_to_wait_are_bounded_and_who_finds_none_has_no_task() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let limits = json!({
        "requestsPerS": 1000, "requestsBurst": 1000, "submitsPerS": 1000, "submitsBurst": 1000, "waiters": 57,
    });
    node.call(&access::put(access::CALLERS, json!({ "limits": limits }))).await.is_ok();
    let shop = access::make_key(node).await;
    let before = universe.proposals();
    let by = |draft: Draft, key: &str| match key {
        "ak_A" => draft,
        "ak_A2" => draft.by(key, SECRET_A2),
        _ => draft.by(&shop.0, &shop.1),
    };
    // A key has as many places as long polls, and leaves the others to others.
    let mut waiting = Vec::new();
    for (key, share) in [("ak_A", 100), ("ak_A2", 100), ("shop", 56)] {
        let taken = universe.proposals();
        for _ in 0..share {
            let (node, draft) = (node.clone(), by(short(), key));
            waiting.push(tokio::spawn(async move { node.call(&draft).await.status }));
        }
        super::eventually("they wait", async || universe.proposals() == taken + share).await;
        if key != "shop" {
            node.call(&by(short(), key)).await.is(429, "too_many_waiters");
        }
    }
    node.call(&by(short(), "shop")).await.is(503, "overloaded");
    assert_eq!(universe.proposals(), before + 256);
    for one in waiting {
        assert_eq!(one.await.unwrap(), 202);
    }
    assert_eq!(node.call(&short()).await.status, 202, "places are given back");
}
