//! T1: every target of a schedule fires or is skipped for a reason. T3: none fires twice. T4: nothing else fires.
//! T5: what fires is what the calendar says.

use std::collections::{BTreeMap, BTreeSet};

use super::Options;
use crate::event::{Event, FinalJob, JobPut, JobStopped, Recv, What};
use crate::faults::{in_force, installed};
use crate::history::History;
use crate::spans::{MS, Spans};
use crate::targets::{is_target, targets};
use crate::verdict::Judgement;

/// A fire may be so late at the end of a run, when no fault is near, beside what the options allow a task, in ms.
const SLACK_MS: i64 = 2_000;
/// A job that is stopped so soon after a fault may not have made up for what was due in it, in ms: an edit drops what
/// has passed.
const CAUGHT_UP_MS: u64 = 5_000;

/// A job from all sides.
#[derive(Debug, Default)]
struct Job<'a> {
    put: Option<(&'a Event, &'a JobPut)>,
    stopped: Option<(&'a Event, &'a JobStopped)>,
    /// Of each replica.
    finals: Vec<(&'a Event, &'a FinalJob)>,
    /// Pushes of its tasks.
    receipts: Vec<(&'a Event, &'a Recv)>,
}

/// The words on T1, T3, T4 and T5.
pub fn schedules(history: &History, options: &Options) -> Vec<Judgement> {
    let mut words = ["T1", "T3", "T4", "T5"].map(Judgement::of);
    let [accounted, once, known, calendar] = &mut words;
    let jobs = gather(history);
    let tasks = final_tasks(history);
    let calm = installed(history).is_empty();
    let troubled = in_force(history).followed_by(CAUGHT_UP_MS * MS);
    let (mut fired, mut skipped) = (0, 0);
    for (id, job) in &jobs {
        let Some((_, put)) = job.put else { continue };
        for (event, last) in &job.finals {
            accounted_for(accounted, (event, last), (put, job.stopped), &troubled, options);
            if calm {
                nothing_missed(accounted, event, last);
            }
            one_task_each(once, event, last);
            on_the_calendar(calendar, event, last, put);
            tasks_exist(known, event, last, tasks.get(event.node.as_deref().unwrap_or_default()));
        }
        pushes(known, once, id, job);
        let last = job.finals.first().map(|(_, last)| *last);
        fired += last.map_or(0, |last| last.fired.len());
        skipped += last.map_or(0, |last| last.skipped.len());
    }
    for word in &mut words {
        word.stat("looked_at", jobs.len() as f64);
        word.stat("fired", fired as f64);
        word.stat("skips", skipped as f64);
    }
    words.into()
}

/// Tasks that their job may cancel without being asked: a later fire replaces them.
pub(crate) fn replaceable(history: &History) -> BTreeSet<&str> {
    let jobs = gather(history);
    let replacing = jobs.values().filter(|job| job.put.is_some_and(|(_, put)| put.overlap == "cancelOther"));
    replacing
        .flat_map(|job| {
            let pushed = job.receipts.iter().map(|(_, recv)| recv.grant.task.as_str());
            let rows = job.finals.iter().flat_map(|(_, last)| &last.fired);
            pushed.chain(rows.map(|row| row.task.as_str()))
        })
        .collect()
}

fn gather(history: &History) -> BTreeMap<&str, Job<'_>> {
    let mut jobs: BTreeMap<&str, Job<'_>> = BTreeMap::new();
    for event in history.events() {
        match &event.what {
            What::JobPut(put) => jobs.entry(&put.job).or_default().put = Some((event, put)),
            What::JobStopped(stop) => jobs.entry(&stop.job).or_default().stopped = Some((event, stop)),
            What::FinalJob(last) => jobs.entry(&last.job).or_default().finals.push((event, last)),
            What::Recv(recv) => {
                if let Some(job) = &recv.job {
                    jobs.entry(job).or_default().receipts.push((event, recv));
                }
            }
            _ => {}
        }
    }
    jobs
}

/// The tasks of each replica's table at the end.
fn final_tasks(history: &History) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut tasks: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for event in history.events() {
        if let What::FinalTask(last) = &event.what {
            tasks.entry(event.node.as_deref().unwrap_or_default()).or_default().insert(&last.task.task_id);
        }
    }
    tasks
}

