//! Secrets at rest: sealed before they enter the log with a key that never does.
//!
//! AES-256-GCM, a random nonce for each. The sealed bytes are bound to what they are of, so that one secret cannot be
//! put in the place of another.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use orloj_wire::sign::{Secret, sha256};

/// Format of the sealed bytes: this byte, the id of the key, the nonce, ciphertext and tag.
const VERSION: u8 = 1;
/// Bytes of a key's id.
const ID_LEN: usize = 8;
/// The shortest text of a key, in bytes; a generated one has 47.
const KEY_MIN: usize = 32;

/// Why something cannot be sealed or opened. Never shows a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The secrets file has no sealing key.
    #[error("the secrets file has no sealing-keys: make one with `orloj init`")]
    NoKey,
    /// A sealing key is too short.
    #[error("a sealing key has fewer than 32 characters")]
    Weak,
    /// It was sealed with a key that is not there, for something else, or it is damaged.
    #[error("it cannot be opened with the sealing keys of this replica")]
    Unreadable,
}

struct Key {
    id: [u8; ID_LEN],
    key: LessSafeKey,
}

/// Seals with the first of its keys and opens with each of them, so that keys can be exchanged.
#[derive(Default)]
pub struct Sealer {
    keys: Vec<Key>,
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer({} keys)", self.keys.len())
    }
}

impl Sealer {
    /// A sealer with these keys, the same on every replica.
    ///
    /// # Errors
    /// A key is too short.
    pub fn new(keys: &[Secret]) -> Result<Self, SealError> {
        let keys = keys.iter().map(|secret| {
            let text = secret.expose().as_bytes();
            if text.len() < KEY_MIN {
                return Err(SealError::Weak);
            }
            let bytes = sha256(&[b"orloj sealing key\n", text]);
            let unbound = UnboundKey::new(&AES_256_GCM, &bytes).map_err(|_| SealError::Weak)?;
            let mut id = [0; ID_LEN];
            id.copy_from_slice(&sha256(&[b"orloj sealing key id\n", text])[..ID_LEN]);
            Ok(Key { id, key: LessSafeKey::new(unbound) })
        });
        Ok(Sealer { keys: keys.collect::<Result<_, _>>()? })
    }

    /// Seals `secret`, which is the secret of `of`.
    ///
    /// # Errors
    /// There is no key.
    pub fn seal(&self, of: &str, secret: &str) -> Result<Vec<u8>, SealError> {
        let Key { id, key } = self.keys.first().ok_or(SealError::NoKey)?;
        let mut nonce = [0; NONCE_LEN];
        orloj_wire::random::Random::fill(&orloj_wire::random::SystemRandom, &mut nonce);
        let mut sealed = secret.as_bytes().to_vec();
        let bound = Aad::from(of.as_bytes());
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), bound, &mut sealed)
            .map_err(|_| SealError::Unreadable)?;
        let mut bytes = vec![VERSION];
        bytes.extend(id);
        bytes.extend(nonce);
        bytes.extend(sealed);
        Ok(bytes)
    }

    /// The ids of its keys in hex, in their order. They show nothing of the keys.
    pub fn key_ids(&self) -> Vec<String> {
        let hex = |id: &[u8; ID_LEN]| id.iter().map(|byte| format!("{byte:02x}")).collect();
        self.keys.iter().map(|key| hex(&key.id)).collect()
    }

    /// Whether something is sealed with the first key.
    pub fn is_current(&self, sealed: &[u8]) -> bool {
        let id = sealed.strip_prefix(&[VERSION]).and_then(|rest| rest.get(..ID_LEN));
        self.keys.first().is_some_and(|key| id == Some(&key.id[..]))
    }

    /// Seals anew, with the first key, what any of its keys sealed for the same `of`.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn reseal(&self, of: &str, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        self.seal(of, &self.open(of, sealed)?)
    }

    /// Opens what [`seal`](Sealer::seal) made for the same `of`.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(&self, of: &str, sealed: &[u8]) -> Result<String, SealError> {
        let unreadable = SealError::Unreadable;
        let rest = sealed.strip_prefix(&[VERSION]).ok_or(unreadable)?;
        let (id, rest) = rest.split_at_checked(ID_LEN).ok_or(unreadable)?;
        let (nonce, rest) = rest.split_at_checked(NONCE_LEN).ok_or(unreadable)?;
        let key = self.keys.iter().find(|key| key.id == id).ok_or(unreadable)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| unreadable)?;
        let mut bytes = rest.to_vec();
        let opened =
            key.key.open_in_place(nonce, Aad::from(of.as_bytes()), &mut bytes).map_err(|_| unreadable)?;
        String::from_utf8(opened.to_vec()).map_err(|_| unreadable)
    }
}

