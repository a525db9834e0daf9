//! What the leader decides about a checked request before it looks at what is asked: whether it is within
//! its time, single, and within its key's rates. In this order, so that a captured request can neither be
//! used twice nor drain its key's buckets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orloj_wire::problem::Code;

use crate::auth::Credentials;
use crate::keyring::Key;
use crate::limit::{Cost, Decision, Limiter};
use crate::nonce::{Claimed, Nonces};
use crate::outcome::Failure;

/// The leader's memory of nonces, buckets and long polls.
#[derive(Debug, Default)]
pub struct Gate {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    nonces: Nonces,
    limiter: Limiter,
    waiters: HashMap<String, u32>,
}

/// The clocks as one request sees them.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// The greater of the wall clock and the cluster's time, in seconds, so that a step back of the clock
    /// revives no nonce that was forgotten.
    pub auth_s: i64,
    /// The monotonic clock.
    pub monotonic: Duration,
}

/// A refusal, with how the buckets stand where they were asked.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub failure: Failure,
    /// How the buckets stand.
    pub decision: Option<Decision>,
}

impl Gate {
    fn locked(&self) -> MutexGuard<'_, Inner> {
        // Nothing that holds this lock can panic half-way through a change.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a request in, or not.
    pub fn admit(
        &self,
        credentials: &Credentials,
        key: &Key,
        cost: Cost,
        now: Now,
    ) -> Result<Decision, Refused> {
        let refused = |failure| Refused { failure, decision: None };
        credentials.check_time(now.auth_s).map_err(refused)?;
        let (access_key, nonce) = (&credentials.access_key, credentials.nonce_hash());
        let replayed = || Failure::from(orloj_model::Refusal::NonceReplayed);
        let mut inner = self.locked();
        if inner.nonces.is_known(access_key, &nonce) {
            return Err(refused(replayed()));
        }
        let decision = inner.limiter.take(access_key, key.limits, cost, now.monotonic);
        if !decision.violated.is_empty() {
            let mut failure =
                Failure::new(Code::RateLimited, format!("limits exceeded: {}", decision.violated.join(", ")));
            failure.retry_after_s = Some(decision.retry_after_s);
            failure.violated = decision.violated.clone();
            return Err(Refused { failure, decision: Some(decision) });
        }
        match inner.nonces.claim(access_key, key.limits, &nonce, credentials.timestamp_s(), now.auth_s) {
            Claimed::Now => Ok(decision),
            Claimed::Before => Err(refused(replayed())),
            Claimed::Full => {
                let mut failure =
                    Failure::new(Code::NonceStoreFull, "this key has used too many nonces within the window");
                failure.retry_after_s = Some(10);
                Err(Refused { failure, decision: Some(decision) })
            }
        }
    }

