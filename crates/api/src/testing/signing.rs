//! What must not pass.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue};
use orloj_wire::sign::{
    ACCESS_KEY_HEADER, IDEMPOTENCY_HEADER, Label, NONCE_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER,
};
use serde_json::{Value, json};

use super::{Draft, SECRET_A2, T, Universe};

/// Changes one thing about a request.
type Change = fn(&mut Draft);

fn submit() -> Draft {
    Draft::submit(json!({"handler": "echo", "params": {"n": 1}})).key("order-42")
}

#[tokio::test]
async fn b127_each_signed_line_counts() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let sent = submit();
    let changes: [(&str, Change); 10] = [
        ("label", |d| d.label = Label::Admin),
        ("audience", |d| d.audience = "defaulu".into()),
        ("access key", |d| d.access_key = "ak_A2".into()),
        ("timestamp", |d| d.timestamp = (T + 1).to_string()),
        ("nonce", |d| d.nonce.replace_range(0..1, "z")),
        ("method", |d| d.method = "GET".into()),
        ("path", |d| d.path.push('x')),
        ("query", |d| d.query = "a=1".into()),
        ("idempotency key", |d| d.idempotency_key = Some("order-43".into())),
        ("body", |d| d.body.push(b' ')),
    ];
    for (line, change) in changes {
        let mut signed = sent.clone();
        change(&mut signed);
        node.send(sent.signed_as(&signed)).await.is(401, "invalid_signature");
        assert_eq!(universe.proposals(), 0, "{line}");
    }
    node.call(&sent).await.task_id();
}

#[tokio::test]
async fn b127_swapping_any_part_of_a_signed_request_is_noticed() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let list = Draft::get("/openapi/v1/tasks").query("page_size=5&status=PENDING");
    let mut reordered = list.clone();
    reordered.query = "status=PENDING&page_size=5".into();
    node.send(reordered.signed_as(&list)).await.is(401, "invalid_signature");
    let task = node.call(&submit()).await.task_id();
    let cancel = Draft::post(&format!("/openapi/v1/tasks/{task}/cancel"), Value::Null);
    let mut elsewhere = cancel.clone();
    elsewhere.path = elsewhere.path.replace("/cancel", "/attempts");
    elsewhere.method = "GET".into();
    node.send(elsewhere.signed_as(&cancel)).await.is(401, "invalid_signature");
    let mut without_key = submit();
    let with_key = without_key.clone();
    without_key.idempotency_key = None;
    node.send(without_key.signed_as(&with_key)).await.is(401, "invalid_signature");
    assert_eq!(universe.proposals(), 1);
}

#[tokio::test]
async fn b129_only_the_documented_form_of_a_signature_passes() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let draft = Draft::get("/openapi/v1/cluster");
    let good = draft.signature();
    for bad in [
        String::new(),
        "none".into(),
        good.to_uppercase(),
        good[..32].into(),
        good[..62].into(),
        format!("{good}0"),
        format!(" {good}"),
        format!("sha256={good}"),
        "0".repeat(64).replace('0', "g"),
    ] {
        node.send(draft.with_signature(&bad)).await.is(401, "malformed_credentials");
    }
    node.send(draft.with_signature(&"0".repeat(64))).await.is(401, "invalid_signature");
    let mut chosen = draft.clone();
    chosen.headers = vec![
        ("x-signature-algorithm", "none".into()),
        ("authorization", "Bearer x".into()),
        ("x-http-method-override", "POST".into()),
        ("x-forwarded-for", "127.0.0.1".into()),
        ("user-agent", "orloj-replica".into()),
    ];
    node.send(chosen.with_signature(&"0".repeat(64))).await.is(401, "invalid_signature");
    assert_eq!(node.call(&chosen).await.status, 200, "other headers change nothing");
}

