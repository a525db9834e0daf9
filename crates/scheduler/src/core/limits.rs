//! How many tasks of a job, and of a caller, may run at a time.
//!
//! What is over a limit is *parked*: it stays ready, but out of the waiting room, so that a hundred thousand tasks of one
//! job that wait for each other cost nothing in a pass over the room. When places are free, those who are first in the
//! room's own order go back into it: of each demand class as many as there are places, and no more before one of these
//! has been placed or has gone. So whoever finds no executor holds up nobody of another class, and those behind it stay
//! parked. A task counts once, however many shards of it run.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use orloj_model::id::{CallerId, Millis, TaskId};
use orloj_model::job::JobKey;
use orloj_model::key::ShardKey;
use orloj_model::mutant::{Mutant, is_on};
use orloj_model::task::TaskSpec;

use super::{Core, Tracked};
use crate::placement::ClassId;
use crate::waiting::{Turn, Waiting};

/// Jobs without a limit, of which that is known although none of their tasks runs; more are forgotten. Where more jobs
/// have a limit, as many as those are kept beside them.
const KEPT_JOBS: usize = 16_384;

/// The most shards that one pass lets through. Where two limits meet, one may let through what the other holds up.
const THROUGH_PER_PASS: usize = 1_024;

/// Whose limit it is. Tasks that ask for the same share one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Owner(Arc<Name>);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Name {
    Job(CallerId, String),
    Caller(CallerId),
}

impl Owner {
    fn job(caller: &CallerId, job: &str) -> Owner {
        Owner(Arc::new(Name::Job(caller.clone(), job.to_owned())))
    }

    fn caller(caller: &CallerId) -> Owner {
        Owner(Arc::new(Name::Caller(caller.clone())))
    }
}

/// One limit, and who is held up by it.
#[derive(Debug, Default)]
struct Gate {
    /// `None` where there is no limit.
    most: Option<u32>,
    /// Somebody has told what the limit is. A task that runs is counted before that, too.
    known: bool,
    running: u32,
    parked: BTreeMap<ClassId, BTreeSet<Turn>>,
    /// How many of each class were let through and are in the room still.
    through: BTreeMap<ClassId, usize>,
}

impl Gate {
    fn free(&self) -> usize {
        self.most.map_or(usize::MAX, |most| most.saturating_sub(self.running) as usize)
    }

    fn park(&mut self, class: ClassId, turn: Turn) {
        self.parked.entry(class).or_default().insert(turn);
    }

    fn unpark(&mut self, class: ClassId, turn: Turn) {
        if let Some(turns) = self.parked.get_mut(&class) {
            turns.remove(&turn);
            if turns.is_empty() {
                self.parked.remove(&class);
            }
        }
    }

    /// One that was let through is in the room no more.
    fn step_out(&mut self, class: ClassId) {
        if let Some(count) = self.through.get_mut(&class) {
            *count -= 1;
            if *count == 0 {
                self.through.remove(&class);
            }
        }
    }

    /// Lets through as many of each class as there are places, at most `left` in all.
    fn let_through(&mut self, left: &mut usize) -> Vec<(ClassId, ShardKey)> {
        let (free, mut through) = (self.free(), Vec::new());
        for (class, turns) in &mut self.parked {
            let inside = self.through.get(class).copied().unwrap_or_default();
            let places = free.saturating_sub(inside).min(*left);
            let first = std::iter::from_fn(|| turns.pop_first()).take(places);
            let before = through.len();
            through.extend(first.map(|turn| (*class, turn.shard)));
            let count = through.len() - before;
            *left -= count;
            if count > 0 {
                self.through.insert(*class, inside + count);
            }
        }
        self.parked.retain(|_, turns| !turns.is_empty());
        through
    }
}

