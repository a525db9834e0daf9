//! The examples of `docs/triggers.md`, line by line.

#![allow(clippy::unwrap_used, reason = "a failed test")]

use orloj_model::id::Millis;
use orloj_model::trigger::{
    Cron, DayRule, Dst, Gap, Kind, Limits, Overlap, Progress, Schedule, SkipReason, Trigger,
};

const GUIDE: &str = include_str!("../../../docs/triggers.md");

fn at(text: &str) -> Millis {
    text.parse::<jiff::Timestamp>().unwrap().as_millisecond()
}

fn policy(text: &str) -> Dst {
    let (gap, overlap) = text.split_once(", ").unwrap();
    let gap = if gap == "skip" { Gap::Skip } else { Gap::Shift };
    let overlap = match overlap {
        "second" => Overlap::Second,
        "both" => Overlap::Both,
        _ => Overlap::First,
    };
    Dst { gap, overlap }
}

/// The rows of the tables whose first column is called `expression`.
fn examples() -> Vec<Vec<String>> {
    let mut inside = false;
    let mut rows = Vec::new();
    for line in GUIDE.lines() {
        inside = line.starts_with("| expression |") || inside && line.starts_with('|');
        if inside && !line.starts_with("| expression |") && !line.starts_with("|---") {
            let cells = line.trim_matches('|').split('|');
            rows.push(cells.map(|cell| cell.trim().trim_matches('`').to_string()).collect());
        }
    }
    rows
}

#[test]
fn every_example_of_the_guide_fires_as_it_says() {
    let rows = examples();
    assert!(rows.len() > 15, "the tables are not found");
    for row in rows {
        let (zone, dst, from, fires) = match &row[1..] {
            [zone, from, fires] => (zone, Dst::default(), from, fires),
            [zone, dst, from, fires] => (zone, policy(dst), from, fires),
            _ => panic!("a row of another shape: {row:?}"),
        };
        let cron = Cron::new(&row[0], zone, dst, DayRule::Or, 0).unwrap();
        let trigger = Trigger::new(Kind::Cron(cron), Limits::default()).unwrap();
        let schedule = Schedule::new("guide", &[trigger], &[]).unwrap();
        let right: Vec<Millis> = fires.split(", ").map(at).collect();
        let preview = schedule.preview(&Progress::default(), at(from), right.len());
        let found: Vec<Millis> = preview.fires.iter().map(|fire| fire.scheduled_at).collect();
        assert_eq!(found, right, "{row:?}");
    }
}

#[test]
fn what_the_guide_calls_refused_is_refused() {
    for expression in ["0 0 30 2 *", "0 0 * * L", "*/90 * * * *", "TZ=UTC 0 0 * * *", "? 0 * * *"] {
        assert!(Cron::new(expression, "UTC", Dst::default(), DayRule::Or, 0).is_err(), "{expression}");
    }
    assert!(Cron::new("0 0 * * *", "+08:00", Dst::default(), DayRule::Or, 0).is_err());
}

#[test]
fn the_reasons_in_the_guide_are_those_of_the_api() {
    for reason in SkipReason::ALL {
        assert!(GUIDE.contains(&format!("`{}`", reason.name())), "{reason:?}");
        assert_eq!(serde_json::to_value(reason).unwrap(), reason.name());
    }
}
