//! Jobs over REST: what is stored, what is refused, and what becomes of it.

use serde_json::{Value, json};

use super::{Draft, Reply, Universe};

/// A request on a job or a calendar.
pub(super) fn call(method: &str, path: &str, body: Value) -> Draft {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    Draft { body, ..Draft::new(method, &format!("/openapi/v1/{path}")) }
}

/// A job that fires every minute.
pub(super) fn minutely() -> Value {
    json!({"handler": "echo", "triggers": [{"kind": "fixedRate", "everyMs": 60_000}]})
}

pub(super) async fn put(universe: &Universe, id: &str, body: Value) -> Reply {
    universe.leader().call(&call("PUT", &format!("jobs/{id}"), body)).await
}

pub(super) async fn get(universe: &Universe, id: &str) -> Reply {
    universe.leader().call(&call("GET", &format!("jobs/{id}"), Value::Null)).await
}

#[tokio::test]
async fn a_job_is_created_shown_with_its_defaults_and_found_again() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let body = json!({"jobId": "nightly", "handler": "echo", "title": "Nächtlich", "triggers": [
        {"kind": "cron", "expression": "0 48 10 * * *", "timeZone": "America/Phoenix"}]});
    let created = node.call(&call("POST", "jobs", body.clone())).await;
    assert_eq!(created.status, 201, "{}", created.text);
    assert_eq!(created.header("location"), "/openapi/v1/jobs/nightly");
    assert_eq!(created.header("orloj-applied-index"), universe.applied().to_string());
    assert_eq!((&created.body["version"], &created.body["jobId"]), (&1.into(), &"nightly".into()));
    assert_eq!(created.body["createdAt"], "2027-01-15T08:00:00.000Z");
    let definition = &created.body["definition"];
    assert_eq!((&definition["misfire"], &definition["overlap"]), (&"fireOnce".into(), &"skip".into()));
    assert_eq!(definition["triggers"][0]["dst"], json!({"gap": "shift", "overlap": "first"}));
    // As the fire is, so it is shown, whatever zone the server has.
    let next = json!({"scheduledAt": "2027-01-15T17:48:00.000Z", "dueAt": "2027-01-15T17:48:00.000Z",
                      "local": "2027-01-15T10:48:00-07:00", "dst": null});
    assert_eq!(created.body["state"]["nextFire"], next);
    assert_eq!(get(&universe, "nightly").await.body, created.body);
    let again = node.call(&call("POST", "jobs", body)).await;
    again.is(409, "job_exists");
    get(&universe, "other").await.is(404, "job_not_found");
    get(&universe, "a.b").await.is(404, "job_not_found");
    node.call(&call("GET", "jobs/nightly", Value::Null).by_b()).await.is(404, "job_not_found");
    node.call(&call("GET", "jobs", Value::Null).by_admin()).await.is(403, "scope_denied");
}

#[tokio::test]
async fn what_is_shown_can_be_sent_again_and_changes_nothing() {
    let universe = Universe::of(1).await;
    for (id, triggers) in [
        ("rate", json!([{"kind": "fixedRate", "everyMs": 7_000}])),
        ("every", json!([{"kind": "cron", "expression": "@every 10m"}])),
        ("delay", json!([{"kind": "fixedDelay", "delayMs": 7_000}])),
        ("once", json!([{"kind": "once", "delayMs": 7_000}])),
        ("none", json!([])),
    ] {
        let body = json!({"handler": "echo", "triggers": triggers});
        let first = put(&universe, id, body.clone()).await;
        assert_eq!(first.status, 201, "{}", first.text);
        universe.clock.advance_ms(10_000);
        for body in [body, first.body["definition"].clone()] {
            let again = put(&universe, id, body).await;
            assert_eq!((again.status, &again.body["version"]), (200, &1.into()), "{id}: {}", again.text);
            assert_eq!(again.body["state"], first.body["state"], "{id}: the next fire stays where it is");
        }
    }
}

