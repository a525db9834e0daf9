//! The checkers: one word on each invariant.
//!
//! One rule says what a checker answers when a history holds nothing of what it judges:
//!
//! - A checker of something that a short run may lack (a retry, a timeout, a fault) is valid and says
//!   `looked_at` 0 in its figures. Whether that is enough for the run at hand is the coverage checker's
//!   business: [`Options::required`] names what had to be exercised, and what is missing makes the run unknown.
//! - A checker of something that every run has (acknowledged submissions, repeated ones, lists, cancels, probes,
//!   the phase after the last heal, the tables at the end) is unknown without it: then the run did not get far
//!   enough to be judged.

pub mod acked;
pub mod attempts;
pub mod callbacks;
pub mod cancel;
pub mod clean_failure;
pub mod conclusive;
pub mod coverage;
pub mod dependencies;
pub mod dispatch;
pub mod effects;
pub mod fairness;
pub mod identity;
pub mod jobs;
pub mod limits;
pub mod linear;
pub mod lists;
pub mod liveness;
pub mod one_bad;
pub mod outcomes;
pub mod overlap;
pub mod placement;
mod rates;
pub mod recovery;
pub mod replicas;
pub mod rounds;
pub mod shards;
pub mod timing;
pub mod transitions;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::history::History;
use crate::verdict::{Judgement, Validity};

/// What a run promised itself: bounds that depend on its configuration, and what it had to exercise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Interval of heartbeats, in ms.
    pub heartbeat_ms: u64,
    /// An executor that has missed so many heartbeats is offline and its attempts are lost.
    pub missed_heartbeats: u32,
    /// The wheel's tick, in ms.
    pub tick_ms: u64,
    /// A delayed task may start so late, in ms, when no fault is near.
    pub lateness_ms: u64,
    /// After the last heal there is one leader that serves, within so many ms.
    pub heal_ms: u64,
    /// After a leader is gone a write is acknowledged and a dispatch arrives, within so many ms.
    pub recovery_ms: u64,
    /// The wheel holds what is due within so many ms, and at least what is due within half of that.
    pub window_ms: u64,
    /// At most so many delayed tasks become due in one tick.
    pub due_per_tick: u64,
    /// So long past its timeout an attempt may run before the leader asks its executor to stop it, in ms.
    pub timeout_grace_ms: u64,
    /// No task waits for a slot, for its retry or for the end of its timeout for longer than this, in ms, also
    /// amid faults: only the time in which they are in force does not count.
    pub starvation_ms: u64,
    /// An Idempotency-Key is kept for so long, in ms of the cluster's time.
    pub key_kept_ms: u64,
    /// A table keeps at least so many attempts of a shard before it forgets any.
    pub kept_attempts: usize,
    /// Offsets of wall clocks are measured to within so many ms.
    pub clock_noise_ms: u64,
    /// With one bad follower the share of operations that succeed is at least this part of what it is without.
    pub one_bad_ok_share: f64,
    /// With one bad follower the 99th percentile of latency is at most so many times what it is without.
    pub one_bad_slowdown: f64,
    /// At most this share of the operations may stay unknown.
    pub unknown_share: f64,
    /// What must have been seen at least so often, by name: `fault:process.kill@leader`, `leader_changes`,
    /// `stale_rejects`, `snapshots_installed`, `retries`. See the coverage checker for the names.
    pub required: BTreeMap<String, u64>,
    /// Business keys whose effect must exist, each with how often it must have been tried.
    pub business_keys: BTreeMap<String, u64>,
}

impl Options {
    /// For how long an executor may be silent before its attempts are lost, in ms.
    pub fn offline_ms(&self) -> u64 {
        self.heartbeat_ms.saturating_mul(u64::from(self.missed_heartbeats))
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            heartbeat_ms: 5_000,
            missed_heartbeats: 4,
            tick_ms: 10,
            lateness_ms: 1_000,
            heal_ms: 30_000,
            recovery_ms: 10_000,
            window_ms: 300_000,
            due_per_tick: 512,
            timeout_grace_ms: 5_000,
            starvation_ms: 30_000,
            key_kept_ms: 24 * 3_600_000,
            kept_attempts: 32,
            clock_noise_ms: 50,
            one_bad_ok_share: 0.95,
            one_bad_slowdown: 3.0,
            unknown_share: 0.1,
            required: BTreeMap::new(),
            business_keys: BTreeMap::new(),
        }
    }
}

/// The word on a whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// All together.
    pub validity: Validity,
    /// One for each invariant, in the order of the table.
    pub judgements: Vec<Judgement>,
}

/// A checker: from a history to its word on one invariant, or on several that are found together.
pub type Checker = fn(&History, &Options) -> Vec<Judgement>;

/// Every checker of the product that is live, in the order of the table. Those of the run itself come after them.
pub const CHECKERS: &[Checker] = &[
    replicas::rounds,
    replicas::promises,
    replicas::digests,
    replicas::entries,
    identity::one_place,
    acked::lost,
    linear::check,
    lists::check,
    acked::once,
    cancel::check,
    effects::once,
    dispatch::one_grant,
    dispatch::committed_before_sent,
    rounds::stale_rounds,
    overlap::no_overlap,
    attempts::numbering,
    attempts::spacing,
    transitions::one_chain,
    transitions::final_is_final,
    outcomes::no_invention,
    placement::follows_the_ring,
    limits::running,
    fairness::bounded_waits,
    jobs::schedules,
    timing::never_early,
    timing::steps_leave_delays_alone,
    timing::timeouts,
    dependencies::order,
    callbacks::announced,
    shards::each_once,
    liveness::heals,
    liveness::drains,
    recovery::recovery,
    one_bad::one_bad_follower,
    clean_failure::clean_failure,
];

/// Judges a history.
pub fn judge(history: &History, options: &Options) -> Report {
    let checkers = CHECKERS.iter().flat_map(|checker| checker(history, options));
    let mut judgements: Vec<Judgement> = checkers.collect();
    judgements.push(coverage::coverage(history, options, &judgements));
    judgements.push(conclusive::conclusive(history, options));
    let validity = judgements.iter().fold(Validity::Valid, |all, judgement| all.and(judgement.validity));
    Report { validity, judgements }
}
