//! What a job makes: runs by hand, fires and backfills, and their history.

use orloj_model::command::{Fire, JobCommand};
use orloj_model::id::{CallerId, JobId};
use orloj_model::job::{Filled, JobKey};
use orloj_model::{Command, Reply as ModelReply};
use serde_json::{Value, json};

use super::jobs::{call, get, minutely, put};
use super::{Draft, Reply, Universe};

/// Lets a job fire as the leader's loop would; the task.
fn fire(universe: &Universe, id: &str, task: u8) -> ModelReply {
    let key = JobKey { caller: CallerId::new("a").unwrap(), job: JobId::new(id).unwrap() };
    let view = universe.job(&key).unwrap();
    let next = view.state.next.unwrap();
    let after = orloj_model::trigger::Next {
        scheduled_at: next.scheduled_at + 60_000,
        due_at: next.due_at + 60_000,
        ..next.clone()
    };
    let fire = Fire {
        job: key,
        revision: view.state.revision,
        scheduled_at: next.scheduled_at,
        task: orloj_model::id::TaskId([task; 16]),
        filled: Filled::default(),
        next: Some(after),
    };
    universe.run(Command::Job(Box::new(JobCommand::Fire(fire))))
}

#[tokio::test]
async fn b05_many_triggers_of_a_job_that_forbids_overlap_at_one_instant_make_one_task() {
    let universe = Universe::of(3).await;
    put(&universe, "j", minutely()).await;
    universe.clock.advance_ms(60_000);
    let runs = (0..5).map(|number| {
        let node = &universe.nodes[number % 3];
        let run = call("POST", "jobs/j/run", Value::Null);
        async move { node.call(&run).await }
    });
    let answers = futures_util::future::join_all(runs).await;
    let by_trigger = fire(&universe, "j", 9);
    let made = answers.iter().filter(|answer| answer.status == 202).count();
    let refused = answers.iter().filter(|answer| answer.status == 409).count();
    assert_eq!((made, refused), (1, 4), "each call says what it came to");
    for answer in answers.iter().filter(|answer| answer.status == 409) {
        answer.is(409, "overlap_skipped");
    }
    let reason = orloj_model::trigger::SkipReason::Overlap;
    assert_eq!(by_trigger, ModelReply::FireSkipped { reason });
    let key = JobKey { caller: CallerId::new("a").unwrap(), job: JobId::new("j").unwrap() };
    let state = universe.job(&key).unwrap().state;
    assert_eq!((state.open, state.counts.fired, state.counts.skipped[&reason]), (1, 1, 5));
}

#[tokio::test]
async fn a_run_makes_a_task_as_the_overlap_policy_allows() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let body = json!({"handler": "echo", "params": {"day": "${date:%Y-%m-%d %H:%M}", "job": "${jobId}", "try": "${attempt}"},
        "businessKey": "${jobId}/${scheduledAt}",
        "triggers": [{"kind": "cron", "expression": "0 0 * * *", "timeZone": "Asia/Kolkata"}]});
    put(&universe, "j", body).await;
    let run = |body: Value| call("POST", "jobs/j/run", body);
    let first = node.call(&run(Value::Null).key("k")).await;
    let task = first.task_id();
    assert_eq!(first.body["queued"], false);
    assert_eq!(first.header("location"), format!("/openapi/v1/tasks/{task}"));
    let shown = node.call(&Draft::get(&format!("/openapi/v1/tasks/{task}"))).await;
    assert_eq!(shown.body["params"]["day"], "2027-01-15 13:30");
    assert_eq!(
        (&shown.body["params"]["job"], &shown.body["params"]["try"]),
        (&"j".into(), &"${attempt}".into())
    );
    assert_eq!(shown.body["businessKey"], "j/2027-01-15T08:00:00.000Z");
    let repeated = node.call(&run(Value::Null).key("k")).await;
    assert_eq!((repeated.task_id(), repeated.header("idempotency-replayed")), (task.clone(), "true"));
    let skipped = node.call(&run(Value::Null)).await;
    skipped.is(409, "overlap_skipped");
    let beside = node.call(&run(json!({"overlap": "allow", "params": {"n": "${taskId}"}}))).await;
    let other = node.call(&Draft::get(&format!("/openapi/v1/tasks/{}", beside.task_id()))).await;
    assert_eq!(other.body["params"], json!({"n": beside.task_id()}));
    let queued = node.call(&run(json!({"overlap": "queue"}))).await;
    assert_eq!(queued.body["queued"], true);
    node.call(&run(json!({"params": "${x}"}))).await.is(422, "validation_failed");
    node.call(&call("POST", "jobs/none/run", Value::Null)).await.is(404, "job_not_found");
    let state = get(&universe, "j").await.body["state"].clone();
    assert_eq!((&state["openTasks"], &state["queuedTask"]), (&3.into(), &queued.body["taskId"]));
    assert_eq!(state["counts"], json!({"fired": 3, "missed": 0, "skipped": {"overlap": 1}}));
}

