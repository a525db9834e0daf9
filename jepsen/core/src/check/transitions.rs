//! D7: the versions of a task form one chain along the allowed transitions. D8: what has ended stays as it
//! is.

use std::collections::BTreeMap;

use super::Options;
use crate::event::{Event, TaskSeen, What};
use crate::history::History;
use crate::verdict::Judgement;

/// A task as somebody saw it.
#[derive(Clone, Copy)]
struct Sighting<'a> {
    event: &'a Event,
    /// When the look began, in ns.
    began_ns: u64,
    task: &'a TaskSeen,
    /// Answers to submissions and cancels tell the status and the version, and leave out the rest.
    whole: bool,
    /// A read that promises the newest state. A page of a list may be from before.
    current: bool,
}

/// All sightings by task, in order.
fn sightings(history: &History) -> BTreeMap<&str, Vec<Sighting<'_>>> {
    let mut all: BTreeMap<&str, Vec<Sighting<'_>>> = BTreeMap::new();
    for operation in history.operations() {
        let Some(end) = operation.ok() else { continue };
        let began_ns = operation.invoke.mono_ns;
        let (tasks, whole, current): (&[TaskSeen], bool, bool) = match &end.what {
            What::Submit(submit) => (submit.answer.as_slice(), false, true),
            What::Cancel(cancel) => (cancel.answer.as_slice(), false, true),
            What::Get(get) => (get.answer.as_slice(), true, true),
            What::List(list) => (list.answer.as_deref().unwrap_or_default(), true, false),
            _ => continue,
        };
        for task in tasks {
            let sighting = Sighting { event: end, began_ns, task, whole, current };
            all.entry(&task.task_id).or_default().push(sighting);
        }
    }
    for event in history.events() {
        if let What::FinalTask(last) = &event.what {
            let task = &last.task;
            let sighting = Sighting { event, began_ns: event.mono_ns, task, whole: true, current: true };
            all.entry(&task.task_id).or_default().push(sighting);
        }
    }
    all
}

/// The transition table, written down a second time: where one change can lead.
fn allowed(from: &str, to: &str) -> bool {
    match from {
        "PENDING" => matches!(to, "PENDING" | "RUNNING" | "CANCELLED" | "SKIPPED"),
        "RUNNING" => matches!(to, "PENDING" | "RUNNING" | "SUCCESS" | "FAILED" | "CANCELLED"),
        _ => false,
    }
}

/// Whether so many changes can lead from one status to the other. Two are enough from any open status to any
/// other; none lead out of a final one.
fn reachable(from: &str, to: &str, changes: u64) -> bool {
    let open = matches!(from, "PENDING" | "RUNNING");
    let known = matches!(to, "PENDING" | "RUNNING" | "SUCCESS" | "FAILED" | "CANCELLED" | "SKIPPED");
    if changes == 1 { allowed(from, to) } else { open && known }
}

/// D7. Sightings of one version agree; from each version to the next one seen, the status moves along the
/// transition table, the number of the newest attempt never falls, and a cancel that was asked for stays
/// asked for. Version 1 is `PENDING`.
pub fn one_chain(history: &History, _: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("D7");
    let (mut looked_at, mut versions) = (0_u64, 0_u64);
    for (task, mut seen) in sightings(history) {
        looked_at += seen.len() as u64;
        // Whole sightings first, so that each version is compared with one that tells everything.
        seen.sort_by_key(|sighting| {
            let task = sighting.task;
            (task.version, !sighting.whole, task.result_digest.is_none(), sighting.event.i)
        });
        let mut before: Option<Sighting<'_>> = None;
        for of_version in seen.chunk_by(|a, b| a.task.version == b.task.version) {
            versions += 1;
            let first = of_version[0];
            for other in &of_version[1..] {
                if let Some(difference) = difference(&first, other) {
                    let what = format!("two values of version {}: {difference}", first.task.version);
                    word.violated(what, Some(task), &[first.event.i, other.event.i]);
                }
            }
            if let Err(what) = before.map_or_else(|| first_version(&first), |before| step(&before, &first)) {
                let from = before.map_or(0, |before| before.event.i);
                let events: Vec<u64> = [from, first.event.i].into_iter().filter(|event| *event > 0).collect();
                word.violated(what, Some(task), &events);
            }
            before = Some(first);
        }
    }
    word.stat("looked_at", looked_at as f64);
    word.stat("versions", versions as f64);
    vec![word]
}

fn first_version(first: &Sighting<'_>) -> Result<(), String> {
    let task = first.task;
    match task.version {
        0 => Err("version 0 was seen; versions begin with 1".into()),
        1 if task.status != "PENDING" => Err(format!("version 1 is {}, not PENDING", task.status)),
        _ => Ok(()),
    }
}

