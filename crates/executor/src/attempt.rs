//! One attempt in its slot: runs the handler, stops it when told, writes down how it ended.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use orloj_wire::protocol::{CancelReason, Dispatch, Report, ReportOutcome};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::book::Leave;
use crate::context::{AttemptContext, ContextParts};
use crate::core::{Core, Live, StopReason};
use crate::handler::{DynHandler, HandlerError, HandlerOutput};
use crate::ledger::{Record, memory_key};
use crate::sync::lock;
use crate::text::cut;

/// Longest result, in bytes of JSON.
const RESULT_LIMIT: usize = 64 << 10;
/// Longest message, in bytes.
pub(crate) const MESSAGE_LIMIT: usize = 4 << 10;
/// How often a handler that does not stop is complained about.
const COMPLAIN_EVERY: Duration = Duration::from_secs(30);

type HandlerResult = Result<HandlerOutput, HandlerError>;

/// How a handler left its slot.
#[derive(Debug)]
enum End {
    Returned(HandlerResult),
    Panicked(String),
    Stopped(StopReason),
}

/// Runs an attempt that the book has put into a slot, to its end.
pub(crate) async fn run(core: Arc<Core>, dispatch: Arc<Dispatch>, live: Live) {
    let attempt = &dispatch.attempt;
    let span = tracing::info_span!("attempt", task_id = %attempt.task_id, shard = attempt.shard_index,
        attempt = attempt.attempt, fence = attempt.fence, handler = %dispatch.handler);
    let report = drive(&core, &dispatch, &live).instrument(span).await;
    live.log.complete();
    core.saves.close(attempt);
    lock(&core.live).remove(attempt);
    let Some(report) = report else {
        core.leave_slot(attempt, Leave::Forget);
        return;
    };
    let ran = report.started_at.is_some();
    let memory = (ran && report.outcome == ReportOutcome::Succeeded).then(|| memory_key(&dispatch));
    let record = Record::Ended { report: Box::new(report), memory };
    // When the journal is gone the executor is stopping: the attempt stays held and unreported.
    if core.journal.append(record).await.is_ok() {
        core.leave_slot(attempt, Leave::Report);
    }
}

async fn drive(core: &Arc<Core>, dispatch: &Arc<Dispatch>, live: &Live) -> Option<Report> {
    // The same work may have succeeded here while this attempt was in the queue.
    if let Some(report) = core.remembered(dispatch) {
        return Some(report);
    }
    // The intake has checked the name, and handlers do not change.
    let Some(handler) = core.handlers.get(&dispatch.handler) else {
        return Some(Report { outcome: ReportOutcome::Returned, ..core.blank_report(&dispatch.attempt) });
    };
    lock(&core.stats).started(&dispatch.handler);
    core.saves.open(&dispatch.attempt);
    let (started_at, started) = (core.clock.wall_ms(), core.clock.monotonic());
    let end = execute(core, dispatch, live, handler).await;
    let ms = core.clock.monotonic().saturating_sub(started).as_millis();
    let report = describe(core, dispatch, live, end, started_at);
    let failed = report
        .as_ref()
        .is_some_and(|report| matches!(report.outcome, ReportOutcome::Failed | ReportOutcome::TimedOut));
    lock(&core.stats).ended(&dispatch.handler, failed, u64::try_from(ms).unwrap_or(u64::MAX));
    tracing::debug!(outcome = ?report.as_ref().map(|report| &report.outcome), ms, "over");
    report
}

