//! One section for each anomaly: what is wrong, who told whom what, and what else happened around it.

use std::collections::{BTreeMap, BTreeSet};

use orloj_jepsen_core::event::{Event, What};
use orloj_jepsen_core::spans::Spans;
use orloj_jepsen_core::verdict::{Anomaly, Judgement, Validity};

use super::markup::Markup;
use super::sequence::{diagram, thousandths};
use super::subject::{SECOND, Subject};
use super::{invariants, tell};

/// Anomalies of one invariant that get a section of their own.
const SHOWN: usize = 8;
/// So much of the history is told on both sides of an event that shows an anomaly, in ns.
const AROUND: u64 = 5 * SECOND;
/// Rows of the table of one anomaly.
const ROWS: usize = 80;

/// The anchor of an anomaly, for links.
pub fn anchor(id: &str, number: usize) -> String {
    format!("anomaly-{id}-{number}")
}

/// All sections.
pub fn sections(subject: &Subject<'_>) -> Markup {
    let mut page = Markup::default();
    let words = &subject.files.results.report.judgements;
    let mut bad: Vec<&Judgement> = words.iter().filter(|word| !word.anomalies.is_empty()).collect();
    // Violations first; the order of the table otherwise.
    bad.sort_by_key(|word| std::cmp::Reverse(word.validity));
    if bad.is_empty() {
        page.leaf("p", &[("class", "nothing")], "No checker found anything to complain about.");
    } else {
        let text = "Rows that show the anomaly are shaded. A dashed arrow: the history does not name the \
                    replica that an executor talked to, so the one that led is drawn.";
        page.leaf("p", &[("class", "caption")], text);
    }
    let roles = changes_of_role(subject);
    for word in bad {
        invariant(subject, &mut page, word, &roles);
    }
    page
}

fn invariant(subject: &Subject<'_>, page: &mut Markup, word: &Judgement, roles: &BTreeSet<u64>) {
    let kept = word.anomalies.len();
    let title = format!("{}: {}", word.id, invariants::about(&word.id).1);
    page.leaf("h3", &[("id", &format!("invariant-{}", word.id))], &title);
    let of = match word.anomaly_count {
        1 => "One anomaly.".to_owned(),
        all if all > kept as u64 => format!("{all} anomalies, of which the first {kept} were kept."),
        all => format!("{all} anomalies."),
    };
    page.leaf("p", &[("class", "caption")], &of);
    for (number, anomaly) in word.anomalies.iter().enumerate() {
        if number < SHOWN {
            section(subject, page, word, number, anomaly, roles);
        }
    }
    if kept > SHOWN {
        page.wrap("details", &[], |more| {
            more.leaf("summary", &[], &format!("{} more of {}, as sentences", kept - SHOWN, word.id));
            more.wrap("ul", &[], |list| {
                for (number, anomaly) in word.anomalies.iter().enumerate().skip(SHOWN) {
                    let text = sentence(anomaly);
                    list.leaf("li", &[("id", &anchor(&word.id, number))], &text);
                }
            });
        });
    }
}

/// What is wrong, and with which task.
pub fn sentence(anomaly: &Anomaly) -> String {
    match &anomaly.task {
        Some(task) => format!("{} \u{2014} {task}", anomaly.what),
        None => anomaly.what.clone(),
    }
}

fn section(
    subject: &Subject<'_>,
    page: &mut Markup,
    word: &Judgement,
    number: usize,
    anomaly: &Anomaly,
    roles: &BTreeSet<u64>,
) {
    let class = if word.validity == Validity::Invalid { "anomaly invalid" } else { "anomaly unknown" };
    page.wrap("section", &[("class", class), ("id", &anchor(&word.id, number))], |section| {
        section.wrap("p", &[("class", "sentence")], |line| {
            line.leaf("b", &[], &format!("{} #{}", word.id, number + 1)).text(" ").text(&sentence(anomaly));
        });
        let cited: BTreeSet<u64> = anomaly.events.iter().copied().collect();
        if cited.is_empty() && anomaly.task.is_none() {
            let why = "It is about the run as a whole: no single event shows it.";
            section.leaf("p", &[("class", "nothing")], why);
            return;
        }
        let around = around(subject, anomaly, &cited);
        let story = story(subject, anomaly, &cited, &around, roles);
        section.leaf("h4", &[], story.title);
        section.add(&diagram(subject, &story.events, &cited));
        section.wrap("details", &[], |more| {
            more.leaf("summary", &[], "Events within 5 s of it");
            slice(subject, more, anomaly, &cited, &around, roles);
        });
    });
}

/// The time around what shows the anomaly; around the whole task when nothing is cited.
fn around(subject: &Subject<'_>, anomaly: &Anomaly, cited: &BTreeSet<u64>) -> Spans {
    let history = &subject.files.history;
    let mut instants: Vec<u64> =
        cited.iter().filter_map(|number| history.event(*number)).map(|event| event.mono_ns).collect();
    if instants.is_empty() {
        let own = history.events().iter().filter(|event| is_of_task(event, anomaly.task.as_deref()));
        instants.extend(own.map(|event| event.mono_ns));
    }
    Spans::of(instants.into_iter().map(|at| (at.saturating_sub(AROUND), at + AROUND)))
}

fn is_of_task(event: &Event, task: Option<&str>) -> bool {
    task.is_some_and(|task| event.key.as_deref() == Some(task))
}