#[tokio::test]
async fn what_is_undecided_when_a_job_is_stopped_is_in_its_history() {
    let universe = Universe::of(1).await;
    assert_eq!(put(&universe, "j", minutely()).await.status, 201);
    // Nobody decided three instants.
    universe.clock.advance_ms(200_000);
    let stopped = put(&universe, "j", json!({"handler": "echo", "triggers": []})).await;
    assert_eq!((stopped.status, &stopped.body["version"]), (200, &2.into()), "{}", stopped.text);
    let history = universe.leader().call(&call("GET", "jobs/j/history", Value::Null)).await;
    assert_eq!(
        history.body["entries"],
        json!([{"number": 1, "at": stopped.body["updatedAt"], "kind": "skipped", "cause": "trigger",
                "reason": "edited", "count": 3, "exact": true,
                "from": "2027-01-15T08:01:00.000Z", "to": "2027-01-15T08:03:00.000Z"}])
    );
}

#[tokio::test]
async fn b65_an_edit_fires_nothing_that_has_passed() {
    let universe = Universe::of(1).await;
    // It is 08:00; the job ran at 03:00.
    let at = |expression: &str, title: &str| json!({"handler": "echo", "title": title, "triggers": [{"kind": "cron", "expression": expression}]});
    put(&universe, "daily", at("0 3 * * *", "")).await;
    let next = |reply: &Reply| reply.body["state"]["nextFire"]["scheduledAt"].as_str().unwrap().to_owned();
    assert_eq!(next(&put(&universe, "daily", at("0 7 * * *", "")).await), "2027-01-16T07:00:00.000Z");
    let renamed = put(&universe, "daily", at("0 7 * * *", "x")).await;
    assert_eq!((next(&renamed).as_str(), &renamed.body["version"]), ("2027-01-16T07:00:00.000Z", &3.into()));
    let earlier = put(&universe, "daily", at("0 9 * * *", "x")).await;
    assert_eq!(next(&earlier), "2027-01-15T09:00:00.000Z");
    // Only the zone: nine in Athens was an hour ago. Then only the parameters, the same again, and off and on.
    let trigger = json!({"kind": "cron", "expression": "0 9 * * *", "timeZone": "Europe/Athens"});
    let tomorrow = "2027-01-16T07:00:00.000Z";
    for params in [json!({}), json!({"n": 1}), json!({"n": 1})] {
        let body = json!({"handler": "echo", "title": "x", "params": params, "triggers": [trigger]});
        assert_eq!(next(&put(&universe, "daily", body).await), tomorrow, "{params}");
    }
    universe.leader().call(&call("POST", "jobs/daily/pause", Value::Null)).await.is_ok();
    let resumed = universe.leader().call(&call("POST", "jobs/daily/resume", Value::Null)).await;
    assert_eq!(next(&resumed), tomorrow);
    let counts = json!({"fired": 0, "missed": 0, "skipped": {}});
    assert_eq!((&resumed.body["state"]["openTasks"], &resumed.body["state"]["counts"]), (&json!(0), &counts));
}

