//! What the leader's loop counts. A node that does not lead keeps the gauges at zero.

use std::sync::atomic::{AtomicI64, AtomicU64};

use orloj_wire::protocol::ReportVerdict;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upper bounds of the buckets of lateness, in seconds.
const LATENESS_S: [f64; 12] = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 30.0, 300.0];

/// Handles of the metrics; clones count into the same ones.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub(crate) wheel: Gauge<i64, AtomicI64>,
    pub(crate) waiting: Gauge<i64, AtomicI64>,
    pub(crate) running: Gauge<i64, AtomicI64>,
    pub(crate) executors: Gauge<i64, AtomicI64>,
    pub(crate) jobs_waiting: Gauge<i64, AtomicI64>,
    pub(crate) fires: Counter<u64, AtomicU64>,
    pub(crate) fire_skips: Counter<u64, AtomicU64>,
    pub(crate) granted: Counter<u64, AtomicU64>,
    pub(crate) refused: Counter<u64, AtomicU64>,
    pub(crate) lost: Counter<u64, AtomicU64>,
    pub(crate) pushes: Counter<u64, AtomicU64>,
    pub(crate) push_failures: Counter<u64, AtomicU64>,
    pub(crate) reports: Counter<u64, AtomicU64>,
    pub(crate) late_reports: Counter<u64, AtomicU64>,
    pub(crate) clock_steps: Counter<u64, AtomicU64>,
    pub(crate) rounds: Counter<u64, AtomicU64>,
    pub(crate) lateness: Histogram,
    pub(crate) load: Gauge<f64, AtomicU64>,
    pub(crate) window_load: Gauge<f64, AtomicU64>,
    pub(crate) callback_sends: Counter<u64, AtomicU64>,
    pub(crate) callback_failures: Counter<u64, AtomicU64>,
}

impl Metrics {
    /// Registers the metrics, with the prefix `orloj_scheduler`, or `orloj_leader` for those of loading.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Metrics {
            wheel: Gauge::default(),
            waiting: Gauge::default(),
            running: Gauge::default(),
            executors: Gauge::default(),
            jobs_waiting: Gauge::default(),
            fires: Counter::default(),
            fire_skips: Counter::default(),
            granted: Counter::default(),
            refused: Counter::default(),
            lost: Counter::default(),
            pushes: Counter::default(),
            push_failures: Counter::default(),
            reports: Counter::default(),
            late_reports: Counter::default(),
            clock_steps: Counter::default(),
            rounds: Counter::default(),
            lateness: Histogram::new(LATENESS_S),
            load: Gauge::default(),
            window_load: Gauge::default(),
            callback_sends: Counter::default(),
            callback_failures: Counter::default(),
        };
        let own = registry.sub_registry_with_prefix("orloj_scheduler");
        own.register("wheel_timers", "Timers in the wheel", metrics.wheel.clone());
        own.register("waiting_shards", "Shards that wait for a slot", metrics.waiting.clone());
        own.register("running_shards", "Leases in force", metrics.running.clone());
        own.register("executors_online", "Executors that take work", metrics.executors.clone());
        own.register("jobs_waiting", "Jobs that are about to be looked at", metrics.jobs_waiting.clone());
        own.register("fires", "Tasks that jobs made by triggers", metrics.fires.clone());
        own.register("fire_skips", "Times that instants of jobs were skipped", metrics.fire_skips.clone());
        own.register("grants", "Leases granted", metrics.granted.clone());
        own.register("refusals", "Attempts that executors refused", metrics.refused.clone());
        own.register("losses", "Attempts lost with their executor", metrics.lost.clone());
        own.register("pushes", "Batches pushed to executors", metrics.pushes.clone());
        own.register("push_failures", "Batches without an answer", metrics.push_failures.clone());
        own.register("reports", "Reports that had an effect", metrics.reports.clone());
        own.register("late_reports", "Reports that came too late", metrics.late_reports.clone());
        own.register("clock_steps", "Steps of the wall clock seen", metrics.clock_steps.clone());
        own.register("rounds", "Rounds begun by this node", metrics.rounds.clone());
        own.register("callback_sends", "Callbacks sent", metrics.callback_sends.clone());
        own.register(
            "callback_failures",
            "Callbacks that were not answered with a 2xx",
            metrics.callback_failures.clone(),
        );
        own.register(
            "grant_lateness_seconds",
            "Time from when a shard was due to the commit of its grant",
            metrics.lateness.clone(),
        );
        let leader = registry.sub_registry_with_prefix("orloj_leader");
        leader.register(
            "load_seconds",
            "How long this leader took to load all that it began with",
            metrics.load.clone(),
        );
        leader.register(
            "window_load_seconds",
            "How long it took to load the window last",
            metrics.window_load.clone(),
        );
        metrics
    }

    pub(crate) fn reported(&self, verdict: ReportVerdict) {
        match verdict {
            ReportVerdict::Accepted => self.reports.inc(),
            ReportVerdict::Late => self.late_reports.inc(),
            ReportVerdict::Repeated => 0,
        };
    }

    pub(crate) fn idle(&self) {
        for gauge in [&self.wheel, &self.waiting, &self.running, &self.executors, &self.jobs_waiting] {
            gauge.set(0);
        }
        self.load.set(0.0);
        self.window_load.set(0.0);
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn the_times_of_loading_are_told_by_name_and_only_while_this_node_leads() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let shows = |line: &str| {
            let mut text = String::new();
            encode(&mut text, &registry).expect("a text");
            text.lines().any(|found| found == line)
        };
        metrics.load.set(1.5);
        metrics.window_load.set(0.25);
        assert!(shows("orloj_leader_load_seconds 1.5") && shows("orloj_leader_window_load_seconds 0.25"));
        metrics.idle();
        assert!(shows("orloj_leader_load_seconds 0.0") && shows("orloj_leader_window_load_seconds 0.0"));
    }
}
