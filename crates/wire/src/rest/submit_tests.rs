#![allow(clippy::unwrap_used, reason = "a failed test")]

use serde_json::json;

use super::*;
use crate::json::read;

fn parse(body: Value) -> Result<Submit, FieldError> {
    read(body.to_string().as_bytes())
}

fn with(field: &str, value: Value) -> Result<Submit, FieldError> {
    parse(json!({"handler": "echo", field: value}))
}

/// The raw text, for numbers that `json!` cannot write.
fn with_raw(field: &str, value: &str) -> Result<Submit, FieldError> {
    read(format!(r#"{{"handler":"echo","{field}":{value}}}"#).as_bytes())
}

#[test]
fn the_smallest_submission() {
    let submit = parse(json!({"handler": "echo"})).unwrap();
    assert_eq!(submit, Submit::new("echo", json!({})));
    assert_eq!(submit.faults(), vec![]);
}

#[test]
fn every_field_survives_the_way_out_and_back() {
    let body = json!({
        "handler": "echo", "params": [1, {"a": null}], "delayMs": 5, "priority": 9, "timeoutMs": 1000,
        "expireAt": "2027-01-15T08:00:00.000Z",
        "retry": {"maxRetries": 1, "backoffMs": [1, 2], "jitterPct": 10, "maxLost": 0},
        "labels": {"disk": "ssd"}, "routingKey": "r", "zone": "z", "strategy": {"pinned": "e1"},
        "businessKey": "b", "dedupeKey": "d", "shardTotal": 2, "onShardFailure": "cancel",
        "dependsOn": [{"taskId": "tsk_AAECAwQFBgcICQoLDA0ODw", "on": "failure"}],
        "callbackUrl": "https://hooks.example.com/cb", "estimatedDurationMs": 7, "allowUnknownHandler": true,
    });
    let submit = parse(body.clone()).unwrap();
    assert_eq!(serde_json::to_value(&submit).unwrap(), body);
    assert_eq!(submit.faults(), vec![]);
}

#[test]
fn documented_aliases_pass_but_not_beside_their_field() {
    for (alias, field, value) in [
        ("executor", "handler", json!("echo")),
        ("executorId", "handler", json!("echo")),
        ("run_at", "runAt", json!("2027-01-15T08:00:00Z")),
        ("shard_total", "shardTotal", json!(2)),
        ("depends_on", "dependsOn", json!([])),
        ("callback_url", "callbackUrl", json!("https://hooks.example.com/cb")),
    ] {
        let mut body = json!({"handler": "echo"});
        if field == "handler" {
            body.as_object_mut().unwrap().remove("handler");
        }
        body[alias] = value.clone();
        let by_alias = parse(body.clone()).unwrap();
        body[field] = value;
        let error = parse(body.clone()).unwrap_err();
        assert!(error.message.contains("stands twice"), "{alias}: {error:?}");
        body.as_object_mut().unwrap().remove(alias);
        assert_eq!(parse(body).unwrap(), by_alias, "{alias}");
    }
}

#[test]
fn unknown_fields_are_named() {
    let error = with("priorty", json!(1)).unwrap_err();
    assert!(error.message.contains("priorty"), "{error:?}");
    assert!(with("retry", json!({"max": 1})).is_err());
    assert!(with("dependsOn", json!([{"taskId": "t", "onn": "success"}])).is_err());
}

#[test]
fn delays_at_the_edge_of_the_number_range() {
    for (text, ms) in [
        ("0", 0),
        ("1", 1),
        // 32-bit milliseconds end here; neither this nor the next may wrap.
        ("2147483647", 2_147_483_647),
        ("2147483648", 2_147_483_648),
        ("4294967296", 4_294_967_296),
        // 136 years
        ("4291747200000", 4_291_747_200_000),
        ("31536000000000", MAX_DELAY_MS),
        ("null", u64::MAX),
    ] {
        let expected = (text != "null").then_some(ms);
        assert_eq!(with_raw("delayMs", text).unwrap().delay_ms, expected, "{text}");
    }
    for text in [
        "-1",
        "31536000000001",
        "9007199254740992",
        "9007199254740993",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "1e3",
        "1e308",
        "1e400",
        "1.5",
        "1.0",
        "-0.0",
        "\"10\"",
        "true",
        "[]",
        "{}",
    ] {
        let error = with_raw("delayMs", text).expect_err(text);
        assert_eq!(error.pointer, "/delayMs", "{text}: {error:?}");
    }
}

#[test]
fn errors_name_field_and_value() {
    for (field, value, pointer, shown) in [
        ("priority", json!(10), "/priority", "10 is outside 0-9"),
        ("timeoutMs", json!(0), "/timeoutMs", "0 is outside 1-2592000000"),
        ("shardTotal", json!(0), "/shardTotal", "0 is outside 1-1024"),
        ("shardTotal", json!(1025), "/shardTotal", "1025 is outside 1-1024"),
        ("retry", json!({"maxRetries": 11}), "/retry/maxRetries", "11 is outside 0-10"),
        ("retry", json!({"backoffMs": [1, 604800001]}), "/retry/backoffMs/1", "604800001 is outside"),
        ("runAt", json!("tomorrow"), "/runAt", "\"tomorrow\""),
        ("runAt", json!("10000-01-01T00:00:00Z"), "/runAt", "10000-01-01"),
        ("runAt", json!(1_800_000_000), "/runAt", "1800000000"),
        ("strategy", json!("fastest"), "/strategy", "fastest"),
    ] {
        let error = with(field, value).unwrap_err();
        assert!(error.pointer.starts_with(pointer), "{error:?}");
        assert!(error.message.contains(shown), "{error:?}");
    }
}

#[test]
fn faults_name_the_offending_character() {
    for (field, value, pointer, shown) in [
        ("handler", json!("a b"), "/handler", "' ' at position 1"),
        ("handler", json!(""), "/handler", "length 0"),
        ("handler", json!("x".repeat(129)), "/handler", "length 129"),
        ("zone", json!("zé"), "/zone", "'é' at position 1"),
        ("strategy", json!({"pinned": "a/b"}), "/strategy/pinned", "'/' at position 1"),
        ("labels", json!({"a b": "x"}), "/labels/a b", "' ' at position 1"),
        ("labels", json!({"a": ""}), "/labels/a", "0 bytes"),
        ("businessKey", json!("2027-01-15\n"), "/businessKey", "'\\n'"),
        ("dedupeKey", json!("x".repeat(257)), "/dedupeKey", "257 bytes"),
        ("retry", json!({"backoffMs": []}), "/retry/backoffMs", "0 steps"),
    ] {
        let mut body = json!({"handler": "echo"});
        body[field] = value;
        let faults = parse(body).unwrap().faults();
        assert_eq!(faults.len(), 1, "{field}: {faults:?}");
        assert_eq!(faults[0].pointer, pointer);
        assert!(faults[0].message.contains(shown), "{faults:?}");
    }
}

#[test]
fn parents_are_ids_or_places_of_a_batch_each_named_once() {
    let id = "tsk_AAECAwQFBgcICQoLDA0ODw";
    let faults = |parents: Value| with("dependsOn", parents).unwrap().faults();
    assert_eq!(faults(json!([{"taskId": id}, {"taskId": "#0"}, {"taskId": "#999"}])), vec![]);
    for (parents, pointer, shown) in [
        (json!([{"taskId": "x"}]), "/dependsOn/0/taskId", "\"x\" is no task id"),
        (json!([{"taskId": "#1000"}]), "/dependsOn/0/taskId", "no task id"),
        (json!([{"taskId": "#-1"}]), "/dependsOn/0/taskId", "no task id"),
        (json!([{"taskId": id}, {"taskId": id, "on": "failure"}]), "/dependsOn/1/taskId", "twice"),
    ] {
        let found = faults(parents);
        assert_eq!(found[0].pointer, pointer, "{found:?}");
        assert!(found[0].message.contains(shown), "{found:?}");
    }
    let refers = |to: Value| {
        parse(json!({"handler": "echo", "dependsOn": [{"taskId": id}], "params": {"a": {"$result": to}}}))
            .unwrap()
            .faults()
    };
    assert_eq!((refers(json!(id)), refers(json!(0))), (vec![], vec![]));
    assert_eq!(refers(json!(1))[0].pointer, "/params/a");
    assert!(refers(json!("tsk_x"))[0].message.contains("\"tsk_x\" is none of the 1 parents"));
    assert_eq!(
        with("params", json!({"$result": "x"})).unwrap().faults(),
        vec![],
        "without parents it is text"
    );
}

#[test]
fn a_broadcast_counts_its_shards_itself() {
    let of = |total| parse(json!({"handler": "echo", "strategy": "broadcast", "shardTotal": total})).unwrap();
    assert_eq!(of(1).faults(), vec![]);
    assert_eq!(of(2).faults()[0].pointer, "/shardTotal");
}

#[test]
fn times_must_fit_each_other() {
    let both = parse(json!({"handler": "echo", "delayMs": 1, "runAt": "2027-01-15T08:00:00Z"})).unwrap();
    assert_eq!(both.faults()[0].pointer, "/delayMs");
    let late = parse(json!({
        "handler": "echo", "runAt": "2027-01-15T08:00:00Z", "expireAt": "2027-01-15T08:00:00Z",
    }));
    assert_eq!(late.unwrap().faults()[0].pointer, "/expireAt");
}
