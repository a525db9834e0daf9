//! The executors as the leader sees them: rows, heartbeats, liveness.

use std::collections::{BTreeMap, HashMap, VecDeque};

use orloj_model::Command;
use orloj_model::executor::{Executor, ExecutorState};
use orloj_model::id::ExecutorId;
use orloj_model::key::ShardKey;
use orloj_wire::protocol::{Heartbeat, HeartbeatAck, Held as Holding, HeldState};

mod exec;
mod send;

use super::strays::Strays;
use super::{Core, Now, Step, Tracked};

use exec::BACKOFF_MS;
pub(crate) use exec::{Exec, Liveness};

impl Core {
    /// An executor's row as the tables have it. Leases of a life that is over are declared lost.
    pub(crate) fn executor_row(&mut self, row: Executor, now: Now) {
        let id = row.registration.id.clone();
        let fleet = self.fleet.register(&row.registration);
        let exec = self.executors.entry(id.clone()).or_insert_with(|| Exec {
            row: row.clone(),
            fleet,
            heard_at: now.mono_ms,
            liveness: Liveness::Alive,
            leaving: false,
            knows_round: false,
            announcing: false,
            held: BTreeMap::new(),
            vacated: 0,
            strays: Strays::default(),
            outbox: VecDeque::new(),
            pushing: false,
            stops: BTreeMap::new(),
            stopping: false,
            stop_again_at: 0,
            closed_until: 0,
            not_before: 0,
            backoff_ms: BACKOFF_MS,
            last: None,
        });
        let reborn = exec.incarnation() != row.registration.incarnation;
        let returned = row.state == ExecutorState::Online && !exec.is_there();
        if reborn || returned {
            exec.heard_at = now.mono_ms;
            exec.liveness = Liveness::Alive;
            exec.leaving = false;
            exec.last = None;
            exec.answered();
        }
        if reborn {
            exec.knows_round = false;
            exec.strays.clear(fleet, &mut self.fleet);
        }
        exec.row = row;
        exec.fleet = fleet;
        self.fleet.set_open(fleet, exec.takes_work(now));
        self.lose_what_is_over(&id);
    }

    /// Declares lost what an executor that is not there any more, or is another life now, held.
    fn lose_what_is_over(&mut self, id: &ExecutorId) {
        let Some(exec) = self.executors.get(id) else { return };
        let mut commands = Vec::new();
        for shard in exec.held.keys() {
            if let Some(Tracked::Held(held)) = self.tracked.get(shard)
                && !exec.row.may_hold(held.incarnation)
            {
                let chance = chance(held.lease.fence, *shard);
                commands.push(Command::Lose { shard: (*shard).into(), fence: held.lease.fence, chance });
            }
        }
        if !commands.is_empty() {
            self.steps.push(Step::Propose(commands));
        }
    }

    /// A heartbeat came. Compares what the executor holds with its leases.
    pub(crate) fn heartbeat(&mut self, beat: Heartbeat, now: Now) -> HeartbeatAck {
        let mut ack =
            HeartbeatAck { round: self.round, register: false, superseded: false, stale: Vec::new() };
        let known = ExecutorId::new(beat.executor_id.as_str()).ok();
        let Some(exec) = known.as_ref().and_then(|id| self.executors.get_mut(id)) else {
            ack.register = true;
            return ack;
        };
        if exec.incarnation() > beat.incarnation {
            ack.superseded = true;
            return ack;
        }
        if exec.incarnation() != beat.incarnation || !exec.is_there() {
            ack.register = true;
            return ack;
        }
        if beat.round != self.round {
            // Of a later one: a later leader has spoken to it, and what this one believes of its leases is out of date. Of
            // an earlier one: somebody may have captured and repeated it, of an executor that is no more, or holds
            // something else by now. Whether it lives, and with what, tells the next one, which knows of this round.
            return ack;
        }
        exec.heard_at = now.mono_ms;
        exec.liveness = Liveness::Alive;
        exec.leaving = beat.draining;
        exec.knows_round = true;
        exec.last = Some(beat.clone());
        let (id, fleet, takes_work) = (exec.id().clone(), exec.fleet, exec.takes_work(now));
        self.fleet.set_open(fleet, takes_work);
        self.fleet.observe_cpu(fleet, beat.cpu_pct, now.mono_ms);
        ack.stale = self.compare(&id, &beat.holding, true, now);
        self.observe_strays(&id, &ack.stale);
        ack
    }

