//! A6: a cancel wins or loses once.
//!
//! A cancel that was taken either ended the task (it waited) or asked its executor to stop (it ran). From then
//! on no attempt is granted. Fails when, after the answer to a cancel,
//! - an attempt has a fence above the cancel's log index, in a push that an executor received or in a table at
//!   the end: granted after the cancel;
//! - a task that the answer called CANCELLED is seen otherwise, or a report on it that was made later is accepted;
//! - a task whose executor was asked to stop is seen waiting, skipped, or running without the mark, or ends
//!   as succeeded without an attempt that did;
//! - a task is CANCELLED in a table although no cancel of it ever began, and no job replaces it.
//!
//! It passes when a running task ends otherwise before its executor has stopped it, and when a push with an
//! attempt granted before the cancel arrives after it. Unknown when no cancel was taken.

use std::collections::{BTreeMap, BTreeSet};

use super::Options;
use super::jobs::replaceable;
use crate::event::{Event, FinalTask, TaskSeen, What};
use crate::history::{History, Operation};
use crate::tables::final_tables;
use crate::verdict::Judgement;

/// The first cancel of a task that was taken.
#[derive(Clone, Copy)]
struct Taken<'a> {
    end: &'a Event,
    /// The log index of the cancel.
    index: Option<u64>,
    /// It ended the task at once.
    ended: bool,
}

/// See the module.
pub fn check(history: &History, _: &Options) -> Vec<Judgement> {
    let mut judgement = Judgement::of("A6");
    let operations = history.operations();
    let taken = taken(&operations);
    let mut begun: BTreeSet<&str> = BTreeSet::new();
    for operation in &operations {
        if let (What::Cancel(_), Some(task)) = (&operation.invoke.what, operation.key()) {
            begun.insert(task);
        }
    }
    begun.extend(replaceable(history));
    reads(&operations, &taken, &mut judgement);
    executors(history, &taken, &mut judgement);
    for table in final_tables(history) {
        for (task, row) in &table.rows {
            match taken.get(task) {
                Some(cancel) => at_the_end(cancel, row.task, row.event, &mut judgement),
                None if row.task.task.status == "CANCELLED" && !begun.contains(task) => {
                    let what = format!("{task} is CANCELLED on {}, and nobody cancelled it", table.node);
                    judgement.violated(what, Some(task), &[row.event]);
                }
                None => {}
            }
        }
    }
    let ended = taken.values().filter(|cancel| cancel.ended).count();
    judgement.stat("cancels_taken", taken.len() as f64);
    judgement.stat("cancelled_at_once", ended as f64);
    judgement.stat("cancels_begun", begun.len() as f64);
    if taken.is_empty() {
        judgement.unknown("no cancel was taken", &[]);
    }
    vec![judgement]
}

fn taken<'a>(operations: &[Operation<'a>]) -> BTreeMap<&'a str, Taken<'a>> {
    let mut taken: BTreeMap<&str, Taken<'a>> = BTreeMap::new();
    for operation in operations {
        let Some(end) = operation.ok() else { continue };
        let (What::Cancel(cancel), Some(task)) = (&end.what, operation.key()) else { continue };
        let ended = cancel.answer.as_ref().is_some_and(|seen| seen.status == "CANCELLED");
        let this = Taken { end, index: end.meta.applied, ended };
        let first = taken.entry(task).or_insert(this);
        if this.end.mono_ns < first.end.mono_ns {
            *first = this;
        }
    }
    taken
}

