//! The executors as the leader sees them, for the API.

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
