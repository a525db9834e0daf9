//! What each replica took itself for: role, term, round.

use orloj_jepsen_core::event::{Probe, What};

use super::chart::{Chart, legend};
use super::markup::Markup;
use super::scale::number;
use super::subject::{SECOND, Subject};

/// Height of the lane of one replica.
const LANE: f64 = 40.0;
/// Probes come ten times a second: without one for so long a replica did not answer, in ns.
const SILENT: u64 = SECOND;
/// Room that one character of a label takes.
const CHARACTER: f64 = 6.4;

/// A time in which a replica said the same of itself.
#[derive(Debug, PartialEq)]
struct Stretch<'a> {
    from_ns: u64,
    until_ns: u64,
    role: &'a str,
    term: u64,
    serving: Option<u64>,
}

impl Stretch<'_> {
    fn says(&self, probe: &Probe) -> bool {
        self.role == probe.role && self.term == probe.term && self.serving == probe.serving
    }
}

fn stretches<'a>(subject: &Subject<'a>, node: &str) -> Vec<Stretch<'a>> {
    let mut stretches: Vec<Stretch<'a>> = Vec::new();
    let mut seen = 0;
    for event in subject.files.history.events() {
        let What::Probe(probe) = &event.what else { continue };
        if event.node.as_deref() != Some(node) {
            continue;
        }
        let now = event.mono_ns;
        let silent = now.saturating_sub(seen) > SILENT;
        match stretches.last_mut() {
            Some(last) if !silent && last.says(probe) => last.until_ns = now,
            last => {
                if let Some(last) = last.filter(|_| !silent) {
                    last.until_ns = now;
                }
                stretches.push(Stretch {
                    from_ns: now,
                    until_ns: now,
                    role: &probe.role,
                    term: probe.term,
                    serving: probe.serving,
                });
            }
        }
        seen = now;
    }
    stretches
}

fn class(role: &str) -> &'static str {
    match role {
        "leader" => "role leader",
        "follower" => "role follower",
        "candidate" => "role candidate",
        "learner" => "role learner",
        _ => "role other",
    }
}

/// The longest of these labels that fits.
fn fitting(labels: &[String], room: f64) -> Option<&str> {
    let fits = |label: &&String| label.len() as f64 * CHARACTER <= room;
    labels.iter().find(fits).map(String::as_str)
}

/// One lane for each replica.
pub fn figure(subject: &Subject<'_>) -> Markup {
    let replicas = subject.replicas();
    let mut chart = Chart::whole(subject, LANE * replicas.len().max(1) as f64);
    let names: Vec<String> = replicas.iter().map(|name| (*name).to_owned()).collect();
    let lanes = chart.lanes(&names);
    for (node, (y, height)) in replicas.iter().zip(lanes) {
        for stretch in stretches(subject, node) {
            if !chart.shows(stretch.from_ns, stretch.until_ns) {
                continue;
            }
            draw(subject, &mut chart, &stretch, y, height);
        }
    }
    chart.figure(
        "Roles, terms and rounds",
        "What each replica said of itself, ten times a second. A t is the Raft term, an r the scheduling \
         round in which it served; the bar at the bottom of a lane is the time in which it handed tasks \
         out. An empty stretch: it did not answer (stopped, dead, or too busy).",
        &legend(&[
            ("role leader", "leader"),
            ("serving", "leader that serves its round"),
            ("role follower", "follower"),
            ("role candidate", "candidate"),
            ("role learner", "learner"),
            ("role other", "joining or stopped"),
        ]),
        "No replica was looked at in this history.",
    )
}

fn draw(subject: &Subject<'_>, chart: &mut Chart, stretch: &Stretch<'_>, y: f64, height: f64) {
    let (x, end) = (chart.x(stretch.from_ns), chart.x(stretch.until_ns));
    let (role, term) = (stretch.role, stretch.term);
    let round = stretch.serving.map(|round| format!(", serves round {round}")).unwrap_or_default();
    let tip = format!(
        "{role} of term {term}{round}, {} s to {} s",
        number(subject.seconds(stretch.from_ns)),
        number(subject.seconds(stretch.until_ns))
    );
    chart.rect(class(role), x, y + 3.0, end - x, height - 6.0, &tip);
    if stretch.serving.is_some() {
        chart.rect("serving", x, y + height - 9.0, end - x, 6.0, &tip);
    }
    let short = format!("t{term}");
    let long = stretch.serving.map(|round| format!("t{term} r{round}"));
    let labels: Vec<String> = long.into_iter().chain([short]).collect();
    if let Some(label) = fitting(&labels, end - x) {
        let class = if role == "leader" { "inside mid" } else { "lane-label mid" };
        chart.text(class, (x + end) / 2.0, y + height / 2.0 + 1.0, label);
    }
}
