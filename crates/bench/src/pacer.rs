//! Says when the submissions of an open loop are to be sent.
//!
//! A thread of its own sleeps by the system's fine timers: the runtime's have a resolution of a millisecond,
//! which would be a large part of the latencies that are measured.

use std::thread;
use std::time::Duration;

use orloj_wire::clock::{Clock as _, SystemClock};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::plan::Pace;

/// A submission that is to be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Beat {
    /// Its number.
    pub(crate) number: u64,
    /// When it was meant to be sent, by the monotonic clock.
    pub(crate) intended: Duration,
}

/// Beats from `begin` on (by the clock's monotonic part), `count` of them or as many as are due within `limit`.
///
/// # Errors
/// There is no thread to be had.
pub(crate) fn start(
    clock: SystemClock,
    begin: Duration,
    pace: Pace,
    count: u64,
    limit: Duration,
) -> std::io::Result<UnboundedReceiver<Beat>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let beat = move || {
        for number in 0..count {
            let Some(after) = pace.intended_us(number).map(Duration::from_micros) else { return };
            if after >= limit {
                return;
            }
            let intended = begin + after;
            thread::sleep(intended.saturating_sub(clock.monotonic()));
            if sender.send(Beat { number, intended }).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("bench-pacer".into()).spawn(beat)?;
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn beats_come_in_order_and_end_with_the_limit() {
        let clock = SystemClock::new();
        let begin = clock.monotonic();
        let pace = Pace::Open { per_s: 1_000.0 };
        let mut beats = start(clock, begin, pace, 1_000, Duration::from_millis(5)).unwrap();
        let mut numbers = Vec::new();
        while let Some(beat) = beats.recv().await {
            assert!(clock.monotonic() >= beat.intended, "too early");
            numbers.push(beat.number);
        }
        assert_eq!(numbers, [0, 1, 2, 3, 4]);
    }
}
