//! The simulated network: directed links that delay, lose, repeat, hold back and cut.
//!
//! It carries calls, not packets: what TCP makes of lost packets is part of the link. A loss is a pause for the
//! retransmission, a link that is cut loses what is sent or holds it until it is whole again, and an answer that
//! is lost leaves its caller waiting until the caller's own deadline.

mod link;
mod post;

pub use link::{Cut, Link};
pub use post::{Delivery, Net, Stats};

use std::time::Duration;

use bytes::Bytes;
use orloj_raft_store::{RpcEnvelope, RpcKind};

/// What is asked of a place.
#[derive(Debug, Clone)]
pub enum Request {
    /// A peer call of the store.
    Raft(RpcKind, RpcEnvelope, Bytes),
    /// HTTP to the internal listener of a replica, or to an executor.
    Internal(Message),
    /// HTTP to the public listener of a replica.
    Public(Message),
    /// HTTP to the sink.
    Callback(Message),
}

impl Request {
    /// Whether it may arrive twice. What a caller asked for may not, on its way to the replica or from there to the
    /// leader: a connection delivers once, and a caller is told of the one delivery.
    pub fn may_repeat(&self) -> bool {
        match self {
            Request::Raft(..) => true,
            Request::Internal(message) => !message.target.starts_with(FORWARD),
            Request::Public(_) | Request::Callback(_) => false,
        }
    }
}

/// Where a replica hands on what a caller asked for.
const FORWARD: &str = "/internal/v1/forward";

/// An HTTP request.
#[derive(Debug, Clone, Default)]
pub struct Message {
    /// In upper case.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// In the order in which they are sent.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

/// What a place answers.
#[derive(Debug, Clone)]
pub enum Reply {
    /// To a peer call: the answer, or why it was refused without an effect.
    Raft(Result<Bytes, String>),
    /// To HTTP.
    Http {
        /// The status.
        status: u16,
        /// In lower case.
        headers: Vec<(String, String)>,
        /// The body.
        body: Bytes,
    },
}

/// Why a call has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Nothing was sent: there was no connection.
    #[error("unreachable")]
    Unreachable,
    /// Sent, and the connection broke.
    #[error("the connection broke")]
    Broken,
    /// Sent, and no answer in time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
}
