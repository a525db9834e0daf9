//! The handle through which the API reaches the leader's loop.

use std::sync::Arc;

use orloj_model::command::{Report, ShardRef};
use orloj_model::executor::{ExecutorState, Registration};
use orloj_model::id::{ExecutorId, Round, check_name};
use orloj_model::query;
use orloj_model::task::{CHECKPOINT_LIMIT, MESSAGE_LIMIT, Outcome, Progress};
use orloj_model::trigger::LAST_INSTANT;
use orloj_model::{Command, Refusal, Reply};
use orloj_raft_store::Store;
use orloj_wire::protocol::{
    self, Heartbeat, HeartbeatAck, Leave, LogChunk, LogRequest, Register, Registered, ReportOutcome,
    ReportVerdict, Reports, ReportsAck, Saves, SavesAck,
};
use serde::Serialize;
use tokio::sync::{mpsc, oneshot, watch};

use crate::core::{Over, chance, ended};
use crate::error::LeaderError;
use crate::link::{self, ExecutorLink, LinkError, Target};
use crate::metrics::Metrics;

/// The most reports or saves in one call; more is refused, so that one executor cannot fill an entry.
pub const BATCH_LIMIT: usize = 256;
/// The most handlers and labels of an executor.
const REGISTRATION_LIMIT: usize = 1_000;
/// The most slots, and the most queue places, of an executor: a heartbeat that names an attempt for each of them fits into
/// the largest message that the internal listener reads.
const PLACES_LIMIT: u32 = 100_000;

/// What the loop is asked.
#[derive(Debug)]
pub(crate) enum Request {
    Register(Registration, Vec<protocol::Held>, oneshot::Sender<Result<Registered, LeaderError>>),
    Heartbeat(Heartbeat, oneshot::Sender<HeartbeatAck>),
    /// An executor reports the ends of these attempts.
    Reported(ExecutorId, Vec<Over>),
}

/// What the loop last said of itself; at most a few hundred milliseconds old.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    pub(crate) probe: Probe,
    pub(crate) live: Vec<LiveExecutor>,
}

/// Figures of a leader's loop.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// Timers of tasks in the wheel.
    pub wheel_size: usize,
    /// Milliseconds until the earliest timer; negative when it is overdue.
    pub oldest_due_timer_ms: Option<i64>,
    /// Shards that wait for a slot.
    pub waiting: usize,
    /// For how long the first of them has waited, in milliseconds.
    pub oldest_waiting_ms: Option<i64>,
    /// Grants on their way through the log.
    pub granting: usize,
    /// Leases in force.
    pub running: usize,
    /// Timers of jobs in the wheel.
    pub job_timers: usize,
    /// Jobs whose fire is overdue, or whose next one is to be computed.
    pub jobs_waiting: usize,
    /// How far the wall clock has been stepped since this leader began, in milliseconds.
    pub wall_offset_ms: i64,
    /// How often it was stepped.
    pub clock_steps: u64,
}

/// An executor as the leader sees it now.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveExecutor {
    /// Its id.
    pub id: String,
    /// Its life.
    pub incarnation: u64,
    /// Where it takes pushes.
    pub address: String,
    /// `online`, `suspect`, `draining`, `offline` or `left`.
    pub state: &'static str,
    /// The handlers that it can run.
    pub handlers: Vec<String>,
    /// How many attempts it runs at once.
    pub slots: u32,
    /// Leases that it holds.
    pub running: usize,
    /// Free slots by its last heartbeat.
    pub free_slots: Option<u32>,
    /// Attempts in its queue by its last heartbeat.
    pub queued: Option<u32>,
    /// Its CPU load by its last heartbeat.
    pub cpu_pct: Option<f64>,
    /// Milliseconds since it was last heard.
    pub last_heard_ms: u64,
    /// Its zone.
    pub zone: Option<String>,
    /// Version of its software.
    pub version: String,
}

/// Cheap to clone. Every call fails with [`LeaderError::NotLeader`] on a node that does not lead.
#[derive(Clone)]
pub struct Scheduler {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) link: Arc<dyn ExecutorLink>,
    pub(crate) requests: mpsc::Sender<Request>,
    pub(crate) serving: watch::Receiver<Option<Round>>,
    pub(crate) snapshot: watch::Receiver<Snapshot>,
    pub(crate) metrics: Metrics,
}

impl Scheduler {
    /// The round in which this node schedules, if it does.
    pub fn serving(&self) -> Option<Round> {
        *self.inner.serving.borrow()
    }

    /// The same, to wait on.
    pub fn watch_serving(&self) -> watch::Receiver<Option<Round>> {
        self.inner.serving.clone()
    }

