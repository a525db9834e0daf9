//! Brings reports to the leader: in order, in batches, one in flight, until each is acknowledged or refused for good.

use std::sync::Arc;
use std::time::Duration;

use orloj_wire::protocol::{AttemptRef, Report, ReportOutcome, Reports, ReportsAck};
use tokio::time::sleep;

use crate::attempt::MESSAGE_LIMIT;
use crate::backoff::Backoff;
use crate::core::Core;
use crate::journal::Gone;
use crate::leader::CallError;
use crate::ledger::Record;
use crate::sync::lock;
use crate::text::cut;

const PATH: &str = "/internal/v1/executors/report";
/// Most reports of one batch.
const BATCH: usize = 256;
/// Most bytes of one batch; a single report may be bigger.
const BATCH_BYTES: usize = 448 << 10;
/// How the message of a report begins that is told in place of a refused one.
const REFUSED: &str = "report_refused: ";

/// Sends for ever; ends when the journal is gone, which stops the executor.
pub(crate) async fn run(core: Arc<Core>) {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
    let mut most = BATCH;
    loop {
        let batch = lock(core.journal.ledger()).batch(most, BATCH_BYTES);
        if batch.is_empty() {
            core.outbox.notified().await;
            continue;
        }
        let error = match send(&core, &batch).await {
            Ok(()) => {
                backoff.reset();
                most = BATCH;
                continue;
            }
            Err(error) => error,
        };
        match (&error, &batch[..]) {
            (CallError::Refused { status: status @ (400 | 413 | 422), detail }, [refused]) => {
                if settle(&core, refused, *status, detail).await.is_err() {
                    return;
                }
                backoff.reset();
            }
            // One of them is to blame, and must not hold up the others: they go one by one.
            (CallError::Refused { status: 400 | 413 | 422, .. }, _) => most = 1,
            _ => {
                tracing::warn!(reports = batch.len(), cause = %error, "reports are not delivered yet");
                let delay = backoff.next();
                tokio::select! {
                    () = sleep(delay) => {}
                    () = core.hurry.notified() => {}
                }
            }
        }
    }
}

/// The leader refuses a report by itself, and would refuse it again: its attempt must end all the same. Tells the end
/// without what may have been refused; of one that says no more than that, nothing is told any more.
async fn settle(core: &Arc<Core>, refused: &Report, status: u16, detail: &str) -> Result<(), Gone> {
    let attempt = &refused.attempt;
    let told_anew = match reduced(refused, status, detail) {
        Some(report) => {
            tracing::error!(?attempt, status, detail, "a report is refused; its end alone is told instead");
            core.journal.append(Record::Ended { report: Box::new(report), memory: None }).await
        }
        None => {
            tracing::error!(
                ?attempt,
                status,
                detail,
                "the end of an attempt is refused; it is not told again"
            );
            forget(core, vec![attempt.clone()]);
            lock(&core.book).unreportable(attempt);
            Ok(())
        }
    };
    core.changed.send_replace(());
    told_anew
}

/// What is told in place of a refused report; `None` where that is in place of another already. A success whose result
/// cannot be told is none.
fn reduced(refused: &Report, status: u16, detail: &str) -> Option<Report> {
    let bare = refused.result.is_none() && refused.log_tail.is_none();
    let said = refused.message.as_deref().unwrap_or_default();
    if bare && said.starts_with(REFUSED) {
        return None;
    }
    let succeeded = refused.outcome == ReportOutcome::Succeeded;
    let outcome = if succeeded { ReportOutcome::Failed } else { refused.outcome.clone() };
    let sizes = format!(
        "result of {} bytes, message of {}, log tail of {}",
        refused.result.as_ref().map_or(0, String::len),
        said.len(),
        refused.log_tail.as_ref().map_or(0, Vec::len),
    );
    let handler = if succeeded { "the handler succeeded, but its" } else { "the" };
    let message = format!("{REFUSED}{handler} report ({sizes}) was refused with status {status}: {detail}");
    Some(Report {
        outcome,
        retryable: refused.retryable && !succeeded,
        retry_after_ms: None,
        message: Some(cut(&message, MESSAGE_LIMIT).to_owned()),
        result: None,
        log_tail: None,
        ..refused.clone()
    })
}

async fn send(core: &Core, batch: &[Arc<Report>]) -> Result<(), CallError> {
    let reports: Vec<&Report> = batch.iter().map(|report| &**report).collect();
    let body = Reports { executor_id: core.settings.id.clone(), reports };
    let ack: ReportsAck = core.leader.post(PATH, &body).await?;
    if ack.verdicts.len() != batch.len() {
        let problem = format!("{} verdicts for {} reports", ack.verdicts.len(), batch.len());
        return Err(CallError::Unanswered(problem));
    }
    forget(core, batch.iter().map(|report| report.attempt.clone()).collect());
    let mut book = lock(&core.book);
    batch.iter().for_each(|report| book.reported(&report.attempt));
    drop(book);
    core.changed.send_replace(());
    Ok(())
}

/// Nothing of these attempts is to be told any more.
fn forget(core: &Core, attempts: Vec<AttemptRef>) {
    let mut ledger = lock(core.journal.ledger());
    attempts.iter().for_each(|attempt| ledger.acknowledge(attempt));
    drop(ledger);
    core.journal.later(Record::Acknowledged(attempts));
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn report(outcome: ReportOutcome) -> Report {
        let attempt = AttemptRef { task_id: "t".to_owned(), shard_index: 0, attempt: 1, fence: 7 };
        Report {
            attempt,
            incarnation: 1,
            outcome,
            retryable: true,
            retry_after_ms: Some(5),
            message: None,
            result: Some("\"r\"".to_owned()),
            log_tail: Some(vec![0xff]),
            started_at: Some(3),
            ended_at: 4,
        }
    }

    #[test]
    fn b73_what_is_told_in_place_of_a_refused_report_is_the_end_and_why() {
        use ReportOutcome::{Cancelled, Failed, Returned, Succeeded, TimedOut};
        for (outcome, told) in [
            (Succeeded, Failed),
            (Failed, Failed),
            (TimedOut, TimedOut),
            (Cancelled, Cancelled),
            (Returned, Returned),
        ] {
            let succeeded = outcome == Succeeded;
            let instead = reduced(&report(outcome), 422, &"é".repeat(9_000)).unwrap();
            assert_eq!((&instead.outcome, instead.retryable), (&told, !succeeded));
            assert_eq!((&instead.attempt, instead.incarnation), (&report(told).attempt, 1));
            assert_eq!((instead.started_at, instead.ended_at, instead.retry_after_ms), (Some(3), 4, None));
            assert_eq!((&instead.result, &instead.log_tail), (&None, &None));
            let message = instead.message.clone().unwrap();
            assert!(message.len() <= MESSAGE_LIMIT && message.starts_with("report_refused: "), "{message}");
            assert!(message.contains("status 422") && message.contains("result of 3 bytes"), "{message}");
            assert_eq!(reduced(&instead, 422, ""), None, "there is no less to say");
        }
    }
}
