//! The faults of a run as stretches of time, and when nothing disturbed the cluster.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::Options;
use crate::event::{Event, Fault, Grant, What};
use crate::history::History;
use crate::leaders::{Leaders, Reign};
use crate::spans::{MS, Spans};

/// A fault from its installation to its undoing.
#[derive(Debug, Clone, Copy)]
pub struct Installed<'a> {
    /// What was done, as it was recorded when it began.
    pub fault: &'a Fault,
    /// The event of its installation.
    pub event: u64,
    /// Since when, in ns.
    pub from_ns: u64,
    /// Until it was undone; where that is not recorded, until the faults were healed or the history ends.
    pub until_ns: u64,
    /// Its undoing is recorded.
    pub undone: bool,
}

impl Installed<'_> {
    /// `package.name`.
    pub fn class(&self) -> String {
        format!("{}.{}", self.fault.package, self.fault.name)
    }

    /// Whether it is one of those that take bytes or space from a disk, memory or files from a process, or its
    /// place from a member: after these a replica may stop by itself. Nobody stops because something is slow, for
    /// a snapshot, or because another leads; and one that loses its power is ended by the harness.
    pub fn stops_processes(&self) -> bool {
        let name = self.fault.name.as_str();
        match self.fault.package.as_str() {
            "disk" => !matches!(name, "stall" | "slow-sync"),
            "resource" => name != "cpu",
            "membership" => !matches!(name, "snapshot" | "transfer"),
            _ => false,
        }
    }

    /// Whether it lies on this host at this instant, or has lain on it within so many ns before.
    fn is_near(&self, host: &str, instant: u64, after_ns: u64) -> bool {
        self.fault.nodes.iter().any(|hit| hit == host)
            && (self.from_ns..=self.until_ns + after_ns).contains(&instant)
    }
}

/// Every fault that was installed, or may have been, in order.
pub fn installed(history: &History) -> Vec<Installed<'_>> {
    let end = end_ns(history);
    let heal = history.phase("heal");
    let mut all: Vec<Installed<'_>> = Vec::new();
    let mut open: BTreeMap<(u64, &str, &str), Vec<usize>> = BTreeMap::new();
    for event in history.events() {
        let What::Fault(fault) = &event.what else { continue };
        let key = (fault.step, fault.package.as_str(), fault.name.as_str());
        match fault.phase.as_str() {
            "installed" | "indeterminate" => {
                let until_ns = heal.filter(|heal| *heal > event.mono_ns).unwrap_or(end);
                open.entry(key).or_default().push(all.len());
                all.push(Installed {
                    fault,
                    event: event.i,
                    from_ns: event.mono_ns,
                    until_ns,
                    undone: false,
                });
            }
            "undone" => {
                for at in open.remove(&key).into_iter().flatten() {
                    all[at].until_ns = event.mono_ns;
                    all[at].undone = true;
                }
            }
            _ => {}
        }
    }
    all
}

/// When the last event happened, in ns.
pub fn end_ns(history: &History) -> u64 {
    history.events().last().map_or(0, |event| event.mono_ns)
}

/// The time in which something may explain that the cluster was slow: faults that `counts` names, each with
/// the time that the cluster may need to recover from it; deaths of executors and of processes, except for
/// those that a fault explains which does not count; changes of leader, from the last sign of the old one.
pub fn disturbed(history: &History, options: &Options, counts: impl Fn(&Fault) -> bool) -> Spans {
    let recovery = options.recovery_ms * MS;
    let silence = options.offline_ms() * MS;
    let faults = installed(history);
    let explained = |event: &Event| {
        let node = event.node.as_deref().unwrap_or_default();
        faults.iter().any(|one| !counts(one.fault) && one.is_near(node, event.mono_ns, recovery))
    };
    let mut spans: Vec<(u64, u64)> = faults
        .iter()
        .filter(|installed| counts(installed.fault))
        .map(|installed| {
            let of_executors = matches!(installed.fault.package.as_str(), "executor" | "partition" | "link");
            let after = if of_executors { recovery + silence } else { recovery };
            (installed.from_ns, installed.until_ns + after)
        })
        .collect();
    for event in history.events() {
        match &event.what {
            What::ExecutorDown(_) => spans.push((event.mono_ns, event.mono_ns + silence + recovery)),
            What::Process(process) if process.state != "started" && !explained(event) => {
                spans.push((event.mono_ns, event.mono_ns + recovery));
            }
            _ => {}
        }
    }
    spans.extend(without_leader(history).into_iter().map(|(gone, back)| (gone, back + recovery)));
    Spans::of(spans)
}