/// What is wrong with a task that is seen so after the cancel.
fn fault(cancel: &Taken<'_>, seen: &TaskSeen) -> Option<&'static str> {
    match (cancel.ended, seen.status.as_str()) {
        (_, "CANCELLED") => None,
        (true, _) => Some("it was CANCELLED"),
        (false, "SUCCESS" | "FAILED") => None,
        (false, "RUNNING") if seen.cancel_requested => None,
        (false, "RUNNING") => Some("its executor was asked to stop, and the mark is gone"),
        (false, _) => Some("its executor was asked to stop, after which it cannot wait or be skipped"),
    }
}

fn reads(operations: &[Operation<'_>], taken: &BTreeMap<&str, Taken<'_>>, judgement: &mut Judgement) {
    let mut reads = 0_u64;
    for operation in operations {
        let Some(end) = operation.ok() else { continue };
        let seen: &[TaskSeen] = match &end.what {
            What::Get(get) => get.answer.as_slice(),
            What::List(list) => list.answer.as_deref().unwrap_or_default(),
            _ => continue,
        };
        for seen in seen {
            let task = seen.task_id.as_str();
            let Some(cancel) = taken.get(task) else { continue };
            if operation.invoke.mono_ns <= cancel.end.mono_ns {
                continue;
            }
            reads += 1;
            if let Some(fault) = fault(cancel, seen) {
                let what = format!("{task} is seen {} after a cancel: {fault}", seen.status);
                judgement.violated(what, Some(task), &[cancel.end.i, operation.invoke.i, end.i]);
            }
        }
    }
    judgement.stat("reads_after", reads as f64);
}

fn executors(history: &History, taken: &BTreeMap<&str, Taken<'_>>, judgement: &mut Judgement) {
    let mut ends: BTreeMap<(&str, u16, u64), &Event> = BTreeMap::new();
    let mut pushes_after = 0_u64;
    for event in history.events() {
        match &event.what {
            What::Recv(recv) => {
                let task = recv.grant.task.as_str();
                let Some(cancel) = taken.get(task) else { continue };
                pushes_after += u64::from(event.mono_ns > cancel.end.mono_ns);
                if let Some(index) = cancel.index.filter(|index| recv.grant.fence > *index) {
                    let what = format!(
                        "{task}: attempt {} was granted at {} and handed out, after a cancel at {index}",
                        recv.grant.attempt, recv.grant.fence
                    );
                    judgement.violated(what, Some(task), &[cancel.end.i, event.i]);
                }
            }
            What::Finish(finish) | What::ReportSent(finish) => {
                let grant = &finish.grant;
                ends.entry((&grant.task, grant.shard, grant.fence)).or_insert(event);
            }
            What::ReportAcked(acked) if acked.verdict == "accepted" => {
                let grant = &acked.grant;
                let Some(cancel) = taken.get(grant.task.as_str()).filter(|cancel| cancel.ended) else {
                    continue;
                };
                let Some(end) = ends.get(&(grant.task.as_str(), grant.shard, grant.fence)) else { continue };
                if end.mono_ns > cancel.end.mono_ns {
                    let what = format!("{}: a report was accepted after it was CANCELLED", grant.task);
                    judgement.violated(what, Some(&grant.task), &[cancel.end.i, end.i, event.i]);
                }
            }
            _ => {}
        }
    }
    judgement.stat("pushes_after", pushes_after as f64);
}

fn at_the_end(cancel: &Taken<'_>, row: &FinalTask, event: u64, judgement: &mut Judgement) {
    let task = row.task.task_id.as_str();
    let events = [cancel.end.i, event];
    if let Some(fault) = fault(cancel, &row.task) {
        judgement.violated(format!("{task} ends as {}: {fault}", row.task.status), Some(task), &events);
    }
    let Some(index) = cancel.index else { return };
    for attempt in row.attempts.iter().filter(|attempt| attempt.fence > index) {
        let what = format!(
            "{task}: attempt {} was granted at {}, after a cancel at {index}",
            attempt.attempt, attempt.fence
        );
        judgement.violated(what, Some(task), &events);
    }
    let succeeded = row.attempts.iter().any(|attempt| attempt.outcome.as_deref() == Some("succeeded"));
    if row.task.status == "SUCCESS" && !succeeded && !row.attempts.is_empty() {
        judgement.violated(
            format!("{task} ends as SUCCESS without an attempt that succeeded"),
            Some(task),
            &events,
        );
    }
}
