//! From the waiting room to a grant.

use orloj_model::command::ShardRef;
use orloj_model::id::{ExecutorId, Incarnation, Millis};
use orloj_model::key::ShardKey;
use orloj_model::mutant::{Mutant, is_on};
use orloj_model::task::{DueClock, Strategy};
use orloj_model::{Command, Refusal, Reply};

use super::demand::Waiter;
use super::{Candidate, Core, Held, HeldPhase, Lease, Now, Step, Tracked};
use crate::placement::{ExecutorIdx, Wanted};
use crate::ring::KeyHash;
use crate::waiting::{Answer, Waiting};

/// The most grants in one call of [`Core::plan`]: one entry of the proposer.
const GRANTS_PER_PLAN: usize = 512;
/// The most grants that have been proposed and not answered: enough to keep the log's sync busy.
const GRANTS_IN_FLIGHT: usize = 2_048;
/// A shard that has waited this long is written to the ready index, so that its status says `ready` and a
/// new leader finds it in order, in milliseconds.
const READY_AFTER_MS: u64 = 1_000;
/// How long no grant is proposed after the log had no room for one, in milliseconds.
pub(super) const NO_ROOM_PAUSE_MS: u64 = 100;
/// The most commands that are proposed again in one call of [`Core::retry`]: one entry of the proposer.
const AGAIN_PER_CALL: usize = 512;
/// How many entries of the list of those to write down may be out of date, or of shards that are being granted.
const UNREADY_SLACK: usize = 4_096;
/// The most shards written to the ready index in one call, and only while no grant is on its way.
const READY_PER_PLAN: usize = 256;

impl Core {
    /// The rows of a due shard were read.
    pub(crate) fn ready(&mut self, candidate: Candidate, now: Now) {
        let shard = candidate.shard;
        if matches!(
            self.tracked.get(&shard),
            Some(Tracked::Waiting(_) | Tracked::Granting { .. } | Tracked::Held(_))
        ) {
            return;
        }
        self.forget(shard);
        if !candidate.ready {
            self.unready.push_back((shard, now.mono_ms));
        }
        let waiter = self.waiter(&candidate);
        self.wait(shard, waiter);
    }

    /// A due shard turned out not to wait any more.
    pub(crate) fn not_waiting(&mut self, shard: ShardKey) {
        if matches!(self.tracked.get(&shard), Some(Tracked::Due)) {
            self.tracked.remove(&shard);
        }
    }

    pub(super) fn wait(&mut self, shard: ShardKey, waiter: Box<Waiter>) {
        self.sharded.note(shard);
        let waiting = waiter.waiting(shard);
        // A broadcast has no shards yet that a limit could count.
        let limited = waiter.demand.strategy != Strategy::Broadcast;
        if !limited || !self.limits.hold_up(&waiting, &waiter.demand.owners) {
            self.waiting.insert(waiting);
        }
        self.tracked.insert(shard, Tracked::Waiting(waiter));
    }

    /// Places what waits, most urgent first, and proposes the grants.
    pub(crate) fn plan(&mut self, now: Now) {
        let mut grants = Vec::new();
        let limit = match self.no_grants_before > now.mono_ms {
            true => 0,
            false => GRANTS_PER_PLAN.min(GRANTS_IN_FLIGHT.saturating_sub(self.granting)),
        };
        self.let_through();
        let mut room = std::mem::take(&mut self.waiting);
        room.offer(limit, |waiting| self.place(waiting, &mut grants));
        self.waiting = room;
        let waits = self.waiting.len() + self.limits.parked();
        if self.unready.len() > waits + waits / 4 + UNREADY_SLACK {
            let tracked = &self.tracked;
            // Whoever is being granted waits on where the grant comes to nothing.
            self.unready.retain(|(shard, _)| match tracked.get(shard) {
                Some(Tracked::Waiting(waiter) | Tracked::Granting { waiter, .. }) => !waiter.ready,
                _ => false,
            });
        }
        if !grants.is_empty() {
            self.steps.push(Step::Propose(grants));
        } else if self.granting == 0 {
            self.write_down_who_waits(now);
        }
    }

