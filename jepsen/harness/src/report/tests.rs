//! Whole reports of golden histories: well-formed, complete, and without a hole for values from outside.

use std::fs;
use std::io::BufReader;
use std::path::PathBuf;

use orloj_jepsen_core::check::judge;
use orloj_jepsen_core::event::{Event, What};
use orloj_jepsen_core::history::History;

use super::anomalies::{anchor, sentence};
use super::markup::escaped;
use super::page::page;
use super::subject::Files;
use crate::doctor::{Capability, Finding, Report};
use crate::plan::{Plan, Wishes};
use crate::scenario::Scenario;
use crate::store::Results;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../golden").join(name)
}

fn events(name: &str) -> Vec<Event> {
    History::read_lines(BufReader::new(fs::File::open(golden(name)).unwrap())).unwrap()
}

fn files(events: Vec<Event>) -> Files {
    let plan = Plan::expand(&Scenario::find("smoke").unwrap(), 7, Wishes::default()).unwrap();
    let history = History::merge(events);
    let results = Results {
        scenario: plan.scenario.clone(),
        seed: plan.seed,
        harness_failures: vec!["a thread <died>".to_owned()],
        events: history.events().len() as u64,
        report: judge(&history, &plan.options.check),
    };
    let find = |capability: Capability| Finding {
        capability,
        name: capability.name().to_owned(),
        ok: capability != Capability::Disks,
        detail: "tried & seen".to_owned(),
        faults: capability.faults().iter().map(ToString::to_string).collect(),
    };
    let machine = Some(Report { findings: Capability::ALL.into_iter().map(find).collect() });
    Files { name: "ab12".to_owned(), plan, machine, history, results }
}

/// Fails unless every tag that is opened is closed in order, and every `<` and `&` begins something.
fn assert_well_formed(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let body = page.split_once("</style>").unwrap().1;
    let mut rest = body.strip_prefix("</head>").unwrap();
    while let Some(begin) = rest.find('<') {
        let end = begin + rest[begin..].find('>').expect("a tag ends");
        let tag = &rest[begin + 1..end];
        assert!(!rest[..begin].contains('>'), "{:?}", &rest[..begin]);
        match tag.strip_prefix('/') {
            Some("html") => assert!(open.is_empty()),
            Some(name) => assert_eq!(open.pop(), Some(name), "near {:?}", &rest[..end]),
            None if tag.ends_with('/') => {}
            None => open.push(tag.split(' ').next().unwrap()),
        }
        assert!(tag.matches('"').count().is_multiple_of(2), "{tag}");
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "{open:?}");
    for part in body.split('&').skip(1) {
        let entity = part.split(';').next().unwrap();
        assert!(matches!(entity, "amp" | "lt" | "gt" | "quot" | "#39"), "&{entity}");
    }
    assert!(!body.contains("NaN") && !body.contains("inf\""), "a coordinate is no number");
}

#[test]
fn every_bad_golden_history_has_a_report_with_all_its_anomalies() {
    let mut reports = 0;
    for folder in fs::read_dir(golden("")).unwrap().map(Result::unwrap) {
        for file in fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
            let name = format!("{}/{}", folder.file_name().display(), file.file_name().display());
            if !name.ends_with(".jsonl") {
                continue;
            }
            let files = files(events(&name));
            let text = page(&files);
            assert_well_formed(&text);
            for judgement in &files.results.report.judgements {
                for (number, anomaly) in judgement.anomalies.iter().enumerate() {
                    let id = format!("id=\"{}\"", anchor(&judgement.id, number));
                    assert!(text.contains(&id), "{name}: no section {id}");
                    assert!(text.contains(&*escaped(&sentence(anomaly))), "{name}: {}", anomaly.what);
                }
            }
            reports += 1;
        }
    }
    assert!(reports > 100, "{reports}");
}