/// Where a shard that is held up is parked: its turn, without its name, and in which class of whose gate. There may be as
/// many as tasks that wait.
#[derive(Debug)]
struct Parked {
    owner: Owner,
    at: Millis,
    class: ClassId,
    priority: u8,
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
    /// Of callers, from the configuration: whatever the tables say of them.
    callers: BTreeMap<CallerId, u32>,
    gates: HashMap<Owner, Gate>,
    tasks: HashMap<TaskId, Running>,
    /// What is held up, and by whose limit. In order, so that the shards of a task are together.
    parked: BTreeMap<ShardKey, Parked>,
    /// What was let through and is in the room still, and by whose limit.
    through: HashMap<ShardKey, (Owner, ClassId)>,
    /// How many of either kind there are of each class, which must not become another one's meanwhile.
    classes: HashMap<ClassId, usize>,
    /// Shards of tasks that have begun to run: no limit holds them up any more.
    released: Vec<ShardKey>,
    /// Gates that may let somebody through.
    open: BTreeSet<Owner>,
    /// How many gates the last sweep said there may be before the next one; [`KEPT_JOBS`] at least.
    sweep_above: usize,
}

impl Limits {
    /// With these limits of callers; those of others, and of jobs, are told later.
    pub(super) fn new(callers: BTreeMap<CallerId, u32>) -> Self {
        let gate = |(caller, most): (&CallerId, &u32)| {
            (Owner::caller(caller), Gate { most: Some(*most), known: true, ..Gate::default() })
        };
        Limits { gates: callers.iter().map(gate).collect(), callers, ..Limits::default() }
    }

    /// How many shards are held up.
    pub(super) fn parked(&self) -> usize {
        self.parked.len()
    }

    /// Whether something of this class is held up, or was let through and is in the room still.
    pub(super) fn know(&self, class: ClassId) -> bool {
        self.classes.contains_key(&class)
    }

    /// One of this class is neither held up nor let through any more.
    fn uncount(&mut self, class: ClassId) {
        if let Some(count) = self.classes.get_mut(&class) {
            *count -= 1;
            if *count == 0 {
                self.classes.remove(&class);
            }
        }
    }

    /// Holds a shard up where its task would be one too many; whether it did.
    pub(super) fn hold_up(&mut self, waiting: &Waiting, owners: &[Owner]) -> bool {
        if self.tasks.contains_key(&waiting.shard.task) || is_on(Mutant::LimitIgnored) {
            return false;
        }
        let is_full = |owner: &Owner| self.gates.get(owner).is_some_and(|gate| gate.free() == 0);
        let Some(owner) = owners.iter().find(|owner| is_full(owner)).cloned() else { return false };
        let (shard, class, turn) = (waiting.shard, waiting.class, waiting.turn());
        // A place that another limit has left for it is somebody else's.
        self.open.extend(owners.iter().filter(|other| **other != owner).cloned());
        self.step_out(shard);
        self.gates.entry(owner.clone()).or_default().park(class, turn);
        *self.classes.entry(class).or_default() += 1;
        let parked = Parked { owner, at: turn.at, class, priority: turn.priority };
        if let Some(before) = self.parked.insert(shard, parked) {
            self.uncount(before.class);
        }
        true
    }

    /// A shard that was let through is in the room no more.
    fn step_out(&mut self, shard: ShardKey) {
        let Some((owner, class)) = self.through.remove(&shard) else { return };
        self.uncount(class);
        if let Some(gate) = self.gates.get_mut(&owner) {
            gate.step_out(class);
        }
    }

    /// A shard is parked no more; whether it was.
    fn unpark(&mut self, shard: ShardKey) -> bool {
        let Some(Parked { owner, at, class, priority }) = self.parked.remove(&shard) else { return false };
        self.uncount(class);
        if let Some(gate) = self.gates.get_mut(&owner) {
            gate.unpark(class, Turn { at, shard, priority });
        }
        true
    }

