//! The steps that take time: each runs in a task of its own and comes back as a [`Done`].

use orloj_model::executor::Registration;
use orloj_model::id::{ExecutorId, Millis};
use orloj_model::{Command, Refusal, Reply};
use orloj_raft_store::{Applied, Fault, ProposeError, ReadError};
use orloj_wire::protocol::{
    AnnounceRound, Cancel, CancelAck, CancelReason, Held, Holdings, Registered, Run, RunAck,
};
use tokio::sync::oneshot;
use tracing::{debug, warn};

use super::fires::Proposed;
use super::jobs::Looked;
use super::{Ended, Leader, lost_or_again, parcel, rows};
use crate::core::{Lease, Step, attempt_ref};
use crate::error::LeaderError;
use crate::link::{self, LinkError, Target};

/// Something that was started has ended.
pub(super) enum Done {
    /// Rows could not be read: the storage has failed.
    Broken(Fault),
    Proposed(Vec<Command>, Result<Vec<Applied>, ProposeError>),
    Pushed(ExecutorId, Vec<Lease>, Result<RunAck, LinkError>),
    Stopped(ExecutorId, CancelReason, Vec<Lease>, Result<CancelAck, LinkError>),
    Announced(ExecutorId, Result<Holdings, LinkError>),
    /// Whether a majority still follows this leader, after an executor spoke of a later round.
    Confirmed(ExecutorId, Result<u64, ReadError>),
    Looked(Result<Looked, Fault>),
    Jobs(Proposed, Result<Vec<Applied>, ProposeError>),
    Registered(
        ExecutorId,
        Vec<Held>,
        Result<Applied, ProposeError>,
        oneshot::Sender<Result<Registered, LeaderError>>,
    ),
}

