//! What became of single tasks: when each was due, and when its attempts ran.

use std::collections::BTreeSet;

use orloj_jepsen_core::attempts::{Life, Try};
use orloj_jepsen_core::spans::MS;

use super::chart::{Chart, legend};
use super::markup::Markup;
use super::scale::number;
use super::subject::{SECOND, Subject};

/// Tasks that are shown.
const ROWS: usize = 40;
/// Height of a row.
const ROW: f64 = 15.0;
/// How much of the run is shown, in ns.
const WINDOW: u64 = 40 * SECOND;
/// From one candidate for the window to the next, in ns.
const STEP: u64 = 5 * SECOND;

/// A task with the time in which something was done about it.
struct Candidate<'s, 'a> {
    task: &'a str,
    life: &'s Life<'a>,
    from_ns: u64,
    until_ns: u64,
    starts: Vec<u64>,
    due_ns: Option<u64>,
}

fn candidates<'s, 'a>(subject: &'s Subject<'a>) -> Vec<Candidate<'s, 'a>> {
    let candidate = |(task, life): (&&'a str, &'s Life<'a>)| {
        let from_ns = life.invoked_ns()?;
        let due_ns = subject.asked_due_ns(task);
        let tries = life.tries.values();
        let starts: Vec<u64> =
            tries.clone().flat_map(|one| one.starts.iter().map(|(event, _)| event.mono_ns)).collect();
        let ends = tries.flat_map(|one| one.finishes.iter().map(|(event, _)| event.mono_ns));
        let until_ns = ends.chain(starts.iter().copied()).chain(due_ns).max().unwrap_or(from_ns);
        (from_ns >= subject.zero_ns).then_some(Candidate { task, life, from_ns, until_ns, starts, due_ns })
    };
    subject.tasks.by_id.iter().filter_map(candidate).collect()
}

/// The part of the run with the most attempts after the first: there something went on.
fn window(subject: &Subject<'_>, candidates: &[Candidate<'_, '_>]) -> (u64, u64) {
    let (zero, end) = (subject.zero_ns, subject.end_ns);
    let later: Vec<u64> = candidates.iter().flat_map(|one| one.starts.iter().skip(1)).copied().collect();
    let held = |from: u64| later.iter().filter(|at| (from..from + WINDOW).contains(*at)).count();
    let from = (0..)
        .map(|step| zero + step * STEP)
        .take_while(|from| *from == zero || from + WINDOW <= end)
        // Of several that are equal the first.
        .max_by_key(|from| (held(*from), u64::MAX - from))
        .unwrap_or(zero);
    (from, (from + WINDOW).min(end))
}

/// Tasks of every kind by turns: those of anomalies, those with several attempts, delayed ones, all others.
fn chosen<'s, 'a>(
    subject: &Subject<'_>,
    candidates: Vec<Candidate<'s, 'a>>,
    from: u64,
    until: u64,
) -> Vec<Candidate<'s, 'a>> {
    let judgements = subject.files.results.report.judgements.iter();
    let accused: BTreeSet<&str> =
        judgements.flat_map(|word| &word.anomalies).filter_map(|anomaly| anomaly.task.as_deref()).collect();
    let mut kinds: [Vec<Candidate<'s, 'a>>; 4] = Default::default();
    for one in candidates {
        if one.until_ns < from || one.due_ns.unwrap_or(one.from_ns) > until {
            continue;
        }
        let delayed = one.due_ns.is_some_and(|due| due > one.from_ns + SECOND);
        let kind = match () {
            () if accused.contains(one.task) => 0,
            () if one.starts.len() > 1 => 1,
            () if delayed => 2,
            () => 3,
        };
        kinds[kind].push(one);
    }
    let mut chosen: Vec<Candidate<'s, 'a>> = Vec::new();
    let most = [ROWS / 4, ROWS / 2, ROWS, ROWS];
    for (kind, most) in kinds.into_iter().zip(most) {
        let room = ROWS.saturating_sub(chosen.len()).min(most);
        // Spread over the whole window.
        let every = kind.len().div_ceil(room.max(1)).max(1);
        chosen.extend(kind.into_iter().step_by(every).take(room));
    }
    chosen.sort_by_key(|one| one.due_ns.unwrap_or(one.from_ns));
    chosen
}

/// The class of an outcome's colour.
pub fn outcome_class(outcome: Option<&str>) -> &'static str {
    match outcome {
        Some("succeeded") => "run ok",
        Some("failed") => "run fail",
        Some("timedOut") => "run timeout",
        Some("cancelled" | "returned") => "run cancelled",
        _ => "run lost",
    }
}

