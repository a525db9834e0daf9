//! Jobs in hand: those whose next fire is near or wanted, and what else there is to do for jobs.
//!
//! Nothing about a job is decided here. A job whose time has come becomes a [`Duty`]; the shell reads its rows, asks
//! [`orloj_model::job::plan`] and proposes what that says. All of it is guarded by the job's revision, so what is
//! believed in here costs a refused command at worst, and every duty begins with the rows as they are.
//!
//! Duties are done in batches of bounded size: a thousand jobs of one instant are looked at in due order and go out over
//! several entries, between which what others propose finds room. A batch is looked at, then proposed. One is looked at at a
//! time; a few are under way, so that the log has the next one before it is done with the last. Nothing orders the entries of
//! two batches, and nothing needs to: a job, or a backfill, is in one batch at a time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use orloj_model::Event;
use orloj_model::id::Millis;
use orloj_model::job::{CalendarKey, JobKey};
use orloj_model::key::NextKey;
use orloj_model::task::DueClock;

use super::clocks::shown;
use super::{Core, Now, Step, Timer};
use crate::wheel::TimerId;

/// The most jobs that are looked at in one batch.
const JOBS_PER_BATCH: usize = 128;
/// The most batches under way: one that is being looked at, one on its way to the disks, and one that is being applied.
/// What others propose meanwhile stands behind these at most.
const BATCHES_UNDER_WAY: usize = 3;
/// The most duties of one batch that can wait: steps of backfills and of changed calendars.
const SLOW_PER_BATCH: usize = 4;

/// One thing to do for jobs; what exactly, the tables say when it is done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Duty {
    /// A job's next fire is due, or wanted.
    Look(Arc<JobKey>),
    /// A backfill may go on.
    Backfill(Arc<JobKey>),
    /// A calendar has changed, and there are jobs that have not heard of it.
    Spread(CalendarKey),
}

/// What follows when a duty is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// Nothing, until an event says so.
    Rest,
    /// A look when the wall clock shows this.
    At(Millis),
    /// The same again with the next batch: this one was full.
    Next,
    /// The same again in a while: it was refused, or found no room.
    Soon,
}

/// Where a job is in hand.
#[derive(Debug)]
enum Place {
    /// In the wheel.
    Timed(TimerId),
    /// In the queue.
    Queued,
    /// In a batch that is under way; with what was heard of it since.
    InHand(Option<Heard>),
}

/// What an event said of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    Due(Millis),
    Wanted,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    places: HashMap<Arc<JobKey>, Place>,
    /// How many of them are in the wheel.
    timed: usize,
    /// To be looked at, in due order.
    queue: VecDeque<Arc<JobKey>>,
    /// Duties that can wait, each once.
    slow: VecDeque<Duty>,
    waits: HashSet<Duty>,
    /// Of these, those in a batch that is under way; and whether anything was heard of one since.
    going: HashMap<Duty, bool>,
    /// Refused, or without room in the log: tried again at the next housekeeping.
    later: Vec<Duty>,
    /// A batch is being looked at.
    looking: bool,
    /// How many batches are under way, that one included.
    under_way: usize,
}

impl Core {
    /// Takes in jobs of the window, as the index of next fires holds them.
    pub(crate) fn load_jobs(&mut self, next: Vec<NextKey>, now: Now) {
        for NextKey { due_at, job } in next {
            self.hear(&Arc::new(job), Heard::Due(due_at), now);
        }
    }

    /// A job wants a next fire.
    pub(crate) fn want(&mut self, job: JobKey, now: Now) {
        self.hear(&Arc::new(job), Heard::Wanted, now);
    }

    /// A backfill, or a changed calendar, may go on.
    pub(crate) fn go_on(&mut self, duty: Duty) {
        if let Some(heard) = self.jobs.going.get_mut(&duty) {
            // Its rows are as the batch leaves them when that is done, and not before.
            *heard = true;
        } else if self.jobs.waits.insert(duty.clone()) {
            self.jobs.slow.push_back(duty);
        }
    }

    /// An applied change of a job.
    pub(super) fn job_event(&mut self, event: &Event, now: Now) {
        match event {
            Event::JobNext { job, due_at, .. } => {
                self.hear(&Arc::new(job.clone()), Heard::Due(*due_at), now);
            }
            Event::JobNeedsNext { job, .. } => self.want(job.clone(), now),
            Event::BackfillWaits { job } => self.go_on(Duty::Backfill(Arc::new(job.clone()))),
            Event::CalendarChanged { calendar, spreading: true } => {
                self.go_on(Duty::Spread(calendar.clone()));
            }
            Event::JobChanged { job, version } => self.job_changed(job, *version, now),
            _ => {}
        }
    }

    /// What was told of a job's next fire came before this. A job that has none any more, by an edit or a pause, leaves
    /// the wheel.
    fn job_changed(&mut self, job: &JobKey, version: Option<u64>, now: Now) {
        let Some((job, place)) = self.jobs.places.get_key_value(job) else { return };
        let (job, is_timed) = (Arc::clone(job), matches!(place, Place::Timed(_)));
        if version.is_some() {
            self.hear(&job, Heard::Wanted, now);
        } else if is_timed {
            self.take_out(&job);
        }
    }