    /// The leader's internal address, for whoever asked the wrong node.
    pub fn leader_address(&self) -> Option<String> {
        let leader = self.inner.store.leadership().borrow().leader?;
        let members = self.inner.store.members();
        members.into_iter().find(|member| member.id == leader).map(|member| member.internal)
    }

    fn round(&self) -> Result<Round, LeaderError> {
        if let Some(round) = self.serving() {
            return Ok(round);
        }
        if self.inner.store.leadership().borrow().leading {
            return Err(LeaderError::NotServing);
        }
        Err(LeaderError::NotLeader { leader: self.leader_address() })
    }

    async fn ask<A>(&self, request: impl FnOnce(oneshot::Sender<A>) -> Request) -> Result<A, LeaderError> {
        self.round()?;
        let (sender, receiver) = oneshot::channel();
        self.inner.requests.send(request(sender)).await.map_err(|_| LeaderError::Stopped)?;
        // The loop drops what it has not answered when the leadership ends.
        receiver.await.map_err(|_| LeaderError::NotLeader { leader: self.leader_address() })
    }

    /// An executor registers.
    ///
    /// # Errors
    /// [`LeaderError::Invalid`] names the field; [`LeaderError::Superseded`] tells an older process to go.
    pub async fn register(&self, register: Register) -> Result<Registered, LeaderError> {
        let (registration, holding) = registration(register)?;
        self.ask(|sender| Request::Register(registration, holding, sender)).await?
    }

    /// An executor is alive, and says what it holds.
    ///
    /// # Errors
    /// See [`LeaderError`].
    pub async fn heartbeat(&self, heartbeat: Heartbeat) -> Result<HeartbeatAck, LeaderError> {
        self.ask(|sender| Request::Heartbeat(heartbeat, sender)).await
    }

    /// An executor reports outcomes. Answered when they are committed.
    ///
    /// # Errors
    /// [`LeaderError::Invalid`] for more than [`BATCH_LIMIT`] or what does not follow the protocol.
    pub async fn report(&self, reports: Reports) -> Result<ReportsAck, LeaderError> {
        let round = self.round()?;
        check_batch("reports", reports.reports.len())?;
        let executor = executor_id(&reports.executor_id)?;
        let commands = reports
            .reports
            .into_iter()
            .map(|report| report_command(&executor, report))
            .collect::<Result<Vec<_>, _>>()?;
        // A loop that has too much to do hears of it when it is committed.
        let ended = Request::Reported(executor, commands.iter().filter_map(ended).collect());
        let _ = self.inner.requests.try_send(ended);
        let applied = self.inner.store.propose_in_round(round, commands).await?;
        let mut verdicts = Vec::with_capacity(applied.len());
        for applied in &applied {
            let verdict = match &applied.reply {
                Reply::Task { .. } | Reply::Done => ReportVerdict::Accepted,
                Reply::Repeated => ReportVerdict::Repeated,
                Reply::Refused(Refusal::StaleRound { .. }) => {
                    return Err(LeaderError::NotLeader { leader: self.leader_address() });
                }
                _ => ReportVerdict::Late,
            };
            self.inner.metrics.reported(verdict);
            verdicts.push(verdict);
        }
        Ok(ReportsAck { verdicts, round })
    }

    /// A running handler's progress and checkpoints. Answered when they are committed.
    ///
    /// # Errors
    /// As [`report`](Scheduler::report); [`LeaderError::EarlierRound`] of who has heard of an earlier leader alone.
    pub async fn save(&self, saves: Saves) -> Result<SavesAck, LeaderError> {
        let round = self.round()?;
        check_round(saves.round, round)?;
        check_batch("saves", saves.saves.len())?;
        let commands = saves.saves.into_iter().map(save_command).collect::<Result<Vec<_>, _>>()?;
        let applied = self.inner.store.propose_in_round(round, commands).await?;
        let taken = applied.iter().map(|applied| !matches!(applied.reply, Reply::Refused(_))).collect();
        Ok(SavesAck { taken })
    }

    /// A drained executor says goodbye.
    ///
    /// # Errors
    /// See [`LeaderError`].
    pub async fn leave(&self, leave: Leave) -> Result<(), LeaderError> {
        let round = self.round()?;
        let executor = executor_id(&leave.executor_id)?;
        let command = Command::ExecutorLeft { executor, incarnation: leave.incarnation };
        self.inner.store.propose_in_round(round, vec![command]).await?;
        Ok(())
    }

    /// Figures of the loop as of its last housekeeping; zero on a node that does not lead.
    pub fn probe(&self) -> Probe {
        self.inner.snapshot.borrow().probe.clone()
    }

    /// The executors as the leader saw them at its last housekeeping; none on a node that does not lead.
    pub fn executors_live(&self) -> Vec<LiveExecutor> {
        self.inner.snapshot.borrow().live.clone()
    }

