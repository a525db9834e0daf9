//! What an operator can set about scheduling.

use std::collections::BTreeMap;

use orloj_model::id::CallerId;
use serde::{Deserialize, Serialize};

use crate::wheel::{DEFAULT_TICK_MS, MAX_TICK_MS, MIN_TICK_MS};

/// Settings of the leader's loop. The same on every replica.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Options {
    /// Resolution of the wheel in milliseconds, 1-1000. Default 10.
    pub tick_ms: u64,
    /// Only what is due within this many milliseconds sits in the wheel; the rest stays in the due index on
    /// disk. Default 300,000 (5 min).
    pub window_ms: u64,
    /// The most shards that become due in one tick; what is beyond follows in the next ones, in due order.
    /// Bounds the burst after a step of the wall clock or a change of leader. Default 512.
    pub due_per_tick: usize,
    /// How often executors send heartbeats, in milliseconds. Default 5,000.
    pub heartbeat_ms: u64,
    /// An executor that missed so many heartbeats gets no new work. Default 3.
    pub suspect_after: u32,
    /// An executor that missed so many is offline: its leases are over. Default 4.
    pub offline_after: u32,
    /// How long past its timeout an attempt may run before the leader asks its executor to stop it, and how
    /// long after that before the leader declares it timed out, in milliseconds. Default 5,000.
    pub timeout_grace_ms: u64,
    /// How many tasks of a caller of the secrets file may run at a time. Of a caller that is not here the tables tell.
    #[serde(skip)]
    pub max_running: BTreeMap<CallerId, u32>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            tick_ms: DEFAULT_TICK_MS,
            window_ms: 300_000,
            due_per_tick: 512,
            heartbeat_ms: 5_000,
            suspect_after: 3,
            offline_after: 4,
            timeout_grace_ms: 5_000,
            max_running: BTreeMap::new(),
        }
    }
}

impl Options {
    /// Refuses values outside their bounds, naming the field and the value.
    ///
    /// # Errors
    /// The text to show.
    pub fn check(&self) -> Result<(), String> {
        let bounds = [
            ("tick-ms", self.tick_ms, MIN_TICK_MS, MAX_TICK_MS),
            ("window-ms", self.window_ms, 1_000, 3_600_000),
            ("due-per-tick", self.due_per_tick as u64, 1, 100_000),
            ("heartbeat-ms", self.heartbeat_ms, 100, 60_000),
            ("suspect-after", u64::from(self.suspect_after), 1, 100),
            ("offline-after", u64::from(self.offline_after), u64::from(self.suspect_after) + 1, 101),
            ("timeout-grace-ms", self.timeout_grace_ms, 100, 600_000),
        ];
        for (field, value, low, high) in bounds {
            if !(low..=high).contains(&value) {
                return Err(format!("{field} = {value}: must be {low}-{high}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_pass_and_a_bad_value_is_named() {
        assert_eq!(Options::default().check(), Ok(()));
        let bad = Options { tick_ms: 0, ..Options::default() };
        assert_eq!(bad.check(), Err("tick-ms = 0: must be 1-1000".into()));
        let bad = Options { offline_after: 3, ..Options::default() };
        assert_eq!(bad.check(), Err("offline-after = 3: must be 4-101".into()));
    }
}
