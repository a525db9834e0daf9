//! A2: the table of tasks is linearizable.
//!
//! Linearizability is a property of each object by itself, so each task is judged alone: its submissions, reads,
//! cancels and accepted reports must fit in one order that keeps real time, by the rules of
//! [`TaskModel`](crate::task_model::TaskModel).
//!
//! It fails when, for instance,
//! - a read that began after an acknowledged submission finds no such task, or one at a lower version than an
//!   answer that had arrived before it began;
//! - two answers tell different things of one version, or a version is reached by fewer changes than the
//!   transition table needs;
//! - a task is cancelled, or about to be, although nobody can have asked for it; or it goes on waiting, or is
//!   granted again, although a cancel was taken;
//! - a report was accepted of an attempt that was over, or a later read does not show what it led to;
//! - a read was served at a log index below one that an answer had carried before the read began.
//!
//! Each row of a list is a read of its task; what a list lacks is judged by A3. It passes when an operation of
//! unknown outcome happened at any time after its beginning, or never.

use std::collections::{BTreeMap, BTreeSet};

use super::Options;
use super::jobs::replaceable;
use crate::acks::Acks;
use crate::event::{Event, Finish, Grant, Kind, Submit, TaskSeen, What};
use crate::history::{History, Operation};
use crate::task_model::{Ending, Op, Sight, Status, TaskModel};
use crate::verdict::Judgement;
use crate::wgl::{self, Call, Outcome};

/// The most steps of the model that are tried for one task.
const BUDGET: u64 = 1_000_000;

/// The operations on one task.
#[derive(Debug, Default)]
struct Work<'a> {
    calls: Vec<Call<Op>>,
    /// Of each call: the events of its beginning and its end.
    events: Vec<(u64, u64)>,
    /// What answers told beside status and attempt, numbered for [`Sight::details`].
    details: BTreeMap<(Option<&'a str>, Option<&'a str>, bool), u32>,
    /// Somebody's submission is among the calls.
    has_origin: bool,
}

impl<'a> Work<'a> {
    fn add(&mut self, begin: &Event, end: Option<&Event>, op: Op) {
        let known = end.filter(|end| end.kind != Kind::Info);
        self.calls.push(Call { call: begin.mono_ns, ret: known.map(|end| end.mono_ns), op });
        self.events.push((begin.i, end.unwrap_or(begin).i));
        self.has_origin |= matches!(op, Op::Submit { .. } | Op::SubmitUnknown);
    }

    /// What may have happened at any time, or never.
    fn add_at_any_time(&mut self, op: Op) {
        self.calls.push(Call { call: 0, ret: None, op });
        self.events.push(self.events.first().copied().unwrap_or_default());
    }

    /// All that a read tells.
    fn whole(&mut self, seen: &'a TaskSeen, status: Status) -> Sight {
        let value = (seen.result_digest.as_deref(), seen.error_code.as_deref(), seen.cancel_requested);
        let next = self.details.len() as u32;
        let details = *self.details.entry(value).or_insert(next);
        Sight {
            version: seen.version,
            status,
            attempt: Some(seen.attempt),
            asked: Some(seen.cancel_requested),
            details: Some(details),
        }
    }
}

/// What a list tells: all but the result.
fn listed(seen: &TaskSeen, status: Status) -> Sight {
    let asked = Some(seen.cancel_requested);
    Sight { version: seen.version, status, attempt: Some(seen.attempt), asked, details: None }
}

/// What the answer to a change tells: a submission's is silent about cancels, and neither tells of attempts.
fn partial(seen: &TaskSeen, status: Status, asked: Option<bool>) -> Sight {
    Sight { version: seen.version, status, attempt: None, asked, details: None }
}

/// See the module.
pub fn check(history: &History, _: &Options) -> Vec<Judgement> {
    let mut judgement = Judgement::of("A2");
    let operations = history.operations();
    let mut tasks = Tasks::default();
    for operation in &operations {
        tasks.add(operation, &mut judgement);
    }
    tasks.attach_unknown(history);
    tasks.add_reports(history);
    judge(&tasks.by_id, &mut judgement);
    fresh_enough(&operations, &mut judgement);
    vec![judgement]
}

