//! What goes out to executors: one push, one stop and one announcement at a time for each.

use orloj_model::id::ExecutorId;
use orloj_wire::protocol::{CancelReason, Holdings};

use super::exec::{BACKOFF_MS, Liveness};
use crate::core::{Core, HeldPhase, Lease, Now, Step, Tracked};

/// How long an executor that refused an attempt gets nothing new, in milliseconds.
const CLOSED_MS: u64 = 500;

impl Core {
    /// Hands to the shell what can be sent to executors now: one push, one stop and one announcement at a
    /// time for each.
    pub(crate) fn send(&mut self, now: Now) {
        let mut steps = Vec::new();
        for exec in self.executors.values_mut() {
            if !exec.is_there() || exec.not_before > now.mono_ms {
                continue;
            }
            if !exec.knows_round && !exec.announcing {
                exec.announcing = true;
                steps.push(Step::Announce { executor: exec.id().clone() });
            }
            if !exec.pushing && !exec.outbox.is_empty() {
                let count = exec.outbox.len().min(crate::core::leases::PUSH_LIMIT);
                let mut leases = Vec::with_capacity(count);
                for shard in exec.outbox.drain(..count) {
                    // A lease of an earlier life is about to be lost: this life must not run it as well. One
                    // whose task was cancelled ends by what the executor says to the stop.
                    if let Some(Tracked::Held(held)) = self.tracked.get_mut(&shard)
                        && held.incarnation == exec.row.registration.incarnation
                        && !held.cancelled
                    {
                        held.phase = HeldPhase::InFlight;
                        leases.push(held.lease);
                    }
                }
                if !leases.is_empty() {
                    exec.pushing = true;
                    steps.push(Step::Push { executor: exec.id().clone(), leases });
                }
            }
            if !exec.stopping
                && exec.stop_again_at <= now.mono_ms
                && let Some((_, reason)) = exec.stops.first_key_value()
            {
                exec.stopping = true;
                let reason = *reason;
                let same = exec.stops.iter().filter(|(_, other)| **other == reason);
                let leases = same.map(|(lease, _)| *lease).take(crate::core::leases::PUSH_LIMIT).collect();
                steps.push(Step::Cancel { executor: exec.id().clone(), reason, leases });
            }
        }
        self.steps.extend(steps);
    }

    /// An announcement was answered with what the executor holds, or failed. An answer comes from a life that has heard
    /// of this round, so it tells that this life goes on, as a heartbeat does.
    pub(crate) fn announced(&mut self, id: &ExecutorId, answer: Option<Holdings>, now: Now) {
        let Some(exec) = self.executors.get_mut(id) else { return };
        exec.announcing = false;
        match answer {
            Some(told) if told.incarnation == exec.incarnation() => {
                exec.knows_round = true;
                exec.heard_at = now.mono_ms;
                exec.liveness = Liveness::Alive;
                // A heartbeat that says that it is leaving may have overtaken an answer that does not.
                exec.leaving |= told.draining;
                exec.answered();
                let (fleet, takes_work) = (exec.fleet, exec.takes_work(now));
                self.fleet.set_open(fleet, takes_work);
                let stale = self.compare(id, &told.holding, true, now);
                for lease in stale.iter().filter_map(crate::core::leases::lease_of) {
                    self.stop(id, lease, CancelReason::LeaseLost);
                }
                self.send(now);
            }
            // Another life answers: it will register.
            _ => exec.failed(now),
        }
    }

    pub(in crate::core) fn push_answered(&mut self, id: &ExecutorId, ok: bool, now: Now) {
        let Some(exec) = self.executors.get_mut(id) else { return };
        exec.pushing = false;
        if ok { exec.answered() } else { exec.failed(now) }
    }

    /// An executor that refused is left alone for a while, whatever the leader believes of its slots.
    pub(in crate::core) fn refused(&mut self, id: &ExecutorId, now: Now) {
        let Some(exec) = self.executors.get_mut(id) else { return };
        exec.closed_until = now.mono_ms + CLOSED_MS;
        self.fleet.set_open(exec.fleet, false);
    }

    pub(in crate::core) fn stop_answered(&mut self, id: &ExecutorId, now: Now) {
        let Some(exec) = self.executors.get_mut(id) else { return };
        exec.stopping = false;
        exec.stop_again_at = now.mono_ms + BACKOFF_MS;
    }

    /// The executor shall stop an attempt.
    pub(in crate::core) fn stop(&mut self, id: &ExecutorId, lease: Lease, reason: CancelReason) {
        if let Some(exec) = self.executors.get_mut(id) {
            exec.stops.insert(lease, reason);
        }
    }

    pub(in crate::core) fn stopped(&mut self, id: &ExecutorId, lease: &Lease) {
        if let Some(exec) = self.executors.get_mut(id) {
            exec.stops.remove(lease);
        }
    }
}
