//! Callers, keys, scopes, sealed secrets and the audit, over several replicas.

use std::time::Duration;

use orloj_model::Command;
use orloj_model::access::Actor;
use orloj_model::command::AccessCommand;
use orloj_model::id::CallerId;
use serde_json::{Value, json};

use super::{Draft, Node, Universe};

pub(super) const CALLERS: &str = "/openapi/v1/callers/shop";

pub(super) fn put(path: &str, body: Value) -> Draft {
    Draft { method: "PUT".into(), ..Draft::post(path, body) }.by_admin()
}

fn post(path: &str) -> Draft {
    Draft::post(path, Value::Null).by_admin()
}

fn delete(path: &str) -> Draft {
    Draft::new("DELETE", path).by_admin()
}

fn get(path: &str) -> Draft {
    Draft::get(path).by_admin()
}

/// Makes a key of the caller `shop`.
pub(super) async fn make_key(node: &Node) -> (String, String) {
    let made = node.call(&post(&format!("{CALLERS}/keys"))).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let text = |field: &str| made.body[field].as_str().unwrap().to_owned();
    (text("accessKey"), text("secretKey"))
}

fn submit(key: &(String, String)) -> Draft {
    Draft::submit(json!({"handler": "echo"})).by(&key.0, &key.1)
}

#[tokio::test]
async fn a_callers_key_works_on_every_replica_from_the_moment_it_is_made_until_it_is_off() {
    let universe = Universe::of(3).await;
    let (leader, follower) = (universe.leader(), &universe.nodes[1]);
    let made =
        follower.call(&put(CALLERS, json!({"limits": {"submitsPerS": 100, "submitsBurst": 100}}))).await;
    assert_eq!((made.status, &made.body["version"]), (201, &json!(1)), "{}", made.text);
    let key = make_key(follower).await;
    for node in &universe.nodes {
        node.call(&submit(&key)).await.task_id();
    }
    // Its tasks are its own.
    let task = leader.call(&submit(&key)).await.task_id();
    leader.call(&Draft::get(&format!("/openapi/v1/tasks/{task}"))).await.is(404, "task_not_found");
    // The old and the new key, while they are exchanged.
    let second = make_key(leader).await;
    leader.call(&post(&format!("{CALLERS}/keys"))).await.is(409, "conflict");
    leader.call(&submit(&second)).await.task_id();
    let off = leader.call(&post(&format!("/openapi/v1/keys/{}/disable", key.0))).await;
    assert_eq!((off.status, &off.body["state"]), (200, &json!("disabled")));
    for node in &universe.nodes {
        node.call(&submit(&key)).await.is(403, "access_key_disabled");
    }
    leader.call(&delete(&format!("/openapi/v1/keys/{}", key.0))).await.is_ok();
    for node in &universe.nodes {
        node.call(&submit(&key)).await.is(401, "invalid_signature");
        node.call(&submit(&second)).await.task_id();
    }
    universe.elect(Some(2));
    leader.call(&submit(&second)).await.task_id();
    leader.call(&put(CALLERS, json!({"enabled": false}))).await.is_ok();
    leader.call(&submit(&second)).await.is(403, "access_key_disabled");
    leader.call(&delete(CALLERS)).await.is_ok();
    leader.call(&submit(&second)).await.is(401, "invalid_signature");
    leader.call(&get(CALLERS)).await.is(404, "not_found");
}

#[tokio::test]
async fn a_caller_shows_how_many_of_its_tasks_may_run() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let shown = async || node.call(&get(CALLERS)).await.body["maxRunning"].clone();
    node.call(&put(CALLERS, json!({"maxRunning": 7}))).await.is_ok();
    assert_eq!(shown().await, 7);
    node.call(&put(CALLERS, json!({"maxRunning": null}))).await.is_ok();
    assert_eq!(shown().await, Value::Null, "a PUT stands for the whole");
    for bad in [json!(0), json!(100_001), json!(-1), json!("7")] {
        let refused = node.call(&put(CALLERS, json!({ "maxRunning": bad }))).await;
        refused.is(400, "invalid_request");
        assert_eq!(refused.body["errors"][0]["pointer"], "/maxRunning", "{}", refused.text);
    }
}

