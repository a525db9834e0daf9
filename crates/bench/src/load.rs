//! The load: submits what a plan says, at its pace, and remembers what was acknowledged.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orloj_wire::clock::{Clock as _, SystemClock};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::caller::{Call, CallError, Caller};
use crate::latency::Latency;
use crate::message::{LoadResult, LoadSpec};
use crate::pacer::{self, Beat};
use crate::plan::Pace;

mod body;
mod part;

pub(crate) use body::task_key;
use body::{Draft, Made, Request};
pub use part::{PartError, run};
pub(crate) use part::{lines, say};

/// The handler that the tasks of a bench run.
pub const HANDLER: &str = "bench";
/// How long a submission that has a key is repeated.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// A task that was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ack {
    /// Its id in the API, without the prefix.
    pub(crate) task: [u8; 22],
    /// When it was due, in µs since the Unix epoch.
    pub(crate) due_us: i64,
    /// Whose it is: the place of the key that submitted it.
    pub(crate) signer: u16,
}

/// How many tasks have been done; wakes the clients that wait for that.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    done: AtomicU64,
    changed: Notify,
}

impl Gate {
    /// Takes over a count.
    pub(crate) fn set(&self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    /// Waits until fewer than `limit` of those that `taken` counts are outstanding.
    async fn pass(&self, taken: impl Fn() -> u64, limit: u64) {
        loop {
            let changed = self.changed.notified();
            if taken().saturating_sub(self.done.load(Ordering::Relaxed)) < limit {
                return;
            }
            changed.await;
        }
    }
}

/// A load that runs.
pub(crate) struct Load {
    caller: Arc<Caller>,
    spec: LoadSpec,
    gate: Arc<Gate>,
    clock: SystemClock,
    /// The same instant by both clocks.
    begin: Duration,
    begin_us: i64,
    sent: AtomicU64,
    /// Sent and refused, so that nothing will come of it.
    failed: AtomicU64,
    acknowledged: AtomicU64,
    repeated: AtomicU64,
    latency: Mutex<Latency>,
    failures: Mutex<Latency>,
    acks: Mutex<Vec<Ack>>,
    errors: Mutex<BTreeMap<String, u64>>,
}

impl Load {
    pub(crate) fn new(caller: Arc<Caller>, spec: LoadSpec, gate: Arc<Gate>) -> Arc<Load> {
        let clock = caller.clock();
        Arc::new(Load {
            caller,
            spec,
            gate,
            clock,
            begin: clock.monotonic(),
            begin_us: clock.wall_us(),
            sent: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
            latency: Mutex::default(),
            failures: Mutex::default(),
            acks: Mutex::default(),
            errors: Mutex::default(),
        })
    }

    /// How many have been acknowledged by now.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Submits everything; returns how that went, and what was acknowledged.
    ///
    /// # Errors
    /// The pacer's thread cannot be had.
    pub(crate) async fn submit_all(self: &Arc<Self>) -> std::io::Result<(LoadResult, Vec<Ack>)> {
        match self.spec.pace {
            Pace::Closed { clients } => self.closed(clients).await,
            Pace::Open { .. } => self.open().await?,
        }
        let result = LoadResult {
            sent: self.sent.load(Ordering::Relaxed),
            acknowledged: self.acknowledged(),
            repeated: self.repeated.load(Ordering::Relaxed),
            errors: lock(&self.errors).clone(),
            started_us: self.begin_us,
            ended_us: self.wall_us(self.clock.monotonic()),
            latency: lock(&self.latency).clone(),
            failures: lock(&self.failures).clone(),
        };
        Ok((result, std::mem::take(&mut *lock(&self.acks))))
    }

    async fn closed(self: &Arc<Self>, clients: u32) {
        let next = Arc::new(AtomicU64::new(0));
        let mut running = JoinSet::new();
        for _ in 0..clients {
            let (load, next) = (Arc::clone(self), Arc::clone(&next));
            running.spawn(async move { load.client(&next).await });
        }
        finish(running).await;
    }

    async fn client(&self, next: &AtomicU64) {
        let limit = Duration::from_secs_f64(self.spec.limit_s);
        loop {
            if let Some(outstanding) = self.spec.outstanding {
                let left = limit.saturating_sub(self.clock.monotonic() - self.begin);
                // At the end of the time the loop ends, whatever is outstanding.
                let _ = tokio::time::timeout(left, self.gate.pass(|| self.taken(), outstanding)).await;
            }
            let now = self.clock.monotonic();
            if now - self.begin >= limit {
                return;
            }
            let batch = u64::from(self.spec.batch.max(1));
            let number = next.fetch_add(batch, Ordering::Relaxed);
            if number >= self.spec.plan.count {
                return;
            }
            let count = batch.min(self.spec.plan.count - number);
            self.submit(Beat { number, intended: now }, count).await;
        }
    }

    async fn open(self: &Arc<Self>) -> std::io::Result<()> {
        let limit = Duration::from_secs_f64(self.spec.limit_s);
        let mut beats = pacer::start(self.clock, self.begin, self.spec.pace, self.spec.plan.count, limit)?;
        let mut running = JoinSet::new();
        while let Some(beat) = beats.recv().await {
            let load = Arc::clone(self);
            running.spawn(async move { load.submit(beat, 1).await });
            while running.try_join_next().is_some() {}
        }
        finish(running).await;
        Ok(())
    }

