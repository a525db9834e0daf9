//! What is another caller's, and what no caller may choose.

use serde_json::{Value, json};

use super::jobs::{call, minutely, put};
use super::{Draft, Universe};

/// What is the other's beside its task.
const NAMES: [&str; 2] = ["nightly", "holidays"];
/// Every call that names something of a caller, with its body.
const CALLS: [(&str, &str, &str); 22] = [
    ("GET", "tasks/{task}", ""),
    ("GET", "tasks/{task}/attempts", ""),
    ("GET", "tasks/{task}/logs", ""),
    ("GET", "tasks/{task}/graph", ""),
    ("GET", "tasks/{task}/callbacks", ""),
    ("POST", "tasks/{task}/cancel", ""),
    ("POST", "tasks/{task}/retry", ""),
    ("POST", "tasks/{task}/callbacks/redeliver", ""),
    ("GET", "jobs/{job}", ""),
    ("PATCH", "jobs/{job}", r#"{"title":"mine"}"#),
    ("DELETE", "jobs/{job}", ""),
    ("POST", "jobs/{job}/pause", ""),
    ("POST", "jobs/{job}/resume", ""),
    ("POST", "jobs/{job}/run", ""),
    ("POST", "jobs/{job}/preview", ""),
    ("GET", "jobs/{job}/history", ""),
    ("GET", "jobs/{job}/backfill", ""),
    ("DELETE", "jobs/{job}/backfill", ""),
    (
        "POST",
        "jobs/{job}/backfill",
        r#"{"from":"2027-01-01T00:00:00Z","to":"2027-01-01T00:05:00Z","overlap":"allow"}"#,
    ),
    ("GET", "calendars/{calendar}", ""),
    ("DELETE", "calendars/{calendar}", ""),
    ("POST", "tasks", r#"{"handler":"echo","dependsOn":[{"taskId":"{task}"}]}"#),
];

#[tokio::test]
async fn b125_what_is_anothers_is_as_absent_as_what_never_was() {
    let universe = Universe::of(2).await;
    let node = &universe.nodes[1];
    let task = node.call(&Draft::submit(json!({"handler": "echo"}))).await.task_id();
    assert_eq!(put(&universe, "nightly", minutely()).await.status, 201);
    let made =
        universe.leader().call(&call("PUT", "calendars/holidays", json!({"dates": ["2027-01-01"]}))).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let of_a = || {
        let rows = universe.dump();
        let is_of_a = |line: &&str| NAMES.iter().any(|name| line.contains(name));
        rows.lines().filter(is_of_a).map(str::to_owned).collect::<Vec<_>>()
    };
    let before = of_a();
    for (method, path, body) in CALLS {
        let mut answers = Vec::new();
        for ids in [[task.as_str(), NAMES[0], NAMES[1]], ["tsk_AAECAwQFBgcICQoLDA0ODw", "absent", "nothing"]]
        {
            let fill = |text: &str| {
                let holes = ["{task}", "{job}", "{calendar}"].into_iter().zip(ids);
                holes.fold(text.to_owned(), |text, (hole, id)| text.replace(hole, id))
            };
            let mut draft = Draft::new(method, &format!("/openapi/v1/{}", fill(path))).by_b();
            draft.body = fill(body).into_bytes();
            // Its buckets are full again each time.
            universe.clock.advance_ms(1_000);
            let reply = node.call(&draft).await;
            let text = ids.iter().fold(reply.text.clone(), |text, id| text.replace(id, "ID"));
            let mut shown: Value = serde_json::from_str(&text).unwrap();
            shown["instance"] = Value::Null;
            assert!(matches!(reply.status, 404 | 422), "{method} {path}: {}", reply.text);
            answers.push((reply.status, shown));
        }
        assert_eq!(answers[0], answers[1], "{method} {path}");
    }
    assert_eq!(of_a(), before, "nothing of it was changed");
    let whole = universe.leader().call(&Draft::get(&format!("/openapi/v1/tasks/{task}"))).await;
    assert_eq!((&whole.body["status"], &whole.body["version"]), (&"PENDING".into(), &1.into()));
    // Nor is a place in another's list of any use.
    node.call(&Draft::submit(json!({"handler": "echo"}))).await.task_id();
    let page = node.call(&Draft::get("/openapi/v1/tasks").query("page_size=1")).await;
    let token = format!("page_size=1&page_token={}", page.body["nextPageToken"].as_str().unwrap());
    node.call(&Draft::get("/openapi/v1/tasks").query(&token).by_b()).await.is(400, "invalid_query");
}

#[tokio::test]
async fn b122_no_caller_chooses_an_address_that_is_called() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let inside = "http://169.254.169.254/";
    for field in ["address", "executorAddress", "url", "host"] {
        node.call(&Draft::submit(json!({"handler": "echo", field: inside}))).await.is(400, "invalid_request");
    }
    let task = node.call(&Draft::submit(json!({"handler": "echo"}))).await.task_id();
    let log = Draft::get(&format!("/openapi/v1/tasks/{task}/logs")).query("address=10.0.0.1");
    node.call(&log).await.is(400, "invalid_query");
    let member = json!({"internal": "169.254.169.254:80", "api": inside});
    node.call(&Draft::post("/openapi/v1/cluster/members", member)).await.is(403, "scope_denied");
    let register =
        Draft::post("/internal/v1/executors/register", json!({"executorId": "e1", "address": "10.0.0.1:1"}));
    node.send_internal(register.signed()).await.is(401, "invalid_signature");
    assert_eq!(universe.proposals(), 1);
}

#[tokio::test]
async fn b72_a_task_that_did_not_succeed_is_tried_again_as_a_new_one_with_every_try_ahead() {
    let universe = Universe::of(2).await;
    let node = &universe.nodes[1];
    let body = json!({
        "handler": "echo", "params": {"n": 7}, "retry": {"maxRetries": 1}, "businessKey": "2027-01-15",
        "expireAt": "2027-01-15T08:00:01.000Z", "shardTotal": 2, "onShardFailure": "cancel", "priority": 8,
    });
    let old = node.call(&Draft::submit(body)).await.task_id();
    let retry = |task: &str| Draft::post(&format!("/openapi/v1/tasks/{task}/retry"), Value::Null);
    node.call(&retry(&old)).await.is(409, "conflict");
    let cancel = Draft::post(&format!("/openapi/v1/tasks/{old}/cancel"), Value::Null);
    assert_eq!(node.call(&cancel).await.status, 200);
    universe.clock.advance_ms(2_000);
    let policies = || universe.dump().matches("\"on_failure\":\"Cancel\"").count();
    let known = policies();
    let taken = node.call(&retry(&old).key("again")).await;
    let new = taken.task_id();
    assert_ne!(new, old);
    assert_eq!(taken.header("location"), format!("/openapi/v1/tasks/{new}"));
    assert_eq!(node.call(&retry(&old).key("again")).await.task_id(), new, "one key, one task");
    let shown = node.call(&Draft::get(&format!("/openapi/v1/tasks/{new}"))).await.body;
    assert_eq!(
        (&shown["retryOf"], &shown["status"], &shown["attempt"]),
        (&json!(old), &json!("PENDING"), &json!(0))
    );
    for (field, value) in [
        ("params", json!({"n": 7})),
        ("businessKey", json!("2027-01-15")),
        ("priority", json!(8)),
        ("shardTotal", json!(2)),
    ] {
        assert_eq!(shown[field], value, "{field}");
    }
    assert_eq!(shown["expireAt"], Value::Null, "a deadline that has passed is none of the new task");
    assert_eq!(policies(), known + 1, "what becomes of its shards is as before");
    // One that has succeeded is submitted, not tried again.
    let one = node.call(&Draft::submit(json!({"handler": "echo"}))).await.task_id();
    let fence = universe.grant(&one, 1);
    universe.succeed(&one, 1, fence);
    node.call(&retry(&one)).await.is(409, "conflict");
    node.call(&retry("tsk_AAECAwQFBgcICQoLDA0ODw")).await.is(404, "task_not_found");
}

#[tokio::test]
async fn a_task_of_a_job_is_tried_again_by_itself_unless_its_text_names_the_attempt() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    for (id, params, status) in
        [("plain", json!("of ${jobId}"), 202), ("named", json!("try ${attempt}"), 409)]
    {
        let mut body = minutely();
        body["params"] = params;
        assert_eq!(put(&universe, id, body).await.status, 201);
        let run = node.call(&call("POST", &format!("jobs/{id}/run"), Value::Null)).await;
        let task = run.task_id();
        node.call(&call("POST", &format!("tasks/{task}/cancel"), Value::Null)).await.is_ok();
        let again = node.call(&call("POST", &format!("tasks/{task}/retry"), Value::Null)).await;
        assert_eq!(again.status, status, "{}", again.text);
        let open =
            node.call(&call("GET", &format!("jobs/{id}"), Value::Null)).await.body["state"]["openTasks"]
                .clone();
        assert_eq!(open, 0, "the job does not count it");
        if status == 202 {
            let shown = node.call(&call("GET", &format!("tasks/{}", again.task_id()), Value::Null)).await;
            assert_eq!((&shown.body["params"], &shown.body["retryOf"]), (&json!("of plain"), &json!(task)));
        }
    }
}