#[tokio::test]
async fn every_fault_of_a_job_is_named() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let bad = json!({"handler": "a b", "title": "x".repeat(600), "priority": 5, "misfireCap": 3, "shardTotal": 2,
        "params": {"day": "${day}"}, "strategy": {"pinned": "e 1"},
        "triggers": [{"kind": "cron", "expression": "0 0 30 2 *"}, {"kind": "fixedRate", "everyMs": 1}]});
    let reply = put(&universe, "j", bad).await;
    reply.is(422, "validation_failed");
    let errors = reply.body["errors"].as_array().unwrap();
    let pointers: Vec<_> = errors.iter().map(|error| error["pointer"].as_str().unwrap()).collect();
    for pointer in [
        "/title",
        "/misfireCap",
        "/params/day",
        "/triggers/0/expression",
        "/triggers/1/everyMs",
        "/handler",
        "/strategy/pinned",
    ] {
        assert!(pointers.contains(&pointer), "{pointer} is not among {pointers:?}");
    }
    let expression = errors.iter().find(|error| error["pointer"] == "/triggers/0/expression").unwrap();
    assert_eq!(expression["position"], 4);
    assert!(expression["message"].as_str().unwrap().starts_with("\"0 0 30 2 *\": at character 4: "));
    for (body, status, code) in [
        (json!({"handler": "echo", "colour": 1}), 400, "invalid_request"),
        (json!({"handler": "echo", "triggers": [["cron"]]}), 400, "invalid_request"),
        (json!([]), 400, "invalid_request"),
        (json!({"handler": "nobody-has-it"}), 422, "handler_unknown"),
        (json!({"handler": "echo", "calendars": ["none"]}), 422, "validation_failed"),
        (json!({"jobId": "k", "handler": "echo"}), 422, "validation_failed"),
        (
            json!({"handler": "echo", "triggers": [{"kind": "once", "at": "2027-01-15T07:59:59Z"}]}),
            422,
            "validation_failed",
        ),
    ] {
        put(&universe, "j", body).await.is(status, code);
    }
    put(&universe, "a.b", json!({"handler": "echo"})).await.is(422, "validation_failed");
    node.call(&call("POST", "jobs", json!({"handler": "echo"}))).await.is(422, "validation_failed");
    node.call(&call("PUT", "jobs/j", Value::Null)).await.is(400, "invalid_request");
    node.call(&call("PUT", "jobs/j", minutely()).query("force=1")).await.is(400, "invalid_query");
    assert_eq!(universe.proposals(), 0);
    let trusted = json!({"handler": "nobody-has-it", "allowUnknownHandler": true});
    assert_eq!(put(&universe, "j", trusted).await.status, 201);
    // The handler that it has is not asked for again.
    let edited = json!({"handler": "nobody-has-it", "title": "x"});
    assert_eq!(put(&universe, "j", edited).await.status, 200);
}

#[tokio::test]
async fn an_edit_names_the_version_that_it_has_seen() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let versioned = |method: &str, body: Value, version: &str| {
        call(method, "jobs/j", body).query(&format!("version={version}"))
    };
    node.call(&versioned("PUT", minutely(), "1")).await.is(409, "version_conflict");
    assert_eq!(node.call(&versioned("PUT", minutely(), "0")).await.status, 201);
    node.call(&versioned("PUT", json!({"handler": "sleep"}), "0")).await.is(409, "version_conflict");
    let edited = node.call(&versioned("PUT", json!({"handler": "sleep"}), "1")).await;
    assert_eq!((edited.status, &edited.body["version"]), (200, &2.into()));
    // The answer was lost, and the request is sent again.
    let again = node.call(&versioned("PUT", json!({"handler": "sleep"}), "1")).await;
    assert_eq!((again.status, &again.body["version"]), (200, &2.into()));
    let other = node.call(&versioned("PUT", minutely(), "1")).await;
    other.is(409, "version_conflict");
    assert!(other.body["detail"].as_str().unwrap().contains("version 2"), "{}", other.text);
    node.call(&versioned("PATCH", json!({"title": "x"}), "1")).await.is(409, "version_conflict");
    node.call(&versioned("DELETE", Value::Null, "1")).await.is(409, "version_conflict");
    let mut unsigned_guard = call("PUT", "jobs/j", minutely());
    unsigned_guard.headers = vec![("if-match", "\"2\"".into())];
    node.call(&unsigned_guard).await.is(400, "invalid_request");
    assert_eq!(node.call(&versioned("DELETE", Value::Null, "2")).await.status, 200);
    get(&universe, "j").await.is(404, "job_not_found");
}

