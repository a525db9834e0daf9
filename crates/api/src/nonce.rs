//! The leader's memory of spent nonces. Pure: time is passed in.
//!
//! A change carries its nonce into the log as well, which makes it single for ever; this memory keeps reads
//! single, and keeps a repeated request from taking tokens from its key's buckets. It is empty after a
//! failover: a captured read could then be repeated once within its time window, without an effect.

use std::collections::{BTreeMap, HashMap, HashSet};

use orloj_wire::sign::{NONCE_KEEP_S, TIME_WINDOW_S};

use crate::keyring::Limits;

/// Nonces are forgotten in steps of so many seconds.
const BUCKET_S: i64 = 10;
/// The fewest nonces that one key may have in memory.
const CAP_MIN: usize = 16_384;

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    /// It is spent now.
    Now,
    /// It was spent before.
    Before,
    /// The key has as many nonces in memory as its rate can fill; none is forgotten early.
    Full,
}

/// The nonces of all keys.
#[derive(Debug, Default)]
pub struct Nonces {
    keys: HashMap<String, OfKey>,
}

#[derive(Debug, Default)]
struct OfKey {
    /// Eight bytes of the hash tell nonces apart: two of a million in memory meet once in 10^7 fillings.
    known: HashSet<u64>,
    /// By the end of the step in which they are forgotten.
    expiry: BTreeMap<i64, Vec<u64>>,
}

impl OfKey {
    fn forget(&mut self, now_s: i64) {
        while let Some(entry) = self.expiry.first_entry() {
            if *entry.key() > now_s {
                break;
            }
            for nonce in entry.remove() {
                self.known.remove(&nonce);
            }
        }
    }
}

/// How many nonces a key can have spent within their memory, one burst included.
fn cap(limits: Limits) -> usize {
    let memory_s = (TIME_WINDOW_S + NONCE_KEEP_S) as f64;
    ((limits.requests_per_s * memory_s) as usize + limits.requests_burst as usize).max(CAP_MIN)
}

impl Nonces {
    /// Whether a nonce is spent. `nonce` is its hash.
    pub fn is_known(&self, access_key: &str, nonce: &[u8; 16]) -> bool {
        self.keys.get(access_key).is_some_and(|of_key| of_key.known.contains(&short(nonce)))
    }

    /// The access keys with nonces.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(String::as_str)
    }

    /// Frees nonces that have expired, and those of keys that are gone.
    pub fn sweep(&mut self, gone: &[String], now_s: i64) {
        for key in gone {
            self.keys.remove(key);
        }
        self.keys.retain(|_, of_key| {
            of_key.forget(now_s);
            !of_key.known.is_empty()
        });
    }

    /// Spends a nonce whose request was stamped at `timestamp_s`.
    pub fn claim(
        &mut self,
        access_key: &str,
        limits: Limits,
        nonce: &[u8; 16],
        timestamp_s: i64,
        now_s: i64,
    ) -> Claimed {
        if !self.keys.contains_key(access_key) {
            self.keys.insert(access_key.to_owned(), OfKey::default());
        }
        let of_key = self.keys.get_mut(access_key).expect("it was put there above");
        of_key.forget(now_s);
        let nonce = short(nonce);
        if of_key.known.contains(&nonce) {
            return Claimed::Before;
        }
        if of_key.known.len() >= cap(limits) {
            return Claimed::Full;
        }
        of_key.known.insert(nonce);
        let expires = timestamp_s + NONCE_KEEP_S;
        let step = expires.div_euclid(BUCKET_S) * BUCKET_S + BUCKET_S;
        of_key.expiry.entry(step).or_default().push(nonce);
        Claimed::Now
    }
}

/// As much of a nonce's hash as memories of nonces keep.
pub(crate) fn short(nonce: &[u8; 16]) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *nonce;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nonce(number: u64) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        bytes
    }

    fn claim(nonces: &mut Nonces, number: u64, timestamp: i64, now: i64) -> Claimed {
        nonces.claim("ak_A", Limits::default(), &nonce(number), timestamp, now)
    }

    #[test]
    fn a_nonce_is_spent_once_as_long_as_its_request_could_pass() {
        let mut nonces = Nonces::default();
        assert_eq!(claim(&mut nonces, 1, 1000, 1000), Claimed::Now);
        for now in [1000, 1000 + TIME_WINDOW_S, 1000 + NONCE_KEEP_S - 1] {
            assert_eq!(claim(&mut nonces, 1, 1000, now), Claimed::Before, "{now}");
        }
        // A request from the future is remembered until it is too old.
        assert_eq!(claim(&mut nonces, 2, 1000 + TIME_WINDOW_S, 1000), Claimed::Now);
        let last = 1000 + 2 * TIME_WINDOW_S;
        assert_eq!(claim(&mut nonces, 2, 1000 + TIME_WINDOW_S, last), Claimed::Before);
        assert!(!nonces.is_known("ak_B", &nonce(2)));
    }

    #[test]
    fn memory_is_given_back() {
        let mut nonces = Nonces::default();
        for number in 0..1000 {
            assert_eq!(claim(&mut nonces, number, 1000, 1000), Claimed::Now);
        }
        assert_eq!(claim(&mut nonces, 5000, 2000, 2000), Claimed::Now);
        assert_eq!(nonces.keys["ak_A"].known.len(), 1);
        assert_eq!(nonces.keys["ak_A"].expiry.len(), 1);
    }

    #[test]
    fn a_full_memory_refuses_and_forgets_nothing() {
        let mut nonces = Nonces::default();
        for number in 0..CAP_MIN as u64 {
            assert_eq!(claim(&mut nonces, number, 1000, 1000), Claimed::Now);
        }
        assert_eq!(claim(&mut nonces, u64::MAX, 1000, 1000), Claimed::Full);
        assert_eq!(claim(&mut nonces, 0, 1000, 1000), Claimed::Before);
    }

    #[test]
    fn the_cap_fits_the_rate() {
        assert_eq!(cap(Limits::default()), CAP_MIN);
        let fast = Limits { requests_per_s: 1000.0, requests_burst: 500, ..Limits::default() };
        assert_eq!(cap(fast), 660_500);
    }
}
