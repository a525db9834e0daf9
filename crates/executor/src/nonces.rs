//! The memory of nonces: a signed request is taken once. Plain data.

use std::collections::{BTreeMap, HashSet};

use orloj_wire::sign::{NONCE_KEEP_S, TIME_WINDOW_S, sha256};

/// Most nonces that are remembered. A leader sends one push at a time to an executor, so that not even
/// thousands of requests a second fill it; when it is full, requests are refused, never nonces forgotten.
const CAPACITY: usize = 1 << 20;

/// Why a nonce was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rejected {
    /// The timestamp is too far from the clock, or so old that its nonce may have been forgotten.
    Time,
    /// It was used before.
    Replayed,
    /// The memory is full.
    Full,
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Nonces {
    capacity: usize,
    seen: HashSet<[u8; 16]>,
    by_time: BTreeMap<i64, Vec<[u8; 16]>>,
    /// Nonces of requests stamped before this second may be forgotten. It never goes back, so that a wall
    /// clock that jumps ahead and returns does not make old requests new.
    horizon: i64,
}

impl Default for Nonces {
    fn default() -> Self {
        Nonces::holding(CAPACITY)
    }
}

impl Nonces {
    fn holding(capacity: usize) -> Self {
        Nonces { capacity, seen: HashSet::new(), by_time: BTreeMap::new(), horizon: i64::MIN }
    }

    /// Whether a timestamp can be valid, before any work is spent on the request.
    pub(crate) fn in_time(&self, stamped_s: i64, now_s: i64) -> bool {
        stamped_s.abs_diff(now_s) <= TIME_WINDOW_S.unsigned_abs() && stamped_s >= self.horizon
    }

    /// Takes the nonce of a request whose signature is good.
    pub(crate) fn take(
        &mut self,
        sender: &str,
        nonce: &str,
        stamped_s: i64,
        now_s: i64,
    ) -> Result<(), Rejected> {
        self.forget(now_s);
        if !self.in_time(stamped_s, now_s) {
            return Err(Rejected::Time);
        }
        let digest = sha256(&[sender.as_bytes(), b"\n", nonce.as_bytes()]);
        let mut key = [0; 16];
        key.copy_from_slice(&digest[..16]);
        if self.seen.contains(&key) {
            return Err(Rejected::Replayed);
        }
        if self.seen.len() >= self.capacity {
            return Err(Rejected::Full);
        }
        self.seen.insert(key);
        self.by_time.entry(stamped_s).or_default().push(key);
        Ok(())
    }

    fn forget(&mut self, now_s: i64) {
        let horizon = now_s - NONCE_KEEP_S;
        while let Some(oldest) = self.by_time.first_entry().filter(|oldest| *oldest.key() < horizon) {
            self.horizon = self.horizon.max(*oldest.key() + 1);
            for key in oldest.remove() {
                self.seen.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_taken_once() {
        let mut nonces = Nonces::default();
        assert_eq!(nonces.take("n1", "a", 1_000, 1_000), Ok(()));
        assert_eq!(nonces.take("n1", "a", 1_001, 1_001), Err(Rejected::Replayed));
        assert_eq!(nonces.take("n2", "a", 1_000, 1_000), Ok(()), "another sender's nonce is its own");
    }

    #[test]
    fn the_window_is_300_seconds_on_both_sides() {
        let mut nonces = Nonces::default();
        for (nonce, stamped, good) in
            [("a", 700, true), ("b", 699, false), ("c", 1_300, true), ("d", 1_301, false)]
        {
            assert_eq!(nonces.take("n", nonce, stamped, 1_000).is_ok(), good, "{stamped}");
        }
        assert_eq!(nonces.take("n", "e", i64::MIN, 1_000), Err(Rejected::Time));
    }

    #[test]
    fn a_nonce_is_kept_as_long_as_its_request_could_pass() {
        let mut nonces = Nonces::default();
        assert_eq!(nonces.take("n", "a", 1_300, 1_000), Ok(()));
        assert_eq!(nonces.take("n", "a", 1_300, 1_600), Err(Rejected::Replayed));
        assert_eq!(nonces.take("n", "b", 1_700, 1_700), Ok(()));
        assert_eq!(nonces.seen.len(), 1, "the first is forgotten");
    }

    #[test]
    fn a_full_memory_refuses_and_forgets_nothing_early() {
        let mut nonces = Nonces::holding(2);
        assert_eq!(nonces.take("n", "a", 1_000, 1_000), Ok(()));
        assert_eq!(nonces.take("n", "b", 1_000, 1_000), Ok(()));
        assert_eq!(nonces.take("n", "c", 1_000, 1_000), Err(Rejected::Full));
        assert_eq!(nonces.take("n", "a", 1_000, 1_000), Err(Rejected::Replayed));
        assert_eq!(nonces.take("n", "c", 1_400, 1_400), Ok(()), "time makes room");
    }

    #[test]
    fn a_clock_that_jumps_ahead_and_back_makes_no_old_request_new() {
        let mut nonces = Nonces::default();
        assert_eq!(nonces.take("n", "a", 1_000, 1_000), Ok(()));
        assert_eq!(nonces.take("n", "b", 9_000, 9_000), Ok(()));
        assert_eq!(nonces.take("n", "a", 1_000, 1_000), Err(Rejected::Time));
    }
}
