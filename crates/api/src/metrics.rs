//! What the API counts, and the figures of the node that are read when somebody asks.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use orloj_raft_store::status::{NodeStatus, Role};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// The media type of [`Metrics::render`].
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds of the buckets of durations, in seconds.
const SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 30.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfRequest {
    operation: &'static str,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfOperation {
    operation: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfCode {
    code: &'static str,
}

type Durations = Family<OfOperation, Histogram, fn() -> Histogram>;
type Level = Gauge<u64, AtomicU64>;

/// Handles of the metrics; clones count into the same ones.
#[derive(Clone, Debug)]
pub struct Metrics {
    requests: Family<OfRequest, Counter>,
    durations: Durations,
    refused: Family<OfCode, Counter>,
    waiting: Level,
    node: Node,
}

#[derive(Clone, Debug, Default)]
struct Node {
    term: Level,
    leads: Level,
    round: Level,
    last_log: Level,
    committed: Level,
    applied: Level,
    purged: Level,
    snapshot: Level,
    disk_free: Level,
}

impl Metrics {
    /// Registers the metrics, with the prefixes `orloj_api` and `orloj_node`.
    pub fn register(registry: &mut Registry) -> Self {
        let durations: Durations = Family::new_with_constructor(|| Histogram::new(SECONDS));
        let metrics = Metrics {
            requests: Family::default(),
            durations,
            refused: Family::default(),
            waiting: Level::default(),
            node: Node::default(),
        };
        let api = registry.sub_registry_with_prefix("orloj_api");
        api.register("requests", "Requests of the OpenAPI by call and status", metrics.requests.clone());
        api.register(
            "request_seconds",
            "How long requests took, long polls included",
            metrics.durations.clone(),
        );
        api.register(
            "refused_credentials",
            "Requests with bad credentials, by code",
            metrics.refused.clone(),
        );
        api.register("waiting_polls", "Long polls that wait on this node", metrics.waiting.clone());
        let of = &metrics.node;
        let node = registry.sub_registry_with_prefix("orloj_node");
        node.register("term", "The Raft term", of.term.clone());
        node.register("leads", "1 while this node leads", of.leads.clone());
        node.register("round", "The scheduling round as far as applied", of.round.clone());
        node.register("last_log_index", "Last entry in the log", of.last_log.clone());
        node.register("committed_index", "Last entry known to be committed", of.committed.clone());
        node.register("applied_index", "Last entry applied", of.applied.clone());
        node.register("purged_index", "Last entry that the log no longer has", of.purged.clone());
        node.register("snapshot_index", "Last entry in the newest snapshot", of.snapshot.clone());
        node.register("disk_free_bytes", "Free bytes on the disk of the data", of.disk_free.clone());
        metrics
    }

    /// Counts a request that has been answered.
    pub(crate) fn answered(&self, operation: &'static str, status: u16, took: Duration) {
        self.requests.get_or_create(&OfRequest { operation, status }).inc();
        self.durations.get_or_create(&OfOperation { operation }).observe(took.as_secs_f64());
    }

    /// Counts a request whose credentials were refused.
    pub(crate) fn refused(&self, code: &'static str) {
        self.refused.get_or_create(&OfCode { code }).inc();
    }

    /// The whole registry as text, with the node's figures as of now.
    pub(crate) fn render(&self, registry: &Registry, status: &NodeStatus, waiting: u32) -> String {
        let node = &self.node;
        for (gauge, value) in [
            (&node.term, status.term),
            (&node.leads, u64::from(status.role == Role::Leader)),
            (&node.round, status.round),
            (&node.last_log, status.last_log),
            (&node.committed, status.committed),
            (&node.applied, status.applied),
            (&node.purged, status.purged),
            (&node.snapshot, status.snapshot),
            (&node.disk_free, status.disk_free),
            (&self.waiting, u64::from(waiting)),
        ] {
            gauge.set(value);
        }
        let mut text = String::new();
        text::encode(&mut text, registry).expect("writing into a string cannot fail");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_shown_by_name() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        metrics.answered("submit", 202, Duration::from_millis(3));
        metrics.refused("invalid_signature");
        let status = NodeStatus { applied: 7, role: Role::Leader, ..NodeStatus::default() };
        let text = metrics.render(&registry, &status, 3);
        for line in [
            "orloj_api_requests_total{operation=\"submit\",status=\"202\"} 1",
            "orloj_api_request_seconds_count{operation=\"submit\"} 1",
            "orloj_api_refused_credentials_total{code=\"invalid_signature\"} 1",
            "orloj_api_waiting_polls 3",
            "orloj_node_applied_index 7",
            "orloj_node_leads 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