/// T1. Each target from the creation of the job until shortly before it was stopped has fired, or lies among
/// instants that were skipped; and what its history counts is what there was. Of what was still undecided when the job
/// was stopped nothing is owed if a fault was in force since it was due.
fn accounted_for(
    word: &mut Judgement,
    (event, last): (&Event, &FinalJob),
    (put, stopped): (&JobPut, Option<(&Event, &JobStopped)>),
    troubled: &Spans,
    options: &Options,
) {
    if !last.whole || is_target(put, 0).is_none() {
        return;
    }
    let late_ms = i64::try_from(options.lateness_ms + put.jitter_ms).unwrap_or(i64::MAX);
    let Some((stop, stopped)) = stopped else { return };
    let fired: BTreeSet<i64> = last.fired.iter().map(|row| row.scheduled_at_ms).collect();
    let is_skipped = |at: i64| last.skipped.iter().any(|row| (row.first_ms..=row.last_ms).contains(&at));
    let ends = last.fired.iter().map(|row| row.scheduled_at_ms);
    let end = ends.chain(last.skipped.iter().map(|row| row.last_ms)).max();
    let was_troubled = |at: i64| {
        let before_ms = u64::try_from(stopped.wall_ms - at).unwrap_or(0);
        end.is_none_or(|end| at > end)
            && troubled.touch(stop.mono_ns.saturating_sub(before_ms.saturating_mul(MS)), stop.mono_ns)
    };
    let due = targets(put, put.after_ms, stopped.wall_ms - late_ms - SLACK_MS);
    for at in due.iter().filter(|at| !fired.contains(at) && !is_skipped(**at) && !was_troubled(**at)) {
        let what = format!("the instant {at} of job {} made no task, and no skip of it is recorded", put.job);
        word.violated(what, None, &[event.i, stop.i]);
    }
    let Some(end) = end else { return };
    // A clock that went years ahead names more targets than anybody counts.
    if last.skipped.iter().all(|row| row.exact) && end <= stopped.wall_ms {
        let there_were = targets(put, put.after_ms, end).len() as u64;
        let told = last.fired.len() as u64 + last.skipped.iter().map(|row| row.count).sum::<u64>();
        if told != there_were {
            let what = format!("job {} had {there_were} instants, and its history tells of {told}", put.job);
            word.violated(what, None, &[event.i]);
        }
    }
}

/// T1. Where nothing went wrong, nobody was late.
fn nothing_missed(word: &mut Judgement, event: &Event, last: &FinalJob) {
    for row in last.skipped.iter().filter(|row| row.reason.starts_with("misfire")) {
        let what = format!(
            "{} instants of job {} from {} on were missed, and nothing was wrong",
            row.count, last.job, row.first_ms
        );
        word.violated(what, None, &[event.i]);
    }
}

/// T3. One instant is one row and one task, and a task is of one instant.
fn one_task_each(word: &mut Judgement, event: &Event, last: &FinalJob) {
    let (mut instants, mut tasks) = (BTreeSet::new(), BTreeSet::new());
    for row in &last.fired {
        if !instants.insert(row.scheduled_at_ms) {
            let what = format!("the instant {} of job {} made two tasks", row.scheduled_at_ms, last.job);
            word.violated(what, Some(&row.task), &[event.i]);
        }
        if !tasks.insert(&row.task) {
            let what = format!("two instants of job {} made one task", last.job);
            word.violated(what, Some(&row.task), &[event.i]);
        }
    }
    let counted: u64 = last.skipped_count.values().sum();
    let told: u64 = last.skipped.iter().map(|row| row.count).sum();
    if last.whole && (counted, last.fired_count) != (told, last.fired.len() as u64) {
        let what = format!(
            "job {} counts {} fires and {counted} skips, and its history tells of {} and {told}",
            last.job,
            last.fired_count,
            last.fired.len()
        );
        word.violated(what, None, &[event.i]);
    }
}

/// T5. Every instant that the history names is a target.
fn on_the_calendar(word: &mut Judgement, event: &Event, last: &FinalJob, put: &JobPut) {
    let fired = last.fired.iter().map(|row| row.scheduled_at_ms);
    let skipped = last.skipped.iter().flat_map(|row| [row.first_ms, row.last_ms]);
    for at in fired.chain(skipped) {
        if is_target(put, at) == Some(false) || at <= put.after_ms {
            let what = format!("{at} is no instant of job {}", put.job);
            word.violated(what, None, &[event.i]);
        }
    }
}

/// T4. What a job says that it has made is there.
fn tasks_exist(word: &mut Judgement, event: &Event, last: &FinalJob, tasks: Option<&BTreeSet<&str>>) {
    let Some(tasks) = tasks else { return };
    for row in last.fired.iter().filter(|row| !tasks.contains(row.task.as_str())) {
        let what = format!("job {} made a task that the table does not have", last.job);
        word.violated(what, Some(&row.task), &[event.i]);
    }
}

/// T4. Whatever was pushed of a job is in its history. T3. It is one task for each instant, and never before it is
/// due.
fn pushes(known: &mut Judgement, once: &mut Judgement, id: &str, job: &Job<'_>) {
    let mut first: BTreeMap<i64, (&Event, &str)> = BTreeMap::new();
    let rows: BTreeSet<(i64, &str)> = job
        .finals
        .iter()
        .flat_map(|(_, last)| last.fired.iter().map(|row| (row.scheduled_at_ms, row.task.as_str())))
        .collect();
    let whole = !job.finals.is_empty() && job.finals.iter().all(|(_, last)| last.whole);
    for (event, recv) in &job.receipts {
        let (Some(at), task) = (recv.scheduled_at_ms, recv.grant.task.as_str()) else { continue };
        let (before, other) = *first.entry(at).or_insert((event, task));
        if other != task {
            let what = format!("the instant {at} of job {id} is two tasks, {other} being the other");
            once.violated(what, Some(task), &[before.i, event.i]);
        }
        if whole && !rows.contains(&(at, task)) {
            let what = format!("a task of job {id} for {at} was pushed, and its history does not have it");
            known.violated(what, Some(task), &[event.i]);
        }
        if recv.due_at_ms < at && recv.grant.attempt == 1 {
            let what = format!("a task of job {id} for {at} was said to be due at {}", recv.due_at_ms);
            known.violated(what, Some(task), &[event.i]);
        }
    }
}

#[cfg(test)]
#[path = "jobs_tests.rs"]
mod tests;
