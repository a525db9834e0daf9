//! What a handler is given: its attempt, and a way to talk back.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use orloj_wire::clock::Clock;
use orloj_wire::protocol::Dispatch;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::log::Log;
use crate::saves::SaveHub;

/// Why a checkpoint was not saved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SaveError {
    /// More than 64 KiB.
    #[error("the checkpoint has {size} bytes; at most {limit} are allowed")]
    TooLarge {
        /// Its bytes.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// The attempt has no lease any more, or is over: the handler should stop.
    #[error("the attempt has no lease any more")]
    LeaseLost,
}

/// One attempt, as its handler sees it. Cheap to clone.
#[derive(Clone)]
pub struct AttemptContext {
    inner: Arc<Inner>,
}

struct Inner {
    dispatch: Arc<Dispatch>,
    cancel: CancellationToken,
    log: Arc<Log>,
    saves: Arc<SaveHub>,
    clock: Arc<dyn Clock>,
    deadline: Option<Duration>,
    mark: String,
}

/// The parts of a context.
pub(crate) struct ContextParts {
    pub(crate) dispatch: Arc<Dispatch>,
    pub(crate) cancel: CancellationToken,
    pub(crate) log: Arc<Log>,
    pub(crate) saves: Arc<SaveHub>,
    pub(crate) clock: Arc<dyn Clock>,
    /// By the monotonic clock.
    pub(crate) deadline: Option<Duration>,
    pub(crate) mark: String,
}

impl AttemptContext {
    pub(crate) fn new(parts: ContextParts) -> Self {
        let ContextParts { dispatch, cancel, log, saves, clock, deadline, mark } = parts;
        AttemptContext { inner: Arc::new(Inner { dispatch, cancel, log, saves, clock, deadline, mark }) }
    }

    /// The task.
    pub fn task_id(&self) -> &str {
        &self.inner.dispatch.attempt.task_id
    }

    /// Which slice of the task this is, from 0.
    pub fn shard_index(&self) -> u16 {
        self.inner.dispatch.attempt.shard_index
    }

    /// How many slices the task has.
    pub fn shard_total(&self) -> u16 {
        self.inner.dispatch.shard_total
    }

    /// The attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.inner.dispatch.attempt.attempt
    }

    /// The fence of the grant: greater for every later grant. A store that remembers the greatest fence it
    /// has seen can refuse the writes of an attempt that has lost its lease.
    pub fn fence(&self) -> u64 {
        self.inner.dispatch.attempt.fence
    }

    /// The handler's name.
    pub fn handler(&self) -> &str {
        &self.inner.dispatch.handler
    }

    /// The owner of the task.
    pub fn caller_id(&self) -> &str {
        &self.inner.dispatch.caller_id
    }

    /// Names the effect (such as date and table), the same for every attempt of the same work.
    pub fn business_key(&self) -> Option<&str> {
        self.inner.dispatch.business_key.as_deref()
    }

    /// The job that created the task, if one did.
    pub fn job_id(&self) -> Option<&str> {
        self.inner.dispatch.job_id.as_deref()
    }

    /// Of a fire: the scheduled instant, in ms since the Unix epoch.
    pub fn scheduled_at(&self) -> Option<i64> {
        self.inner.dispatch.scheduled_at
    }

    /// When the task became due, in ms since the Unix epoch.
    pub fn due_at(&self) -> i64 {
        self.inner.dispatch.due_at
    }

    /// The parameters.
    pub fn params(&self) -> &Value {
        &self.inner.dispatch.params
    }

    /// What the attempt before saved last.
    pub fn checkpoint(&self) -> Option<&[u8]> {
        self.inner.dispatch.checkpoint.as_deref()
    }

    /// How long it may still run. None without a timeout; zero when it is over.
    pub fn time_left(&self) -> Option<Duration> {
        let deadline = self.inner.deadline?;
        Some(deadline.saturating_sub(self.inner.clock.monotonic()))
    }

    /// Resolves when the attempt shall stop: cancelled, timed out, without a lease, or the executor leaves.
    pub async fn cancelled(&self) {
        self.inner.cancel.cancelled().await;
    }

    /// Whether the attempt shall stop.
    pub fn is_cancelled(&self) -> bool {
        self.inner.cancel.is_cancelled()
    }

    /// Adds a line to the attempt's log.
    pub fn log(&self, line: &str) {
        self.inner.log.line(line);
    }

    /// Adds bytes to the attempt's log as they are.
    pub fn log_bytes(&self, bytes: &[u8]) {
        self.inner.log.write(bytes);
    }

    /// Tells how far it is: 0-100 (more counts as 100), with a note of at most 1 KiB (the rest is cut). Sent
    /// at most twice a second; the latest counts.
    pub fn progress(&self, percent: u8, note: Option<&str>) {
        self.inner.saves.progress(&self.inner.dispatch.attempt, percent, note);
    }

    /// Saves a checkpoint of at most 64 KiB for the next attempt. Returns when a majority of the scheduler
    /// has it; waits while there is no leader.
    pub async fn save_checkpoint(&self, bytes: &[u8]) -> Result<(), SaveError> {
        self.inner.saves.checkpoint(&self.inner.dispatch.attempt, bytes).await
    }

    /// The environment variable's value by which processes of this attempt are found again.
    pub(crate) fn mark(&self) -> &str {
        &self.inner.mark
    }
}

impl fmt::Debug for AttemptContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AttemptContext").field(&self.inner.dispatch.attempt).finish()
    }
}
