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

fn put(id: &str, body: Value) -> Draft {
    super::jobs::call("PUT", &format!("jobs/{id}"), body)
}

fn workflow() -> Value {
    json!({"handler": "workflow", "steps": [
        {"name": "tell", "handler": "echo", "dependsOn": [{"step": "book", "on": "completed"}],
         "params": {"was": {"$status": "book"}}},
        {"name": "load", "handler": "echo", "params": {"day": "${date:%d}"}, "shardTotal": 4},
        {"name": "book", "handler": "echo", "dependsOn": [{"step": "load"}]},
    ]})
}

#[tokio::test]
async fn b103_an_edit_of_anything_else_leaves_the_steps_as_they_are() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let created = node.call(&put("flow", workflow())).await;
    let steps = &created.body["definition"]["steps"];
    let patch = |body: Value| super::jobs::call("PATCH", "jobs/flow", body);
    for change in [
        json!({"title": "x"}),
        json!({"overlap": "allow"}),
        json!({"triggers": [{"kind": "fixedRate", "everyMs": 60_000}]}),
        json!({"maxRunning": 2, "expireAfterMs": 1_000}),
        json!({"title": null, "triggers": null, "overlap": null}),
    ] {
        let patched = node.call(&patch(change.clone())).await;
        assert_eq!(patched.status, 200, "{change}: {}", patched.text);
        assert_eq!(patched.body["definition"]["steps"], *steps, "{change}");
    }
    let without = json!({"steps": [{"name": "book", "handler": "echo", "dependsOn": [{"step": "load"}]}]});
    let refused = node.call(&patch(without)).await;
    refused.is(422, "validation_failed");
    assert!(refused.text.contains("is no step of this job"), "{}", refused.text);
}

#[tokio::test]
async fn a_jobs_steps_are_stored_in_order_shown_and_sent_again() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let created = node.call(&put("flow", workflow())).await;
    assert_eq!(created.status, 201, "{}", created.text);
    let steps = created.body["definition"]["steps"].as_array().unwrap();
    let names: Vec<_> = steps.iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["load", "book", "tell"], "each after those that it needs");
    assert_eq!((&steps[0]["shardTotal"], &steps[0]["onShardFailure"]), (&json!(4), &json!("wait")));
    assert_eq!(steps[2]["dependsOn"], json!([{"step": "book", "on": "completed"}]));
    let again = node.call(&put("flow", created.body["definition"].clone())).await;
    assert_eq!((again.status, &again.body["version"]), (200, &json!(1)), "{}", again.text);
    let mut fewer = workflow();
    fewer["steps"].as_array_mut().unwrap().remove(0);
    let edited = node.call(&put("flow", fewer)).await;
    assert_eq!((edited.status, &edited.body["version"]), (200, &json!(2)), "the steps alone are an edit");
    let plain = node.call(&put("flow", json!({"handler": "echo"}))).await;
    assert_eq!((plain.status, plain.body["definition"].get("steps")), (200, None), "{}", plain.text);
}

#[tokio::test]
async fn b104_what_is_wrong_with_a_step_is_named_with_its_place() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let with = |at: usize, field: &str, value: Value| {
        let mut body = workflow();
        body["steps"][at][field] = value;
        body
    };
    for (body, code, pointer) in [
        (with(2, "dependsOn", json!([{"step": "tell"}])), "validation_failed", "/steps/0/dependsOn"),
        (with(2, "dependsOn", json!([{"step": "none"}])), "validation_failed", "/steps/2/dependsOn/0/step"),
        (with(0, "params", json!({"x": {"$result": "load"}})), "validation_failed", "/steps/0/params/x"),
        (with(1, "params", json!({"x": "${none}"})), "validation_failed", "/steps/1/params/x"),
        (with(1, "handler", json!("nobody-has-this")), "handler_unknown", "/steps/1/handler"),
        (with(1, "zone", json!("a b")), "validation_failed", "/steps/1/zone"),
        (with(1, "name", json!("tell")), "validation_failed", "/steps/1/name"),
    ] {
        let reply = node.call(&put("flow", body)).await;
        reply.is(422, code);
        assert_eq!(reply.body["errors"][0]["pointer"], pointer, "{}", reply.text);
    }
}

#[tokio::test]
async fn a_workflow_may_be_larger_than_another_body_and_has_its_own_bound() {
    let universe = Universe::of(3).await;
    let of = |steps: usize| {
        let step =
            |number| json!({"name": format!("s{number}"), "handler": "echo", "params": "x".repeat(50 << 10)});
        put("flow", json!({"handler": "workflow", "steps": (0..steps).map(step).collect::<Value>()}))
    };
    for node in &universe.nodes {
        let reply = node.call(&of(9)).await;
        assert!(reply.status < 300, "{}", reply.text);
        let reply = node.call(&of(15)).await;
        assert_eq!(
            (reply.status, &reply.body["errors"][0]["pointer"]),
            (422, &json!("/steps")),
            "{}",
            reply.text
        );
        node.call(&of(25)).await.is(413, "payload_too_large");
    }
}

#[tokio::test]
async fn a_run_of_a_workflow_shows_its_steps() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    node.call(&put("flow", workflow())).await;
    // A run by hand cannot hand parameters to steps, which have their own: it says so.
    let refused = node.call(&super::jobs::call("POST", "jobs/flow/run", json!({"params": {"day": 1}}))).await;
    refused.is(422, "validation_failed");
    assert_eq!(refused.body["errors"][0]["pointer"], "/params", "{}", refused.text);
    let ran = node.call(&super::jobs::call("POST", "jobs/flow/run", json!({}))).await;
    let run = ran.body["taskId"].as_str().unwrap_or_else(|| panic!("{}", ran.text)).to_owned();
    let id = run.parse().unwrap();
    let steps = (1..=3).map(|number| orloj_model::command::MadeStep {
        task: orloj_model::id::TaskId([number; 16]),
        filled: orloj_model::job::Filled::default(),
    });
    let steps = steps.collect();
    let make = orloj_model::command::GraphCommand::MakeSteps { run: id, from: 0, steps };
    universe.run(orloj_model::Command::Graph(Box::new(make)));
    let got = node.call(&Draft::get(&format!("/openapi/v1/tasks/{run}"))).await;
    assert_eq!((&got.body["status"], &got.body["shardTotal"]), (&json!("RUNNING"), &json!(3)));
    assert_eq!(got.body["progress"], json!({"percent": 0, "note": "0 of 3 steps have ended"}));
    let shown = node.call(&graph(&run)).await;
    let roles: Vec<_> = shown.body["nodes"].as_array().unwrap().iter().map(|node| &node["role"]).collect();
    assert_eq!(roles, ["run", "step", "step", "step"]);
    let step = shown.body["nodes"][1]["taskId"].as_str().unwrap();
    let got = node.call(&Draft::get(&format!("/openapi/v1/tasks/{step}"))).await;
    assert_eq!((&got.body["step"], &got.body["runId"]), (&json!("load"), &json!(run)));
    assert_eq!(node.call(&graph(step)).await.body["nodes"], shown.body["nodes"]);
    // A step is not tried again by itself (B106): its run begins anew as a whole.
    let post = |call: &str| super::jobs::call("POST", &format!("tasks/{step}/{call}"), Value::Null);
    node.call(&post("cancel")).await.is_ok();
    let refused = node.call(&post("retry")).await;
    refused.is(409, "conflict");
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(detail.contains("POST /openapi/v1/jobs/flow/run"), "{detail}");
}
