//! One line of a history.
//!
//! Every producer (clients, executors, sink, probes, nemesis, supervisor) writes JSON lines; a run's history is
//! all of them in the order of `mono_ns`. All producers read one kernel's monotonic clock (the simulation: its
//! virtual clock), so that order is exact.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of the format.
pub const VERSION: u32 = 1;

/// What a line says about its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// An operation begins. Its end has the same `proc`, which has one operation open at a time.
    Invoke,
    /// It has happened for certain.
    Ok,
    /// It has not happened and never will: it was refused before it was proposed.
    Fail,
    /// Nobody knows, now or later. The process gets a new number: the operation stays open to the end.
    Info,
    /// Something happened, with no beginning and end of its own.
    Event,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// [`VERSION`].
    pub v: u32,
    /// Its number in the merged history; 0 until then.
    #[serde(default)]
    pub i: u64,
    /// When, on the monotonic clock that all producers share, in ns.
    pub mono_ns: u64,
    /// Who wrote it: `client-3`, `executor-e1`, `sink`, `probe-n1`, `nemesis`, `supervisor`, `run`.
    pub src: String,
    /// The logical process: one that has an operation of unknown outcome goes on under a new number.
    pub proc: u64,
    /// What it says of its operation.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// The replica that was asked, or the host that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The task id, once it is known; of a submission before that its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The operation or observation.
    #[serde(flatten)]
    pub what: What,
    /// What went wrong, for `fail` and `info`: a stable code of the API, or the client's word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub err: Option<String>,
    /// What else the answer told.
    #[serde(default, skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
}

/// What an answer told beside its value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// The log index up to which the answering replica had applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<u64>,
    /// HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The answer to a repeated submission.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

impl Meta {
    fn is_empty(&self) -> bool {
        *self == Meta::default()
    }
}

/// The operation or observation, with its value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "f", content = "value", rename_all = "snake_case")]
pub enum What {
    /// A client submits a task.
    Submit(Submit),
    /// A client reads a task by its id.
    Get(Get),
    /// A client cancels a task.
    Cancel(Cancel),
    /// A client reads one page of its tasks.
    List(List),
    /// An executor began a life.
    ExecutorUp(ExecutorUp),
    /// An executor's life ended (killed, stopped by the harness, or left).
    ExecutorDown(ExecutorDown),
    /// An executor heard of a round by an announcement or a heartbeat's answer.
    RoundHeard(RoundHeard),
    /// An executor received one attempt in a push.
    Recv(Recv),
    /// An executor started the handler of an attempt.
    Start(AttemptAt),
    /// The handler of an attempt ended.
    Finish(Finish),
    /// An executor was told to stop an attempt.
    CancelRecv(CancelRecv),
    /// An executor sent a report (each sending counts).
    ReportSent(Finish),
    /// A report was answered.
    ReportAcked(ReportAcked),
    /// An effect arrived at the sink that stands for the outside world.
    Effect(Effect),
    /// The state of one replica, about ten times a second.
    Probe(Probe),
    /// The nemesis did something.
    Fault(Fault),
    /// A process of the cluster began or ended.
    Process(Process),
    /// A phase of the run begins.
    Phase(Phase),
    /// One task of the table of one replica at the end of the run, read from that replica alone.
    FinalTask(FinalTask),
    /// The whole table of one replica has been read.
    FinalTable(FinalTable),
}

/// A submission. `label` and the request stand in every line of it, `answer` in its `ok`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Submit {
    /// The harness's own name of the work, carried in `params.label`: what an executor reports of an unknown
    /// submission can be told by it. Repeats of one submission (same Idempotency-Key) have the same label.
    pub label: String,
    /// The handler.
    pub handler: String,
    /// Due so long after the commit, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// Due at an instant, ms since the epoch by the harness's wall clock, which nothing steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_at_ms: Option<i64>,
    /// Skipped when not started by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expire_at_ms: Option<i64>,
    /// The longest an attempt may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Tries after the first for failed and timed-out attempts.
    pub max_retries: u64,
    /// Tries after lost attempts.
    pub max_lost: u64,
    /// Delay before each retry; the last repeats.
    pub backoff_ms: Vec<u64>,
    /// 0-9.
    pub priority: u64,
    /// The Idempotency-Key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// For the handler's idempotency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub business_key: Option<String>,
    /// How many shards.
    pub shard_total: u64,
    /// Whether every executor that has the handler may take it: not pinned, and without a routing key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anywhere: Option<bool>,
    /// The behaviour that the parameters ask of the mock executor (`ok`, `fail`, `fail_for_good`, `hang`, …).
    pub behaviour: String,
    /// How long the handler works, in ms.
    pub work_ms: u64,
    /// The answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<TaskSeen>,
}

