use std::fs;

use orloj_wire::rest::job::{Job, JobSpec};
use serde_json::json;

use super::super::apply::job_change;
use super::super::file::read_all;
use super::*;

/// 2027-01-15T08:00:00Z.
const NOW: i64 = 1_800_000_000_000;

/// A job as the API shows it.
fn shown(body: Value) -> Job {
    let spec: JobSpec = serde_json::from_value(body).unwrap();
    let definition = serde_json::to_value(spec.spelled_out(NOW).unwrap()).unwrap();
    let job = json!({
        "jobId": "nightly", "version": 3, "createdAt": "2027-01-15T08:00:00.000Z",
        "updatedAt": "2027-01-15T08:00:00.000Z", "definition": definition, "appliedIndex": 9,
        "state": {"openTasks": 0, "backfilling": false, "counts": {"fired": 0, "missed": 0, "skipped": {}}},
    });
    serde_json::from_value(job).unwrap()
}

fn everything() -> Value {
    json!({
        "handler": "shell", "title": "Nächtlich: \"alles\"", "description": "one\ntwo\t# three \u{7f}\u{85}\u{2028}\u{feff}😀\\u0041",
        "params": {"yes": "no", "n": "0x1F", "null": "~", "a b": "2027-01-01", "date": "12:30", "size": 1.5, "big": 9_007_199_254_740_993_u64,
                   "deep": [[], {}, [1, [2, "- x"]], {"k": {"l": ["m: n", true]}}], "day": "${date:%Y-%m-%d}", "": "", "é": "1e3"},
        "triggers": [
            {"kind": "cron", "expression": "0 2 * * *", "timeZone": "Europe/Berlin", "startAt": "2027-02-01T00:00:00Z"},
            {"kind": "fixedRate", "everyMs": 7_000}, {"kind": "once", "delayMs": 5_000},
            {"kind": "dailyWindow", "from": "01:00", "to": "04:00", "everyMs": 3_600_000, "daysOfWeek": ["MON", 7]}],
        "calendars": ["holidays.de"], "misfire": "fireAll", "overlap": "queue", "maxRunning": 2, "timeoutMs": 5,
        "labels": {"os": "linux", "on": "1"}, "strategy": {"pinned": "e1"}, "businessKey": "k-${jobId}",
        "retry": {"maxRetries": 0, "backoffMs": [1], "jitterPct": 7, "maxLost": 1},
        "steps": [{"name": "load", "handler": "echo"},
                  {"name": "book", "handler": "echo", "params": {"x": {"$result": "load"}}, "dependsOn": [{"step": "load", "on": "completed"}]}],
    })
}

#[test]
fn a_definition_goes_out_and_comes_back_as_the_same_job() {
    let dir = tempfile::tempdir().unwrap();
    for body in [json!({"handler": "echo"}), everything()] {
        let job = shown(body);
        for (format, ending) in
            [(FileFormat::Toml, "toml"), (FileFormat::Json, "json"), (FileFormat::Yaml, "yaml")]
        {
            let text = text(&job, format).unwrap();
            let path = dir.path().join(format!("job.{ending}"));
            fs::write(&path, &text).unwrap();
            let written = read_all(&[path], NOW).unwrap_or_else(|error| panic!("{text}\n{error:#}"));
            let [(id, spec)] = &written.jobs[..] else { panic!("{text}") };
            assert_eq!(id, "nightly");
            let change = job_change(id, spec, Some(job.clone())).unwrap();
            assert_eq!(change.differences, [], "{text}");
        }
    }
}

#[test]
fn what_toml_cannot_hold_is_said() {
    let job = shown(json!({"handler": "echo", "params": {"a": null}}));
    assert!(text(&job, FileFormat::Yaml).unwrap().contains("a\": null"));
    let error = format!("{:#}", text(&job, FileFormat::Toml).unwrap_err());
    assert!(error.contains("\"nightly\"") && error.contains("yaml or json"), "{error}");
}

#[test]
fn yaml_is_for_people() {
    let value =
        json!({"jobId": "j", "triggers": [{"kind": "cron", "days": [1, 2]}], "labels": {}, "on": "x"});
    let lines = [
        "jobId: \"j\"",
        "labels: {}",
        "\"on\": \"x\"",
        "triggers:",
        "  - days:",
        "      - 1",
        "      - 2",
        "    kind: \"cron\"",
        "",
    ];
    assert_eq!(yaml(&value), lines.join("\n"));
}
