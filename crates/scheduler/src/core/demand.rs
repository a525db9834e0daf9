//! What is kept of a shard that waits for a slot.
//!
//! How many of those there are has no bound but the table: executors may be away for a day while a hundred callers go on
//! submitting. So nothing of a task stays here that placing it does not need, its parameters least of all (a push reads
//! them), and what many tasks ask for alike, their [`Demand`], is there once. With its places in the leader's table and in
//! the waiting room a shard then takes 200 to 350 bytes, whatever its task holds. None is left out to keep that small: a
//! backlog of one handler, caller or job, were it to fill a bound, would hide whatever is due of the others.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::BuildHasher as _;
use std::mem::discriminant;
use std::sync::Arc;

use orloj_model::id::{CallerId, ExecutorId, Millis};
use orloj_model::key::ShardKey;
use orloj_model::mutant::{Mutant, is_on};
use orloj_model::task::{Strategy, TaskSpec};

use super::limits::{Owner, owners_of};
use super::{Candidate, Core};
use crate::placement::ClassId;
use crate::ring::KeyHash;
use crate::waiting::Waiting;

/// So many demands are kept although nothing that waits asks for them any more: the next task may.
const KEPT_DEMANDS: usize = 4_096;

/// What a task asks for; the same for all that ask for the same.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Demand {
    pub handler: String,
    pub labels: BTreeMap<String, String>,
    pub strategy: Strategy,
    pub zone: Option<String>,
    pub priority: u8,
    pub timeout_ms: Option<u64>,
    /// Of a broadcast: see [`Candidate::broadcast`].
    pub broadcast: bool,
    caller: CallerId,
    job: Option<String>,
    /// Whose limits it counts against.
    pub owners: Vec<Owner>,
}

impl Demand {
    fn new(spec: &TaskSpec, broadcast: bool) -> Demand {
        Demand {
            handler: spec.handler.clone(),
            labels: spec.labels.clone(),
            strategy: spec.strategy.clone(),
            zone: spec.zone.clone(),
            priority: spec.priority,
            timeout_ms: spec.timeout_ms,
            broadcast,
            caller: spec.caller.clone(),
            job: job_of(spec).map(str::to_owned),
            owners: owners_of(spec),
        }
    }

    fn is_of(&self, spec: &TaskSpec, broadcast: bool) -> bool {
        (self.priority, self.timeout_ms, self.broadcast) == (spec.priority, spec.timeout_ms, broadcast)
            && self.handler == spec.handler
            && self.caller == spec.caller
            && self.job.as_deref() == job_of(spec)
            && self.labels == spec.labels
            && self.strategy == spec.strategy
            && self.zone == spec.zone
    }
}

fn job_of(spec: &TaskSpec) -> Option<&str> {
    spec.origin.job().map(|(job, _)| job)
}

/// Demands that tasks share, and names of executors that had their last attempts. Both are found without a copy of what is
/// looked for: most tasks ask for what the one before asked for.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// By their hash. Of two with the same one the later is not shared.
    demands: HashMap<u64, Arc<Demand>>,
    names: HashSet<Arc<ExecutorId>>,
    /// How many demands may be known before those that nobody has are dropped; [`KEPT_DEMANDS`] at least.
    sweep_above: usize,
}

impl Shared {
    pub(super) fn demand(&mut self, spec: &TaskSpec, broadcast: bool) -> Arc<Demand> {
        let pinned = match &spec.strategy {
            Strategy::Pinned(executor) => Some(executor),
            _ => None,
        };
        let hash = self.demands.hasher().hash_one((
            (&spec.caller, job_of(spec), &spec.handler, &spec.labels),
            (discriminant(&spec.strategy), pinned, &spec.zone),
            (spec.priority, spec.timeout_ms, broadcast),
        ));
        match self.demands.get(&hash) {
            Some(known) if known.is_of(spec, broadcast) => Arc::clone(known),
            Some(_) => Arc::new(Demand::new(spec, broadcast)),
            None => {
                self.sweep();
                let demand = Arc::new(Demand::new(spec, broadcast));
                self.demands.insert(hash, Arc::clone(&demand));
                demand
            }
        }
    }

    fn name(&mut self, executor: &ExecutorId) -> Arc<ExecutorId> {
        if let Some(known) = self.names.get(executor) {
            return Arc::clone(known);
        }
        self.sweep();
        let name = Arc::new(executor.clone());
        self.names.insert(Arc::clone(&name));
        name
    }

    /// Drops what nobody has, seldom enough that its cost is that of what came in since.
    fn sweep(&mut self) {
        if self.demands.len() + self.names.len() > self.sweep_above.max(KEPT_DEMANDS) {
            self.demands.retain(|_, demand| Arc::strong_count(demand) > 1);
            self.names.retain(|name| Arc::strong_count(name) > 1);
            self.sweep_above = 2 * (self.demands.len() + self.names.len());
        }
    }
}

/// A due shard in hand: what is kept of a [`Candidate`]. See the module for why it is small.
#[derive(Debug)]
pub(super) struct Waiter {
    pub demand: Arc<Demand>,
    /// Since when it has been due.
    pub since: Millis,
    /// What decides its place on the ring, as [`KeyHash::number_of`] has it.
    pub key: u64,
    /// Who had its last attempt, which came to nothing: another one is tried first.
    pub last: Option<Arc<ExecutorId>>,
    /// The number of its next attempt.
    pub attempt: u32,
    /// In which class it waits.
    class: ClassId,
    /// It is in the ready index already.
    pub ready: bool,
}

impl Waiter {
    /// Its place in the waiting room.
    pub(super) fn waiting(&self, shard: ShardKey) -> Waiting {
        let since = if is_on(Mutant::OldestLast) { Millis::MAX - self.since } else { self.since };
        Waiting { shard, class: self.class, priority: self.demand.priority, since }
    }
}

impl Core {
    /// What is kept of a candidate.
    pub(super) fn waiter(&mut self, candidate: &Candidate) -> Box<Waiter> {
        let Candidate { spec, broadcast, .. } = candidate;
        let demand = self.shared.demand(spec, *broadcast);
        let last = candidate.last.as_ref().map(|last| self.shared.name(last));
        let class = self.class_of(&demand);
        Box::new(Waiter {
            demand,
            since: candidate.since,
            key: KeyHash::number_of(routing_key(spec)),
            last,
            attempt: candidate.attempt,
            class,
            ready: candidate.ready,
        })
    }

    /// One that was about to run, or was held up by a limit, waits on. Meanwhile its class may have been dropped.
    pub(super) fn wait_on(&mut self, shard: ShardKey, mut waiter: Box<Waiter>) {
        waiter.class = self.class_of(&waiter.demand);
        self.wait(shard, waiter);
    }

    fn class_of(&mut self, demand: &Demand) -> ClassId {
        self.fleet.class(&demand.handler, &demand.labels, &demand.strategy)
    }
}

/// What decides a task's place on the ring.
fn routing_key(spec: &TaskSpec) -> &str {
    spec.routing_key.as_deref().or_else(|| job_of(spec)).unwrap_or(&spec.handler)
}

#[cfg(test)]
#[path = "demand_tests.rs"]
mod tests;
