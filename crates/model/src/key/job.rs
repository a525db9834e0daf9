//! Keys of jobs, their indexes and their calendars.

use super::{KeyReader, KeyWriter, TableKey};
use crate::id::{CalendarName, CallerId, JobId, Millis, TaskId};
use crate::job::{CalendarKey, JobKey};

/// (instant, caller, job): which job fires next.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NextKey {
    /// When its next fire is due.
    pub due_at: Millis,
    /// The job.
    pub job: JobKey,
}

/// (caller, job, number descending): history, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryKey {
    /// The job.
    pub job: JobKey,
    /// Counted from 1.
    pub number: u64,
}

/// (caller, job, task): open tasks of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobTaskKey {
    /// The job.
    pub job: JobKey,
    /// The task.
    pub task: TaskId,
}

/// (caller, calendar, job): which jobs use a calendar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalendarUseKey {
    /// The calendar.
    pub calendar: CalendarKey,
    /// A job of the same caller.
    pub job: JobId,
}

impl KeyWriter {
    /// A job with its owner.
    pub fn job(self, job: &JobKey) -> Self {
        self.text(job.caller.as_str()).text(job.job.as_str())
    }

    /// A calendar with its owner.
    pub fn calendar(self, calendar: &CalendarKey) -> Self {
        self.text(calendar.caller.as_str()).text(calendar.calendar.as_str())
    }

    /// A number, descending.
    pub fn number_desc(mut self, number: u64) -> Self {
        self.0.extend((!number).to_be_bytes());
        self
    }
}

impl KeyReader<'_> {
    /// A job with its owner.
    pub fn job(&mut self) -> Option<JobKey> {
        Some(JobKey { caller: CallerId::new(self.text()?).ok()?, job: JobId::new(self.text()?).ok()? })
    }

    /// A calendar with its owner.
    pub fn calendar(&mut self) -> Option<CalendarKey> {
        let caller = CallerId::new(self.text()?).ok()?;
        Some(CalendarKey { caller, calendar: CalendarName::new(self.text()?).ok()? })
    }

    /// A number, descending.
    pub fn number_desc(&mut self) -> Option<u64> {
        Some(!u64::from_be_bytes(self.take()?))
    }
}

key_codec!(JobKey, |k, w| w.job(k), |r| r.job()?);
key_codec!(CalendarKey, |k, w| w.calendar(k), |r| r.calendar()?);
key_codec!(NextKey, |k, w| w.millis(k.due_at).job(&k.job), |r| NextKey {
    due_at: r.millis()?,
    job: r.job()?
});
key_codec!(HistoryKey, |k, w| w.job(&k.job).number_desc(k.number), |r| HistoryKey {
    job: r.job()?,
    number: r.number_desc()?
});
key_codec!(JobTaskKey, |k, w| w.job(&k.job).task(k.task), |r| JobTaskKey { job: r.job()?, task: r.task()? });
key_codec!(CalendarUseKey, |k, w| w.calendar(&k.calendar).text(k.job.as_str()), |r| CalendarUseKey {
    calendar: r.calendar()?,
    job: JobId::new(r.text()?).ok()?
});

#[cfg(test)]
mod tests {
    use super::*;

    fn key(caller: &str, job: &str) -> JobKey {
        JobKey {
            caller: CallerId::new(caller).expect("a valid name"),
            job: JobId::new(job).expect("a valid id"),
        }
    }

    #[test]
    fn history_sorts_newest_first_within_its_job() {
        let row = |job: &str, number| HistoryKey { job: key("c", job), number }.encode();
        assert!(row("a", 2) < row("a", 1));
        assert!(row("a", 0) < row("aa", u64::MAX));
        assert!(row("a", u64::MAX) < row("a", 256));
    }

    #[test]
    fn what_is_due_first_sorts_first() {
        let next = |due_at, job: &str| NextKey { due_at, job: key("c", job) }.encode();
        assert!(next(1, "z") < next(2, "a"));
        assert!(next(2, "a") < next(2, "b"));
    }

    #[test]
    fn a_job_is_no_prefix_of_another() {
        assert!(!key("c", "ab").encode().starts_with(&key("c", "a").encode()));
        assert_eq!(JobKey::decode(&key("c", "ab").encode()), Some(key("c", "ab")));
        assert_eq!(JobKey::decode(&KeyWriter::default().text("c").text("a.b").finish()), None);
    }
}