#[tokio::test]
async fn b130_a_secret_is_shown_once_and_never_again() {
    let universe = Universe::of(2).await;
    let node = universe.leader();
    node.call(&put(CALLERS, json!({}))).await.is_ok();
    let (name, secret) = make_key(node).await;
    let webhook = node.call(&post(&format!("{CALLERS}/webhook-secrets"))).await;
    let hook = webhook.body["secret"].as_str().unwrap().to_owned();
    assert!(hook.starts_with("whsec_"));
    for path in [CALLERS, "/openapi/v1/callers", "/openapi/v1/audit", "/openapi/v1/admin-keys"] {
        let shown = node.call(&get(path)).await;
        shown.is_ok();
        assert!(!shown.text.contains(&secret) && !shown.text.contains(&hook), "{path}: {}", shown.text);
    }
    assert!(node.call(&get(CALLERS)).await.text.contains(&name));
    // Nor does it stand in the tables: what is there is sealed.
    let rows = universe.dump();
    assert!(rows.contains(&name) && !rows.contains(&secret) && !rows.contains(&hook));
}

#[tokio::test]
async fn a_key_does_what_its_scopes_and_handlers_say_and_nothing_else() {
    let universe = Universe::of(2).await;
    let node = universe.leader();
    let settings = json!({"scopes": ["submit"], "handlers": ["echo", "report-*"]});
    node.call(&put(CALLERS, settings)).await.is_ok();
    let key = make_key(node).await;
    for node in &universe.nodes {
        let task = node.call(&submit(&key)).await.task_id();
        let by = |draft: Draft| draft.by(&key.0, &key.1);
        node.call(&by(Draft::get(&format!("/openapi/v1/tasks/{task}")))).await.is(403, "scope_denied");
        node.call(&by(Draft::get("/openapi/v1/tasks"))).await.is(403, "scope_denied");
        let cancel = Draft::post(&format!("/openapi/v1/tasks/{task}/cancel"), Value::Null);
        node.call(&by(cancel)).await.is(403, "scope_denied");
        universe.clock.advance_ms(2_000);
    }
    let other = Draft::submit(json!({"handler": "sleep"})).by(&key.0, &key.1);
    let at = Draft { timestamp: (super::T + 4).to_string(), ..other };
    node.call(&at).await.is(403, "executor_denied");
}

#[tokio::test]
async fn a_job_runs_no_handler_and_calls_no_host_that_a_submission_may_not() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    node.call(&put(CALLERS, json!({"handlers": ["echo"]}))).await.is_ok();
    let key = make_key(node).await;
    let job = |body: Value| Draft::post("/openapi/v1/jobs", body).by(&key.0, &key.1);
    let daily = json!([{"kind": "cron", "expression": "0 2 * * *"}]);
    let steps = json!([{"name": "a", "handler": "echo"}, {"name": "b", "handler": "sleep"}]);
    for (body, status, code) in [
        (json!({"jobId": "a", "handler": "sleep", "triggers": daily}), 403, "executor_denied"),
        (
            json!({"jobId": "b", "handler": "orloj.run", "steps": steps, "triggers": daily}),
            403,
            "executor_denied",
        ),
        (
            json!({"jobId": "c", "handler": "echo", "triggers": daily, "callbackUrl": "https://a.example/"}),
            422,
            "callback_url_not_allowed",
        ),
    ] {
        node.call(&job(body)).await.is(status, code);
    }
    let fine = node.call(&job(json!({"jobId": "d", "handler": "echo", "triggers": daily}))).await;
    assert_eq!(fine.status, 201, "{}", fine.text);
}

