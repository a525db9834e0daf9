//! L1: the cluster heals. L2: the work drains.

use std::collections::{BTreeMap, BTreeSet};

use super::Options;
use crate::attempts::Tasks;
use crate::clocks::Clocks;
use crate::event::{Event, FinalTask, Probe, What};
use crate::faults::installed;
use crate::history::History;
use crate::spans::MS;
use crate::verdict::Judgement;

/// The probes of one replica after the last heal.
type Probes<'a> = BTreeMap<&'a str, Vec<(&'a Event, &'a Probe)>>;

fn probes_since(history: &History, from: u64) -> Probes<'_> {
    let mut probes: Probes<'_> = BTreeMap::new();
    for event in history.events().iter().filter(|event| event.mono_ns >= from) {
        if let (What::Probe(probe), Some(node)) = (&event.what, event.node.as_deref()) {
            probes.entry(node).or_default().push((event, probe));
        }
    }
    probes
}

/// L1. Within so long after the last heal a leader serves; by the last word of each replica one alone does,
/// and all others follow it; every replica has in that time applied what was committed when the faults were
/// healed; at the highest index of which several replicas told digests these are equal, and so are the tables
/// at the end that were read at one index; and of the submissions that began after the heal one succeeds
/// within that time. Replicas that the plan removed are left out. Unknown when the run did not get to the
/// heal, or nobody was probed or asked for anything after it.
pub fn heals(history: &History, options: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("L1");
    let Some(heal) = history.phase("heal") else {
        word.unknown("the run did not get to the heal", &[]);
        return vec![word];
    };
    let deadline = heal + options.heal_ms * MS;
    let probes = probes_since(history, heal);
    if probes.values().flatten().all(|(event, _)| event.mono_ns < deadline) {
        word.unknown("no replica was probed after the time that healing may take", &[]);
    }
    word.stat("looked_at", probes.values().map(Vec::len).sum::<usize>() as f64);
    all_are_back(&mut word, history, &probes, deadline);
    one_leader(&mut word, &probes, heal, deadline);
    caught_up(&mut word, history, &probes, heal, deadline);
    equal_digests(&mut word, history, &probes);
    serves_again(&mut word, history, heal, deadline);
    vec![word]
}

/// Replicas that a change of membership took out for good are not waited for.
fn all_are_back(word: &mut Judgement, history: &History, probes: &Probes<'_>, deadline: u64) {
    let removed: BTreeSet<&str> = installed(history)
        .iter()
        .filter(|one| one.class() == "membership.remove" && !one.undone)
        .flat_map(|one| one.fault.nodes.iter().map(String::as_str))
        .collect();
    for (node, seen) in probes_since(history, 0) {
        let Some((last, _)) = seen.last().filter(|_| !removed.contains(node)) else { continue };
        let back = last.mono_ns >= deadline;
        let anyone = probes.values().flatten().any(|(event, _)| event.mono_ns >= deadline);
        if anyone && !back {
            word.violated(format!("{node} does not answer after the heal"), None, &[last.i]);
        }
    }
}

fn one_leader(word: &mut Judgement, probes: &Probes<'_>, heal: u64, deadline: u64) {
    let serving = probes.values().flatten().filter(|(_, probe)| probe.serving.is_some());
    let first = serving.map(|(event, _)| event.mono_ns).min();
    if let Some(at) = first {
        word.stat("served_after_ms", (at.saturating_sub(heal) / MS) as f64);
    }
    let last_words = || probes.values().filter_map(|seen| seen.last()).filter(|(e, _)| e.mono_ns >= deadline);
    if first.is_none_or(|at| at > deadline)
        && let Some((event, _)) = last_words().next()
    {
        word.violated("nobody serves in time after the heal", None, &[event.i]);
    }
    let mut leaders = last_words().filter(|(_, probe)| probe.serving.is_some());
    let Some((said, leader)) = leaders.next() else {
        if let Some((event, _)) = last_words().next() {
            word.violated("nobody serves at the end", None, &[event.i]);
        }
        return;
    };
    if let Some((event, other)) = leaders.next() {
        let what = format!("replicas {} and {} both serve at the end", leader.id, other.id);
        word.violated(what, None, &[said.i, event.i]);
        return;
    }
    for (event, probe) in last_words().filter(|(_, probe)| probe.leader != Some(leader.id)) {
        let node = event.node.as_deref().unwrap_or("a replica");
        let what = format!("{node} takes {:?} for the leader at the end, not {}", probe.leader, leader.id);
        word.violated(what, None, &[said.i, event.i]);
    }
}

