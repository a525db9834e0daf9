//! What this replica has heard of executors where there is no TLS, so that nobody who captured it can say it again.
//!
//! An executor signs by a clock that only goes on while it is told of no other, so its calls come in the order of their
//! stamps, but for those that are on their way at once. What is stamped clearly before the newest of its calls is
//! refused, with the time to sign by; the nonces of what is stamped later are known. So a memory of seconds does for
//! what is valid for minutes, and nothing in it is forgotten early.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use orloj_model::Refusal;
use orloj_model::id::Millis;
use orloj_model::time::ClusterClock;
use orloj_wire::clock::Clock;
use orloj_wire::problem::Code;
use orloj_wire::sign::TIME_WINDOW_S;
use orloj_wire::time::Time;

use crate::auth::Credentials;
use crate::nonce;
use crate::outcome::Failure;

/// How far calls of one executor that are on their way at once may be apart, in seconds. An executor gives a call up
/// after five.
const SLACK_S: i64 = 10;
/// Nonces of one executor; it would have to send a thousand calls a second to fill them.
const PER_EXECUTOR: usize = 16_384;
/// Executors that are known at once.
const EXECUTORS: usize = 100_000;

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Heard {
    /// Never goes back, so that a step of the wall clock makes nothing valid that was forgotten.
    clock: ClusterClock,
    executors: Mutex<HashMap<String, Said>>,
}

/// What one executor has said lately.
#[derive(Debug, Default)]
struct Said {
    /// The latest stamp, in Unix seconds.
    newest_s: i64,
    nonces: HashSet<u64>,
    by_stamp: BTreeMap<i64, Vec<u64>>,
}

impl Said {
    /// It has signed by this stamp: what it signed long before is refused for its stamp from now on, and forgotten.
    fn sign(&mut self, stamped_s: i64) {
        self.newest_s = self.newest_s.max(stamped_s);
        while let Some(oldest) = self.by_stamp.first_entry() {
            if *oldest.key() >= self.newest_s - SLACK_S {
                break;
            }
            for nonce in oldest.remove() {
                self.nonces.remove(&nonce);
            }
        }
    }

    fn remember(&mut self, nonce: u64, stamped_s: i64) {
        self.nonces.insert(nonce);
        self.by_stamp.entry(stamped_s).or_default().push(nonce);
    }
}

impl Heard {
    /// Nothing has been heard.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Heard { clock: ClusterClock::new(clock), executors: Mutex::default() }
    }

    /// The time by which calls of executors are judged, in ms: the wall clock, but that it never goes back.
    pub(crate) fn now_ms(&self) -> Millis {
        self.clock.now_ms()
    }

    /// The same, no earlier than the cluster's time.
    pub(crate) fn now_since_ms(&self, cluster_ms: Millis) -> Millis {
        self.clock.raise_to(cluster_ms)
    }

    /// Takes a call of an executor whose signature is good, once.
    pub(crate) fn take(&self, credentials: &Credentials) -> Result<(), Failure> {
        let (stamped_s, nonce) = (credentials.timestamp_s(), nonce::short(&credentials.nonce_hash()));
        // Nothing that holds this lock can panic half-way through a change.
        let mut executors = self.executors.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, so that nobody who looks at an earlier time comes after one who forgot by a later one.
        let now_s = self.clock.now_ms().div_euclid(1000);
        credentials.check_time(now_s)?;
        let said = of(&mut executors, &credentials.access_key, now_s)?;
        if stamped_s < said.newest_s - SLACK_S {
            return Err(stepped_back(stamped_s, said.newest_s.max(now_s)));
        }
        if said.nonces.contains(&nonce) {
            return Err(Refusal::NonceReplayed.into());
        }
        // Also where it is refused, so that time makes room.
        said.sign(stamped_s);
        if said.nonces.len() >= PER_EXECUTOR {
            return Err(full("this executor has used too many nonces within seconds"));
        }
        said.remember(nonce, stamped_s);
        Ok(())
    }
}

/// What is known of an executor.
fn of<'a>(
    executors: &'a mut HashMap<String, Said>,
    executor: &str,
    now_s: i64,
) -> Result<&'a mut Said, Failure> {
    if !executors.contains_key(executor) {
        // Whatever such an executor has said is out of time by now.
        executors.retain(|_, said| said.newest_s >= now_s - TIME_WINDOW_S);
        if executors.len() >= EXECUTORS {
            return Err(full("too many executors have been heard within minutes"));
        }
        executors.insert(executor.to_owned(), Said::default());
    }
    Ok(executors.get_mut(executor).expect("it was put there above"))
}

fn full(detail: &str) -> Failure {
    let mut failure = Failure::new(Code::NonceStoreFull, detail);
    failure.retry_after_s = Some(1);
    failure
}

/// Told like a clock that is elsewhere, since that is what it is where nobody has captured anything.
fn stepped_back(stamped_s: i64, sign_by_s: i64) -> Failure {
    let detail = format!("{stamped_s} is before what this executor has signed: sign by the server's time");
    let mut failure = Failure::new(Code::TimestampOutOfWindow, detail);
    failure.server_time = Some(Time(sign_by_s.saturating_mul(1000)));
    failure
}

