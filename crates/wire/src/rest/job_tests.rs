#![allow(clippy::unwrap_used, reason = "a failed test")]

use serde_json::json;

use super::*;
use crate::json::read_object;

/// 2027-01-15T08:00:00Z.
const CREATED: i64 = 1_800_000_000_000;

fn read(body: Value) -> JobSpec {
    read_object(body.to_string().as_bytes()).unwrap_or_else(|error| panic!("{body}: {error:?}"))
}

fn refused(body: Value) -> (String, String) {
    let error = read_object::<JobSpec>(body.to_string().as_bytes()).unwrap_err();
    (error.pointer, error.message)
}

fn pointers(body: Value) -> Vec<String> {
    read(body).faults("j").into_iter().map(|fault| fault.pointer).collect()
}

#[test]
fn what_is_spelled_out_means_the_same_and_stays_as_it_is() {
    for body in [
        json!({"handler": "echo"}),
        json!({"handler": "echo", "misfire": "fireAll", "triggers": [{"kind": "fixedRate", "everyMs": 5000}]}),
        json!({"jobId": "j", "executorId": "echo", "priority": 9, "overlap": "queue", "shard_total": 4,
               "allowUnknownHandler": true, "params": {"a": [1.5, null]}, "strategy": {"pinned": "e1"},
               "triggers": [{"kind": "cron", "expression": "@every 10m"}]}),
    ] {
        let first = read(body).spelled_out(CREATED).unwrap();
        assert_eq!(first.spelled_out(CREATED).unwrap(), first);
        assert_eq!(read(serde_json::to_value(&first).unwrap()), first);
    }
    let full = serde_json::to_value(read(json!({"handler": "echo"})).spelled_out(0).unwrap()).unwrap();
    assert_eq!(
        full,
        json!({"handler": "echo", "title": "", "description": "", "params": {}, "triggers": [], "calendars": [],
               "misfire": "fireOnce", "misfireGraceMs": 5000, "onShardFailure": "wait", "overlap": "skip", "priority": 5, "labels": {},
               "retry": {"maxRetries": 2, "backoffMs": [10000, 30000, 60000], "jitterPct": 0, "maxLost": 3},
               "strategy": "ring", "shardTotal": 1, "onShardFailure": "wait"})
    );
}

#[test]
fn what_does_not_parse_is_named() {
    assert_eq!(refused(json!({"handler": "echo", "colour": 1})).0, "/colour");
    assert_eq!(refused(json!({"handler": "echo", "misfireCap": 1001})).0, "/misfireCap");
    assert_eq!(refused(json!({"handler": "echo", "maxRunning": 0})).0, "/maxRunning");
    assert_eq!(refused(json!({"handler": "echo", "overlap": "never"})).0, "/overlap");
    let nested = json!({"handler": "echo", "triggers": [{"kind": "cron", "cron": "* * * * *"}]});
    assert_eq!(refused(nested).0, "/triggers/0/cron");
    let list = json!({"handler": "echo", "triggers": [["cron", "* * * * *"]]});
    assert_eq!(refused(list).0, "/triggers/0");
    let twice = br#"{"handler": "echo", "executor": "echo"}"#;
    assert!(read_object::<JobSpec>(twice).unwrap_err().message.contains("stands twice"));
}

#[test]
fn what_is_not_acceptable_is_named_with_its_value() {
    let long = "x".repeat(600);
    assert_eq!(pointers(json!({"handler": "echo", "title": long})), ["/title"]);
    assert_eq!(pointers(json!({"handler": "echo", "misfireCap": 5})), ["/misfireCap"]);
    assert_eq!(
        pointers(json!({"handler": "echo", "calendars": ["a", "b c", "a"]})),
        ["/calendars/1", "/calendars/2"]
    );
    assert_eq!(pointers(json!({"handler": "echo", "businessKey": "${day}"})), ["/businessKey"]);
    let faults = read(json!({"handler": "echo"})).faults("a.b");
    assert_eq!(faults[0].pointer, "/jobId");
    assert!(faults[0].message.contains("'.'") && faults[0].message.contains("position 1"), "{faults:?}");
}

#[test]
fn placeholders_are_checked_where_they_stand() {
    let faults = |params: Value| params_faults("/params", &params, "j");
    assert_eq!(faults(json!({"a": ["${scheduledAt}", "$${no}", "${date:%Y-%m-%d}"], "n": 1})), []);
    let wrong = faults(json!({"a": ["x${when}"], "b/c": {"d": "${date:%Q}"}}));
    let places: Vec<_> = wrong.iter().map(|fault| (fault.pointer.as_str(), fault.position)).collect();
    assert_eq!(places, [("/params/a/0", Some(1)), ("/params/b~1c/d", Some(0))]);
    assert_eq!(faults(json!({"a": "${"})).len(), 1, "no closing brace in the same string");
    assert_eq!(faults(json!({"${x}": 1})).len(), 1, "a key");
    assert_eq!(faults(json!({"a": "${date:%Y\n}"})).len(), 1, "JSON escapes it");
    let large = faults(json!("x".repeat(orloj_model::job::PARAMS_LIMIT)));
    assert!(large[0].message.contains("65538 bytes"), "{large:?}");
    let grows = "${jobId}".repeat(orloj_model::job::PARAMS_LIMIT / 8 - 1);
    assert_eq!(params_faults("/params", &json!(grows), "a-job-of-some-length").len(), 1);
}

#[test]
fn a_business_key_is_held_to_its_length_as_it_is_filled_in() {
    let key = "${jobId}".repeat(32);
    let long = "j".repeat(65);
    let body = json!({"handler": "echo", "businessKey": key,
                      "steps": [{"name": "a", "handler": "echo", "businessKey": key}]});
    assert_eq!(read(body.clone()).faults(&"j".repeat(64)), [], "2,048 bytes are allowed");
    let faults = read(body).faults(&long);
    let places: Vec<_> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
    assert_eq!(places, ["/businessKey", "/steps/0/businessKey"]);
    assert!(faults[0].message.contains("2080 bytes") && faults[0].message.contains("2048"), "{faults:?}");
}

#[test]
fn every_bad_trigger_is_named_with_its_character() {
    let spec = read(json!({"handler": "echo", "triggers": [
        {"kind": "cron", "expression": "*/90 * * * *"},
        {"kind": "cron", "expression": "0 0 * * *"},
        {"kind": "cron", "expression": "0 0 * * *", "timeZone": "Mars/Phobos"},
        {"kind": "dailyWindow", "from": "09:00", "to": "18:00", "everyMs": 60000, "daysOfWeek": ["FUNDAY"]},
        {"kind": "once"},
    ]}));
    let faults = spec.check_triggers(CREATED).unwrap_err();
    let places: Vec<_> = faults.iter().map(|fault| (fault.pointer.as_str(), fault.position)).collect();
    assert_eq!(
        places,
        [
            ("/triggers/0/expression", Some(2)),
            ("/triggers/2/timeZone", None),
            ("/triggers/3/daysOfWeek/0", None),
            ("/triggers/4/at", None),
        ]
    );
    assert!(faults[0].message.starts_with("\"*/90 * * * *\": at character 2: "), "{faults:?}");
    assert!(faults[1].message.starts_with("\"Mars/Phobos\": "), "{faults:?}");
    let many = JobSpec { triggers: vec![spec.triggers[1].clone(); 33], ..spec };
    assert_eq!(many.check_triggers(CREATED).unwrap_err()[0].pointer, "/triggers");
}
