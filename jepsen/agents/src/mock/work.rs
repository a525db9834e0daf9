//! What a mock executor does with the attempts that it holds: starts them, lets them work, stops and ends them.

use orloj_jepsen_core::event::{AttemptAt, Finish, What};
use orloj_wire::protocol::{AttemptRef, CancelReason, Dispatch, Report, ReportOutcome};

use super::book::{Entry, Key, Run, Standing, key};
use super::{Mock, Outcome, Unsaid, grant};
use crate::digest::digest_text;
use crate::{NS_PER_MS, Now};

/// How long a success answers later attempts of the same work, in ms.
const REMEMBERED_MS: u64 = 300_000;
/// A handler that is told to stop has stopped within so many ms.
const STOP_MS: u64 = 30;

/// How a running attempt ends.
struct Ending {
    outcome: Option<ReportOutcome>,
    retryable: bool,
}

impl Mock {
    /// Puts attempts from the queue into free slots. What has succeeded here before is over at once.
    pub(super) fn fill_slots(&mut self, now: Now) {
        while let Some(next) = self.book.next(self.profile.slots as usize) {
            let Some(entry) = self.book.entry(&next) else { continue };
            if let Some(known) = self.memory.outcomes.get(&work_key(&entry.dispatch))
                && known.until_ns > now.mono_ns
            {
                let result = known.result.clone();
                self.finish(now, &next, ReportOutcome::Succeeded, true, Some(result));
                continue;
            }
            let attempt = entry.dispatch.attempt.clone();
            let hung = self.rng.chance(self.vices.hang);
            let run = Run { since_ns: now.mono_ns, started_at: now.wall_ms, hung, stop: None };
            self.book.run(&next, run);
            let started = AttemptAt {
                grant: grant(&attempt),
                executor: self.profile.id.clone(),
                incarnation: self.incarnation,
                wall_ms: now.wall_ms,
            };
            self.note(now, Some(&attempt.task_id), What::Start(started));
        }
    }

    /// Stops an attempt, wherever it stands.
    pub(super) fn stop(&mut self, now: Now, attempt: &AttemptRef, reason: CancelReason) {
        let key = key(attempt);
        let Some(entry) = self.book.entry(&key) else {
            self.book.give_up(key);
            return;
        };
        match entry.standing {
            Standing::Reporting => {}
            Standing::Running(_) => {
                let takes = self.rng.between(0, STOP_MS);
                self.book.stop_run(&key, reason, now.in_ms(takes));
            }
            Standing::Queued => match reported(reason) {
                Some(outcome) => self.finish(now, &key, outcome, true, None),
                None => self.drop_silently(now, &key),
            },
        }
    }

    /// Ends what is due to end, the earliest first; each freed slot takes the next attempt.
    pub(super) fn end_due(&mut self, now: Now) {
        loop {
            let due = self.book.runs().filter_map(|(key, entry, run)| Some((ends_at(entry, run)?, key)));
            let Some((at, key)) = due.min() else { return };
            if at > now.mono_ns {
                return;
            }
            let key = key.clone();
            let Some(ending) = self.book.entry(&key).and_then(|entry| ending(entry, at)) else { return };
            match ending.outcome {
                Some(outcome) => self.finish(now, &key, outcome, ending.retryable, None),
                None => self.drop_silently(now, &key),
            }
            self.fill_slots(now);
        }
    }

    /// When the next attempt ends by itself or because it was stopped, in ns.
    pub(super) fn next_end(&self) -> Option<u64> {
        self.book.runs().filter_map(|(_, entry, run)| ends_at(entry, run)).min()
    }

    /// A full executor that has room again says so at once.
    fn has_room(&mut self, now: Now) {
        let room = self.free_slots() > 0 && self.free_places() > 0;
        self.duties.room(now.mono_ns, room);
    }

    fn drop_silently(&mut self, now: Now, key: &Key) {
        let Some(entry) = self.book.entry(key) else { return };
        let attempt = entry.dispatch.attempt.clone();
        self.note_end(now, &attempt, "dropped");
        self.book.end(key, false);
        self.has_room(now);
    }

