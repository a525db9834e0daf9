//! Leaving in order.

use std::sync::Arc;
use std::time::Duration;

use orloj_wire::protocol::ReportOutcome;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::core::{Core, StopReason};
use crate::presence;
use crate::sync::lock;

/// How long stopped handlers may take to end, beyond their own grace.
const STOP_PATIENCE: Duration = Duration::from_secs(30);
/// How long undelivered reports are tried before they are left to the next life.
const REPORT_PATIENCE: Duration = Duration::from_secs(10);

/// Drains. `present` stops the heartbeats, so that none comes after the goodbye.
pub(crate) async fn run(core: &Arc<Core>, present: &CancellationToken, patience: Duration) {
    let unstarted = lock(&core.book).drain();
    tracing::info!(handed_back = unstarted.len(), "draining");
    for dispatch in &unstarted {
        core.report_unstarted(dispatch, ReportOutcome::Returned, "the executor is leaving");
    }
    // The leader learns at once that nothing is taken any more.
    core.beat.notify_one();
    if !until(core, patience, |core| lock(&core.book).running() == 0).await {
        tracing::warn!("handlers are still running; they are stopped");
        core.stop_all(StopReason::Leaving);
        if !until(core, STOP_PATIENCE, |core| lock(&core.book).running() == 0).await {
            tracing::error!("handlers do not stop");
        }
    }
    // Reports that are being written are part of the tasks.
    core.tasks.close();
    let _ = timeout(STOP_PATIENCE, core.tasks.wait()).await;
    if !until(core, REPORT_PATIENCE, |core| lock(core.journal.ledger()).waiting() == 0).await {
        tracing::warn!("reports are left for the next life");
    }
    present.cancel();
    if let Err(error) = presence::leave(core).await {
        tracing::warn!(cause = %error, "the goodbye was not answered");
    }
}

/// Waits until a condition holds that becomes true only with a change. Says whether it does.
async fn until(core: &Core, patience: Duration, holds: impl Fn(&Core) -> bool) -> bool {
    let mut changed = core.changed.subscribe();
    let wait = async {
        while !holds(core) {
            if changed.changed().await.is_err() {
                return;
            }
        }
    };
    timeout(patience, wait).await.is_ok()
}
