//! How long operations took.

use std::collections::{BTreeMap, BTreeSet};

use orloj_jepsen_core::event::{Kind, What};
use orloj_jepsen_core::history::Operation;
use orloj_jepsen_core::spans::quantile;

use super::chart::{Chart, at, legend};
use super::markup::Markup;
use super::plot_rates::bin;
use super::scale::{Scale, duration};
use super::subject::{SECOND, Subject};

/// Points that fall into one square of this size, in units, are drawn once.
const DOT: f64 = 2.0;
/// Bins of the quantiles, in ns, unless the run is long.
const BIN: u64 = 5 * SECOND;
/// The kinds of operations, with their colours.
const KINDS: [(&str, &str); 4] =
    [("submit", "dot submit"), ("cancel", "dot cancel"), ("get", "dot get"), ("list", "dot list")];

/// Operations that were answered, or that nobody knows about: (asked, took in ms, kind, known).
fn times(subject: &Subject<'_>) -> Vec<(u64, f64, usize, bool)> {
    let time = |operation: &Operation<'_>| {
        let kind = match &operation.invoke.what {
            What::Submit(_) => 0,
            What::Cancel(_) => 1,
            What::Get(get) if !get.last => 2,
            What::List(_) => 3,
            _ => return None,
        };
        let end = operation.end?;
        let took = (end.mono_ns - operation.invoke.mono_ns) as f64 / 1e6;
        Some((operation.invoke.mono_ns, took.max(0.001), kind, end.kind != Kind::Info))
    };
    let all = subject.operations.iter().filter_map(time);
    all.filter(|(asked, ..)| *asked >= subject.zero_ns).collect()
}

fn scale_of(times: &[(u64, f64, usize, bool)]) -> Scale {
    let least = times.iter().map(|time| time.1).fold(f64::MAX, f64::min);
    let most = times.iter().map(|time| time.1).fold(0.0, f64::max);
    Scale::log(least.min(most), most)
}

/// Every operation as a point.
pub fn points(subject: &Subject<'_>) -> Markup {
    let times = times(subject);
    let scale = scale_of(&times);
    let mut chart = Chart::whole(subject, 260.0);
    chart.value_axis(&scale, "latency", duration);
    let mut drawn: BTreeSet<(usize, i64, i64)> = BTreeSet::new();
    let mut paths: BTreeMap<usize, String> = BTreeMap::new();
    let mut crosses = String::new();
    for (asked, took, kind, known) in times {
        let (x, y) = (chart.x(asked), chart.y(&scale, took));
        let kind = if known { kind } else { KINDS.len() };
        if !drawn.insert((kind, (x / DOT) as i64, (y / DOT) as i64)) {
            continue;
        }
        if known {
            paths.entry(kind).or_default().push_str(&format!("M{} {}h0", at(x), at(y)));
        } else {
            let (left, top) = (at(x - 3.0), at(y - 3.0));
            crosses.push_str(&format!("M{left} {top}l6 6m0-6l-6 6"));
        }
    }
    for (kind, d) in &paths {
        chart.path(KINDS[*kind].1, d);
    }
    chart.path("cross", &crosses);
    let mut keys: Vec<(&str, &str)> = KINDS.iter().map(|(name, class)| (*class, *name)).collect();
    keys.push(("cross-key", "cross: the outcome stayed unknown (any kind)"));
    chart.figure(
        "Latency of every operation",
        "One point for each answer (ok or fail) at the time of asking, by kind of operation, on a \
         logarithmic scale. A cross is where a client gave up. Points on the same spot are drawn once.",
        &legend(&keys),
        "The history has no answer to a client.",
    )
}

/// Quantiles of all answers.
pub fn quantiles(subject: &Subject<'_>) -> Markup {
    let times: Vec<_> = times(subject).into_iter().filter(|time| time.3).collect();
    let length = bin(subject, BIN);
    let mut bins: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (asked, took, ..) in &times {
        bins.entry((asked - subject.zero_ns) / length).or_default().push(*took);
    }
    bins.values_mut().for_each(|bin| bin.sort_by(f64::total_cmp));
    // The fastest of all would stretch the axis, and no line goes there.
    let drawn = |share: f64| bins.values().filter_map(move |bin| quantile(bin, share));
    let most = drawn(1.0).fold(0.0, f64::max);
    let scale = Scale::log(drawn(0.5).fold(f64::MAX, f64::min).min(most), most);
    let mut chart = Chart::whole(subject, 190.0);
    chart.value_axis(&scale, "latency", duration);
    for (share, class) in [(1.0, "line max"), (0.99, "line p99"), (0.5, "line p50")] {
        let series: Vec<(u64, f64, f64)> = bins
            .iter()
            .filter_map(|(place, bin)| {
                let middle = subject.zero_ns + place * length + length / 2;
                Some((*place, chart.x(middle), chart.y(&scale, quantile(bin, share)?)))
            })
            .collect();
        let mut d = String::new();
        let mut last = None;
        for (place, x, y) in series {
            // Without an answer between two points there is no line.
            let letter = if last.is_some_and(|last| last + 1 == place) { 'L' } else { 'M' };
            d.push_str(&format!("{letter}{} {}", at(x), at(y)));
            if letter == 'M' {
                d.push_str("h0");
            }
            last = Some(place);
        }
        chart.path(class, &d);
    }
    let every = duration((length / 1_000_000) as f64);
    chart.figure(
        "Latency quantiles",
        &format!("Of all answers (ok or fail) to what was asked in each {every}, on a logarithmic scale."),
        &legend(&[
            ("key-line p50", "half of them were faster (p50)"),
            ("key-line p99", "99 of 100 were (p99)"),
            ("key-line max", "the slowest"),
        ]),
        "The history has no answer to a client.",
    )
}
