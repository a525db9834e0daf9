//! Keys that were disabled, and replicas that do not know it yet.

use std::collections::BTreeMap;

use orloj_model::Command;
use orloj_model::access::Actor;
use orloj_model::command::AccessCommand;
use orloj_wire::sign::Label;
use serde_json::{Value, json};

use super::access::{CALLERS, make_key, put};
use super::{Draft, Node, Universe};
use crate::auth::Credentials;
use crate::request::Request;
use crate::route::Access;

/// Three nodes and a caller `shop` with a key.
async fn with_key() -> (Universe, (String, String)) {
    let universe = Universe::of(3).await;
    let limits = json!({"submitsPerS": 100, "submitsBurst": 100, "requestsPerS": 100, "requestsBurst": 100});
    universe.leader().call(&put(CALLERS, json!({ "limits": limits }))).await.is_ok();
    let key = make_key(universe.leader()).await;
    (universe, key)
}

fn by() -> Actor {
    Actor { access_key: "adk_A".into(), request_id: "r".into(), claim: None }
}

fn set(key: &str, enabled: bool) -> Command {
    Command::Access(Box::new(AccessCommand::SetKey { key: key.into(), enabled, by: by() }))
}

/// Switches a key off by what the others commit, whatever this or that node can reach.
fn disable(universe: &Universe, key: &str) {
    universe.run(set(key, false));
}

/// One call of each kind: a change, a read of the tables, and what any replica can answer by itself.
fn calls(key: &(String, String)) -> [Draft; 3] {
    [
        Draft::submit(json!({"handler": "echo"})),
        Draft::get("/openapi/v1/tasks"),
        Draft::get("/openapi/v1/cluster"),
    ]
    .map(|draft| draft.by(&key.0, &key.1))
}

async fn all_are(node: &Node, key: &(String, String), status: u16, code: &str) {
    for draft in calls(key) {
        node.call(&draft).await.is(status, code);
    }
}

#[tokio::test]
async fn a_new_leader_judges_no_key_by_tables_that_lag_behind_its_disabling() {
    let (universe, key) = with_key().await;
    universe.fall_behind(&universe.nodes[1]);
    disable(&universe, &key.0);
    universe.elect(Some(2));
    for place in [2, 1, 0] {
        all_are(&universe.nodes[place], &key, 403, "access_key_disabled").await;
    }
    // The same for who comes in at the new leader first.
    let (universe, key) = with_key().await;
    universe.fall_behind(&universe.nodes[1]);
    disable(&universe, &key.0);
    universe.elect(Some(2));
    all_are(&universe.nodes[1], &key, 403, "access_key_disabled").await;
}

#[tokio::test]
async fn who_comes_to_lead_during_a_request_judges_its_key_anew() {
    let (universe, key) = with_key().await;
    universe.fall_behind(&universe.nodes[1]);
    disable(&universe, &key.0);
    universe.elect(None);
    let waiting = calls(&key).map(|draft| {
        let node = universe.nodes[1].clone();
        tokio::spawn(async move { node.call(&draft).await })
    });
    // They have been checked by the old tables, and wait for a leader.
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
    universe.elect(Some(2));
    for call in waiting {
        call.await.unwrap().is(403, "access_key_disabled");
    }
}

#[tokio::test]
async fn what_no_tables_are_read_for_is_judged_after_the_leadership_was_proved() {
    // Here, and through a follower.
    for place in [0, 2] {
        let (universe, key) = with_key().await;
        let cluster = || Draft::get("/openapi/v1/cluster").by(&key.0, &key.1);
        universe.leader().call(&cluster()).await.is_ok();
        // As after a time without a majority, of which the term tells nothing.
        universe.fall_behind(&universe.nodes[0]);
        universe.fall_behind(&universe.nodes[2]);
        disable(&universe, &key.0);
        universe.nodes[place].call(&cluster()).await.is(403, "access_key_disabled");
    }
}

#[tokio::test]
async fn a_new_leader_refuses_no_key_that_was_made_before_its_term() {
    let universe = Universe::of(2).await;
    universe.fall_behind(&universe.nodes[1]);
    universe.leader().call(&put(CALLERS, json!({}))).await.is_ok();
    let key = make_key(universe.leader()).await;
    universe.elect(Some(2));
    for draft in calls(&key) {
        universe.nodes[1].call(&draft).await.is_ok();
    }
}

