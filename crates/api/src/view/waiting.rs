//! What a task that is ready waits for, as far as executors and limits tell. Pure: of what the tables know of them, and
//! what the leader has heard of executors last. A word for people: nothing decides by it.

use std::collections::BTreeMap;

use orloj_model::executor::{Executor, ExecutorState};
use orloj_model::query::{Reached, TaskView};
use orloj_model::task::{Reason, Status, Strategy, TaskSpec};
use orloj_scheduler::LiveExecutor;

/// What it waits for; `None` of a task that does not wait for an executor, and where one could take it: then it goes out
/// in a moment. `reached` is the limit on running tasks that holds it.
pub fn waiting_for(
    task: &TaskView,
    rows: &[Executor],
    live: &[LiveExecutor],
    reached: Option<&Reached>,
) -> Option<String> {
    let (state, spec) = (&task.state, &task.spec);
    // What stands for a run of steps never goes to an executor.
    let waits = state.status == Status::Pending && state.reason == Reason::Ready && !task.shards.is_empty();
    if !waits {
        return None;
    }
    let missing = match &spec.strategy {
        Strategy::Pinned(id) => {
            let row = rows.iter().find(|row| row.registration.id == *id);
            pinned(id.as_str(), row, spec)
                .or_else(|| narrowed(&row.into_iter().collect::<Vec<_>>(), spec, live))
        }
        _ => narrowed(&rows.iter().collect::<Vec<_>>(), spec, live),
    };
    // A broadcast has no shards yet that a limit could hold.
    missing.or_else(|| reached.filter(|_| spec.strategy != Strategy::Broadcast).map(held))
}

/// Whose limit it is that has no place left.
fn held(Reached { job, most }: &Reached) -> String {
    let whose = match job {
        Some(job) => format!("job {:?}", job.as_str()),
        None => "its caller".to_owned(),
    };
    format!("its turn: {whose} has maxRunning {most}, and so many of its tasks run")
}

/// What is wrong with the only executor that may have it.
fn pinned(id: &str, row: Option<&Executor>, spec: &TaskSpec) -> Option<String> {
    let problem = match row {
        None => "no executor has registered under this id",
        Some(row) if row.state == ExecutorState::Offline => "it is offline",
        Some(row) if row.state == ExecutorState::Left => "it has left",
        Some(row) if !row.registration.handlers.contains(&spec.handler) => "it does not have the handler",
        Some(_) => return None,
    };
    Some(format!("executor {id:?}, to which it is pinned: {problem}"))
}

/// Asks one demand after the other, until nobody is left.
fn narrowed(rows: &[&Executor], spec: &TaskSpec, live: &[LiveExecutor]) -> Option<String> {
    let there: Vec<_> = rows.iter().copied().filter(|row| row.is_there()).collect();
    let able: Vec<_> =
        there.iter().copied().filter(|row| row.registration.handlers.contains(&spec.handler)).collect();
    if able.is_empty() {
        let (handler, count) = (&spec.handler, there.len());
        return Some(format!(
            "an executor with the handler {handler:?}: none of the {count} that are there has it"
        ));
    }
    let fit: Vec<_> = able.iter().copied().filter(|row| carries(row, &spec.labels)).collect();
    if fit.is_empty() {
        let ((labels, them), handler) = (lacked(&able, &spec.labels), &spec.handler);
        let count = able.len();
        return Some(format!(
            "an executor with {labels}: none of the {count} that have the handler {handler:?} carries {them}"
        ));
    }
    // Weight 0 takes an executor out of every choice but these two.
    let by_weight = !matches!(spec.strategy, Strategy::Pinned(_) | Strategy::Broadcast);
    let weighty: Vec<_> =
        fit.iter().copied().filter(|row| !by_weight || row.registration.weight > 0).collect();
    if weighty.is_empty() {
        return Some(format!("an executor with a weight above 0: all {} that fit have weight 0", fit.len()));
    }
    let heard = |row: &Executor| live.iter().find(|live| live.id == row.registration.id.as_str());
    let open: Vec<_> = weighty
        .iter()
        .copied()
        .filter(|row| {
            row.state == ExecutorState::Online && heard(row).is_none_or(|live| live.state == "online")
        })
        .collect();
    if open.is_empty() {
        let count = weighty.len();
        return Some(format!(
            "an executor that takes work: all {count} that fit are draining or have fallen silent"
        ));
    }
    let is_full = |row: &&Executor| {
        heard(row).is_some_and(|live| live.running >= usize::try_from(live.slots).unwrap_or(usize::MAX))
    };
    open.iter().all(is_full).then(|| format!("a free slot: all {} executors that fit are full", open.len()))
}

fn carries(row: &Executor, labels: &BTreeMap<String, String>) -> bool {
    labels.iter().all(|(label, value)| row.registration.labels.get(label) == Some(value))
}

/// The first label that none of them carries, or all where each is carried by one or another; and a word for it.
fn lacked(able: &[&Executor], labels: &BTreeMap<String, String>) -> (String, &'static str) {
    let has =
        |row: &&Executor, label: &str, value: &String| row.registration.labels.get(label) == Some(value);
    let nobodys = labels.iter().find(|(label, value)| !able.iter().any(|row| has(row, label, value)));
    match nobodys {
        Some((label, value)) => (format!("the label {label}={value}"), "it"),
        None => {
            let all: Vec<_> = labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
            (format!("the labels {}", all.join(", ")), "all of them")
        }
    }
}

#[cfg(test)]
#[path = "waiting_tests.rs"]
mod tests;
