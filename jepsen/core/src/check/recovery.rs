//! L3: how long a change of leader takes, by class of fault.

use std::collections::{BTreeMap, BTreeSet};

use super::Options;
use crate::event::What;
use crate::faults::{Installed, end_ns, installed};
use crate::history::History;
use crate::leaders::Leaders;
use crate::spans::{MS, quantile};
use crate::verdict::Judgement;

/// The times of one class of faults, in ms.
#[derive(Default)]
struct Figures {
    writes: Vec<u64>,
    dispatches: Vec<u64>,
}

/// What callers and executors saw, in order of time.
struct Seen {
    /// Writes that were acknowledged: (asked, acknowledged, event).
    writes: Vec<(u64, u64, u64)>,
    /// When writes were asked for, whatever became of them.
    asked: Vec<u64>,
    /// Pushes that were accepted: (when, round, event).
    dispatches: Vec<(u64, u64, u64)>,
}

impl Seen {
    fn of(history: &History) -> Self {
        let mut seen = Seen { writes: Vec::new(), asked: Vec::new(), dispatches: Vec::new() };
        for operation in history.operations() {
            if !matches!(operation.invoke.what, What::Submit(_) | What::Cancel(_)) {
                continue;
            }
            seen.asked.push(operation.invoke.mono_ns);
            if let Some(end) = operation.ok() {
                seen.writes.push((operation.invoke.mono_ns, end.mono_ns, end.i));
            }
        }
        for event in history.events() {
            if let What::Recv(recv) = &event.what
                && recv.verdict == "accepted"
            {
                seen.dispatches.push((event.mono_ns, recv.round, event.i));
            }
        }
        seen
    }

    /// The first acknowledgement of a write that was asked for after this instant.
    fn first_write(&self, since: u64) -> Option<u64> {
        // In the order of asking; of those in flight together any may be the first to be answered, and one
        // that was asked for after the first answer cannot be.
        let from = self.writes.partition_point(|(asked, ..)| *asked < since);
        let mut first: Option<u64> = None;
        for (asked, acked, _) in &self.writes[from..] {
            if first.is_some_and(|first| *asked > first) {
                break;
            }
            first = Some(first.map_or(*acked, |first| first.min(*acked)));
        }
        first
    }

    /// The first accepted push of a round above this one, after this instant.
    fn first_dispatch(&self, since: u64, round: u64) -> Option<u64> {
        let from = self.dispatches.partition_point(|(at, ..)| *at < since);
        self.dispatches[from..].iter().find(|(_, of, _)| *of > round).map(|(at, ..)| *at)
    }
}

/// L3. After each fault that hits the leader of the moment (or takes the majority: then from its undoing), a
/// write that is asked for is acknowledged within the bound, and where the leader changed a push of the new
/// round is accepted within it. A fault is left out while another such one is in force, and one that only slows
/// its replica down has figures and no bound. The figures of each class: `write_ms.p50.<class>`,
/// `write_ms.max.<class>`, the same for `dispatch_ms`, `count.<class>`.
pub fn recovery(history: &History, options: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("L3");
    let faults = installed(history);
    let leaders = Leaders::of(history);
    let seen = Seen::of(history);
    let replicas = replicas(history);
    let heal = history.phase("heal").unwrap_or(u64::MAX);
    let end = end_ns(history);
    let mut classes: BTreeMap<String, Figures> = BTreeMap::new();
    let (mut looked_at, mut overlapped) = (0_u64, 0_u64);
    for fault in &faults {
        let Some(since) = since(fault, &replicas).filter(|since| *since <= heal) else { continue };
        // Without a wish there is nothing to fulfil.
        let Some(wish) = first_at(&seen.asked, since) else { continue };
        looked_at += 1;
        let figures = classes.entry(fault.class()).or_default();
        let limit = options.recovery_ms * MS;
        let round = leaders.round_before(since);
        let write = seen.first_write(since);
        let changed = leaders.reigns().iter().any(|reign| {
            reign.round > round
                && reign.first_ns >= since
                && reign.first_ns <= fault.until_ns.max(since + limit)
        });
        let dispatch = seen.first_dispatch(since, round).filter(|_| changed);
        let last = [write, dispatch].into_iter().flatten().max().unwrap_or(since + limit);
        if alone(fault, &faults, since, last) {
            figures.writes.extend(write.map(|at| (at - wish.min(at)) / MS));
            figures.dispatches.extend(dispatch.map(|at| (at - since) / MS));
            let wanted = changed && write.is_some();
            let back = [
                Back { what: "a write was acknowledged", since: wish, at: write, is_due: true },
                Back { what: "a push of a new round was taken", since, at: dispatch, is_due: wanted },
            ];
            judge(&mut word, fault, &back, end, limit);
        } else {
            overlapped += 1;
        }
    }
    for (class, figures) in &mut classes {
        word.stat(&format!("count.{class}"), figures.writes.len() as f64);
        tell(&mut word, "write_ms", class, &mut figures.writes);
        tell(&mut word, "dispatch_ms", class, &mut figures.dispatches);
    }
    word.stat("looked_at", looked_at as f64);
    word.stat("with_other_faults", overlapped as f64);
    vec![word]
}

