//! Simulated time: one virtual clock for the world, and what each host makes of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use orloj_model::time::Clock;
use tokio::runtime::Handle;
use tokio::time::Instant;

/// The wall clock of the world when a simulation begins, in ms since the epoch: 10 s before the end of a span of nonces,
/// so that they are looked for across its end amid the load. Spent ones are forgotten where a clock is put forward by a
/// thousand seconds.
pub const WALL_START_MS: i64 = 1_800_000_170_000;
const _: () = assert!((WALL_START_MS + 10_000) % orloj_model::apply::NONCE_SPAN_MS == 0);

/// The clocks of one life of a host. Its monotonic clock is tokio's, which the host's runtime advances; the wall
/// clock goes on with it and can be stepped.
#[derive(Debug)]
pub struct HostClock {
    began: Instant,
    /// What the wall clock showed when this life began.
    wall_at_start: i64,
    /// What the monotonic clock showed then: it differs from life to life, and from host to host.
    mono_at_start: Duration,
    steps_ms: AtomicI64,
    /// The last reading, for whoever asks outside of the host's runtime.
    last_ms: AtomicU64,
}

impl HostClock {
    /// Clocks that begin now. Called inside the host's runtime.
    pub fn start(wall_ms: i64, mono: Duration) -> Arc<HostClock> {
        Arc::new(HostClock {
            began: Instant::now(),
            wall_at_start: wall_ms,
            mono_at_start: mono,
            steps_ms: AtomicI64::new(0),
            last_ms: AtomicU64::new(0),
        })
    }

    /// Steps the wall clock.
    pub fn step_wall(&self, by_ms: i64) {
        self.steps_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// What the wall clock shows when this life has lasted so long, in ms.
    pub fn wall_after_ms(&self, lasted_ms: u64) -> i64 {
        self.wall_at_start + lasted_ms as i64 + self.steps_ms.load(Ordering::Relaxed)
    }

    /// Since this life began. What is dropped with the runtime is outside of it and is told the last reading.
    fn elapsed(&self) -> Duration {
        if Handle::try_current().is_err() {
            return Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
        }
        let elapsed = self.began.elapsed();
        self.last_ms.store(elapsed.as_millis() as u64, Ordering::Relaxed);
        elapsed
    }
}

impl Clock for HostClock {
    fn wall_ms(&self) -> i64 {
        self.wall_at_start + self.elapsed().as_millis() as i64 + self.steps_ms.load(Ordering::Relaxed)
    }

    fn monotonic(&self) -> Duration {
        self.mono_at_start + self.elapsed()
    }
}
