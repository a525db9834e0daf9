//! How many tasks of a job, and of a caller, may run at a time.
//!
//! What is over a limit is *parked*: it stays ready, but out of the waiting room, so that a thousand tasks of one job
//! that wait for each other cost nothing in a pass over the room. When a place is free, those who are first in the
//! room's own order go back into it. A task counts once, however many shards of it run.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use orloj_model::id::{CallerId, TaskId};
use orloj_model::job::JobKey;
use orloj_model::key::ShardKey;
use orloj_model::task::TaskSpec;

use super::{Core, Tracked};
use crate::waiting::{Turn, Waiting};

/// Jobs without a limit, of which that is known although none of their tasks runs; more are forgotten. Where more jobs
/// have a limit, as many as those are kept beside them.
const KEPT_JOBS: usize = 16_384;

/// Whose limit it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Owner {
    Job(CallerId, String),
    Caller(CallerId),
}

/// One limit, and who is held up by it.
#[derive(Debug, Default)]
struct Gate {
    /// `None` where there is no limit.
    most: Option<u32>,
    /// Somebody has told what the limit is. A task that runs is counted before that, too.
    known: bool,
    running: u32,
    parked: BTreeSet<Turn>,
}

impl Gate {
    fn free(&self) -> usize {
        self.most.map_or(usize::MAX, |most| most.saturating_sub(self.running) as usize)
    }
}

/// A task that runs.
#[derive(Debug)]
struct Running {
    owners: Vec<Owner>,
    shards: BTreeSet<u16>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Limits {
    /// Of callers, from the configuration.
    callers: BTreeMap<CallerId, u32>,
    gates: HashMap<Owner, Gate>,
    tasks: HashMap<TaskId, Running>,
    /// By whose limit a shard is held up, and its turn.
    parked: HashMap<ShardKey, (Owner, Turn)>,
    /// Gates that may let somebody through.
    open: BTreeSet<Owner>,
    /// How many gates the last sweep said there may be before the next one; [`KEPT_JOBS`] at least.
    sweep_above: usize,
}

impl Limits {
    /// With these limits of callers; those of jobs are told later.
    pub(super) fn new(callers: BTreeMap<CallerId, u32>) -> Self {
        let gate = |(caller, most): (&CallerId, &u32)| {
            (Owner::Caller(caller.clone()), Gate { most: Some(*most), known: true, ..Gate::default() })
        };
        Limits { gates: callers.iter().map(gate).collect(), callers, ..Limits::default() }
    }

    /// How many shards are held up.
    pub(super) fn parked(&self) -> usize {
        self.parked.len()
    }

    fn owners(&self, spec: &TaskSpec) -> Vec<Owner> {
        let job = spec.origin.job().map(|(job, _)| Owner::Job(spec.caller.clone(), job.to_owned()));
        let caller = self.callers.contains_key(&spec.caller).then(|| Owner::Caller(spec.caller.clone()));
        job.into_iter().chain(caller).collect()
    }

    /// Holds a shard up where its task would be one too many; whether it did.
    pub(super) fn hold_up(&mut self, waiting: &Waiting, spec: &TaskSpec) -> bool {
        if self.tasks.contains_key(&waiting.shard.task) {
            return false;
        }
        let is_full = |owner: &Owner| self.gates.get(owner).is_some_and(|gate| gate.free() == 0);
        let owners = self.owners(spec);
        let Some(owner) = owners.iter().find(|owner| is_full(owner)).cloned() else { return false };
        let turn = waiting.turn();
        // A place that another limit has left for it is somebody else's.
        self.open.extend(owners.into_iter().filter(|other| *other != owner));
        self.gates.entry(owner.clone()).or_default().parked.insert(turn);
        self.parked.insert(waiting.shard, (owner, turn));
        true
    }

