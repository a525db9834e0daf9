//! One task as a sequential object: what callers do to it, and what happens to it in between.
//!
//! A task changes by itself: executors are granted attempts and report, retries become due, deadlines pass. No
//! caller sees those changes happen; what shows is that the version has grown. So a state here is what is known
//! at one version, and an answer with a higher version is possible when the changes in between can be: along the
//! table of [`hops`], one version for each. Two things never happen by themselves: a task comes to be by a
//! submission, and a cancel is asked for by a cancel.

mod status;

use std::fmt;

pub use status::{Status, hops};

use crate::wgl::Model;

/// A task as an answer showed it. Answers tell more or less: a submission's says nothing of attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sight {
    /// Its version.
    pub version: u64,
    /// Its status.
    pub status: Status,
    /// The number of its newest attempt.
    pub attempt: Option<u32>,
    /// Whether a cancel waits for the executor.
    pub asked: Option<bool>,
    /// A number for everything else that belongs to the version (result, error): equal numbers, equal values.
    pub details: Option<u32>,
}

/// How a report said that an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The handler succeeded.
    Succeeded,
    /// It failed, outran its timeout or was stopped: whether another try follows is the policy's business.
    Unsuccessful,
    /// The executor handed it back unstarted.
    Returned,
    /// Several reports of the attempt said different things, and it is not known which was taken.
    Unclear,
}

/// An operation on a task, with what its caller was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// A submission was acknowledged.
    Submit {
        /// The answer says that it repeats an earlier one.
        replayed: bool,
        /// What it told.
        sight: Sight,
    },
    /// A submission of which nobody knows whether it happened.
    SubmitUnknown,
    /// A read; none when there is no such task.
    Get(Option<Sight>),
    /// A cancel was taken; with what it told, if anything.
    Cancel(Option<Sight>),
    /// A cancel was refused because the task had ended otherwise; with what it told, if anything.
    CancelRefused(Option<Sight>),
    /// A cancel of which nobody knows whether it happened.
    CancelUnknown,
    /// An executor's report was accepted. Only for tasks of one shard.
    Report {
        /// Of this attempt.
        attempt: u32,
        /// What it said.
        ending: Ending,
    },
}

impl Op {
    /// The same operation on a task that may have been marked without a cancel: what was told of the mark says
    /// nothing, and a cancel that was taken may have changed nothing. Whether one took effect at all stands beside it.
    pub fn without_mark(self) -> Op {
        let unmarked = |sight: Sight| Sight { asked: None, details: None, ..sight };
        match self {
            Op::Get(Some(sight)) | Op::Cancel(Some(sight)) => Op::Get(Some(unmarked(sight))),
            Op::Cancel(None) => Op::CancelUnknown,
            Op::CancelRefused(Some(sight)) => Op::CancelRefused(Some(unmarked(sight))),
            other => other,
        }
    }
}

impl fmt::Display for Sight {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} in version {}", self.status.name(), self.version)?;
        if let Some(attempt) = self.attempt {
            write!(formatter, ", attempt {attempt}")?;
        }
        match self.asked {
            Some(true) => write!(formatter, ", cancel requested"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Submit { replayed: false, sight } => write!(formatter, "a submission that made it ({sight})"),
            Op::Submit { replayed: true, sight } => write!(formatter, "a repeated submission ({sight})"),
            Op::SubmitUnknown => write!(formatter, "a submission without an answer"),
            Op::Get(None) => write!(formatter, "a read that found nothing"),
            Op::Get(Some(sight)) => write!(formatter, "a read ({sight})"),
            Op::Cancel(None) => write!(formatter, "a cancel that was taken"),
            Op::Cancel(Some(sight)) => write!(formatter, "a cancel that was taken ({sight})"),
            Op::CancelRefused(None) => write!(formatter, "a cancel that was refused"),
            Op::CancelRefused(Some(sight)) => write!(formatter, "a cancel that was refused ({sight})"),
            Op::CancelUnknown => write!(formatter, "a cancel without an answer"),
            Op::Report { attempt, ending } => {
                let ending = match ending {
                    Ending::Succeeded => "succeeded",
                    Ending::Unsuccessful => "did not succeed",
                    Ending::Returned => "was handed back",
                    Ending::Unclear => "ended somehow",
                };
                write!(formatter, "an accepted report that attempt {attempt} {ending}")
            }
        }
    }
}

