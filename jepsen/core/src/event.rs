//! One line of a history.
//!
//! Every producer (clients, executors, sink, probes, nemesis, supervisor) writes JSON lines; a run's history is
//! all of them in the order of `mono_ns`. All producers read one kernel's monotonic clock (the simulation: its
//! virtual clock), so that order is exact.

mod client;
mod executor;
mod job;
mod replica;
mod run;

use serde::{Deserialize, Serialize};

pub use client::*;
pub use executor::*;
pub use job::*;
pub use replica::*;
pub use run::*;

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
    /// An executor told the leader that its room ended or began.
    RoomSaid(RoomSaid),
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
    /// What the links between the hosts have done to packets.
    Links(Links),
    /// A process of the cluster began or ended.
    Process(Process),
    /// A phase of the run begins.
    Phase(Phase),
    /// One task of the table of one replica at the end of the run, read from that replica alone.
    FinalTask(FinalTask),
    /// The whole table of one replica has been read.
    FinalTable(FinalTable),
    /// A job was created.
    JobPut(JobPut),
    /// A job fires no more.
    JobStopped(JobStopped),
    /// One job of the table of one replica at the end of the run.
    FinalJob(FinalJob),
    /// A callback arrived at the sink.
    Callback(Callback),
    /// What a key may do.
    KeyLimits(KeyLimits),
    /// A client asked faster than its key may.
    Knock(Knock),
}
