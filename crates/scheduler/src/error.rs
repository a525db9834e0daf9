//! Why the leader's loop cannot answer.

use orloj_raft_store::{ProposeError, ReadError};

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeaderError {
    /// Another node leads, or none is known to.
    #[error("this node does not lead")]
    NotLeader {
        /// The leader's internal address, where it is known.
        leader: Option<String>,
    },
    /// This node leads but has not loaded its tables yet.
    #[error("the leader is not serving yet")]
    NotServing,
    /// The sender knows of an earlier leader's round alone; this one's is on its way to it.
    #[error("the sender has not heard of this leader's round yet")]
    EarlierRound,
    /// Too much is waiting.
    #[error("the leader is overloaded")]
    Overloaded,
    /// The disk is nearly full.
    #[error("the disk is nearly full")]
    DiskLow,
    /// It may have happened.
    #[error("the outcome is unknown")]
    Unknown,
    /// A value that does not follow the protocol.
    #[error("{field}: {problem}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// What is wrong with its value.
        problem: String,
    },
    /// A newer process lives under the executor's id.
    #[error("a newer process lives under this executor's id (incarnation {current})")]
    Superseded {
        /// Its life.
        current: u64,
    },
    /// No such task, attempt or executor.
    #[error("{0} not found")]
    NotFound(&'static str),
    /// The executor that holds what is asked for does not answer.
    #[error("the executor does not answer: {0}")]
    ExecutorUnreachable(String),
    /// The node is stopping, or its storage has failed.
    #[error("the node has stopped")]
    Stopped,
}

impl From<ProposeError> for LeaderError {
    fn from(error: ProposeError) -> Self {
        match error {
            ProposeError::NotLeader { .. } | ProposeError::NoLeader => {
                LeaderError::NotLeader { leader: None }
            }
            ProposeError::Overloaded => LeaderError::Overloaded,
            ProposeError::DiskLow => LeaderError::DiskLow,
            ProposeError::TooLarge { size, limit } => {
                LeaderError::Invalid { field: "body", problem: format!("{size} bytes; the limit is {limit}") }
            }
            ProposeError::Unknown => LeaderError::Unknown,
            ProposeError::Stopped => LeaderError::Stopped,
        }
    }
}

impl From<ReadError> for LeaderError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NotLeader { .. } | ReadError::NoLeader => LeaderError::NotLeader { leader: None },
            ReadError::Timeout => LeaderError::NotServing,
            ReadError::Stopped => LeaderError::Stopped,
        }
    }
}
