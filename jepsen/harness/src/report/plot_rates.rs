//! What callers were told: operations a second, the share that stayed unknown, and when no write was
//! acknowledged.

use orloj_jepsen_core::event::{Kind, What};
use orloj_jepsen_core::history::Operation;

use super::chart::{Chart, legend};
use super::markup::Markup;
use super::plot_faults::steps;
use super::scale::{Scale, duration, number};
use super::subject::{SECOND, Subject};

/// At most so many bins across a chart.
const BINS: u64 = 480;
/// Bins of the share that stayed unknown, in ns, unless the run is long.
const SHARE_BIN: u64 = 5 * SECOND;
/// Shorter times without an acknowledged write are not drawn, in ns.
const GAP: u64 = SECOND / 2;
/// The same of one replica alone, which gets fewer writes, in ns.
const GAP_OF_ONE: u64 = 3 * SECOND / 2;
/// Bars as wide as this have their length written in them.
const LABEL_ROOM: f64 = 42.0;

/// Length of bins of at least `least` ns, so that there are not too many.
pub fn bin(subject: &Subject<'_>, least: u64) -> u64 {
    let whole = (subject.end_ns - subject.zero_ns).div_ceil(BINS);
    whole.div_ceil(least).max(1) * least
}

/// Whether it belongs to the load: the reads at the end do not.
fn of_load(operation: &Operation<'_>) -> bool {
    !matches!(&operation.invoke.what, What::Get(get) if get.last)
}

fn outcome(operation: &Operation<'_>) -> usize {
    match operation.end.map(|end| end.kind) {
        Some(Kind::Ok) => 0,
        Some(Kind::Fail) => 1,
        _ => 2,
    }
}

/// Operations by outcome in each bin, by the time of asking.
fn counts(subject: &Subject<'_>, bin: u64) -> Vec<[u64; 3]> {
    let bins = (subject.end_ns - subject.zero_ns).div_ceil(bin);
    let mut counts = vec![[0; 3]; usize::try_from(bins).unwrap_or(0)];
    for operation in subject.operations.iter().filter(|operation| of_load(operation)) {
        let Some(since) = operation.invoke.mono_ns.checked_sub(subject.zero_ns) else { continue };
        let place = usize::try_from(since / bin).unwrap_or(usize::MAX);
        if let Some(count) = counts.get_mut(place) {
            count[outcome(operation)] += 1;
        }
    }
    counts
}

/// Operations a second, one outcome on top of the other.
pub fn rates(subject: &Subject<'_>) -> Markup {
    let bin = bin(subject, SECOND);
    let counts = counts(subject, bin);
    let per_second = |count: u64| count as f64 * SECOND as f64 / bin as f64;
    let most = counts.iter().map(|count| per_second(count.iter().sum())).fold(0.0, f64::max);
    let scale = Scale::linear(most.max(1.0));
    let mut chart = Chart::whole(subject, 190.0);
    chart.value_axis(&scale, "operations per second", number);
    let (_, _, _, base) = chart.edges();
    for (outcome, class) in [(2, "area info"), (1, "area fail"), (0, "area ok")] {
        let blocks: Vec<(f64, f64, f64)> = (0..)
            .zip(&counts)
            .filter(|(_, count)| count[..=outcome].iter().sum::<u64>() > 0)
            .map(|(place, count)| {
                let from = subject.zero_ns + place * bin;
                let height = per_second(count[..=outcome].iter().sum());
                (chart.x(from), chart.x(from + bin), chart.y(&scale, height))
            })
            .collect();
        chart.path(class, &steps(&blocks, base));
    }
    let total = |outcome: usize| number(counts.iter().map(|count| count[outcome] as f64).sum());
    let (ok, fail, info) = (
        format!("ok: it has happened ({})", total(0)),
        format!("fail: refused, without effect ({})", total(1)),
        format!("info: nobody knows ({})", total(2)),
    );
    chart.figure(
        "Operations per second by outcome",
        "By the second of asking, stacked. A refusal can be the right answer (a cancel that comes after \
         the end, a read of a task that does not exist). The reads at the end of the run are left out.",
        &legend(&[("area ok", &ok), ("area fail", &fail), ("area info", &info)]),
        "The history has no operation of a client.",
    )
}

