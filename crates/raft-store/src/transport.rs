//! How bytes get to a peer: the seam at which a simulation replaces the network.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use crate::types::{Member, NodeId};

/// What a peer call is about; the last segment of its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RpcKind {
    /// Log entries.
    Append,
    /// An append without entries.
    Heartbeat,
    /// A candidate asks for a vote.
    Vote,
    /// Would a vote be granted?
    PreVote,
    /// The leader hands over.
    Transfer,
    /// One step of sending a snapshot.
    Snapshot,
    /// Who are you? Asked of an address, not of a member.
    Probe,
    /// A node without data asks for an id, or to be let in under the id that it was given. Asked of an
    /// address, not of a member.
    Join,
    /// A leader gives an id to a node without data. Asked of an address, not of a member.
    Adopt,
    /// The peer's [`NodeStatus`](crate::NodeStatus).
    Status,
    /// The peer's digests at its last checkpoints.
    Digests,
}

impl RpcKind {
    /// Every kind.
    pub const ALL: [RpcKind; 11] = [
        RpcKind::Append,
        RpcKind::Heartbeat,
        RpcKind::Vote,
        RpcKind::PreVote,
        RpcKind::Transfer,
        RpcKind::Snapshot,
        RpcKind::Probe,
        RpcKind::Join,
        RpcKind::Adopt,
        RpcKind::Status,
        RpcKind::Digests,
    ];

    /// Its name in a path.
    pub const fn name(self) -> &'static str {
        match self {
            RpcKind::Append => "append",
            RpcKind::Heartbeat => "heartbeat",
            RpcKind::Vote => "vote",
            RpcKind::PreVote => "pre-vote",
            RpcKind::Transfer => "transfer",
            RpcKind::Snapshot => "snapshot",
            RpcKind::Probe => "probe",
            RpcKind::Join => "join",
            RpcKind::Adopt => "adopt",
            RpcKind::Status => "status",
            RpcKind::Digests => "digests",
        }
    }

    /// The path of the call.
    pub fn path(self) -> String {
        format!("{RPC_PREFIX}{}", self.name())
    }

    /// Whether the call goes to whoever listens at an address, so that no member can be named.
    pub const fn to_an_address(self) -> bool {
        matches!(self, RpcKind::Probe | RpcKind::Join | RpcKind::Adopt)
    }
}

impl fmt::Display for RpcKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for RpcKind {
    type Err = UnknownRpc;

    fn from_str(name: &str) -> Result<Self, UnknownRpc> {
        RpcKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| UnknownRpc(name.to_owned()))
    }
}

/// A path that names no peer call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no peer call is named {0:?}")]
pub struct UnknownRpc(pub String);

/// Start of the path of every peer call; the kind follows.
pub const RPC_PREFIX: &str = "/raft/v1/";

/// Largest body of a peer call, in bytes, in both directions.
pub const RPC_BODY_LIMIT: usize = crate::codec::RPC_LIMIT as usize + crate::codec::FRAME_OVERHEAD;

/// Who calls whom; goes with every call and is checked before its body is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcEnvelope {
    /// The caller's cluster.
    pub cluster: String,
    /// The member that is meant; 0 when an address is meant.
    pub target: NodeId,
    /// The birth token of the member that is meant; empty when an address is meant.
    pub target_birth: String,
    /// The caller; 0 for a node without an id.
    pub from: NodeId,
    /// The caller's birth token.
    pub from_birth: String,
}

/// A query of a peer call that does not name who calls whom.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("query {query:?} of a peer call: {field} {problem}")]
pub struct EnvelopeError {
    /// The query.
    pub query: String,
    /// The field.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl RpcEnvelope {
    /// The query of a call. It is part of what is signed, so that nobody between the members can turn a call
    /// to another life of a member, or lend it another sender. No value has a character that needs escaping.
    pub fn query(&self) -> String {
        let RpcEnvelope { cluster, target, target_birth, from, from_birth } = self;
        format!(
            "cluster={cluster}&target={target}&target-birth={target_birth}&from={from}&from-birth={from_birth}"
        )
    }

    /// Reads the query of a call: the five fields, in their order and nothing else.
    ///
    /// # Errors
    /// A field that is missing or out of place, or an id that is not a number.
    pub fn from_query(query: &str) -> Result<RpcEnvelope, EnvelopeError> {
        let wrong = |field, problem| EnvelopeError { query: query.to_owned(), field, problem };
        let mut pairs = query.split('&').map(|pair| pair.split_once('='));
        let mut text = |field| match pairs.next().flatten() {
            Some((name, value)) if name == field => Ok(value.to_owned()),
            _ => Err(wrong(field, "is not in its place")),
        };
        let id = |field, value: String| value.parse().map_err(|_| wrong(field, "must be a node id"));
        let envelope = RpcEnvelope {
            cluster: text("cluster")?,
            target: id("target", text("target")?)?,
            target_birth: text("target-birth")?,
            from: id("from", text("from")?)?,
            from_birth: text("from-birth")?,
        };
        match pairs.next() {
            None => Ok(envelope),
            Some(_) => Err(wrong("from-birth", "must be the last")),
        }
    }
}

/// Why a call brought no answer. What the peer answered, refusals included, is inside the answer's bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// Nothing was sent: no connection.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// Sent, and no answer within the deadline: the peer may have acted on it.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// Sent, and the connection broke: the peer may have acted on it.
    #[error("connection broke: {0}")]
    Broken(String),
    /// The peer refused the call; it did not act on it.
    #[error("refused: {0}")]
    Refused(String),
}

/// Carries calls to peers: bytes in, bytes out.
pub trait Transport: Send + Sync + 'static {
    /// Sends `body` to `to` and brings back the answer, within `deadline`.
    fn call<'a>(
        &'a self,
        to: &'a Member,
        kind: RpcKind,
        envelope: RpcEnvelope,
        body: Bytes,
        deadline: Duration,
    ) -> BoxFuture<'a, Result<Bytes, TransportError>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        for kind in RpcKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert_eq!("snapshots".parse::<RpcKind>(), Err(UnknownRpc("snapshots".into())));
    }

    #[test]
    fn an_envelope_survives_its_query() {
        let envelope = RpcEnvelope {
            cluster: "blue".into(),
            target: 7,
            target_birth: "b7".into(),
            from: 0,
            from_birth: String::new(),
        };
        let query = envelope.query();
        assert_eq!(query, "cluster=blue&target=7&target-birth=b7&from=0&from-birth=");
        assert_eq!(RpcEnvelope::from_query(&query), Ok(envelope));
        let field = |query: &str| RpcEnvelope::from_query(query).expect_err("it is malformed").field;
        assert_eq!(field(""), "cluster");
        assert_eq!(field("cluster=blue&target=seven&target-birth=&from=0&from-birth="), "target");
        assert_eq!(field("cluster=blue&target=7&from=0&target-birth=&from-birth="), "target-birth");
        assert_eq!(field("cluster=blue&target=7&target-birth=&from=0"), "from-birth");
        assert_eq!(field(&format!("{query}&target=8")), "from-birth");
    }
}
