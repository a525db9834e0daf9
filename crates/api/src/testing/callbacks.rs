//! Callbacks at the API: which addresses are taken, what is shown, and who may see it.

use orloj_model::Clock as _;
use orloj_model::callback::SendOutcome;
use orloj_model::command::{CallbackCommand, Command};
use serde_json::{Value, json};

use super::{Draft, Universe};

const URL: &str = "https://hooks.example.com/cb";

fn submit(url: &str) -> Draft {
    Draft::submit(json!({"handler": "echo", "callbackUrl": url}))
}

fn history(task: &str) -> Draft {
    Draft::get(&format!("/openapi/v1/tasks/{task}/callbacks"))
}

fn redeliver(task: &str) -> Draft {
    Draft::post(&format!("/openapi/v1/tasks/{task}/callbacks/redeliver"), Value::Null)
}

/// Sends and finishes, as the leader's loop does.
fn send(universe: &Universe, task: &str, series: u32, number: u8, outcome: SendOutcome) {
    let task = task.parse().unwrap();
    let start = CallbackCommand::Start { task, series, number, chance: 0 };
    let finish = CallbackCommand::Finish { task, series, number, outcome, chance: 0 };
    for command in [start, finish] {
        let reply = universe.run(Command::Callback(Box::new(command)));
        assert_eq!(reply, orloj_model::Reply::Done);
    }
}

#[tokio::test]
async fn b117_a_name_one_of_whose_addresses_is_inside_is_refused_as_it_is_submitted_whichever_way() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let inside = "https://inside.example.com/cb";
    let body = json!({"handler": "echo", "callbackUrl": inside});
    let short = json!({"handler": "echo", "callbackUrl": inside, "estimatedDurationMs": 1});
    let job = json!({"handler": "echo", "callbackUrl": inside, "triggers": []});
    let put = Draft { method: "PUT".into(), ..Draft::post("/openapi/v1/jobs/nightly", job.clone()) };
    for draft in [
        Draft::submit(body.clone()),
        Draft::post("/openapi/v1/tasks/sync", short),
        Draft::post("/openapi/v1/jobs/nightly/check", job),
        put,
    ] {
        let reply = node.call(&draft).await;
        reply.is(422, "callback_url_not_allowed");
        assert_eq!(reply.body["errors"][0]["pointer"], "/callbackUrl", "{}", draft.path);
        assert!(!reply.text.contains("10.0.0.5"), "nobody learns where: {}", reply.text);
    }
    let good = json!({"handler": "echo", "callbackUrl": URL});
    let batch = Draft::post("/openapi/v1/tasks/batch", json!({"tasks": [body, good]}));
    let reply = node.call(&batch).await;
    assert_eq!(reply.body["results"][0]["problem"]["code"], "callback_url_not_allowed");
    assert_eq!(reply.body["results"][1]["status"], 202, "of this name nobody knows: the send will tell");
}

#[tokio::test]
async fn a_job_is_edited_and_put_again_wherever_the_name_of_its_callback_leads_by_now() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let job = |url: &str| json!({"handler": "echo", "callbackUrl": url, "triggers": []});
    let call = |method: &str, path: &str, body: Value| Draft {
        method: method.into(),
        timestamp: (universe.clock.wall_ms() / 1000).to_string(),
        ..Draft::post(path, body)
    };
    let (nightly, later) = ("/openapi/v1/jobs/nightly", "https://later.example.com/cb");
    assert_eq!(node.call(&call("PUT", nightly, job(later))).await.status, 201);
    universe.clock.advance_ms(61_000);
    let check = call("POST", "/openapi/v1/jobs/other/check", job(later));
    node.call(&check).await.is(422, "callback_url_not_allowed");
    for (method, path, body) in [
        ("PATCH", nightly, json!({"priority": 7})),
        ("PUT", nightly, job(later)),
        ("POST", "/openapi/v1/jobs/nightly/check", job(later)),
    ] {
        let reply = node.call(&call(method, path, body)).await;
        assert_eq!(reply.status, 200, "{method} {path}: {}", reply.text);
    }
    let inside = json!({"callbackUrl": "https://inside.example.com/cb"});
    node.call(&call("PATCH", nightly, inside)).await.is(422, "callback_url_not_allowed");
}