/// Searches for the order of each task's operations.
fn judge(tasks: &BTreeMap<&str, Work<'_>>, judgement: &mut Judgement) {
    let (mut operations, mut answered) = (0, 0);
    for (task, work) in tasks {
        operations += work.calls.len();
        answered += work.calls.iter().filter(|call| call.ret.is_some()).count();
        match wgl::check(&TaskModel, &work.calls, BUDGET) {
            Outcome::Linearizable => {}
            Outcome::Violation { longest, stuck } => {
                let op = work.calls[stuck].op;
                let last = longest.last().map(|last| work.calls[*last].op);
                let what = match last {
                    Some(last) => {
                        format!("{task}: in no order of its operations can {op} come after {last}")
                    }
                    None => format!("{task}: {op} cannot come first, and nothing can come before it"),
                };
                let around = longest.iter().rev().take(3).chain([&stuck]);
                let events: Vec<u64> =
                    around.flat_map(|call| [work.events[*call].0, work.events[*call].1]).collect();
                judgement.violated(what, Some(task), &events);
            }
            Outcome::Exhausted => {
                let events: Vec<u64> = work.events.iter().take(1).map(|events| events.0).collect();
                let many = work.calls.len();
                judgement
                    .unknown(format!("{task}: {many} operations were too many to search through"), &events);
            }
        }
    }
    if answered == 0 {
        judgement.unknown("no operation on any task was answered", &[]);
    }
    judgement.stat("operations", operations as f64);
    judgement.stat("answered", answered as f64);
    judgement.stat("tasks", tasks.len() as f64);
}

/// A read shows at least what had been answered before it began: also by the log's index.
fn fresh_enough(operations: &[Operation<'_>], judgement: &mut Judgement) {
    let acks = Acks::of(operations, |_| true);
    let mut reads = 0_u64;
    for operation in operations {
        let Some(end) = operation.ok() else { continue };
        let (What::Get(_), Some(applied)) = (&end.what, end.meta.applied) else { continue };
        reads += 1;
        if let Some((index, event)) = acks.before(operation.invoke.mono_ns)
            && index > applied
        {
            let what = format!(
                "a read was served at index {applied}, but {index} had been answered before it began"
            );
            judgement.violated(what, operation.key(), &[event, operation.invoke.i, end.i]);
        }
    }
    judgement.stat("reads_with_index", reads as f64);
}

#[derive(Default)]
struct Tasks<'a> {
    by_id: BTreeMap<&'a str, Work<'a>>,
    /// Submissions of unknown outcome.
    unknown: Vec<(&'a Submit, Operation<'a>)>,
    /// The tasks that carry a label.
    labels: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// Tasks of more than one shard: what a report of one shard does to the whole is open.
    sharded: BTreeSet<&'a str>,
    /// Tasks whose shards are told to stop when one has failed: they are marked as if somebody had cancelled them.
    stopping: BTreeSet<&'a str>,
}

impl<'a> Tasks<'a> {
    fn add(&mut self, operation: &Operation<'a>, judgement: &mut Judgement) {
        let begin = operation.invoke;
        let Some(end) = operation.end else { return self.add_unknown(operation) };
        let key = operation.key();
        match (&end.what, end.kind) {
            (_, Kind::Info) => self.add_unknown(operation),
            (What::Submit(submit), Kind::Ok) => {
                let Some(seen) = &submit.answer else { return self.add_unknown(operation) };
                let Some(status) = status_of(seen, end, judgement) else { return };
                self.labels.entry(&submit.label).or_default().insert(&seen.task_id);
                self.note_shards(submit, &seen.task_id);
                // One that waits in vain for a parent has been skipped when it is answered: its caller is told of the
                // second version, as by a repeated answer.
                let in_vain = !submit.depends_on.is_empty() && status == Status::Skipped;
                let replayed = end.meta.replayed || in_vain;
                let op = Op::Submit { replayed, sight: partial(seen, status, None) };
                self.by_id.entry(&seen.task_id).or_default().add(begin, Some(end), op);
            }
            (What::Get(get), Kind::Ok) => {
                let Some(task) = key else { return };
                let work = self.by_id.entry(task).or_default();
                let sight = match &get.answer {
                    None => None,
                    Some(seen) => match status_of(seen, end, judgement) {
                        Some(status) => Some(work.whole(seen, status)),
                        None => return,
                    },
                };
                work.add(begin, Some(end), Op::Get(sight));
            }
            (What::List(list), Kind::Ok) => {
                for seen in list.answer.iter().flatten() {
                    let Some(status) = status_of(seen, end, judgement) else { continue };
                    let sight = listed(seen, status);
                    self.by_id.entry(&seen.task_id).or_default().add(begin, Some(end), Op::Get(Some(sight)));
                }
            }
            (What::Cancel(cancel), Kind::Ok | Kind::Fail) => {
                let Some(task) = key else { return };
                let sight = cancel.answer.as_ref().and_then(|seen| {
                    Some(partial(seen, status_of(seen, end, judgement)?, Some(seen.cancel_requested)))
                });
                let op = match (end.kind, end.err.as_deref()) {
                    (Kind::Ok, _) => Op::Cancel(sight),
                    (_, Some("task_already_terminal")) => Op::CancelRefused(sight),
                    (_, Some("task_not_found")) => Op::Get(None),
                    _ => return,
                };
                self.by_id.entry(task).or_default().add(begin, Some(end), op);
            }
            _ => {}
        }
    }

