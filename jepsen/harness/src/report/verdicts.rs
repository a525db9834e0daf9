//! The table of the invariants.

use orloj_jepsen_core::verdict::Judgement;

use super::anomalies::anchor;
use super::headline::{class, word};
use super::invariants::{Group, about};
use super::markup::Markup;
use super::scale::number;
use super::subject::Subject;

/// Figures that are shown at once; the others can be unfolded.
const FIGURES: usize = 6;
/// Links to anomalies in one row.
const LINKS: usize = 8;

/// The table.
pub fn table(subject: &Subject<'_>) -> Markup {
    let words = &subject.files.results.report.judgements;
    let mut page = Markup::default();
    if words.is_empty() {
        page.leaf("p", &[("class", "nothing")], "Nothing was judged.");
        return page;
    }
    page.wrap("div", &[("class", "wide")], |page| {
        page.wrap("table", &[("class", "invariants")], |table| {
            table.row("th", &["Id", "What it says", "Verdict", "Looked at", "Anomalies"]);
            for group in [Group::Safety, Group::Liveness, Group::Run] {
                let of_group: Vec<&Judgement> =
                    words.iter().filter(|word| about(&word.id).0 == group).collect();
                if of_group.is_empty() {
                    continue;
                }
                table.wrap("tr", &[("class", "group")], |row| {
                    row.leaf("th", &[("colspan", "5")], group.heading());
                });
                of_group.into_iter().for_each(|word| row(table, word));
            }
        });
    });
    page
}

fn row(table: &mut Markup, judgement: &Judgement) {
    table.wrap("tr", &[("class", class(judgement.validity))], |row| {
        row.leaf("td", &[("class", "id")], &judgement.id);
        row.leaf("td", &[("class", "says")], about(&judgement.id).1);
        row.wrap("td", &[], |cell| {
            let class = format!("badge {}", class(judgement.validity));
            cell.leaf("span", &[("class", &class)], word(judgement.validity));
        });
        row.wrap("td", &[("class", "figures")], |cell| figures(cell, judgement));
        row.wrap("td", &[("class", "links")], |cell| links(cell, judgement));
    });
}

fn figures(cell: &mut Markup, judgement: &Judgement) {
    let mut figures: Vec<String> = Vec::new();
    if let Some(count) = judgement.stats.get("looked_at") {
        let none = if *count == 0.0 { " (nothing of this kind happened)" } else { "" };
        figures.push(format!("looked at: {}{none}", number(*count)));
    }
    let others = judgement.stats.iter().filter(|(name, _)| *name != "looked_at");
    figures.extend(others.map(|(name, value)| format!("{}: {}", figure(name), number(*value))));
    if figures.len() <= FIGURES + 2 {
        cell.text(&figures.join(" \u{00b7} "));
        return;
    }
    cell.text(&figures[..FIGURES].join(" \u{00b7} "));
    cell.wrap("details", &[], |more| {
        more.leaf("summary", &[], &format!("{} more figures", figures.len() - FIGURES));
        more.text(&figures[FIGURES..].join(" \u{00b7} "));
    });
}

/// The name of a figure for people: `late_ms.p50` is `late ms, p50`. Names of faults stay as they are.
fn figure(name: &str) -> String {
    match name.split_once('.') {
        _ if name.starts_with("fault:") => name.to_owned(),
        Some((what, of)) => format!("{}, {}", what.replace('_', " "), of.replace('_', " ")),
        None => name.replace('_', " "),
    }
}

fn links(cell: &mut Markup, judgement: &Judgement) {
    if judgement.anomaly_count == 0 {
        cell.text("none");
        return;
    }
    cell.text(&format!("{}: ", number(judgement.anomaly_count as f64)));
    for number in 0..judgement.anomalies.len().min(LINKS) {
        let target = format!("#{}", anchor(&judgement.id, number));
        cell.leaf("a", &[("href", &target)], &format!("#{}", number + 1)).text(" ");
    }
    if judgement.anomalies.len() > LINKS {
        cell.leaf("a", &[("href", &format!("#invariant-{}", judgement.id))], "all");
    }
}

#[cfg(test)]
mod tests {
    use super::figure;

    #[test]
    fn figures_have_names_for_people() {
        assert_eq!(figure("acked_index"), "acked index");
        assert_eq!(figure("write_ms.max.partition.one-way-in"), "write ms, max.partition.one-way-in");
        assert_eq!(figure("fault:disk.full@leader"), "fault:disk.full@leader");
    }
}
