//! Leases in force: from the grant through the push to the end of the attempt.

use orloj_model::id::{ExecutorId, Fence};
use orloj_model::key::{RunningKey, ShardKey};
use orloj_model::mutant::{Mutant, is_on};
use orloj_model::schema::RunningRow;
use orloj_model::{Command, Event};
use orloj_wire::protocol::{AttemptRef, CancelReason, RunVerdict};

use super::executors::chance;
use super::{Core, Held, HeldPhase, Lease, Now, Step, Tracked};

/// The most attempts in one push.
pub(super) const PUSH_LIMIT: usize = 256;
/// An accepted attempt that so many heartbeats in a row do not name is pushed again: one may have been on its
/// way when the push was answered.
const MISSING_LIMIT: u8 = 2;

/// The lease that a text of the protocol names.
pub(super) fn lease_of(attempt: &AttemptRef) -> Option<Lease> {
    let task = attempt.task_id.parse().ok()?;
    let shard = ShardKey { task, shard: attempt.shard_index };
    Some(Lease { shard, attempt: attempt.attempt, fence: attempt.fence })
}

/// The text of the protocol that names a lease.
pub(crate) fn attempt_ref(lease: &Lease) -> AttemptRef {
    AttemptRef {
        task_id: lease.shard.task.to_string(),
        shard_index: lease.shard.shard,
        attempt: lease.attempt,
        fence: lease.fence,
    }
}

/// An attempt that is over with a report: its shard, its number where the report says it, its fence.
pub(crate) type Over = (ShardKey, Option<u32>, Fence);

/// The attempt that is over with a report.
pub(crate) fn ended(command: &Command) -> Option<Over> {
    match command {
        Command::Report(report) => Some((report.shard.into(), Some(report.attempt), report.fence)),
        Command::Requeue { shard, fence, .. } => Some(((*shard).into(), None, *fence)),
        _ => None,
    }
}

impl Core {
    /// A lease from the tables, granted by an earlier leader: in doubt until its executor says what it holds.
    pub(crate) fn inherit(
        &mut self,
        key: &RunningKey,
        row: &RunningRow,
        timeout_ms: Option<u64>,
        cancel_requested: bool,
    ) {
        let lease = Lease { shard: key.shard, attempt: row.attempt, fence: row.fence };
        self.forget(key.shard);
        self.tracked.insert(
            key.shard,
            Tracked::Held(Box::new(Held {
                executor: key.executor.clone(),
                incarnation: row.incarnation,
                lease,
                phase: HeldPhase::InDoubt,
                timeout_ms,
                missing: 0,
                cancelled: false,
                overrun_at: None,
            })),
        );
        self.held += 1;
        if let Some(slot) = self.fleet.find(&key.executor) {
            let held = self.fleet.held(slot);
            self.fleet.set_held(slot, held + 1);
            self.sharded.note(key.shard);
            self.sharded.taken(key.shard, slot);
            if let Some(exec) = self.executors.get_mut(&key.executor) {
                exec.hold(key.shard, slot);
            }
        }
        if is_on(Mutant::ResentElsewhere) {
            self.hand_to_another(key.shard, &key.executor);
        }
        if cancel_requested {
            self.cancel(key.shard, &key.executor, row.fence);
        }
    }

    /// What a mutant does with an inherited lease.
    fn hand_to_another(&mut self, shard: ShardKey, holder: &ExecutorId) {
        let other = self.executors.values_mut().find(|exec| exec.id() != holder && exec.is_there());
        if let (Some(exec), Some(Tracked::Held(held))) = (other, self.tracked.get_mut(&shard)) {
            (held.executor, held.incarnation) = (exec.id().clone(), exec.incarnation());
            held.phase = HeldPhase::Outbox;
            exec.outbox.push_back(shard);
        }
    }

    /// Declares lost what the tables say is held by executors that are not there. After everything was
    /// inherited.
    pub(crate) fn lose_orphans(&mut self) {
        let lost = |tracked: &Tracked| {
            let Tracked::Held(held) = tracked else { return None };
            let exec = self.executors.get(&held.executor).filter(|_| !is_on(Mutant::LostUnasked));
            exec.is_none_or(|exec| !exec.row().may_hold(held.incarnation)).then_some(held.lease)
        };
        let mut orphans: Vec<Lease> = self.tracked.values().filter_map(lost).collect();
        // The map has an order of its own in every process.
        orphans.sort_unstable();
        let lose = |Lease { shard, fence, .. }: Lease| Command::Lose {
            shard: shard.into(),
            fence,
            chance: chance(fence, shard),
        };
        if !orphans.is_empty() {
            self.steps.push(Step::Propose(orphans.into_iter().map(lose).collect()));
        }
    }