/// One row for each task of a sample.
pub fn figure(subject: &Subject<'_>) -> Markup {
    let candidates = candidates(subject);
    let all = candidates.len();
    let (from, until) = window(subject, &candidates);
    let chosen = chosen(subject, candidates, from, until);
    let mut chart = Chart::window(subject, ROW * chosen.len().max(1) as f64, from, until);
    let names: Vec<String> = chosen.iter().map(name).collect();
    let lanes = chart.lanes(&names);
    for (one, (y, height)) in chosen.iter().zip(lanes) {
        draw(subject, &mut chart, one, y, height);
    }
    let caption = format!(
        "{} of {all} tasks in the part of the run with the most retries ({} s to {} s), in the order of \
         their due times. A thin line leads from the request to the target, the pale field after the \
         target is the lateness that is allowed when nothing disturbs; a mark is a push that arrived, a \
         bar a run of the handler. Names are those of the harness, with the number of runs.",
        chosen.len(),
        number(subject.seconds(from)),
        number(subject.seconds(until)),
    );
    chart.figure(
        "Targets and runs of single tasks",
        &caption,
        &legend(&[
            ("target-key", "target: when it was due"),
            ("window", "allowed lateness"),
            ("run ok", "succeeded"),
            ("run fail", "failed"),
            ("run timeout", "timed out"),
            ("run cancelled", "cancelled or returned"),
            ("run lost", "lost, or without a report"),
        ]),
        "The history has no task that was asked for during the load.",
    )
}

fn name(one: &Candidate<'_, '_>) -> String {
    let label = one.life.request().map_or(one.task, |request| request.label.as_str());
    let label: String = label.chars().take(14).collect();
    let runs = one.life.tries.len();
    if runs > 1 { format!("{label} \u{00d7}{runs}") } else { label }
}

fn draw(subject: &Subject<'_>, chart: &mut Chart, one: &Candidate<'_, '_>, y: f64, height: f64) {
    let middle = y + height / 2.0;
    let asked = chart.x(one.from_ns);
    if let Some(due) = one.due_ns {
        let late = subject.files.plan.options.check.lateness_ms * MS;
        let (x, end) = (chart.x(due), chart.x(due + late));
        if due > one.from_ns {
            chart.line("wait", (asked, middle), (x, middle));
        }
        if chart.shows(due, due + late) {
            chart.rect("window", x, y + 1.0, end - x, height - 2.0, "");
            chart.rect("target", x - 0.8, y + 1.0, 1.6, height - 2.0, "due");
        }
    }
    for ((shard, number), attempt) in &one.life.tries {
        let named = format!("{} attempt {number} of shard {shard}", one.task);
        draw_attempt(subject, chart, attempt, &named, y, height);
    }
}

fn draw_attempt(
    subject: &Subject<'_>,
    chart: &mut Chart,
    attempt: &Try<'_>,
    named: &str,
    y: f64,
    height: f64,
) {
    for (event, recv) in &attempt.receipts {
        if chart.shows(event.mono_ns, event.mono_ns) {
            let x = chart.x(event.mono_ns);
            let tip = format!("{named}: push arrived at {}, {}", recv.executor, recv.verdict);
            chart.rect("push", x - 0.6, y + 2.0, 1.2, height - 4.0, &tip);
        }
    }
    let outcome = attempt.outcome();
    let runs: Vec<(u64, u64)> = if attempt.starts.is_empty() {
        attempt
            .rows
            .first()
            .and_then(|(_, row)| {
                let from = subject.instant_of_wall(row.granted_at_ms)?;
                Some((from, row.ended_at_ms.and_then(|at| subject.instant_of_wall(at)).unwrap_or(from)))
            })
            .into_iter()
            .collect()
    } else {
        let end_of = |start: u64| {
            let later = attempt.finishes.iter().map(|(event, _)| event.mono_ns).find(|end| *end >= start);
            later.unwrap_or(start)
        };
        attempt.starts.iter().map(|(event, _)| (event.mono_ns, end_of(event.mono_ns))).collect()
    };
    for (from, until) in runs.into_iter().filter(|(from, until)| from <= until) {
        if chart.shows(from, until) {
            let (x, end) = (chart.x(from), chart.x(until));
            let took = super::scale::duration((until - from) as f64 / 1e6);
            let tip = format!("{named}: {} after {took}", outcome.unwrap_or("no outcome"));
            chart.rect(outcome_class(outcome), x, y + 3.0, (end - x).max(2.0), height - 6.0, &tip);
        }
    }
}