    /// A shard is about to run, or runs.
    pub(super) fn taken(&mut self, shard: ShardKey, owners: &[Owner]) {
        self.step_out(shard);
        if let Some(running) = self.tasks.get_mut(&shard.task) {
            running.shards.insert(shard.shard);
            return;
        }
        for owner in owners {
            self.gates.entry(owner.clone()).or_default().running += 1;
        }
        let owners = owners.to_vec();
        self.tasks.insert(shard.task, Running { owners, shards: BTreeSet::from([shard.shard]) });
        let of_task = ShardKey { shard: 0, ..shard }..=ShardKey { shard: u16::MAX, ..shard };
        let others: Vec<ShardKey> = self.parked.range(of_task).map(|(other, _)| *other).collect();
        for other in others {
            self.unpark(other);
            self.released.push(other);
        }
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
    pub(super) fn gone(&mut self, shard: ShardKey, owners: &[Owner]) {
        self.unpark(shard);
        self.step_out(shard);
        self.open.extend(owners.iter().cloned());
    }

    /// Those that may go back into the room, at most `left` by the limits that hold them up.
    fn let_through(&mut self, left: &mut usize) -> Vec<ShardKey> {
        let mut through = std::mem::take(&mut self.released);
        for owner in std::mem::take(&mut self.open) {
            if *left == 0 {
                // With the next pass.
                self.open.insert(owner);
                continue;
            }
            let Some(gate) = self.gates.get_mut(&owner) else { continue };
            for (class, shard) in gate.let_through(left) {
                self.parked.remove(&shard);
                self.through.insert(shard, (owner.clone(), class));
                through.push(shard);
            }
            if *left == 0 {
                self.open.insert(owner);
            }
        }
        through
    }

    fn set_job(&mut self, job: &JobKey, most: Option<u32>) {
        if self.gates.len() > self.sweep_above.max(KEPT_JOBS) {
            let in_use = |_: &Owner, gate: &mut Gate| {
                // One with a limit may have tasks in the room.
                gate.running > 0 || gate.most.is_some() || !gate.parked.is_empty()
            };
            self.gates.retain(in_use);
            // A sweep looks at every gate. Were there one for each new job once many have limits, a hundred thousand
            // jobs would cost the square of that.
            self.sweep_above = 2 * self.gates.len();
        }
        self.set(owner_of(job), most);
    }

    fn set(&mut self, owner: Owner, most: Option<u32>) {
        let gate = self.gates.entry(owner.clone()).or_default();
        (gate.most, gate.known) = (most, true);
        self.open.insert(owner);
    }
}

/// Whose limits a task counts against. Its caller's always, whether there is one or not: one may be set while it runs.
pub(super) fn owners_of(spec: &TaskSpec) -> Vec<Owner> {
    let job = spec.origin.job().map(|(job, _)| Owner::job(&spec.caller, job));
    job.into_iter().chain([Owner::caller(&spec.caller)]).collect()
}

fn owner_of(job: &JobKey) -> Owner {
    Owner::job(&job.caller, job.job.as_str())
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

    /// How many tasks of a caller may run at a time, as the tables say. What the configuration says of it stands above that.
    pub(crate) fn limit_caller(&mut self, caller: &CallerId, most: Option<u32>) {
        if !self.limits.callers.contains_key(caller) {
            self.limits.set(Owner::caller(caller), most);
        }
    }

    /// A lease that an earlier leader granted counts.
    pub(crate) fn count_inherited(&mut self, shard: ShardKey, spec: &TaskSpec) {
        // Those of one caller and job share their names, as those that wait do.
        let demand = self.shared.demand(spec, false);
        self.limits.taken(shard, &demand.owners);
    }

    /// Lets into the waiting room whom no limit holds up any more. Whoever another limit holds up makes room for the
    /// next one.
    pub(super) fn let_through(&mut self) {
        let mut left = THROUGH_PER_PASS;
        loop {
            let through = self.limits.let_through(&mut left);
            if through.is_empty() {
                return;
            }
            for shard in through {
                if !matches!(self.tracked.get(&shard), Some(Tracked::Waiting(_))) {
                    continue;
                }
                if let Some(Tracked::Waiting(waiter)) = self.tracked.remove(&shard) {
                    self.wait_on(shard, waiter);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
