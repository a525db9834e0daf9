//! Callers with their keys, and what administrators did and who was turned away.
//!
//! Secrets are here only as they were sealed: the key that opens them is on the replicas' own disks and in no entry,
//! snapshot or backup.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::command::Claim;
use crate::id::{CallerId, Millis};

/// The most callers.
pub const MAX_CALLERS: u32 = 10_000;
/// The most enabled keys of one caller: the old and the new one while they are exchanged.
pub const MAX_ENABLED_KEYS: usize = 2;
/// The most keys of one caller, disabled ones too; and of administrators.
pub const MAX_KEYS: usize = 16;
/// The most secrets that sign the callbacks of one caller.
pub const MAX_WEBHOOK_SECRETS: usize = 2;
/// How many records of each kind are kept; the oldest goes first.
pub const AUDIT_KEPT: u64 = 10_000;
/// The most refused calls in one command.
pub const DENIALS_PER_COMMAND: usize = 64;
/// The longest text in a record, in bytes.
pub const AUDIT_TEXT: usize = 512;
/// The largest sealed secret, in bytes.
pub const SEALED_LIMIT: usize = 512;
/// The most secrets that one command seals anew.
pub const RESEALED_PER_COMMAND: usize = 256;

/// What a key may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Scope {
    /// Of a caller: submit tasks.
    Submit,
    /// Of a caller: submit and wait in one call.
    Sync,
    /// Of a caller: read its tasks and jobs.
    Read,
    /// Of a caller: cancel its tasks, have callbacks delivered again.
    Cancel,
    /// Of a caller: change its jobs and calendars.
    Jobs,
    /// Of an administrator: change the cluster and its executors.
    Cluster,
    /// Of an administrator: change callers and keys.
    Callers,
    /// Of an administrator: read the audit.
    Audit,
}

impl Scope {
    /// Every one.
    pub const ALL: [Scope; 8] = [
        Scope::Submit,
        Scope::Sync,
        Scope::Read,
        Scope::Cancel,
        Scope::Jobs,
        Scope::Cluster,
        Scope::Callers,
        Scope::Audit,
    ];

    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Submit => "submit",
            Scope::Sync => "sync",
            Scope::Read => "read",
            Scope::Cancel => "cancel",
            Scope::Jobs => "jobs",
            Scope::Cluster => "cluster",
            Scope::Callers => "callers",
            Scope::Audit => "audit",
        }
    }

    /// Whether administrators have it, and not callers.
    pub fn is_admins(self) -> bool {
        matches!(self, Scope::Cluster | Scope::Callers | Scope::Audit)
    }

    /// The scope of this name.
    pub fn from_name(name: &str) -> Option<Scope> {
        Scope::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// How much a key may do. Rates are in thousandths, since replicated state has no floating-point numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyLimits {
    /// Requests per 1,000 seconds.
    pub requests_per_1000s: u64,
    /// Requests at once after a pause.
    pub requests_burst: u32,
    /// Submissions per 1,000 seconds.
    pub submits_per_1000s: u64,
    /// Submissions at once after a pause.
    pub submits_burst: u32,
    /// Long polls at once.
    pub waiters: u32,
}

/// Where callbacks may go, as it was written; checked at the edge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallbackHost {
    /// A host, or `*.` and a domain.
    pub host: String,
    /// The ports.
    pub ports: Vec<u16>,
    /// Without TLS too.
    pub plain_http: bool,
    /// Ranges outside the public internet that it may lead to.
    pub allow_cidrs: Vec<String>,
}

/// What an administrator decides about a caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallerSettings {
    /// `false` turns every key of the caller off.
    pub enabled: bool,
    /// For people.
    pub description: String,
    /// What its keys may be used for.
    pub scopes: BTreeSet<Scope>,
    /// Handlers that it may use: names, or beginnings that end with `*`.
    pub handlers: Vec<String>,
    /// Where its callbacks may go. Empty: nowhere.
    pub callback_hosts: Vec<CallbackHost>,
    /// How much each of its keys may do.
    pub limits: KeyLimits,
}