#[cfg(test)]
mod tests {
    use orloj_model::time::ManualClock;

    use super::*;

    const T: i64 = 1_800_000_000;

    fn heard() -> (Arc<ManualClock>, Heard) {
        let clock = Arc::new(ManualClock::at(T * 1000));
        (Arc::clone(&clock), Heard::new(clock))
    }

    fn call(executor: &str, nonce: usize, timestamp: i64) -> Credentials {
        Credentials {
            access_key: executor.into(),
            timestamp: timestamp.to_string(),
            nonce: format!("nonce-{nonce:010}"),
            signature: String::new(),
            idempotency_key: None,
        }
    }

    #[test]
    fn a_call_is_taken_once() {
        let (clock, heard) = heard();
        heard.take(&call("e1", 0, T)).unwrap();
        for _ in 0..3 {
            assert_eq!(heard.take(&call("e1", 0, T)).unwrap_err().code, Code::NonceReplayed);
        }
        heard.take(&call("e2", 0, T)).unwrap();
        // Calls that are on their way at once come in any order.
        heard.take(&call("e1", 1, T + SLACK_S)).unwrap();
        heard.take(&call("e1", 2, T)).unwrap();
        // From here on it is too old, and by then it is not valid for anybody.
        for seconds in [1, SLACK_S as u64, 300] {
            clock.advance_ms(seconds * 1000);
            let now = clock.wall_ms() / 1000;
            heard.take(&call("e1", now as usize, now)).unwrap();
            assert!(heard.take(&call("e1", 0, T)).is_err(), "{seconds}");
        }
    }

    #[test]
    fn the_memory_is_one_of_seconds() {
        let (clock, heard) = heard();
        for second in 0..600 {
            clock.advance_ms(1000);
            for call_of_it in 0..20 {
                let number = second * 20 + call_of_it;
                heard.take(&call("e1", number, T + 1 + second as i64)).unwrap();
            }
        }
        let executors = heard.executors.lock().unwrap();
        assert_eq!(executors["e1"].nonces.len(), 20 * (SLACK_S as usize + 1));
        assert_eq!(executors["e1"].by_stamp.len(), SLACK_S as usize + 1);
    }

    #[test]
    fn who_is_long_silent_is_forgotten_when_another_comes() {
        let (clock, heard) = heard();
        // Its clock is ahead.
        heard.take(&call("e1", 0, T + TIME_WINDOW_S)).unwrap();
        clock.advance_ms(2 * TIME_WINDOW_S as u64 * 1000);
        heard.take(&call("e2", 0, T + 600)).unwrap();
        assert_eq!(heard.executors.lock().unwrap().len(), 2, "what it said is just valid yet");
        clock.advance_ms(1000);
        heard.take(&call("e3", 0, T + 601)).unwrap();
        assert_eq!(heard.executors.lock().unwrap().len(), 2);
        let late = heard.take(&call("e1", 0, T + TIME_WINDOW_S)).unwrap_err();
        assert_eq!(late.code, Code::TimestampOutOfWindow);
    }

    #[test]
    fn an_executor_whose_clock_is_set_back_is_told_how_to_sign() {
        let (_, heard) = heard();
        heard.take(&call("e1", 0, T + 200)).unwrap();
        let refused = heard.take(&call("e1", 1, T)).unwrap_err();
        assert_eq!(refused.code, Code::TimestampOutOfWindow);
        let sign_by = refused.server_time.unwrap().0 / 1000;
        assert_eq!(sign_by, T + 200);
        heard.take(&call("e1", 2, sign_by)).unwrap();
    }

    #[test]
    fn a_leader_whose_clock_is_set_back_goes_on_and_makes_nothing_new() {
        let (clock, heard) = heard();
        heard.take(&call("e1", 0, T)).unwrap();
        clock.advance_ms(1_000_000);
        heard.take(&call("e1", 1, T + 1_000)).unwrap();
        clock.step_wall_ms(-1_000_000);
        let captured = heard.take(&call("e1", 0, T)).unwrap_err();
        assert_eq!(captured.server_time.unwrap().0 / 1000, T + 1_000);
        clock.advance_ms(5_000);
        heard.take(&call("e1", 2, T + 1_005)).unwrap();
        assert_eq!(heard.now_ms() / 1000, T + 1_005);
    }

    #[test]
    fn a_full_memory_refuses_and_forgets_nothing() {
        let (_, heard) = heard();
        for number in 0..PER_EXECUTOR {
            heard.take(&call("e1", number, T)).unwrap();
        }
        let refused = heard.take(&call("e1", PER_EXECUTOR, T)).unwrap_err();
        assert_eq!((refused.code, refused.retry_after_s), (Code::NonceStoreFull, Some(1)));
        assert_eq!(heard.take(&call("e1", 0, T)).unwrap_err().code, Code::NonceReplayed);
        heard.take(&call("e2", 0, T)).unwrap();
        // Time makes room.
        heard.take(&call("e1", PER_EXECUTOR, T + SLACK_S + 1)).unwrap();
    }
}