fn caught_up(word: &mut Judgement, history: &History, probes: &Probes<'_>, heal: u64, deadline: u64) {
    let before = history.events().iter().take_while(|event| event.mono_ns <= heal);
    let committed = before.filter_map(|event| match &event.what {
        What::Probe(probe) => Some(probe.committed),
        _ => None,
    });
    let committed = committed.max().unwrap_or(0);
    for (node, seen) in probes {
        let Some((event, probe)) = seen.iter().find(|(event, _)| event.mono_ns >= deadline) else { continue };
        if probe.applied < committed && probe.role != "stopped" {
            let what = format!(
                "{node} has applied {} after the heal, and {committed} was committed before it",
                probe.applied
            );
            word.violated(what, None, &[event.i]);
        }
    }
}

fn equal_digests(word: &mut Judgement, history: &History, probes: &Probes<'_>) {
    let mut told: BTreeMap<u64, BTreeMap<&str, (&str, u64)>> = BTreeMap::new();
    for (node, seen) in probes {
        for (event, probe) in seen {
            for (index, digest) in &probe.digests {
                told.entry(*index).or_default().insert(node, (digest, event.i));
            }
        }
    }
    for event in history.events() {
        if let (What::FinalTable(table), Some(node)) = (&event.what, event.node.as_deref())
            && !table.digest.is_empty()
        {
            told.entry(table.applied).or_default().insert(node, (&table.digest, event.i));
        }
    }
    let shared = told.iter().rev().find(|(_, by_node)| by_node.len() >= probes.len().max(2));
    let shared = shared.or_else(|| told.iter().rev().find(|(_, by_node)| by_node.len() >= 2));
    let Some((index, by_node)) = shared else {
        word.unknown("no two replicas told a digest at one index after the heal", &[]);
        return;
    };
    word.stat("digests_compared", by_node.len() as f64);
    let mut digests = by_node.iter();
    let Some((first, (digest, event))) = digests.next() else { return };
    if let Some((other, (another, at))) = digests.find(|(_, (another, _))| another != digest) {
        let what = format!("at index {index} {first} has digest {digest}, and {other} has {another}");
        word.violated(what, None, &[*event, *at]);
    }
}

fn serves_again(word: &mut Judgement, history: &History, heal: u64, deadline: u64) {
    let mut fresh = 0_u64;
    let mut first_ok: Option<u64> = None;
    let mut tried = Vec::new();
    for operation in history.operations() {
        let is_submit = matches!(operation.invoke.what, What::Submit(_));
        if !is_submit || operation.invoke.mono_ns < heal {
            continue;
        }
        fresh += 1;
        tried.push(operation.invoke.i);
        if let Some(end) = operation.ok() {
            first_ok = Some(first_ok.map_or(end.mono_ns, |at| at.min(end.mono_ns)));
        }
    }
    word.stat("fresh_submissions", fresh as f64);
    let in_time = first_ok.is_some_and(|at| at <= deadline);
    if let Some(at) = first_ok {
        word.stat("first_fresh_ack_ms", (at.saturating_sub(heal) / MS) as f64);
    }
    let had_time = history.events().last().is_some_and(|last| last.mono_ns >= deadline);
    if fresh == 0 {
        word.unknown("nothing was submitted after the heal", &[]);
    }
    if fresh > 0 && !in_time && had_time {
        tried.truncate(5);
        word.violated("no submission after the heal was acknowledged in time", None, &tried);
    }
}

/// L2. In the tables at the end every task has ended, or is not due yet, or runs at an executor that lives
/// and has taken it; no attempt is open at an executor's life that is over; and the leader's wheel holds what
/// the table says is due within its window. Unknown without a table.
pub fn drains(history: &History, options: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("L2");
    let tasks = Tasks::of(history);
    if tasks.tables.is_empty() {
        word.unknown("no table was read at the end", &[]);
        return vec![word];
    }
    let clocks = Clocks::of(history, options.clock_noise_ms);
    let lives = Lives::of(history);
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for (task, life) in &tasks.by_id {
        for (event, table) in &life.finals {
            let (state, fault) = standing(event, table, &tasks, &clocks, &lives, options);
            *counts.entry(state).or_default() += 1;
            if let Some(what) = fault {
                word.violated(what, Some(task), &[event.i]);
            }
        }
    }
    for (state, count) in &counts {
        word.stat(state, *count as f64);
    }
    word.stat("looked_at", counts.values().sum::<u64>() as f64);
    wheel(&mut word, history, &tasks, &clocks, options);
    vec![word]
}

/// The lives of executors at the end: the last that began, and those that are over.
struct Lives<'a> {
    last: BTreeMap<&'a str, u64>,
    over: BTreeSet<(&'a str, u64)>,
}

