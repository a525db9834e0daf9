//! What the parts of a running executor share.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use orloj_wire::clock::Clock;
use orloj_wire::protocol::{AttemptRef, CancelReason, Dispatch, Report, ReportOutcome};
use tokio::sync::{Notify, watch};
use tokio_util::task::TaskTracker;

use crate::attempt;
use crate::book::{Book, Leave, Stop};
use crate::error::Error;
use crate::handler::Handlers;
use crate::journal::Journal;
use crate::leader::LeaderClient;
use crate::ledger::{Record, memory_key};
use crate::log::Log;
use crate::saves::SaveHub;
use crate::stats::Stats;
use crate::sync::lock;

/// Why a running attempt shall stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// As the leader says.
    Leader(CancelReason),
    /// The executor leaves and has waited long enough.
    Leaving,
    /// The executor stops at once.
    Abandoned,
}

impl StopReason {
    /// Whether nobody wants to hear of the attempt.
    pub(crate) fn is_silent(self) -> bool {
        matches!(self, StopReason::Abandoned | StopReason::Leader(CancelReason::LeaseLost))
    }
}

/// An attempt in a slot.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) stop: Arc<watch::Sender<Option<StopReason>>>,
    pub(crate) log: Arc<Log>,
}

impl Live {
    /// The first reason counts, except that a silent one overrides the others.
    pub(crate) fn stop(&self, reason: StopReason) {
        self.stop.send_if_modified(|current| {
            let stronger = current.is_none_or(|current| reason.is_silent() && !current.is_silent());
            if stronger {
                *current = Some(reason);
            }
            stronger
        });
    }
}

/// What does not change.
pub(crate) struct Settings {
    pub(crate) id: String,
    pub(crate) incarnation: u64,
    pub(crate) slots: u32,
    pub(crate) logs: PathBuf,
    pub(crate) log_limit: u64,
    /// Names the processes of this executor's attempts.
    pub(crate) mark: String,
    pub(crate) stop_grace: Duration,
}

/// The shared state. Lock order: book, then live or ledger.
pub(crate) struct Core {
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) handlers: Handlers,
    pub(crate) leader: LeaderClient,
    pub(crate) journal: Journal,
    pub(crate) book: Mutex<Book>,
    pub(crate) live: Mutex<HashMap<AttemptRef, Live>>,
    pub(crate) stats: Mutex<Stats>,
    pub(crate) saves: Arc<SaveHub>,
    /// Attempts that run and reports that are being written.
    pub(crate) tasks: TaskTracker,
    /// There are reports to send.
    pub(crate) outbox: Notify,
    /// A leader is there: reports that wait for their next try need not wait.
    pub(crate) hurry: Notify,
    /// A heartbeat is wanted, now.
    pub(crate) beat: Notify,
    /// Something in the book or the ledger became less.
    pub(crate) changed: watch::Sender<()>,
    /// Why the executor cannot go on.
    pub(crate) fatal: watch::Sender<Option<Error>>,
}

impl Core {
    /// Fills free slots from the queue.
    pub(crate) fn pump(self: &Arc<Self>) {
        let mut book = lock(&self.book);
        while let Some(dispatch) = book.start_next(self.clock.monotonic()) {
            let path = crate::log::log_path(&self.settings.logs, &dispatch.attempt);
            let log = Arc::new(Log::new(path, self.settings.log_limit));
            let live = Live { stop: Arc::new(watch::Sender::new(None)), log };
            // Within the book's lock: what the book calls running can always be stopped.
            lock(&self.live).insert(dispatch.attempt.clone(), live.clone());
            self.tasks.spawn(attempt::run(Arc::clone(self), dispatch, live));
        }
    }

    /// Stops an attempt as the leader wishes. Says whether it was held.
    pub(crate) fn stop(self: &Arc<Self>, attempt: &AttemptRef, reason: CancelReason) -> bool {
        let step = lock(&self.book).stop(attempt, reason);
        match step {
            Stop::NotHeld => return false,
            Stop::Over => {}
            Stop::Running => {
                if let Some(live) = lock(&self.live).get(attempt) {
                    live.stop(StopReason::Leader(reason));
                }
            }
            Stop::Unstarted(dispatch) => {
                let outcome = match reason {
                    CancelReason::Cancelled => Some(ReportOutcome::Cancelled),
                    CancelReason::TimedOut => Some(ReportOutcome::TimedOut),
                    CancelReason::LeaseLost => None,
                };
                if let Some(outcome) = outcome {
                    self.report_unstarted(&dispatch, outcome, "it was stopped before it had started");
                }
                self.pump();
                self.changed.send_replace(());
            }
        }
        true
    }

