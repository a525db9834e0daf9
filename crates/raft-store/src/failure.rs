//! What can go wrong for those who use a [`Store`](crate::Store).

use orloj_model::id::NodeId;

use crate::config::OptionError;
use crate::error::Fault;
use crate::transport::TransportError;

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// An option is wrong.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// The identity file is damaged, or belongs to another cluster, or is missing beside data.
    #[error("identity of {dir}: {problem}")]
    Identity {
        /// The data directory.
        dir: String,
        /// What is wrong.
        problem: String,
    },
    /// The disk is all but full, even without the ballast.
    #[error("{free} bytes are free in {dir}: a node needs {needed} to start")]
    DiskFull {
        /// The data directory.
        dir: String,
        /// Free bytes.
        free: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// The storage is damaged or cannot be used.
    #[error("storage: {0}")]
    Storage(String),
    /// Raft refuses to start on what the storage holds.
    #[error("raft: {0}")]
    Raft(String),
}

/// Why a proposal brought no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Not proposed: this node does not lead, another does.
    #[error("not the leader; the leader is node {leader}")]
    NotLeader {
        /// Who leads.
        leader: NodeId,
    },
    /// Not proposed: nobody leads, as far as this node knows.
    #[error("no leader")]
    NoLeader,
    /// Not proposed: too many proposals wait.
    #[error("too many proposals wait")]
    Overloaded,
    /// Not proposed: the disk is nearly full.
    #[error("the disk is nearly full")]
    DiskLow,
    /// Not proposed: a command that is larger than an entry of the log may be.
    #[error("the command has {size} bytes, more than {limit}")]
    TooLarge {
        /// Its encoded size.
        size: u64,
        /// The most there may be.
        limit: u64,
    },
    /// It may have been committed, now or later; ask the tables.
    #[error("the outcome is unknown")]
    Unknown,
    /// The node has stopped; a proposal that was on its way may have been committed.
    #[error("the node has stopped")]
    Stopped,
}

/// Why a linearizable read is not possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Another node leads.
    #[error("not the leader; the leader is node {leader}")]
    NotLeader {
        /// Who leads.
        leader: NodeId,
    },
    /// Nobody leads, or the leader cannot reach a majority.
    #[error("no leader with a majority")]
    NoLeader,
    /// A majority did not confirm in time.
    #[error("no confirmation in time")]
    Timeout,
    /// The node has stopped.
    #[error("the node has stopped")]
    Stopped,
}

/// Why a change of the membership did not happen, or not yet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MembershipError {
    /// Another node leads.
    #[error("not the leader; the leader is node {leader}")]
    NotLeader {
        /// Who leads.
        leader: NodeId,
    },
    /// Nobody leads.
    #[error("no leader")]
    NoLeader,
    /// No such member.
    #[error("node {0} is not a member")]
    NotMember(NodeId),
    /// The last voter cannot be removed.
    #[error("node {0} is the only voter")]
    LastVoter(NodeId),
    /// Leadership can only go to a voter.
    #[error("node {0} has no vote")]
    NotVoter(NodeId),
    /// Another change is on its way.
    #[error("another change of the membership is on its way")]
    InProgress,
    /// The node at the address has data already, or is of another cluster.
    #[error("the node at {address} cannot be added: {problem}")]
    NotAddable {
        /// Its address.
        address: String,
        /// Why.
        problem: String,
    },
    /// The node at the address could not be asked.
    #[error("the node at {address} did not answer: {cause}")]
    Peer {
        /// Its address.
        address: String,
        /// Why.
        cause: TransportError,
    },
    /// Not done in time; it may still happen.
    #[error("not done in time; it may still happen")]
    Timeout,
    /// The node has stopped.
    #[error("the node has stopped")]
    Stopped,
}

/// Why a peer's status is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// No such member.
    #[error("node {0} is not a member")]
    NotMember(NodeId),
    /// It did not answer.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// Its answer does not decode.
    #[error("answer does not decode: {0}")]
    Answer(String),
}

/// Why a call from a peer is refused. The caller learns the text and nothing is done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RpcError {
    /// The call is for another cluster, another member or another life of this one, or comes from a node
    /// that is not a member.
    #[error("misdirected: {0}")]
    Misdirected(String),
    /// The node has no id yet.
    #[error("not ready")]
    NotReady,
    /// The body does not decode.
    #[error("malformed: {0}")]
    Malformed(String),
    /// The node has stopped or is about to.
    #[error("stopped: {0}")]
    Stopped(String),
}

impl From<Fault> for OpenError {
    fn from(fault: Fault) -> Self {
        OpenError::Storage(fault.to_string())
    }
}
