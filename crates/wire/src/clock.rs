//! The one place that reads the machine's clocks.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use orloj_model::time::Clock;

/// The machine's clocks.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose monotonic part counts from now.
    #[allow(clippy::new_without_default, clippy::disallowed_methods, reason = "the one reader of the clock")]
    pub fn new() -> Self {
        SystemClock { start: Instant::now() }
    }

    /// The wall clock in µs since the Unix epoch, for measurements that ms are too coarse for.
    #[allow(clippy::disallowed_methods, reason = "the one reader of the clock")]
    pub fn wall_us(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the one reader of the clock")]
    fn wall_ms(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
        }
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}