    /// Stops everything that runs.
    pub(crate) fn stop_all(&self, reason: StopReason) {
        lock(&self.live).values().for_each(|live| live.stop(reason));
    }

    /// Writes the report of an attempt that was never run; the book holds it as reporting.
    pub(crate) fn report_unstarted(self: &Arc<Self>, dispatch: &Dispatch, outcome: ReportOutcome, why: &str) {
        let report =
            Report { outcome, message: Some(why.to_owned()), ..self.blank_report(&dispatch.attempt) };
        self.write_report(report);
    }

    /// Answers an attempt from the memory of outcomes; the book holds it as reporting.
    pub(crate) fn report_remembered(self: &Arc<Self>, dispatch: &Dispatch) {
        match self.remembered(dispatch) {
            Some(report) => self.write_report(report),
            // Its window ended just now. Handing it back is always right.
            None => {
                self.report_unstarted(dispatch, ReportOutcome::Returned, "its remembered outcome has expired")
            }
        }
    }

    /// Whether the memory of outcomes answers an attempt.
    pub(crate) fn remembers(&self, dispatch: &Dispatch) -> bool {
        let ledger = lock(self.journal.ledger());
        ledger.remembered(&memory_key(dispatch), self.clock.monotonic()).is_some()
    }

    /// The report that the memory of outcomes gives, if it does.
    pub(crate) fn remembered(&self, dispatch: &Dispatch) -> Option<Report> {
        let ledger = lock(self.journal.ledger());
        let outcome = ledger.remembered(&memory_key(dispatch), self.clock.monotonic())?;
        let ran = &outcome.attempt;
        let message = format!(
            "answered from memory: this work succeeded here as attempt {} of task {}, fence {}",
            ran.attempt, ran.task_id, ran.fence
        );
        let blank = self.blank_report(&dispatch.attempt);
        Some(Report { result: outcome.result.clone(), message: Some(message), ..blank })
    }

    /// A success that ended now and has nothing to say.
    pub(crate) fn blank_report(&self, attempt: &AttemptRef) -> Report {
        Report {
            attempt: attempt.clone(),
            incarnation: self.settings.incarnation,
            outcome: ReportOutcome::Succeeded,
            retryable: true,
            retry_after_ms: None,
            message: None,
            result: None,
            log_tail: None,
            started_at: None,
            ended_at: self.clock.wall_ms(),
        }
    }

    fn write_report(self: &Arc<Self>, report: Report) {
        let core = Arc::clone(self);
        self.tasks.spawn(async move {
            let record = Record::Ended { report: Box::new(report), memory: None };
            // A journal that is gone has stopped the executor; there is nothing to add.
            if core.journal.append(record).await.is_ok() {
                core.outbox.notify_one();
            }
        });
    }

    /// A slot's attempt is over, with its report on disk or without one.
    pub(crate) fn leave_slot(self: &Arc<Self>, attempt: &AttemptRef, leave: Leave) {
        let mut book = lock(&self.book);
        let before = (book.free_slots(), book.free_places());
        book.finish(attempt, leave);
        drop(book);
        if leave == Leave::Report {
            // The report may have been acknowledged before the book knew that it was written.
            if !lock(self.journal.ledger()).waits(attempt) {
                lock(&self.book).reported(attempt);
            }
            self.outbox.notify_one();
        }
        self.pump();
        if lock(&self.book).room_since(before) {
            self.beat.notify_one();
        }
        self.changed.send_replace(());
    }

    /// Sees a round from an authenticated leader: Err is the higher one that was seen before. When this
    /// returns Ok, the round is on disk.
    pub(crate) async fn see_round(&self, round: u64) -> Result<(), RoundError> {
        lock(&self.book).see_round(round).map_err(RoundError::Stale)?;
        if lock(self.journal.ledger()).round() < round {
            self.journal.append(Record::Round(round)).await.map_err(|_| RoundError::Stopping)?;
        }
        Ok(())
    }

    /// What to say when the journal's writer is gone and has not said why.
    pub(crate) fn journal_gone(&self) -> Error {
        let cause = "its writer has broken off".to_owned();
        Error::Disk { action: "writing", path: self.journal.dir().to_owned(), cause }
    }

    /// The executor cannot go on; the first reason counts.
    pub(crate) fn fail(&self, error: Error) {
        self.fatal.send_if_modified(|fatal| {
            let first = fatal.is_none();
            if first {
                *fatal = Some(error);
            }
            first
        });
    }
}

/// Why a round was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoundError {
    /// It is older than this one.
    Stale(u64),
    /// The journal is gone.
    Stopping,
}