    /// An applied change. Events that only echo the leader's own commands say nothing new.
    pub(crate) fn event(&mut self, event: &Event, now: Now) {
        match event {
            Event::Waiting { shard, due_at, clock } => self.track_due(*shard, *due_at, *clock, now),
            Event::AttemptEnded { shard, fence, .. } => {
                if self.held(*shard, *fence).is_some() {
                    self.forget(*shard);
                }
            }
            Event::CancelRequested { shard, executor, fence } => self.cancel(*shard, executor, *fence),
            Event::Expires { task, at } => self.track_expiry(*task, *at, now),
            Event::TaskChanged { task, status, .. } if status.is_terminal() => {
                self.forget_task(*task);
                if let Some(timer) = self.expiries.remove(task) {
                    self.wheel.cancel(timer);
                }
            }
            Event::TaskChanged { .. }
            | Event::Submitted { .. }
            | Event::RoundBegan { .. }
            | Event::Granted { .. }
            | Event::ExecutorChanged { .. }
            | Event::GraphWaits { .. }
            | Event::DependencyLost { .. } => {}
            Event::JobChanged { .. }
            | Event::JobNext { .. }
            | Event::JobNeedsNext { .. }
            | Event::CalendarChanged { .. }
            | Event::BackfillWaits { .. } => self.job_event(event, now),
            Event::CallbackDue { .. } => {}
            Event::CallerLimit { caller, max_running } => self.limit_caller(caller, *max_running),
        }
    }

    fn held(&mut self, shard: ShardKey, fence: Fence) -> Option<&mut Held> {
        match self.tracked.get_mut(&shard) {
            Some(Tracked::Held(held)) if held.lease.fence == fence => Some(held.as_mut()),
            _ => None,
        }
    }

    pub(super) fn holds(&self, id: &ExecutorId, lease: Lease) -> bool {
        matches!(self.tracked.get(&lease.shard),
            Some(Tracked::Held(held)) if held.lease == lease && held.executor == *id)
    }

    pub(super) fn cancel(&mut self, shard: ShardKey, executor: &ExecutorId, fence: Fence) {
        if matches!(self.tracked.get(&shard), Some(Tracked::Granting { .. })) {
            // The answer to the grant is still on its way to the loop.
            self.early_cancels.insert((shard, fence));
        } else if let Some(held) = self.held(shard, fence) {
            held.cancelled = true;
            let lease = held.lease;
            self.stop(executor, lease, CancelReason::Cancelled);
        }
    }

    /// A heartbeat (or the answer to the announcement) names a lease.
    pub(super) fn seen(&mut self, shard: ShardKey, running_ms: Option<u64>, now: Now) {
        let grace = self.options.timeout_grace_ms;
        let Some(Tracked::Held(held)) = self.tracked.get_mut(&shard) else { return };
        held.missing = 0;
        if held.phase == HeldPhase::InDoubt {
            held.phase = HeldPhase::Accepted;
        }
        let (Some(timeout), Some(running)) = (held.timeout_ms, running_ms) else { return };
        if running <= timeout.saturating_add(grace) {
            return;
        }
        let (lease, executor) = (held.lease, held.executor.clone());
        match held.overrun_at {
            None => {
                held.overrun_at = Some(now.mono_ms);
                self.stop(&executor, lease, CancelReason::TimedOut);
            }
            Some(since) if now.mono_ms.saturating_sub(since) > grace => {
                let command = Command::TimeOut {
                    shard: shard.into(),
                    fence: lease.fence,
                    chance: chance(lease.fence, shard),
                };
                self.steps.push(Step::Propose(vec![command]));
            }
            Some(_) => {}
        }
    }

