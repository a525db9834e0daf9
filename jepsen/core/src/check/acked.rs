//! A1 and A4: what was acknowledged is there, once.
//!
//! - **A1**: no acknowledged task is lost. Fails when a task whose submission was answered is missing from a read
//!   that began after the answer, or from the table of any replica at the end. Submissions of unknown outcome may
//!   be there or not; how many were is a figure. Fails also when a table has a task that was refused at every
//!   try, or that nobody asked for: what was refused has not happened. Unknown when a replica that was probed has
//!   no whole table in the history, or one from before an acknowledgement.
//! - **A4**: one Idempotency-Key, one task. Fails when answers or tables show two tasks for one key, or one task
//!   for two keys. Two tasks whose creations are as far apart by the cluster's time as keys are kept are no
//!   failure: a clock that is put forward by days lets keys be forgotten. Unknown when no key was used twice.

use std::collections::{BTreeMap, BTreeSet};

use super::Options;
use crate::acks::probed_nodes;
use crate::event::{Event, Kind, Submit, TaskSeen, What};
use crate::history::{History, Operation};
use crate::tables::{Table, final_tables};
use crate::verdict::Judgement;

/// A submission that was answered: the first answer for its task.
struct Ack<'a> {
    event: &'a Event,
    seen: &'a TaskSeen,
}

/// A1. See the module.
pub fn lost(history: &History, _: &Options) -> Vec<Judgement> {
    let mut judgement = Judgement::of("A1");
    let operations = history.operations();
    let acks = acks(&operations);
    let tables = final_tables(history);
    let found_later = missing_from_reads(&operations, &acks, &mut judgement);
    for table in &tables {
        missing_from_table(table, &acks, &mut judgement);
    }
    for (node, event) in probed_nodes(history) {
        if !tables.iter().any(|table| table.node == node) {
            judgement.unknown(format!("the table of {node} was not read at the end"), &[event.i]);
        }
    }
    if acks.is_empty() {
        judgement.unknown("no submission was acknowledged", &[]);
    }
    if tables.is_empty() {
        judgement.unknown("no table was read at the end", &[]);
    }
    judgement.stat("acked", acks.len() as f64);
    judgement.stat("tables", tables.len() as f64);
    judgement.stat("stale", found_later as f64);
    count_unknown(&operations, &tables, &mut judgement);
    not_asked_for(&operations, &tables, &mut judgement);
    vec![judgement]
}

/// Tasks in tables whose label no submission carries that can have happened.
fn not_asked_for(operations: &[Operation<'_>], tables: &[Table<'_>], judgement: &mut Judgement) {
    // Of each label: the last line of a refusal of it, and whether any submission of it was more than refused.
    let mut asked: BTreeMap<&str, (u64, bool)> = BTreeMap::new();
    for operation in operations {
        let What::Submit(submit) = &operation.invoke.what else { continue };
        let refused = operation.end.filter(|end| end.kind == Kind::Fail);
        let known = asked.entry(&submit.label).or_default();
        known.0 = refused.map_or(known.0, |end| end.i);
        known.1 |= refused.is_none();
    }
    let mut told: BTreeSet<&str> = BTreeSet::new();
    for (task, row) in tables.iter().flat_map(|table| &table.rows) {
        // Without a label it is not one of a client's.
        let Some(label) = row.task.label.as_deref().filter(|label| !label.is_empty()) else { continue };
        let (what, refusal) = match asked.get(label) {
            Some((_, true)) => continue,
            Some((refusal, false)) => ("every submission of it was refused", Some(*refusal)),
            None => ("nobody asked for it", None),
        };
        if told.insert(task) {
            let events: Vec<u64> = refusal.into_iter().chain([row.event]).collect();
            judgement.violated(format!("{task} ({label}) is in a table, and {what}"), Some(task), &events);
        }
    }
}

