//! T1: every target of a schedule fires or is skipped for a reason. T3: none fires twice. T4: nothing else fires.
//! T5: what fires is what the calendar says.

use std::collections::{BTreeMap, BTreeSet};

use super::Options;
use crate::event::{Event, FinalJob, JobPut, JobStopped, Recv, SkippedRow, What};
use crate::faults::{in_force, installed};
use crate::history::History;
use crate::spans::{MS, Spans};
use crate::tables::{Table, final_tables};
use crate::targets::{is_target, targets};
use crate::verdict::Judgement;

/// An instant may be undecided for so long when its job is stopped and no fault is near, beside its jitter and what the
/// options allow a task, in ms.
const SLACK_MS: u64 = 2_000;
/// After a fault a leader may need so long, in ms, to decide what came due in it: an instant that waits when its job is
/// stopped is given up by that, and may have waited so long beside the time in which faults are in force.
const CAUGHT_UP_MS: u64 = 5_000;
/// The reason of what was not decided when an edit took away the triggers that named it.
const EDITED: &str = "edited";
/// Of so many jobs, one may have forgotten some of its instants; of more the run has not shown enough.
const ONE_FORGETS_OF: usize = 20;

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
///
/// `looked_at` counts the jobs, `fired` and `skips` what their histories tell; T1's `whole` counts the histories that have
/// forgotten nothing, and T4's `in_tables` the fires whose task was looked for in a table.
pub fn schedules(history: &History, options: &Options) -> Vec<Judgement> {
    let mut words = ["T1", "T3", "T4", "T5"].map(Judgement::of);
    let [accounted, once, known, calendar] = &mut words;
    let jobs = gather(history);
    let tables = final_tables(history);
    let calm = installed(history).is_empty();
    let owing = Owing { troubled: in_force(history).followed_by(CAUGHT_UP_MS * MS), options };
    let (mut fired, mut skipped, mut in_tables) = (0, 0, 0);
    for (id, job) in &jobs {
        let Some((_, put)) = job.put else { continue };
        for (event, last) in &job.finals {
            owing.accounted_for(accounted, (event, last), (put, job.stopped));
            if calm {
                nothing_missed(accounted, event, last);
            }
            one_task_each(once, event, last);
            on_the_calendar(calendar, event, last, put);
            in_tables += tasks_exist(known, event, last, &tables);
        }
        pushes(known, once, id, job);
        stays_stopped(known, job, &tables);
        let last = job.finals.first().map(|(_, last)| *last);
        fired += last.map_or(0, |last| last.fired.len());
        skipped += last.map_or(0, |last| last.skipped.len());
    }
    whole_enough(accounted, &jobs);
    known.stat("in_tables", in_tables as f64);
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

/// T1. Of a job whose history has forgotten something only the counts are judged, so that few may have.
fn whole_enough(word: &mut Judgement, jobs: &BTreeMap<&str, Job<'_>>) {
    let read: Vec<_> = jobs.values().filter(|job| !job.finals.is_empty()).collect();
    let forgets: Vec<_> = read
        .iter()
        .filter_map(|job| job.finals.iter().find(|(_, last)| !last.whole).map(|(event, _)| event.i))
        .collect();
    word.stat("whole", (read.len() - forgets.len()) as f64);
    if forgets.len() * ONE_FORGETS_OF > read.len() {
        let what = format!("{} of {} jobs have forgotten some of their instants", forgets.len(), read.len());
        word.unknown(what, &forgets);
    }
}

/// What jobs owe when they are stopped.
struct Owing<'a> {
    /// When a fault was in force, or shortly after one.
    troubled: Spans,
    options: &'a Options,
}

