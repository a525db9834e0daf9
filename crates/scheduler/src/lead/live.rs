//! The executors as the leader sees them, for the API.

use std::collections::BTreeMap;

use orloj_wire::protocol::Heartbeat;

use super::Leader;
use crate::core::{Liveness, Now};
use crate::handle::{LiveExecutor, state_name};

impl Leader<'_> {
    pub(super) fn live(&self, now: Now) -> Vec<LiveExecutor> {
        let mut live: Vec<_> = self
            .core
            .executors()
            .map(|exec| {
                let (row, last) = (exec.row(), exec.last_heartbeat());
                LiveExecutor {
                    id: exec.id().to_string(),
                    incarnation: exec.incarnation(),
                    address: exec.address().to_owned(),
                    state: state_name(row.state, exec.liveness() != Liveness::Alive),
                    handlers: row.registration.handlers.clone(),
                    slots: row.registration.slots,
                    running: exec.held(),
                    free_slots: last.map(|beat| beat.free_slots),
                    queued: last.map(|beat| beat.queued),
                    cpu_pct: last.map(|beat| beat.cpu_pct),
                    mean_ms: last.map(mean_ms).unwrap_or_default(),
                    last_heard_ms: now.mono_ms.saturating_sub(exec.heard_at()),
                    zone: row.registration.zone.clone(),
                    version: row.registration.version.clone(),
                }
            })
            .collect();
        live.sort_by(|a, b| a.id.cmp(&b.id));
        live
    }
}

/// Means of what has run at all, in whole ms. What an executor says is not trusted: the cast bounds it.
fn mean_ms(beat: &Heartbeat) -> BTreeMap<String, u64> {
    let told = beat.handlers.iter().filter(|(_, stats)| stats.started > 0);
    told.map(|(handler, stats)| (handler.clone(), stats.mean_ms as u64)).collect()
}

#[cfg(test)]
mod tests {
    use orloj_wire::protocol::HandlerStats;

    use super::*;

    #[test]
    fn only_what_has_run_has_a_mean() {
        let stats = |started, mean_ms| HandlerStats { started, failed: 0, mean_ms, p95_ms: 0.0 };
        let beat = Heartbeat {
            executor_id: "e1".into(),
            incarnation: 1,
            round: 1,
            holding: Vec::new(),
            free_slots: 1,
            queued: 0,
            cpu_pct: 0.0,
            draining: false,
            handlers: [
                ("ran".to_owned(), stats(2, 3_000.9)),
                ("idle".to_owned(), stats(0, 7.0)),
                ("odd".to_owned(), stats(1, f64::NAN)),
                ("worse".to_owned(), stats(1, -5.0)),
            ]
            .into(),
        };
        let means: Vec<_> = mean_ms(&beat).into_iter().collect();
        let expected = [("odd", 0), ("ran", 3_000), ("worse", 0)].map(|(name, ms)| (name.to_owned(), ms));
        assert_eq!(means, expected);
    }
}
