//! Requests that repeat one that was taken, after what they are judged by has changed; and calls that no key makes single.

use orloj_model::apply::IDEMPOTENCY_TTL_MS;
use serde_json::{Value, json};

use super::access::{CALLERS, make_key, put};
use super::{Draft, Node, Reply, T, Universe};

/// Signs for `seconds` after the beginning.
fn later(draft: Draft, seconds: i64) -> Draft {
    Draft { timestamp: (T + seconds).to_string(), nonce: orloj_wire::sign::new_nonce(), ..draft }
}

/// Lets the handler go that `e2` had.
async fn handler_leaves(universe: &Universe) {
    universe.register("e2", &["other"]);
    let submit = || Draft::submit(json!({"handler": "fresh"}));
    super::eventually("nobody has the handler", async || {
        universe.leader().call(&submit()).await.status == 422
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_key_that_has_run_out_opens_no_checks() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    universe.register("e2", &["fresh"]);
    let submit = || Draft::submit(json!({"handler": "fresh"})).key("report");
    let short = || {
        let body = json!({"handler": "fresh", "estimatedDurationMs": 10});
        Draft::post("/openapi/v1/tasks/sync", body).key("short")
    };
    let long = || {
        let body = json!({"handler": "fresh", "estimatedDurationMs": 60_000});
        Draft::post("/openapi/v1/tasks/sync", body).key("short")
    };
    let first = node.call(&submit()).await.task_id();
    let waited_for = node.call(&short()).await.task_id();
    handler_leaves(&universe).await;
    assert_eq!(node.call(&submit()).await.task_id(), first);
    assert_eq!(node.call(&short()).await.task_id(), waited_for);
    // Another request under a key that is known is none that was taken.
    node.call(&long()).await.is(400, "sync_duration_too_long");
    node.call(&Draft::submit(json!({"handler": "fresh", "priority": 1})).key("report"))
        .await
        .is(422, "handler_unknown");
    // Nothing was committed since, and nothing was swept.
    let day = IDEMPOTENCY_TTL_MS / 1_000;
    universe.clock.advance_ms(IDEMPOTENCY_TTL_MS as u64);
    let applied = universe.applied();
    for draft in [submit(), short()] {
        node.call(&later(draft, day)).await.is(422, "handler_unknown");
    }
    assert_eq!(universe.applied(), applied);
}

/// Enough for everything that is asked for here.
fn limits() -> Value {
    json!({"submitsPerS": 100, "submitsBurst": 100, "requestsPerS": 100, "requestsBurst": 100})
}

/// A caller with a host for callbacks, and a key of it.
async fn with_callbacks(node: &Node) -> (String, String) {
    let settings = json!({"callbackHosts": [{"host": "hooks.example.com"}], "limits": limits()});
    node.call(&put(CALLERS, settings)).await.is_ok();
    let secret = Draft::post(&format!("{CALLERS}/webhook-secrets"), Value::Null).by_admin();
    node.call(&secret).await.is_ok();
    make_key(node).await
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_is_answered_whatever_its_caller_may_do_by_now() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let key = with_callbacks(node).await;
    let by = |draft: Draft| draft.by(&key.0, &key.1);
    let body = json!({"handler": "echo", "callbackUrl": "https://hooks.example.com/cb"});
    let sync = json!({"handler": "echo", "estimatedDurationMs": 1, "delayMs": 0});
    let submit = |name: &str| by(Draft::submit(body.clone()).key(name));
    let old = node.call(&submit("old")).await.task_id();
    node.call(&by(Draft::post(&format!("/openapi/v1/tasks/{old}/cancel"), Value::Null))).await.is_ok();
    let daily = json!([{"kind": "cron", "expression": "0 2 * * *"}]);
    let job = Draft::post("/openapi/v1/jobs/nightly", json!({"handler": "echo", "triggers": daily}));
    node.call(&by(Draft { method: "PUT".into(), ..job })).await.is_ok();
    let requests = |name: &str| {
        [
            submit(name),
            by(Draft::post("/openapi/v1/tasks/sync", sync.clone()).key(&format!("sync-{name}"))),
            by(Draft::post(&format!("/openapi/v1/tasks/{old}/retry"), Value::Null)
                .key(&format!("again-{name}"))),
            by(Draft::post("/openapi/v1/jobs/nightly/run", json!({"overlap": "allow"}))
                .key(&format!("run-{name}"))),
        ]
    };
    let mut made = Vec::new();
    for draft in requests("a") {
        made.push(node.call(&draft).await);
    }
    let batch = by(Draft::post("/openapi/v1/tasks/batch", json!({"tasks": [body, sync]})).key("batch"));
    let of_batch = node.call(&batch).await;
    for (left, status, code) in [
        (json!({"limits": limits()}), 422, "callback_url_not_allowed"),
        (json!({"limits": limits(), "handlers": ["sleep"]}), 403, "executor_denied"),
    ] {
        node.call(&put(CALLERS, left)).await.is_ok();
        for (draft, made) in requests("a").iter().zip(&made) {
            let again = node.call(draft).await;
            assert_eq!(again.body["taskId"], made.body["taskId"], "{} {}", draft.path, again.text);
            assert_eq!(again.header("idempotency-replayed"), "true");
            universe.clock.advance_ms(1_000);
        }
        universe.clock.advance_ms(10_000);
        let again = node.call(&Draft { nonce: orloj_wire::sign::new_nonce(), ..batch.clone() }).await;
        for place in 0..2 {
            let of = |reply: &Reply| reply.body["results"][place]["task"]["taskId"].clone();
            assert_eq!(of(&again), of(&of_batch), "{}", again.text);
        }
        let applied = universe.applied();
        node.call(&submit("b")).await.is(status, code);
        assert_eq!(universe.applied(), applied);
    }
    for draft in &requests("b")[1..] {
        node.call(draft).await.is(403, "executor_denied");
        universe.clock.advance_ms(1_000);
    }
}

#[tokio::test]
async fn a_key_that_keeps_nothing_single_is_refused() {
    let universe = Universe::of(2).await;
    let task = universe.leader().call(&Draft::submit(json!({"handler": "echo"}))).await.task_id();
    let past = json!({"from": "2027-01-10T00:00:00Z", "to": "2027-01-12T00:00:00Z"});
    for draft in [
        Draft::get(&format!("/openapi/v1/tasks/{task}")),
        Draft::post(&format!("/openapi/v1/tasks/{task}/cancel"), Value::Null),
        Draft::post("/openapi/v1/jobs/nightly/backfill", past),
        Draft::post(&format!("{CALLERS}/keys"), Value::Null).by_admin(),
        put(CALLERS, json!({})),
    ] {
        let applied = universe.applied();
        for node in &universe.nodes {
            let reply = node.call(&draft.clone().key("k")).await;
            reply.is(400, "invalid_request");
            assert!(reply.text.contains("takes no Idempotency-Key"), "{}", reply.text);
        }
        assert_eq!(universe.applied(), applied);
    }
}