#[tokio::test]
async fn a_job_is_made_to_run_only_while_its_caller_may_use_its_handler() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    node.call(&put(CALLERS, json!({"handlers": ["echo"]}))).await.is_ok();
    let key = make_key(node).await;
    let by = |draft: Draft| draft.by(&key.0, &key.1);
    let daily = json!([{"kind": "cron", "expression": "0 2 * * *"}]);
    let steps = json!([{"name": "a", "handler": "echo"}]);
    for (job, body) in [
        ("plain", json!({"handler": "echo", "triggers": daily})),
        ("flow", json!({"handler": "any", "triggers": daily, "steps": steps})),
    ] {
        let path = format!("/openapi/v1/jobs/{job}");
        let made = node.call(&by(Draft { method: "PUT".into(), ..Draft::post(&path, body) })).await;
        assert_eq!(made.status, 201, "{}", made.text);
    }
    node.call(&put(CALLERS, json!({"handlers": ["sleep"]}))).await.is_ok();
    for job in ["plain", "flow"] {
        let past = json!({"from": "2027-01-10T00:00:00Z", "to": "2027-01-12T00:00:00Z"});
        for (call, body) in [("run", Value::Null), ("resume", Value::Null), ("backfill", past)] {
            universe.clock.advance_ms(2_000);
            let draft = by(Draft::post(&format!("/openapi/v1/jobs/{job}/{call}"), body));
            node.call(&draft).await.is(403, "executor_denied");
        }
    }
    let refused = node.call(&delete(CALLERS)).await;
    refused.is(409, "conflict");
    assert!(refused.text.contains("has jobs"), "{}", refused.text);
    for job in ["plain", "flow"] {
        node.call(&by(Draft::new("DELETE", &format!("/openapi/v1/jobs/{job}")))).await.is_ok();
    }
    node.call(&delete(CALLERS)).await.is_ok();
}

#[tokio::test]
async fn a_job_is_not_made_for_a_caller_that_is_deleted_while_it_is_put() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let daily = json!([{"kind": "cron", "expression": "0 2 * * *"}]);
    for body in [
        json!({"handler": "echo", "triggers": daily}),
        json!({"handler": "any", "triggers": daily, "steps": [{"name": "a", "handler": "echo"}]}),
    ] {
        node.call(&put(CALLERS, json!({"handlers": ["echo"]}))).await.is_ok();
        let key = make_key(node).await;
        let by = Actor { access_key: "adk_A".into(), request_id: String::new(), claim: None };
        let caller = CallerId::new("shop").unwrap();
        universe.meanwhile(Command::Access(Box::new(AccessCommand::DeleteCaller { caller, by })));
        let draft = Draft { method: "PUT".into(), ..Draft::post("/openapi/v1/jobs/overtaken", body) };
        node.call(&draft.by(&key.0, &key.1)).await.is(401, "invalid_signature");
        assert!(!universe.dump().contains("overtaken"), "{}", universe.dump());
    }
}