fn tell(word: &mut Judgement, name: &str, class: &str, times: &mut [u64]) {
    times.sort_unstable();
    for (figure, share) in [("p50", 0.5), ("max", 1.0)] {
        if let Some(ms) = quantile(times, share) {
            word.stat(&format!("{name}.{figure}.{class}"), ms as f64);
        }
    }
}

/// The first of a sorted list at or after an instant.
fn first_at(sorted: &[u64], since: u64) -> Option<u64> {
    sorted.get(sorted.partition_point(|at| *at < since)).copied()
}

fn replicas(history: &History) -> BTreeSet<&str> {
    let probed = history.events().iter().filter(|event| matches!(event.what, What::Probe(_)));
    probed.filter_map(|event| event.node.as_deref()).collect()
}

/// From when a fault's recovery is measured, in ns; none for one that leaves the leader and the majority
/// alone. While most replicas are away nothing can be acknowledged: then it is the undoing that counts.
fn since(fault: &Installed<'_>, replicas: &BTreeSet<&str>) -> Option<u64> {
    if !takes_away(fault) {
        return None;
    }
    let hit = fault.fault.nodes.iter().filter(|node| replicas.contains(node.as_str())).count();
    if hit * 2 > replicas.len() {
        return fault.undone.then_some(fault.until_ns);
    }
    fault.fault.on_leader.then_some(fault.from_ns)
}

/// Whether a fault can take a leader away: not one of clocks, nor of executors and the sink.
fn takes_away(fault: &Installed<'_>) -> bool {
    !matches!(fault.fault.package.as_str(), "clock" | "executor" | "sink")
}

/// Whether no other fault that can take a leader or a majority away was in force in this time. One of the same
/// step belongs to it.
fn alone(fault: &Installed<'_>, all: &[Installed<'_>], from: u64, until: u64) -> bool {
    !all.iter().any(|other| {
        other.event != fault.event
            && other.fault.step != fault.fault.step
            && takes_away(other)
            && other.from_ns <= until
            && other.until_ns >= from
    })
}

/// Whether a fault leaves nothing of a leader. One that is only slow may go on leading: of those there are
/// figures, and no bound.
fn is_total(fault: &Installed<'_>) -> bool {
    matches!(fault.fault.package.as_str(), "process" | "power" | "partition")
}

/// What came back after a fault: since when it was missing, when it was there, and whether it had to come.
struct Back {
    what: &'static str,
    since: u64,
    at: Option<u64>,
    is_due: bool,
}

fn judge(word: &mut Judgement, fault: &Installed<'_>, back: &[Back], end: u64, limit: u64) {
    for Back { what, since, at, is_due } in back {
        let took = at.unwrap_or(end).saturating_sub(*since);
        if !is_due || took <= limit || !is_total(fault) {
            continue;
        }
        let after = if at.is_some() { "only after" } else { "not within" };
        let (class, nodes) = (fault.class(), &fault.fault.nodes);
        let what = format!("{class} on {nodes:?}: {what} {after} {} ms", took / MS);
        word.violated(what, None, &[fault.event]);
    }
}