    /// A heartbeat does not name a lease. Pushed again, under the same fence, to the same executor, which
    /// treats it as the same; in doubt only once the executor knows this round, so that no push of an
    /// earlier leader can follow.
    pub(super) fn unseen(&mut self, shard: ShardKey, knows_round: bool) {
        let Some(Tracked::Held(held)) = self.tracked.get_mut(&shard) else { return };
        let again = match held.phase {
            HeldPhase::Outbox | HeldPhase::InFlight => false,
            HeldPhase::InDoubt => knows_round,
            HeldPhase::Accepted => {
                held.missing = held.missing.saturating_add(1);
                held.missing >= MISSING_LIMIT
            }
        };
        if again {
            held.missing = 0;
            held.phase = HeldPhase::Outbox;
            let executor = held.executor.clone();
            if let Some(exec) = self.executors.get_mut(&executor) {
                exec.outbox.push_back(shard);
            }
        }
    }

    /// An executor reports these attempts: their slots are free there, so others may have them in the entry that commits the
    /// reports. The leases, and what limits jobs and callers, wait for that. A report that does not name the attempt that is
    /// held will be refused, and frees nothing.
    pub(crate) fn reported(&mut self, id: &ExecutorId, ended: &[Over]) {
        for (shard, attempt, fence) in ended {
            if let Some(Tracked::Held(held)) = self.tracked.get(shard)
                && held.lease.fence == *fence
                && attempt.is_none_or(|attempt| attempt == held.lease.attempt)
                && held.executor == *id
                && let Some(exec) = self.executors.get_mut(id)
            {
                exec.vacate(*shard, &mut self.fleet);
            }
        }
    }

    /// A push was answered.
    pub(crate) fn pushed(
        &mut self,
        id: &ExecutorId,
        leases: &[Lease],
        verdicts: &[RunVerdict],
        refusal: Option<&str>,
        now: Now,
    ) {
        self.push_answered(id, true, now);
        let mut requeue = Vec::new();
        for (lease, verdict) in leases.iter().zip(verdicts) {
            let Some(held) = self.held(lease.shard, lease.fence) else { continue };
            match verdict {
                RunVerdict::Accepted | RunVerdict::Duplicate => held.phase = HeldPhase::Accepted,
                RunVerdict::Refused => requeue.push(Command::Requeue {
                    shard: lease.shard.into(),
                    fence: lease.fence,
                    message: refusal.unwrap_or("refused").to_owned(),
                }),
            }
        }
        if !requeue.is_empty() {
            self.refused(id, now);
            self.steps.push(Step::Propose(requeue));
        }
        self.send(now);
    }

    /// A push came to nothing that is known: it is repeated later.
    pub(crate) fn push_failed(&mut self, id: &ExecutorId, leases: &[Lease], now: Now) {
        self.push_answered(id, false, now);
        for lease in leases.iter().rev() {
            if let Some(held) = self.held(lease.shard, lease.fence) {
                held.phase = HeldPhase::Outbox;
                if let Some(exec) = self.executors.get_mut(id) {
                    exec.outbox.push_front(lease.shard);
                }
            }
        }
    }

    /// The executor was asked to stop attempts and says which of them it holds. One that it does not hold,
    /// and that is on no way to it, never arrived: its lease can end.
    pub(crate) fn stop_answer(
        &mut self,
        id: &ExecutorId,
        reason: CancelReason,
        leases: &[Lease],
        held: &[bool],
        now: Now,
    ) {
        self.stop_answered(id, now);
        let knows_round = self.executor(id).is_some_and(|exec| exec.knows_round());
        let mut requeue = Vec::new();
        for (lease, is_held) in leases.iter().zip(held) {
            if reason == CancelReason::LeaseLost {
                self.stopped(id, lease);
                continue;
            }
            let Some(known) = self.held(lease.shard, lease.fence) else {
                self.stopped(id, lease);
                continue;
            };
            // A push that was answered since may have overtaken this answer: then it is asked again.
            let never_arrived = matches!(known.phase, HeldPhase::Outbox | HeldPhase::InDoubt);
            if !is_held && never_arrived && knows_round && reason == CancelReason::Cancelled {
                requeue.push(Command::Requeue {
                    shard: lease.shard.into(),
                    fence: lease.fence,
                    message: "cancelled before it reached its executor".to_owned(),
                });
            }
        }
        if !requeue.is_empty() {
            self.steps.push(Step::Propose(requeue));
        }
    }

    /// Asking an executor to stop attempts failed: it is asked again.
    pub(crate) fn stop_failed(&mut self, id: &ExecutorId, now: Now) {
        self.stop_answered(id, now);
    }
}
