//! What a mock executor and a replica say to each other, apart from how it travels.

use orloj_wire::protocol::{Heartbeat, HeartbeatAck, Leave, Register, Registered, Reports, ReportsAck};

/// A call that is to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Names it in [`Mock::answered`](super::Mock::answered).
    pub number: u64,
    /// The internal address (`host:port`) of the replica that is meant.
    pub to: String,
    /// What is said.
    pub body: CallBody,
}

/// What a call says.
#[derive(Debug, Clone, PartialEq)]
pub enum CallBody {
    /// To be answered with [`Heard::Registered`].
    Register(Register),
    /// To be answered with [`Heard::Heartbeat`].
    Heartbeat(Heartbeat),
    /// To be answered with [`Heard::Reports`].
    Reports(Reports),
    /// To be answered with [`Heard::Left`].
    Leave(Leave),
}

impl CallBody {
    /// Where it is posted.
    pub fn path(&self) -> &'static str {
        match self {
            CallBody::Register(_) => "/internal/v1/executors/register",
            CallBody::Heartbeat(_) => "/internal/v1/executors/heartbeat",
            CallBody::Reports(_) => "/internal/v1/executors/report",
            CallBody::Leave(_) => "/internal/v1/executors/leave",
        }
    }

    /// The JSON body.
    pub fn json(&self) -> Vec<u8> {
        let written = match self {
            CallBody::Register(body) => serde_json::to_vec(body),
            CallBody::Heartbeat(body) => serde_json::to_vec(body),
            CallBody::Reports(body) => serde_json::to_vec(body),
            CallBody::Leave(body) => serde_json::to_vec(body),
        };
        written.expect("messages are made of strings, numbers and maps with string keys")
    }

    /// Reads the body of a 200.
    ///
    /// # Errors
    /// It is not the answer that the protocol has for this call.
    pub fn read(&self, body: &[u8]) -> Result<Heard, serde_json::Error> {
        Ok(match self {
            CallBody::Register(_) => Heard::Registered(serde_json::from_slice(body)?),
            CallBody::Heartbeat(_) => Heard::Heartbeat(serde_json::from_slice(body)?),
            CallBody::Reports(_) => Heard::Reports(serde_json::from_slice(body)?),
            CallBody::Leave(_) => Heard::Left,
        })
    }
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// The answer to a registration.
    Registered(Registered),
    /// The answer to a heartbeat.
    Heartbeat(HeartbeatAck),
    /// The answer to reports.
    Reports(ReportsAck),
    /// The goodbye was heard.
    Left,
    /// 421: it does not lead; whom it takes for the leader.
    NotLeader(Option<String>),
    /// The leader refuses this call and would refuse it again (4xx).
    Refused(u16),
    /// No connection, no answer in time, a broken answer, or 5xx: it may have been received.
    NoAnswer,
}

/// The answer to a push.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer<T> {
    /// Held back so long, in ms.
    pub delay_ms: u64,
    /// What is said then.
    pub said: Said<T>,
}

/// What is said to a push.
#[derive(Debug, Clone, PartialEq)]
pub enum Said<T> {
    /// 200 with this body.
    Body(T),
    /// The whole push is refused, as a problem with this status and code.
    Refused {
        /// HTTP status.
        status: u16,
        /// Stable code.
        code: &'static str,
    },
    /// 500, although it was taken.
    Broken,
    /// Nothing, ever.
    Nothing,
}

impl<T> Answer<T> {
    pub(super) fn now(body: T) -> Answer<T> {
        Answer { delay_ms: 0, said: Said::Body(body) }
    }

    pub(super) fn refused(status: u16, code: &'static str) -> Answer<T> {
        Answer { delay_ms: 0, said: Said::Refused { status, code } }
    }

    pub(super) fn nothing() -> Answer<T> {
        Answer { delay_ms: 0, said: Said::Nothing }
    }
}
