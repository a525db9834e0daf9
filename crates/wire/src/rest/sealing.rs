//! What seals the secrets in the tables, and sealing them anew.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer to `GET sealing`: how the replica that answers stands to the sealed secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sealing {
    /// The id of the replica that answers, once it is a member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<u64>,
    /// The ids of its sealing keys, 16 hex digits each, in the order of its secrets file: the first seals, each opens.
    pub keys: Vec<String>,
    /// Secrets that are sealed with its first key.
    pub current: u64,
    /// Secrets that are sealed with another of its keys.
    pub older: u64,
    /// Secrets that it cannot open: what they sign is refused here.
    pub unreadable: u64,
    /// The log index up to which it had applied.
    pub applied_index: u64,
}

/// The answer to `POST sealing/renew`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Renewed {
    /// The id of the key that they are sealed with now.
    pub key: String,
    /// Secrets that this call sealed anew.
    pub renewed: u64,
    /// Secrets that are still sealed with an older key: call again.
    pub remaining: u64,
    /// Secrets that no sealing key of the leader opens: they stay as they are.
    pub unreadable: u64,
}
