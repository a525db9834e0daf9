//! `POST /openapi/v1/tasks/batch`.

use orloj_raft_store::ProposeError;
use serde_json::{Value, json};

use super::{Draft, Universe};

const PATH: &str = "/openapi/v1/tasks/batch";

fn batch(tasks: Value) -> Draft {
    Draft::post(PATH, json!({ "tasks": tasks }))
}

#[tokio::test]
async fn each_submission_of_a_batch_stands_for_itself() {
    let universe = Universe::of(3).await;
    for node in &universe.nodes {
        let reply = node
            .call(&batch(json!([
                {"handler": "echo", "params": {"n": 1}},
                {"handler": "nobody-has-this"},
                {"handler": "echo", "delayMs": 1000},
                {"handler": "echo", "zone": "z/1", "businessKey": ""},
            ])))
            .await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let results = reply.body["results"].as_array().unwrap();
        let statuses: Vec<_> = results.iter().map(|result| result["status"].as_u64().unwrap()).collect();
        assert_eq!(statuses, [202, 422, 202, 422]);
        assert_eq!(results[1]["problem"]["code"], "handler_unknown");
        assert_eq!(results[3]["problem"]["errors"].as_array().unwrap().len(), 2);
        assert!(results[1].get("task").is_none() && results[0].get("problem").is_none());
        for (at, reason) in [(0, "ready"), (2, "scheduled")] {
            let task = results[at]["task"]["taskId"].as_str().unwrap();
            let got = node.call(&Draft::get(&format!("/openapi/v1/tasks/{task}"))).await;
            assert_eq!((got.status, &got.body["reason"]), (200, &json!(reason)));
        }
        assert_eq!(reply.body["appliedIndex"], universe.applied());
    }
}

#[tokio::test]
async fn a_batch_has_between_one_and_a_thousand_submissions() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let many = |count: usize| Value::from(vec![json!({"handler": "echo"}); count]);
    assert_eq!(node.call(&batch(many(1_000))).await.status, 200);
    for count in [0, 1_001] {
        let reply = node.call(&batch(many(count))).await;
        assert_eq!((reply.status, &reply.body["errors"][0]["pointer"]), (422, &json!("/tasks")), "{count}");
    }
    for lists in [json!([["echo"]]), json!([[{"handler": "echo"}]])] {
        assert_eq!(node.call(&batch(lists)).await.status, 400, "a list is no submission");
    }
    assert_eq!(node.call(&Draft::submit(json!(["echo"]))).await.status, 400, "nor here");
    let malformed = node.call(&batch(json!([{"handler": "echo"}, {"handler": "echo", "delayMs": -1}]))).await;
    assert_eq!(
        (malformed.status, &malformed.body["errors"][0]["pointer"]),
        (400, &json!("/tasks/1/delayMs"))
    );
}

#[tokio::test]
async fn a_batch_may_be_larger_than_another_body_and_has_its_own_bound() {
    let universe = Universe::of(3).await;
    let of_bytes = |bytes: usize| {
        let params = json!({"text": "x".repeat(100 * 1024)});
        let tasks = vec![json!({"handler": "echo", "params": params}); bytes / (100 * 1024)];
        batch(Value::from(tasks))
    };
    for node in &universe.nodes {
        let reply = node.call(&of_bytes(2 << 20)).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let reply = node.call(&of_bytes(5 << 20)).await;
        assert_eq!((reply.status, &reply.body["code"]), (413, &json!("payload_too_large")));
    }
}

#[tokio::test]
async fn a_batch_of_which_nothing_is_taken_says_how_far_the_tables_were() {
    let universe = Universe::of(1).await;
    let reply = universe.leader().call(&batch(json!([{"handler": "nobody-has-this"}]))).await;
    assert_eq!((reply.status, &reply.body["appliedIndex"]), (200, &json!(universe.applied())));
    assert_eq!(reply.body["results"][0]["status"], 422);
}

#[tokio::test]
async fn a_full_disk_takes_no_batch_and_leaves_its_nonce_unspent() {
    let universe = Universe::of(1).await;
    universe.fail_proposals(Some(ProposeError::DiskLow));
    universe.leader().call(&batch(json!([{"handler": "echo"}]))).await.is(503, "disk_low");
    assert_eq!(universe.proposals(), 1, "what was not spent is not followed by tasks");
}

#[tokio::test]
async fn a_repeated_batch_answers_the_first_ones_tasks() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let first = || {
        batch(json!([{"handler": "echo", "params": 1}, {"handler": "echo", "params": 2}])).key("night-run")
    };
    let ids = |body: &Value| -> Vec<String> {
        let results = body["results"].as_array().unwrap().iter();
        results.map(|result| result["task"]["taskId"].as_str().unwrap().to_owned()).collect()
    };
    let taken = node.call(&first()).await;
    let again = node.call(&first()).await;
    assert_eq!(ids(&taken.body), ids(&again.body));
    assert_eq!(again.body["results"][1]["replayed"], true);
    let other = batch(json!([{"handler": "echo", "params": 3}])).key("night-run");
    let refused = node.call(&other).await;
    assert_eq!(refused.body["results"][0]["problem"]["code"], "idempotency_key_reused");
    // The key of a single submission is another one.
    let single = Draft::submit(json!({"handler": "echo"})).key("night-run");
    assert_eq!(node.call(&single).await.status, 202);
}

#[tokio::test]
async fn the_signature_of_a_batch_is_good_for_once_also_at_the_next_leader() {
    let universe = Universe::of(2).await;
    let (old, new) = (&universe.nodes[0], &universe.nodes[1]);
    let draft = batch(json!([{"handler": "echo"}]));
    assert_eq!(old.call(&draft).await.status, 200);
    let applied = universe.applied();
    universe.elect(Some(2));
    new.call(&draft).await.is(401, "nonce_replayed");
    assert_eq!(universe.applied(), applied + 1, "the one entry is the nonce that was refused");
}

#[tokio::test]
async fn an_unknown_outcome_of_a_batch_is_said() {
    let universe = Universe::of(1).await;
    universe.fail_proposals(Some(ProposeError::Unknown));
    let reply = universe.leader().call(&batch(json!([{"handler": "echo"}]))).await;
    assert_eq!((reply.status, &reply.body["code"]), (503, &json!("commit_unknown")));
}
