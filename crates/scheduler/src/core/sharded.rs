//! Tasks of several shards: which of them are in hand, and where they run, so that the others go elsewhere.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use orloj_model::Command;
use orloj_model::command::GraphCommand;
use orloj_model::id::{ExecutorId, TaskId};
use orloj_model::key::ShardKey;
use orloj_model::task::Strategy;
use orloj_model::{Refusal, Reply};

use super::demand::Demand;
use super::{Core, Now, Tracked};
use crate::placement::{ExecutorIdx, ExecutorSet};
use crate::waiting::{Answer, Waiting};

static NONE: ExecutorSet = ExecutorSet::new();

/// See the module. A task is here from the first of its shards but number 0 until it has ended.
#[derive(Debug, Default)]
pub(super) struct Sharded(HashMap<TaskId, OfTask>);

#[derive(Debug, Default)]
struct OfTask {
    shards: BTreeSet<u16>,
    /// Which executor holds a shard.
    placed: BTreeMap<u16, ExecutorIdx>,
    /// How many of these each executor holds.
    held: HashMap<ExecutorIdx, u16>,
    /// Those that hold one.
    holders: ExecutorSet,
}

impl OfTask {
    /// An executor holds one shard less.
    fn give_up(&mut self, executor: ExecutorIdx) {
        let Some(held) = self.held.get_mut(&executor) else { return };
        *held -= 1;
        if *held == 0 {
            self.held.remove(&executor);
            self.holders.remove(executor);
        }
    }
}

impl Sharded {
    /// A shard is in hand.
    pub(super) fn note(&mut self, shard: ShardKey) {
        if shard.shard > 0 {
            self.0.entry(shard.task).or_default().shards.insert(shard.shard);
        }
    }

    /// The task has ended: those of its shards that were in hand, but number 0.
    fn end(&mut self, task: TaskId) -> BTreeSet<u16> {
        self.0.remove(&task).map(|of| of.shards).unwrap_or_default()
    }

    /// An executor was chosen for a shard, or holds it.
    pub(super) fn taken(&mut self, shard: ShardKey, executor: ExecutorIdx) {
        if let Some(of) = self.0.get_mut(&shard.task) {
            if let Some(before) = of.placed.insert(shard.shard, executor) {
                of.give_up(before);
            }
            *of.held.entry(executor).or_default() += 1;
            of.holders.insert(executor);
        }
    }

    /// It does not hold it any more.
    pub(super) fn left(&mut self, shard: ShardKey, executor: ExecutorIdx) {
        let Some(of) = self.0.get_mut(&shard.task) else { return };
        // Number 0 may have been placed before anything was known of the others: then it is not counted.
        if of.placed.get(&shard.shard) == Some(&executor) {
            of.placed.remove(&shard.shard);
            of.give_up(executor);
        }
    }

    /// The executors that hold a shard of this task.
    pub(super) fn holders(&self, task: TaskId) -> &ExecutorSet {
        self.0.get(&task).map_or(&NONE, |of| &of.holders)
    }
}

impl Core {
    /// A task has ended: nothing of it waits any more. Leases and grants end by themselves.
    pub(super) fn forget_task(&mut self, task: TaskId) {
        for number in std::iter::once(0).chain(self.sharded.end(task)) {
            let shard = ShardKey { task, shard: number };
            if !matches!(self.tracked.get(&shard), Some(Tracked::Granting { .. } | Tracked::Held(_))) {
                self.forget(shard);
            }
        }
    }

    /// A broadcast that is due: it gets a shard for each executor that takes work and has the handler. While there is
    /// none it waits.
    pub(super) fn aim(&mut self, waiting: &Waiting, commands: &mut Vec<Command>) -> Answer {
        let fleet = &self.fleet;
        let open = fleet.members(waiting.class).iter().filter(|idx| fleet.is_open(**idx));
        let targets: Vec<ExecutorId> = open
            .filter_map(|idx| fleet.id(*idx).cloned())
            .take(usize::from(orloj_model::task::MAX_SHARDS))
            .collect();
        if targets.is_empty() {
            return Answer::Blocked;
        }
        let task = waiting.shard.task;
        commands.push(Command::Graph(Box::new(GraphCommand::Aim { task, targets })));
        // What becomes of it is told by events, of this shard as of the others.
        self.tracked.remove(&waiting.shard);
        Answer::Taken
    }

    /// What to do with a shard that found no place: of a broadcast whose executor is not there any more, nobody else
    /// can take it.
    pub(super) fn strand(&mut self, waiting: &Waiting, commands: &mut Vec<Command>) -> Answer {
        let Some(Tracked::Waiting(waiter)) = self.tracked.get(&waiting.shard) else {
            return Answer::Taken;
        };
        let Some(executor) = target(&waiter.demand) else { return Answer::Blocked };
        if self.executors.get(executor).is_some_and(super::Exec::is_there) {
            return Answer::Blocked;
        }
        let (shard, executor) = (waiting.shard.into(), executor.clone());
        commands.push(Command::Graph(Box::new(GraphCommand::Strand { shard, executor })));
        // A limit may have let it through: the next one may go in its place.
        self.limits.gone(waiting.shard, &waiter.demand.owners);
        self.tracked.remove(&waiting.shard);
        Answer::Taken
    }

    /// A command about a graph was applied. Those that took effect speak through events.
    pub(super) fn graph_applied(&mut self, command: &GraphCommand, reply: &Reply, now: Now) {
        let shard = match command {
            GraphCommand::Aim { task, .. } => ShardKey { task: *task, shard: 0 },
            GraphCommand::Strand { shard, .. } => (*shard).into(),
            _ => return,
        };
        match reply {
            Reply::Refused(Refusal::NotDue { due_at }) => {
                self.track_due(shard, *due_at, orloj_model::task::DueClock::Wall, now);
            }
            Reply::Refused(Refusal::ExecutorAlive | Refusal::StaleGraph) => self.look_again(shard),
            _ => {}
        }
    }
}

/// The one executor that the shard of a broadcast is for.
fn target(demand: &Demand) -> Option<&ExecutorId> {
    match &demand.strategy {
        Strategy::Pinned(executor) if demand.broadcast => Some(executor),
        _ => None,
    }
}

#[cfg(test)]
#[path = "sharded_tests.rs"]
mod tests;
