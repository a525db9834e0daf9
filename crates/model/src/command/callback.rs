//! What changes callbacks. Append-only as [`Command`](crate::Command) is.

use serde::{Deserialize, Serialize};

use crate::callback::SendOutcome;
use crate::command::Claim;
use crate::id::{CallerId, TaskId};

/// A change of a callback. Those marked *round* are the leader's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallbackCommand {
    /// *Round.* A send is about to go out. It does so only once this is committed.
    Start {
        /// The task.
        task: TaskId,
        /// The delivery that the leader means.
        series: u32,
        /// The send that the leader believes to be next.
        number: u8,
        /// 0-1000, for the jitter of the delay if nobody writes down how it ends.
        chance: u16,
    },
    /// *Round.* A send has ended.
    Finish {
        /// The task.
        task: TaskId,
        /// The delivery.
        series: u32,
        /// The send.
        number: u8,
        /// How.
        outcome: SendOutcome,
        /// 0-1000, for the jitter of the delay before the next one.
        chance: u16,
    },
    /// Somebody wants the callback to be delivered again.
    Redeliver {
        /// The task.
        task: TaskId,
        /// The caller that asks.
        caller: CallerId,
        /// The signed request's nonce.
        claim: Option<Claim>,
    },
}

impl CallbackCommand {
    /// Whether it holds only in the round in which it was decided.
    pub fn is_of_the_round(&self) -> bool {
        match self {
            CallbackCommand::Start { .. } | CallbackCommand::Finish { .. } => true,
            CallbackCommand::Redeliver { .. } => false,
        }
    }
}