    /// What an executor holds against its leases: answers with what it holds without one.
    pub(crate) fn compare(
        &mut self,
        id: &ExecutorId,
        holding: &[Holding],
        knows_round: bool,
        now: Now,
    ) -> Vec<orloj_wire::protocol::AttemptRef> {
        let mut stale = Vec::new();
        let mut seen = HashMap::new();
        for holding in holding {
            match super::leases::lease_of(&holding.attempt) {
                Some(lease) if self.holds(id, lease) => {
                    seen.insert(lease.shard, holding.running_ms);
                }
                // Its report is on its way and will be told that it is late.
                _ if holding.state == HeldState::Reporting => {}
                _ => stale.push(holding.attempt.clone()),
            }
        }
        let shards: Vec<_> = match self.executors.get(id) {
            Some(exec) => exec.held.keys().copied().collect(),
            None => Vec::new(),
        };
        for shard in shards {
            match seen.get(&shard) {
                Some(running_ms) => self.seen(shard, *running_ms, now),
                None => self.unseen(shard, knows_round),
            }
        }
        stale
    }

    /// Looks at every executor: who is silent, who has not heard of the round, who has something waiting.
    pub(crate) fn tend_executors(&mut self, now: Now) {
        let silence = |beats: u32| u64::from(beats) * self.options.heartbeat_ms;
        let (suspect, offline) = (silence(self.options.suspect_after), silence(self.options.offline_after));
        let mut gone = Vec::new();
        for exec in self.executors.values_mut().filter(|exec| exec.is_there()) {
            let silent = now.mono_ms.saturating_sub(exec.heard_at);
            if silent > offline && exec.liveness != Liveness::Gone {
                exec.liveness = Liveness::Gone;
                gone.push(Command::ExecutorGone {
                    executor: exec.row.registration.id.clone(),
                    incarnation: exec.row.registration.incarnation,
                });
            } else if silent > suspect && exec.liveness == Liveness::Alive {
                exec.liveness = Liveness::Suspect;
            }
            self.fleet.set_open(exec.fleet, exec.takes_work(now));
        }
        if !gone.is_empty() {
            self.steps.push(Step::Propose(gone));
        }
        self.send(now);
        let (waiting, limits) = (&self.waiting, &self.limits);
        self.fleet.trim_classes(|class| waiting.len_of(class) > 0 || limits.know(class));
    }

    /// The leader itself stood still (paused, starved): its silence is not the executors'.
    pub(crate) fn forgive(&mut self, gap_ms: u64, now: Now) {
        for exec in self.executors.values_mut() {
            exec.heard_at = exec.heard_at.saturating_add(gap_ms).min(now.mono_ms);
        }
    }

    /// An executor, for the shell.
    pub(crate) fn executor(&self, id: &ExecutorId) -> Option<&Exec> {
        self.executors.get(id)
    }

    /// Every executor, for the probe.
    pub(crate) fn executors(&self) -> impl Iterator<Item = &Exec> {
        self.executors.values()
    }
}

/// Jitter of a retry, 0-1000: no randomness is needed where the fence already differs.
pub(crate) fn chance(fence: u64, shard: ShardKey) -> u16 {
    let mut bytes = [0; 26];
    bytes[..8].copy_from_slice(&fence.to_be_bytes());
    bytes[8..24].copy_from_slice(&shard.task.0);
    bytes[24..].copy_from_slice(&shard.shard.to_be_bytes());
    (xxhash_rust::xxh3::xxh3_64(&bytes) % 1001) as u16
}
