//! W1: a task that depends on others starts after them, and only when they ended as it asks for.

use super::Options;
use crate::attempts::{Life, OpenReads, Tasks};
use crate::event::{Edge, Event, FinalTask, TaskSeen};
use crate::history::History;
use crate::verdict::Judgement;

/// W1. Of every submission with parents:
///
/// - no attempt of it was granted before the last of its parents had ended, by the cluster's time in the tables; none
///   reached an executor before the report that decided a parent was first sent; and no read that began after the first
///   push found a parent that had not ended;
/// - it was handed out only if each parent ended as its edge asks for; and where one has ended otherwise it is SKIPPED,
///   or CANCELLED because somebody asked for it;
/// - it is SKIPPED for a parent only if there is one that ended otherwise.
///
/// `started` counts those that were handed out, `skipped` those that were not because of a parent.
pub fn order(history: &History, _: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("W1");
    let tasks = Tasks::of(history);
    let open = OpenReads::of(history);
    let (mut looked_at, mut started, mut skipped) = (0_u64, 0_u64, 0_u64);
    for (task, life) in &tasks.by_id {
        let Some(edges) = life.request().map(|request| &request.depends_on).filter(|edges| !edges.is_empty())
        else {
            continue;
        };
        looked_at += 1;
        started += u64::from(first_push(life).is_some());
        let Some((event, last)) = life.finals.first() else { continue };
        let parents: Vec<Parent<'_>> = edges.iter().filter_map(|edge| Parent::of(edge, &tasks)).collect();
        for parent in &parents {
            let judged = granted_after(last, parent)
                .or_else(|| pushed_after(life, parent))
                .or_else(|| never_open_again(life, parent, &open));
            if let Some((what, mut events)) = judged {
                events.extend([event.i, parent.event.i]);
                word.violated(what, Some(task), &events);
            }
        }
        skipped += u64::from(is_skipped(last));
        if let Some(what) = wrong_end(life, last, edges, &parents) {
            let mut events: Vec<u64> = parents.iter().map(|parent| parent.event.i).collect();
            events.push(event.i);
            word.violated(what, Some(task), &events);
        }
    }
    word.stat("looked_at", looked_at as f64);
    word.stat("started", started as f64);
    word.stat("skipped", skipped as f64);
    vec![word]
}

type Found = (String, Vec<u64>);

/// A parent that a table has.
struct Parent<'a> {
    id: &'a str,
    on: &'a str,
    life: &'a Life<'a>,
    event: &'a Event,
    task: &'a TaskSeen,
}

impl<'a> Parent<'a> {
    fn of(edge: &'a Edge, tasks: &'a Tasks<'a>) -> Option<Parent<'a>> {
        let life = tasks.by_id.get(edge.task.as_str())?;
        let (event, last) = life.finals.first()?;
        Some(Parent { id: &edge.task, on: &edge.on, life, event, task: &last.task })
    }

    /// Whether it has ended as the edge asks for; none while it has not ended.
    fn is_met(&self) -> Option<bool> {
        self.task.is_terminal().then(|| match self.on {
            "completed" => true,
            "failure" => self.task.status == "FAILED",
            _ => self.task.status == "SUCCESS",
        })
    }
}

/// The first push of a task that an executor recorded, taken or not.
fn first_push<'a>(life: &Life<'a>) -> Option<&'a Event> {
    let receipts = life.tries.values().filter_map(|one| one.receipts.first());
    receipts.map(|(event, _)| *event).min_by_key(|event| event.i)
}

fn granted_after(last: &FinalTask, parent: &Parent<'_>) -> Option<Found> {
    let granted_ms = last.attempts.iter().map(|row| row.granted_at_ms).min()?;
    let id = parent.id;
    let Some(ended_ms) = parent.task.finished_at_ms else {
        return Some((format!("it was granted, and its parent {id} has not ended"), Vec::new()));
    };
    (granted_ms < ended_ms).then(|| {
        let what = format!("it was granted at {granted_ms}, and its parent {id} ended at {ended_ms}");
        (what, Vec::new())
    })
}

/// What decided the parent was said before the child went out: its last attempts' accepted reports.
fn pushed_after(life: &Life<'_>, parent: &Parent<'_>) -> Option<Found> {
    let push = first_push(life)?;
    let last = parent.life.decided()?;
    (last.mono_ns > push.mono_ns).then(|| {
        let what = format!("it reached an executor before a report of its parent {} was sent", parent.id);
        (what, vec![push.i, last.i])
    })
}

fn never_open_again(life: &Life<'_>, parent: &Parent<'_>, open: &OpenReads<'_>) -> Option<Found> {
    let push = first_push(life)?;
    let read = open.after(parent.id, push.mono_ns)?;
    let what = format!("its parent {} was still open after it had reached an executor", parent.id);
    Some((what, vec![push.i, read]))
}

fn is_skipped(last: &FinalTask) -> bool {
    last.task.status == "SKIPPED" && last.task.reason.as_deref() == Some("dependency")
}

/// Whether the task ended otherwise than its parents let it.
fn wrong_end(life: &Life<'_>, last: &FinalTask, edges: &[Edge], parents: &[Parent<'_>]) -> Option<String> {
    let status = last.task.status.as_str();
    let unmet = parents.iter().find(|parent| parent.is_met() == Some(false));
    let was_handed_out = !last.attempts.is_empty() || first_push(life).is_some();
    match unmet {
        Some(parent) if was_handed_out => {
            let (id, ended) = (parent.id, &parent.task.status);
            Some(format!("it was handed out, and its parent {id} ended as {ended}, not as it asks for"))
        }
        Some(parent) if last.task.is_terminal() && !matches!(status, "SKIPPED" | "CANCELLED") => {
            Some(format!("it is {status}, and its parent {} ended as {}", parent.id, parent.task.status))
        }
        Some(parent) if !last.task.is_terminal() => {
            Some(format!("it still waits, and its parent {} ended as {}", parent.id, parent.task.status))
        }
        Some(_) => None,
        None if is_skipped(last) && parents.len() == edges.len() => {
            let all_ended = parents.iter().all(|parent| parent.is_met() == Some(true));
            all_ended.then(|| "it was skipped for a parent, and each of them ended as it asks for".to_owned())
        }
        None => None,
    }
}
