//! What a node says of itself.

use orloj_model::id::{NodeId, Round};
use serde::{Deserialize, Serialize};

/// Who leads, as this node knows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Leadership {
    /// The current term.
    pub term: u64,
    /// The leader, where one is known.
    pub leader: Option<NodeId>,
    /// Whether it is this node.
    pub leading: bool,
}

/// What a node is in the current term.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Has no id yet: waits for the first boot of the cluster, or to be let in.
    #[default]
    Joining,
    /// Receives the log without a vote.
    Learner,
    /// Follows a leader, or waits for one.
    Follower,
    /// Stands for election.
    Candidate,
    /// Leads.
    Leader,
    /// Was removed from the cluster, or has stopped.
    Stopped,
}

/// Whether a node can do its work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// All is well.
    #[default]
    Ok,
    /// Too little space on the disk: as the leader it refuses proposals.
    DiskLow,
    /// The process must end: [`Store::fatal`](crate::Store::fatal) says why.
    Failed,
}

/// The running digest at an index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// The index of the last entry that it covers.
    pub index: u64,
    /// The digest of every write up to there.
    pub digest: u64,
}

/// A node's own view of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// Its id; `None` until it has one.
    pub id: Option<NodeId>,
    /// Its cluster.
    pub cluster: String,
    /// What it is in the current term.
    pub role: Role,
    /// Whether it can do its work.
    pub state: NodeState,
    /// The current term.
    pub term: u64,
    /// The leader, where it knows one that is there: as a follower it has heard it, as the leader it has heard a
    /// majority, within three times the longest silence before an election.
    pub leader: Option<NodeId>,
    /// The round in force as far as it has applied.
    pub round: Round,
    /// Index of the last entry in its log; 0 when empty. The same holds for the indexes below.
    pub last_log: u64,
    /// Index of the last entry that it knows to be committed.
    pub committed: u64,
    /// Index of the last entry that it has applied.
    pub applied: u64,
    /// Index of the last entry that its log no longer has.
    pub purged: u64,
    /// Index of the last entry in its snapshot.
    pub snapshot: u64,
    /// The running digest at `applied`.
    pub digest: u64,
    /// The last checkpoint of the digest, which can be compared between nodes.
    pub digest_checkpoint: Option<Checkpoint>,
    /// Free bytes on the disk of its data.
    pub disk_free: u64,
}

/// What a node remembers of its own history, for people in trouble and for tests that compare nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeHistory {
    /// The birth token of its data directory; empty until it has one.
    pub birth: String,
    /// The term of its last vote, and for whom it was.
    pub vote: Option<(u64, NodeId)>,
    /// The running digests at the last checkpoints, oldest first.
    pub checkpoints: Vec<Checkpoint>,
    /// Index and term of entries that it has applied since it started: every
    /// [`TERM_EVERY`](crate::status::TERM_EVERY)th one, the last few hundred, oldest first.
    pub terms: Vec<(u64, u64)>,
    /// How many snapshots it has taken over from a leader since it started.
    pub snapshots_installed: u64,
}

/// Every how many entries [`NodeHistory::terms`] has one.
pub const TERM_EVERY: u64 = 16;

/// A member of the cluster, as the membership in the log has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberInfo {
    /// Its id.
    pub id: NodeId,
    /// `host:port` of its internal listener.
    pub internal: String,
    /// Base URL of its public listener.
    pub api: String,
    /// Whether it votes; a learner does not yet.
    pub voter: bool,
}