#[tokio::test]
async fn b66_a_version_of_what_was_deleted_is_none_of_what_follows_it() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    for (path, body, other) in [
        ("jobs/j", minutely(), json!({"handler": "sleep"})),
        ("calendars/c", json!({"weekdays": ["SUN"]}), json!({"weekdays": ["SAT"]})),
    ] {
        let send = async |method: &str, body: &Value, version: &str| {
            node.call(&call(method, path, body.clone()).query(&format!("version={version}"))).await
        };
        let old = send("PUT", &body, "0").await;
        assert_eq!(old.status, 201, "{}", old.text);
        let seen = old.body["version"].to_string();
        assert_eq!(send("DELETE", &Value::Null, &seen).await.status, 200);
        let new = send("PUT", &body, "0").await;
        assert_eq!(new.status, 201, "{}", new.text);
        send("PUT", &other, &seen).await.is(409, "version_conflict");
        send("DELETE", &Value::Null, &seen).await.is(409, "version_conflict");
        // The answer to its creation was lost, and the request is sent again.
        let again = send("PUT", &body, "0").await;
        assert_eq!((again.status, &again.body["version"]), (200, &new.body["version"]), "{}", again.text);
        let edited = send("PUT", &other, &new.body["version"].to_string()).await;
        assert_eq!(edited.status, 200, "{}", edited.text);
        send("PUT", &body, "0").await.is(409, "version_conflict");
    }
}

#[tokio::test]
async fn a_patch_changes_what_it_names() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let patch = |body: Value| call("PATCH", "jobs/j", body);
    node.call(&patch(json!({"title": "x"}))).await.is(404, "job_not_found");
    let body = json!({"handler": "echo", "title": "t", "params": {"a": 1, "b": {"c": 2}}, "timeoutMs": 5,
        "triggers": [{"kind": "fixedRate", "everyMs": 7_000}]});
    let first = put(&universe, "j", body).await;
    universe.clock.advance_ms(1_000);
    let patched = node
        .call(&patch(json!({"title": null, "params": {"b": {"c": null, "d": 3}}, "timeoutMs": null})))
        .await;
    assert_eq!((patched.status, &patched.body["version"]), (200, &2.into()), "{}", patched.text);
    let definition = &patched.body["definition"];
    assert_eq!(definition["params"], json!({"a": 1, "b": {"d": 3}}));
    assert_eq!((&definition["title"], &definition["timeoutMs"]), (&"".into(), &Value::Null));
    assert_eq!(definition["triggers"], first.body["definition"]["triggers"]);
    assert_eq!(patched.body["state"]["nextFire"], first.body["state"]["nextFire"]);
    // What is not there can be taken out as well.
    let nothing = json!({"allowUnknownHandler": null, "labels": null, "retry": {"jitterPct": null}, "params": {"x": null}});
    let patched = node.call(&patch(nothing)).await;
    assert_eq!(
        (patched.status, &patched.body["definition"]["params"]),
        (200, &json!({"a": 1, "b": {"d": 3}}))
    );
    for wrong in [json!({"titel": null}), json!({"titel": "x"}), json!({"handler": null}), json!("x")] {
        node.call(&patch(wrong)).await.is(400, "invalid_request");
    }
    node.call(&patch(json!({"jobId": "k"}))).await.is(422, "validation_failed");
    let cron = node.call(&patch(json!({"triggers": [{"kind": "cron", "expression": "0 9 * * *"}]}))).await;
    assert_eq!(cron.body["state"]["nextFire"]["scheduledAt"], "2027-01-15T09:00:00.000Z");
}

