//! L4: one bad follower does no harm.

use std::collections::BTreeSet;

use super::Options;
use crate::event::{Fault, What};
use crate::faults::{disturbed, installed};
use crate::history::{History, Operation};
use crate::spans::{MS, Spans, quantile};
use crate::verdict::Judgement;

/// Fewer operations than these say nothing of a share or of a 99th percentile.
const ENOUGH: usize = 20;

/// So many operations are enough to show what went wrong.
const SHOWN: usize = 10;

/// How a set of operations went.
#[derive(Default)]
struct Sample {
    /// Of those that succeeded: how long each took in ns, and its event.
    took: Vec<(u64, u64)>,
    /// Those of which nobody knows.
    unknown: Vec<u64>,
}

impl Sample {
    fn add(&mut self, operation: &Operation<'_>) {
        match (operation.ok(), operation.is_unknown()) {
            (Some(end), _) => self.took.push((end.mono_ns - operation.invoke.mono_ns, operation.invoke.i)),
            (None, true) => self.unknown.push(operation.invoke.i),
            // A refusal is an answer: the task had ended, or the request was wrong.
            (None, false) => {}
        }
    }

    fn count(&self) -> usize {
        self.took.len() + self.unknown.len()
    }

    fn ok_share(&self) -> f64 {
        self.took.len() as f64 / self.count().max(1) as f64
    }

    fn p99_ms(&mut self) -> f64 {
        self.took.sort_unstable();
        quantile(&self.took, 0.99).map_or(0.0, |(ns, _)| ns as f64 / MS as f64)
    }
}

/// L4. While one follower alone is slow, stopped, cut off or dead, operations that were sent to the other
/// replicas succeed about as often as in calm, and their 99th percentile stays within the factor, or within
/// the lateness that is allowed anyhow. Reads of one task are left out. Judged when there were enough operations of both kinds.
pub fn one_bad_follower(history: &History, options: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("L4");
    let faults = installed(history);
    let replicas: BTreeSet<&str> = history
        .events()
        .iter()
        .filter(|event| matches!(event.what, What::Probe(_)))
        .filter_map(|event| event.node.as_deref())
        .collect();
    // The node of a bridge is the one that still sees both others; it is they who are cut.
    let one_follower = |fault: &Fault| {
        let alone = matches!(&fault.nodes[..], [one] if replicas.contains(one.as_str()));
        alone && !fault.on_leader && fault.name != "bridge"
    };
    let others = disturbed(history, options, |fault| !one_follower(fault));
    let everything = disturbed(history, options, |_| true);
    let bad: Vec<(u64, u64, &str)> = faults
        .iter()
        .filter(|one| one_follower(one.fault))
        .map(|one| (one.from_ns, one.until_ns, one.fault.nodes[0].as_str()))
        .collect();
    let (mut calm, mut hurt) = (Sample::default(), Sample::default());
    // A client may ask for one task by a long poll, whose wait is no delay.
    let prompt = |operation: &Operation<'_>| !matches!(operation.invoke.what, What::Get(_));
    for operation in history.operations().into_iter().filter(prompt) {
        let from = operation.invoke.mono_ns;
        let until = operation.end.map_or(from, |end| end.mono_ns);
        if !everything.touch(from, until) {
            calm.add(&operation);
        } else if alone(&bad, &others, from, until, operation.invoke.node.as_deref()) {
            hurt.add(&operation);
        }
    }
    word.stat("looked_at", hurt.count() as f64);
    word.stat("in_calm", calm.count() as f64);
    if calm.count() >= ENOUGH && hurt.count() >= ENOUGH {
        compare(&mut word, &mut calm, &mut hurt, options);
    }
    vec![word]
}

/// Whether exactly one bad follower was there when the operation began, it was not the one asked, and nothing
/// else disturbed the cluster.
fn alone(bad: &[(u64, u64, &str)], others: &Spans, from: u64, until: u64, asked: Option<&str>) -> bool {
    let mut there = bad.iter().filter(|(since, over, _)| (*since..=*over).contains(&from));
    let Some((.., node)) = there.next() else { return false };
    there.next().is_none() && asked != Some(node) && !others.touch(from, until)
}

fn compare(word: &mut Judgement, calm: &mut Sample, hurt: &mut Sample, options: &Options) {
    let (calm_share, hurt_share) = (calm.ok_share(), hurt.ok_share());
    let (calm_p99, hurt_p99) = (calm.p99_ms(), hurt.p99_ms());
    for (name, value) in [
        ("ok_share.calm", calm_share),
        ("ok_share.one_bad", hurt_share),
        ("p99_ms.calm", calm_p99),
        ("p99_ms.one_bad", hurt_p99),
    ] {
        word.stat(name, value);
    }
    let slowest: Vec<u64> = hurt.took.iter().rev().take(SHOWN).map(|(_, event)| *event).collect();
    hurt.unknown.truncate(SHOWN);
    if hurt_share < calm_share * options.one_bad_ok_share {
        let what = format!(
            "with one bad follower {hurt_share:.3} of the operations succeed, in calm {calm_share:.3}"
        );
        word.violated(what, None, &hurt.unknown);
    }
    let allowed = (calm_p99 * options.one_bad_slowdown).max(options.lateness_ms as f64);
    if hurt_p99 > allowed {
        let what = format!(
            "with one bad follower the 99th percentile is {hurt_p99:.0} ms, in calm {calm_p99:.0} ms"
        );
        word.violated(what, None, &slowest);
    }
}
