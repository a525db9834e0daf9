//! Tasks that are tried again by hand and cannot start again.

use orloj_model::command::Command;
use orloj_model::id::ExecutorId;
use serde_json::{Value, json};

use super::{Draft, Node, Reply, Universe};

async fn retry(node: &Node, task: &str) -> Reply {
    node.call(&Draft::post(&format!("/openapi/v1/tasks/{task}/retry"), Value::Null).key("again")).await
}

async fn cancel(node: &Node, task: &str) {
    let cancelled = node.call(&Draft::post(&format!("/openapi/v1/tasks/{task}/cancel"), Value::Null)).await;
    assert_eq!(cancelled.status, 200, "{}", cancelled.text);
}

/// Refused with a conflict that names the parent, for a reason; nothing in the request is at fault.
fn is_kept_by(refused: &Reply, parent: &str, why: &str) {
    refused.is(409, "conflict");
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(detail.contains(parent) && detail.contains(why), "{detail}");
    assert_eq!(refused.body["errors"], Value::Null);
}

#[tokio::test]
async fn what_its_parent_skipped_is_not_taken_to_be_skipped_again() {
    let universe = Universe::of(2).await;
    let node = &universe.nodes[1];
    let parent = node.call(&Draft::submit(json!({"handler": "echo"}))).await.task_id();
    cancel(node, &parent).await;
    let child = Draft::submit(json!({"handler": "echo", "dependsOn": [{"taskId": parent}]}));
    let child = node.call(&child).await.task_id();
    let shown = node.call(&Draft::get(&format!("/openapi/v1/tasks/{child}"))).await;
    assert_eq!((&shown.body["status"], &shown.body["reason"]), (&json!("SKIPPED"), &json!("dependency")));
    is_kept_by(&retry(node, &child).await, &parent, "CANCELLED");
    assert_eq!(universe.proposals(), 3);
}

#[tokio::test]
async fn a_task_whose_parent_is_kept_no_more_says_so() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let parent = node.call(&Draft::submit(json!({"handler": "echo"}))).await.task_id();
    let child =
        Draft::submit(json!({"handler": "echo", "dependsOn": [{"taskId": parent, "on": "completed"}]}));
    let (one, other) = (node.call(&child).await.task_id(), node.call(&fresh(&child)).await.task_id());
    for task in [&one, &other] {
        cancel(node, task).await;
    }
    let taken = retry(node, &one).await.task_id();
    cancel(node, &parent).await;
    universe.forget_task(&parent);
    is_kept_by(&node.call(&again(&other)).await, &parent, "no longer kept");
    assert_eq!(retry(node, &one).await.task_id(), taken, "what was taken once is answered again");
}

#[tokio::test]
async fn a_handler_that_nobody_has_any_more_is_unknown_here_too() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    universe.register("e2", &["rare"]);
    let tasks = [
        node.call(&Draft::submit(json!({"handler": "rare"}))).await.task_id(),
        node.call(&Draft::submit(json!({"handler": "rare"}))).await.task_id(),
    ];
    for task in &tasks {
        cancel(node, task).await;
    }
    let taken = retry(node, &tasks[0]).await.task_id();
    universe.run(Command::ExecutorLeft { executor: ExecutorId::new("e2").unwrap(), incarnation: 1 });
    super::eventually("it is known to have left", async || {
        let refused = node.call(&again(&tasks[1])).await;
        let detail = refused.body["detail"].as_str().unwrap_or_default();
        // A retry has nothing that would let it wait for an executor.
        assert!(!detail.contains("allowUnknownHandler"), "{detail}");
        refused.status == 422 && refused.body["code"] == "handler_unknown"
    })
    .await;
    assert_eq!(retry(node, &tasks[0]).await.task_id(), taken);
}

#[tokio::test]
async fn a_deadline_that_has_passed_was_that_of_the_first_try_alone() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let expire_at = "2027-01-15T08:00:30.000Z";
    let task = node.call(&Draft::submit(json!({"handler": "echo", "expireAt": expire_at}))).await.task_id();
    cancel(node, &task).await;
    let shown = async |task: String| node.call(&Draft::get(&format!("/openapi/v1/tasks/{task}"))).await.body;
    let before = node.call(&again(&task)).await.task_id();
    assert_eq!(shown(before).await["expireAt"], expire_at, "it is still ahead");
    universe.clock.step_wall_ms(31_000);
    let after = shown(node.call(&again(&task)).await.task_id()).await;
    assert_eq!((&after["status"], &after["expireAt"]), (&json!("PENDING"), &Value::Null), "{after}");
}

#[tokio::test]
async fn b72_what_was_lost_too_often_may_be_lost_as_often_again() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    universe.register("e2", &["echo"]);
    let task = json!({"handler": "echo", "retry": {"maxRetries": 0, "maxLost": 1}});
    let old = node.call(&Draft::submit(task)).await.task_id();
    let shown = async |task: &str| node.call(&Draft::get(&format!("/openapi/v1/tasks/{task}"))).await.body;
    for attempt in 1..=2 {
        assert_eq!(shown(&old).await["status"], "PENDING");
        universe.lose(&old, attempt, u64::from(attempt) + 1);
        universe.clock.advance_ms(60_000);
    }
    assert_eq!(shown(&old).await["status"], "FAILED");
    let new = retry(node, &old).await.task_id();
    universe.lose(&new, 1, 4);
    universe.clock.advance_ms(60_000);
    let body = shown(&new).await;
    assert_eq!((&body["status"], &body["retryOf"]), (&json!("PENDING"), &json!(old)), "{body}");
    universe.lose(&new, 2, 5);
    assert_eq!(shown(&new).await["status"], "FAILED", "as often, and no more");
}

fn again(task: &str) -> Draft {
    Draft::post(&format!("/openapi/v1/tasks/{task}/retry"), Value::Null)
}

/// The same request under a nonce of its own.
fn fresh(draft: &Draft) -> Draft {
    Draft { nonce: orloj_wire::sign::new_nonce(), ..draft.clone() }
}
