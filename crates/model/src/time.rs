//! The clock, as a thing that is passed in. The model itself never reads one.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use crate::id::Millis;

/// A wall clock, which people and other machines can set, and a monotonic one, which only advances.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch. May jump in both directions.
    fn wall_ms(&self) -> Millis;

    /// Time since some fixed instant in the past. Never goes back.
    fn monotonic(&self) -> Duration;
}

/// A clock that stands still until a test moves it.
#[derive(Debug, Default)]
pub struct ManualClock {
    wall_ms: AtomicI64,
    monotonic_ms: AtomicU64,
}

impl ManualClock {
    /// A clock that shows this wall time.
    pub fn at(wall_ms: Millis) -> Self {
        ManualClock { wall_ms: AtomicI64::new(wall_ms), monotonic_ms: AtomicU64::new(0) }
    }

    /// Lets time pass on both clocks.
    pub fn advance_ms(&self, ms: u64) {
        self.wall_ms.fetch_add(ms as i64, Ordering::SeqCst);
        self.monotonic_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Steps the wall clock alone.
    pub fn step_wall_ms(&self, ms: i64) {
        self.wall_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn wall_ms(&self) -> Millis {
        self.wall_ms.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.monotonic_ms.load(Ordering::SeqCst))
    }
}
