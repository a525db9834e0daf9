//! Brings progress and checkpoints to the leader, one batch in flight.

use std::sync::Arc;
use std::time::Duration;

use orloj_wire::protocol::{CancelReason, Saves, SavesAck};
use tokio::time::sleep;

use crate::backoff::Backoff;
use crate::core::Core;
use crate::leader::CallError;
use crate::saves::Sending;
use crate::sync::lock;

const PATH: &str = "/internal/v1/executors/save";
/// The status with which a leader answers who has not heard of its round yet.
const EARLIER_ROUND: u16 = 409;

/// Sends for ever.
pub(crate) async fn run(core: Arc<Core>) {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
    loop {
        let now = core.clock.monotonic();
        let due = core.saves.due(now);
        if due.batch.is_empty() {
            let quiet = due.next.map(|next| next.saturating_sub(now));
            tokio::select! {
                () = core.saves.woken() => {}
                () = rest(quiet) => {}
            }
            continue;
        }
        match send(&core, &due.batch).await {
            Ok(taken) => {
                backoff.reset();
                for attempt in core.saves.sent(due.batch, &taken) {
                    tracing::warn!(task_id = %attempt.task_id, fence = attempt.fence, "its lease is over");
                    core.stop(&attempt, CancelReason::LeaseLost);
                }
            }
            Err(CallError::Refused { status: EARLIER_ROUND, detail }) => {
                tracing::debug!(saves = due.batch.len(), %detail, "saves wait for the leader's round");
                core.saves.put_back(due.batch);
                // Its answer to a heartbeat tells it.
                core.beat.notify_one();
                sleep(backoff.next()).await;
            }
            Err(error) => {
                tracing::warn!(saves = due.batch.len(), cause = %error, "saves are not delivered yet");
                core.saves.put_back(due.batch);
                sleep(backoff.next()).await;
            }
        }
    }
}

async fn rest(quiet: Option<Duration>) {
    match quiet {
        Some(quiet) => sleep(quiet).await,
        None => std::future::pending().await,
    }
}

async fn send(core: &Core, batch: &[Sending]) -> Result<Vec<bool>, CallError> {
    let saves: Vec<_> = batch.iter().map(|sending| sending.save.clone()).collect();
    let round = lock(&core.book).round();
    let body = Saves { executor_id: core.settings.id.clone(), round, saves };
    let ack: SavesAck = core.leader.post(PATH, &body).await?;
    if ack.taken.len() == batch.len() {
        return Ok(ack.taken);
    }
    Err(CallError::Unanswered(format!("{} answers for {} saves", ack.taken.len(), batch.len())))
}
