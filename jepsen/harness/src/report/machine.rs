//! What the machine could do, and what it could not exercise.

use std::collections::BTreeSet;

use super::markup::Markup;
use super::subject::Subject;

/// The whole part.
pub fn section(subject: &Subject<'_>) -> Markup {
    let mut page = Markup::default();
    let Some(machine) = &subject.files.machine else {
        let text =
            "The machine was not examined before this run, so nobody knows what it could not exercise.";
        page.leaf("p", &[("class", "nothing")], text);
        return page;
    };
    let missing: Vec<&str> =
        machine.findings.iter().filter(|finding| !finding.ok).map(|finding| finding.name.as_str()).collect();
    let text = match missing.is_empty() {
        true => "This machine could exercise every fault that the harness knows.".to_owned(),
        false => format!("This machine lacks: {}.", missing.join(", ")),
    };
    page.leaf("p", &[], &text);
    let mut planned: BTreeSet<String> = BTreeSet::new();
    for step in &subject.files.plan.steps {
        let name = step.action.full_name();
        if !machine.missing(&name).is_empty() {
            planned.insert(name);
        }
    }
    if !planned.is_empty() {
        let names = planned.into_iter().collect::<Vec<_>>().join(", ");
        let text = format!("Faults of the plan that could therefore not be exercised: {names}.");
        page.leaf("p", &[("class", "warning")], &text);
    }
    page.wrap("table", &[("class", "doctor")], |table| {
        table.row("th", &["Capability", "", "Needed for", "What was seen"]);
        for finding in &machine.findings {
            let (class, word) = if finding.ok { ("", "ok") } else { ("missing", "missing") };
            table.wrap("tr", &[("class", class)], |row| {
                let faults = match finding.faults.join(", ") {
                    none if none.is_empty() => "no fault".to_owned(),
                    all if all == "*" => "every run".to_owned(),
                    faults => faults,
                };
                for text in [&finding.name, word, &faults, &finding.detail] {
                    row.leaf("td", &[], text);
                }
            });
        }
    });
    page
}