/// The time in which work can be held up whatever the cluster does: faults as long as they are in force, and
/// while nobody leads. Unlike [`disturbed`] it has no room for recovery, since under faults that follow each
/// other closely that room is all of a run: a bound on what is left has to have it.
pub fn in_force(history: &History) -> Spans {
    let faults = installed(history);
    let faults = faults.iter().map(|one| (one.from_ns, one.until_ns));
    Spans::of(faults.chain(without_leader(history)))
}

/// From the last sign of each leader to the first of the next one.
fn without_leader(history: &History) -> Vec<(u64, u64)> {
    let leaders = Leaders::of(history);
    let gap = |pair: &[Reign<'_>]| (pair[0].last_ns.min(pair[1].first_ns), pair[1].first_ns);
    leaders.reigns().windows(2).map(gap).collect()
}

/// The leader knows of a slot that was freed, and has filled it, within so many ms.
pub const SLOT_FILLED_MS: u64 = 300;

/// The slots of the executors that write their own history.
#[derive(Default)]
struct Slots<'a> {
    /// Of each that lives: how many slots it has, and what it holds.
    living: BTreeMap<&'a str, (usize, BTreeSet<&'a Grant>)>,
    /// One has lived: none before that says nothing.
    any: bool,
}

impl<'a> Slots<'a> {
    /// Answers whether this event says anything of slots.
    fn take(&mut self, event: &'a Event) -> bool {
        match &event.what {
            What::ExecutorUp(up) => {
                self.living.insert(&up.executor, (up.slots as usize, BTreeSet::new()));
                self.any = true;
            }
            What::ExecutorDown(down) => {
                self.living.remove(down.executor.as_str());
            }
            What::Recv(recv) if recv.verdict == "accepted" => {
                if let Some((_, held)) = self.living.get_mut(recv.executor.as_str()) {
                    held.insert(&recv.grant);
                }
            }
            What::Finish(finish) => {
                if let Some((_, held)) = self.living.get_mut(finish.executor.as_str()) {
                    held.remove(&finish.grant);
                }
            }
            _ => return false,
        }
        true
    }

    fn are_full(&self) -> bool {
        self.any && self.living.values().all(|(slots, held)| held.len() >= *slots)
    }
}

/// The time in which no executor that lives had a free slot. What is due then waits, and nobody is to blame.
/// It is told from the executors, not from what the leader says: one that forgets work says that it waits.
pub fn busy(history: &History) -> Spans {
    let mut slots = Slots::default();
    let mut spans = Vec::new();
    let mut since: Option<u64> = None;
    for event in history.events() {
        if !slots.take(event) {
            continue;
        }
        match (slots.are_full(), since) {
            (true, None) => since = Some(event.mono_ns),
            (false, Some(full)) => {
                spans.push((full, event.mono_ns + SLOT_FILLED_MS * MS));
                since = None;
            }
            _ => {}
        }
    }
    if slots.are_full() {
        spans.extend(since.map(|full| (full, end_ns(history))));
    }
    Spans::of(spans)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, at};

    fn fault(ms: u64, step: u64, phase: &str) -> crate::Event {
        let fault = Fault {
            step,
            package: "process".into(),
            name: "pause".into(),
            nodes: vec!["n1".into()],
            phase: phase.into(),
            ..Fault::default()
        };
        testing::event(ms, What::Fault(fault))
    }

    #[test]
    fn a_fault_lasts_until_it_is_undone_or_healed() {
        let history = History::merge(vec![
            fault(10, 1, "installed"),
            fault(20, 2, "installed"),
            fault(25, 3, "skipped"),
            fault(30, 1, "undone"),
            testing::phase(40, "heal"),
            testing::phase(90, "end"),
        ]);
        let found: Vec<_> = installed(&history)
            .iter()
            .map(|one| (one.fault.step, one.from_ns, one.until_ns, one.undone))
            .collect();
        assert_eq!(found, [(1, at(10), at(30), true), (2, at(20), at(40), false)]);
        let options = Options { recovery_ms: 5, ..Options::default() };
        let spans = disturbed(&history, &options, |_| true);
        assert!(spans.touch(at(45), at(45)) && !spans.touch(at(46), at(90)));
        assert!(!disturbed(&history, &options, |_| false).touch(0, at(90)));
    }
}
