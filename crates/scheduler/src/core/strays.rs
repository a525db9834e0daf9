//! Slots that are taken by attempts without a lease: handlers that were told to stop and have not. The leader
//! does not give their slots away, or what it places there would queue behind them, maybe for ever.

use std::collections::HashSet;

use orloj_model::id::ExecutorId;
use orloj_wire::protocol::AttemptRef;

use super::Core;
use crate::placement::{ExecutorIdx, Fleet};

/// The attempts without a lease of one executor.
#[derive(Debug, Default)]
pub(super) struct Strays {
    /// Those of the last heartbeat. One alone proves nothing: the attempt may have ended on its way.
    last: HashSet<AttemptRef>,
    /// How many slots the fleet counts for those of the last two.
    slots: u32,
}

impl Strays {
    /// Takes in what a heartbeat names without a lease.
    fn observe(&mut self, stale: &[AttemptRef], slot: ExecutorIdx, fleet: &mut Fleet) {
        let both = stale.iter().filter(|attempt| self.last.contains(attempt)).count();
        let slots = u32::try_from(both).unwrap_or(u32::MAX);
        let leases = fleet.held(slot).saturating_sub(self.slots);
        fleet.set_held(slot, leases.saturating_add(slots));
        self.slots = slots;
        self.last = stale.iter().cloned().collect();
    }

    /// Another life of the executor has none of them.
    pub(super) fn clear(&mut self, slot: ExecutorIdx, fleet: &mut Fleet) {
        self.observe(&[], slot, fleet);
    }
}

impl Core {
    /// A heartbeat named these attempts without a lease.
    pub(super) fn observe_strays(&mut self, id: &ExecutorId, stale: &[AttemptRef]) {
        if let Some(exec) = self.executors.get_mut(id) {
            let slot = exec.slot();
            exec.strays.observe(stale, slot, &mut self.fleet);
        }
    }
}
