//! A fire and the grant of its task in one entry.
//!
//! A task that a job makes is due as it is made, and the leader knows everything of it before that. So it is placed
//! beside what waits already, in the waiting room's own order, and its grant goes into the log right behind its fire,
//! which spares it a second round through the log. Nothing rests on it. Where the fire makes no task, or one that waits for
//! others, the grant is refused, as any other that was believed in wrongly; and a task that finds no place now has its
//! turn when it is there.

use std::collections::{HashMap, HashSet};

use orloj_model::Command;
use orloj_model::id::{Millis, TaskId};
use orloj_model::key::ShardKey;

use super::plan::NO_ROOM_PAUSE_MS;
use super::{Candidate, Core, Now, Step, Tracked};

/// A command that a look at a job, or at what else there is to do for jobs, has come to.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    /// Which of the duties that propose something it is for.
    pub duty: usize,
    pub command: Command,
    /// The task that the command makes when all goes well, if that is due at once and has one shard.
    pub task: Option<Candidate>,
}

impl Core {
    /// What to propose, in order: each command with its duty, and behind a fire the grant of its task where that has found
    /// an executor. What limits the jobs is known by then.
    pub(crate) fn with_grants(&mut self, planned: Vec<Planned>, now: Now) -> Vec<(Option<usize>, Command)> {
        let unborn: Vec<Candidate> = planned.iter().filter_map(|planned| planned.task.clone()).collect();
        let mut grants = self.grants_of_unborn(unborn, now);
        let mut commands = Vec::with_capacity(planned.len() + grants.len());
        for Planned { duty, command, task } in planned {
            commands.push((Some(duty), command));
            let grant = task.and_then(|candidate| grants.remove(&candidate.shard));
            commands.extend(grant.map(|grant| (None, grant)));
        }
        commands
    }

    /// Lets tasks that are not there yet wait for one plan, beside everybody else. Who finds no place in it is forgotten.
    fn grants_of_unborn(&mut self, unborn: Vec<Candidate>, now: Now) -> HashMap<ShardKey, Command> {
        let mut grants = HashMap::new();
        // More is due than one tick reads: that has been due for longer.
        if unborn.is_empty() || !self.due.is_empty() {
            return grants;
        }
        let shards: Vec<ShardKey> = unborn.iter().map(|candidate| candidate.shard).collect();
        for candidate in unborn {
            let waiter = self.waiter(&candidate);
            self.wait(candidate.shard, waiter);
        }
        let before = std::mem::take(&mut self.steps);
        self.plan(now);
        let after = std::mem::replace(&mut self.steps, before);
        let names: HashSet<ShardKey> = shards.iter().copied().collect();
        for step in after {
            let Step::Propose(commands) = step else {
                self.steps.push(step);
                continue;
            };
            let mut others = Vec::new();
            for command in commands {
                match granted(&command).filter(|shard| names.contains(shard)) {
                    Some(shard) => drop(grants.insert(shard, command)),
                    None => others.push(command),
                }
            }
            if !others.is_empty() {
                self.steps.push(Step::Propose(others));
            }
        }
        for shard in shards {
            match self.tracked.get(&shard) {
                Some(Tracked::Waiting(_)) => drop(self.forget(shard)),
                // Should its grant be refused for its executor's sake, it is one that waits, as any other.
                _ => self.unready.push_back((shard, now.mono_ms)),
            }
        }
        grants
    }

    /// Fires did not get into the log, and neither did the grants of their tasks: there are no such tasks. No other grant
    /// is tried for a while, unless there was none among them: smaller proposals may find the room that these did not.
    pub(crate) fn not_fired(&mut self, grants: &[Command], now: Now) {
        if grants.is_empty() {
            return;
        }
        self.no_grants_before = now.mono_ms + NO_ROOM_PAUSE_MS;
        for shard in grants.iter().filter_map(granted) {
            if matches!(self.tracked.get(&shard), Some(Tracked::Granting { .. })) {
                self.forget(shard);
            }
        }
    }

    /// Whether a task that was made is about to be placed. Of one that was granted with its creation everything is in hand,
    /// or has been used already.
    pub(crate) fn is_wanted(&self, task: TaskId, due_at: Millis) -> bool {
        let placed = self.tracked.get(&ShardKey { task, shard: 0 });
        self.is_near(due_at) && !matches!(placed, Some(Tracked::Granting { .. } | Tracked::Held(_)))
    }

    /// Since when a shard has been due whose grant is on its way.
    pub(crate) fn granting(&self, shard: ShardKey) -> Option<Millis> {
        match self.tracked.get(&shard) {
            Some(Tracked::Granting { waiter, .. }) => Some(waiter.since),
            _ => None,
        }
    }
}

/// The shard that a command grants.
fn granted(command: &Command) -> Option<ShardKey> {
    match command {
        Command::Grant { shard, .. } => Some((*shard).into()),
        _ => None,
    }
}

#[cfg(test)]
#[path = "fires_tests.rs"]
mod tests;