    /// Takes a job out of the wheel.
    fn take_out(&mut self, job: &Arc<JobKey>) {
        if let Some(Place::Timed(timer)) = self.jobs.places.remove(job) {
            self.jobs.timed -= 1;
            self.wheel.cancel(timer);
        }
    }

    fn hear(&mut self, job: &Arc<JobKey>, heard: Heard, now: Now) {
        match self.jobs.places.get_mut(job) {
            Some(Place::InHand(since)) => *since = Some(heard),
            // It is about to be looked at, as its rows are then.
            Some(Place::Queued) => {}
            Some(Place::Timed(_)) => {
                self.take_out(job);
                self.put(job, heard, now);
            }
            None => self.put(job, heard, now),
        }
    }

    /// Puts a job where it belongs; one beyond the window stays in the index.
    fn put(&mut self, job: &Arc<JobKey>, heard: Heard, now: Now) {
        let place = match heard {
            Heard::Due(at) if at >= self.loaded_until => {
                self.jobs.places.remove(job);
                return;
            }
            Heard::Due(at) if at > shown(now, DueClock::Wall) => {
                let deadline = self.clocks.deadline(at, DueClock::Wall, now);
                self.jobs.timed += 1;
                Place::Timed(self.wheel.insert(deadline, Timer::Job { job: Arc::clone(job), at }))
            }
            Heard::Due(_) | Heard::Wanted => {
                self.jobs.queue.push_back(Arc::clone(job));
                Place::Queued
            }
        };
        self.jobs.places.insert(Arc::clone(job), place);
    }

    /// The wheel handed out a job's timer, or hands it out anew after a step of a clock.
    pub(super) fn job_timer(&mut self, job: &Arc<JobKey>, at: Millis, now: Now) {
        self.jobs.timed -= 1;
        self.put(job, Heard::Due(at), now);
    }

    /// Hands out the next batch to look at, unless one is being looked at or enough are under way.
    pub(crate) fn plan_jobs(&mut self) {
        let jobs = &mut self.jobs;
        let is_busy = jobs.looking || jobs.under_way >= BATCHES_UNDER_WAY;
        if is_busy || (jobs.queue.is_empty() && jobs.slow.is_empty()) {
            return;
        }
        let mut duties = Vec::new();
        while duties.len() < JOBS_PER_BATCH
            && let Some(job) = jobs.queue.pop_front()
        {
            jobs.places.insert(Arc::clone(&job), Place::InHand(None));
            duties.push(Duty::Look(job));
        }
        for _ in 0..SLOW_PER_BATCH {
            let Some(duty) = jobs.slow.pop_front() else { break };
            jobs.waits.remove(&duty);
            jobs.going.insert(duty.clone(), false);
            duties.push(duty);
        }
        (jobs.looking, jobs.under_way) = (true, jobs.under_way + 1);
        self.steps.push(Step::Jobs(duties));
    }

    /// A batch has been looked at: these of its duties propose nothing. `proposes`: others do, and the batch is under way
    /// until [`jobs_done`](Core::jobs_done) is told of them.
    pub(crate) fn looked(&mut self, done: Vec<(Duty, After)>, proposes: bool, now: Now) {
        self.jobs.looking = false;
        if !proposes {
            self.jobs.under_way -= 1;
        }
        self.settle(done, now);
    }

    /// A batch has been done, with those of its duties that proposed something.
    pub(crate) fn jobs_done(&mut self, done: Vec<(Duty, After)>, now: Now) {
        self.jobs.under_way -= 1;
        self.settle(done, now);
    }

    fn settle(&mut self, done: Vec<(Duty, After)>, now: Now) {
        let mut first = Vec::new();
        for (duty, after) in done {
            let Duty::Look(job) = &duty else {
                let heard = self.jobs.going.remove(&duty).unwrap_or(false);
                match after {
                    After::Soon => self.jobs.later.push(duty),
                    After::Rest | After::At(_) if !heard => {}
                    After::Next | After::Rest | After::At(_) => self.go_on(duty),
                }
                continue;
            };
            let heard = match self.jobs.places.remove(job) {
                Some(Place::InHand(heard)) => heard,
                _ => None,
            };
            match (after, heard) {
                (After::Next, _) => {
                    self.jobs.places.insert(Arc::clone(job), Place::Queued);
                    first.push(Arc::clone(job));
                }
                (After::Soon, _) => {
                    self.jobs.places.insert(Arc::clone(job), Place::Queued);
                    self.jobs.later.push(duty);
                }
                (_, Some(heard)) => self.put(job, heard, now),
                (After::At(at), None) => self.put(job, Heard::Due(at), now),
                (After::Rest, None) => {}
            }
        }
        for job in first.into_iter().rev() {
            self.jobs.queue.push_front(job);
        }
    }

    /// Takes up again what was refused or had found no room.
    pub(super) fn retry_jobs(&mut self) {
        for duty in std::mem::take(&mut self.jobs.later) {
            match duty {
                Duty::Look(job) => self.jobs.queue.push_back(job),
                duty => self.go_on(duty),
            }
        }
    }

    /// How many jobs are in the wheel. For the probe.
    pub(super) fn job_timers(&self) -> usize {
        self.jobs.timed
    }

    /// How many jobs wait to be looked at. For the probe and the metrics.
    pub(super) fn jobs_waiting(&self) -> usize {
        self.jobs.queue.len() + self.jobs.later.len()
    }
}

#[cfg(test)]
#[path = "jobs_tests.rs"]
mod tests;
