//! The machine's wall clock, which nothing steps: only processes under test see other times.

use rustix::time::{ClockId, clock_gettime};

/// Unix seconds.
pub fn seconds() -> i64 {
    clock_gettime(ClockId::Realtime).tv_sec
}

/// Unix milliseconds.
pub fn ms() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec * 1_000 + now.tv_nsec / 1_000_000
}
