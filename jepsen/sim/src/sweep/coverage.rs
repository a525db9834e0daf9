//! What all seeds of a sweep exercised together, and what they must have.
//!
//! Each seed draws a few faults only, so that one alone owes nothing. Many together owe everything: a sweep in which
//! no attempt was lost says nothing of lost attempts, however valid each seed is.

use std::collections::BTreeMap;
use std::io::Write;

use orloj_jepsen_core::check::Report;

/// The checker whose figures tell what was exercised.
const COVERAGE: &str = "H1";

/// A sweep of so many seeds owes each sum of [`LEAST`]; a larger one as many times more, and a smaller one nothing.
pub const ENOUGH_SEEDS: u64 = 50;

/// How often each must have happened at least in [`ENOUGH_SEEDS`] seeds together: a tenth to a quarter of the usual, so
/// that chance does not fall short of it and an event that no longer happens does. Faults that a sweep may well draw
/// nowhere are not named. A name with a dot in it is a figure of the checker before the dot: how often it judged.
const LEAST: &[(&str, f64)] = &[
    ("acked_submits", 5000.0),
    ("replayed_submits", 250.0),
    ("unknown_submits", 10.0),
    ("gets_ok", 7000.0),
    ("lists_ok", 1000.0),
    ("cancels_ok", 300.0),
    ("cancels_refused", 300.0),
    ("receipts", 5000.0),
    ("sent_again", 40.0),
    ("late_reports", 2.0),
    ("repeated_reports", 5.0),
    ("delayed_starts", 1000.0),
    ("retries", 1000.0),
    ("failed_attempts", 1000.0),
    ("timed_out_attempts", 400.0),
    ("lost_attempts", 15.0),
    ("cancelled_attempts", 100.0),
    ("refused_attempts", 2.0),
    ("succeeded_tasks", 3000.0),
    ("failed_tasks", 500.0),
    ("cancelled_tasks", 300.0),
    ("skipped_tasks", 20.0),
    ("job_fires", 1000.0),
    ("job_skips", 500.0),
    ("job_misfires", 50.0),
    ("dependent_starts", 300.0),
    ("dependents_skipped", 50.0),
    ("shards_again", 100.0),
    ("broadcast_shards", 100.0),
    ("callbacks", 500.0),
    ("callbacks_refused", 20.0),
    ("leader_changes", 30.0),
    ("replica_lives", 30.0),
    ("executor_lives", 5.0),
    ("snapshots_installed", 2.0),
    ("T6.judged_in_calm", 80.0),
    ("D6.judged_in_calm", 150.0),
    ("D10.looked_at", 20.0),
    ("D11.at_the_limit", 100.0),
    ("D11.let_in", 1000.0),
    ("D11.turned_away", 1000.0),
    ("T1.whole", 60.0),
    ("T4.in_tables", 3000.0),
    ("W1.looked_at", 500.0),
    ("W2.delivered", 600.0),
    ("W3.results", 1000.0),
    ("fault:process.kill", 6.0),
    ("fault:process.pause", 5.0),
    ("fault:power.fail", 10.0),
    ("fault:partition.isolate", 8.0),
    ("fault:partition.one-way-in", 1.0),
    ("fault:partition.one-way-out", 4.0),
    ("fault:partition.edge", 3.0),
    ("fault:partition.executors", 3.0),
    ("fault:link.delay", 6.0),
    ("fault:link.loss", 4.0),
    ("fault:link.duplicate", 3.0),
    ("fault:link.reorder", 3.0),
    ("fault:disk.full", 5.0),
    ("fault:disk.slow-sync", 5.0),
    ("fault:disk.sync-error", 4.0),
    ("fault:clock.jump", 10.0),
    ("fault:membership.transfer", 5.0),
    ("fault:executor.kill", 5.0),
];

/// See the module.
#[derive(Debug, Default)]
pub struct Coverage {
    sums: BTreeMap<String, f64>,
}

impl Coverage {
    /// Adds what one seed exercised.
    pub fn add(&mut self, report: &Report) {
        for judgement in &report.judgements {
            if judgement.id == COVERAGE {
                for (name, value) in &judgement.stats {
                    *self.sums.entry(name.clone()).or_default() += value;
                }
            }
            let figures = LEAST.iter().filter_map(|(name, _)| Some((*name, name.split_once('.')?)));
            for (name, (_, figure)) in figures.filter(|(_, (id, _))| *id == judgement.id) {
                *self.sums.entry(name.to_owned()).or_default() +=
                    judgement.stats.get(figure).copied().unwrap_or(0.0);
            }
        }
    }

    /// What so many seeds exercised too seldom, each in a sentence.
    pub fn missing(&self, seeds: u64) -> Vec<String> {
        if seeds < ENOUGH_SEEDS {
            return Vec::new();
        }
        let times = seeds as f64 / ENOUGH_SEEDS as f64;
        let short = LEAST.iter().filter_map(|(name, least)| {
            let (seen, wanted) = (self.sums.get(*name).copied().unwrap_or(0.0), (least * times).floor());
            (seen < wanted)
                .then(|| format!("{name} was seen {seen} times, and {wanted} are required of {seeds} seeds"))
        });
        short.collect()
    }

    /// Tells all sums.
    pub fn tell(&self, out: &mut impl Write) -> std::io::Result<()> {
        writeln!(out, "exercised, all seeds together:")?;
        self.sums.iter().try_for_each(|(name, value)| writeln!(out, "  {name} {value}"))
    }
}

#[cfg(test)]
mod tests {
    use orloj_jepsen_core::{Judgement, Validity};

    use super::*;

    fn report(id: &str, stats: &[(&str, f64)]) -> Report {
        let mut judgement = Judgement::of(id);
        stats.iter().for_each(|(name, value)| judgement.stat(name, *value));
        Report { validity: Validity::Valid, judgements: vec![judgement] }
    }

    #[test]
    fn a_sum_that_is_not_met_is_named_and_a_small_sweep_owes_none() {
        let mut coverage = Coverage::default();
        for (name, least) in LEAST {
            let of_half = [(*name, least / 2.0)];
            match name.split_once('.') {
                // The name of a fault has a dot, too.
                Some((id, figure)) if !id.contains(':') => {
                    let of_half = [(figure, least / 2.0)];
                    (0..2).for_each(|_| coverage.add(&report(id, &of_half)));
                }
                _ => (0..2).for_each(|_| coverage.add(&report(COVERAGE, &of_half))),
            }
        }
        assert_eq!(coverage.missing(ENOUGH_SEEDS), Vec::<String>::new());
        assert_eq!(
            coverage.missing(2 * ENOUGH_SEEDS).len(),
            LEAST.len(),
            "twice the seeds owe twice as much"
        );
        let nothing = Coverage::default();
        let missing = nothing.missing(ENOUGH_SEEDS);
        assert_eq!(missing.len(), LEAST.len());
        assert!(missing.iter().any(|line| line.starts_with("lost_attempts was seen 0 times")), "{missing:?}");
        assert!(nothing.missing(ENOUGH_SEEDS - 1).is_empty());
    }
}