    /// Ends an attempt and writes its report. `remembered` is the result of an earlier attempt that answers for
    /// it.
    pub(super) fn finish(
        &mut self,
        now: Now,
        key: &Key,
        outcome: ReportOutcome,
        retryable: bool,
        remembered: Option<Option<String>>,
    ) {
        let Some(Entry { dispatch, work, standing }) = self.book.entry(key).cloned() else { return };
        let started_at = match &standing {
            Standing::Running(run) => Some(run.started_at),
            Standing::Queued | Standing::Reporting => None,
        };
        let attempt = dispatch.attempt.clone();
        let succeeded = outcome == ReportOutcome::Succeeded;
        let own = || work.result(attempt.attempt, attempt.shard_index).to_string();
        let result = remembered.unwrap_or_else(|| succeeded.then(own));
        if succeeded && started_at.is_some() {
            let until_ns = now.in_ms(REMEMBERED_MS);
            let outcomes = &mut self.memory.outcomes;
            if outcomes.len().is_multiple_of(1_024) {
                outcomes.retain(|_, outcome| outcome.until_ns > now.mono_ns);
            }
            outcomes.insert(work_key(&dispatch), Outcome { result: result.clone(), until_ns });
        }
        let failed = outcome == ReportOutcome::Failed;
        let report = Report {
            attempt,
            incarnation: self.incarnation,
            outcome,
            retryable,
            retry_after_ms: work.retry_after_ms.filter(|_| failed && retryable),
            message: failed.then(|| "it failed as it was asked to".to_owned()),
            result,
            log_tail: None,
            started_at,
            ended_at: now.wall_ms,
        };
        let told = self.told(&report);
        self.note(now, Some(&report.attempt.task_id), What::Finish(told));
        self.book.end(key, true);
        let late = self.rng.chance(self.vices.report_late);
        let not_before = now.in_ms(if late { self.vices.report_late_ms } else { 0 });
        self.memory.unsaid.push_back(Unsaid { report, not_before, refused: false });
        self.has_room(now);
    }

    /// A report as the history tells it.
    pub(super) fn told(&self, report: &Report) -> Finish {
        Finish {
            grant: grant(&report.attempt),
            executor: self.profile.id.clone(),
            incarnation: report.incarnation,
            outcome: outcome_name(&report.outcome).to_owned(),
            retryable: report.retryable,
            retry_after_ms: report.retry_after_ms,
            result_digest: report.result.as_deref().map(digest_text),
        }
    }
}

/// Names the work of an attempt for the memory of outcomes.
fn work_key(dispatch: &Dispatch) -> (String, String, u16) {
    (dispatch.caller_id.clone(), dispatch.dedupe_key.clone(), dispatch.attempt.shard_index)
}

/// When a running attempt ends, in ns; none when it does not by itself.
fn ends_at(entry: &Entry, run: &Run) -> Option<u64> {
    if let Some((_, at)) = run.stop {
        return Some(at);
    }
    if run.hung {
        return None;
    }
    let after = |ms: u64| run.since_ns.saturating_add(ms.saturating_mul(NS_PER_MS));
    let done = entry.work.behaviour.end(entry.dispatch.attempt.attempt).map(|_| after(entry.work.work_ms));
    let timeout = entry.dispatch.timeout_ms.map(after);
    done.into_iter().chain(timeout).min()
}

/// How a running attempt ends at that instant.
fn ending(entry: &Entry, at: u64) -> Option<Ending> {
    let Standing::Running(run) = &entry.standing else { return None };
    if let Some((reason, _)) = run.stop {
        return Some(Ending { outcome: reported(reason), retryable: true });
    }
    let worked_ms = at.saturating_sub(run.since_ns) / NS_PER_MS;
    let end = entry.work.behaviour.end(entry.dispatch.attempt.attempt);
    Some(match end {
        Some(end) if worked_ms >= entry.work.work_ms => {
            Ending { outcome: Some(end.outcome), retryable: end.retryable }
        }
        _ => Ending { outcome: Some(ReportOutcome::TimedOut), retryable: true },
    })
}

/// What is reported of an attempt that was stopped; nothing when its lease is over.
fn reported(reason: CancelReason) -> Option<ReportOutcome> {
    match reason {
        CancelReason::Cancelled => Some(ReportOutcome::Cancelled),
        CancelReason::TimedOut => Some(ReportOutcome::TimedOut),
        CancelReason::LeaseLost => None,
    }
}

fn outcome_name(outcome: &ReportOutcome) -> &'static str {
    match outcome {
        ReportOutcome::Succeeded => "succeeded",
        ReportOutcome::Failed => "failed",
        ReportOutcome::TimedOut => "timedOut",
        ReportOutcome::Cancelled => "cancelled",
        ReportOutcome::Returned => "returned",
    }
}