#[tokio::test]
async fn jobs_are_listed_page_by_page_by_id() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    for id in ["c", "a", "e", "b", "d"] {
        put(&universe, id, minutely()).await;
    }
    let other = call("PUT", "jobs/z", minutely()).by_b();
    assert_eq!(node.call(&other).await.status, 201);
    let list = |query: &str| call("GET", "jobs", Value::Null).query(query);
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let page = node.call(&list(&format!("page_size=2{token}"))).await;
        assert_eq!(page.status, 200, "{}", page.text);
        for job in page.body["jobs"].as_array().unwrap() {
            assert!(job["definition"]["params"].is_null(), "{job}");
            seen.push(job["jobId"].as_str().unwrap().to_owned());
        }
        match page.body["nextPageToken"].as_str() {
            Some(next) => token = format!("&page_token={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e"]);
    let page = node.call(&list("page_size=2")).await;
    let next = page.body["nextPageToken"].as_str().unwrap();
    let with = format!("page_token={next}");
    node.call(&list(&with).by_b()).await.is(400, "invalid_query");
    node.call(&call("GET", "calendars", Value::Null).query(&with)).await.is(400, "invalid_query");
    node.call(&list("page_token=AAAA")).await.is(400, "invalid_query");
    node.call(&list("page_size=101")).await.is(400, "invalid_query");
}

#[tokio::test]
async fn a_pause_counts_what_it_passes_over_and_makes_up_for_nothing() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    put(&universe, "j", minutely()).await;
    let pause = call("POST", "jobs/j/pause", json!({"note": "maintenance"}));
    let paused = node.call(&pause).await;
    assert_eq!(
        paused.body["state"]["paused"],
        json!({"note": "maintenance", "since": "2027-01-15T08:00:00.000Z"})
    );
    assert!(paused.body["state"]["nextFire"].is_null());
    node.call(&call("POST", "jobs/j/pause", json!({"reason": "x"}))).await.is(400, "invalid_request");
    let long = json!({"note": "x".repeat(5_000)});
    node.call(&call("POST", "jobs/j/pause", long)).await.is(422, "validation_failed");
    universe.clock.advance_ms(4 * 60_000 + 1_000);
    let resumed = node.call(&call("POST", "jobs/j/resume", Value::Null)).await;
    assert_eq!(resumed.status, 200, "{}", resumed.text);
    assert!(resumed.body["state"]["paused"].is_null());
    assert_eq!(resumed.body["state"]["nextFire"]["scheduledAt"], "2027-01-15T08:05:00.000Z");
    assert_eq!(resumed.body["state"]["counts"], json!({"fired": 0, "missed": 0, "skipped": {"paused": 4}}));
    let again = node.call(&call("POST", "jobs/j/resume", Value::Null)).await;
    assert_eq!((again.status, &again.body["state"]), (200, &resumed.body["state"]));
    let history = node.call(&call("GET", "jobs/j/history", Value::Null)).await;
    assert_eq!(
        history.body["entries"],
        json!([{"number": 1, "at": "2027-01-15T08:04:01.000Z", "kind": "skipped", "cause": "trigger",
                "reason": "paused", "count": 4, "exact": true,
                "from": "2027-01-15T08:01:00.000Z", "to": "2027-01-15T08:04:00.000Z"}])
    );
    for action in ["pause", "resume"] {
        let nobody = call("POST", &format!("jobs/none/{action}"), Value::Null);
        node.call(&nobody).await.is(404, "job_not_found");
    }
}

#[tokio::test]
async fn a_second_pause_keeps_the_note_unless_it_brings_another() {
    let universe = Universe::of(1).await;
    put(&universe, "j", minutely()).await;
    for (body, note) in [
        (json!({"note": "maintenance"}), "maintenance"),
        (Value::Null, "maintenance"),
        (json!({}), "maintenance"),
        (json!({"note": null}), "maintenance"),
        (json!({"note": "moved"}), "moved"),
        (json!({"note": ""}), ""),
    ] {
        let paused = universe.leader().call(&call("POST", "jobs/j/pause", body.clone())).await;
        assert_eq!((paused.status, &paused.body["state"]["paused"]["note"]), (200, &json!(note)), "{body}");
    }
}