#[tokio::test]
async fn administrators_have_scopes_too() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let made =
        node.call(&Draft::post("/openapi/v1/admin-keys", json!({"scopes": ["audit"]})).by_admin()).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let text = |field: &str| made.body[field].as_str().unwrap().to_owned();
    let (name, secret) = (text("accessKey"), text("secretKey"));
    let auditor = |draft: Draft| draft.by(&name, &secret);
    node.call(&auditor(get("/openapi/v1/audit"))).await.is_ok();
    node.call(&auditor(get("/openapi/v1/callers"))).await.is(403, "scope_denied");
    node.call(&auditor(post("/openapi/v1/admin-keys"))).await.is(403, "scope_denied");
    let drain = Draft::post("/openapi/v1/executors/e1/drain", json!({"on": true})).by_admin();
    node.call(&auditor(drain)).await.is(403, "scope_denied");
    // A caller is no administrator, whatever it may do.
    for path in ["/openapi/v1/audit", "/openapi/v1/callers", "/openapi/v1/admin-keys"] {
        node.call(&Draft::get(path)).await.is(403, "scope_denied");
    }
    let keys = node.call(&get("/openapi/v1/admin-keys")).await;
    assert_eq!(keys.body["keys"][0]["scopes"], json!(["audit"]));
    // No key gives what it has not, or touches one that may do more.
    let made =
        node.call(&Draft::post("/openapi/v1/admin-keys", json!({"scopes": ["callers"]})).by_admin()).await;
    let text = |field: &str| made.body[field].as_str().unwrap().to_owned();
    let (weak, secret) = (text("accessKey"), text("secretKey"));
    let clerk = |draft: Draft| draft.by(&weak, &secret);
    node.call(&clerk(post("/openapi/v1/admin-keys"))).await.is(403, "scope_denied");
    for change in ["disable", "enable"] {
        node.call(&clerk(post(&format!("/openapi/v1/keys/{name}/{change}")))).await.is(403, "scope_denied");
    }
    let give = Draft::post("/openapi/v1/admin-keys", json!({"scopes": ["callers"]})).by_admin();
    let own = node.call(&clerk(give)).await;
    assert_eq!(own.status, 201, "{}", own.text);
}

#[tokio::test]
async fn settings_that_are_not_acceptable_are_named() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    for (body, pointer) in [
        (json!({"scopes": ["admin"]}), "/scopes/0"),
        (json!({"scopes": ["audit"]}), "/scopes/0"),
        (json!({"handlers": ["a b"]}), "/handlers/0"),
        (json!({"handlers": ["a*b"]}), "/handlers/0"),
        (json!({"callbackHosts": [{"host": "*"}]}), "/callbackHosts/0"),
        (json!({"callbackHosts": [{"host": "127.0.0.1"}]}), "/callbackHosts/0"),
        (json!({"limits": {"submitsPerS": 0}}), "/limits/submitsPerS"),
        (json!({"limits": {"requestsBurst": 0}}), "/limits/requestsBurst"),
    ] {
        let reply = node.call(&put(CALLERS, body)).await;
        reply.is(422, "validation_failed");
        assert_eq!(reply.body["errors"][0]["pointer"], pointer);
    }
    node.call(&put("/openapi/v1/callers/a", json!({}))).await.is(409, "conflict");
    assert_eq!(universe.proposals(), 0);
    node.call(&put(CALLERS, json!({"expectedVersion": 1}))).await.is(409, "version_conflict");
    node.call(&put(CALLERS, json!({"expectedVersion": 0}))).await.is_ok();
    node.call(&put(CALLERS, json!({"expectedVersion": 0}))).await.is(409, "version_conflict");
}

#[tokio::test]
async fn limits_of_a_caller_hold_for_each_of_its_keys() {
    let universe = Universe::of(2).await;
    let node = universe.leader();
    node.call(&put(CALLERS, json!({"limits": {"submitsPerS": 1, "submitsBurst": 1}}))).await.is_ok();
    let (one, two) = (make_key(node).await, make_key(node).await);
    for key in [&one, &two] {
        node.call(&submit(key)).await.task_id();
        universe.nodes[1].call(&submit(key)).await.is(429, "rate_limited");
    }
}