impl<'a> Lives<'a> {
    fn of(history: &'a History) -> Self {
        let mut lives = Lives { last: BTreeMap::new(), over: BTreeSet::new() };
        for event in history.events() {
            match &event.what {
                What::ExecutorUp(up) => {
                    lives.last.insert(&up.executor, up.incarnation);
                }
                What::ExecutorDown(down) => {
                    lives.over.insert((&down.executor, down.incarnation));
                }
                _ => {}
            }
        }
        lives
    }

    fn is_over(&self, executor: &str, incarnation: u64) -> bool {
        let replaced = self.last.get(executor).is_some_and(|last| *last != incarnation);
        replaced || self.over.contains(&(executor, incarnation))
    }
}

/// Where a task stands at the end, and what is wrong with that.
fn standing(
    event: &Event,
    table: &FinalTask,
    tasks: &Tasks<'_>,
    clocks: &Clocks,
    lives: &Lives<'_>,
    options: &Options,
) -> (&'static str, Option<String>) {
    let task = &table.task;
    if let Some(row) = table
        .attempts
        .iter()
        .find(|row| row.outcome.is_none() && lives.is_over(&row.executor, row.incarnation))
    {
        let what = format!(
            "attempt {} is open at life {} of {}, which is over",
            row.attempt, row.incarnation, row.executor
        );
        return ("running", Some(what));
    }
    match task.status.as_str() {
        "PENDING" => {
            let lateness = i64::try_from(options.lateness_ms).unwrap_or(i64::MAX);
            let due = task.due_at_ms.zip(clocks.wall_ms(event.mono_ns));
            let overdue = due.is_some_and(|(due_at, now)| due_at.saturating_add(lateness) < now);
            let reason = task.reason.as_deref().unwrap_or("no reason");
            ("pending", overdue.then(|| format!("still PENDING ({reason}) at the end, and due long since")))
        }
        "RUNNING" => {
            let open: Vec<_> = table.attempts.iter().filter(|row| row.outcome.is_none()).collect();
            let unreceived = open.iter().find(|row| {
                let one = tasks.by_id.get(task.task_id.as_str());
                let one = one.and_then(|life| life.tries.get(&(row.shard, row.attempt)));
                tasks.observed.contains(row.executor.as_str())
                    && one.is_none_or(|one| one.accepted().next().is_none())
            });
            let fault = match (open.first(), unreceived) {
                (None, _) => Some("RUNNING at the end, and no attempt is open".to_owned()),
                (_, Some(row)) => Some(format!(
                    "RUNNING at the end, and {} never took attempt {}",
                    row.executor, row.attempt
                )),
                _ => None,
            };
            ("running", fault)
        }
        _ => ("ended", None),
    }
}

/// The leader's wheel against the table that was read last. Compared only when the leader's last word comes
/// after everything else was quiet: its index is that of a table.
fn wheel(word: &mut Judgement, history: &History, tasks: &Tasks<'_>, clocks: &Clocks, options: &Options) {
    let last = history.events().iter().rev().find_map(|event| match &event.what {
        What::Probe(probe) if probe.serving.is_some() => Some((event, probe)),
        _ => None,
    });
    let Some((event, probe)) = last else { return };
    let Some((end, _)) = tasks.tables.iter().find(|(_, table)| table.applied == probe.applied) else {
        return;
    };
    let Some(now) = clocks.wall_ms(event.mono_ns) else { return };
    let window = i64::try_from(options.window_ms).unwrap_or(i64::MAX);
    // A timer may be about to fire, or have fired just now.
    let margin = i64::try_from(options.lateness_ms).unwrap_or(i64::MAX);
    let (mut least, mut most) = (0_u64, 0_u64);
    for life in tasks.by_id.values() {
        let Some((_, table)) = life.finals.iter().find(|(event, _)| event.node == end.node) else { continue };
        if table.task.is_terminal() {
            continue;
        }
        let waits = matches!(table.task.reason.as_deref(), Some("scheduled" | "retry"));
        let due_at = table.task.due_at_ms.filter(|_| waits);
        let in_half = due_at.is_some_and(|due| due > now + margin && due < now + window / 2 - margin);
        let in_whole = due_at.is_some_and(|due| due < now + window + margin);
        let expires = life.request().is_none_or(|request| request.expire_at_ms.is_some());
        let shards = life.request().map_or(1, |request| request.shard_total.max(1));
        least += u64::from(in_half);
        // The record of a task tells of one of its shards only.
        most += if shards > 1 { shards } else { u64::from(in_whole) };
        most += u64::from(expires);
    }
    word.stat("wheel", probe.wheel as f64);
    word.stat("wheel_least", least as f64);
    word.stat("wheel_most", most as f64);
    if !clocks.stepped() && !(least..=most).contains(&probe.wheel) {
        let what = format!("the wheel holds {} timers, and the table has {least} to {most}", probe.wheel);
        word.violated(what, None, &[event.i, end.i]);
    }
}