#[tokio::test]
async fn a_replica_that_is_cut_off_answers_the_keys_of_its_file_alone() {
    let (universe, key) = with_key().await;
    universe.cut_off(&universe.nodes[1]);
    disable(&universe, &key.0);
    universe.elect(None);
    let node = &universe.nodes[1];
    all_are(node, &key, 503, "no_leader").await;
    let shown = node.call(&Draft::get("/openapi/v1/cluster")).await;
    assert_eq!((shown.status, &shown.body["leader"]), (200, &Value::Null), "{}", shown.text);
    node.call(&Draft::get("/openapi/v1/cluster").by_admin()).await.is_ok();
}

#[tokio::test]
async fn a_leader_that_is_cut_off_answers_the_keys_of_its_file_alone() {
    let (universe, key) = with_key().await;
    let node = universe.leader();
    for draft in calls(&key) {
        node.call(&draft).await.is_ok();
    }
    universe.cut_off(node);
    disable(&universe, &key.0);
    all_are(node, &key, 503, "no_leader").await;
    node.call(&Draft::get("/openapi/v1/cluster")).await.is_ok();
    // Nor does one that was elected and cut off before it could catch up.
    let (universe, key) = with_key().await;
    universe.cut_off(&universe.nodes[1]);
    disable(&universe, &key.0);
    universe.elect(Some(2));
    all_are(&universe.nodes[1], &key, 503, "no_leader").await;
    universe.nodes[1].call(&Draft::get("/openapi/v1/cluster")).await.is_ok();
    universe.nodes[1].call(&Draft::get("/openapi/v1/nothing")).await.is(404, "not_found");
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_of_a_deleted_key_is_freed_within_a_minute() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    node.call(&put(CALLERS, json!({}))).await.is_ok();
    let key = make_key(node).await;
    node.call(&Draft::get("/openapi/v1/tasks").by(&key.0, &key.1)).await.is_ok();
    let remembered = || node.api.shared().gate.keys();
    assert!(remembered().contains(&key.0));
    tokio::time::sleep(std::time::Duration::from_secs(61)).await;
    assert!(remembered().contains(&key.0), "it is there");
    node.call(&Draft::new("DELETE", &format!("/openapi/v1/keys/{}", key.0)).by_admin()).await.is_ok();
    tokio::time::sleep(std::time::Duration::from_secs(61)).await;
    assert_eq!(remembered(), ["adk_A"]);
}

#[tokio::test]
async fn a_follower_that_lags_refuses_no_key_that_is_good_by_now() {
    let (universe, key) = with_key().await;
    let node = &universe.nodes[1];
    disable(&universe, &key.0);
    universe.fall_behind(node);
    all_are(node, &key, 403, "access_key_disabled").await;
    universe.run(set(&key.0, true));
    for draft in calls(&key) {
        node.call(&draft).await.is_ok();
    }
    // The same for a scope that the caller was given.
    universe.leader().call(&put(CALLERS, json!({"scopes": ["cancel"]}))).await.is_ok();
    universe.fall_behind(node);
    let [submit, list, _] = calls(&key);
    node.call(&submit).await.is(403, "scope_denied");
    universe.leader().call(&put(CALLERS, json!({}))).await.is_ok();
    for draft in [submit, list] {
        node.call(&Draft { nonce: orloj_wire::sign::new_nonce(), ..draft }).await.is_ok();
    }
    // While nobody leads, nobody is told that a key is bad.
    disable(&universe, &key.0);
    universe.fall_behind(node);
    universe.elect(None);
    all_are(node, &key, 503, "no_leader").await;
}

