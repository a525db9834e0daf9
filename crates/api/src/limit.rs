//! Token buckets. Pure: time is passed in.
//!
//! They live on the leader, outside the replicated state: exact over all replicas, since every call passes
//! the leader, and full again after a failover, which costs one burst at most.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use orloj_model::mutant::{Mutant, is_on};

use crate::keyring::Limits;

/// Refills at `per_s` up to `burst`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Tokens per second.
    pub per_s: f64,
    /// The most tokens.
    pub burst: u32,
}

impl Rate {
    /// For how long a full bucket lasts at its own rate, in whole seconds: the window that clients are told.
    fn window_s(self) -> u64 {
        (f64::from(self.burst) / self.per_s).ceil().max(1.0) as u64
    }
}

/// A bucket of tokens, full at first.
#[derive(Debug, Clone, Copy)]
pub struct Bucket {
    tokens: f64,
    at: Duration,
}

impl Bucket {
    fn full(rate: Rate, now: Duration) -> Self {
        Bucket { tokens: f64::from(rate.burst), at: now }
    }

    fn refill(&mut self, rate: Rate, now: Duration) {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.tokens = (self.tokens + passed * rate.per_s).min(f64::from(rate.burst));
        self.at = self.at.max(now);
    }

    fn has_one(&self) -> bool {
        // A token that is full but for a rounding error is a token.
        self.tokens > 1.0 - 1e-9
    }

    /// Whole seconds, at least one, until there is a token.
    fn wait_s(&self, rate: Rate) -> u64 {
        ((1.0 - self.tokens) / rate.per_s).ceil().clamp(1.0, 1e9) as u64
    }
}

/// What a request takes tokens from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// From the general bucket.
    Request,
    /// From the general bucket and from that of submissions.
    Submit,
}

/// How one bucket stands after a request, for the answer's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Its name.
    pub name: &'static str,
    /// Its size.
    pub quota: u32,
    /// Its window in seconds.
    pub window_s: u64,
    /// Whole tokens left.
    pub remaining: u32,
    /// Seconds until there is one more.
    pub reset_s: u64,
}

/// The decision about one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Every bucket of the key.
    pub standings: [Standing; 2],
    /// The buckets that were empty; the request passes when there is none.
    pub violated: Vec<&'static str>,
    /// With a violation: seconds until a try can pass.
    pub retry_after_s: u64,
}

impl Decision {
    /// The headers `RateLimit-Policy` and `RateLimit` of the IETF draft.
    pub fn headers(&self) -> [(&'static str, String); 2] {
        let join =
            |part: fn(&Standing) -> String| self.standings.iter().map(part).collect::<Vec<_>>().join(", ");
        [
            ("ratelimit-policy", join(|s| format!("\"{}\";q={};w={}", s.name, s.quota, s.window_s))),
            ("ratelimit", join(|s| format!("\"{}\";r={};t={}", s.name, s.remaining, s.reset_s))),
        ]
    }
}

/// The buckets of all access keys.
#[derive(Debug, Default)]
pub struct Limiter {
    keys: HashMap<String, [Bucket; 2]>,
}

impl Limiter {
    /// The access keys with buckets.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(String::as_str)
    }

    /// Frees the buckets of keys that are gone.
    pub fn sweep(&mut self, gone: &[String]) {
        for key in gone {
            self.keys.remove(key);
        }
    }

    /// Takes what a request costs, or nothing when a bucket that it needs is empty. The number of keys is
    /// bounded by that of the callers' keys: only checked keys get here.
    pub fn take(&mut self, access_key: &str, limits: Limits, cost: Cost, now: Duration) -> Decision {
        let times = if is_on(Mutant::RateDoubled) { 2.0 } else { 1.0 };
        let rates = [
            Rate { per_s: limits.requests_per_s * times, burst: limits.requests_burst },
            Rate { per_s: limits.submits_per_s * times, burst: limits.submits_burst },
        ];
        let needs = [true, cost == Cost::Submit];
        const NAMES: [&str; 2] = ["general", "submit"];
        if !self.keys.contains_key(access_key) {
            self.keys.insert(access_key.to_owned(), rates.map(|rate| Bucket::full(rate, now)));
        }
        let buckets = self.keys.get_mut(access_key).expect("it was put there above");
        let (mut violated, mut retry_after_s) = (Vec::new(), 0);
        for place in 0..2 {
            buckets[place].refill(rates[place], now);
            if needs[place] && !buckets[place].has_one() {
                violated.push(NAMES[place]);
                retry_after_s = retry_after_s.max(buckets[place].wait_s(rates[place]));
            }
        }
        if violated.is_empty() {
            for place in 0..2 {
                if needs[place] {
                    buckets[place].tokens -= 1.0;
                }
            }
        }
        let standing = |place: usize| Standing {
            name: NAMES[place],
            quota: rates[place].burst,
            window_s: rates[place].window_s(),
            remaining: (buckets[place].tokens + 1e-9).max(0.0) as u32,
            reset_s: buckets[place].wait_s(rates[place]),
        };
        Decision { standings: [standing(0), standing(1)], violated, retry_after_s }
    }
}

