//! The stable forms of openraft's types on disk and between members.
//!
//! openraft says that its own serde derives may change between versions, so none of them is ever written:
//! these types are ours, their bytes are held still by golden tests, and a bump of openraft is a change of
//! the conversions below.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use openraft::vote::RaftLeaderId;
use serde::{Deserialize, Serialize};

use crate::types::{
    EncodedBatch, Entry, LeaderId, LogId, LoggedMembership, Member, Membership, NodeId, Payload,
    SnapshotMeta, Vote,
};

/// A stored value that no cluster could have written, though its frame is intact.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("stored membership is impossible: {0}")]
pub struct ImpossibleMembership(pub String);

/// A [`Vote`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredVote {
    /// The term voted in.
    pub term: u64,
    /// The candidate or leader.
    pub node: NodeId,
    /// A quorum has confirmed the leader.
    pub committed: bool,
}

/// A [`LogId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredLogId {
    /// The term of the leader that proposed the entry.
    pub term: u64,
    /// That leader.
    pub node: NodeId,
    /// Position in the log.
    pub index: u64,
}

/// A [`Membership`]: more than one set of voters during a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredConfig {
    /// The sets of voters, each ascending.
    pub voters: Vec<Vec<NodeId>>,
    /// Every member with its addresses, ascending; one in no set of voters is a learner.
    pub nodes: Vec<(NodeId, Member)>,
}

/// A [`LoggedMembership`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredMembership {
    /// The entry that set it; `None` before the first.
    pub log_id: Option<StoredLogId>,
    /// The membership.
    pub config: StoredConfig,
}

/// A [`Payload`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoredPayload {
    /// Nothing; a new leader's first entry.
    Blank,
    /// An encoded batch of the application.
    Normal(Bytes),
    /// A change of the membership.
    Membership(StoredConfig),
}

/// An [`Entry`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredEntry {
    /// Its position. The index is in the key as well; a mismatch is corruption.
    pub log_id: StoredLogId,
    /// What it carries.
    pub payload: StoredPayload,
}

/// A [`SnapshotMeta`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSnapshotMeta {
    /// The last entry applied to the snapshot.
    pub last_log_id: Option<StoredLogId>,
    /// The membership in force there.
    pub membership: StoredMembership,
}

impl From<&Vote> for StoredVote {
    fn from(vote: &Vote) -> Self {
        StoredVote { term: vote.leader_id.term, node: vote.leader_id.node_id, committed: vote.committed }
    }
}

impl From<StoredVote> for Vote {
    fn from(stored: StoredVote) -> Self {
        match stored.committed {
            true => Vote::new_committed(stored.term, stored.node),
            false => Vote::new(stored.term, stored.node),
        }
    }
}

impl From<&LogId> for StoredLogId {
    fn from(id: &LogId) -> Self {
        StoredLogId { term: id.leader_id.term, node: id.leader_id.node_id, index: id.index }
    }
}

impl From<StoredLogId> for LogId {
    fn from(stored: StoredLogId) -> Self {
        LogId { leader_id: LeaderId::new(stored.term, stored.node), index: stored.index }
    }
}

impl From<&Membership> for StoredConfig {
    fn from(membership: &Membership) -> Self {
        StoredConfig {
            voters: membership.get_joint_config().iter().map(|set| set.iter().copied().collect()).collect(),
            nodes: membership.nodes().map(|(id, member)| (*id, member.clone())).collect(),
        }
    }
}

impl TryFrom<StoredConfig> for Membership {
    type Error = ImpossibleMembership;

    fn try_from(stored: StoredConfig) -> Result<Self, ImpossibleMembership> {
        let nodes: BTreeMap<NodeId, Member> = stored.nodes.into_iter().collect();
        let voters: Vec<BTreeSet<NodeId>> =
            stored.voters.into_iter().map(|set| set.into_iter().collect()).collect();
        if voters.is_empty() && nodes.is_empty() {
            // The membership of a node that has none yet; openraft's constructor refuses it.
            return Ok(Membership::default());
        }
        Membership::new(voters, nodes).map_err(|error| ImpossibleMembership(error.to_string()))
    }
}

impl From<&LoggedMembership> for StoredMembership {
    fn from(logged: &LoggedMembership) -> Self {
        StoredMembership {
            log_id: logged.log_id().as_ref().map(StoredLogId::from),
            config: logged.membership().into(),
        }
    }
}

impl TryFrom<StoredMembership> for LoggedMembership {
    type Error = ImpossibleMembership;

    fn try_from(stored: StoredMembership) -> Result<Self, ImpossibleMembership> {
        Ok(LoggedMembership::new(stored.log_id.map(LogId::from), stored.config.try_into()?))
    }
}

impl From<&Entry> for StoredEntry {
    fn from(entry: &Entry) -> Self {
        let payload = match &entry.payload {
            Payload::Blank => StoredPayload::Blank,
            Payload::Normal(batch) => StoredPayload::Normal(batch.0.clone()),
            Payload::Membership(membership) => StoredPayload::Membership(membership.into()),
        };
        StoredEntry { log_id: (&entry.log_id).into(), payload }
    }
}

impl StoredEntry {
    /// The entry. (A method, because openraft's entry converts from too many types for a `TryFrom`.)
    ///
    /// # Errors
    /// The stored membership is impossible.
    pub fn into_entry(self) -> Result<Entry, ImpossibleMembership> {
        let payload = match self.payload {
            StoredPayload::Blank => Payload::Blank,
            StoredPayload::Normal(bytes) => Payload::Normal(EncodedBatch(bytes)),
            StoredPayload::Membership(config) => Payload::Membership(config.try_into()?),
        };
        Ok(Entry { log_id: self.log_id.into(), payload })
    }
}

impl From<&SnapshotMeta> for StoredSnapshotMeta {
    fn from(meta: &SnapshotMeta) -> Self {
        StoredSnapshotMeta {
            last_log_id: meta.last_log_id.as_ref().map(StoredLogId::from),
            membership: (&meta.last_membership).into(),
        }
    }
}

impl TryFrom<StoredSnapshotMeta> for SnapshotMeta {
    type Error = ImpossibleMembership;

    fn try_from(stored: StoredSnapshotMeta) -> Result<Self, ImpossibleMembership> {
        Ok(SnapshotMeta {
            last_log_id: stored.last_log_id.map(LogId::from),
            last_membership: stored.membership.try_into()?,
        })
    }
}

#[cfg(test)]
#[path = "stored_tests.rs"]
mod tests;