#[tokio::test]
async fn b119_credentials_stand_in_four_headers_once_each() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let draft = submit();
    for name in [ACCESS_KEY_HEADER, TIMESTAMP_HEADER, NONCE_HEADER, SIGNATURE_HEADER] {
        let mut without = draft.signed();
        without.headers_mut().remove(name);
        let reply = node.send(without).await;
        reply.is(401, "missing_credentials");
        assert_eq!(reply.body["errors"][0]["pointer"], name);
        let mut twice = draft.signed();
        let value = twice.headers()[name].clone();
        twice.headers_mut().append(HeaderName::from_static(name), value);
        node.send(twice).await.is(401, "malformed_credentials");
    }
    let mut twice = draft.signed();
    twice.headers_mut().append(IDEMPOTENCY_HEADER, HeaderValue::from_static("order-42"));
    node.send(twice).await.is(400, "invalid_request");
    let in_query = Draft::get("/openapi/v1/tasks").query(&format!(
        "x-access-key=ak_A&x-timestamp={T}&x-nonce=0123456789abcdef&x-signature={}",
        "0".repeat(64)
    ));
    node.send(in_query.unsigned().body(Body::empty()).unwrap()).await.is(401, "missing_credentials");
    assert_eq!(universe.proposals(), 0);
}

#[tokio::test]
async fn b119_malformed_credentials_are_refused_before_anything_else() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let changes: [(&str, Change); 12] = [
        ("empty key", |d| d.access_key = String::new()),
        ("long key", |d| d.access_key = format!("ak_{}", "x".repeat(100_000))),
        ("odd key", |d| d.access_key = "ak_A B".into()),
        ("milliseconds", |d| d.timestamp = format!("{T}000")),
        ("negative", |d| d.timestamp = "-180000000".into()),
        ("sign", |d| d.timestamp = "+180000000".into()),
        ("date", |d| d.timestamp = "2027-01-15".into()),
        ("short nonce", |d| d.nonce = "x".repeat(15)),
        ("long nonce", |d| d.nonce = "x".repeat(65)),
        ("escaped nonce", |d| d.nonce = "%61bcdef0123456789".into()),
        ("blank in key", |d| d.access_key = "ak_A\t".into()),
        ("latin key", |d| d.access_key = "ak_Ä".into()),
    ];
    for (what, change) in changes {
        let mut draft = Draft::get("/openapi/v1/tasks");
        change(&mut draft);
        let reply = node.call(&draft).await;
        assert_eq!((reply.status, &reply.body["code"]), (401, &"malformed_credentials".into()), "{what}");
    }
}

#[tokio::test]
async fn b119_an_unknown_key_answers_like_a_wrong_signature() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let mut answers = BTreeSet::new();
    for access_key in ["ak_A", "ak_nobody", "ak_a", "adk_nobody", "ak_OFF"] {
        let reply = node.call(&Draft::get("/openapi/v1/tasks").by(access_key, "another secret")).await;
        reply.is(401, "invalid_signature");
        let mut body = reply.body.clone();
        body["instance"] = Value::Null;
        answers.insert(body.to_string());
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
}

#[tokio::test]
async fn b131_the_time_window_is_300_seconds_both_ways() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    for (offset, status) in
        [(-361, 401), (-301, 401), (-300, 200), (0, 200), (300, 200), (301, 401), (361, 401)]
    {
        let mut draft = Draft::get("/openapi/v1/tasks");
        draft.timestamp = (T + offset).to_string();
        let reply = node.call(&draft).await;
        assert_eq!(reply.status, status, "{offset}: {}", reply.text);
        if status == 401 {
            reply.is(401, "timestamp_out_of_window");
            assert_eq!(reply.body["serverTime"], "2027-01-15T08:00:00.000Z");
        }
    }
}