#[tokio::test]
async fn history_is_paged_newest_first_and_counts_everything() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let body = json!({"handler": "echo", "overlap": "allow", "triggers": minutely()["triggers"]});
    put(&universe, "j", body).await;
    for task in 1..=5 {
        universe.clock.advance_ms(60_000);
        assert!(matches!(fire(&universe, "j", task), ModelReply::Fired { .. }));
    }
    let page = |query: &str| call("GET", "jobs/j/history", Value::Null).query(query);
    let first = node.call(&page("page_size=2")).await;
    assert_eq!(first.body["counts"]["fired"], 5);
    let numbers = |reply: &Reply| -> Vec<u64> {
        reply.body["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["number"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(numbers(&first), [5, 4]);
    assert_eq!(first.body["entries"][0]["scheduledAt"], "2027-01-15T08:05:00.000Z");
    assert_eq!(first.body["entries"][0]["cause"], "trigger");
    let token = first.body["nextPageToken"].as_str().unwrap();
    let rest = node.call(&page(&format!("page_size=9&page_token={token}"))).await;
    assert_eq!((numbers(&rest), &rest.body["nextPageToken"]), (vec![3, 2, 1], &Value::Null));
    put(&universe, "k", minutely()).await;
    let foreign = call("GET", "jobs/k/history", Value::Null).query(&format!("page_token={token}"));
    node.call(&foreign).await.is(400, "invalid_query");
    node.call(&call("GET", "jobs/none/history", Value::Null)).await.is(404, "job_not_found");
}

#[tokio::test]
async fn b66_a_job_created_anew_has_nothing_of_the_old_one() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let body = json!({"handler": "echo", "triggers": [{"kind": "cron", "expression": "@every 3m"}]});
    put(&universe, "j", body.clone()).await;
    universe.clock.advance_ms(180_000);
    let old = node.call(&call("POST", "jobs/j/run", Value::Null).key("k")).await.task_id();
    assert_eq!(node.call(&call("DELETE", "jobs/j", Value::Null)).await.body["jobId"], "j");
    node.call(&call("DELETE", "jobs/j", Value::Null)).await.is(404, "job_not_found");
    universe.clock.advance_ms(1_000);
    let created = put(&universe, "j", body).await;
    assert_eq!((created.status, &created.body["version"]), (201, &2.into()), "above the old one's");
    assert_eq!(created.body["state"]["counts"]["fired"], 0);
    assert_eq!(created.body["state"]["nextFire"]["scheduledAt"], "2027-01-15T08:06:01.000Z");
    let status = node.call(&Draft::get(&format!("/openapi/v1/tasks/{old}"))).await;
    assert_eq!(status.body["status"], "PENDING", "its tasks are left alone");
    // The key of a run of the old job stands for nothing of the new one, and then for its run.
    let run = |body: Value| call("POST", "jobs/j/run", body).key("k");
    let first = node.call(&run(Value::Null)).await;
    assert_eq!((first.status, first.header("idempotency-replayed")), (202, ""), "{}", first.text);
    let new = first.task_id();
    assert_ne!(new, old);
    let again = node.call(&run(Value::Null)).await;
    assert_eq!((again.header("idempotency-replayed"), again.task_id()), ("true", new));
    node.call(&run(json!({"overlap": "allow"}))).await.is(422, "idempotency_key_reused");
    // A key of another call stays that call's.
    node.call(&Draft::submit(json!({"handler": "echo"})).key("s")).await.task_id();
    universe.clock.advance_ms(1_000);
    node.call(&call("DELETE", "jobs/j", Value::Null)).await;
    put(&universe, "j", json!({"handler": "echo"})).await;
    node.call(&call("POST", "jobs/j/run", Value::Null).key("s")).await.is(422, "idempotency_key_reused");
}

#[tokio::test]
async fn a_backfill_is_started_seen_and_stopped() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    put(
        &universe,
        "j",
        json!({"handler": "echo", "triggers": [{"kind": "cron", "expression": "0 * * * *"}]}),
    )
    .await;
    let backfill = |method: &str, body: Value| call(method, "jobs/j/backfill", body);
    node.call(&backfill("GET", Value::Null)).await.is(404, "backfill_not_found");
    node.call(&backfill("DELETE", Value::Null)).await.is(404, "backfill_not_found");
    for (body, pointer) in [
        (json!({"from": "2027-01-15T00:00:00Z", "to": "2027-01-15T08:00:01Z"}), "/to"),
        (json!({"from": "2027-01-15T00:00:01Z", "to": "2027-01-15T00:00:00Z"}), "/to"),
        (json!({"from": "2027-01-15T00:00:01Z", "to": "2027-01-15T00:59:59Z"}), "/from"),
        (json!({"from": "2020-01-01T00:00:00Z", "to": "2027-01-01T00:00:00Z"}), "/to"),
    ] {
        let reply = node.call(&backfill("POST", body)).await;
        reply.is(422, "validation_failed");
        assert_eq!(reply.body["errors"][0]["pointer"], pointer);
    }
    let body = json!({"from": "2027-01-15T00:00:00Z", "to": "2027-01-15T06:00:00Z"});
    let started = node.call(&backfill("POST", body.clone())).await;
    assert_eq!((started.status, &started.body["overlap"]), (202, &"queue".into()), "{}", started.text);
    node.call(&backfill("POST", body)).await.is(409, "backfill_running");
    let seen = node.call(&backfill("GET", Value::Null)).await;
    assert_eq!((&seen.body["running"], &seen.body["through"]), (&true.into(), &Value::Null));
    assert_eq!(get(&universe, "j").await.body["state"]["backfilling"], true);
    let stopped = node.call(&backfill("DELETE", Value::Null)).await;
    assert_eq!((stopped.status, &stopped.body["running"]), (200, &false.into()));
    let history = node.call(&call("GET", "jobs/j/history", Value::Null)).await;
    assert_eq!(history.body["entries"][0]["kind"], "backfilled");
}
