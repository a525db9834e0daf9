use std::fs;

use serde_json::json;

use super::*;

/// 2027-01-15T08:00:00Z.
const NOW: i64 = 1_800_000_000_000;

fn read(name: &str, text: &str) -> anyhow::Result<Written> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, text).unwrap();
    read_all(&[path], NOW)
}

fn error(name: &str, text: &str) -> String {
    format!("{:#}", read(name, text).unwrap_err())
}

const TOML: &str = r#"
[[calendars]]
name = "holidays"
dates = ["2027-12-24"]

[[jobs]]
jobId = "nightly"
handler = "report"
calendars = ["holidays"]
params = { day = "${date:%Y-%m-%d}", size = 1.5 }

[[jobs.triggers]]
kind = "cron"
expression = "0 2 * * *"
timeZone = "Europe/Berlin"
startAt = 2027-02-01T00:00:00Z
"#;

const YAML: &str = r#"
calendars:
  - name: holidays
    dates: ["2027-12-24"]
jobs:
  - jobId: nightly
    handler: report
    calendars: [holidays]
    params: {day: "${date:%Y-%m-%d}", size: 1.5}
    triggers:
      - {kind: cron, expression: "0 2 * * *", timeZone: Europe/Berlin, startAt: "2027-02-01T00:00:00Z"}
"#;

#[test]
fn the_same_job_is_read_from_every_kind_of_file() {
    let from_toml = read("jobs.toml", TOML).unwrap();
    let from_yaml = read("jobs.yaml", YAML).unwrap();
    let json = json!({"calendars": [{"name": "holidays", "dates": ["2027-12-24"]}], "jobs": [
        {"jobId": "nightly", "handler": "report", "calendars": ["holidays"],
         "params": {"day": "${date:%Y-%m-%d}", "size": 1.5},
         "triggers": [{"kind": "cron", "expression": "0 2 * * *", "timeZone": "Europe/Berlin",
                       "startAt": "2027-02-01T00:00:00Z"}]}]});
    let from_json = read("jobs.json", &json.to_string()).unwrap();
    for other in [&from_yaml, &from_json] {
        assert_eq!(other.jobs, from_toml.jobs);
        assert_eq!(other.calendars, from_toml.calendars);
    }
    assert_eq!(from_toml.jobs[0].0, "nightly");
    assert_eq!(from_toml.calendars[0].0, "holidays");
}