fn step(before: &Sighting<'_>, after: &Sighting<'_>) -> Result<(), String> {
    let (from, to) = (before.task, after.task);
    let changes = to.version - from.version;
    if !reachable(&from.status, &to.status, changes) {
        return Err(format!(
            "from {} (version {}) to {} (version {}): not allowed",
            from.status, from.version, to.status, to.version
        ));
    }
    if !(before.whole && after.whole) {
        return Ok(());
    }
    if to.attempt < from.attempt {
        return Err(format!(
            "attempt {} in version {}, and {} in version {}",
            from.attempt, from.version, to.attempt, to.version
        ));
    }
    if from.cancel_requested && !to.cancel_requested {
        return Err(format!("the cancel asked for in version {} is gone in {}", from.version, to.version));
    }
    Ok(())
}

/// What two sightings of one version say differently.
fn difference(a: &Sighting<'_>, b: &Sighting<'_>) -> Option<String> {
    let (one, two) = (a.task, b.task);
    if one.status != two.status {
        return Some(format!("status {} and {}", one.status, two.status));
    }
    if a.whole && b.whole {
        if one.attempt != two.attempt {
            return Some(format!("attempt {} and {}", one.attempt, two.attempt));
        }
        if one.cancel_requested != two.cancel_requested {
            return Some(format!("cancelRequested {} and {}", one.cancel_requested, two.cancel_requested));
        }
    }
    differs("result", one.result_digest.as_ref(), two.result_digest.as_ref())
        .or_else(|| differs("error", one.error_code.as_ref(), two.error_code.as_ref()))
        .or_else(|| differs("dueAt", one.due_at_ms, two.due_at_ms))
        .or_else(|| differs("createdAt", one.created_at_ms, two.created_at_ms))
        .or_else(|| differs("finishedAt", one.finished_at_ms, two.finished_at_ms))
}

/// Two values of which each was told, and that are not the same.
fn differs<T: PartialEq + std::fmt::Debug>(name: &str, one: Option<T>, two: Option<T>) -> Option<String> {
    match (one, two) {
        (Some(one), Some(two)) if one != two => Some(format!("{name} {one:?} and {two:?}")),
        _ => None,
    }
}

/// D8. After a task was first seen with a final status, every sighting of a higher version is a violation,
/// and so is one with another final status, result, attempt or end; and every look that began later and
/// promises the newest state (a read of the task, a cancel, a repeated submission, a table at the end) finds
/// it final.
pub fn final_is_final(history: &History, _: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("D8");
    let (mut looked_at, mut again) = (0_u64, 0_u64);
    for (task, mut seen) in sightings(history) {
        seen.sort_by_key(|sighting| (sighting.event.i, !sighting.whole));
        let ended = |sighting: &&Sighting<'_>| sighting.task.is_terminal();
        let Some(first_end) = seen.iter().find(ended).copied() else { continue };
        looked_at += 1;
        // A whole sighting of the end tells more to compare with.
        let end = seen.iter().filter(ended).find(|sighting| sighting.whole).copied().unwrap_or(first_end);
        for sighting in &seen {
            if sighting.event.i <= first_end.event.i && !sighting.task.is_terminal() {
                continue;
            }
            again += 1;
            let found = if sighting.task.is_terminal() {
                changed_end(&end, sighting)
            } else {
                reopened(&first_end, sighting)
            };
            if let Some(what) = found {
                word.violated(what, Some(task), &[first_end.event.i, sighting.event.i]);
            }
        }
    }
    word.stat("looked_at", looked_at as f64);
    word.stat("sightings_after_the_end", again as f64);
    vec![word]
}

fn changed_end(end: &Sighting<'_>, other: &Sighting<'_>) -> Option<String> {
    let (one, two) = (end.task, other.task);
    if one.version != two.version {
        let (low, high) = (one.version.min(two.version), one.version.max(two.version));
        return Some(format!("ended in version {low}, and changed again to version {high}"));
    }
    difference(end, other).map(|difference| format!("two ends: {difference}"))
}

fn reopened(end: &Sighting<'_>, other: &Sighting<'_>) -> Option<String> {
    let later_look = other.current && other.began_ns > end.event.mono_ns;
    (later_look || other.task.version >= end.task.version).then(|| {
        format!(
            "ended as {} in version {}, and was then seen as {} in version {}",
            end.task.status, end.task.version, other.task.status, other.task.version
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{allowed, reachable};

    #[test]
    fn no_way_leads_out_of_an_end_or_past_the_start() {
        for end in ["SUCCESS", "FAILED", "CANCELLED", "SKIPPED"] {
            for to in ["PENDING", "RUNNING", "SUCCESS", "FAILED", "CANCELLED", "SKIPPED"] {
                assert!(!allowed(end, to) && !reachable(end, to, 5), "{end} {to}");
            }
        }
        assert!(!allowed("PENDING", "SUCCESS") && !allowed("PENDING", "FAILED"));
        assert!(!allowed("RUNNING", "SKIPPED") && reachable("RUNNING", "SKIPPED", 2));
        assert!(reachable("PENDING", "SUCCESS", 2) && !reachable("PENDING", "DONE", 2));
    }
}
