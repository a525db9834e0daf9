//! The examples of `docs/jobs.md`, line by line.

#![allow(clippy::unwrap_used, reason = "a failed test")]

use orloj_model::id::Millis;
use orloj_model::trigger::{CatchUp, Misfire, Progress, Schedule};
use orloj_wire::rest::job::JobSpec;
use orloj_wire::rest::trigger::TriggerSpec;
use orloj_wire::time::Time;

const GUIDE: &str = include_str!("../../../docs/jobs.md");

/// The cells of every row of the table that begins with `first`, without their backticks.
fn rows(first: &str) -> Vec<Vec<String>> {
    let cell = |cell: &str| cell.trim().trim_matches('`').to_owned();
    GUIDE
        .lines()
        .skip_while(|line| !line.starts_with(first))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(cell).collect())
        .collect()
}

/// Each kind of trigger has its row.
fn names_every_kind(rows: &[Vec<String>]) {
    for kind in ["cron", "fixedRate", "fixedDelay", "once", "dailyWindow"] {
        let named = format!("\"kind\":\"{kind}\"");
        assert!(rows.iter().any(|row| row[0].contains(&named)), "{kind} is not in the table");
    }
}

fn at(text: &str) -> Millis {
    Time::parse(text).unwrap_or_else(|error| panic!("{error}")).0
}

fn instants(cell: &str) -> Vec<Millis> {
    if cell == "–" { Vec::new() } else { cell.split(", ").map(at).collect() }
}

fn schedule(trigger: &str, created: Millis) -> Schedule {
    let spec: TriggerSpec =
        serde_json::from_str(trigger).unwrap_or_else(|error| panic!("{trigger}: {error}"));
    let trigger = spec.check(created).unwrap_or_else(|error| panic!("{error}"));
    Schedule::new("guide", &[trigger], &[]).unwrap()
}

#[test]
fn every_kind_fires_as_the_guide_says_also_at_the_clock_change() {
    let rows = rows("| trigger | from | fires |");
    assert!(rows.len() >= 7, "the table is not found");
    names_every_kind(&rows);
    for row in rows {
        let [trigger, from, fires] = &row[..] else { panic!("three cells: {row:?}") };
        let right = instants(fires);
        let preview = schedule(trigger, at(from)).preview(&Progress::default(), at(from), right.len());
        let found: Vec<Millis> = preview.fires.iter().map(|fire| fire.scheduled_at).collect();
        assert_eq!(found, right, "{row:?}");
    }
}

#[test]
fn what_was_missed_becomes_what_the_guide_says() {
    let rows = rows("| trigger | misfire | decided |");
    assert!(rows.len() >= 9, "the table is not found");
    names_every_kind(&rows);
    for row in rows {
        let [trigger, misfire, decided, back, fires, skipped] = &row[..] else {
            panic!("six cells: {row:?}")
        };
        let policy = match misfire.as_str() {
            "skip" => Misfire::Skip,
            "fireOnce" => Misfire::FireOnce,
            "fireAll" => Misfire::FireAll { cap: 100 },
            other => panic!("{other}"),
        };
        let progress = Progress { last_ended: Some(at(decided)), ..Progress::default() };
        let catch_up = CatchUp { policy, ..CatchUp::default() };
        let due = schedule(trigger, at(decided)).catch_up(catch_up, &progress, at(decided), at(back));
        let found: Vec<Millis> = due.fires.iter().map(|fire| fire.scheduled_at).collect();
        assert_eq!(found, instants(fires), "{row:?}");
        let count: u64 = due.skipped.iter().map(|missed| missed.count).sum();
        assert_eq!(count.to_string(), *skipped, "{row:?}");
    }
}

#[test]
fn every_field_of_a_definition_stands_in_the_guide() {
    let full = JobSpec::new("echo", serde_json::json!({})).spelled_out(0).unwrap();
    let mut fields: Vec<String> =
        serde_json::to_value(full).unwrap().as_object().unwrap().keys().cloned().collect();
    fields.extend(
        [
            "jobId",
            "misfireCap",
            "maxRunning",
            "timeoutMs",
            "expireAfterMs",
            "routingKey",
            "zone",
            "businessKey",
        ]
        .map(str::to_owned),
    );
    for field in fields {
        let found = GUIDE.lines().any(|line| line.starts_with("| `") && line.contains(&format!("`{field}`")));
        assert!(found, "{field} is not in the table of fields");
    }
}
