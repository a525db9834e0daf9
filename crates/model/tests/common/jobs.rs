//! Jobs for tests, with a leader that computes as the product's does.

use std::collections::BTreeMap;

use orloj_model::command::{Command, Computed, Fire, JobCommand, PutJob, RunNow, SkipFire};
use orloj_model::id::{CalendarName, JobId, Millis, TaskId};
use orloj_model::job::{CalendarKey, Definition, Filled, HistoryRow, JobKey, JobOutcome, Template, carry};
use orloj_model::query::{self, JobView};
use orloj_model::task::{RetryPolicy, Strategy};
use orloj_model::trigger::overlap::OverlapPolicy;
use orloj_model::trigger::{
    Calendar, CalendarParts, CatchUp, Kind, Limits, Missed, Next, Progress, Schedule, SkipReason, Trigger,
};
use orloj_model::{Event, Reply};

use super::{World, caller};

pub const MINUTE: i64 = 60_000;
/// The first whole minute after [`World::ready`]'s time.
pub const FIRST: Millis = 17 * MINUTE;

pub fn key(job: &str) -> JobKey {
    JobKey { caller: caller(), job: JobId::new(job).expect("a valid id") }
}

pub fn calendar_name(name: &str) -> CalendarName {
    CalendarName::new(name).expect("a valid name")
}

pub fn calendar_key(name: &str) -> CalendarKey {
    CalendarKey { caller: caller(), calendar: calendar_name(name) }
}

/// Excludes these dates.
pub fn calendar(dates: &[&str]) -> Calendar {
    let dates = dates.iter().map(|date| (*date).to_owned()).collect();
    Calendar::new(&CalendarParts { dates, ..CalendarParts::default() }).expect("valid dates")
}

pub fn trigger(kind: Kind) -> Trigger {
    Trigger::new(kind, Limits::default()).expect("a valid trigger")
}

pub fn limited(kind: Kind, max_fires: u64) -> Trigger {
    let limits = Limits { max_fires: Some(max_fires), ..Limits::default() };
    Trigger::new(kind, limits).expect("a valid trigger")
}

pub fn every_minute() -> Kind {
    Kind::FixedRate { every_ms: MINUTE as u64, anchor: 0 }
}

pub fn after_each(delay_ms: u64) -> Kind {
    Kind::FixedDelay { delay_ms, anchor: 1_000_000 }
}

/// Fires every minute.
pub fn definition(overlap: OverlapPolicy) -> Definition {
    Definition {
        title: "Report of the night".into(),
        description: String::new(),
        template: Template {
            handler: "report".into(),
            params: r#"{"day":"${date:%d}"}"#.into(),
            priority: 5,
            labels: BTreeMap::new(),
            routing_key: None,
            zone: None,
            strategy: Strategy::Ring,
            business_key: None,
            retry: RetryPolicy { max_retries: 0, ..RetryPolicy::default() },
            timeout_ms: None,
            expire_after_ms: None,
            shard_total: 1,
            callback_url: None,
            estimated_duration_ms: None,
        },
        triggers: vec![trigger(every_minute())],
        calendars: Vec::new(),
        misfire: CatchUp::default(),
        overlap,
        max_running: None,
    }
}

pub fn command(command: JobCommand) -> Command {
    Command::Job(Box::new(command))
}

impl World {
    pub fn job(&self, job: &str) -> JobView {
        query::job(&self.tables, &key(job)).expect("maps do not fail").expect("the job is there")
    }

    pub fn find_job(&self, job: &str) -> Option<JobView> {
        query::job(&self.tables, &key(job)).expect("maps do not fail")
    }

    /// What a replica makes of a definition with the calendars as they are.
    pub fn schedule(&self, job: &JobKey, definition: &Definition) -> Schedule {
        let calendars: Vec<Calendar> = self.calendars(job, definition).into_iter().map(|row| row.0).collect();
        Schedule::new(job.job.as_str(), &definition.triggers, &calendars).expect("a checked definition")
    }

    fn calendars(&self, job: &JobKey, definition: &Definition) -> Vec<(Calendar, u64)> {
        let row = |name: &CalendarName| {
            let key = CalendarKey { caller: job.caller.clone(), calendar: name.clone() };
            query::calendar(&self.tables, &key).expect("maps do not fail")
        };
        definition.calendars.iter().filter_map(row).map(|row| (row.calendar, row.version)).collect()
    }