#[tokio::test]
async fn only_listed_addresses_are_taken() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    for bad in [
        "https://evil.example.com/",
        "https://127.0.0.1/",
        "https://2130706433/",
        "http://hooks.example.com/",
        "https://hooks.example.com:8443/",
        "https://hooks.example.com@evil.org/",
        "https://hooks.example.com\\@evil.org/",
        "https://[::1]/",
        "nonsense",
        "",
    ] {
        let reply = node.call(&submit(bad)).await;
        reply.is(422, "callback_url_not_allowed");
        assert_eq!(reply.body["errors"][0]["pointer"], "/callbackUrl");
    }
    // Another caller has another list: an empty one.
    node.call(&submit(URL).by_b()).await.is(422, "callback_url_not_allowed");
    assert_eq!(universe.proposals(), 0);
    node.call(&submit(URL)).await.task_id();
    let batch = json!({"tasks": [{"handler": "echo", "callbackUrl": "https://evil.example.com/"}]});
    let reply = node.call(&Draft::post("/openapi/v1/tasks/batch", batch)).await;
    assert_eq!(reply.body["results"][0]["problem"]["code"], "callback_url_not_allowed");
}

#[tokio::test]
async fn a_callback_shows_where_it_stands_to_its_owner_alone() {
    let universe = Universe::of(2).await;
    let node = universe.leader();
    let task = node.call(&submit(URL)).await.task_id();
    let shown = node.call(&history(&task)).await;
    assert_eq!(shown.body["callback"], json!({"url": URL, "state": "waiting", "sends": 0}));
    node.call(&redeliver(&task)).await.is(409, "conflict");
    let fence = universe.grant(&task, 1);
    universe.succeed(&task, 1, fence);
    assert_eq!(node.call(&history(&task)).await.body["callback"]["state"], "pending");
    send(
        &universe,
        &task,
        1,
        1,
        SendOutcome::Failed {
            kind: orloj_model::callback::FailureKind::Status,
            status: Some(503),
            retry_after_ms: None,
        },
    );
    let shown = universe.nodes[1].call(&history(&task)).await;
    assert_eq!(shown.body["callback"]["lastErrorKind"], "status");
    assert_eq!(shown.body["sends"][0]["status"], 503);
    assert_eq!(shown.body["sends"][0]["delivered"], false);
    assert_eq!(shown.body["callback"]["nextAt"], "2027-01-15T08:00:04.000Z");
    node.call(&redeliver(&task)).await.is(409, "conflict");
    universe.clock.advance_ms(4_000);
    send(&universe, &task, 1, 2, SendOutcome::Delivered { status: 204 });
    for foreign in [history(&task), redeliver(&task)] {
        node.call(&foreign.by_b()).await.is(404, "task_not_found");
    }
    let again = node.call(&redeliver(&task)).await;
    assert_eq!((again.status, &again.body["state"]), (202, &json!("pending")));
    let got = node.call(&Draft::get(&format!("/openapi/v1/tasks/{task}"))).await;
    assert_eq!(got.body["callback"]["state"], "pending");
    assert_eq!(got.body["callback"]["sends"], 0);
    let plain = node.call(&Draft::submit(json!({"handler": "echo"}))).await.task_id();
    assert_eq!(node.call(&history(&plain)).await.body["callback"], Value::Null);
    node.call(&redeliver(&plain)).await.is(409, "conflict");
}

#[tokio::test]
async fn a_task_that_is_known_is_sent_again_when_its_callback_has_moved_on() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let task = node.call(&submit(URL)).await.task_id();
    let fence = universe.grant(&task, 1);
    universe.succeed(&task, 1, fence);
    let get = |known: &str| {
        let mut draft = Draft::get(&format!("/openapi/v1/tasks/{task}"));
        draft.headers = vec![("if-none-match", known.to_owned())];
        draft
    };
    let ended = node.call(&get("\"3\"")).await;
    assert_eq!((ended.status, &ended.body["callback"]["state"]), (200, &"pending".into()), "{}", ended.text);
    let etag = ended.header("etag").to_owned();
    assert_eq!(node.call(&get(&etag)).await.status, 304);
    send(&universe, &task, 1, 1, SendOutcome::Delivered { status: 204 });
    let delivered = node.call(&get(&etag)).await;
    assert_eq!((delivered.status, &delivered.body["version"]), (200, &ended.body["version"]));
    assert_eq!(delivered.body["callback"]["state"], "delivered");
    assert_ne!(delivered.header("etag"), etag);
}
