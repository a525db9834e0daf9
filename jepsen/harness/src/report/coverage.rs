//! What the plan asked for, and what of it really happened.

use std::collections::{BTreeMap, BTreeSet};

use orloj_jepsen_core::check::coverage::counters;
use orloj_jepsen_core::event::{Fault, What};

use super::markup::Markup;
use super::scale::{duration, number};
use super::subject::Subject;
use crate::plan::Step;

/// What became of a step of the plan.
#[derive(Debug, Default)]
struct Became<'a> {
    /// The last words on it: `installed`, `skipped` and so on, without `undone`.
    phases: BTreeSet<&'a str>,
    nodes: BTreeSet<&'a str>,
    on_leader: bool,
    at_ns: Option<u64>,
    undone_ns: Option<u64>,
    details: BTreeSet<&'a str>,
}

/// The counts of one kind of fault.
#[derive(Debug, Default)]
struct Kind {
    planned: u64,
    installed: u64,
    skipped: u64,
    failed: u64,
    unheard: u64,
    on_leader: u64,
}

fn became<'a>(subject: &Subject<'a>) -> BTreeMap<u64, Became<'a>> {
    let mut all: BTreeMap<u64, Became<'a>> = BTreeMap::new();
    for event in subject.files.history.events() {
        let What::Fault(fault) = &event.what else { continue };
        let one = all.entry(fault.step).or_default();
        let Fault { nodes, on_leader, phase, detail, .. } = fault;
        one.nodes.extend(nodes.iter().map(String::as_str));
        one.details.extend(Some(detail.as_str()).filter(|detail| !detail.is_empty()));
        if phase == "undone" {
            one.undone_ns = Some(event.mono_ns);
        } else {
            one.phases.insert(phase);
            one.on_leader |= on_leader;
            one.at_ns = one.at_ns.or(Some(event.mono_ns));
        }
    }
    all
}

/// The whole part.
pub fn section(subject: &Subject<'_>) -> Markup {
    let became = became(subject);
    let mut page = Markup::default();
    kinds(subject, &mut page, &became);
    page.wrap("details", &[], |more| {
        let steps = subject.files.plan.steps.len();
        more.leaf("summary", &[], &format!("Every step of the plan ({steps})"));
        steps_table(subject, more, &became);
    });
    required(subject, &mut page);
    page
}

fn kinds(subject: &Subject<'_>, page: &mut Markup, became: &BTreeMap<u64, Became<'_>>) {
    let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
    for step in &subject.files.plan.steps {
        let kind = kinds.entry(step.action.full_name()).or_default();
        kind.planned += 1;
        let Some(one) = became.get(&step.number) else {
            kind.unheard += 1;
            continue;
        };
        let installed = one.phases.contains("installed");
        kind.installed += u64::from(installed);
        kind.on_leader += u64::from(installed && one.on_leader);
        kind.skipped += u64::from(!installed && one.phases.contains("skipped"));
        kind.failed += u64::from(one.phases.contains("failed") || one.phases.contains("indeterminate"));
    }
    page.leaf("h3", &[], "Faults by kind");
    if kinds.is_empty() {
        page.leaf("p", &[("class", "nothing")], "The plan has no faults: this is a run in calm.");
        return;
    }
    page.wrap("table", &[("class", "counts")], |table| {
        let head = [
            "Fault",
            "Planned",
            "Installed",
            "\u{2026} on the leader",
            "\u{2026} not on it",
            "Skipped",
            "Failed or in doubt",
            "Never tried",
        ];
        table.row("th", &head);
        for (name, kind) in &kinds {
            let short = if kind.installed == 0 { "missing" } else { "" };
            table.wrap("tr", &[("class", short)], |row| {
                row.leaf("td", &[("class", "id")], name);
                let elsewhere = kind.installed - kind.on_leader;
                for count in [
                    kind.planned,
                    kind.installed,
                    kind.on_leader,
                    elsewhere,
                    kind.skipped,
                    kind.failed,
                    kind.unheard,
                ] {
                    let text = if count == 0 { "\u{00b7}".to_owned() } else { count.to_string() };
                    row.leaf("td", &[("class", "n")], &text);
                }
            });
        }
    });
}

fn steps_table(subject: &Subject<'_>, page: &mut Markup, became: &BTreeMap<u64, Became<'_>>) {
    page.wrap("div", &[("class", "wide")], |page| {
        page.wrap("table", &[("class", "steps")], |table| {
            let head = [
                "Step",
                "Fault",
                "Meant for",
                "Planned at",
                "Planned for",
                "What became of it",
                "Hit",
                "Installed at",
                "Lasted",
                "Details",
            ];
            table.row("th", &head);
            for step in &subject.files.plan.steps {
                step_row(subject, table, step, became.get(&step.number));
            }
        });
    });
}

fn step_row(subject: &Subject<'_>, table: &mut Markup, step: &Step, one: Option<&Became<'_>>) {
    let fate = one.map_or("never tried".to_owned(), |one| join(&one.phases));
    let class = if fate == "installed" { "" } else { "missing" };
    table.wrap("tr", &[("class", class)], |row| {
        let hit = one.map_or(String::new(), |one| {
            let leader = if one.on_leader { " (leader)" } else { "" };
            format!("{}{leader}", join(&one.nodes))
        });
        let at = one.and_then(|one| one.at_ns);
        let lasted = one.and_then(|one| Some((one.undone_ns?.saturating_sub(one.at_ns?)) as f64 / 1e6));
        let details = one.map_or(step.action.parameters(), |one| join(&one.details));
        let cells = [
            step.number.to_string(),
            format!("{} {}", step.action.full_name(), step.action.parameters()),
            step.target.to_string(),
            duration(step.at_ms as f64),
            duration(step.for_ms as f64),
            fate,
            hit,
            at.map_or(String::new(), |at| format!("{} s", number(subject.seconds(at)))),
            lasted.map_or(String::new(), duration),
            details,
        ];
        for cell in &cells {
            row.leaf("td", &[], cell);
        }
    });
}

fn join(words: &BTreeSet<&str>) -> String {
    words.iter().copied().collect::<Vec<_>>().join(", ")
}

fn required(subject: &Subject<'_>, page: &mut Markup) {
    page.leaf("h3", &[], "What the run had to exercise");
    let required = &subject.files.plan.options.check.required;
    let seen = counters(&subject.files.history);
    if required.is_empty() {
        page.leaf("p", &[("class", "nothing")], "Nothing was required of this run.");
    } else {
        page.wrap("table", &[("class", "counts")], |table| {
            table.row("th", &["Counter", "Required", "Seen", ""]);
            for (name, wanted) in required {
                let count = seen.get(name).copied().unwrap_or(0);
                let (class, word) = if count < *wanted { ("missing", "not met") } else { ("", "met") };
                table.wrap("tr", &[("class", class)], |row| {
                    row.leaf("td", &[("class", "id")], name);
                    row.leaf("td", &[("class", "n")], &number(*wanted as f64));
                    row.leaf("td", &[("class", "n")], &number(count as f64));
                    row.leaf("td", &[], word);
                });
            }
        });
    }
    let others: Vec<String> = seen
        .iter()
        .filter(|(name, _)| !required.contains_key(*name) && !name.starts_with("fault:"))
        .map(|(name, count)| format!("{} {}", name.replace('_', " "), number(*count as f64)))
        .collect();
    if !others.is_empty() {
        let text = format!("Seen although nobody asked for it: {}.", others.join(" \u{00b7} "));
        page.leaf("p", &[("class", "caption")], &text);
    }
}