    /// A part of the whole log of an attempt, from the executor that keeps it. `wait_ms` is at most 20,000.
    ///
    /// # Errors
    /// [`LeaderError::NotFound`], [`LeaderError::ExecutorUnreachable`].
    pub async fn log(&self, mut request: LogRequest) -> Result<LogChunk, LeaderError> {
        let id = executor_id(&request.executor_id)?;
        let row = query::executor(&self.inner.store.view(), &id).map_err(|_| LeaderError::Stopped)?;
        let row = row.ok_or(LeaderError::NotFound("executor"))?;
        request.wait_ms = request.wait_ms.min(20_000);
        let target = Target { id: request.executor_id.clone(), address: row.registration.address };
        match link::log(&*self.inner.link, &target, &request).await {
            Ok(chunk) => Ok(chunk),
            Err(LinkError::Refused { status: 404, .. }) => Err(LeaderError::NotFound("log")),
            Err(error) => Err(LeaderError::ExecutorUnreachable(error.to_string())),
        }
    }
}

fn check_batch(field: &'static str, length: usize) -> Result<(), LeaderError> {
    if length > BATCH_LIMIT {
        let problem = format!("{length} items; the limit is {BATCH_LIMIT}");
        return Err(LeaderError::Invalid { field, problem });
    }
    Ok(())
}

/// Whether who has seen the round `said` speaks to a leader of `round`; 0 says nothing.
fn check_round(said: Round, round: Round) -> Result<(), LeaderError> {
    match said != 0 && said < round {
        true => Err(LeaderError::EarlierRound),
        false => Ok(()),
    }
}

fn executor_id(text: &str) -> Result<ExecutorId, LeaderError> {
    ExecutorId::new(text)
        .map_err(|error| LeaderError::Invalid { field: "executorId", problem: format!("{text:?}: {error}") })
}

fn registration(register: Register) -> Result<(Registration, Vec<protocol::Held>), LeaderError> {
    let id = executor_id(&register.executor_id)?;
    let invalid = |field, problem| Err(LeaderError::Invalid { field, problem });
    for handler in &register.handlers {
        if let Err(error) = check_name(handler) {
            return invalid("handlers", format!("{handler:?}: {error}"));
        }
    }
    for label in register.labels.keys() {
        if let Err(error) = check_name(label) {
            return invalid("labels", format!("{label:?}: {error}"));
        }
    }
    if register.handlers.len() > REGISTRATION_LIMIT || register.labels.len() > REGISTRATION_LIMIT {
        return invalid("handlers", format!("more than {REGISTRATION_LIMIT} handlers or labels"));
    }
    if register.slots == 0 || register.slots > PLACES_LIMIT {
        return invalid("slots", format!("{}: must be 1-{PLACES_LIMIT}", register.slots));
    }
    if register.queue > PLACES_LIMIT {
        return invalid("queue", format!("{}: must be 0-{PLACES_LIMIT}", register.queue));
    }
    if register.address.parse::<std::net::SocketAddr>().is_err()
        && !register.address.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && !host.contains(['/', '@', '?', '#', ' ']) && port.parse::<u16>().is_ok()
        })
    {
        return invalid("address", format!("{:?}: must be host:port", register.address));
    }
    let registration = Registration {
        id,
        incarnation: register.incarnation,
        address: register.address,
        handlers: register.handlers,
        slots: register.slots,
        queue: register.queue,
        weight: register.weight,
        zone: register.zone,
        labels: register.labels,
        version: register.version,
    };
    Ok((registration, register.holding))
}

fn shard_ref(attempt: &protocol::AttemptRef) -> Result<ShardRef, LeaderError> {
    match attempt.task_id.parse() {
        Ok(task) => Ok(ShardRef { task, shard: attempt.shard_index }),
        Err(error) => {
            Err(LeaderError::Invalid { field: "taskId", problem: format!("{:?}: {error}", attempt.task_id) })
        }
    }
}

fn report_command(executor: &ExecutorId, report: protocol::Report) -> Result<Command, LeaderError> {
    let shard = shard_ref(&report.attempt)?;
    let fence = report.attempt.fence;
    let outcome = match report.outcome {
        ReportOutcome::Succeeded => Outcome::Succeeded,
        ReportOutcome::Failed => {
            Outcome::Failed { retryable: report.retryable, retry_after_ms: report.retry_after_ms }
        }
        ReportOutcome::TimedOut => Outcome::TimedOut,
        ReportOutcome::Cancelled => Outcome::Cancelled,
        ReportOutcome::Returned => {
            let message = report.message.unwrap_or_else(|| "handed back unstarted".to_owned());
            return Ok(Command::Requeue { shard, fence, message });
        }
    };
    Ok(Command::Report(Box::new(Report {
        shard,
        attempt: report.attempt.attempt,
        fence,
        executor: executor.clone(),
        incarnation: report.incarnation,
        outcome,
        message: report.message,
        result: report.result.map(String::into_bytes),
        log_tail: report.log_tail,
        // By the executor's clock, which may show anything; what cannot be shown as a date is no use to anybody.
        started_at: report.started_at.map(|at| at.clamp(0, LAST_INSTANT)),
        ended_at: Some(report.ended_at.clamp(0, LAST_INSTANT)),
        chance: chance(fence, shard.into()),
    })))
}