#[tokio::test]
async fn a_clock_that_steps_back_revives_no_nonce() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let draft = submit();
    node.call(&draft).await.task_id();
    // The cluster has seen a later time: its nonces may be gone, so the old request must be too old.
    universe.clock.step_wall_ms(3_600_000);
    let mut later = submit();
    later.timestamp = (T + 3600).to_string();
    later.idempotency_key = None;
    node.call(&later).await.task_id();
    universe.clock.step_wall_ms(-3_600_000);
    node.call(&draft).await.is(401, "timestamp_out_of_window");
}

#[tokio::test]
async fn a_signed_request_is_good_once() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    for draft in [submit(), Draft::get("/openapi/v1/tasks"), Draft::get("/openapi/v1/cluster")] {
        assert!(node.call(&draft).await.status < 300);
        for _ in 0..3 {
            node.call(&draft).await.is(401, "nonce_replayed");
        }
    }
    assert_eq!(universe.proposals(), 1);
}

#[tokio::test]
async fn a_forged_request_does_not_spend_the_nonce() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let draft = submit();
    node.send(draft.with_signature(&"0".repeat(64))).await.is(401, "invalid_signature");
    node.call(&draft).await.task_id();
}

#[tokio::test]
async fn b125_keys_are_of_one_class_and_see_what_their_owner_may() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let task = node.call(&submit()).await.task_id();
    let get = || Draft::get(&format!("/openapi/v1/tasks/{task}"));
    assert_eq!(node.call(&get().by("ak_A2", SECRET_A2)).await.status, 200, "a key of the same caller");
    node.call(&get().by_admin()).await.is(403, "scope_denied");
    node.call(&get().by("ak_OFF", super::SECRET_B)).await.is(403, "access_key_disabled");
    let mut as_caller = get().by_admin();
    as_caller.label = Label::Caller;
    node.call(&as_caller).await.is(401, "invalid_signature");
    let absent = "/openapi/v1/tasks/tsk_AAECAwQFBgcICQoLDA0ODw";
    for (method, rest) in [("GET", ""), ("POST", "/cancel"), ("GET", "/attempts"), ("GET", "/logs")] {
        let foreign = node.call(&Draft::new(method, &format!("/openapi/v1/tasks/{task}{rest}")).by_b()).await;
        let missing = node.call(&Draft::new(method, &format!("{absent}{rest}")).by_b()).await;
        foreign.is(404, "task_not_found");
        missing.is(404, "task_not_found");
        let of_another =
            foreign.body["detail"].as_str().unwrap().replace(&task, "tsk_AAECAwQFBgcICQoLDA0ODw");
        assert_eq!(of_another, missing.body["detail"], "{rest}");
    }
    for path in
        ["/openapi/v1/executors/e1/drain", "/openapi/v1/cluster/transfer", "/openapi/v1/cluster/members"]
    {
        node.call(&Draft::post(path, json!({}))).await.is(403, "scope_denied");
    }
}

#[tokio::test]
async fn b121_no_route_answers_without_credentials() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let calls = crate::document::samples();
    assert!(calls.len() > 50, "{calls:?}");
    for (method, path) in &calls {
        let reply = node.send(Draft::new(method, path).unsigned().body(Body::empty()).unwrap()).await;
        reply.is(401, "missing_credentials");
    }
    assert_eq!(universe.proposals(), 0);
    for path in [
        "/raft/v1/append",
        "/internal/v1/forward",
        "/internal/v1/executors/register",
        "/debug",
        "/debug/vars",
        "/admin",
        "/",
        "/openapi",
    ] {
        let reply = node.send(Draft::post(path, json!({})).signed()).await;
        assert_eq!(reply.status, 404, "{path} on the public listener");
    }
}

