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

/// Header with the caller's cluster.
pub const CLUSTER_HEADER: &str = "x-orloj-cluster";
/// Header with the member that is meant.
pub const TARGET_HEADER: &str = "x-orloj-target";
/// Header with that member's birth token.
pub const TARGET_BIRTH_HEADER: &str = "x-orloj-target-birth";
/// Header with the caller.
pub const FROM_HEADER: &str = "x-orloj-from";
/// Header with the caller's birth token.
pub const FROM_BIRTH_HEADER: &str = "x-orloj-from-birth";

/// A header of a peer call that is missing or malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("header {name} of a peer call is {value:?}: {problem}")]
pub struct EnvelopeError {
    /// The header.
    pub name: &'static str,
    /// Its value; empty when it is missing.
    pub value: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl RpcEnvelope {
    /// The headers of a call.
    pub fn headers(&self) -> [(&'static str, String); 5] {
        [
            (CLUSTER_HEADER, self.cluster.clone()),
            (TARGET_HEADER, self.target.to_string()),
            (TARGET_BIRTH_HEADER, self.target_birth.clone()),
            (FROM_HEADER, self.from.to_string()),
            (FROM_BIRTH_HEADER, self.from_birth.clone()),
        ]
    }

    /// Reads the headers of a call; `header` looks one up by its lower-case name.
    ///
    /// # Errors
    /// A header that is missing, or an id that is not a number.
    pub fn from_headers<'a>(
        header: impl Fn(&'static str) -> Option<&'a str>,
    ) -> Result<RpcEnvelope, EnvelopeError> {
        let text = |name| match header(name) {
            Some(value) => Ok(value.to_owned()),
            None => Err(EnvelopeError { name, value: String::new(), problem: "it is missing" }),
        };
        let id = |name| {
            let value = text(name)?;
            let problem = "expected a node id";
            value.parse::<NodeId>().map_err(|_| EnvelopeError { name, value, problem })
        };
        Ok(RpcEnvelope {
            cluster: text(CLUSTER_HEADER)?,
            target: id(TARGET_HEADER)?,
            target_birth: text(TARGET_BIRTH_HEADER)?,
            from: id(FROM_HEADER)?,
            from_birth: text(FROM_BIRTH_HEADER)?,
        })
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
    fn an_envelope_survives_its_headers() {
        let envelope = RpcEnvelope {
            cluster: "blue".into(),
            target: 7,
            target_birth: "b7".into(),
            from: 0,
            from_birth: "b0".into(),
        };
        let headers = envelope.headers();
        let find = |name| headers.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str());
        assert_eq!(RpcEnvelope::from_headers(find), Ok(envelope));
        let broken = |name| if name == TARGET_HEADER { Some("seven") } else { find(name) };
        let error = RpcEnvelope::from_headers(broken).expect_err("the id is not a number");
        assert_eq!((error.name, error.value.as_str()), (TARGET_HEADER, "seven"));
        assert!(RpcEnvelope::from_headers(|_| None).is_err());
    }
}