#[tokio::test]
async fn who_comes_to_lead_after_it_refused_a_key_by_old_tables_judges_it_anew() {
    let (universe, key) = with_key().await;
    let node = &universe.nodes[1];
    disable(&universe, &key.0);
    universe.fall_behind(node);
    universe.run(set(&key.0, true));
    let draft = Draft::get("/openapi/v1/tasks").by(&key.0, &key.1);
    let credentials = Credentials {
        signature: draft.signature(),
        access_key: draft.access_key,
        timestamp: draft.timestamp,
        nonce: draft.nonce,
        idempotency_key: None,
    };
    let request = Request {
        method: draft.method,
        path: draft.path,
        query: draft.query,
        credentials,
        if_none_match: None,
        request_id: "r".into(),
        keys_of: Access::Both,
        body: bytes::Bytes::new(),
    };
    let shared = node.api.shared();
    let refused = shared.check(&request).await.err().unwrap();
    universe.elect(Some(2));
    let answer = shared.answer_doubtful(&request, refused).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// How often one call of a key that is off was answered with which status.
async fn answers(node: &Node, key: &(String, String), times: usize) -> BTreeMap<u16, usize> {
    let mut counts = BTreeMap::new();
    for _ in 0..times {
        let reply = node.call(&Draft::submit(json!({"handler": "echo"})).by(&key.0, &key.1)).await;
        match reply.status {
            429 => reply.is(429, "rate_limited"),
            _ => reply.is(403, "access_key_disabled"),
        }
        *counts.entry(reply.status).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn few_requests_of_a_key_that_is_off_are_carried_to_the_leader() {
    let (universe, key) = with_key().await;
    disable(&universe, &key.0);
    let node = &universe.nodes[1];
    // The leader's last answer about the same call is good for a second.
    assert_eq!(answers(node, &key, 200).await, BTreeMap::from([(403, 200)]));
    // Of another call it has said nothing, and there is no question left: by now the key may be on.
    universe.fall_behind(node);
    universe.run(set(&key.0, true));
    let list = || Draft::get("/openapi/v1/tasks").by(&key.0, &key.1);
    let reply = node.call(&list()).await;
    reply.is(429, "rate_limited");
    assert_eq!(reply.body["violated-policies"], json!(["refused-requests"]));
    // From then on it is asked again.
    universe.clock.advance_ms(1_000);
    assert_eq!(node.call(&Draft::submit(json!({"handler": "echo"})).by(&key.0, &key.1)).await.status, 202);
    node.call(&list()).await.is_ok();
}

#[tokio::test]
async fn who_lacks_a_scope_is_told_so_however_often() {
    let universe = Universe::of(2).await;
    universe.leader().call(&put(CALLERS, json!({"scopes": ["read"]}))).await.is_ok();
    let key = make_key(universe.leader()).await;
    for _ in 0..100 {
        let submit = Draft::submit(json!({"handler": "echo"})).by(&key.0, &key.1);
        universe.nodes[1].call(&submit).await.is(403, "scope_denied");
    }
}

#[tokio::test]
async fn who_goes_on_with_a_key_that_is_off_is_slowed_down_like_who_guesses() {
    let (universe, key) = with_key().await;
    disable(&universe, &key.0);
    let counts = answers(universe.leader(), &key, 1_100).await;
    assert_eq!(counts, BTreeMap::from([(403, 1_000), (429, 100)]));
    // Another key from the same address goes on.
    universe.leader().call(&Draft::get("/openapi/v1/tasks")).await.is_ok();
}

#[tokio::test]
async fn a_call_of_the_other_class_is_refused_without_asking_the_leader() {
    let (universe, key) = with_key().await;
    universe.elect(None);
    let foreign = Draft { method: "PUT".into(), ..Draft::post(CALLERS, json!({})) }.by(&key.0, &key.1);
    universe.nodes[1].call(&foreign).await.is(403, "scope_denied");
}

/// Every kind of change that a caller can ask for, with what it needs made before.
async fn changes(node: &Node, key: &(String, String)) -> Vec<Draft> {
    let by = |draft: Draft| draft.by(&key.0, &key.1);
    let daily = json!([{"kind": "cron", "expression": "0 2 * * *"}]);
    let job = json!({"handler": "echo", "triggers": daily});
    let jobs = "/openapi/v1/jobs/nightly";
    let made = node.call(&by(Draft { method: "PUT".into(), ..Draft::post(jobs, job.clone()) })).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let submit = || by(Draft::submit(json!({"handler": "echo"})));
    let (open, ended) = (node.call(&submit()).await.task_id(), node.call(&submit()).await.task_id());
    let on =
        |task: &str, call: &str| by(Draft::post(&format!("/openapi/v1/tasks/{task}/{call}"), Value::Null));
    node.call(&on(&ended, "cancel")).await.is_ok();
    let past = json!({"from": "2027-01-10T00:00:00Z", "to": "2027-01-12T00:00:00Z"});
    vec![
        submit(),
        by(Draft::post("/openapi/v1/tasks/sync", json!({"handler": "echo", "estimatedDurationMs": 1}))),
        on(&ended, "retry"),
        on(&open, "cancel"),
        by(Draft::post(&format!("{jobs}/run"), Value::Null)),
        by(Draft::post(&format!("{jobs}/backfill"), past)),
        by(Draft::post(&format!("{jobs}/pause"), Value::Null)),
        by(Draft { method: "PUT".into(), ..Draft::post("/openapi/v1/jobs/other", job) }),
        by(Draft::new("DELETE", jobs)),
        by(Draft::post("/openapi/v1/tasks/batch", json!({"tasks": [{"handler": "echo"}]}))),
    ]
}

#[tokio::test]
async fn nothing_takes_effect_that_a_key_asked_for_and_that_is_committed_after_it_is_off() {
    let (universe, key) = with_key().await;
    let node = universe.leader();
    for draft in changes(node, &key).await {
        let before = universe.applied();
        universe.meanwhile(set(&key.0, false));
        node.call(&draft).await.is(403, "access_key_disabled");
        assert_eq!(universe.applied(), before + 2, "{} {}", draft.method, draft.path);
        universe.run(set(&key.0, true));
    }
    let job = node.call(&Draft::get("/openapi/v1/jobs/nightly").by(&key.0, &key.1)).await;
    assert_eq!((&job.body["state"]["paused"], &job.body["state"]["openTasks"]), (&Value::Null, &json!(0)));
    assert_eq!(job.body["state"]["backfilling"], false);
    let tasks = node.call(&Draft::get("/openapi/v1/tasks").by(&key.0, &key.1)).await;
    assert_eq!(tasks.body["tasks"].as_array().unwrap().len(), 2, "{}", tasks.text);
}

#[tokio::test]
async fn no_member_is_changed_by_a_key_that_was_switched_off_after_its_request_was_recorded() {
    let universe = Universe::of(3).await;
    let node = universe.leader();
    let made = node.call(&Draft::post("/openapi/v1/admin-keys", json!({})).by_admin()).await;
    let text = |field: &str| made.body[field].as_str().unwrap().to_owned();
    let (name, secret) = (text("accessKey"), text("secretKey"));
    let by_it = |path: &str, body| {
        let draft = Draft::post(&format!("/openapi/v1/cluster/{path}"), body);
        Draft { label: Label::Admin, ..draft }.by(&name, &secret)
    };
    let fourth = json!({"internal": "10.0.0.4:7071", "api": "http://10.0.0.4:8080"});
    for draft in
        [by_it("members", fourth), by_it("members/3/remove", json!({})), by_it("transfer", json!({"to": 2}))]
    {
        universe.at_barrier(set(&name, false));
        node.call(&draft).await.is(403, "access_key_disabled");
        universe.run(set(&name, true));
    }
    let shown = node.call(&Draft::get("/openapi/v1/cluster")).await;
    assert_eq!(shown.body["members"].as_array().unwrap().len(), 3, "{}", shown.text);
    assert_eq!(shown.body["leader"], 1);
    let audit = node.call(&Draft::get("/openapi/v1/audit").by_admin()).await;
    assert!(audit.text.contains("\"add_member\""), "that it was asked for is recorded: {}", audit.text);
}

#[tokio::test]
async fn what_is_left_of_a_batch_is_refused_once_its_key_is_off_or_gone() {
    let (universe, key) = with_key().await;
    let node = universe.leader();
    let gone = AccessCommand::DeleteKey { key: key.0.clone(), by: by() };
    for (change, status, code) in [
        (set(&key.0, false), 403, "access_key_disabled"),
        (Command::Access(Box::new(gone)), 401, "invalid_signature"),
    ] {
        universe.run(set(&key.0, true));
        // Its nonce is spent by an entry of its own, and the first submission is taken.
        universe.meanwhile_after(2, change);
        let tasks = json!({"tasks": vec![json!({"handler": "echo"}); 4]});
        let reply = node.call(&Draft::post("/openapi/v1/tasks/batch", tasks).by(&key.0, &key.1)).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let results = reply.body["results"].as_array().unwrap();
        assert_eq!(results[0]["status"], 202);
        for result in &results[1..] {
            assert_eq!((&result["status"], &result["problem"]["code"]), (&json!(status), &json!(code)));
        }
    }
}
