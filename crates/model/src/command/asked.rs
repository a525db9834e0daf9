//! What somebody asks for with a key. Append-only as [`Command`] is.

use serde::{Deserialize, Serialize};

use crate::command::{AccessCommand, CallbackCommand, Claim, Command, GraphCommand, JobCommand, Submit};
use crate::id::{CallerId, ExecutorId, TaskId};

/// A change that a request asks for: the [`Command`]s of the same names. Not a command itself, so that what is read from a
/// log or a peer is nested no deeper than this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Asked {
    /// [`Command::Submit`]
    Submit(Box<Submit>),
    /// [`Command::Cancel`]
    Cancel {
        /// The task.
        task: TaskId,
        /// The caller that asks; `None` for an administrator.
        caller: Option<CallerId>,
        /// The signed request's nonce.
        claim: Option<Claim>,
    },
    /// [`Command::Drain`]
    Drain {
        /// The executor.
        executor: ExecutorId,
        /// `false` takes the drain back.
        on: bool,
    },
    /// [`Command::Spend`]
    Spend {
        /// The signed request's nonce.
        claim: Claim,
    },
    /// [`Command::Job`]
    Job(Box<JobCommand>),
    /// [`Command::Graph`]
    Graph(Box<GraphCommand>),
    /// [`Command::Callback`]
    Callback(Box<CallbackCommand>),
    /// [`Command::Access`]
    Access(Box<AccessCommand>),
}

impl Asked {
    /// A command as something asked for; itself again where nobody asks for such.
    ///
    /// # Errors
    /// The command.
    pub fn of(command: Command) -> Result<Asked, Box<Command>> {
        Ok(match command {
            Command::Submit(submit) => Asked::Submit(submit),
            Command::Cancel { task, caller, claim } => Asked::Cancel { task, caller, claim },
            Command::Drain { executor, on } => Asked::Drain { executor, on },
            Command::Spend { claim } => Asked::Spend { claim },
            Command::Job(command) => Asked::Job(command),
            Command::Graph(command) => Asked::Graph(command),
            Command::Callback(command) => Asked::Callback(command),
            Command::Access(command) => Asked::Access(command),
            other => return Err(Box::new(other)),
        })
    }

    /// Whether it is none: the leader's own commands hold in a round, and nobody asks for them.
    pub fn is_of_the_round(&self) -> bool {
        match self {
            Asked::Job(command) => command.is_of_the_round(),
            Asked::Graph(command) => command.is_of_the_round(),
            Asked::Callback(command) => command.is_of_the_round(),
            _ => false,
        }
    }
}