impl Leader<'_> {
    /// Starts a step. What it proposes is `late` when it follows from a timer: it does not wait for company, which
    /// all that was due in one tick has already.
    pub(super) fn start(&mut self, step: Step, late: bool) {
        match step {
            Step::Propose(commands) => self.propose(commands, late),
            Step::Push { executor, leases } => self.push(executor, leases),
            Step::Cancel { executor, reason, leases } => self.stop(executor, reason, leases),
            Step::Announce { executor } => self.announce(executor),
            Step::Jobs(duties) => self.jobs(duties),
        }
    }

    pub(super) fn spawn(&mut self, work: impl Future<Output = Done> + Send + 'static) {
        let finished = self.finished.clone();
        self.work.spawn(async move {
            // Nobody listens only when the leadership has ended.
            let _ = finished.send(work.await);
        });
        while self.work.try_join_next().is_some() {}
    }

    fn propose(&mut self, commands: Vec<Command>, late: bool) {
        let (store, round) = (self.shared.store.clone(), self.round);
        self.spawn(async move {
            let result = match late {
                true => store.propose_at_once(round, commands.clone()).await,
                false => store.propose_in_round(round, commands.clone()).await,
            };
            Done::Proposed(commands, result)
        });
    }

    fn target(&self, executor: &ExecutorId) -> Option<(Target, u64)> {
        let exec = self.core.executor(executor)?;
        let target = Target { id: executor.to_string(), address: exec.address().to_owned() };
        Some((target, exec.incarnation()))
    }

    fn push(&mut self, executor: ExecutorId, leases: Vec<Lease>) {
        let Some((target, incarnation)) = self.target(&executor) else { return };
        let (link, store, round) = (self.shared.link.clone(), self.shared.store.clone(), self.round);
        self.shared.metrics.pushes.inc();
        let fresh: Vec<_> = leases.iter().map(|lease| self.fresh.take_for(lease)).collect();
        self.spawn(async move {
            let mut attempts = Vec::with_capacity(leases.len());
            let mut pushed = Vec::with_capacity(leases.len());
            // One for all: each of them was granted before this began, so that it shows them all. A lease that it did not
            // show would never be pushed.
            let mut view = None;
            for (lease, fresh) in leases.iter().zip(fresh) {
                let dispatch = match fresh {
                    Some(fresh) => Ok(Some(rows::first_dispatch(lease, &fresh))),
                    None => {
                        // It may read some megabytes of what its parents returned: others get the thread in between.
                        tokio::task::yield_now().await;
                        rows::dispatch(view.get_or_insert_with(|| store.view()), lease)
                    }
                };
                match dispatch {
                    Ok(Some(dispatch)) => {
                        attempts.push(dispatch);
                        pushed.push(*lease);
                    }
                    // Over since: its end is on its way to the loop.
                    Ok(None) => {}
                    Err(fault) => return Done::Broken(fault),
                }
            }
            // Whoever is slow to answer does not keep old rows on the disk.
            drop(view);
            if attempts.is_empty() {
                let ack = RunAck { verdicts: Vec::new(), refusal: None, free_slots: 0, free_places: 0 };
                return Done::Pushed(executor, pushed, Ok(ack));
            }
            let run = Run { executor_id: target.id.clone(), incarnation, round, attempts };
            let result = parcel::deliver(&*link, &target, run).await;
            Done::Pushed(executor, pushed, result)
        });
    }

    fn stop(&mut self, executor: ExecutorId, reason: CancelReason, leases: Vec<Lease>) {
        let Some((target, _)) = self.target(&executor) else { return };
        let (link, round) = (self.shared.link.clone(), self.round);
        self.spawn(async move {
            let attempts = leases.iter().map(attempt_ref).collect();
            let cancel = Cancel { executor_id: target.id.clone(), round, reason, attempts };
            let result = link::cancel(&*link, &target, &cancel).await;
            Done::Stopped(executor, reason, leases, result)
        });
    }

    fn announce(&mut self, executor: ExecutorId) {
        let Some((target, _)) = self.target(&executor) else { return };
        let own = self.shared.store.status().id;
        let members = self.shared.store.members();
        let leader = members.into_iter().find(|member| Some(member.id) == own);
        let (link, round) = (self.shared.link.clone(), self.round);
        self.spawn(async move {
            let leader = leader.map(|member| member.internal).unwrap_or_default();
            let announce = AnnounceRound { executor_id: target.id.clone(), round, leader };
            let result = link::announce(&*link, &target, &announce).await;
            Done::Announced(executor, result)
        });
    }

    /// An executor has seen a later round: this leader may be deposed. It asks a majority, and not the executor:
    /// one that served another cluster before must not depose a leader again and again.
    fn confirm(&mut self, executor: ExecutorId) {
        if std::mem::replace(&mut self.confirming, true) {
            return;
        }
        let store = self.shared.store.clone();
        self.spawn(async move { Done::Confirmed(executor, store.barrier().await) });
    }

    pub(super) fn register(
        &mut self,
        registration: Registration,
        holding: Vec<Held>,
        respond: oneshot::Sender<Result<Registered, LeaderError>>,
    ) {
        let (store, round) = (self.shared.store.clone(), self.round);
        self.spawn(async move {
            let id = registration.id.clone();
            let command = Command::RegisterExecutor(registration);
            let result = store.propose_in_round(round, vec![command]).await;
            let result = result.and_then(|mut applied| applied.pop().ok_or(ProposeError::Unknown));
            Done::Registered(id, holding, result, respond)
        });
    }

    /// Takes in how a step ended.
    pub(super) fn finish(&mut self, done: Done) -> Result<(), Ended> {
        let now = self.shared.now();
        match done {
            Done::Proposed(commands, Ok(applied)) => {
                for (command, applied) in commands.iter().zip(&applied) {
                    self.count(command, &applied.reply, now.cluster_ms);
                    if !self.core.applied(command, &applied.reply, now) {
                        return Err(Ended::Lost);
                    }
                    if let Command::Graph(command) = command {
                        self.graph_answered(command, &applied.reply);
                    }
                }
            }
            Done::Proposed(commands, Err(error)) => match error {
                ProposeError::Overloaded | ProposeError::DiskLow => self.core.not_proposed(commands, now),
                error => return Err(lost_or_again(&error)),
            },
            Done::Pushed(executor, leases, Ok(ack)) if ack.verdicts.len() == leases.len() => {
                self.core.pushed(&executor, &leases, &ack.verdicts, ack.refusal.as_deref(), now);
            }
            Done::Pushed(executor, leases, result) => {
                debug!(%executor, error = ?result.as_ref().err(), "push failed");
                self.shared.metrics.push_failures.inc();
                self.core.push_failed(&executor, &leases, now);
                if is_stale_round(&result) {
                    self.confirm(executor);
                }
            }
            Done::Stopped(executor, reason, leases, Ok(ack)) => {
                self.core.stop_answer(&executor, reason, &leases, &ack.held, now);
            }
            Done::Stopped(executor, _, _, Err(_)) => self.core.stop_failed(&executor, now),
            Done::Announced(executor, result) => {
                let later = is_stale_round(&result);
                self.core.announced(&executor, result.ok(), now);
                if later {
                    self.confirm(executor);
                }
            }
            Done::Confirmed(_, Err(_)) => return Err(Ended::Lost),
            Done::Confirmed(executor, Ok(_)) => {
                self.confirming = false;
                warn!(%executor, round = self.round, "the executor has seen a later round than there is");
            }
            Done::Broken(fault) => return Err(fault.into()),
            Done::Looked(looked) => self.looked(looked, now)?,
            Done::Jobs(proposed, result) => self.jobs_done(proposed, result, now)?,
            Done::Registered(id, holding, result, respond) => {
                let answer = self.answer_registration(&id, &holding, result)?;
                // An executor that has gone asks again.
                let _ = respond.send(answer);
            }
        }
        Ok(())
    }

    fn answer_registration(
        &mut self,
        id: &ExecutorId,
        holding: &[Held],
        result: Result<Applied, ProposeError>,
    ) -> Result<Result<Registered, LeaderError>, Ended> {
        match result.map(|applied| applied.reply) {
            Ok(Reply::Refused(Refusal::IncarnationSuperseded { current })) => {
                Ok(Err(LeaderError::Superseded { current }))
            }
            Ok(Reply::Refused(_)) => Err(Ended::Lost),
            Ok(_) => {
                // Its row may be ahead of the events; both say the same.
                let row = orloj_model::query::executor(&self.shared.store.view(), id)?;
                if let Some(row) = row {
                    let now = self.shared.now();
                    self.core.executor_row(row, now);
                }
                Ok(Ok(self.registered(id, holding)))
            }
            Err(error) => Ok(Err(error.into())),
        }
    }

    pub(super) fn count(&self, command: &Command, reply: &Reply, now_ms: Millis) {
        match (command, reply) {
            (Command::Grant { shard, .. }, Reply::Granted { .. }) => {
                self.shared.metrics.granted.inc();
                if let Some(since) = self.core.granting((*shard).into()) {
                    self.shared.metrics.lateness.observe((now_ms - since) as f64 / 1000.0);
                }
            }
            (Command::Lose { .. }, Reply::Task { .. }) => {
                self.shared.metrics.lost.inc();
            }
            (Command::Requeue { .. }, Reply::Task { .. }) => {
                self.shared.metrics.refused.inc();
            }
            _ => {}
        }
    }
}

/// Whether an executor refused a call because it has seen a later round.
fn is_stale_round<A>(result: &Result<A, LinkError>) -> bool {
    matches!(result, Err(LinkError::Refused { code, .. }) if code == "stale_round")
}
