//! What refusals say: a message read alone names what it is about.

use serde_json::{Value, json};

use super::jobs::{call, minutely, put};
use super::{Draft, Reply, Universe, access};

#[track_caller]
fn says(reply: &Reply, status: u16, code: &str, parts: &[&str]) {
    reply.is(status, code);
    let detail = reply.body["detail"].as_str().unwrap();
    for part in parts {
        assert!(detail.contains(part), "{part:?} is not in {detail:?}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_told_with_its_kind_and_its_name() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    put(&universe, "j", minutely()).await.is_ok();
    let task = "tsk_AAECAwQFBgcICQoLDA0ODw";
    let long = "x".repeat(1_000);
    for (method, path, code, parts) in [
        ("GET", format!("tasks/{task}"), "task_not_found", ["task", task]),
        ("GET", format!("tasks/{task}/graph"), "task_not_found", ["task", task]),
        ("POST", format!("tasks/{task}/cancel"), "task_not_found", ["task", task]),
        ("POST", "tasks/tsk_x/retry".to_owned(), "task_not_found", ["task", "\"tsk_x\""]),
        ("GET", "jobs/none".to_owned(), "job_not_found", ["job", "\"none\""]),
        ("POST", "jobs/none/run".to_owned(), "job_not_found", ["job", "\"none\""]),
        ("GET", "jobs/none/history".to_owned(), "job_not_found", ["job", "\"none\""]),
        ("GET", "jobs/j/backfill".to_owned(), "backfill_not_found", ["backfill of job", "\"j\""]),
        ("DELETE", "jobs/j/backfill".to_owned(), "backfill_not_found", ["backfill of job", "\"j\""]),
        ("GET", "calendars/none.de".to_owned(), "calendar_not_found", ["calendar", "\"none.de\""]),
    ] {
        says(&node.call(&call(method, &path, Value::Null)).await, 404, code, &parts);
    }
    let cut = node.call(&call("GET", &format!("jobs/{long}"), Value::Null)).await;
    says(&cut, 404, "job_not_found", &[&long[..128]]);
    assert!(!cut.text.contains(&long[..129]), "{}", cut.text);
    access_put(&universe).await;
    for (method, path, parts) in [
        ("GET", "callers/none", ["caller", "\"none\""]),
        ("POST", "callers/none/keys", ["caller", "\"none\""]),
        ("DELETE", "callers/shop/webhook-secrets/whs_none", ["webhook secret", "\"whs_none\""]),
        ("POST", "keys/ak_none/disable", ["access key", "\"ak_none\""]),
        ("POST", "executors/none/drain", ["executor", "\"none\""]),
        ("POST", "cluster/members/none/remove", ["member", "\"none\""]),
    ] {
        let reply = node.call(&call(method, path, Value::Null).by_admin()).await;
        says(&reply, 404, "not_found", &parts);
    }
}

async fn access_put(universe: &Universe) {
    universe.leader().call(&access::put(access::CALLERS, json!({}))).await.is_ok();
}

#[tokio::test]
async fn a_calendar_that_jobs_use_says_which() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    node.call(&call("PUT", "calendars/holidays", json!({"yearly": ["12-25"]}))).await.is_ok();
    let delete = || call("DELETE", "calendars/holidays", Value::Null);
    for number in 0..7 {
        let mut job = minutely();
        job["calendars"] = json!(["holidays"]);
        put(&universe, &format!("u{number}"), job).await.is_ok();
        let right = match number {
            0 => "\"holidays\": u0;",
            5 => "u0, u1, u2, u3, u4 and 1 more;",
            6 => "u0, u1, u2, u3, u4 and 2 more;",
            _ => "u0, u1",
        };
        says(&node.call(&delete()).await, 409, "calendar_in_use", &[right]);
    }
}

#[tokio::test]
async fn instants_are_told_as_the_api_writes_them() {
    let universe = Universe::of(1).await;
    let trigger = json!({"kind": "fixedRate", "everyMs": 60_000, "startAt": "2027-02-01T00:00:00Z",
                         "endAt": "2027-01-31T23:00:00Z"});
    let refused = put(&universe, "j", json!({"handler": "echo", "triggers": [trigger]})).await;
    refused.is(422, "validation_failed");
    let told = &refused.body["errors"][0];
    assert_eq!(told["pointer"], "/triggers/0/endAt");
    for part in ["2027-01-31T23:00:00.000Z", "startAt, 2027-02-01T00:00:00.000Z"] {
        assert!(told["message"].as_str().unwrap().contains(part), "{told}");
    }
}

#[tokio::test]
async fn a_task_that_nobody_can_take_says_what_it_waits_for() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let odd = json!({"handler": "nobody-has-this", "allowUnknownHandler": true});
    let odd = node.call(&Draft::submit(odd)).await.task_id();
    let shown = node.call(&Draft::get(&format!("/openapi/v1/tasks/{odd}"))).await;
    let waits = shown.body["waitingFor"].as_str().unwrap_or_default();
    assert!(waits.contains("the handler \"nobody-has-this\": none of the 1"), "{}", shown.text);
    let usual = node.call(&Draft::submit(json!({"handler": "echo"}))).await.task_id();
    let shown = node.call(&Draft::get(&format!("/openapi/v1/tasks/{usual}"))).await;
    assert!(shown.body["waitingFor"].is_null(), "{}", shown.text);
}

#[tokio::test]
async fn a_task_that_a_limit_on_running_tasks_holds_says_whose_it_is() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let waits = async |task: &str| {
        let shown = node.call(&Draft::get(&format!("/openapi/v1/tasks/{task}"))).await;
        shown.body["waitingFor"].as_str().unwrap_or_default().to_owned()
    };
    let job = json!({"handler": "echo", "overlap": "allow", "maxRunning": 1});
    assert_eq!(put(&universe, "j", job).await.status, 201);
    let run = async || node.call(&call("POST", "jobs/j/run", Value::Null)).await.task_id();
    let (first, second) = (run().await, run().await);
    assert_eq!(waits(&second).await, "", "nothing runs yet");
    let fence = universe.grant(&first, 1);
    assert_eq!(waits(&second).await, "its turn: job \"j\" has maxRunning 1, and so many of its tasks run");
    universe.succeed(&first, 1, fence);
    assert_eq!(waits(&second).await, "");
}

#[tokio::test]
async fn a_limit_of_the_configuration_is_told_too() {
    let caller = orloj_model::id::CallerId::new("a").unwrap();
    let universe = Universe::with(1, |options| options.max_running = [(caller.clone(), 1)].into()).await;
    let node = universe.leader();
    let first = node.call(&Draft::submit(json!({"handler": "echo"}))).await.task_id();
    let second = node.call(&Draft::submit(json!({"handler": "echo"}))).await.task_id();
    universe.grant(&first, 1);
    let shown = node.call(&Draft::get(&format!("/openapi/v1/tasks/{second}"))).await;
    let waits = shown.body["waitingFor"].as_str().unwrap_or_default();
    assert_eq!(waits, "its turn: its caller has maxRunning 1, and so many of its tasks run");
}
