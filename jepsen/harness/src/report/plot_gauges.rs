//! What the replicas measured of themselves: wall clocks and memory.

use std::collections::BTreeMap;

use orloj_jepsen_core::event::{Probe, What};

use super::chart::{Chart, at, legend};
use super::markup::Markup;
use super::scale::{Scale, duration, number};
use super::subject::{SECOND, Subject};

/// Without a probe for so long a line breaks, in ns.
const SILENT: u64 = 3 * SECOND / 2;
/// Colours of the replicas.
const COLOURS: [&str; 5] = ["line n1", "line n2", "line n3", "line n4", "line n5"];
/// Bytes in a MiB.
const MIB: f64 = 1_048_576.0;

type Series<'a> = BTreeMap<&'a str, Vec<(u64, f64)>>;

fn series<'a>(subject: &Subject<'a>, value: impl Fn(&Probe) -> f64) -> Series<'a> {
    let mut all = Series::new();
    for event in subject.files.history.events() {
        let (What::Probe(probe), Some(node)) = (&event.what, event.node.as_deref()) else { continue };
        if event.mono_ns >= subject.zero_ns && event.mono_ns <= subject.end_ns {
            all.entry(node).or_default().push((event.mono_ns, value(probe)));
        }
    }
    all
}

/// A line through a series: of all points that fall on one column the least and the greatest.
fn line(chart: &Chart, scale: &Scale, points: &[(u64, f64)]) -> String {
    let mut d = String::new();
    let mut at_point = 0;
    let mut seen: Option<u64> = None;
    while at_point < points.len() {
        let column = chart.x(points[at_point].0).floor();
        let breaks = seen.is_none_or(|seen| points[at_point].0 - seen > SILENT);
        let (first, mut low, mut high) = (points[at_point].1, f64::MAX, f64::MIN);
        let mut last = first;
        let begun = at_point;
        while at_point < points.len() && chart.x(points[at_point].0).floor() == column {
            if at_point > begun && points[at_point].0 - points[at_point - 1].0 > SILENT {
                break;
            }
            last = points[at_point].1;
            (low, high) = (low.min(last), high.max(last));
            seen = Some(points[at_point].0);
            at_point += 1;
        }
        let (x, letter) = (at(chart.x(points[begun].0)), if breaks { 'M' } else { 'L' });
        d.push_str(&format!("{letter}{x} {}", at(chart.y(scale, first))));
        for value in [low, high, last] {
            let y = at(chart.y(scale, value));
            if !d.ends_with(&format!(" {y}")) && !d.ends_with(&format!("V{y}")) {
                d.push_str(&format!("V{y}"));
            }
        }
        if breaks {
            d.push_str("h0.5");
        }
    }
    d
}

fn keys(series: &Series<'_>) -> Markup {
    let keys: Vec<(String, &str)> = series
        .keys()
        .zip(COLOURS.iter().cycle())
        .map(|(node, class)| (class.replace("line", "key-line"), *node))
        .collect();
    let keys: Vec<(&str, &str)> = keys.iter().map(|(class, node)| (class.as_str(), *node)).collect();
    legend(&keys)
}

/// The wall clock of each replica against that of the harness.
pub fn clocks(subject: &Subject<'_>) -> Markup {
    let series = series(subject, |probe| probe.wall_offset_ms as f64);
    let most = series.values().flatten().map(|(_, ms)| ms.abs()).fold(0.0, f64::max);
    let scale = Scale::symmetric(10.0, most);
    let mut chart = Chart::whole(subject, 170.0);
    chart.value_axis(&scale, "ahead of the harness", duration);
    for (points, class) in series.values().zip(COLOURS.iter().cycle()) {
        let d = line(&chart, &scale, points);
        chart.path(class, &d);
    }
    chart.figure(
        "Wall clock of each replica",
        "By how much it is ahead of (above 0) or behind the wall clock of the harness, which nothing \
         steps. The scale is logarithmic to both sides; within 50 ms of 0 it shows how long the answer \
         took rather than the clock.",
        &keys(&series),
        "No replica was looked at in this history.",
    )
}

/// Resident memory of each replica.
pub fn memory(subject: &Subject<'_>) -> Markup {
    let series = series(subject, |probe| probe.rss as f64 / MIB);
    let most = series.values().flatten().map(|(_, mib)| *mib).fold(0.0, f64::max);
    let scale = Scale::linear(most.max(1.0));
    let mut chart = Chart::whole(subject, 150.0);
    chart.value_axis(&scale, "resident memory, MiB", number);
    for (points, class) in series.values().zip(COLOURS.iter().cycle()) {
        let known: Vec<(u64, f64)> = points.iter().copied().filter(|(_, mib)| *mib > 0.0).collect();
        let d = line(&chart, &scale, &known);
        chart.path(class, &d);
    }
    chart.figure(
        "Memory of each replica",
        "Resident memory of the process. A line that begins again is a new process.",
        &keys(&series),
        "No replica told its memory.",
    )
}
