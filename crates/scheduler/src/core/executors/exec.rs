//! What the leader keeps of one executor.

use std::collections::{BTreeMap, VecDeque};

use orloj_model::executor::{Executor, ExecutorState};
use orloj_model::id::{ExecutorId, Incarnation};
use orloj_model::key::ShardKey;
use orloj_wire::protocol::{CancelReason, Heartbeat};

use crate::core::strays::Strays;
use crate::core::{Lease, Now};
use crate::placement::{ExecutorIdx, Fleet};

/// How long to wait before a push or an announcement that failed is tried again: doubles up to the limit, in
/// milliseconds.
pub(super) const BACKOFF_MS: u64 = 100;
const BACKOFF_LIMIT_MS: u64 = 2_000;

/// Whether an executor is there, as the leader sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// Its heartbeats come.
    Alive,
    /// Heartbeats are missing: it gets nothing new.
    Suspect,
    /// Too many are missing: its end has been proposed.
    Gone,
}

/// An executor that the leader works with.
#[derive(Debug)]
pub(crate) struct Exec {
    pub(super) row: Executor,
    pub(super) fleet: ExecutorIdx,
    /// When it was last heard, monotonic; a new leader starts from now.
    pub(super) heard_at: u64,
    pub(super) liveness: Liveness,
    /// It said in a heartbeat that it is leaving.
    pub(super) leaving: bool,
    /// It has acknowledged this leader's round.
    pub(super) knows_round: bool,
    pub(super) announcing: bool,
    /// Leases, with the slot that each takes in the fleet, none when its attempt has been reported; in order, because they
    /// are walked.
    pub(super) held: BTreeMap<ShardKey, Option<ExecutorIdx>>,
    /// How many of them take none.
    pub(super) vacated: u32,
    /// What it runs without a lease.
    pub(in crate::core) strays: Strays,
    /// Leases that have not been pushed, oldest first.
    pub(in crate::core) outbox: VecDeque<ShardKey>,
    pub(super) pushing: bool,
    /// Attempts to stop. An executor may hold two of one shard: a lost one that does not stop, and its lease.
    pub(super) stops: BTreeMap<Lease, CancelReason>,
    pub(super) stopping: bool,
    /// What is not over by then is asked to stop again, monotonic.
    pub(super) stop_again_at: u64,
    /// It refused an attempt: it gets nothing new until then, monotonic.
    pub(super) closed_until: u64,
    /// Not before then is anything sent again, monotonic.
    pub(super) not_before: u64,
    pub(super) backoff_ms: u64,
    pub(super) last: Option<Heartbeat>,
}

impl Exec {
    pub(crate) fn id(&self) -> &ExecutorId {
        &self.row.registration.id
    }

    pub(crate) fn incarnation(&self) -> Incarnation {
        self.row.registration.incarnation
    }

    pub(crate) fn address(&self) -> &str {
        &self.row.registration.address
    }

    pub(crate) fn row(&self) -> &Executor {
        &self.row
    }

    pub(crate) fn liveness(&self) -> Liveness {
        self.liveness
    }

    /// When it was last heard, monotonic.
    pub(crate) fn heard_at(&self) -> u64 {
        self.heard_at
    }

    /// Its last heartbeat under this leader.
    pub(crate) fn last_heartbeat(&self) -> Option<&Heartbeat> {
        self.last.as_ref()
    }

    /// Whether it has acknowledged this leader's round.
    pub(crate) fn knows_round(&self) -> bool {
        self.knows_round
    }

    /// How many leases it holds.
    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    /// Its place in the fleet.
    pub(in crate::core) fn slot(&self) -> ExecutorIdx {
        self.fleet
    }

    pub(in crate::core) fn hold(&mut self, shard: ShardKey, slot: ExecutorIdx) {
        if let Some(None) = self.held.insert(shard, Some(slot)) {
            self.vacated -= 1;
        }
    }

    /// The attempt of this lease is over there. Its slot is free, unless as many leases as it has slots wait for the commit
    /// of their reports already: where those find no room in the log, more work would follow without end.
    pub(in crate::core) fn vacate(&mut self, shard: ShardKey, fleet: &mut Fleet) {
        if self.vacated >= self.row.registration.slots {
            return;
        }
        if let Some(slot) = self.held.get_mut(&shard).and_then(Option::take) {
            self.vacated += 1;
            fleet.give_back(slot);
        }
    }

    /// Its lease of this shard is over.
    pub(in crate::core) fn forget(&mut self, lease: Lease, fleet: &mut Fleet) {
        match self.held.remove(&lease.shard) {
            Some(Some(slot)) => fleet.give_back(slot),
            Some(None) => self.vacated -= 1,
            None => {}
        }
        self.outbox.retain(|queued| *queued != lease.shard);
        self.stops.remove(&lease);
    }

    pub(super) fn takes_work(&self, now: Now) -> bool {
        self.row.state == ExecutorState::Online
            && self.liveness == Liveness::Alive
            && !self.leaving
            && self.closed_until <= now.mono_ms
            && !self.unreachable()
    }

    /// Its heartbeats come and pushes to it fail, again and again: what it has not got yet is enough.
    pub(super) fn unreachable(&self) -> bool {
        self.backoff_ms == BACKOFF_LIMIT_MS && (self.pushing || !self.outbox.is_empty())
    }

    pub(in crate::core) fn is_there(&self) -> bool {
        matches!(self.row.state, ExecutorState::Online | ExecutorState::Draining)
    }

    pub(super) fn failed(&mut self, now: Now) {
        self.not_before = now.mono_ms + self.backoff_ms;
        self.backoff_ms = (self.backoff_ms * 2).min(BACKOFF_LIMIT_MS);
    }

    pub(super) fn answered(&mut self) {
        self.not_before = 0;
        self.backoff_ms = BACKOFF_MS;
    }
}