    /// A shard is about to run, or runs.
    pub(super) fn taken(&mut self, shard: ShardKey, spec: &TaskSpec) {
        if let Some(running) = self.tasks.get_mut(&shard.task) {
            running.shards.insert(shard.shard);
            return;
        }
        let owners = self.owners(spec);
        if owners.is_empty() {
            return;
        }
        for owner in &owners {
            self.gates.entry(owner.clone()).or_default().running += 1;
        }
        self.tasks.insert(shard.task, Running { owners, shards: BTreeSet::from([shard.shard]) });
    }

    /// A shard does not run any more.
    pub(super) fn left(&mut self, shard: ShardKey) {
        let Some(running) = self.tasks.get_mut(&shard.task) else { return };
        running.shards.remove(&shard.shard);
        if !running.shards.is_empty() {
            return;
        }
        let owners = self.tasks.remove(&shard.task).map(|running| running.owners).unwrap_or_default();
        for owner in owners {
            if let Some(gate) = self.gates.get_mut(&owner) {
                gate.running = gate.running.saturating_sub(1);
            }
            self.open.insert(owner);
        }
    }

    /// A shard that was ready waits no more: whoever was held up behind it may go in its place.
    pub(super) fn gone(&mut self, shard: ShardKey, spec: &TaskSpec) {
        if let Some((owner, turn)) = self.parked.remove(&shard)
            && let Some(gate) = self.gates.get_mut(&owner)
        {
            gate.parked.remove(&turn);
        }
        for owner in self.owners(spec) {
            self.open.insert(owner);
        }
    }

    /// Those that may go back into the room: as many as there are free places. Whoever finds no executor there takes no
    /// place, so the next ones follow with the next pass.
    fn let_through(&mut self) -> Vec<ShardKey> {
        let mut through = Vec::new();
        for owner in std::mem::take(&mut self.open) {
            let Some(gate) = self.gates.get_mut(&owner) else { continue };
            for _ in 0..gate.free() {
                let Some(turn) = gate.parked.pop_first() else { break };
                self.parked.remove(&turn.shard);
                through.push(turn.shard);
            }
            if gate.free() > 0 && !gate.parked.is_empty() {
                self.open.insert(owner);
            }
        }
        through
    }

    fn set_job(&mut self, job: &JobKey, most: Option<u32>) {
        if self.gates.len() > self.sweep_above.max(KEPT_JOBS) {
            let in_use = |owner: &Owner, gate: &mut Gate| {
                // One with a limit may have tasks in the room.
                matches!(owner, Owner::Caller(_)) || gate.running > 0 || gate.most.is_some()
            };
            self.gates.retain(in_use);
            // A sweep looks at every gate. Were there one for each new job once many have limits, a hundred thousand
            // jobs would cost the square of that.
            self.sweep_above = 2 * self.gates.len();
        }
        let owner = owner_of(job);
        let gate = self.gates.entry(owner.clone()).or_default();
        (gate.most, gate.known) = (most, true);
        self.open.insert(owner);
    }
}

fn owner_of(job: &JobKey) -> Owner {
    Owner::Job(job.caller.clone(), job.job.to_string())
}

impl Core {
    /// Whether the limit of this job is known: who changes it must tell.
    pub(crate) fn knows_limit(&self, job: &JobKey) -> bool {
        self.limits.gates.get(&owner_of(job)).is_some_and(|gate| gate.known)
    }

    /// How many tasks of a job may run at a time. To be told before one of them is ready.
    pub(crate) fn limit_job(&mut self, job: &JobKey, most: Option<u32>) {
        self.limits.set_job(job, most);
    }

    /// A lease that an earlier leader granted counts.
    pub(crate) fn count_inherited(&mut self, shard: ShardKey, spec: &TaskSpec) {
        self.limits.taken(shard, spec);
    }

    /// Lets into the waiting room whom no limit holds up any more.
    pub(super) fn let_through(&mut self) {
        for shard in self.limits.let_through() {
            if let Some(Tracked::Waiting(candidate)) = self.tracked.remove(&shard) {
                self.wait(candidate);
            }
        }
    }
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