    fn note_shards(&mut self, submit: &Submit, task: &'a str) {
        if submit.shard_total > 1 || submit.broadcast {
            self.sharded.insert(task);
        }
        if submit.stops_shards {
            self.stopping.insert(task);
        }
    }

    fn add_unknown(&mut self, operation: &Operation<'a>) {
        match &operation.invoke.what {
            What::Submit(submit) => self.unknown.push((submit, *operation)),
            What::Cancel(_) => {
                if let Some(task) = operation.key() {
                    self.by_id.entry(task).or_default().add(operation.invoke, None, Op::CancelUnknown);
                }
            }
            _ => {}
        }
    }

    /// Gives each submission of unknown outcome to the tasks that carry its label; and to a task of which no
    /// submission is known at all, one that can have been at any time.
    fn attach_unknown(&mut self, history: &'a History) {
        for event in history.events() {
            match &event.what {
                What::Recv(recv) => {
                    // Of a job's task no submission says how many shards it has.
                    if recv.grant.shard > 0 {
                        self.sharded.insert(&recv.grant.task);
                    }
                    if let Some(label) = &recv.label {
                        self.labels.entry(label).or_default().insert(&recv.grant.task);
                    }
                }
                What::FinalTask(row) => {
                    // Nor does an executor, of a shard that was never pushed.
                    if row.shard_total > 1 {
                        self.sharded.insert(&row.task.task_id);
                    }
                    if let Some(label) = &row.label {
                        self.labels.entry(label).or_default().insert(&row.task.task_id);
                    }
                }
                _ => {}
            }
        }
        for (submit, operation) in std::mem::take(&mut self.unknown) {
            for task in self.labels.get(submit.label.as_str()).cloned().unwrap_or_default() {
                self.note_shards(submit, task);
                // A task of which only executors and tables know has nothing to be judged by.
                if let Some(work) = self.by_id.get_mut(task) {
                    work.add(operation.invoke, None, Op::SubmitUnknown);
                }
            }
        }
        for work in self.by_id.values_mut().filter(|work| !work.has_origin) {
            work.add_at_any_time(Op::SubmitUnknown);
        }
        for task in &self.stopping {
            let Some(work) = self.by_id.get_mut(task) else { continue };
            work.calls.iter_mut().for_each(|call| call.op = call.op.without_mark());
            work.add_at_any_time(Op::CancelUnknown);
        }
        for task in replaceable(history) {
            if let Some(work) = self.by_id.get_mut(task) {
                work.add_at_any_time(Op::CancelUnknown);
            }
        }
    }

    /// Accepted reports are operations of executors: they begin when the handler ended, since that is before
    /// the first sending, and end with the answer.
    fn add_reports(&mut self, history: &'a History) {
        let mut sent: BTreeMap<(&str, &Grant), (&'a Event, Ending)> = BTreeMap::new();
        for event in history.events() {
            match &event.what {
                What::Finish(finish) | What::ReportSent(finish) => {
                    let ending = ending_of(finish);
                    sent.entry((&finish.executor, &finish.grant))
                        .and_modify(|(_, told)| {
                            if *told != ending {
                                *told = Ending::Unclear;
                            }
                        })
                        .or_insert((event, ending));
                }
                What::ReportAcked(acked) if acked.verdict == "accepted" => {
                    let grant = &acked.grant;
                    let Some((begin, ending)) = sent.get(&(acked.executor.as_str(), grant)) else { continue };
                    if grant.shard > 0 || self.sharded.contains(grant.task.as_str()) {
                        continue;
                    }
                    if let Some(work) = self.by_id.get_mut(grant.task.as_str()) {
                        let op = Op::Report { attempt: grant.attempt, ending: *ending };
                        work.add(begin, Some(event), op);
                    }
                }
                _ => {}
            }
        }
    }
}

fn ending_of(finish: &Finish) -> Ending {
    match finish.outcome.as_str() {
        "succeeded" => Ending::Succeeded,
        "failed" | "timedOut" | "cancelled" => Ending::Unsuccessful,
        "returned" => Ending::Returned,
        _ => Ending::Unclear,
    }
}

fn status_of(seen: &TaskSeen, event: &Event, judgement: &mut Judgement) -> Option<Status> {
    let status = Status::from_name(&seen.status);
    if status.is_none() {
        let what = format!("{}: there is no status {:?}", seen.task_id, seen.status);
        judgement.violated(what, Some(&seen.task_id), &[event.i]);
    }
    status
}