#[test]
fn a_report_tells_its_parts_in_order_and_needs_nothing_else() {
    let text = page(&files(events("A1/bad-table-misses.jsonl")));
    let parts =
        ["<h1>", "orloj-jepsen run --scenario smoke --seed 7", "id=\"invariants\"", "id=\"coverage\""];
    let later = ["id=\"machine\"", "id=\"time\"", "id=\"figures\"", "id=\"anomalies\"", "class=\"sequence\""];
    let places: Vec<usize> =
        parts.iter().chain(&later).map(|part| text.find(part).unwrap_or_else(|| panic!("{part}"))).collect();
    assert!(places.is_sorted(), "{places:?}");
    for foreign in ["<script", "http://", "https://", "url(", "@import", "<link", "<img"] {
        assert!(!text.contains(foreign), "{foreign}");
    }
    assert!(text.contains("could therefore not be exercised: disk.full"), "what the machine lacks");
    assert!(text.contains("a thread &lt;died&gt;"));
}

#[test]
fn what_a_replica_or_a_client_says_cannot_break_the_page() {
    let evil = "\"><script>alert(1)</script>&\u{0}";
    let mut events = events("D9/bad-another-result.jsonl");
    for event in &mut events {
        event.src.push_str(evil);
        event.err = Some(evil.to_owned());
        event.key = event.key.as_ref().map(|key| format!("{key}{evil}"));
        event.node = event.node.as_ref().map(|node| format!("{node}{evil}"));
        match &mut event.what {
            What::Submit(submit) => submit.label.push_str(evil),
            What::Start(start) => start.grant.task.push_str(evil),
            What::Recv(recv) => recv.executor.push_str(evil),
            What::Probe(probe) => probe.role.push_str(evil),
            _ => {}
        }
    }
    let mut files = files(events);
    files.results.scenario.push_str(evil);
    let text = page(&files);
    assert_well_formed(&text);
    assert!(!text.contains("<script"));
}

#[test]
fn a_chart_without_data_says_why() {
    let mut files = files(Vec::new());
    files.plan.steps.clear();
    files.machine = None;
    let text = page(&files);
    assert_well_formed(&text);
    for why in [
        "No fault was installed in this run",
        "The history has no operation of a client.",
        "No replica was looked at in this history.",
        "No handler started in this history.",
        "The plan has no faults",
        "The machine was not examined",
        "nothing to recover from",
    ] {
        assert!(text.contains(why), "{why}");
    }
}

#[test]
fn a_long_run_stays_small() {
    let mut events = Vec::new();
    let template = self::events("A1/bad-table-misses.jsonl");
    let submits: Vec<&Event> =
        template.iter().filter(|event| matches!(event.what, What::Submit(_))).collect();
    // A quarter of an hour of submissions and answers, each with its own latency.
    for number in 0..90_000_u64 {
        for (place, event) in (0_u64..).zip(submits.iter().take(2)) {
            let took = place * (1 + (number * 7_919) % 900_000);
            let key = Some(format!("tsk_{number}"));
            let mono_ns = number * 10_000_000 + took * 1_000;
            events.push(Event { mono_ns, proc: number, key, ..(*event).clone() });
        }
    }
    let files = files(Vec::new());
    let files = Files { history: History::merge(events), ..files };
    let text = page(&files);
    assert!(text.len() < 3_000_000, "{} bytes", text.len());
    assert_well_formed(&text);
}

#[test]
fn the_report_lies_in_the_folder_of_the_run() {
    let files = files(events("A1/bad-table-misses.jsonl"));
    let dir = tempfile::tempdir().unwrap();
    assert!(super::write(dir.path()).is_err(), "no plan");
    files.plan.save(&dir.path().join("plan.json")).unwrap();
    let lines: Vec<String> =
        files.history.events().iter().map(|event| serde_json::to_string(event).unwrap()).collect();
    fs::write(dir.path().join("history.jsonl"), lines.join("\n")).unwrap();
    fs::write(dir.path().join("results.json"), serde_json::to_string(&files.results).unwrap()).unwrap();
    super::write(dir.path()).unwrap();
    let text = fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert!(text.starts_with("<!doctype html>") && text.contains("<h1>Invalid</h1>"));
}
