//! Makes the executor known to the leader: undelivered reports first, then the registration, then heartbeats.

use std::sync::Arc;
use std::time::Duration;

use orloj_wire::protocol::{AttemptRef, CancelReason};
use orloj_wire::protocol::{Heartbeat, HeartbeatAck, Leave, Register, Registered};
use tokio::time::sleep;

use crate::backoff::Backoff;
use crate::core::{Core, RoundError};
use crate::error::Error;
use crate::leader::CallError;
use crate::load;
use crate::sync::lock;

const REGISTER: &str = "/internal/v1/executors/register";
const HEARTBEAT: &str = "/internal/v1/executors/heartbeat";
const LEAVE: &str = "/internal/v1/executors/leave";

/// What the executor says of itself, except what changes.
pub(crate) struct Profile {
    pub(crate) address: String,
    pub(crate) handlers: Vec<String>,
    pub(crate) slots: u32,
    pub(crate) queue: u32,
    pub(crate) weight: u32,
    pub(crate) zone: Option<String>,
    pub(crate) labels: std::collections::BTreeMap<String, String>,
    /// Instead of what the leader says, in ms.
    pub(crate) heartbeat_ms: Option<u64>,
}

/// Slots that are freed within this time share a heartbeat.
const SHORTEST_GAP: Duration = Duration::from_millis(20);
/// Bounds on what a leader may ask for, in ms.
const HEARTBEAT_BOUNDS: (u64, u64) = (50, 60_000);

/// Keeps the executor known for ever.
pub(crate) async fn run(core: Arc<Core>, profile: Profile) {
    deliver_old_reports(&core).await;
    let mut every = register(&core, &profile).await;
    let mut failures = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
    let mut wait = Duration::ZERO;
    loop {
        sleep(SHORTEST_GAP).await;
        tokio::select! {
            () = sleep(wait) => {}
            () = core.beat.notified() => {}
        }
        match heartbeat(&core).await {
            Ok(false) => {
                failures.reset();
                wait = every;
            }
            Ok(true) => {
                every = register(&core, &profile).await;
                wait = Duration::ZERO;
            }
            Err(error) => {
                tracing::warn!(cause = %error, "the heartbeat was not answered");
                // No earlier, whatever happens: a leader that is away is not helped by a flood.
                sleep(failures.next().min(every)).await;
                wait = Duration::ZERO;
            }
        }
    }
}

/// Reports of earlier lives carry their old incarnation; they count only while the leader has not yet ended
/// what that life held, which the registration makes it do. Nothing else is there yet: who is not registered gets
/// no work.
async fn deliver_old_reports(core: &Core) {
    let mut changed = core.changed.subscribe();
    core.outbox.notify_one();
    while lock(core.journal.ledger()).waiting() > 0 {
        if changed.changed().await.is_err() {
            return;
        }
    }
}

/// Registers, however long it takes; returns the time between heartbeats.
async fn register(core: &Arc<Core>, profile: &Profile) -> Duration {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
    loop {
        let body = Register {
            executor_id: core.settings.id.clone(),
            incarnation: core.settings.incarnation,
            address: profile.address.clone(),
            handlers: profile.handlers.clone(),
            slots: profile.slots,
            queue: profile.queue,
            weight: profile.weight,
            zone: profile.zone.clone(),
            labels: profile.labels.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            holding: lock(&core.book).holding(core.clock.monotonic()),
        };
        let answer: Result<Registered, CallError> = core.leader.post(REGISTER, &body).await;
        match answer {
            Ok(registered) => {
                core.leader.learn(&registered.replicas);
                if take_round(core, registered.round).await {
                    drop_stale(core, &registered.stale);
                }
                let (low, high) = HEARTBEAT_BOUNDS;
                let ms = profile.heartbeat_ms.unwrap_or(registered.heartbeat_ms).clamp(low, high);
                tracing::info!(round = registered.round, heartbeat_ms = ms, "registered");
                return Duration::from_millis(ms);
            }
            Err(error) => {
                tracing::warn!(cause = %error, "not registered yet");
                sleep(backoff.next()).await;
            }
        }
    }
}

/// One heartbeat. Says whether the leader wants a registration.
async fn heartbeat(core: &Arc<Core>) -> Result<bool, CallError> {
    let ack: HeartbeatAck = core.leader.post(HEARTBEAT, &told(core)).await?;
    if ack.superseded {
        core.fail(Error::Superseded { id: core.settings.id.clone() });
        return Ok(false);
    }
    if !take_round(core, ack.round).await {
        core.leader.pass_over();
        return Err(CallError::Unanswered(format!("it came from round {}, which is over", ack.round)));
    }
    drop_stale(core, &ack.stale);
    Ok(ack.register)
}

fn told(core: &Core) -> Heartbeat {
    let handlers = lock(&core.stats).tell();
    let book = lock(&core.book);
    Heartbeat {
        executor_id: core.settings.id.clone(),
        incarnation: core.settings.incarnation,
        round: book.round(),
        holding: book.active(core.clock.monotonic()),
        free_slots: book.free_slots(),
        queued: u32::try_from(book.queued()).unwrap_or(u32::MAX),
        cpu_pct: load::cpu_pct(),
        draining: book.draining(),
        handlers,
    }
}

/// Whether an answer comes from the round in force. One of an older round is a deposed leader's, which does not
/// know what its successor has granted: nothing is stopped at its word.
async fn take_round(core: &Core, round: u64) -> bool {
    match core.see_round(round).await {
        Ok(()) => true,
        Err(RoundError::Stale(_)) => false,
        Err(RoundError::Stopping) => {
            tracing::warn!(round, "the round cannot be kept: the executor is stopping");
            true
        }
    }
}

fn drop_stale(core: &Arc<Core>, stale: &[AttemptRef]) {
    for attempt in stale {
        if core.stop(attempt, CancelReason::LeaseLost) {
            tracing::warn!(task_id = %attempt.task_id, fence = attempt.fence, "its lease is over");
        }
    }
}

/// Says goodbye, once.
pub(crate) async fn leave(core: &Core) -> Result<(), CallError> {
    let body = Leave { executor_id: core.settings.id.clone(), incarnation: core.settings.incarnation };
    core.leader.post_empty(LEAVE, &body).await
}