/// A task as somebody saw it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskSeen {
    /// Its id.
    pub task_id: String,
    /// `PENDING`, `RUNNING`, `SUCCESS`, `FAILED`, `CANCELLED` or `SKIPPED`.
    pub status: String,
    /// Why it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Grows by one with every change.
    pub version: u64,
    /// The number of the newest attempt.
    pub attempt: u32,
    /// A cancel waits for the executor.
    pub cancel_requested: bool,
    /// Digest of the result, where there is one and it was in the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_digest: Option<String>,
    /// The error's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// When it was created, by the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at_ms: Option<i64>,
    /// When it is due, by the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at_ms: Option<i64>,
    /// When it ended, by the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at_ms: Option<i64>,
}

impl TaskSeen {
    /// Whether its status is final.
    pub fn is_terminal(&self) -> bool {
        matches!(self.status.as_str(), "SUCCESS" | "FAILED" | "CANCELLED" | "SKIPPED")
    }
}

/// A read of one task. A task that does not exist is an `ok` without an answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Get {
    /// What was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<TaskSeen>,
    /// A read of the final phase.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub last: bool,
}

/// A cancel. A task that has ended refuses it: `fail` with `task_already_terminal`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cancel {
    /// Where it stands after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<TaskSeen>,
}

/// A page of a list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct List {
    /// The status asked for, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Which page, from 0.
    pub page: u32,
    /// What was seen, newest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Vec<TaskSeen>>,
    /// There is another page.
    pub more: bool,
}

/// Names one grant of one attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Grant {
    /// The task.
    pub task: String,
    /// The shard, from 0.
    #[serde(default)]
    pub shard: u16,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The log index of the grant.
    pub fence: u64,
}

/// An executor began a life.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecutorUp {
    /// Its id.
    pub executor: String,
    /// Its life.
    pub incarnation: u64,
    /// Slots.
    pub slots: u32,
    /// Queue places.
    pub queue: u32,
    /// It forgot what an earlier life knew (its memory was taken away on purpose).
    pub amnesiac: bool,
}

/// An executor's life ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecutorDown {
    /// Its id.
    pub executor: String,
    /// Its life.
    pub incarnation: u64,
}

/// An executor heard of a round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoundHeard {
    /// Which executor.
    pub executor: String,
    /// Its life.
    pub incarnation: u64,
    /// The round.
    pub round: u64,
    /// The replica that announced it, where it was an announcement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
}

/// An attempt in a push.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recv {
    /// Which grant.
    #[serde(flatten)]
    pub grant: Grant,
    /// Who received it.
    pub executor: String,
    /// In which life.
    pub incarnation: u64,
    /// The sender's round.
    pub round: u64,
    /// The sender: a replica's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// When it was due, by the cluster.
    pub due_at_ms: i64,
    /// The harness's name of the work, from the parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// `accepted`, `duplicate`, `refused`.
    pub verdict: String,
    /// Of a refusal: `queue_full`, `draining`, `stale_fence`, `stale_round`, `wrong_incarnation`, or a vice's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The wall clock of the harness, ms since the epoch, which nothing steps.
    pub wall_ms: i64,
}

/// An attempt at an executor.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AttemptAt {
    /// Which grant.
    #[serde(flatten)]
    pub grant: Grant,
    /// Where.
    pub executor: String,
    /// In which life.
    pub incarnation: u64,
    /// The wall clock of the harness, ms since the epoch, which nothing steps.
    pub wall_ms: i64,
}

/// The end of an attempt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Finish {
    /// Which grant.
    #[serde(flatten)]
    pub grant: Grant,
    /// Where.
    pub executor: String,
    /// In which life.
    pub incarnation: u64,
    /// `succeeded`, `failed`, `timedOut`, `cancelled`, `returned`, or `dropped` (ended without a report).
    pub outcome: String,
    /// Of a failure: another try can help.
    pub retryable: bool,
    /// Of a failure: the delay that the handler asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Digest of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_digest: Option<String>,
}

/// An executor was told to stop an attempt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CancelRecv {
    /// Which grant.
    #[serde(flatten)]
    pub grant: Grant,
    /// Where.
    pub executor: String,
    /// `cancelled`, `timedOut` or `leaseLost`.
    pub reason: String,
    /// Whether it held the attempt.
    pub held: bool,
}

/// The answer to a report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportAcked {
    /// Which grant.
    #[serde(flatten)]
    pub grant: Grant,
    /// Whose report.
    pub executor: String,
    /// `accepted`, `repeated` or `late`.
    pub verdict: String,
}

