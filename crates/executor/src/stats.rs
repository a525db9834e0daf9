//! Counts and durations by handler.

use std::collections::{BTreeMap, VecDeque};

use orloj_wire::protocol::HandlerStats;

/// Over how many attempts durations are told.
const WINDOW: usize = 256;

#[derive(Debug, Default)]
struct Counts {
    started: u64,
    failed: u64,
    durations_ms: VecDeque<u64>,
}

/// What this life has done, by handler. Plain data.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    by_handler: BTreeMap<String, Counts>,
}

impl Stats {
    /// An attempt starts.
    pub(crate) fn started(&mut self, handler: &str) {
        self.counts(handler).started += 1;
    }

    /// An attempt is over.
    pub(crate) fn ended(&mut self, handler: &str, failed: bool, duration_ms: u64) {
        let counts = self.counts(handler);
        counts.failed += u64::from(failed);
        if counts.durations_ms.len() == WINDOW {
            counts.durations_ms.pop_front();
        }
        counts.durations_ms.push_back(duration_ms);
    }

    fn counts(&mut self, handler: &str) -> &mut Counts {
        if !self.by_handler.contains_key(handler) {
            self.by_handler.insert(handler.to_owned(), Counts::default());
        }
        self.by_handler.get_mut(handler).expect("it was inserted above when it was missing")
    }

    /// As heartbeats tell them.
    pub(crate) fn tell(&self) -> BTreeMap<String, HandlerStats> {
        self.by_handler.iter().map(|(name, counts)| (name.clone(), tell(counts))).collect()
    }
}

fn tell(counts: &Counts) -> HandlerStats {
    let mut sorted: Vec<u64> = counts.durations_ms.iter().copied().collect();
    sorted.sort_unstable();
    let mean_ms = match sorted.len() {
        0 => 0.0,
        n => sorted.iter().sum::<u64>() as f64 / n as f64,
    };
    // Nearest rank: the smallest value that is not below 95 % of them.
    let rank = (sorted.len() * 95).div_ceil(100).saturating_sub(1);
    let p95_ms = sorted.get(rank).map_or(0.0, |ms| *ms as f64);
    HandlerStats { started: counts.started, failed: counts.failed, mean_ms, p95_ms }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_durations() {
        let mut stats = Stats::default();
        for ms in 1..=100 {
            stats.started("h");
            stats.ended("h", ms % 10 == 0, ms);
        }
        let told = &stats.tell()["h"];
        assert_eq!((told.started, told.failed, told.mean_ms, told.p95_ms), (100, 10, 50.5, 95.0));
    }

    #[test]
    fn durations_are_of_the_last_256() {
        let mut stats = Stats::default();
        (0..256).for_each(|_| stats.ended("h", false, 1_000));
        (0..256).for_each(|_| stats.ended("h", false, 2));
        assert_eq!(stats.tell()["h"].mean_ms, 2.0);
        stats.started("g");
        assert_eq!(stats.tell()["g"].p95_ms, 0.0);
    }
}