/// Whether a list of handlers (names, or beginnings that end with `*`) holds this one. An empty list holds none.
pub fn may_use(handlers: &[String], handler: &str) -> bool {
    handlers.iter().any(|one| match one.strip_suffix('*') {
        Some(start) => handler.starts_with(start),
        None => one == handler,
    })
}

/// A secret that only replicas can open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedSecret {
    /// Tells it apart.
    pub id: String,
    /// The sealed bytes.
    pub sealed: Vec<u8>,
    /// When it was made.
    pub created_at: Millis,
}

/// A caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallerRow {
    /// Grows by one with every change of the settings.
    pub version: u64,
    /// What was decided about it.
    pub settings: CallerSettings,
    /// What signs its callbacks.
    pub webhook_secrets: Vec<SealedSecret>,
    /// When it was made.
    pub created_at: Millis,
    /// When its settings last changed.
    pub updated_at: Millis,
}

/// Which sealed secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SealedOf {
    /// That of an access key.
    Key(String),
    /// One that signs a caller's callbacks.
    Webhook {
        /// The caller.
        caller: CallerId,
        /// Which.
        id: String,
    },
}

/// A secret that was sealed anew: the same secret, under another key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resealed {
    /// Which.
    pub of: SealedOf,
    /// As it was sealed before; where it is something else by now, it stays.
    pub before: Vec<u8>,
    /// As it is sealed now.
    pub sealed: Vec<u8>,
}

/// Whose a key is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyOwner {
    /// A caller's; scopes and limits are the caller's.
    Caller(CallerId),
    /// An administrator's.
    Admin {
        /// What it may be used for.
        scopes: BTreeSet<Scope>,
    },
}

impl KeyOwner {
    /// The caller's name; empty for administrators, which no caller can be called.
    pub fn index_text(&self) -> &str {
        match self {
            KeyOwner::Caller(caller) => caller.as_str(),
            KeyOwner::Admin { .. } => "",
        }
    }
}

/// An access key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessKeyRow {
    /// Whose it is.
    pub owner: KeyOwner,
    /// Its sealed secret.
    pub sealed: Vec<u8>,
    /// Requests that it signs are let in.
    pub enabled: bool,
    /// For people.
    pub description: String,
    /// When it was made.
    pub created_at: Millis,
}

/// Who asks for a change: recorded with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// The key that signed the request.
    pub access_key: String,
    /// The request.
    pub request_id: String,
    /// Its nonce.
    pub claim: Option<Claim>,
}

/// The kinds of records, each with a bound of its own: refused calls push out no change, and whoever has no key pushes
/// out nothing that was tried with one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum AuditKind {
    /// An administrator changed something.
    Change = 0,
    /// A call was refused that was signed well.
    Denied = 1,
    /// A call was refused of which nobody knows who made it.
    Unsigned = 2,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRow {
    /// When it was committed.
    pub at: Millis,
    /// The access key; of a refused call the one that it claimed.
    pub actor: String,
    /// What was done or asked for.
    pub action: String,
    /// On what.
    pub target: String,
    /// Of a change what else there is to say; of a refused call the code of the refusal.
    pub detail: String,
    /// The request; of several the last one.
    pub request_id: String,
    /// Where a refused call came from.
    pub address: String,
    /// How many calls it stands for.
    pub count: u32,
}

/// Calls of one kind that a replica refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// The access key that they claimed; empty where they claimed none of a valid form.
    pub access_key: String,
    /// What they asked for.
    pub action: String,
    /// The code of the refusal.
    pub code: String,
    /// Where the last one came from.
    pub address: String,
    /// The last one.
    pub request_id: String,
    /// How many.
    pub count: u32,
}

/// What is decided about a caller beside its [`CallerSettings`]: how much of its work runs. Only a caller that is held
/// to something has a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallerLimits {
    /// How many of its tasks may run at a time; at least 1.
    pub max_running: u32,
}

/// What is counted about callers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessMeta {
    /// Grows with every change of callers and keys: what was read at one revision holds until the next.
    pub revision: u64,
    /// How many callers there are.
    pub callers: u32,
    /// The number of the next record, of changes and of refused calls that were signed well.
    pub next_audit: [u64; 2],
}
