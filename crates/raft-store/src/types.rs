//! The only file that names openraft's generics: which concrete types the replicated log of Orloj uses,
//! and short aliases for everything else in this crate.

use std::fmt;

use bytes::Bytes;
use orloj_model::Reply;
use serde::{Deserialize, Serialize};

use crate::runtime::Runtime;

/// A member of the cluster as the membership of the log records it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// `host:port` of the internal listener, where the other members reach it.
    pub internal: String,
    /// Base URL of the public API, which callers and executors are told.
    pub api: String,
    /// Token that was drawn when the member's data directory was made; empty in the static membership of
    /// the first start. A directory with another token is another member, whatever id it claims.
    pub birth: String,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.internal)
    }
}

/// What a log entry of the application carries: an [`orloj_model::Batch`], encoded once by the proposer with
/// [`crate::codec::Schema::Batch`]. Replication and the log pass the bytes on without looking at them.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncodedBatch(pub Bytes);

impl fmt::Debug for EncodedBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "batch of {} bytes", self.0.len())
    }
}

impl fmt::Display for EncodedBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What applying an entry answers to its proposer: one reply per change of the batch, in its order. Empty
/// for entries that carry no batch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replies(pub Vec<Reply>);

openraft::declare_raft_types!(
    /// The types of Orloj's replicated log.
    pub TypeConfig:
        D = EncodedBatch,
        R = Replies,
        NodeId = u64,
        Node = Member,
        Term = u64,
        LeaderId = openraft::impls::leader_id_adv::LeaderId<u64, u64>,
        AsyncRuntime = Runtime,
);

/// Number of a member; never given twice in the life of a cluster.
pub type NodeId = u64;
/// Who led, and in which term: the first half of a [`LogId`].
pub type LeaderId = openraft::alias::LeaderIdOf<TypeConfig>;
/// Position in the log: who proposed the entry, and its index.
pub type LogId = openraft::alias::LogIdOf<TypeConfig>;
/// A vote given or a leadership confirmed.
pub type Vote = openraft::alias::VoteOf<TypeConfig>;
/// A log entry.
pub type Entry = openraft::alias::EntryOf<TypeConfig>;
/// What a log entry carries.
pub type Payload = openraft::alias::PayloadOf<TypeConfig>;
/// The voters (several sets during a change) and the nodes of the cluster.
pub type Membership = openraft::Membership<NodeId, Member>;
/// A [`Membership`] with the position of the entry that set it.
pub type LoggedMembership = openraft::alias::StoredMembershipOf<TypeConfig>;
/// What a snapshot stands for: last applied entry and membership.
pub type SnapshotMeta = openraft::alias::SnapshotMetaOf<TypeConfig>;
/// First and last position in the log store.
pub type LogState = openraft::storage::LogState<TypeConfig>;
/// Called once an append is on disk.
pub type Flushed = openraft::storage::IOFlushed<TypeConfig>;
/// A running Raft node over the state machine `SM`.
pub type Raft<SM> = openraft::Raft<TypeConfig, SM>;
