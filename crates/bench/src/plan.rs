//! What is submitted when. Pure.

use serde::{Deserialize, Serialize};

use crate::shuffle;

/// The first id of warm-up tasks, which no figure counts. Below it are a run's own tasks, from 0.
pub const WARM_FIRST: u64 = 1 << 40;

/// A set of tasks, numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// The id of task 0, which its handler records.
    pub first_id: u64,
    /// How many tasks; with a limit in time this is a bound.
    pub count: u64,
    /// When they are due.
    pub due: Due,
    /// How long the handler sleeps, in ms.
    pub sleep_ms: u64,
}

/// When the tasks of a plan are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Due {
    /// As soon as they are submitted.
    AtOnce,
    /// Evenly over a span, in an order other than that of submission. A span of 0 makes it one instant.
    Spread {
        /// When the span begins, in ms since the Unix epoch.
        base_ms: i64,
        /// How long it is, in ms.
        spread_ms: u64,
        /// Decides the order.
        #[serde(default)]
        seed: u64,
    },
}

impl Plan {
    /// The id of the task with this number.
    pub fn id(&self, number: u64) -> u64 {
        self.first_id + number
    }

    /// When the task with this number is due, in ms since the Unix epoch; `None` for at once.
    ///
    /// The task that stands at place `p` of `n` is due at `base + p / n * spread`. Its place comes from a permutation that
    /// the seed decides, so that the order of due instants has nothing to do with the order of submission while their
    /// density is even.
    pub fn due_ms(&self, number: u64) -> Option<i64> {
        let Due::Spread { base_ms, spread_ms, seed } = self.due else { return None };
        let place = u128::from(shuffle::place(number, self.count, seed));
        let offset =
            (place * u128::from(spread_ms) + u128::from(self.count / 2)) / u128::from(self.count.max(1));
        Some(base_ms + i64::try_from(offset).unwrap_or(i64::MAX))
    }
}

/// When submissions are sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Pace {
    /// So many callers, each sending the next one when the last one was answered.
    Closed {
        /// Callers.
        clients: u32,
    },
    /// So many a second, whatever the answers take.
    Open {
        /// Submissions a second.
        per_s: f64,
    },
}

impl Pace {
    /// When submission `number` of an open loop shall be sent, in µs after the start; `None` in a closed loop.
    pub fn intended_us(self, number: u64) -> Option<u64> {
        match self {
            Pace::Closed { .. } => None,
            Pace::Open { per_s } => Some((number as f64 / per_s * 1e6) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(count: u64, spread_ms: u64) -> Plan {
        Plan { first_id: 0, count, due: Due::Spread { base_ms: 1_000, spread_ms, seed: 7 }, sleep_ms: 0 }
    }

    #[test]
    fn due_instants_are_even_and_shuffled() {
        let plan = spread(1_000, 60_000);
        let mut due: Vec<i64> = (0..1_000).filter_map(|number| plan.due_ms(number)).collect();
        assert!(!due.is_sorted(), "the order of submission is not that in which they are due");
        due.sort_unstable();
        assert_eq!((due[0], due[1], due[999]), (1_000, 1_060, 60_940));
        due.dedup();
        assert_eq!(due.len(), 1_000);
    }

    #[test]
    fn without_a_span_all_are_due_at_one_instant() {
        let plan = spread(50, 0);
        assert!((0..50).all(|number| plan.due_ms(number) == Some(1_000)));
        let now = Plan { due: Due::AtOnce, ..plan };
        assert_eq!(now.due_ms(3), None);
    }

    #[test]
    fn no_count_overflows() {
        let plan = spread(u64::MAX, 3_600_000);
        assert!(plan.due_ms(u64::MAX - 1).is_some());
        assert_eq!(spread(0, 10).due_ms(0), Some(1_000));
    }

    #[test]
    fn an_open_loop_does_not_wait() {
        let pace = Pace::Open { per_s: 200.0 };
        assert_eq!(pace.intended_us(0), Some(0));
        assert_eq!(pace.intended_us(200), Some(1_000_000));
        assert_eq!(Pace::Closed { clients: 1 }.intended_us(5), None);
    }
}