/// What is known of a task at one point of the order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum State {
    /// There is no such task.
    Absent,
    /// There is.
    Present(Known),
}

/// A task that exists.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Known {
    /// Its version, or the lowest that it can have.
    floor: u64,
    /// Whether an answer has pinned the version.
    exact: bool,
    status: Status,
    asked: bool,
    /// Its newest attempt, or the lowest that it can be.
    attempt: u32,
    attempt_exact: bool,
    details: Option<u32>,
}

impl Known {
    fn created() -> Known {
        Known {
            floor: 1,
            exact: true,
            status: Status::Pending,
            asked: false,
            attempt: 0,
            attempt_exact: true,
            details: None,
        }
    }

    /// No further attempt can be granted.
    fn is_closed(&self) -> bool {
        self.asked || self.status.is_terminal()
    }

    /// The task after changes that nobody saw: at least `changes` of them.
    fn moved(&self, changes: u64, status: Status, asked: bool) -> Known {
        Known {
            floor: self.floor + changes,
            exact: false,
            status,
            asked,
            attempt_exact: self.attempt_exact && self.is_closed(),
            details: None,
            ..*self
        }
    }

    /// The task once `sight` has been seen of it; none when it cannot be seen so.
    fn observe(&self, sight: &Sight) -> Option<Known> {
        let changes = sight.version.checked_sub(self.floor)?;
        if self.exact && changes == 0 {
            return self.merge(sight);
        }
        if self.exact && self.status.is_terminal() {
            return None;
        }
        if hops(self.status, self.asked, sight.status)? > changes || !self.may_be_asked(sight) {
            return None;
        }
        let attempt = sight.attempt.unwrap_or(self.attempt);
        let most = match (self.attempt_exact, self.is_closed()) {
            (true, true) => u64::from(self.attempt),
            (true, false) => u64::from(self.attempt) + changes,
            (false, _) => u64::MAX,
        };
        let has_run = matches!(sight.status, Status::Running | Status::Success | Status::Failed);
        let too_few = attempt < self.attempt || (sight.attempt == Some(0) && has_run);
        if too_few || u64::from(attempt) > most {
            return None;
        }
        Some(Known {
            floor: sight.version,
            exact: true,
            status: sight.status,
            asked: self.asked,
            attempt,
            attempt_exact: sight.attempt.is_some() || (self.attempt_exact && self.is_closed()),
            details: sight.details,
        })
    }

    /// One version is one value: what another answer told of it must agree.
    fn merge(&self, sight: &Sight) -> Option<Known> {
        let attempt = sight.attempt.unwrap_or(self.attempt);
        let agrees = sight.status == self.status
            && self.may_be_asked(sight)
            && (attempt == self.attempt || (!self.attempt_exact && attempt > self.attempt))
            && (sight.details.is_none() || self.details.is_none() || sight.details == self.details);
        agrees.then(|| Known {
            attempt,
            attempt_exact: self.attempt_exact || sight.attempt.is_some(),
            details: self.details.or(sight.details),
            ..*self
        })
    }

    /// While a task runs the mark says exactly whether a cancel was asked for; of one that has ended it may
    /// have been taken away, but it cannot have come from nowhere.
    fn may_be_asked(&self, sight: &Sight) -> bool {
        match sight.asked {
            None => true,
            Some(asked) => asked == self.asked || (!asked && sight.status.is_terminal()),
        }
    }

    /// A cancel was taken and told `sight`.
    fn cancel(&self, sight: &Sight) -> Option<Known> {
        let (cancelled, waits) = (sight.status == Status::Cancelled, sight.status == Status::Running);
        let is_taken = cancelled || (waits && sight.asked != Some(false));
        if !is_taken {
            return None;
        }
        if self.is_closed() {
            return self.observe(sight);
        }
        let before = Sight {
            version: sight.version.checked_sub(1)?,
            status: if cancelled { Status::Pending } else { Status::Running },
            attempt: sight.attempt,
            asked: Some(false),
            details: None,
        };
        let known = self.observe(&before)?;
        Some(Known {
            floor: sight.version,
            status: sight.status,
            asked: waits,
            details: sight.details,
            ..known
        })
    }

    /// Every way in which a cancel without an answer can have taken effect.
    fn cancel_unseen(&self) -> Vec<Known> {
        if self.is_closed() {
            return Vec::new();
        }
        let at_once = hops(self.status, false, Status::Pending).map(|hops| (hops, Status::Cancelled, false));
        let asked = hops(self.status, false, Status::Running).map(|hops| (hops, Status::Running, true));
        [at_once, asked]
            .into_iter()
            .flatten()
            .map(|(hops, status, asked)| self.moved(hops + 1, status, asked))
            .collect()
    }

