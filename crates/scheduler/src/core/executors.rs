//! The executors as the leader sees them: rows, heartbeats, liveness.

use std::collections::{BTreeMap, HashMap, VecDeque};

use orloj_model::Command;
use orloj_model::executor::{Executor, ExecutorState};
use orloj_model::id::{ExecutorId, Incarnation};
use orloj_model::key::ShardKey;
use orloj_wire::protocol::{CancelReason, Heartbeat, HeartbeatAck, Held as Holding, HeldState};

use super::strays::Strays;
use super::{Core, HeldPhase, Lease, Now, Step, Tracked};
use crate::placement::{ExecutorIdx, Fleet};

/// How long to wait before a push or an announcement that failed is tried again: doubles up to the limit, in
/// milliseconds.
const BACKOFF_MS: u64 = 100;
const BACKOFF_LIMIT_MS: u64 = 2_000;
/// How long an executor that refused an attempt gets nothing new, in milliseconds.
const CLOSED_MS: u64 = 500;

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
    row: Executor,
    fleet: ExecutorIdx,
    /// When it was last heard, monotonic; a new leader starts from now.
    heard_at: u64,
    liveness: Liveness,
    /// It said in a heartbeat that it is leaving.
    leaving: bool,
    /// It has acknowledged this leader's round.
    knows_round: bool,
    announcing: bool,
    /// Leases, with the slot that each takes in the fleet.
    held: HashMap<ShardKey, ExecutorIdx>,
    /// What it runs without a lease.
    pub(super) strays: Strays,
    /// Leases that have not been pushed, oldest first.
    pub(super) outbox: VecDeque<ShardKey>,
    pushing: bool,
    /// Attempts to stop. An executor may hold two of one shard: a lost one that does not stop, and its lease.
    stops: BTreeMap<Lease, CancelReason>,
    stopping: bool,
    /// What is not over by then is asked to stop again, monotonic.
    stop_again_at: u64,
    /// It refused an attempt: it gets nothing new until then, monotonic.
    closed_until: u64,
    /// Not before then is anything sent again, monotonic.
    not_before: u64,
    backoff_ms: u64,
    last: Option<Heartbeat>,
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
    pub(super) fn slot(&self) -> ExecutorIdx {
        self.fleet
    }

    pub(super) fn hold(&mut self, shard: ShardKey, slot: ExecutorIdx) {
        self.held.insert(shard, slot);
    }

    /// Its lease of this shard is over.
    pub(super) fn forget(&mut self, lease: Lease, fleet: &mut Fleet) {
        if let Some(slot) = self.held.remove(&lease.shard) {
            fleet.give_back(slot);
        }
        self.outbox.retain(|queued| *queued != lease.shard);
        self.stops.remove(&lease);
    }

    fn takes_work(&self, now: Now) -> bool {
        self.row.state == ExecutorState::Online
            && self.liveness == Liveness::Alive
            && !self.leaving
            && self.closed_until <= now.mono_ms
            && !self.unreachable()
    }

    /// Its heartbeats come and pushes to it fail, again and again: what it has not got yet is enough.
    fn unreachable(&self) -> bool {
        self.backoff_ms == BACKOFF_LIMIT_MS && (self.pushing || !self.outbox.is_empty())
    }

    fn is_there(&self) -> bool {
        matches!(self.row.state, ExecutorState::Online | ExecutorState::Draining)
    }

    fn failed(&mut self, now: Now) {
        self.not_before = now.mono_ms + self.backoff_ms;
        self.backoff_ms = (self.backoff_ms * 2).min(BACKOFF_LIMIT_MS);
    }

    fn answered(&mut self) {
        self.not_before = 0;
        self.backoff_ms = BACKOFF_MS;
    }
}

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
            held: HashMap::new(),
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
        if beat.round > self.round {
            // A later leader has spoken to it. What this one believes of its leases is out of date.
            return ack;
        }
        exec.heard_at = now.mono_ms;
        exec.liveness = Liveness::Alive;
        exec.leaving = beat.draining;
        exec.knows_round |= beat.round >= self.round;
        let (id, fleet, takes_work) = (exec.id().clone(), exec.fleet, exec.takes_work(now));
        let knows_round = exec.knows_round;
        exec.last = Some(beat.clone());
        self.fleet.set_open(fleet, takes_work);
        self.fleet.observe_cpu(fleet, beat.cpu_pct, now.mono_ms);
        ack.stale = self.compare(&id, &beat.holding, knows_round, now);
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
        let waiting = &self.waiting;
        self.fleet.trim_classes(|class| waiting.len_of(class) > 0);
    }

    /// The leader itself stood still (paused, starved): its silence is not the executors'.
    pub(crate) fn forgive(&mut self, gap_ms: u64, now: Now) {
        for exec in self.executors.values_mut() {
            exec.heard_at = exec.heard_at.saturating_add(gap_ms).min(now.mono_ms);
        }
    }

    /// Hands to the shell what can be sent to executors now: one push, one stop and one announcement at a
    /// time for each.
    pub(crate) fn send(&mut self, now: Now) {
        let mut steps = Vec::new();
        for exec in self.executors.values_mut() {
            if !exec.is_there() || exec.not_before > now.mono_ms {
                continue;
            }
            let id = exec.row.registration.id.clone();
            if !exec.knows_round && !exec.announcing {
                exec.announcing = true;
                steps.push(Step::Announce { executor: id.clone() });
            }
            if !exec.pushing && !exec.outbox.is_empty() {
                let count = exec.outbox.len().min(super::leases::PUSH_LIMIT);
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
                    steps.push(Step::Push { executor: id.clone(), leases });
                }
            }
            if !exec.stopping
                && exec.stop_again_at <= now.mono_ms
                && let Some((_, reason)) = exec.stops.first_key_value()
            {
                exec.stopping = true;
                let reason = *reason;
                let same = exec.stops.iter().filter(|(_, other)| **other == reason);
                let leases = same.map(|(lease, _)| *lease).take(super::leases::PUSH_LIMIT).collect();
                steps.push(Step::Cancel { executor: id, reason, leases });
            }
        }
        self.steps.extend(steps);
    }

    /// An announcement was answered with what the executor holds, or failed.
    pub(crate) fn announced(
        &mut self,
        id: &ExecutorId,
        answer: Option<(Incarnation, Vec<Holding>)>,
        now: Now,
    ) {
        let Some(exec) = self.executors.get_mut(id) else { return };
        exec.announcing = false;
        match answer {
            Some((incarnation, holding)) if incarnation == exec.incarnation() => {
                exec.knows_round = true;
                exec.answered();
                let stale = self.compare(id, &holding, true, now);
                for lease in stale.iter().filter_map(super::leases::lease_of) {
                    self.stop(id, lease, CancelReason::LeaseLost);
                }
                self.send(now);
            }
            // Another life answers: it will register.
            _ => exec.failed(now),
        }
    }

    pub(super) fn push_answered(&mut self, id: &ExecutorId, ok: bool, now: Now) {
        let Some(exec) = self.executors.get_mut(id) else { return };
        exec.pushing = false;
        if ok { exec.answered() } else { exec.failed(now) }
    }

    /// An executor that refused is left alone for a while, whatever the leader believes of its slots.
    pub(super) fn refused(&mut self, id: &ExecutorId, now: Now) {
        let Some(exec) = self.executors.get_mut(id) else { return };
        exec.closed_until = now.mono_ms + CLOSED_MS;
        self.fleet.set_open(exec.fleet, false);
    }

    pub(super) fn stop_answered(&mut self, id: &ExecutorId, now: Now) {
        let Some(exec) = self.executors.get_mut(id) else { return };
        exec.stopping = false;
        exec.stop_again_at = now.mono_ms + BACKOFF_MS;
    }

    /// The executor shall stop an attempt.
    pub(super) fn stop(&mut self, id: &ExecutorId, lease: Lease, reason: CancelReason) {
        if let Some(exec) = self.executors.get_mut(id) {
            exec.stops.insert(lease, reason);
        }
    }

    pub(super) fn stopped(&mut self, id: &ExecutorId, lease: &Lease) {
        if let Some(exec) = self.executors.get_mut(id) {
            exec.stops.remove(lease);
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
pub(super) fn chance(fence: u64, shard: ShardKey) -> u16 {
    let mut bytes = [0; 26];
    bytes[..8].copy_from_slice(&fence.to_be_bytes());
    bytes[8..24].copy_from_slice(&shard.task.0);
    bytes[24..].copy_from_slice(&shard.shard.to_be_bytes());
    (xxhash_rust::xxh3::xxh3_64(&bytes) % 1001) as u16
}