fn acks<'a>(operations: &[Operation<'a>]) -> BTreeMap<&'a str, Ack<'a>> {
    let mut acks: BTreeMap<&str, Ack<'a>> = BTreeMap::new();
    for (event, _, seen) in answers(operations) {
        let ack = acks.entry(&seen.task_id).or_insert(Ack { event, seen });
        if event.mono_ns < ack.event.mono_ns {
            *ack = Ack { event, seen };
        }
    }
    acks
}

/// Every answered submission.
fn answers<'s, 'a: 's>(
    operations: &'s [Operation<'a>],
) -> impl Iterator<Item = (&'a Event, &'a Submit, &'a TaskSeen)> + 's {
    operations.iter().filter_map(|operation| {
        let end = operation.ok()?;
        let What::Submit(submit) = &end.what else { return None };
        Some((end, submit, submit.answer.as_ref()?))
    })
}

/// Answers with how many of the missing were found again by a later read.
fn missing_from_reads(
    operations: &[Operation<'_>],
    acks: &BTreeMap<&str, Ack<'_>>,
    judgement: &mut Judgement,
) -> u64 {
    let mut missing: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut found: BTreeMap<&str, u64> = BTreeMap::new();
    let mut reads = 0_u64;
    for operation in operations {
        let Some(end) = operation.ok() else { continue };
        let (What::Get(get), Some(task)) = (&end.what, operation.key()) else { continue };
        let Some(ack) = acks.get(task) else { continue };
        if get.answer.is_some() {
            let last = found.entry(task).or_default();
            *last = end.mono_ns.max(*last);
        } else if operation.invoke.mono_ns > ack.event.mono_ns {
            let what = format!("{task} was acknowledged, and a read that began later did not find it");
            judgement.violated(what, Some(task), &[ack.event.i, operation.invoke.i, end.i]);
            missing.insert(task, (operation.invoke.mono_ns, end.i));
        }
        reads += 1;
    }
    judgement.stat("reads", reads as f64);
    missing.iter().filter(|(task, (read, _))| found.get(*task).is_some_and(|found| found > read)).count()
        as u64
}

fn missing_from_table(table: &Table<'_>, acks: &BTreeMap<&str, Ack<'_>>, judgement: &mut Judgement) {
    let (node, applied) = (table.node, table.end.applied);
    if !table.is_whole() {
        let (rows, told) = (table.rows.len(), table.end.tasks);
        judgement.unknown(format!("{node} told {told} tasks, and the history has {rows}"), &[table.event]);
        return;
    }
    for (task, ack) in acks {
        if table.rows.contains_key(task) {
            continue;
        }
        if let Some(index) = ack.event.meta.applied.filter(|index| *index > applied) {
            let what =
                format!("the table of {node} is of index {applied}, and {task} was acknowledged at {index}");
            judgement.unknown(what, &[ack.event.i, table.event]);
            continue;
        }
        let what =
            format!("{task} was acknowledged as {}, and is not in the table of {node}", ack.seen.status);
        judgement.violated(what, Some(task), &[ack.event.i, table.event]);
    }
}

/// What became of submissions that nobody got an answer to, and of tasks that no submission explains.
fn count_unknown(operations: &[Operation<'_>], tables: &[Table<'_>], judgement: &mut Judgement) {
    let rows = || tables.iter().flat_map(|table| table.rows.values());
    let in_tables: BTreeSet<&str> = rows().filter_map(|row| row.task.label.as_deref()).collect();
    let answered: BTreeSet<&str> = answers(operations).map(|(_, submit, _)| submit.label.as_str()).collect();
    let mut unknown: BTreeSet<&str> = BTreeSet::new();
    let mut asked: BTreeSet<&str> = BTreeSet::new();
    for operation in operations {
        let What::Submit(submit) = &operation.invoke.what else { continue };
        asked.insert(&submit.label);
        if operation.is_unknown() && !answered.contains(submit.label.as_str()) {
            unknown.insert(&submit.label);
        }
    }
    let recovered = unknown.iter().filter(|label| in_tables.contains(*label)).count();
    let unexplained: BTreeSet<&str> = rows()
        .filter(|row| row.task.label.as_deref().is_none_or(|label| !asked.contains(label)))
        .map(|row| row.task.task.task_id.as_str())
        .collect();
    judgement.stat("recovered_from_unknown", recovered as f64);
    judgement.stat("never_acked", (unknown.len() - recovered) as f64);
    judgement.stat("unexplained", unexplained.len() as f64);
}

/// A4. See the module.
pub fn once(history: &History, options: &Options) -> Vec<Judgement> {
    let mut judgement = Judgement::of("A4");
    let operations = history.operations();
    let mut uses: BTreeMap<&str, u64> = BTreeMap::new();
    let mut key_of_label: BTreeMap<&str, &str> = BTreeMap::new();
    for operation in &operations {
        let What::Submit(submit) = &operation.invoke.what else { continue };
        let Some(key) = submit.idempotency_key.as_deref() else { continue };
        *uses.entry(key).or_default() += 1;
        key_of_label.insert(&submit.label, key);
    }
    let mut pairs = Pairs::default();
    let kept_ms = options.key_kept_ms;
    for (event, submit, seen) in answers(&operations) {
        if let Some(key) = submit.idempotency_key.as_deref() {
            pairs.add(key, Made::of(seen, event.i), kept_ms, &mut judgement);
        }
    }
    for table in final_tables(history) {
        for row in table.rows.values() {
            let of_label = row.task.label.as_deref().and_then(|label| key_of_label.get(label).copied());
            if let Some(key) = row.task.idempotency_key.as_deref().or(of_label) {
                pairs.add(key, Made::of(&row.task.task, row.event), kept_ms, &mut judgement);
            }
        }
    }
    let repeated = uses.values().filter(|uses| **uses > 1).count();
    judgement.stat("keys", pairs.tasks.len() as f64);
    judgement.stat("keys_repeated", repeated as f64);
    if repeated == 0 {
        judgement.unknown("no Idempotency-Key was used twice", &[]);
    }
    vec![judgement]
}

/// A task that a key made, and the event that told it.
#[derive(Clone, Copy)]
struct Made<'a> {
    task: &'a str,
    created_ms: Option<i64>,
    event: u64,
}

impl<'a> Made<'a> {
    fn of(seen: &'a TaskSeen, event: u64) -> Made<'a> {
        Made { task: &seen.task_id, created_ms: seen.created_at_ms, event }
    }

    /// Whether the key had been forgotten before it made the later of the two, by the cluster's time.
    fn is_apart(&self, other: &Made<'_>, kept_ms: u64) -> bool {
        let created = self.created_ms.zip(other.created_ms);
        created.is_some_and(|(one, two)| one.abs_diff(two) >= kept_ms)
    }
}

/// Which tasks a key stands for, and which key made a task, each with the event that told it first.
#[derive(Default)]
struct Pairs<'a> {
    tasks: BTreeMap<&'a str, Vec<Made<'a>>>,
    keys: BTreeMap<&'a str, (&'a str, u64)>,
}

impl<'a> Pairs<'a> {
    fn add(&mut self, key: &'a str, made: Made<'a>, kept_ms: u64, judgement: &mut Judgement) {
        let Made { task, event, .. } = made;
        let known = self.tasks.entry(key).or_default();
        if known.iter().any(|other| other.task == task) {
            return;
        }
        if let Some(other) = known.iter().find(|other| !other.is_apart(&made, kept_ms)) {
            let what = format!("the Idempotency-Key {key:?} stands for {} and for {task}", other.task);
            judgement.violated(what, Some(task), &[other.event, event]);
        }
        known.push(made);
        let (other, first) = *self.keys.entry(task).or_insert((key, event));
        if other != key {
            let what = format!("{task} was made by the Idempotency-Keys {other:?} and {key:?}");
            judgement.violated(what, Some(task), &[first, event]);
        }
    }
}