    /// Every way in which the task can have ended, other than by a cancel.
    fn ended(&self) -> Vec<Known> {
        if self.status.is_terminal() {
            return (self.status != Status::Cancelled).then(|| self.clone()).into_iter().collect();
        }
        [Status::Success, Status::Failed, Status::Skipped]
            .into_iter()
            .filter_map(|end| {
                hops(self.status, self.asked, end).map(|hops| self.moved(hops, end, self.asked))
            })
            .collect()
    }

    /// Every way in which the task can stand right after the report of `attempt` took effect.
    fn report(&self, attempt: u32, ending: Ending) -> Vec<Known> {
        let is_newer = attempt > self.attempt;
        let hops_before = match self.status {
            Status::Running if is_newer && self.asked && self.attempt_exact => return Vec::new(),
            Status::Running if is_newer && self.attempt_exact => 2,
            Status::Running => 0,
            Status::Pending if is_newer => 1,
            _ => return Vec::new(),
        };
        if attempt < self.attempt {
            return Vec::new();
        }
        let after: &[Status] = match (ending, self.asked) {
            (Ending::Succeeded, _) => &[Status::Success],
            (Ending::Unsuccessful | Ending::Returned, true) => &[Status::Cancelled, Status::Failed],
            (Ending::Unsuccessful, false) => &[Status::Pending, Status::Failed],
            (Ending::Returned, false) => &[Status::Pending],
            (Ending::Unclear, true) => &[Status::Success, Status::Cancelled, Status::Failed],
            (Ending::Unclear, false) => &[Status::Success, Status::Pending, Status::Failed],
        };
        let moved = |status: &Status| Known {
            attempt,
            attempt_exact: true,
            ..self.moved(hops_before + 1, *status, self.asked)
        };
        after.iter().map(moved).collect()
    }
}

/// The sequential model of one task.
#[derive(Debug, Clone, Copy, Default)]
pub struct TaskModel;

impl Model for TaskModel {
    type State = State;
    type Op = Op;

    fn initial(&self) -> State {
        State::Absent
    }

    fn step(&self, state: &State, op: &Op) -> Vec<State> {
        let known = match state {
            State::Present(known) => known,
            State::Absent => return of_absent(op),
        };
        let after: Vec<Known> = match op {
            Op::Submit { replayed: false, .. } | Op::SubmitUnknown | Op::Get(None) => Vec::new(),
            Op::Submit { replayed: true, sight } | Op::Get(Some(sight)) => {
                known.observe(sight).into_iter().collect()
            }
            Op::Cancel(Some(sight)) => known.cancel(sight).into_iter().collect(),
            Op::Cancel(None) if known.asked || known.status == Status::Cancelled => vec![known.clone()],
            Op::Cancel(None) | Op::CancelUnknown => known.cancel_unseen(),
            Op::CancelRefused(Some(sight)) => {
                let ended = sight.status.is_terminal() && sight.status != Status::Cancelled;
                known.observe(sight).filter(|_| ended).into_iter().collect()
            }
            Op::CancelRefused(None) => known.ended(),
            Op::Report { attempt, ending } => known.report(*attempt, *ending),
        };
        after.into_iter().map(State::Present).collect()
    }

    /// A read can only pin down what is known, which makes fewer things possible after it.
    fn is_read(&self, op: &Op) -> bool {
        matches!(op, Op::Get(_))
    }
}

/// What can happen to a task that does not exist.
fn of_absent(op: &Op) -> Vec<State> {
    let created = Known::created();
    match op {
        Op::Submit { replayed, sight } => {
            // A replica that lost the leader's answer asks again by itself, so that even a caller's only
            // request can be answered as a repeat. The first answer tells the task as it was created.
            let as_created = sight.version == 1 && sight.status == Status::Pending;
            let known = created.observe(sight).filter(|_| *replayed || as_created);
            known.map(State::Present).into_iter().collect()
        }
        Op::SubmitUnknown => vec![State::Present(created)],
        Op::Get(None) => vec![State::Absent],
        _ => Vec::new(),
    }
}

#[cfg(test)]
#[path = "task_model_tests.rs"]
mod tests;
