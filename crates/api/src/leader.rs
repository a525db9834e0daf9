//! What only the leader's loop can do, as a trait: [`Scheduler`] supplies it, and tests supply their own.

use futures_util::future::BoxFuture;
use orloj_model::id::Round;
use orloj_scheduler::{LeaderError, LiveExecutor, Probe, Scheduler};
use orloj_wire::problem::Code;
use orloj_wire::protocol::{
    Heartbeat, HeartbeatAck, Leave, LogChunk, LogRequest, Register, Registered, Reports, ReportsAck, Saves,
    SavesAck,
};

use crate::outcome::Failure;

/// The answer of the leader's loop.
pub type Answered<'a, T> = BoxFuture<'a, Result<T, LeaderError>>;

/// The leader's loop as the API sees it.
pub trait Leader: Send + Sync + 'static {
    /// An executor introduces itself.
    fn register(&self, message: Register) -> Answered<'_, Registered>;
    /// An executor lives.
    fn heartbeat(&self, message: Heartbeat) -> Answered<'_, HeartbeatAck>;
    /// An executor reports outcomes.
    fn report(&self, message: Reports) -> Answered<'_, ReportsAck>;
    /// An executor saves progress and checkpoints.
    fn save(&self, message: Saves) -> Answered<'_, SavesAck>;
    /// A drained executor says goodbye.
    fn leave(&self, message: Leave) -> Answered<'_, ()>;
    /// Reads a part of a log from the executor that holds it.
    fn log(&self, request: LogRequest) -> Answered<'_, LogChunk>;
    /// The executors as the leader saw them last; none on a node that does not lead.
    fn executors_live(&self) -> Vec<LiveExecutor>;
    /// Figures of the loop.
    fn probe(&self) -> Probe;
    /// The round, on a leader that schedules.
    fn serving(&self) -> Option<Round>;
}

impl Leader for Scheduler {
    fn register(&self, message: Register) -> Answered<'_, Registered> {
        Box::pin(Scheduler::register(self, message))
    }

    fn heartbeat(&self, message: Heartbeat) -> Answered<'_, HeartbeatAck> {
        Box::pin(Scheduler::heartbeat(self, message))
    }

    fn report(&self, message: Reports) -> Answered<'_, ReportsAck> {
        Box::pin(Scheduler::report(self, message))
    }

    fn save(&self, message: Saves) -> Answered<'_, SavesAck> {
        Box::pin(Scheduler::save(self, message))
    }

    fn leave(&self, message: Leave) -> Answered<'_, ()> {
        Box::pin(Scheduler::leave(self, message))
    }

    fn log(&self, request: LogRequest) -> Answered<'_, LogChunk> {
        Box::pin(Scheduler::log(self, request))
    }

    fn executors_live(&self) -> Vec<LiveExecutor> {
        Scheduler::executors_live(self)
    }

    fn probe(&self) -> Probe {
        Scheduler::probe(self)
    }

    fn serving(&self) -> Option<Round> {
        Scheduler::serving(self)
    }
}

impl From<LeaderError> for Failure {
    fn from(error: LeaderError) -> Self {
        let detail = error.to_string();
        match error {
            LeaderError::NotLeader { .. } | LeaderError::NotServing => Failure::no_leader(),
            // Here is the leader: nobody is to look for it elsewhere.
            LeaderError::EarlierRound => Failure::new(Code::Conflict, detail),
            LeaderError::Overloaded => Failure::new(Code::Overloaded, detail),
            LeaderError::DiskLow => Failure::new(Code::DiskLow, detail),
            LeaderError::Unknown => Failure::commit_unknown(),
            LeaderError::Invalid { .. } => Failure::new(Code::InvalidRequest, detail),
            LeaderError::Superseded { .. } => Failure::new(Code::Superseded, detail),
            LeaderError::NotFound(_) => Failure::new(Code::NotFound, detail),
            LeaderError::ExecutorUnreachable(_) | LeaderError::Stopped => {
                Failure::new(Code::NotReady, detail)
            }
        }
    }
}