impl Owing<'_> {
    /// T1. Each target from the creation of the job until shortly before it was stopped has fired, or lies among
    /// instants that were skipped; and what its history counts is what there was. What was still undecided when the job
    /// was stopped, recorded as that or not, had not waited for longer than faults explain.
    fn accounted_for(
        &self,
        word: &mut Judgement,
        (event, last): (&Event, &FinalJob),
        (put, stopped): (&JobPut, Option<(&Event, &JobStopped)>),
    ) {
        let Some((stop, stopped)) = stopped else { return };
        if !last.whole || is_target(put, 0).is_none() {
            return;
        }
        let late_ms = i64::try_from(self.late_ms(put) + SLACK_MS).unwrap_or(i64::MAX);
        let fired: BTreeSet<i64> = last.fired.iter().map(|row| row.scheduled_at_ms).collect();
        let (edited, skipped): (Vec<_>, Vec<_>) = last.skipped.iter().partition(|row| row.reason == EDITED);
        let is_decided = |at: &i64| {
            fired.contains(at) || skipped.iter().any(|row| (row.first_ms..=row.last_ms).contains(at))
        };
        let end = fired.iter().copied().chain(skipped.iter().map(|row| row.last_ms)).max();
        let waits = |at: i64| end.is_none_or(|end| at > end) && self.may_wait(put, (stop, stopped), at);
        let due = targets(put, put.after_ms, stopped.wall_ms - late_ms);
        let owed: Vec<i64> = due.into_iter().filter(|at| !is_decided(at) && !waits(*at)).collect();
        if let [first, ..] = owed[..] {
            let what = format!(
                "{} instants of job {} from {first} on made no task, and no skip of them says why",
                owed.len(),
                put.job
            );
            word.violated(what, None, &[event.i, stop.i]);
        }
        // A clock that went years ahead names more targets than anybody counts.
        let counted = |from: i64, until: i64, told: u64, word: &mut Judgement| {
            let there_were = targets(put, from, until.min(stopped.wall_ms)).len() as u64;
            if until <= stopped.wall_ms && told != there_were {
                let what =
                    format!("job {} had {there_were} instants, and its history tells of {told}", put.job);
                word.violated(what, None, &[event.i]);
            }
        };
        if let Some(end) = end.filter(|_| skipped.iter().all(|row| row.exact)) {
            let told = last.fired.len() as u64 + skipped.iter().map(|row| row.count).sum::<u64>();
            counted(put.after_ms, end, told, word);
        }
        for SkippedRow { first_ms, last_ms, count, .. } in edited.iter().filter(|row| row.exact) {
            counted(first_ms - 1, *last_ms, *count, word);
        }
    }

    fn late_ms(&self, put: &JobPut) -> u64 {
        self.options.lateness_ms + put.jitter_ms
    }

    /// Whether an instant may have been undecided when its job was stopped: so it may while faults hold it up, and for
    /// a while after them. A clock that was set back is such a fault as long as it is behind.
    fn may_wait(&self, put: &JobPut, (stop, stopped): (&Event, &JobStopped), at: i64) -> bool {
        let waited_ns = u64::try_from(stopped.wall_ms - at).unwrap_or(0).saturating_mul(MS);
        let since = stop.mono_ns.saturating_sub(waited_ns);
        let room_ms = if self.troubled.touch(since, stop.mono_ns) { CAUGHT_UP_MS } else { SLACK_MS };
        let explained_ns = self.troubled.covered(since, stop.mono_ns);
        waited_ns - explained_ns.min(waited_ns) <= (self.late_ms(put) + room_ms) * MS
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

/// T4. What a job says that it has made is there; answers with how many tasks were looked for.
fn tasks_exist(word: &mut Judgement, event: &Event, last: &FinalJob, tables: &[Table<'_>]) -> usize {
    let node = event.node.as_deref().unwrap_or_default();
    let Some(table) = tables.iter().find(|table| table.node == node && table.is_whole()) else { return 0 };
    for row in last.fired.iter().filter(|row| !table.rows.contains_key(row.task.as_str())) {
        let what = format!("job {} made a task that the table does not have", last.job);
        word.violated(what, Some(&row.task), &[event.i]);
    }
    last.fired.len()
}

/// T4. A job that was told to fire no more, and had acknowledged that, makes no task. What was made before may well be
/// pushed later, so that its creation counts: by the cluster's time, as the acknowledgement, and that never goes back.
fn stays_stopped(word: &mut Judgement, job: &Job<'_>, tables: &[Table<'_>]) {
    let Some((stop, Some(done_at_ms))) = job.stopped.map(|(stop, stopped)| (stop, stopped.done_at_ms)) else {
        return;
    };
    let rows = job.finals.iter().flat_map(|(event, last)| last.fired.iter().map(|row| (event.i, row)));
    let made = rows.filter_map(|(event, row)| Some((event, row.task.as_str(), row.made_at_ms?)));
    let pushes = job.receipts.iter().filter(|(_, recv)| recv.grant.attempt == 1);
    let pushed = pushes.filter_map(|(event, recv)| {
        let task = recv.grant.task.as_str();
        let row = tables.iter().find_map(|table| table.rows.get(task))?;
        Some((event.i, task, row.task.task.created_at_ms?))
    });
    for (event, task, made_at_ms) in made.chain(pushed).filter(|(.., made_at_ms)| *made_at_ms > done_at_ms) {
        let what = format!("its job was told at {done_at_ms} to fire no more, and made it at {made_at_ms}");
        word.violated(what, Some(task), &[stop.i, event]);
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