#[tokio::test]
async fn every_change_is_recorded_with_who_made_it() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    node.call(&put(CALLERS, json!({}))).await.is_ok();
    let (key, _) = make_key(node).await;
    node.call(&Draft::post("/openapi/v1/executors/e1/drain", json!({"on": true})).by_admin()).await.is_ok();
    let audit = node.call(&get("/openapi/v1/audit").query("page_size=2")).await;
    let shown: Vec<_> = audit.body["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| (record["action"].as_str().unwrap(), record["target"].as_str().unwrap()))
        .collect();
    assert_eq!(shown, [("drain_executor", "executors/e1/drain"), ("create_key", key.as_str())]);
    assert_eq!(audit.body["records"][0]["actor"], "adk_A");
    let before = audit.body["nextBefore"].as_u64().unwrap();
    let rest = node.call(&get("/openapi/v1/audit").query(&format!("before={before}"))).await;
    assert_eq!(rest.body["records"][0]["action"], "create_caller");
    assert_eq!(rest.body["records"].as_array().unwrap().len(), 1);
    node.call(&get("/openapi/v1/audit").query("kind=x")).await.is(400, "invalid_query");
}

#[tokio::test]
async fn refused_calls_of_every_replica_are_recorded_and_counted() {
    let universe = Universe::of(2).await;
    let mut forged = Draft::submit(json!({"handler": "echo"}));
    forged.secret = super::SECRET_B.into();
    for node in &universe.nodes {
        for _ in 0..3 {
            let again = Draft { nonce: orloj_wire::sign::new_nonce(), ..forged.clone() };
            node.call(&again).await.is(401, "invalid_signature");
        }
    }
    let recorded = async {
        loop {
            let audit = universe.leader().call(&get("/openapi/v1/audit").query("kind=unsigned")).await;
            let records = audit.body["records"].as_array().unwrap().clone();
            let count: u64 = records.iter().map(|record| record["count"].as_u64().unwrap()).sum();
            if count == 6 {
                return records;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let records = tokio::time::timeout(Duration::from_secs(60), recorded).await.unwrap();
    for record in &records {
        assert_eq!(record["actor"], "ak_A");
        assert_eq!((&record["action"], &record["detail"]), (&json!("submit"), &json!("invalid_signature")));
    }
    assert!(records.len() <= 4, "{records:?}");
}

#[tokio::test]
async fn callers_come_page_by_page_each_with_its_own_keys() {
    let universe = Universe::of(2).await;
    let node = &universe.nodes[1];
    for name in ["e", "c", "a1", "d", "b1"] {
        node.call(&put(&format!("/openapi/v1/callers/{name}"), json!({"description": name}))).await.is_ok();
        node.call(&post(&format!("/openapi/v1/callers/{name}/keys"))).await.is_ok();
    }
    let list = |query: &str| get("/openapi/v1/callers").query(query);
    let (mut names, mut token, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = node.call(&list(&format!("page_size=2{token}"))).await;
        page.is_ok();
        for caller in page.body["callers"].as_array().unwrap() {
            assert_eq!(caller["callerId"], caller["description"]);
            assert_eq!(caller["keys"].as_array().unwrap().len(), 1, "{caller}");
            names.push(caller["callerId"].as_str().unwrap().to_owned());
        }
        pages += 1;
        let Some(next) = page.body["nextPageToken"].as_str() else { break };
        token = format!("&page_token={next}");
    }
    assert_eq!((names.join(" "), pages), ("a1 b1 c d e".to_owned(), 3));
    let whole = node.call(&list("")).await;
    assert_eq!(
        (whole.body["callers"].as_array().unwrap().len(), &whole.body["nextPageToken"]),
        (5, &Value::Null)
    );
    // A token of another list is none of this one.
    for id in ["x", "y"] {
        let job =
            json!({"jobId": id, "handler": "echo", "triggers": [{"kind": "cron", "expression": "@daily"}]});
        assert_eq!(node.call(&Draft::post("/openapi/v1/jobs", job)).await.status, 201);
    }
    let jobs = node.call(&Draft::get("/openapi/v1/jobs").query("page_size=1")).await;
    let foreign = format!("page_token={}", jobs.body["nextPageToken"].as_str().unwrap());
    for bad in [foreign.as_str(), "page_token=abc", "page_size=0", "page_size=101", "unknown=1"] {
        node.call(&list(bad)).await.is(400, "invalid_query");
    }
}