/// The share of operations that stayed unknown.
pub fn unknown(subject: &Subject<'_>) -> Markup {
    let bin = bin(subject, SHARE_BIN);
    let counts = counts(subject, bin);
    let share = |count: &[u64; 3]| count[2] as f64 * 100.0 / count.iter().sum::<u64>().max(1) as f64;
    let most = counts.iter().map(share).fold(0.0, f64::max);
    let scale = Scale::linear(most.max(1.0));
    let mut chart = Chart::whole(subject, 90.0);
    chart.value_axis(&scale, "unknown, %", number);
    let (_, _, _, base) = chart.edges();
    for (place, count) in (0..).zip(&counts).filter(|(_, count)| count[2] > 0) {
        let from = subject.zero_ns + place * bin;
        let (x, end, y) = (chart.x(from), chart.x(from + bin), chart.y(&scale, share(count)));
        let tip = format!("{} of {} operations", count[2], count.iter().sum::<u64>());
        chart.rect("area info", x, y, end - x - 0.5, base - y, &tip);
    }
    let limit = subject.files.plan.options.check.unknown_share * 100.0;
    let every = duration((bin / 1_000_000) as f64);
    let caption = format!(
        "Of the operations that began in each {every}, the share whose outcome nobody knows. Above {} % \
         over the whole run the verdict is unknown.",
        number(limit)
    );
    let none = "No operation stayed unknown.";
    chart.figure("Share of unknown outcomes", &caption, &Markup::default(), none)
}

/// Times in which writes were asked for and none was acknowledged.
pub fn gaps(subject: &Subject<'_>) -> Markup {
    let replicas = subject.replicas();
    let mut names = vec!["anywhere".to_owned()];
    names.extend(replicas.iter().map(|name| format!("asked at {name}")));
    let mut chart = Chart::whole(subject, 26.0 * names.len() as f64);
    let lanes = chart.lanes(&names);
    let places = std::iter::once(None).chain(replicas.iter().copied().map(Some));
    for (node, (y, height)) in places.zip(lanes) {
        let least = if node.is_none() { GAP } else { GAP_OF_ONE };
        for (from, until) in silences(subject, node, least) {
            let (x, end) = (chart.x(from), chart.x(until));
            let long = duration((until - from) as f64 / 1e6);
            let class = if node.is_none() { "gap all" } else { "gap one" };
            let tip = format!("{long} from {} s", number(subject.seconds(from)));
            chart.rect(class, x, y + 4.0, end - x, height - 8.0, &tip);
            if end - x >= LABEL_ROOM {
                chart.text("inside mid", (x + end) / 2.0, y + height / 2.0 + 4.0, &long);
            }
        }
    }
    let (all, one) = (duration(GAP as f64 / 1e6), duration(GAP_OF_ONE as f64 / 1e6));
    let caption = format!(
        "Times without an acknowledged write (submission or cancel) although somebody asked for one: of \
         {all} and longer for the whole cluster, of {one} and longer for the writes that were asked at one \
         replica. Length and beginning show under the pointer."
    );
    let keys =
        legend(&[("gap all", "no write was acknowledged anywhere"), ("gap one", "none that was asked here")]);
    let none = format!("There was no time of {all} or longer without an acknowledged write.");
    chart.figure("Unavailability", &caption, &keys, &none)
}

/// From one acknowledgement to the next, where that is long and somebody asked meanwhile.
fn silences(subject: &Subject<'_>, node: Option<&str>, least: u64) -> Vec<(u64, u64)> {
    let writes = subject.operations.iter().filter(|operation| {
        matches!(operation.invoke.what, What::Submit(_) | What::Cancel(_))
            && node.is_none_or(|node| operation.invoke.node.as_deref() == Some(node))
            && operation.invoke.mono_ns >= subject.zero_ns
    });
    let (mut asked, mut acked) = (Vec::new(), Vec::new());
    for operation in writes {
        asked.push(operation.invoke.mono_ns);
        acked.extend(operation.ok().map(|end| end.mono_ns));
    }
    let (Some(first), Some(last)) = (asked.first().copied(), asked.last().copied()) else {
        return Vec::new();
    };
    acked.sort_unstable();
    let bounds: Vec<u64> =
        std::iter::once(first).chain(acked).filter(|at| *at <= last).chain([last]).collect();
    let pairs = bounds.windows(2).map(|pair| (pair[0], pair[1]));
    let wished = |from: u64, until: u64| {
        let place = asked.partition_point(|at| *at <= from);
        asked.get(place).is_some_and(|at| *at < until)
    };
    pairs.filter(|(from, until)| until.saturating_sub(*from) >= least && wished(*from, *until)).collect()
}