#[test]
fn one_job_and_a_list_of_jobs_are_files_too() {
    let one = json!({"jobId": "a", "handler": "echo"});
    assert_eq!(read("j.json", &one.to_string()).unwrap().jobs.len(), 1);
    let list = json!([one, {"jobId": "b", "handler": "echo"}]);
    assert_eq!(read("j.json", &list.to_string()).unwrap().jobs.len(), 2);
    assert_eq!(read("j.toml", "jobId = \"a\"\nhandler = \"echo\"\n").unwrap().jobs.len(), 1);
    // Also where the job names calendars, as a file of several things does.
    let read = read("j.json", r#"{"jobId": "a", "handler": "echo", "calendars": ["holidays"]}"#).unwrap();
    assert_eq!((read.jobs.len(), read.calendars.len()), (1, 0));
}

#[test]
fn a_mistake_is_shown_with_its_place_and_a_mark_under_the_character() {
    let bad = json!([{"jobId": "a", "handler": "echo"},
        {"jobId": "b", "handler": "echo", "triggers": [{"kind": "cron", "expression": "*/90 * * * *"}]}]);
    let said = error("jobs.json", &bad.to_string());
    assert!(said.contains("jobs.json: jobs[1]: \"b\""), "{said}");
    assert!(said.contains("/triggers/0/expression: "), "{said}");
    assert!(said.contains("\n    */90 * * * *\n      ^"), "{said}");
    for (name, text, part) in [
        ("j.json", r#"{"jobId": "a", "handler": "echo", "colour": 1}"#, "/colour"),
        ("j.json", r#"{"jobId": "a", "jobId": "b", "handler": "echo"}"#, "twice"),
        ("j.yaml", "jobId: a\njobId: b\nhandler: echo\n", "duplicate"),
        ("j.json", r#"{"handler": "echo"}"#, "jobId is missing"),
        (
            "j.json",
            r#"[{"jobId": "a", "handler": "echo"}, {"jobId": "a", "handler": "echo"}]"#,
            "\"a\" stands",
        ),
        ("j.json", r#"{"jobs": [], "job": []}"#, "\"job\""),
        ("j.json", r#"{"jobs": {}}"#, "jobs is not a list"),
        ("j.json", "1", "neither a job"),
        ("j.json", r#"{"calendars": [{"dates": []}]}"#, "name is missing"),
        ("j.json", r#"{"calendars": [{"name": "c", "dates": ["2027-02-30"]}]}"#, "dates[0]"),
        ("j.toml", "jobId = ", "j.toml"),
        ("j.ini", "", ".toml, .json"),
    ] {
        let said = error(name, text).to_lowercase();
        assert!(said.contains(&part.to_lowercase()), "{text}: {said}");
    }
    assert!(
        format!("{:#}", read_all(&["no-such-file.json"], NOW).unwrap_err()).contains("no-such-file.json")
    );
}

#[test]
fn no_number_of_yaml_becomes_another_one() {
    for (text, right) in [("00123", json!(123)), ("1.0", json!(1)), ("-7", json!(-7)), ("1.5", json!(1.5))] {
        let file = format!("jobId: a\nhandler: echo\nparams: {{n: [{text}]}}\n");
        let value = from_yaml(&file).unwrap();
        assert_eq!(value["params"]["n"][0], right, "{text}");
    }
    for text in ["12345678901234567890123", "18446744073709551616", "-9223372036854775809"] {
        let said = error("j.yaml", &format!("jobId: a\nhandler: echo\nparams: {{n: [{text}]}}\n"));
        assert!(said.contains("/params/n/0: ") && said.contains("another number"), "{said}");
    }
}

#[test]
fn a_value_is_named_by_job_and_field_and_not_by_a_line_that_nobody_wrote() {
    for (name, text) in [
        ("j.toml", "jobId = \"a\"\nhandler = \"echo\"\npriority = \"high\"\n"),
        ("j.yaml", "jobId: a\nhandler: echo\npriority: high\n"),
        ("j.json", r#"{"jobId": "a", "handler": "echo", "priority": "high"}"#),
    ] {
        let said = error(name, text);
        let right = "jobs[0]: \"a\": /priority: \"high\" is not a whole number from 0 on";
        assert!(said.ends_with(right), "{said}");
    }
    let unknown = error("j.yaml", "jobId: a\nhandler: echo\nzones: x\n");
    assert!(
        unknown.contains("\"a\": /zones: there is no field \"zones\"; there is jobId, title"),
        "{unknown}"
    );
    let twice = error("j.yaml", "jobId: a\nhandler: echo\njobId: b\n");
    assert!(twice.contains("jobId") && twice.contains("line 3"), "{twice}");
    assert!(!twice.contains("Policy") && !twice.contains("Options"), "{twice}");
    let calendar = json!({"calendars": [{"name": "c", "calendar": {}, "version": 1, "appliedIndex": 3}]});
    assert!(error("j.json", &calendar.to_string()).contains("as the API shows it"));
}

#[test]
fn the_files_of_the_guide_are_files() {
    let guides = [include_str!("../../../../../docs/jobs.md"), include_str!("../../../../../README.md")];
    let mut seen = 0;
    for guide in guides {
        for kind in ["yaml", "toml"] {
            for block in guide.split(&format!("```{kind}\n")).skip(1) {
                let text = block.split("```").next().unwrap();
                let written =
                    read(&format!("jobs.{kind}"), text).unwrap_or_else(|error| panic!("{text}: {error:#}"));
                assert!(!written.jobs.is_empty(), "{text}");
                seen += 1;
            }
        }
    }
    assert!(seen >= 3, "{seen}");
}