#[tokio::test]
async fn b120_other_spellings_of_a_path_reach_nothing() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    for path in [
        "/openapi/v1/tasks/",
        "//openapi/v1/tasks",
        "/openapi/v1//tasks",
        "/openapi/v1/./tasks",
        "/openapi/v1/x/../tasks",
        "/openapi/v1/%2e%2e/v1/tasks",
        "/openapi/v1%2Ftasks",
        "/openapi/v1/tasks;a=b",
        "/openapi/v1/tasks%00",
        "/openapi/v1/TASKS",
        "/openapi/v1/tasks/%78",
    ] {
        for draft in [Draft::get(path), Draft::post(path, json!({"handler": "echo"}))] {
            for request in [draft.signed(), draft.unsigned().body(Body::empty()).unwrap()] {
                let reply = node.send(request).await;
                assert!(matches!(reply.status, 400 | 404 | 405), "{path}: {}", reply.text);
            }
        }
    }
    // The absolute form names another host; path and query count, and the signature is checked as ever.
    let draft = submit();
    let mut absolute = draft.signed();
    *absolute.uri_mut() = "http://evil.example/openapi/v1/tasks".parse().unwrap();
    node.send(absolute).await.task_id();
    let mut absolute = Draft::get("/openapi/v1/tasks").unsigned().body(Body::empty()).unwrap();
    *absolute.uri_mut() = "http://localhost/openapi/v1/tasks".parse().unwrap();
    node.send(absolute).await.is(401, "missing_credentials");
    assert_eq!(universe.proposals(), 1);
}

#[tokio::test]
async fn b126_queries_are_taken_as_they_are_written_or_not_at_all() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    for good in ["", "page_size=5", "status=PENDING&page_size=5", "page_size=5&status=PENDING"] {
        let reply = node.call(&Draft::get("/openapi/v1/tasks").query(good)).await;
        assert_eq!(reply.status, 200, "{good}: {}", reply.text);
    }
    for bad in [
        "page_size",
        "page_size=",
        "page_size=5&page_size=5",
        "page_size=5&page_size=6",
        "status=%50ENDING",
        "status=PEND+ING",
        "a:b=c@d",
        "x=%C3%A9",
        "unknown=1",
        "page_size=0",
        "page_size=101",
        "page_size=05x",
        "status=pending",
        "page_token=abc",
        "page_size=5;status=PENDING",
    ] {
        node.call(&Draft::get("/openapi/v1/tasks").query(bad)).await.is(400, "invalid_query");
    }
}

#[tokio::test]
async fn b119_an_unknown_key_is_none_with_an_empty_secret() {
    let universe = Universe::of(1).await;
    let mut draft = Draft::get("/openapi/v1/cluster").by("ak_NOBODY", SECRET_A2);
    draft.nonce = "0123456789abcdef".into();
    assert_eq!(draft.timestamp, "1800000000");
    // Worked out apart from the product, with the HMAC's key empty.
    let signature = "ab434d6d64d406deb4338fcdfef43d29d0f0b4c64389d3c8bbb7295f727c1e4f";
    universe.leader().send(draft.with_signature(signature)).await.is(401, "invalid_signature");
}

#[tokio::test]
async fn b130_answers_show_no_secret_and_no_signature() {
    let universe = Universe::of(2).await;
    let draft = submit();
    let signature = draft.signature();
    let mut seen = String::new();
    for node in &universe.nodes {
        for request in [draft.signed(), submit().with_signature(&"0".repeat(64))] {
            let reply = node.send(request).await;
            seen.push_str(&format!("{:?}{}", reply.headers, reply.text));
        }
        for path in ["/metrics", "/debug/probe", "/readyz"] {
            let reply = node.send(Draft::get(path).unsigned().body(Body::empty()).unwrap()).await;
            seen.push_str(&format!("{:?}{}", reply.headers, reply.text));
        }
        seen.push_str(&node.call(&Draft::get("/openapi/v1/cluster")).await.text);
        seen.push_str(&node.call(&Draft::get("/openapi/v1/executors")).await.text);
    }
    for secret in [super::SECRET_A, super::SECRET_ADMIN, super::fake::CLUSTER_SECRET, signature.as_str()] {
        assert!(!seen.contains(secret), "{secret}");
    }
}
