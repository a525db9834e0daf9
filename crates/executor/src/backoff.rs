//! Delays between tries.

use std::time::Duration;

/// Doubles from the first delay to the last, each time shortened by up to half at random, so that many
/// executors do not come back at one instant.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    first: Duration,
    last: Duration,
    next: Duration,
}

impl Backoff {
    /// Starts with `first`, ends at `last`.
    pub(crate) fn new(first: Duration, last: Duration) -> Self {
        Backoff { first, last, next: first }
    }

    /// After a success.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }

    /// The next delay, before chance shortens it.
    fn step(&mut self) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).min(self.last);
        delay
    }

    /// The next delay.
    pub(crate) fn next(&mut self) -> Duration {
        self.step().mul_f64(rand::random_range(0.5..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_last() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(350));
        let steps: Vec<u128> = (0..4).map(|_| backoff.step().as_millis()).collect();
        assert_eq!(steps, [100, 200, 350, 350]);
        backoff.reset();
        let delay = backoff.next();
        assert!(delay >= Duration::from_millis(50) && delay <= Duration::from_millis(100));
    }
}