/// What the secret of an access key is bound to.
pub fn of_key(access_key: &str) -> String {
    format!("access-key\n{access_key}")
}

/// What a webhook secret is bound to.
pub fn of_webhook(caller: &str, id: &str) -> String {
    format!("webhook-secret\n{caller}\n{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: char) -> Secret {
        Secret::new(byte.to_string().repeat(43)).unwrap()
    }

    #[test]
    fn what_is_sealed_shows_nothing_and_comes_back_for_its_owner_alone() {
        let sealer = Sealer::new(&[key('a')]).unwrap();
        let sealed = sealer.seal(&of_key("ak_1"), "sk_hush").unwrap();
        assert!(!sealed.windows(7).any(|window| window == b"sk_hush"));
        assert_eq!(sealer.open(&of_key("ak_1"), &sealed).unwrap(), "sk_hush");
        assert_eq!(sealer.open(&of_key("ak_2"), &sealed), Err(SealError::Unreadable));
        assert_eq!(sealer.open(&of_webhook("ak_1", ""), &sealed), Err(SealError::Unreadable));
        assert_ne!(sealer.seal(&of_key("ak_1"), "sk_hush").unwrap(), sealed, "a nonce each");
        for at in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[at] ^= 1;
            assert_eq!(sealer.open(&of_key("ak_1"), &damaged), Err(SealError::Unreadable), "{at}");
            assert_eq!(sealer.open(&of_key("ak_1"), &sealed[..at]), Err(SealError::Unreadable), "{at}");
        }
    }

    #[test]
    fn keys_can_be_exchanged() {
        let old = Sealer::new(&[key('a')]).unwrap();
        let both = Sealer::new(&[key('b'), key('a')]).unwrap();
        let new = Sealer::new(&[key('b')]).unwrap();
        let sealed = old.seal("x", "s").unwrap();
        assert_eq!(both.open("x", &sealed).unwrap(), "s");
        assert_eq!(new.open("x", &sealed), Err(SealError::Unreadable));
        assert_eq!(new.open("x", &both.seal("x", "s").unwrap()).unwrap(), "s");
        assert!(old.is_current(&sealed) && !both.is_current(&sealed) && !new.is_current(&sealed));
        let anew = both.reseal("x", &sealed).unwrap();
        assert!(both.is_current(&anew) && new.is_current(&anew));
        assert_eq!(new.open("x", &anew).unwrap(), "s");
        assert_eq!(both.reseal("y", &sealed), Err(SealError::Unreadable), "it is of something else");
        assert_eq!(new.reseal("x", &sealed), Err(SealError::Unreadable));
        let ids = both.key_ids();
        assert_eq!((ids.len(), ids[0].len(), &ids[1]), (2, 16, &old.key_ids()[0]));
        assert!(!both.is_current(b"") && !Sealer::default().is_current(&sealed));
    }

    #[test]
    fn without_a_key_nothing_is_sealed() {
        assert_eq!(Sealer::default().seal("x", "s"), Err(SealError::NoKey));
        assert!(matches!(Sealer::new(&[Secret::new("short").unwrap()]), Err(SealError::Weak)));
        assert!(!format!("{:?}", Sealer::new(&[key('a')]).unwrap()).contains("aaa"));
    }
}