/// What concerns everybody: faults, processes, phases, executors that come and go, and changes of role.
fn concerns_all(event: &Event, roles: &BTreeSet<u64>) -> bool {
    match event.what {
        What::Fault(_) | What::Process(_) | What::Phase(_) => true,
        What::ExecutorUp(_) | What::ExecutorDown(_) => true,
        What::Probe(_) => roles.contains(&event.i),
        _ => false,
    }
}

/// Probes in which a replica says something else of its role or its round than before.
fn changes_of_role(subject: &Subject<'_>) -> BTreeSet<u64> {
    let mut last: BTreeMap<&str, (&str, Option<u64>)> = BTreeMap::new();
    let mut changes = BTreeSet::new();
    for event in subject.files.history.events() {
        let (What::Probe(probe), Some(node)) = (&event.what, event.node.as_deref()) else { continue };
        let now = (probe.role.as_str(), probe.serving);
        if last.insert(node, now) != Some(now) {
            changes.insert(event.i);
        }
    }
    changes
}

struct Story<'a> {
    title: &'static str,
    events: Vec<&'a Event>,
}

/// What the diagram shows: the life of the task, and what concerned everybody near what is cited.
fn story<'a>(
    subject: &Subject<'a>,
    anomaly: &Anomaly,
    cited: &BTreeSet<u64>,
    around: &Spans,
    roles: &BTreeSet<u64>,
) -> Story<'a> {
    let task = anomaly.task.as_deref();
    let labels = labels(subject, task);
    let events = subject.files.history.events().iter().filter(|event| {
        cited.contains(&event.i)
            || is_of_task(event, task)
            || is_request(event, &labels)
            || (concerns_all(event, roles) && around.touch(event.mono_ns, event.mono_ns))
    });
    let title = match task {
        Some(_) => "The task from all sides, with what concerned everybody near it",
        None => "What is cited, with what concerned everybody near it",
    };
    Story { title, events: events.collect() }
}

/// Names that the harness had for a task before it knew its id.
fn labels<'a>(subject: &Subject<'a>, task: Option<&str>) -> BTreeSet<&'a str> {
    let life = task.and_then(|task| subject.tasks.by_id.get(task));
    let submits = life.into_iter().flat_map(|life| &life.submits);
    submits.filter_map(|operation| operation.invoke.key.as_deref()).collect()
}

fn is_request(event: &Event, labels: &BTreeSet<&str>) -> bool {
    let by_key = event.key.as_deref().is_some_and(|key| labels.contains(key));
    by_key && matches!(event.what, What::Submit(_) | What::Effect(_))
}

/// The table of what happened around it. What is about other tasks is counted.
fn slice(
    subject: &Subject<'_>,
    page: &mut Markup,
    anomaly: &Anomaly,
    cited: &BTreeSet<u64>,
    around: &Spans,
    roles: &BTreeSet<u64>,
) {
    let task = anomaly.task.as_deref();
    let labels = labels(subject, task);
    let mut others: BTreeMap<&str, u64> = BTreeMap::new();
    let mut rows: Vec<&Event> = Vec::new();
    for event in subject.files.history.events() {
        if !around.touch(event.mono_ns, event.mono_ns) {
            continue;
        }
        let own = cited.contains(&event.i) || is_of_task(event, task) || is_request(event, &labels);
        if own || concerns_all(event, roles) {
            rows.push(event);
        } else {
            *others.entry(tell::name(event)).or_default() += 1;
        }
    }
    let left_out = rows.len().saturating_sub(ROWS);
    if left_out > 0 {
        let mut kept = 0;
        rows.retain(|event| {
            kept += 1;
            kept <= ROWS || cited.contains(&event.i)
        });
    }
    page.wrap("div", &[("class", "wide")], |page| {
        page.wrap("table", &[("class", "events")], |table| {
            table.row("th", &["#", "s", "written by", "at", "what", "", "about", ""]);
            let mut last: Option<u64> = None;
            for event in &rows {
                if last.is_some_and(|last| event.mono_ns - last > 2 * AROUND) {
                    table.row("td", &["", "\u{2026}", "", "", "", "", "", ""]);
                }
                last = Some(event.mono_ns);
                event_row(subject, table, event, cited.contains(&event.i));
            }
        });
    });
    let others: Vec<String> = others.iter().map(|(name, count)| format!("{count} {name}")).collect();
    if !others.is_empty() {
        let text = format!("In the same time, about other tasks or without news: {}.", others.join(", "));
        page.leaf("p", &[("class", "caption")], &text);
    }
    if left_out > 0 {
        page.leaf("p", &[("class", "caption")], &format!("{left_out} more rows are left out."));
    }
}

fn event_row(subject: &Subject<'_>, table: &mut Markup, event: &Event, cited: bool) {
    let class = if cited { "cited" } else { "" };
    table.wrap("tr", &[("class", class)], |row| {
        let (number, time) = (event.i.to_string(), thousandths(subject.seconds(event.mono_ns)));
        let (node, key) = (event.node.as_deref().unwrap_or(""), event.key.as_deref().unwrap_or(""));
        for text in [&number, &*time, &event.src, node, tell::name(event), tell::kind(event), key] {
            row.leaf("td", &[], text);
        }
        row.leaf("td", &[("class", "detail")], &tell::detail(event));
    });
}