/// A save that is not taken tells its executor that the lease is over, so one that breaks a limit must not get
/// as far as that.
fn check_save(save: &protocol::Save) -> Result<(), LeaderError> {
    let checkpoint = save.checkpoint.as_ref().map_or(0, Vec::len);
    let note = save.note.as_ref().map_or(0, String::len);
    let bounds = [
        ("percent", save.percent.map_or(0, usize::from), 100),
        ("note", note, MESSAGE_LIMIT),
        ("checkpoint", checkpoint, CHECKPOINT_LIMIT),
    ];
    match bounds.into_iter().find(|(_, value, limit)| value > limit) {
        None => Ok(()),
        Some((field, value, limit)) => {
            let unit = if field == "percent" { "" } else { " bytes" };
            Err(LeaderError::Invalid { field, problem: format!("{value}{unit}: at most {limit}{unit}") })
        }
    }
}

fn save_command(save: protocol::Save) -> Result<Command, LeaderError> {
    let shard = shard_ref(&save.attempt)?;
    check_save(&save)?;
    let progress = save.percent.map(|percent| Progress { percent, note: save.note.unwrap_or_default() });
    Ok(Command::Save { shard, fence: save.attempt.fence, progress, checkpoint: save.checkpoint })
}

/// The name of an executor's state in the API.
pub(crate) fn state_name(state: ExecutorState, suspect: bool) -> &'static str {
    match state {
        ExecutorState::Online if suspect => "suspect",
        ExecutorState::Online => "online",
        ExecutorState::Draining => "draining",
        ExecutorState::Offline => "offline",
        ExecutorState::Left => "left",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;

    #[test]
    fn what_an_executors_clock_shows_can_always_be_shown_as_a_date() {
        let report = |started_at, ended_at| protocol::Report {
            attempt: protocol::AttemptRef {
                task_id: orloj_model::id::TaskId([7; 16]).to_string(),
                shard_index: 0,
                attempt: 1,
                fence: 9,
            },
            incarnation: 1,
            outcome: ReportOutcome::Succeeded,
            retryable: false,
            retry_after_ms: None,
            message: None,
            result: None,
            log_tail: None,
            started_at: Some(started_at),
            ended_at,
        };
        for (started_at, ended_at) in [(i64::MIN, i64::MAX), (-1, LAST_INSTANT + 1), (0, LAST_INSTANT)] {
            let id = ExecutorId::new("e1").unwrap();
            let command = report_command(&id, report(started_at, ended_at)).unwrap();
            let Command::Report(report) = command else { panic!("{command:?}") };
            assert_eq!((report.started_at, report.ended_at), (Some(0), Some(LAST_INSTANT)));
        }
    }

    #[test]
    fn what_was_saved_under_an_earlier_leader_is_not_taken_again() {
        assert_eq!(check_round(6, 7), Err(LeaderError::EarlierRound));
        for said in [0, 7, 8] {
            assert_eq!(check_round(said, 7), Ok(()), "{said}");
        }
    }

    #[test]
    fn a_save_beyond_a_limit_is_refused_by_name_and_not_as_one_without_a_lease() {
        let save = |percent, note: usize, checkpoint| protocol::Save {
            attempt: protocol::AttemptRef {
                task_id: orloj_model::id::TaskId([7; 16]).to_string(),
                shard_index: 0,
                attempt: 1,
                fence: 9,
            },
            percent: Some(percent),
            note: Some("n".repeat(note)),
            checkpoint: Some(vec![0; checkpoint]),
        };
        assert!(save_command(save(100, MESSAGE_LIMIT, CHECKPOINT_LIMIT)).is_ok());
        for (bad, named) in [
            (save(101, 0, 0), "percent"),
            (save(0, MESSAGE_LIMIT + 1, 0), "note"),
            (save(0, 0, CHECKPOINT_LIMIT + 1), "checkpoint"),
        ] {
            let refused = save_command(bad);
            assert!(matches!(refused, Err(LeaderError::Invalid { field, .. }) if field == named));
        }
    }
}