    /// What the API computes when a person puts, or resumes, a job.
    pub fn computed(&self, job: &str, definition: &Definition) -> Computed {
        let key = key(job);
        let known = self.find_job(job);
        let progress = match &known {
            Some(view) => carry(&view.state.progress, &view.job.definition.triggers, &definition.triggers),
            None => Progress::default(),
        };
        let after = known.as_ref().map_or(self.wall(), |view| view.state.decided.max(self.wall()));
        Computed {
            revision: known.map_or(0, |view| view.state.revision),
            calendars: self.calendars(&key, definition).into_iter().map(|row| row.1).collect(),
            after,
            next: self.schedule(&key, definition).next(&progress, after),
        }
    }

    pub fn put(&self, job: &str, expected: Option<u64>, definition: Definition) -> Command {
        let computed = self.computed(job, &definition);
        let put = PutJob { job: key(job), expected, definition, computed, claim: None };
        command(JobCommand::Put(Box::new(put)))
    }

    /// In a world with this job; the clock stands before its first fire.
    pub fn with_job(job: &str, definition: Definition) -> World {
        let mut world = World::ready();
        let put = world.put(job, Some(0), definition);
        let reply = world.run(put);
        assert!(matches!(reply, Reply::Job { version: 1, .. }), "{reply:?}");
        world
    }

    /// The fire that a leader proposes next of a job.
    pub fn fire(&self, job: &str, task: TaskId) -> Option<Fire> {
        let view = self.find_job(job)?;
        let next = view.state.next.as_ref()?;
        let mut progress = view.state.progress.clone();
        progress.fire(next);
        let after = self.schedule(&view.key, &view.job.definition).next(&progress, next.scheduled_at);
        Some(Fire {
            job: view.key.clone(),
            revision: view.state.revision,
            scheduled_at: next.scheduled_at,
            task,
            filled: Filled::default(),
            next: after,
        })
    }

    /// Lets a job fire when its next instant is due.
    pub fn fires(&mut self, job: &str, task: TaskId) -> Reply {
        let next = self.job(job).state.next.expect("it has a next fire");
        self.now = self.now.max(next.due_at + self.ahead);
        let fire = self.fire(job, task).expect("it has a next fire");
        self.run(command(JobCommand::Fire(fire)))
    }

    /// The first `count` instants from the next one on pass without a leader.
    pub fn skip(&self, job: &str, reason: SkipReason, count: u64) -> Option<SkipFire> {
        let view = self.find_job(job)?;
        let schedule = self.schedule(&view.key, &view.job.definition);
        let first = view.state.next.as_ref()?.scheduled_at;
        let mut last = first;
        for _ in 1..count {
            last = schedule.next(&view.state.progress, last)?.scheduled_at;
        }
        Some(SkipFire {
            job: view.key.clone(),
            revision: view.state.revision,
            scheduled_at: first,
            missed: Missed { reason, count, exact: true, first, last },
            through: last,
            next: schedule.next(&view.state.progress, last),
        })
    }

    /// What a leader answers a job that wants its next fire.
    pub fn answer(&self, job: &str) -> Option<Command> {
        let view = self.find_job(job)?;
        let after = view.state.decided;
        let next = self.schedule(&view.key, &view.job.definition).next(&view.state.progress, after);
        Some(command(JobCommand::SetNext { job: view.key, revision: view.state.revision, next }))
    }

    pub fn run_now(&self, job: &str, task: TaskId, overlap: Option<OverlapPolicy>) -> RunNow {
        RunNow {
            job: key(job),
            version: self.find_job(job).map_or(1, |view| view.job.version),
            scheduled_at: self.now,
            task,
            filled: Filled::default(),
            overlap,
            claim: None,
            idempotency: None,
        }
    }

    pub fn history(&self, job: &str) -> Vec<HistoryRow> {
        let rows = query::history(&self.tables, &key(job), None, usize::MAX).expect("maps do not fail");
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// Skipped instants in the history, oldest first: reason, count, first and last.
    pub fn skips(&self, job: &str) -> Vec<(SkipReason, u64, Millis, Millis)> {
        let skipped = |row: HistoryRow| match row.outcome {
            JobOutcome::Skipped { missed, .. } => {
                Some((missed.reason, missed.count, missed.first, missed.last))
            }
            _ => None,
        };
        self.history(job).into_iter().rev().filter_map(skipped).collect()
    }

    pub fn needs_next(&self, job: &str) -> bool {
        self.events
            .iter()
            .any(|event| matches!(event, Event::JobNeedsNext { job: found, .. } if *found == key(job)))
    }

    pub fn next_at(&self, job: &str) -> Option<Millis> {
        self.job(job).state.next.map(|next: Next| next.scheduled_at)
    }
}
