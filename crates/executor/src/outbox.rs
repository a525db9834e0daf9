//! Brings reports to the leader: in order, in batches, one in flight, until each is acknowledged.

use std::sync::Arc;
use std::time::Duration;

use orloj_wire::protocol::{Report, Reports, ReportsAck};
use tokio::time::sleep;

use crate::backoff::Backoff;
use crate::core::Core;
use crate::leader::CallError;
use crate::ledger::Record;
use crate::sync::lock;

const PATH: &str = "/internal/v1/executors/report";
/// Most reports of one batch.
const BATCH: usize = 256;
/// Most bytes of one batch; a single report may be bigger.
const BATCH_BYTES: usize = 448 << 10;

/// Where the sender is in the list of undelivered reports.
struct Cursor {
    after: u64,
    most: usize,
}

/// Sends for ever.
pub(crate) async fn run(core: Arc<Core>) {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
    let mut cursor = Cursor { after: 0, most: BATCH };
    loop {
        let batch = lock(core.journal.ledger()).batch(cursor.after, cursor.most, BATCH_BYTES);
        if batch.is_empty() {
            if cursor.after > 0 {
                cursor.after = 0;
            } else {
                core.outbox.notified().await;
            }
            continue;
        }
        match send(&core, &batch).await {
            Ok(()) => {
                backoff.reset();
                cursor = Cursor { after: cursor.after, most: BATCH };
            }
            Err(error) => {
                tracing::warn!(reports = batch.len(), cause = %error, "reports are not delivered yet");
                let before = cursor.after;
                cursor = cursor.after_failure(&error, &batch);
                if cursor.after > before {
                    lock(core.journal.ledger()).refuse(cursor.after);
                    core.changed.send_replace(());
                }
                let delay = backoff.next();
                tokio::select! {
                    () = sleep(delay) => {}
                    () = core.hurry.notified() => {}
                }
            }
        }
    }
}

impl Cursor {
    /// A report that the leader refuses by itself must not hold up the others: after a refused batch they
    /// go one by one, and a refused one is passed over until the next round.
    fn after_failure(self, error: &CallError, batch: &[(u64, Arc<Report>)]) -> Cursor {
        match (error, batch) {
            (CallError::Refused { status: 400 | 413 | 422, .. }, [(number, _)]) => {
                Cursor { after: *number, most: 1 }
            }
            (CallError::Refused { status: 400 | 413 | 422, .. }, _) => Cursor { most: 1, ..self },
            _ => self,
        }
    }
}

async fn send(core: &Core, batch: &[(u64, Arc<Report>)]) -> Result<(), CallError> {
    let reports: Vec<Report> = batch.iter().map(|(_, report)| Report::clone(report)).collect();
    let body = Reports { executor_id: core.settings.id.clone(), reports };
    let ack: ReportsAck = core.leader.post(PATH, &body).await?;
    if ack.verdicts.len() != batch.len() {
        let problem = format!("{} verdicts for {} reports", ack.verdicts.len(), batch.len());
        return Err(CallError::Unanswered(problem));
    }
    let attempts: Vec<_> = body.reports.into_iter().map(|report| report.attempt).collect();
    let mut ledger = lock(core.journal.ledger());
    attempts.iter().for_each(|attempt| ledger.acknowledge(attempt));
    drop(ledger);
    let mut book = lock(&core.book);
    attempts.iter().for_each(|attempt| book.reported(attempt));
    drop(book);
    core.journal.later(Record::Acknowledged(attempts));
    core.changed.send_replace(());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_refused_report_does_not_hold_up_the_others() {
        let report = |number| {
            let attempt = orloj_wire::protocol::AttemptRef {
                task_id: "t".to_owned(),
                shard_index: 0,
                attempt: 1,
                fence: number,
            };
            let outcome = orloj_wire::protocol::ReportOutcome::Succeeded;
            let report = Report {
                attempt,
                incarnation: 1,
                outcome,
                retryable: true,
                retry_after_ms: None,
                message: None,
                result: None,
                log_tail: None,
                started_at: None,
                ended_at: 0,
            };
            (number, Arc::new(report))
        };
        let refused = CallError::Refused { status: 400, detail: String::new() };
        let cursor = Cursor { after: 0, most: BATCH }.after_failure(&refused, &[report(3), report(4)]);
        assert_eq!((cursor.after, cursor.most), (0, 1));
        let cursor = cursor.after_failure(&refused, &[report(3)]);
        assert_eq!((cursor.after, cursor.most), (3, 1));
        let away = CallError::Unanswered(String::new());
        let cursor = Cursor { after: 0, most: BATCH }.after_failure(&away, &[report(3)]);
        assert_eq!((cursor.after, cursor.most), (0, BATCH), "an absent leader refuses nothing");
    }
}