    /// The access keys of which anything is remembered.
    pub fn keys(&self) -> Vec<String> {
        let inner = self.locked();
        let mut keys: Vec<String> =
            inner.nonces.keys().chain(inner.limiter.keys()).map(str::to_owned).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Frees nonces that have expired, and everything of keys that are gone.
    pub fn sweep(&self, gone: &[String], now: Now) {
        let mut inner = self.locked();
        inner.nonces.sweep(gone, now.auth_s);
        inner.limiter.sweep(gone);
    }

    /// Counts a long poll of a key while the result lives.
    pub fn begin_wait(self: &Arc<Self>, access_key: &str, key: &Key) -> Result<Waiting, Failure> {
        let mut inner = self.locked();
        let count = inner.waiters.entry(access_key.to_owned()).or_default();
        if *count >= key.limits.waiters {
            let detail = format!("{} long polls of this key are waiting", key.limits.waiters);
            let mut failure = Failure::new(Code::TooManyWaiters, detail);
            failure.retry_after_s = Some(1);
            return Err(failure);
        }
        *count += 1;
        Ok(Waiting { gate: Arc::clone(self), access_key: access_key.to_owned() })
    }

    /// How many long polls are waiting.
    pub fn waiting(&self) -> u32 {
        self.locked().waiters.values().sum()
    }
}

/// A long poll that counts against its key until it is dropped.
#[derive(Debug)]
pub struct Waiting {
    gate: Arc<Gate>,
    access_key: String,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut inner = self.gate.locked();
        if let Some(count) = inner.waiters.get_mut(&self.access_key) {
            *count -= 1;
            if *count == 0 {
                inner.waiters.remove(&self.access_key);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use orloj_wire::sign::Secret;

    use super::*;
    use crate::keyring::{Limits, Principal, Rights};

    fn key() -> Key {
        let secret = Secret::new("sk_0123456789abcdef0123456789abcdef").unwrap();
        Key {
            principal: Principal::Admin,
            secret,
            limits: Limits::default(),
            enabled: true,
            rights: Rights::all(),
        }
    }

    fn credentials(nonce: usize, timestamp: i64) -> Credentials {
        Credentials {
            access_key: "ak_A".into(),
            timestamp: timestamp.to_string(),
            nonce: format!("nonce-{nonce:010}"),
            signature: String::new(),
            idempotency_key: None,
        }
    }

    fn at(auth_s: i64) -> Now {
        Now { auth_s, monotonic: Duration::ZERO }
    }

    const T: i64 = 1_800_000_000;

    #[test]
    fn the_time_window_is_exact() {
        let gate = Gate::default();
        for (number, (offset, passes)) in
            [(-301, false), (-300, true), (0, true), (300, true), (301, false)].into_iter().enumerate()
        {
            let result = gate.admit(&credentials(number, T + offset), &key(), Cost::Request, at(T));
            assert_eq!(result.is_ok(), passes, "{offset}");
            if let Err(refused) = result {
                assert_eq!(refused.failure.code, Code::TimestampOutOfWindow);
                assert_eq!(refused.failure.server_time.unwrap().0, T * 1000);
            }
        }
    }

    #[test]
    fn a_replay_takes_no_tokens() {
        let gate = Gate::default();
        gate.admit(&credentials(0, T), &key(), Cost::Submit, at(T)).unwrap();
        for _ in 0..100 {
            let refused = gate.admit(&credentials(0, T), &key(), Cost::Submit, at(T)).unwrap_err();
            assert_eq!(refused.failure.code, Code::NonceReplayed);
        }
        let second = gate.admit(&credentials(1, T), &key(), Cost::Submit, at(T)).unwrap();
        assert_eq!(second.standings[1].remaining, 0);
        assert_eq!(second.standings[0].remaining, 18);
    }

    #[test]
    fn a_limited_request_keeps_its_nonce() {
        let gate = Gate::default();
        for number in 0..2 {
            gate.admit(&credentials(number, T), &key(), Cost::Submit, at(T)).unwrap();
        }
        let refused = gate.admit(&credentials(2, T), &key(), Cost::Submit, at(T)).unwrap_err();
        assert_eq!((refused.failure.code, refused.failure.retry_after_s), (Code::RateLimited, Some(1)));
        assert_eq!(refused.failure.violated, vec!["submit"]);
        let later = Now { auth_s: T, monotonic: Duration::from_secs(1) };
        gate.admit(&credentials(2, T), &key(), Cost::Submit, later).unwrap();
    }

    #[test]
    fn a_key_whose_memory_is_full_waits_and_no_nonce_is_forgotten_early() {
        let gate = Gate::default();
        // Its limits are lowered after it has used what it might.
        let wide = Key { limits: Limits { requests_burst: 20_000, ..Limits::default() }, ..key() };
        for number in 0..16_384 {
            gate.admit(&credentials(number, T), &wide, Cost::Request, at(T)).unwrap();
        }
        let refused = gate.admit(&credentials(20_000, T), &key(), Cost::Request, at(T)).unwrap_err();
        assert_eq!((refused.failure.code, refused.failure.retry_after_s), (Code::NonceStoreFull, Some(10)));
        assert_eq!(refused.failure.code.status(), 429);
        assert!(refused.decision.is_some(), "it is told how its buckets stand");
        for number in [0, 16_383] {
            let known = gate.admit(&credentials(number, T), &key(), Cost::Request, at(T)).unwrap_err();
            assert_eq!(known.failure.code, Code::NonceReplayed);
        }
        let later = Now { auth_s: T + 400, monotonic: Duration::from_secs(400) };
        gate.admit(&credentials(20_000, T + 400), &key(), Cost::Request, later).unwrap();
    }

    #[test]
    fn keys_that_are_gone_take_no_memory() {
        let gate = Gate::default();
        gate.admit(&credentials(0, T), &key(), Cost::Request, at(T)).unwrap();
        let other = Credentials { access_key: "ak_B".into(), ..credentials(1, T) };
        gate.admit(&other, &key(), Cost::Request, at(T)).unwrap();
        assert_eq!(gate.keys(), ["ak_A", "ak_B"]);
        gate.sweep(&["ak_B".to_owned()], at(T));
        assert_eq!(gate.keys(), ["ak_A"]);
        let refused = gate.admit(&credentials(0, T), &key(), Cost::Request, at(T)).unwrap_err();
        assert_eq!(refused.failure.code, Code::NonceReplayed, "what is there keeps its nonces");
        // An idle key keeps its buckets alone once its nonces have expired.
        gate.sweep(&[], at(T + 1_000));
        assert_eq!(gate.locked().nonces.keys().count(), 0);
        assert_eq!(gate.keys(), ["ak_A"]);
    }

    #[test]
    fn long_polls_are_counted_by_key() {
        let gate = Arc::new(Gate::default());
        let mut waiting: Vec<_> = (0..10).map(|_| gate.begin_wait("ak_A", &key()).unwrap()).collect();
        assert_eq!(gate.begin_wait("ak_A", &key()).unwrap_err().code, Code::TooManyWaiters);
        assert!(gate.begin_wait("ak_B", &key()).is_ok());
        waiting.pop();
        assert!(gate.begin_wait("ak_A", &key()).is_ok());
        drop(waiting);
        assert_eq!(gate.waiting(), 0);
    }
}
