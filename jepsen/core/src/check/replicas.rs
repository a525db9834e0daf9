//! R1-R4: what the replicas say of themselves fits together.
//!
//! - **R1**: at most one replica leads a round. Fails when two serve in one round, hand attempts out in it, or
//!   announce it, as seen by probes, by receivers of pushes and by receivers of announcements.
//! - **R2**: what a replica has promised stays promised. Fails when its term, or its vote within a term, goes
//!   back (also over a restart; a data directory that was lost is a new birth and starts anew), when the
//!   committed or applied index of one process goes back, or when an acknowledged index is committed nowhere at
//!   the end. A vote may go on to a replica with a higher id within one term: terms and ids together are
//!   ordered, and only a step back breaks the promise.
//! - **R3**: replicas that have applied the same entries have the same tables. Fails when two digests of one
//!   index differ, wherever and whenever they were told, also those of the tables at the end.
//! - **R4**: a committed entry never changes. Fails when the term of an entry that its teller knew as committed
//!   differs from what any other told of it, or when terms fall along the log.
//!
//! Each is unknown when nothing was told that could have disagreed.

use std::collections::BTreeMap;

use super::Options;
use crate::acks::{Acks, is_write, probed_nodes};
use crate::event::{Event, Probe, What};
use crate::history::History;
use crate::tables::final_tables;
use crate::verdict::Judgement;

/// R1. See the module.
pub fn rounds(history: &History, _: &Options) -> Vec<Judgement> {
    let mut judgement = Judgement::of("R1");
    let hosts = hosts(history);
    let mut leaders: BTreeMap<u64, BTreeMap<&str, u64>> = BTreeMap::new();
    for event in history.events() {
        let (round, leader) = match &event.what {
            What::Probe(probe) => (probe.serving, event.node.as_deref()),
            What::Recv(recv) => (Some(recv.round), recv.sender.as_deref()),
            What::RoundHeard(heard) => (Some(heard.round), heard.leader.as_deref()),
            _ => continue,
        };
        let (Some(round), Some(leader)) = (round, leader) else { continue };
        let leader = hosts.get(leader).copied().unwrap_or(leader);
        let known = leaders.entry(round).or_default();
        if known.contains_key(leader) {
            continue;
        }
        if let Some((other, first)) = known.iter().next() {
            let what = format!("round {round} has two leaders: {other} and {leader}");
            judgement.violated(what, None, &[*first, event.i]);
        }
        known.insert(leader, event.i);
    }
    judgement.stat("rounds", leaders.len() as f64);
    if leaders.is_empty() {
        judgement.unknown("no replica was ever seen to lead a round", &[]);
    }
    vec![judgement]
}

/// The host of each replica id, as text: senders go by either name.
fn hosts(history: &History) -> BTreeMap<String, &str> {
    let told = history.events().iter().filter_map(|event| match &event.what {
        What::Probe(probe) if probe.id > 0 => Some((probe.id.to_string(), event.node.as_deref()?)),
        _ => None,
    });
    told.collect()
}

/// R2. See the module.
pub fn promises(history: &History, _: &Options) -> Vec<Judgement> {
    let mut judgement = Judgement::of("R2");
    let mut births: BTreeMap<(&str, &str), (&Event, &Probe)> = BTreeMap::new();
    let mut votes: BTreeMap<(&str, &str), (u64, u64, u64)> = BTreeMap::new();
    let mut probes = 0_u64;
    for event in history.events() {
        let What::Probe(probe) = &event.what else { continue };
        let replica = (event.node.as_deref().unwrap_or_default(), probe.birth.as_str());
        if probe.birth.is_empty() {
            continue;
        }
        probes += 1;
        if let Some(before) = births.insert(replica, (event, probe)) {
            not_back(&mut judgement, before, (event, probe));
        }
        if let Some(vote) = probe.vote {
            let given = (probe.term, vote, event.i);
            let before = votes.insert(replica, given);
            if let Some((term, before, first)) = before
                && term == probe.term
                && vote < before
            {
                let what =
                    format!("{}: its vote in term {term} went from {before} back to {vote}", replica.0);
                judgement.violated(what, None, &[first, event.i]);
            }
        }
    }
    stays_committed(history, &mut judgement);
    judgement.stat("probes", probes as f64);
    judgement.stat("births", births.len() as f64);
    if probes < 2 {
        judgement.unknown("no replica was looked at twice", &[]);
    }
    vec![judgement]
}

fn not_back(judgement: &mut Judgement, before: (&Event, &Probe), now: (&Event, &Probe)) {
    let node = now.0.node.as_deref().unwrap_or_default();
    let mut compare = |name: &str, was: u64, is: u64| {
        if is < was {
            let what = format!("{node}: its {name} went from {was} back to {is}");
            judgement.violated(what, None, &[before.0.i, now.0.i]);
        }
    };
    compare("term", before.1.term, now.1.term);
    if before.1.life == now.1.life {
        compare("committed index", before.1.committed, now.1.committed);
        compare("applied index", before.1.applied, now.1.applied);
    }
}

