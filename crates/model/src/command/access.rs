//! What changes callers and keys. Append-only as [`Command`](crate::Command) is.

use serde::{Deserialize, Serialize};

use crate::access::{Actor, CallerLimits, CallerSettings, Denial, KeyOwner, Resealed};
use crate::id::CallerId;

/// A change of callers, keys or the audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessCommand {
    /// A caller is made or changed; its tasks run without a limit on their number.
    PutCaller {
        /// The caller.
        caller: CallerId,
        /// The version that the administrator saw; 0 where there must be none, `None` whatever there is.
        expected: Option<u64>,
        /// What is decided.
        settings: CallerSettings,
        /// Who asks.
        by: Actor,
    },
    /// A caller goes, with its keys. Its tasks stay. Refused while it has jobs.
    DeleteCaller {
        /// The caller.
        caller: CallerId,
        /// Who asks.
        by: Actor,
    },
    /// A key is made.
    AddKey {
        /// Its name.
        key: String,
        /// Whose it is.
        owner: KeyOwner,
        /// Its sealed secret.
        sealed: Vec<u8>,
        /// For people.
        description: String,
        /// Who asks.
        by: Actor,
    },
    /// A key is switched on or off.
    SetKey {
        /// Its name.
        key: String,
        /// Requests that it signs are let in.
        enabled: bool,
        /// Who asks.
        by: Actor,
    },
    /// A key goes.
    DeleteKey {
        /// Its name.
        key: String,
        /// Who asks.
        by: Actor,
    },
    /// Another secret signs a caller's callbacks.
    AddWebhookSecret {
        /// The caller.
        caller: CallerId,
        /// Tells it apart.
        id: String,
        /// The sealed secret.
        sealed: Vec<u8>,
        /// Who asks.
        by: Actor,
    },
    /// A secret signs no more.
    DeleteWebhookSecret {
        /// The caller.
        caller: CallerId,
        /// Which.
        id: String,
        /// Who asks.
        by: Actor,
    },
    /// An administrator's request is let in, for a change that is not one command: its nonce is spent and it is
    /// recorded.
    Admit {
        /// Who asks.
        by: Actor,
        /// For what.
        action: String,
        /// On what.
        target: String,
    },
    /// A replica turned calls away that were signed well.
    Denied {
        /// At most [`DENIALS_PER_COMMAND`](crate::access::DENIALS_PER_COMMAND).
        denials: Vec<Denial>,
    },
    /// Secrets were sealed anew with another key. The request for it was let in by [`Admit`](Self::Admit).
    Reseal {
        /// At most [`RESEALED_PER_COMMAND`](crate::access::RESEALED_PER_COMMAND).
        secrets: Vec<Resealed>,
    },
    /// A caller is made or changed as by [`PutCaller`](Self::PutCaller), and so many of its tasks may run at a time.
    PutLimited {
        /// The caller.
        caller: CallerId,
        /// The version that the administrator saw; 0 where there must be none, `None` whatever there is.
        expected: Option<u64>,
        /// What is decided.
        settings: CallerSettings,
        /// How much of its work runs.
        limits: CallerLimits,
        /// Who asks.
        by: Actor,
    },
    /// A replica turned calls away of which nobody knows who made them: without a good signature.
    Unsigned {
        /// At most [`DENIALS_PER_COMMAND`](crate::access::DENIALS_PER_COMMAND).
        denials: Vec<Denial>,
    },
}