    /// Submits so many tasks, or makes one job, in one request; its latency counts from when it was meant to be sent.
    async fn submit(&self, beat: Beat, count: u64) {
        self.sent.fetch_add(count, Ordering::Relaxed);
        let tasks: Vec<Draft> =
            (beat.number..beat.number + count).map(|number| self.draft(beat, number)).collect();
        let Request { path, body, kind } = match &self.spec.jobs {
            Some(jobs) => body::job(jobs, beat.number),
            None => body::of(&self.spec, &tasks),
        };
        let signer = self.caller.signer_of(beat.number);
        // The id, unlike the number, is never used twice on one stage.
        let id = self.spec.plan.id(beat.number);
        let key = self.spec.key_prefix.as_ref().map(|prefix| format!("{prefix}-{id}"));
        let call = Call { method: "POST", path, query: "", key: key.as_deref(), signer };
        loop {
            let answer = self.caller.call(call, body.clone()).await;
            let error = match answer.and_then(|answer| body::read(&answer, kind)) {
                Ok(results) => return self.answered(beat, signer, &tasks, results),
                Err(error) => error,
            };
            let waited_us = self.waited_us(beat);
            if key.is_none() || !error.passes() || waited_us >= us(PATIENCE) {
                lock(&self.latency).record(waited_us);
                lock(&self.failures).record(waited_us);
                return self.failed(&error.to_string(), count);
            }
            self.repeated.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn draft(&self, beat: Beat, number: u64) -> Draft {
        let plan = &self.spec.plan;
        let due_ms = plan.due_ms(number);
        let due_us = due_ms.map_or_else(|| self.wall_us(beat.intended), |ms| ms.saturating_mul(1_000));
        Draft { id: plan.id(number), due_us, due_ms }
    }

    fn answered(&self, beat: Beat, signer: usize, tasks: &[Draft], results: Vec<Result<Made, CallError>>) {
        lock(&self.latency).record(self.waited_us(beat));
        // There are far fewer keys than that.
        let signer = u16::try_from(signer).unwrap_or(u16::MAX);
        let mut taken = Vec::with_capacity(tasks.len());
        for (draft, result) in tasks.iter().zip(results) {
            match result {
                Ok(made) => {
                    self.acknowledged.fetch_add(1, Ordering::Relaxed);
                    taken.extend(made.map(|task| Ack { task, due_us: draft.due_us, signer }));
                }
                Err(error) => self.failed(&error.to_string(), 1),
            }
        }
        if self.spec.remember {
            lock(&self.acks).extend(taken);
        }
    }

    /// From the instant at which a request was meant to be sent until now, in µs.
    fn waited_us(&self, beat: Beat) -> u64 {
        us(self.clock.monotonic().saturating_sub(beat.intended))
    }

    fn failed(&self, why: &str, count: u64) {
        self.failed.fetch_add(count, Ordering::Relaxed);
        *lock(&self.errors).entry(why.to_owned()).or_default() += count;
    }

    /// Submissions of which something may come.
    fn taken(&self) -> u64 {
        self.sent.load(Ordering::Relaxed).saturating_sub(self.failed.load(Ordering::Relaxed))
    }

    /// An instant of the monotonic clock in µs since the Unix epoch.
    fn wall_us(&self, at: Duration) -> i64 {
        let since = at.saturating_sub(self.begin).as_micros();
        self.begin_us.saturating_add(i64::try_from(since).unwrap_or(i64::MAX))
    }
}

fn us(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

async fn finish(mut running: JoinSet<()>) {
    while let Some(ended) = running.join_next().await {
        if let Err(error) = ended {
            std::panic::resume_unwind(error.into_panic());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic ends the process; until then counts are better than none.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Due, Plan};

    fn spec(due: Due) -> LoadSpec {
        let plan = Plan { first_id: 0, count: 10, due, sleep_ms: 0 };
        LoadSpec { limit_s: 1.0, ..LoadSpec::new(plan, Pace::Closed { clients: 1 }) }
    }

    #[tokio::test]
    async fn a_gate_lets_pass_what_has_room() {
        let gate = Gate::default();
        gate.set(3);
        gate.pass(|| 10, 8).await;
        let waits = gate.pass(|| 10, 7);
        tokio::pin!(waits);
        assert!(tokio::time::timeout(Duration::from_millis(1), &mut waits).await.is_err());
        gate.set(4);
        waits.await;
    }

    /// Nobody listens there: every submission fails, is counted with the time that it took, and is not waited for.
    #[tokio::test]
    async fn failures_are_counted_by_their_reason() {
        let target = crate::message::Target {
            servers: vec!["http://127.0.0.1:1".to_owned()],
            access_key: "ak_X".to_owned(),
            secret_key: "sk_X".to_owned(),
            audience: "default".to_owned(),
            via: crate::message::Via::Any,
            keys: Vec::new(),
            ca_pem: None,
        };
        let load = Load::new(Caller::new(&target).unwrap(), spec(Due::AtOnce), Arc::default());
        let (result, acks) = load.submit_all().await.unwrap();
        assert_eq!((result.sent, result.acknowledged, acks.len()), (10, 0, 0));
        assert_eq!(result.errors.get("no connection"), Some(&10));
        assert_eq!((result.latency.count(), result.failures.count()), (10, 10), "what fails takes time, too");
    }
}