/// An acknowledged index is committed somewhere at the end. Judged when every replica has been looked at after
/// the acknowledgement, since before that nobody may know yet.
fn stays_committed(history: &History, judgement: &mut Judgement) {
    let last = probed_nodes(history);
    let tables = final_tables(history);
    let Some(seen_until) = last.values().map(|event| event.mono_ns).min() else { return };
    let acks = Acks::of(&history.operations(), is_write);
    let Some((index, ack)) = acks.before(seen_until) else { return };
    let told = |event: &Event| match &event.what {
        What::Probe(probe) => probe.committed.max(probe.applied),
        _ => 0,
    };
    let probed = history.events().iter().map(told).max().unwrap_or(0);
    let committed = tables.iter().map(|table| table.end.applied).fold(probed, u64::max);
    judgement.stat("acked_index", index as f64);
    if committed < index {
        let mut events: Vec<u64> = last.values().map(|event| event.i).collect();
        events.insert(0, ack);
        let what =
            format!("index {index} was acknowledged, and no replica has committed more than {committed}");
        judgement.violated(what, None, &events);
    }
}

/// R3. See the module.
pub fn digests(history: &History, _: &Options) -> Vec<Judgement> {
    let mut judgement = Judgement::of("R3");
    let mut known = Told::default();
    for event in history.events() {
        let node = event.node.as_deref().unwrap_or_default();
        let mut tell = |index: u64, digest: &str| match u64::from_str_radix(digest, 16) {
            Ok(value) => {
                if let Some((other, first)) = known.tell(index, value, node, event.i) {
                    let what = format!(
                        "the tables at index {index} differ: {other:016x} and on {node} {value:016x}"
                    );
                    judgement.violated(what, None, &[first, event.i]);
                }
            }
            Err(_) => judgement.unknown(format!("{node}: {digest:?} is not a digest"), &[event.i]),
        };
        match &event.what {
            What::Probe(probe) => probe.digests.iter().for_each(|(index, digest)| tell(*index, digest)),
            What::FinalTable(table) if !table.digest.is_empty() => tell(table.applied, &table.digest),
            _ => {}
        }
    }
    known.settle(&mut judgement, "no index at which two replicas told their digest");
    vec![judgement]
}

/// R4. See the module.
pub fn entries(history: &History, _: &Options) -> Vec<Judgement> {
    let mut judgement = Judgement::of("R4");
    let mut known = Told::default();
    for event in history.events() {
        let What::Probe(probe) = &event.what else { continue };
        let node = event.node.as_deref().unwrap_or_default();
        // What is applied is committed, also where the replica has not heard so yet.
        let committed = probe.committed.max(probe.applied);
        for (&index, &term) in probe.log_terms.range(..=committed) {
            if let Some((other, first)) = known.tell(index, term, node, event.i) {
                let what = format!("entry {index} is of term {other} and, on {node}, of term {term}");
                judgement.violated(what, None, &[first, event.i]);
            }
        }
    }
    let mut before: Option<(u64, u64, u64)> = None;
    for (&index, entry) in &known.by_index {
        if let Some((earlier, term, first)) = before
            && entry.value < term
        {
            let what =
                format!("entry {earlier} is of term {term}, and entry {index} after it of {}", entry.value);
            judgement.violated(what, None, &[first, entry.event]);
        }
        before = Some((index, entry.value, entry.event));
    }
    known.settle(&mut judgement, "no entry of which two replicas told the term");
    vec![judgement]
}

/// What was told of each index, and by whom.
#[derive(Debug, Default)]
struct Told<'a> {
    by_index: BTreeMap<u64, Entry<'a>>,
}

#[derive(Debug)]
struct Entry<'a> {
    /// What was told first.
    value: u64,
    /// By this event.
    event: u64,
    /// What each replica told last.
    by_node: BTreeMap<&'a str, u64>,
}

impl<'a> Told<'a> {
    /// Takes note; answers with what was told first, and by which event, when that is something else.
    fn tell(&mut self, index: u64, value: u64, node: &'a str, event: u64) -> Option<(u64, u64)> {
        let fresh = || Entry { value, event, by_node: BTreeMap::new() };
        let entry = self.by_index.entry(index).or_insert_with(fresh);
        // Probes repeat themselves: one disagreement is told once.
        let is_news = entry.by_node.insert(node, value) != Some(value);
        (is_news && entry.value != value).then_some((entry.value, entry.event))
    }

    /// Says how much was compared.
    fn settle(&self, judgement: &mut Judgement, nothing: &str) {
        let shared = self.by_index.values().filter(|entry| entry.by_node.len() > 1).count();
        judgement.stat("indexes", self.by_index.len() as f64);
        judgement.stat("indexes_of_several", shared as f64);
        if shared == 0 {
            judgement.unknown(nothing, &[]);
        }
    }
}