/// An effect outside the cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Effect {
    /// The task, where the effect names it; the executor's own handler does not.
    pub task: String,
    /// The harness's name of the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The attempt.
    pub attempt: u32,
    /// The business key, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub business_key: Option<String>,
    /// The fence that came with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    /// Whether it took effect: a keyed effect that was there already does not.
    pub took: bool,
    /// HTTP status that the sink answered with; 0 when it never answered.
    pub status: u16,
}

/// What one replica says of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Probe {
    /// Replica id; 0 while it has none.
    pub id: u64,
    /// The life of its data directory.
    pub birth: String,
    /// Its process, counted by the supervisor from 1: what may go back with a restart is told apart by it.
    pub life: u64,
    /// Raft term.
    pub term: u64,
    /// Whom it voted for in that term, where it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vote: Option<u64>,
    /// `leader`, `follower`, `candidate`, `learner`, `joining`, `stopped`.
    pub role: String,
    /// Whom it takes for the leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<u64>,
    /// The scheduling round in its table.
    pub round: u64,
    /// The round in which its leader loop serves, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<u64>,
    /// Last index of its log.
    pub last_log: u64,
    /// Last committed index that it knows.
    pub committed: u64,
    /// Last applied index.
    pub applied: u64,
    /// Log entries up to here are purged.
    pub purged: u64,
    /// Last index of its snapshot.
    pub snapshot: u64,
    /// Snapshots installed from a leader since the process began.
    pub snapshots_installed: u64,
    /// Digests of its tables at fixed indexes: index to 16 hex digits.
    #[serde(with = "crate::by_index")]
    pub digests: BTreeMap<u64, String>,
    /// Terms of the last few entries of its log: index to term.
    #[serde(with = "crate::by_index")]
    pub log_terms: BTreeMap<u64, u64>,
    /// Timers in the wheel (leader).
    pub wheel: u64,
    /// What waits for a slot (leader).
    pub waiting: u64,
    /// Running attempts in the leader's view.
    pub running: u64,
    /// Its wall clock minus the harness's, in ms.
    pub wall_offset_ms: i64,
    /// Resident memory in bytes.
    pub rss: u64,
    /// Open files.
    pub fds: u64,
    /// `ok`, `disk_low`, `failed`.
    pub state: String,
}

/// What the nemesis did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fault {
    /// Number of the step in the plan.
    pub step: u64,
    /// The package: `partition`, `link`, `process`, `power`, `disk`, `clock`, `resource`, `membership`,
    /// `executor`, `sink`.
    pub package: String,
    /// The fault's name within it: `isolate`, `kill`, `pause`, …
    pub name: String,
    /// Whom the plan meant: `leader`, `follower`, `majority`, `executor:e2`, …
    pub target: String,
    /// Whom it hit.
    pub nodes: Vec<String>,
    /// Whether the leader of the moment was among them.
    pub on_leader: bool,
    /// `installed`, `undone`, `skipped` (with the reason in `detail`), `indeterminate` or `failed`.
    pub phase: String,
    /// Parameters or reason.
    pub detail: String,
}

/// A process of the cluster began or ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// `started`, `exited`, `panicked`.
    pub state: String,
    /// Which process of this node, from 1.
    pub life: u64,
    /// Exit code, where it exited by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The harness ended it, or meant it to end (disk full, failed fsync).
    pub expected: bool,
    /// The last line of its log, of a panic or an unexpected end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
}

/// A phase of the run begins.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Phase {
    /// `load`, `heal` (all faults are undone), `quiesce` (no more load), `final` (last reads), `end`.
    pub name: String,
}

/// One task of one replica's table at the end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FinalTask {
    /// The task.
    #[serde(flatten)]
    pub task: TaskSeen,
    /// Its label, from the parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Its Idempotency-Key, where the table tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Every attempt that is kept, oldest first.
    pub attempts: Vec<AttemptRow>,
}

/// One attempt as the table has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AttemptRow {
    /// The shard.
    pub shard: u16,
    /// The attempt.
    pub attempt: u32,
    /// Granted to.
    pub executor: String,
    /// In which life.
    pub incarnation: u64,
    /// In which round.
    pub round: u64,
    /// The log index of the grant.
    pub fence: u64,
    /// When, by the cluster.
    pub granted_at_ms: i64,
    /// When it ended, by the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<i64>,
    /// `succeeded`, `failed`, `timedOut`, `cancelled`, `lost`, `refused`; absent while it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// What a report said that came too late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_outcome: Option<String>,
}

/// The end of one replica's table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FinalTable {
    /// What it had applied.
    pub applied: u64,
    /// Digest of its tables at that index.
    pub digest: String,
    /// How many tasks were read.
    pub tasks: u64,
}