    /// Whether another call of [`Core::plan`] has something to do at once.
    pub(crate) fn has_more_to_plan(&self) -> bool {
        self.waiting.is_unfinished()
    }

    fn place(&mut self, waiting: &Waiting, grants: &mut Vec<Command>) -> Answer {
        let shard = waiting.shard;
        let Some(Tracked::Waiting(waiter)) = self.tracked.get(&shard) else { return Answer::Left };
        if waiter.demand.strategy == Strategy::Broadcast {
            return self.aim(waiting, grants);
        }
        if self.limits.hold_up(waiting, &waiter.demand.owners) {
            // It stays ready, and goes back into the room when there is a place for it.
            return Answer::Left;
        }
        let mut others = self.sharded.holders(shard.task);
        let with_last;
        if let Some(last) = waiter.last.as_ref().and_then(|last| self.fleet.find(last)) {
            let mut avoid = others.clone();
            avoid.insert(last);
            with_last = avoid;
            others = &with_last;
        }
        self.placements += 1;
        let wanted = Wanted {
            class: waiting.class,
            strategy: &waiter.demand.strategy,
            key: match is_on(Mutant::RingIgnored) {
                true => KeyHash::of_number(self.placements),
                false => KeyHash::of_number(waiter.key),
            },
            zone: waiter.demand.zone.as_deref(),
            avoid: others,
            may_queue: false,
            number: self.placements,
        };
        let Ok(executor) = self.fleet.take(&wanted) else { return self.strand(waiting, grants) };
        let exec = self.fleet.id(executor).and_then(|id| self.executors.get(id));
        let Some(exec) = exec else {
            self.fleet.give_back(executor);
            return Answer::Blocked;
        };
        grants.push(Command::Grant {
            shard: shard.into(),
            attempt: waiter.attempt,
            executor: exec.id().clone(),
            incarnation: exec.incarnation(),
        });
        if is_on(Mutant::PushBeforeGrant) {
            let lease = Lease { shard, attempt: waiter.attempt, fence: 1 };
            self.steps.push(Step::Push { executor: exec.id().clone(), leases: vec![lease] });
        }
        self.granting += 1;
        self.limits.taken(shard, &waiter.demand.owners);
        self.sharded.taken(shard, executor);
        if let Some(Tracked::Waiting(waiter)) = self.tracked.remove(&shard) {
            self.tracked.insert(shard, Tracked::Granting { waiter, executor });
        }
        Answer::Taken
    }

    /// Only while nothing else is on its way: the ready index is a convenience, the due index is the truth.
    fn write_down_who_waits(&mut self, now: Now) {
        let mut commands = Vec::new();
        while commands.len() < READY_PER_PLAN {
            match self.unready.front() {
                Some((_, since)) if now.mono_ms.saturating_sub(*since) >= READY_AFTER_MS => {}
                _ => break,
            }
            let Some((shard, _)) = self.unready.pop_front() else { break };
            if let Some(Tracked::Waiting(waiter)) = self.tracked.get_mut(&shard)
                && !waiter.ready
            {
                waiter.ready = true;
                commands.push(Command::MakeReady { shard: shard.into() });
            }
        }
        if !commands.is_empty() {
            self.steps.push(Step::Propose(commands));
        }
    }

    /// A proposed command was applied. `false` when its round is over: the leader must stop.
    pub(crate) fn applied(&mut self, command: &Command, reply: &Reply, now: Now) -> bool {
        if matches!(reply, Reply::Refused(Refusal::StaleRound { .. })) {
            return false;
        }
        match command {
            Command::Grant { shard, attempt, incarnation, .. } => {
                self.granted((*shard).into(), *attempt, *incarnation, reply, now);
            }
            Command::MakeReady { shard } => {
                if let Reply::Refused(Refusal::NotDue { due_at }) = reply {
                    self.track_due((*shard).into(), *due_at, DueClock::Wall, now);
                }
            }
            Command::Graph(command) => self.graph_applied(command, reply, now),
            _ => {}
        }
        true
    }

