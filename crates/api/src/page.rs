//! Page tokens: where a list goes on, sealed so that a token cannot be made up, nor used by another caller,
//! with other filters, or for long. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use orloj_model::id::{Millis, TaskId};
use orloj_model::query::Cursor;
use orloj_wire::problem::Code;
use orloj_wire::sign::{Secret, sha256};

use crate::outcome::Failure;

/// How long a token is good, in ms: an hour.
const TTL_MS: Millis = 60 * 60 * 1000;
const PAYLOAD: usize = 8 + 8 + 16;
const SEAL: usize = 16;

/// What a token belongs to.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The caller's name; empty for administrators, which no caller can be called.
    pub caller: &'a str,
    /// The filters of the list, as they were sent.
    pub filters: &'a str,
}

/// Seals and opens tokens. The key comes from the cluster's secret, so every replica has the same.
#[derive(Clone)]
pub struct Tokens {
    key: [u8; 32],
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tokens(…)")
    }
}

impl Tokens {
    /// Tokens of the cluster with this secret.
    pub fn new(cluster_secret: &Secret) -> Self {
        Tokens { key: sha256(&[b"orloj page tokens\n", cluster_secret.expose().as_bytes()]) }
    }

    /// The token that goes on after `cursor`.
    pub fn seal(&self, scope: Scope<'_>, cursor: Cursor, now_ms: Millis) -> String {
        let mut bytes = Vec::with_capacity(PAYLOAD + SEAL);
        bytes.extend_from_slice(&now_ms.to_be_bytes());
        bytes.extend_from_slice(&cursor.created_at.to_be_bytes());
        bytes.extend_from_slice(&cursor.task.0);
        let seal = self.seal_of(scope, &bytes);
        bytes.extend_from_slice(&seal);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Where the token goes on.
    pub fn open(&self, scope: Scope<'_>, token: &str, now_ms: Millis) -> Result<Cursor, Failure> {
        let bytes = URL_SAFE_NO_PAD.decode(token).unwrap_or_default();
        let payload = self.opened(scope, &bytes, Some(PAYLOAD), now_ms)?;
        let mut task = [0; 16];
        task.copy_from_slice(&payload[16..]);
        Ok(Cursor { created_at: number(&payload[8..]), task: TaskId(task) })
    }

    /// The token that goes on after a row that a text names.
    pub fn seal_text(&self, scope: Scope<'_>, text: &str, now_ms: Millis) -> String {
        let mut bytes = now_ms.to_be_bytes().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        let seal = self.seal_of(scope, &bytes);
        bytes.extend_from_slice(&seal);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The text of a token of [`seal_text`](Tokens::seal_text).
    pub fn open_text(&self, scope: Scope<'_>, token: &str, now_ms: Millis) -> Result<String, Failure> {
        let bytes = URL_SAFE_NO_PAD.decode(token).unwrap_or_default();
        let length = bytes.len().checked_sub(SEAL).filter(|length| *length >= 8);
        let payload = self.opened(scope, &bytes, length, now_ms)?;
        String::from_utf8(payload[8..].to_vec())
            .map_err(|_| Failure::new(Code::InvalidQuery, "page_token: is not a token of this API"))
    }

    /// The payload of a token, `length` bytes long, with its age and its seal checked.
    fn opened<'b>(
        &self,
        scope: Scope<'_>,
        bytes: &'b [u8],
        length: Option<usize>,
        now_ms: Millis,
    ) -> Result<&'b [u8], Failure> {
        let error = |why: &str| Failure::new(Code::InvalidQuery, format!("page_token: {why}"));
        let Some((payload, seal)) = length.and_then(|length| bytes.split_at_checked(length)) else {
            return Err(error("is not a token of this API"));
        };
        // Forging one gains nothing but another place in the caller's own list; still, the comparison takes
        // the same time wherever the seals differ.
        let differs = self.seal_of(scope, payload).iter().zip(seal).fold(0, |all, (a, b)| all | (a ^ b));
        if seal.len() != SEAL || differs != 0 {
            return Err(error("does not belong to this caller and these filters"));
        }
        if (now_ms - number(payload)).abs() > TTL_MS {
            return Err(error("is older than an hour"));
        }
        Ok(payload)
    }

    /// A keyed hash in which no part can be shifted into another: the key has a fixed length, the payload's
    /// stands before it, and a caller's id has no LF.
    fn seal_of(&self, scope: Scope<'_>, payload: &[u8]) -> [u8; SEAL] {
        let length = (payload.len() as u64).to_be_bytes();
        let inner =
            sha256(&[&self.key, &length, payload, scope.caller.as_bytes(), b"\n", scope.filters.as_bytes()]);
        // Hashing twice with the key keeps the hash from being continued.
        let outer = sha256(&[&self.key, &inner]);
        let mut seal = [0; SEAL];
        seal.copy_from_slice(&outer[..SEAL]);
        seal
    }
}

/// The number at the beginning of a payload.
fn number(bytes: &[u8]) -> Millis {
    let mut eight = [0; 8];
    for (to, from) in eight.iter_mut().zip(bytes) {
        *to = *from;
    }
    Millis::from_be_bytes(eight)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_caller_filters_and_hour_alone() {
        let tokens = Tokens::new(&Secret::new("cluster").unwrap());
        let scope = Scope { caller: "a", filters: "status=PENDING" };
        let cursor = Cursor { created_at: 5, task: TaskId([7; 16]) };
        let token = tokens.seal(scope, cursor, 1000);
        assert_eq!(tokens.open(scope, &token, 1000 + TTL_MS).unwrap(), cursor);
        assert!(tokens.open(scope, &token, 1001 + TTL_MS).is_err());
        assert!(tokens.open(Scope { caller: "b", ..scope }, &token, 1000).is_err());
        assert!(tokens.open(Scope { caller: "", ..scope }, &token, 1000).is_err());
        assert!(tokens.open(Scope { filters: "", ..scope }, &token, 1000).is_err());
        let other = Tokens::new(&Secret::new("other").unwrap());
        assert!(other.open(scope, &token, 1000).is_err());
    }

    #[test]
    fn every_changed_character_is_noticed() {
        let tokens = Tokens::new(&Secret::new("cluster").unwrap());
        let scope = Scope { caller: "a", filters: "" };
        let token = tokens.seal(scope, Cursor { created_at: 5, task: TaskId([7; 16]) }, 1000);
        for place in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(changed == token || tokens.open(scope, &changed, 1000).is_err(), "{place}");
        }
        for bad in ["", "x", "é", &token[1..], &format!("{token}AAAA")] {
            assert!(tokens.open(scope, bad, 1000).is_err(), "{bad}");
        }
    }
}
