//! D11: no more tasks of a job run at a time than it allows, and no key is let in more often than it may.

use std::collections::BTreeMap;

use super::{Options, rates};
use crate::attempts::{Tasks, Try};
use crate::event::Event;
use crate::faults::SLOT_FILLED_MS;
use crate::history::History;
use crate::spans::{MS, Spans};
use crate::verdict::Judgement;

/// D11. At no instant are more tasks of a job with executors than its limit. Of an attempt whose report was accepted the
/// lease was in force at least from when the attempt arrived until that report was first sent; other attempts may have
/// lost theirs meanwhile and are left out. A task counts once, however many of its shards run.
///
/// And of a key, in every stretch of time: no more calls, and no more submissions, than its burst and what its rate gives
/// within that time, with another burst for each change of the leader, on which buckets are full again.
///
/// `at_the_limit` counts how often a job ran as many tasks as it may, `let_in` the calls of keys of which the limits are
/// known, and `turned_away` those that were refused for them.
pub fn running(history: &History, _: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("D11");
    let tasks = Tasks::of(history);
    let mut jobs: BTreeMap<&str, (usize, Vec<Change<'_>>)> = BTreeMap::new();
    for (task, life) in &tasks.by_id {
        let Some((job, most)) = life.job.and_then(|job| Some((job, job.max_running?))) else { continue };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let (_, changes) = jobs.entry(&job.job).or_insert((most, Vec::new()));
        changes.extend(life.tries.values().filter_map(|one| changes_of(task, one)).flatten());
    }
    let (mut looked_at, mut at_the_limit) = (0_u64, 0_u64);
    for (job, (most, mut changes)) in jobs {
        changes.sort_unstable();
        let mut running: BTreeMap<&str, usize> = BTreeMap::new();
        for change in changes {
            if !change.begins {
                leave(&mut running, change.task);
                continue;
            }
            looked_at += 1;
            *running.entry(change.task).or_default() += 1;
            at_the_limit += u64::from(running.len() == most);
            if running.len() > most {
                let what = format!("{} tasks of job {job} ran at a time, and {most} may", running.len());
                word.violated(what, Some(change.task), &[change.event]);
            }
        }
    }
    word.stat("looked_at", looked_at as f64);
    word.stat("at_the_limit", at_the_limit as f64);
    rates::judge(history, &mut word);
    vec![word]
}

/// For each job with a limit, the time in which so many of its tasks were with executors, and until the next one can have
/// been let in. What is due then waits, and nobody is to blame. An attempt counts until its report was first answered,
/// in whatever way; one that never had an answer does not count, since by when the leader gave it up is not in the history.
pub(super) fn full<'a>(tasks: &Tasks<'a>) -> BTreeMap<&'a str, Spans> {
    let mut jobs: BTreeMap<&str, (usize, Vec<Change<'_>>)> = BTreeMap::new();
    for (task, life) in &tasks.by_id {
        let Some((job, most)) = life.job.and_then(|job| Some((job, job.max_running?))) else { continue };
        let (_, changes) =
            jobs.entry(&job.job).or_insert((usize::try_from(most).unwrap_or(usize::MAX), Vec::new()));
        let held = life.tries.values().filter_map(|one| {
            let (end, _) = one.answers.first()?;
            between(task, one.accepted().next()?.0, end)
        });
        changes.extend(held.flatten());
    }
    jobs.into_iter().map(|(job, (most, changes))| (job, at_the_limit(most, changes))).collect()
}

fn at_the_limit(most: usize, mut changes: Vec<Change<'_>>) -> Spans {
    changes.sort_unstable();
    let mut running: BTreeMap<&str, usize> = BTreeMap::new();
    let mut since: Option<u64> = None;
    let mut spans = Vec::new();
    for change in changes {
        match change.begins {
            true => *running.entry(change.task).or_default() += 1,
            false => leave(&mut running, change.task),
        }
        match (running.len() >= most, since) {
            (true, None) => since = Some(change.mono_ns),
            (false, Some(full)) => {
                spans.push((full, change.mono_ns + SLOT_FILLED_MS * MS));
                since = None;
            }
            _ => {}
        }
    }
    Spans::of(spans)
}

/// An attempt is at its executor, or has been reported. In this order: what ends goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Change<'a> {
    mono_ns: u64,
    begins: bool,
    task: &'a str,
    event: u64,
}

fn changes_of<'a>(task: &'a str, one: &Try<'_>) -> Option<[Change<'a>; 2]> {
    one.answers.iter().find(|(_, answer)| answer.verdict == "accepted")?;
    between(task, one.accepted().next()?.0, one.sent.first()?.0)
}

fn between<'a>(task: &'a str, begin: &Event, end: &Event) -> Option<[Change<'a>; 2]> {
    let change = |mono_ns, begins| Change { mono_ns, begins, task, event: begin.i };
    (begin.mono_ns < end.mono_ns).then(|| [change(begin.mono_ns, true), change(end.mono_ns, false)])
}

fn leave<'a>(running: &mut BTreeMap<&'a str, usize>, task: &'a str) {
    if let Some(attempts) = running.get_mut(task) {
        *attempts -= 1;
        if *attempts == 0 {
            running.remove(task);
        }
    }
}