    fn granted(&mut self, shard: ShardKey, attempt: u32, incarnation: Incarnation, reply: &Reply, now: Now) {
        let Some(Tracked::Granting { waiter, executor }) = self.tracked.remove(&shard) else { return };
        self.granting -= 1;
        if let Reply::Granted { fence } = reply
            && let Some(id) = self.fleet.id(executor).cloned()
        {
            let lease = Lease { shard, attempt, fence: *fence };
            self.lease(lease, (id, incarnation), executor, waiter.demand.timeout_ms);
            return;
        }
        self.fleet.give_back(executor);
        self.sharded.left(shard, executor);
        self.limits.left(shard);
        match reply {
            // The cluster's time never goes back: it was the wall clock that did.
            Reply::Refused(Refusal::NotDue { due_at }) => {
                self.track_due(shard, *due_at, DueClock::Wall, now);
            }
            // The rows say something else than was believed: read them again. Of a task that came into being with
            // its grant, or did not, they may say something else by now, which was told while the grant was under way.
            Reply::Refused(Refusal::WrongAttempt { .. } | Refusal::NotWaiting | Refusal::TaskNotFound) => {
                self.look_again(shard);
            }
            Reply::Refused(Refusal::ExecutorUnknown | Refusal::ExecutorNotOnline) => {
                self.fleet.set_open(executor, false);
                self.wait_on(shard, waiter);
            }
            _ => {}
        }
    }

    /// A grant was committed: the lease goes into its executor's outbox.
    fn lease(
        &mut self,
        lease: Lease,
        (id, incarnation): (ExecutorId, Incarnation),
        slot: ExecutorIdx,
        timeout_ms: Option<u64>,
    ) {
        let Some(exec) = self.executors.get_mut(&id) else { return };
        exec.hold(lease.shard, slot);
        if exec.row().may_hold(incarnation) {
            exec.outbox.push_back(lease.shard);
        } else {
            // Its executor went, or began another life, while the answer to the grant was on its way. It was
            // never pushed, so nobody has it.
            let message = "its executor went away before it was handed over".to_owned();
            let requeue = Command::Requeue { shard: lease.shard.into(), fence: lease.fence, message };
            self.steps.push(Step::Propose(vec![requeue]));
        }
        let held = Held {
            executor: id.clone(),
            incarnation,
            lease,
            phase: HeldPhase::Outbox,
            timeout_ms,
            missing: 0,
            cancelled: false,
            overrun_at: None,
        };
        self.held += 1;
        self.tracked.insert(lease.shard, Tracked::Held(Box::new(held)));
        if self.early_cancels.remove(&(lease.shard, lease.fence)) {
            self.cancel(lease.shard, &id, lease.fence);
        }
    }

    /// Grants whose proposal did not get into the log: the shards wait on, and no other is tried for a while.
    pub(crate) fn not_proposed(&mut self, commands: Vec<Command>, now: Now) {
        self.no_grants_before = now.mono_ms + NO_ROOM_PAUSE_MS;
        for command in commands {
            match command {
                Command::Grant { shard, .. } => {
                    let shard: ShardKey = ShardRef::into(shard);
                    if let Some(Tracked::Granting { waiter, executor }) = self.tracked.remove(&shard) {
                        self.granting -= 1;
                        self.fleet.give_back(executor);
                        self.sharded.left(shard, executor);
                        self.limits.left(shard);
                        self.wait_on(shard, waiter);
                    }
                }
                other => self.again.push_back(other),
            }
        }
    }

    /// Proposes again what had found no room, oldest first and not more than one entry takes: it would find none
    /// again, and take that of others.
    pub(crate) fn retry(&mut self) {
        self.retry_jobs();
        let count = self.again.len().min(AGAIN_PER_CALL);
        if count > 0 {
            self.steps.push(Step::Propose(self.again.drain(..count).collect()));
        }
    }

    pub(super) fn look_again(&mut self, shard: ShardKey) {
        self.tracked.insert(shard, Tracked::Due);
        self.due.push_back(shard);
    }

    /// Since when the shard that has waited longest has been due.
    pub(crate) fn oldest_waiting(&self) -> Option<Millis> {
        self.waiting.oldest()
    }
}
