//! Parents, shards, and `GET /openapi/v1/tasks/{id}/graph`.

use serde_json::{Value, json};

use super::{Draft, Universe};

const BATCH: &str = "/openapi/v1/tasks/batch";

fn graph(task: &str) -> Draft {
    Draft::get(&format!("/openapi/v1/tasks/{task}/graph"))
}

fn after(task: &str, on: &str) -> Draft {
    Draft::submit(json!({"handler": "echo", "dependsOn": [{"taskId": task, "on": on}]}))
}

#[tokio::test]
async fn a_child_waits_and_the_graph_shows_for_what() {
    let universe = Universe::of(3).await;
    let parent = universe.leader().call(&Draft::submit(json!({"handler": "echo"}))).await.task_id();
    for node in &universe.nodes {
        let good = node.call(&after(&parent, "success")).await.task_id();
        let bad = node.call(&after(&parent, "failure")).await.task_id();
        let got = node.call(&Draft::get(&format!("/openapi/v1/tasks/{good}"))).await;
        assert_eq!((&got.body["reason"], &got.body["status"]), (&json!("dependencies"), &json!("PENDING")));
        assert_eq!(got.body["dependsOn"], json!([{"taskId": parent, "on": "success"}]));
        let shown = node.call(&graph(&bad)).await;
        assert_eq!((shown.status, &shown.body["taskId"]), (200, &json!(bad)));
        assert_eq!(shown.body["nodes"][0]["taskId"], json!(bad), "nearest first");
        let edges = shown.body["edges"].as_array().unwrap();
        assert!(edges.contains(&json!({"parent": parent, "child": bad, "on": "failure"})), "{edges:?}");
        assert!(edges.contains(&json!({"parent": parent, "child": good, "on": "success"})), "{edges:?}");
        assert_eq!(
            (&shown.body["truncated"], &shown.body["nodes"][0]["role"]),
            (&json!(false), &json!("task"))
        );
    }
    let fence = universe.grant(&parent, 1);
    universe.succeed(&parent, 1, fence);
    let skipped = universe.leader().call(&after(&parent, "failure")).await;
    assert_eq!((skipped.status, &skipped.body["status"]), (202, &json!("SKIPPED")));
    let shown = universe.leader().call(&graph(&parent)).await;
    let met: Vec<_> = shown.body["edges"].as_array().unwrap().iter().map(|edge| &edge["met"]).collect();
    assert!(met.contains(&&json!(true)) && met.contains(&&json!(false)), "{met:?}");
}

#[tokio::test]
async fn a_parent_must_be_a_task_of_the_caller() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let other = node.call(&Draft::submit(json!({"handler": "echo"})).by_b()).await.task_id();
    for parent in [other.as_str(), "tsk_AAECAwQFBgcICQoLDA0ODw"] {
        let reply = node.call(&after(parent, "success")).await;
        reply.is(422, "validation_failed");
        let error = &reply.body["errors"][0];
        assert_eq!(error["pointer"], "/dependsOn");
        assert!(error["message"].as_str().unwrap().contains(parent), "{error}");
    }
    node.call(&graph(&other)).await.is(404, "task_not_found");
    node.call(&graph("x")).await.is(404, "task_not_found");
    let alone = node.call(&after("#0", "success")).await;
    alone.is(422, "validation_failed");
    assert_eq!(alone.body["errors"][0]["pointer"], "/dependsOn/0/taskId");
}

#[tokio::test]
async fn tasks_of_a_batch_wait_for_earlier_ones_also_when_it_is_repeated() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let needs = |places: &[&str]| -> Value { places.iter().map(|place| json!({"taskId": place})).collect() };
    let tasks = json!([
        {"handler": "echo"},
        {"handler": "nobody-has-this"},
        {"handler": "echo", "dependsOn": needs(&["#0"])},
        {"handler": "echo", "dependsOn": needs(&["#0", "#2"])},
        {"handler": "echo", "dependsOn": needs(&["#1"])},
        {"handler": "echo", "dependsOn": needs(&["#6"])},
        {"handler": "echo"},
    ]);
    let half = |count: usize| Value::from(tasks.as_array().unwrap()[..count].to_vec());
    let send = |tasks: Value| Draft::post(BATCH, json!({ "tasks": tasks })).key("k");
    let first = node.call(&send(half(7))).await;
    let statuses = |reply: &super::Reply| -> Vec<u64> {
        reply.body["results"].as_array().unwrap().iter().map(|one| one["status"].as_u64().unwrap()).collect()
    };
    assert_eq!(statuses(&first), [202, 422, 202, 202, 422, 422, 202], "{}", first.text);
    let message = |place: usize| first.body["results"][place]["problem"]["errors"][0]["message"].clone();
    assert!(message(4).as_str().unwrap().contains("\"#1\" was refused"), "{}", message(4));
    assert!(message(5).as_str().unwrap().contains("no earlier submission"), "{}", message(5));
    let id = |reply: &super::Reply, place: usize| reply.body["results"][place]["task"]["taskId"].clone();
    let parents =
        node.call(&Draft::get(&format!("/openapi/v1/tasks/{}", id(&first, 3).as_str().unwrap()))).await;
    let named: Vec<_> =
        parents.body["dependsOn"].as_array().unwrap().iter().map(|one| one["taskId"].clone()).collect();
    assert_eq!(named, [id(&first, 0), id(&first, 2)]);
    let again = node.call(&send(half(7))).await;
    assert_eq!(id(&again, 3), id(&first, 3));
    assert_eq!(again.body["results"][3]["replayed"], true);
}

#[tokio::test]
async fn a_task_of_several_shards_shows_their_counts() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let body = json!({"handler": "echo", "shardTotal": 3, "onShardFailure": "cancel"});
    let task = node.call(&Draft::submit(body)).await.task_id();
    universe.grant(&task, 1);
    let got = node.call(&Draft::get(&format!("/openapi/v1/tasks/{task}"))).await;
    for (field, value) in [
        ("shardTotal", json!(3)),
        ("shardsRunning", json!(1)),
        ("shardsSucceeded", json!(0)),
        ("shardsFailed", json!(0)),
        ("progress", json!({"percent": 0, "note": "0 of 3 shards have succeeded"})),
    ] {
        assert_eq!(got.body[field], value, "{field}");
    }
    assert_eq!(got.body.get("result"), None);
}