async fn execute(
    core: &Arc<Core>,
    dispatch: &Arc<Dispatch>,
    live: &Live,
    handler: Arc<dyn DynHandler>,
) -> End {
    let allowed = dispatch.timeout_ms.map(Duration::from_millis);
    let cancel = CancellationToken::new();
    let attempt = &dispatch.attempt;
    let context = AttemptContext::new(ContextParts {
        dispatch: Arc::clone(dispatch),
        cancel: cancel.clone(),
        log: Arc::clone(&live.log),
        saves: Arc::clone(&core.saves),
        clock: Arc::clone(&core.clock),
        deadline: allowed.map(|allowed| core.clock.monotonic() + allowed),
        mark: format!("{}.{}.{}.{}", core.settings.mark, attempt.task_id, attempt.shard_index, attempt.fence),
    });
    let grace = handler.grace().unwrap_or(core.settings.stop_grace);
    // A task of its own, so that a panic or an abort of the handler cannot harm the slot.
    let work = async move { handler.run_boxed(context).await }.in_current_span();
    let mut running = tokio::spawn(work);
    let mut stops = live.stop.subscribe();
    let timed_out = async {
        match allowed {
            Some(allowed) => sleep(allowed).await,
            None => std::future::pending().await,
        }
    };
    let reason = tokio::select! {
        biased;
        result = &mut running => return returned(result),
        reason = stopped(&mut stops) => reason,
        () = timed_out => StopReason::Leader(CancelReason::TimedOut),
    };
    tracing::info!(?reason, "stopping");
    cancel.cancel();
    let grace = if reason == StopReason::Abandoned { Duration::ZERO } else { grace };
    halt(&mut running, grace).await;
    // A lease that was lost meanwhile silences the report.
    let later = *stops.borrow();
    End::Stopped(later.filter(|later| later.is_silent()).unwrap_or(reason))
}

/// Waits until the handler has really stopped: by itself within the grace, else by an abort. One that never
/// awaits cannot be aborted; its slot stays taken, since reporting it as stopped would be a lie.
async fn halt(running: &mut JoinHandle<HandlerResult>, grace: Duration) {
    if timeout(grace, &mut *running).await.is_ok() {
        return;
    }
    running.abort();
    while timeout(COMPLAIN_EVERY, &mut *running).await.is_err() {
        tracing::error!("the handler does not stop: it blocks its thread; its slot stays taken");
    }
}

async fn stopped(stops: &mut watch::Receiver<Option<StopReason>>) -> StopReason {
    let reason = stops.wait_for(Option::is_some).await.map(|reason| *reason);
    match reason {
        Ok(reason) => reason.unwrap_or(StopReason::Abandoned),
        // The sender lives as long as the attempt.
        Err(_) => std::future::pending().await,
    }
}

fn returned(result: Result<HandlerResult, JoinError>) -> End {
    match result {
        Ok(result) => End::Returned(result),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => End::Panicked(panic_text(&*panic)),
            // Nobody else aborts it: the runtime is going down.
            Err(_) => End::Stopped(StopReason::Abandoned),
        },
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// The report of an end, or none when nobody wants one.
fn describe(core: &Core, dispatch: &Dispatch, live: &Live, end: End, started_at: i64) -> Option<Report> {
    let failed = |message: String, retryable: bool, retry_after: Option<Duration>| Report {
        outcome: ReportOutcome::Failed,
        message: Some(message),
        retryable,
        retry_after_ms: retry_after.map(|delay| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)),
        ..core.blank_report(&dispatch.attempt)
    };
    let stopped = |outcome| Report { outcome, ..core.blank_report(&dispatch.attempt) };
    let report = match end {
        End::Returned(Ok(output)) => match result_text(&output) {
            Ok(result) => Report { result, ..core.blank_report(&dispatch.attempt) },
            Err(message) => failed(message, false, None),
        },
        End::Returned(Err(error)) => failed(error.message, error.retryable, error.retry_after),
        End::Panicked(text) => failed(format!("the handler panicked: {text}"), true, None),
        End::Stopped(reason) if reason.is_silent() => return None,
        End::Stopped(StopReason::Leader(CancelReason::Cancelled)) => stopped(ReportOutcome::Cancelled),
        End::Stopped(StopReason::Leader(CancelReason::TimedOut)) => {
            let allowed = dispatch.timeout_ms.map(|ms| format!("it ran for longer than {ms} ms"));
            Report { message: allowed, ..stopped(ReportOutcome::TimedOut) }
        }
        End::Stopped(_) => failed("it was stopped because its executor is leaving".to_owned(), true, None),
    };
    let tail = live.log.tail();
    Some(Report {
        message: report.message.map(|message| cut(&message, MESSAGE_LIMIT).to_owned()),
        log_tail: (!tail.is_empty()).then_some(tail),
        started_at: Some(started_at),
        ..report
    })
}

fn result_text(output: &HandlerOutput) -> Result<Option<String>, String> {
    let Some(result) = &output.result else { return Ok(None) };
    let text = result.to_string();
    if text.len() > RESULT_LIMIT {
        return Err(format!(
            "the result has {} bytes as JSON; at most {RESULT_LIMIT} are allowed",
            text.len()
        ));
    }
    Ok(Some(text))
}