#[tokio::test]
async fn an_instant_that_is_due_as_the_job_is_resumed_was_missed() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    put(&universe, "j", minutely()).await;
    node.call(&call("POST", "jobs/j/pause", Value::Null)).await;
    universe.clock.advance_ms(120_000);
    let resumed = node.call(&call("POST", "jobs/j/resume", Value::Null)).await;
    assert_eq!(resumed.body["state"]["nextFire"]["scheduledAt"], "2027-01-15T08:03:00.000Z");
    assert_eq!(resumed.body["state"]["counts"]["skipped"], json!({"paused": 2}));
}

#[tokio::test]
async fn a_follower_hands_every_call_on() {
    let universe = Universe::of(2).await;
    let follower = &universe.nodes[1];
    assert_eq!(follower.call(&call("PUT", "jobs/j", minutely())).await.status, 201);
    assert_eq!(follower.call(&call("PATCH", "jobs/j", json!({"title": "x"}))).await.body["version"], 2);
    let preview = json!({"triggers": minutely()["triggers"]});
    assert_eq!(follower.call(&call("POST", "jobs/preview", preview)).await.status, 200);
    assert_eq!(follower.call(&call("GET", "jobs", Value::Null)).await.body["jobs"][0]["version"], 2);
    assert_eq!(follower.call(&call("DELETE", "jobs/j", Value::Null)).await.status, 200);
    universe.elect(None);
    follower.call(&call("GET", "jobs/j", Value::Null)).await.is(503, "no_leader");
}

#[tokio::test]
async fn a_request_on_a_job_takes_effect_once_also_after_a_change_of_leader() {
    let universe = Universe::of(2).await;
    put(&universe, "j", minutely()).await;
    for captured in [
        call("POST", "jobs/j/run", json!({"overlap": "allow"})),
        call("POST", "jobs/j/pause", Value::Null),
        call("POST", "jobs/j/resume", Value::Null),
        call("PUT", "jobs/j", json!({"handler": "sleep"})),
        call("PATCH", "jobs/j", json!({"title": "x"})),
        call("DELETE", "jobs/j", Value::Null),
        call("PUT", "calendars/c", json!({"weekdays": ["SUN"]})),
        call("DELETE", "calendars/c", Value::Null),
    ] {
        universe.elect(Some(1));
        let first = universe.leader().call(&captured).await;
        assert!(first.status < 300, "{}", first.text);
        universe.elect(Some(2));
        let again = universe.leader().call(&captured).await;
        // A job that is gone is not found before its nonce is.
        let refused = ["nonce_replayed", "job_not_found", "calendar_not_found"];
        assert!(
            refused.contains(&again.body["code"].as_str().unwrap_or_default()),
            "{captured:?}: {}",
            again.text
        );
    }
}

#[tokio::test]
async fn a_job_that_is_known_is_not_sent_again_until_anything_about_it_changes() {
    let universe = Universe::of(2).await;
    let created = put(&universe, "nightly", minutely()).await;
    assert_eq!(created.status, 201, "{}", created.text);
    let etag = created.header("etag").to_owned();
    assert!(etag.starts_with("\"1-"), "{etag}");
    let known = |etag: &str| {
        let mut draft = call("GET", "jobs/nightly", Value::Null);
        draft.headers = vec![("if-none-match", etag.to_owned())];
        draft
    };
    for node in &universe.nodes {
        let same = node.call(&known(&format!("\"x\", {etag}"))).await;
        assert_eq!((same.status, same.text.as_str(), same.header("etag")), (304, "", etag.as_str()));
    }
    // No edit: the version stays, and yet what is shown has changed.
    let paused = universe.leader().call(&call("POST", "jobs/nightly/pause", json!({"note": "n"}))).await;
    assert_eq!((paused.status, &paused.body["version"]), (200, &json!(1)), "{}", paused.text);
    let shown = universe.nodes[1].call(&known(&etag)).await;
    assert_eq!((shown.status, shown.header("etag")), (200, paused.header("etag")));
    assert_ne!(shown.header("etag"), etag);
}
