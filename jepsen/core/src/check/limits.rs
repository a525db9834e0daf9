//! D11: no more tasks of a job run at a time than it allows, and no key is let in more often than it may.

use std::collections::BTreeMap;

use super::{Options, rates};
use crate::attempts::{Tasks, Try};
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
    let certain = |one: &Try<'_>| {
        one.answers.iter().find(|(_, answer)| answer.verdict == "accepted")?;
        one.sent.first().map(|(sent, _)| sent.mono_ns)
    };
    let (mut looked_at, mut at_the_limit) = (0_u64, 0_u64);
    for (job, (most, changes)) in changes_by_job(&tasks, certain) {
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
    let answered = |one: &Try<'_>| one.answers.first().map(|(answer, _)| answer.mono_ns);
    let jobs = changes_by_job(tasks, answered).into_iter();
    jobs.map(|(job, (most, changes))| (job, at_the_limit(most, changes))).collect()
}

fn at_the_limit(most: usize, changes: Vec<Change<'_>>) -> Spans {
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

/// Of each job with a limit, that limit and when its attempts arrived and ended, in order. `end_ns` says when one ended;
/// those of which it does not know are left out, and so is one that ended before it arrived.
fn changes_by_job<'a>(
    tasks: &Tasks<'a>,
    end_ns: impl Fn(&Try<'_>) -> Option<u64>,
) -> BTreeMap<&'a str, (usize, Vec<Change<'a>>)> {
    let mut jobs: BTreeMap<&str, (usize, Vec<Change<'_>>)> = BTreeMap::new();
    for (task, life) in &tasks.by_id {
        let Some((job, most)) = life.job.and_then(|job| Some((job, job.max_running?))) else { continue };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let (_, changes) = jobs.entry(&job.job).or_insert((most, Vec::new()));
        for one in life.tries.values() {
            let Some(((begin, _), end_ns)) = one.accepted().next().zip(end_ns(one)) else { continue };
            if begin.mono_ns < end_ns {
                let change = |mono_ns, begins| Change { mono_ns, begins, task, event: begin.i };
                changes.extend([change(begin.mono_ns, true), change(end_ns, false)]);
            }
        }
    }
    jobs.values_mut().for_each(|(_, changes)| changes.sort_unstable());
    jobs
}

fn leave<'a>(running: &mut BTreeMap<&'a str, usize>, task: &'a str) {
    if let Some(attempts) = running.get_mut(task) {
        *attempts -= 1;
        if *attempts == 0 {
            running.remove(task);
        }
    }
}