/// One bucket for each of a bounded number of keys that nobody vouches for, such as addresses.
#[derive(Debug)]
pub struct Pool<K> {
    rate: Rate,
    limit: usize,
    buckets: HashMap<K, Bucket>,
}

impl<K: Hash + Eq> Pool<K> {
    /// Buckets of this rate for at most `limit` keys.
    pub fn new(rate: Rate, limit: usize) -> Self {
        Pool { rate, limit, buckets: HashMap::new() }
    }

    /// Whether there is a token for `key`; none is taken.
    pub fn has_one(&mut self, key: &K, now: Duration) -> bool {
        let rate = self.rate;
        match self.buckets.get_mut(key) {
            Some(bucket) => {
                bucket.refill(rate, now);
                bucket.has_one()
            }
            None => true,
        }
    }

    /// Takes a token from `key`, if there is one. A key for which there is no place is not counted: the
    /// innocent among them must not pay for those that fill the pool.
    pub fn take(&mut self, key: K, now: Duration) {
        let rate = self.rate;
        if self.buckets.len() >= self.limit && !self.buckets.contains_key(&key) {
            // A full bucket says nothing: forget those.
            self.buckets.retain(|_, bucket| {
                bucket.refill(rate, now);
                bucket.tokens < f64::from(rate.burst)
            });
        }
        if self.buckets.len() >= self.limit && !self.buckets.contains_key(&key) {
            return;
        }
        let bucket = self.buckets.entry(key).or_insert_with(|| Bucket::full(rate, now));
        bucket.refill(rate, now);
        bucket.tokens = (bucket.tokens - 1.0).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn passes(limiter: &mut Limiter, cost: Cost, ms: u64) -> bool {
        limiter.take("ak_A", Limits::default(), cost, at(ms)).violated.is_empty()
    }

    #[test]
    fn the_third_submission_at_once_waits() {
        let mut limiter = Limiter::default();
        assert!(passes(&mut limiter, Cost::Submit, 0));
        assert!(passes(&mut limiter, Cost::Submit, 100));
        let third = limiter.take("ak_A", Limits::default(), Cost::Submit, at(200));
        assert_eq!((third.violated.as_slice(), third.retry_after_s), (&["submit"][..], 1));
        assert!(passes(&mut limiter, Cost::Request, 200));
        assert!(passes(&mut limiter, Cost::Submit, 600));
    }

    #[test]
    fn a_refused_request_takes_nothing() {
        let mut limiter = Limiter::default();
        assert!(passes(&mut limiter, Cost::Submit, 0) && passes(&mut limiter, Cost::Submit, 0));
        for _ in 0..100 {
            assert!(!passes(&mut limiter, Cost::Submit, 0));
        }
        // 18 are left in the general bucket.
        assert_eq!((0..100).filter(|_| passes(&mut limiter, Cost::Request, 0)).count(), 18);
        assert!(limiter.take("ak_B", Limits::default(), Cost::Submit, at(0)).violated.is_empty());
    }

    #[test]
    fn a_rate_holds_over_a_long_time() {
        let mut limiter = Limiter::default();
        let passed = (0..100_000).step_by(7).filter(|ms| passes(&mut limiter, Cost::Request, *ms)).count();
        assert!((2_019..=2_021).contains(&passed), "{passed}");
    }

    #[test]
    fn a_clock_that_stands_gives_nothing() {
        let mut limiter = Limiter::default();
        assert!(passes(&mut limiter, Cost::Submit, 1000) && passes(&mut limiter, Cost::Submit, 1000));
        assert!(!passes(&mut limiter, Cost::Submit, 500));
        assert!(!passes(&mut limiter, Cost::Submit, 1000));
    }

    #[test]
    fn headers_are_those_of_the_draft() {
        let mut limiter = Limiter::default();
        let decision = limiter.take("ak_A", Limits::default(), Cost::Submit, at(0));
        assert_eq!(
            decision.headers(),
            [
                ("ratelimit-policy", "\"general\";q=20;w=1, \"submit\";q=2;w=1".to_owned()),
                ("ratelimit", "\"general\";r=19;t=1, \"submit\";r=1;t=1".to_owned()),
            ]
        );
    }

    #[test]
    fn a_pool_is_bounded_and_keeps_the_guilty() {
        let mut pool = Pool::new(Rate { per_s: 1.0, burst: 2 }, 3);
        for _ in 0..2 {
            pool.take(0, at(0));
        }
        assert!(!pool.has_one(&0, at(0)));
        for key in 1..1000 {
            pool.take(key, at(0));
            assert!(pool.buckets.len() <= 3);
        }
        assert!(!pool.has_one(&0, at(0)));
        assert!(pool.has_one(&0, at(1000)));
        assert!(pool.has_one(&5000, at(0)));
    }
}
