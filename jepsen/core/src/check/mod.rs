//! The checkers: one word on each invariant.

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
    /// At most this share of the operations may stay unknown.
    pub unknown_share: f64,
    /// What must have been seen at least so often, by name: `fault:process.kill@leader`, `leader_changes`,
    /// `stale_rejects`, `snapshots_installed`, `retries`. See the coverage checker for the names.
    pub required: BTreeMap<String, u64>,
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
            unknown_share: 0.5,
            required: BTreeMap::new(),
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

/// Every checker that is live.
pub const CHECKERS: &[Checker] = &[];

/// Judges a history.
pub fn judge(history: &History, options: &Options) -> Report {
    let judgements: Vec<Judgement> = CHECKERS.iter().flat_map(|checker| checker(history, options)).collect();
    let validity = judgements.iter().fold(Validity::Valid, |all, judgement| all.and(judgement.validity));
    Report { validity, judgements }
}
