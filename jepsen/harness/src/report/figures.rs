//! The figures of the run: recovery by kind of fault, waits, lag.

use std::collections::BTreeMap;

use orloj_jepsen_core::verdict::Judgement;

use super::chart::at;
use super::markup::Markup;
use super::scale::{duration, number};
use super::subject::Subject;

/// Width of the longest bar.
const BAR: f64 = 220.0;

/// The figures of one kind of fault, in ms.
#[derive(Debug, Default, PartialEq)]
struct Recovery {
    count: f64,
    /// Median and greatest time until a write was acknowledged.
    write: (Option<f64>, Option<f64>),
    /// The same until a push of the new round was taken.
    dispatch: (Option<f64>, Option<f64>),
}

/// Reads what the checker of recovery measured: `write_ms.p50.<kind>` and so on.
fn recoveries(judgement: &Judgement) -> BTreeMap<&str, Recovery> {
    let mut kinds: BTreeMap<&str, Recovery> = BTreeMap::new();
    for (name, value) in &judgement.stats {
        let Some((what, rest)) = name.split_once('.') else { continue };
        if what == "count" {
            kinds.entry(rest).or_default().count = *value;
            continue;
        }
        let Some((figure, kind)) = rest.split_once('.') else { continue };
        let one = kinds.entry(kind).or_default();
        let pair = match what {
            "write_ms" => &mut one.write,
            "dispatch_ms" => &mut one.dispatch,
            _ => continue,
        };
        match figure {
            "p50" => pair.0 = Some(*value),
            _ => pair.1 = Some(*value),
        }
    }
    kinds
}

fn judgement<'a>(subject: &Subject<'a>, id: &str) -> Option<&'a Judgement> {
    subject.files.results.report.judgements.iter().find(|judgement| judgement.id == id)
}

/// The whole part.
pub fn section(subject: &Subject<'_>) -> Markup {
    let mut page = Markup::default();
    page.leaf("h3", &[], "Recovery after the leader is gone, by kind of fault");
    let kinds = judgement(subject, "L3").map(recoveries).unwrap_or_default();
    let limit = subject.files.plan.options.check.recovery_ms as f64;
    if kinds.is_empty() {
        let text = "No fault took the leader (or the majority) away, so there was nothing to recover from.";
        page.leaf("p", &[("class", "nothing")], text);
    } else {
        let text = format!(
            "From the fault (of a majority: from its undoing) until the first write that was asked for \
             after it was acknowledged, and until an executor took a push of the new leader's round. Only \
             faults that no other fault met are measured. The bound is {}.",
            duration(limit)
        );
        page.leaf("p", &[("class", "caption")], &text);
        table(&mut page, &kinds);
    }
    others(subject, &mut page);
    page
}

fn table(page: &mut Markup, kinds: &BTreeMap<&str, Recovery>) {
    let all = kinds.values().flat_map(|kind| [kind.write.1, kind.dispatch.1]).flatten();
    let longest = all.fold(1.0, f64::max);
    page.wrap("div", &[("class", "wide")], |page| {
        page.wrap("table", &[("class", "counts recovery")], |table| {
            let head =
                ["Fault", "Measured", "First write, median", "longest", "First push, median", "longest", ""];
            table.row("th", &head);
            for (name, kind) in kinds {
                table.wrap("tr", &[], |row| {
                    row.leaf("td", &[("class", "id")], name);
                    row.leaf("td", &[("class", "n")], &number(kind.count));
                    for time in [kind.write.0, kind.write.1, kind.dispatch.0, kind.dispatch.1] {
                        let text = time.map_or("\u{00b7}".to_owned(), duration);
                        row.leaf("td", &[("class", "n")], &text);
                    }
                    row.wrap("td", &[], |cell| bars(cell, kind, longest));
                });
            }
        });
    });
    let keys =
        [("write-bar", "first write"), ("push-bar", "first push; pale: the longest, full: the median")];
    page.add(&super::chart::legend(&keys));
}

fn bars(cell: &mut Markup, kind: &Recovery, longest: f64) {
    let view = format!("0 0 {} 20", at(BAR));
    cell.wrap("svg", &[("viewBox", &view), ("class", "bars"), ("aria-hidden", "true")], |svg| {
        for (class, y, pair) in [("write-bar", "1", kind.write), ("push-bar", "11", kind.dispatch)] {
            for (class, time) in [(format!("{class} most"), pair.1), (class.to_owned(), pair.0)] {
                let Some(time) = time else { continue };
                let width = at((time / longest * BAR).max(1.0));
                let place = [("class", &*class), ("x", "0"), ("y", y), ("width", &width), ("height", "8")];
                svg.empty("rect", &place);
            }
        }
    });
}

/// Other figures that people ask for.
fn others(subject: &Subject<'_>, page: &mut Markup) {
    let wanted = [
        ("L1", "served_after_ms", "After the last heal a leader served after"),
        ("L1", "first_fresh_ack_ms", "After the last heal fresh work was acknowledged after"),
        ("T6", "late_ms.p50", "Delayed tasks without a fault near: lateness, median"),
        ("T6", "late_ms.p99", "Delayed tasks without a fault near: lateness, p99"),
        ("T6", "late_ms.max", "Delayed tasks without a fault near: lateness, longest"),
        ("D12", "executors_full_ms", "No executor had a free slot for, in all"),
    ];
    let mut found: Vec<(&str, String)> = Vec::new();
    for (id, name, text) in wanted {
        let value = judgement(subject, id).and_then(|word| word.stats.get(name));
        found.extend(value.map(|value| (text, duration(*value))));
    }
    if let Some(longest) = judgement(subject, "D12").and_then(longest_wait) {
        found.push(("A ready task waited for a slot at most", duration(longest)));
    }
    page.leaf("h3", &[], "Other figures");
    if found.is_empty() {
        page.leaf("p", &[("class", "nothing")], "The checkers measured nothing else.");
        return;
    }
    page.wrap("table", &[("class", "counts")], |table| {
        for (text, value) in &found {
            table.wrap("tr", &[], |row| {
                row.leaf("td", &[], text).leaf("td", &[("class", "n")], value);
            });
        }
    });
}

fn longest_wait(word: &Judgement) -> Option<f64> {
    let waits = word.stats.iter().filter(|(name, _)| name.starts_with("longest_wait_ms"));
    waits.map(|(_, ms)| *ms).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_recovery_are_read_by_kind() {
        let mut word = Judgement::of("L3");
        word.stat("count.process.kill", 4.0);
        word.stat("write_ms.p50.process.kill", 900.0);
        word.stat("write_ms.max.process.kill", 1_200.0);
        word.stat("dispatch_ms.max.power.fail", 7.0);
        word.stat("looked_at", 4.0);
        let kinds = recoveries(&word);
        assert_eq!(kinds.len(), 2);
        let kill = Recovery { count: 4.0, write: (Some(900.0), Some(1_200.0)), dispatch: (None, None) };
        assert_eq!(kinds["process.kill"], kill);
        assert_eq!(kinds["power.fail"].dispatch, (None, Some(7.0)));
    }
}
