//! Requests that are refused by tables that may be behind, as those of a follower may: the leader may know better.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use orloj_wire::problem::Code;

use super::Shared;
use crate::auth;
use crate::forward::FORWARD_PATH;
use crate::limit::{Pool, Rate};
use crate::outcome::{Answer, Failure};
use crate::request::Request;
use crate::route::{self, Operation};

/// How often the leader is asked about requests that a key has signed well and may not make: so many at once, and per
/// second after that. Whoever goes on with a key that is off must not have every request carried to the leader.
const DOUBTS: Rate = Rate { per_s: 5.0, burst: 20 };
/// Keys of which that is counted, and answers that are remembered; only keys that there are get here.
const DOUBTED: usize = 10_000;
/// How long an answer of the leader is given to those for whom there is no question left.
const ANSWER_FRESH: Duration = Duration::from_secs(1);

/// What the leader was asked about keys, and what it has answered. Pure: time is passed in.
#[derive(Debug)]
pub(super) struct Doubts {
    asked: Pool<String>,
    /// The refusals that it has confirmed, by key and call.
    confirmed: HashMap<(String, &'static str), Confirmed>,
}

#[derive(Debug)]
struct Confirmed {
    code: Code,
    /// When it was asked, on the monotonic clock.
    at: Duration,
}

impl Confirmed {
    fn is_fresh(&self, now: Duration) -> bool {
        now.saturating_sub(self.at) < ANSWER_FRESH
    }
}

impl Default for Doubts {
    fn default() -> Self {
        Doubts { asked: Pool::new(DOUBTS, DOUBTED), confirmed: HashMap::new() }
    }
}

impl Doubts {
    /// Takes one of the questions about a key, if there is one.
    fn may_ask(&mut self, access_key: &str, now: Duration) -> bool {
        let key = access_key.to_owned();
        let may = self.asked.has_one(&key, now);
        self.asked.take(key, now);
        may
    }

    /// The leader was asked then whether a key may make a call, and has refused it for this, or not for what it was refused
    /// here.
    fn answered(&mut self, access_key: &str, call: &'static str, refused: Option<Code>, at: Duration) {
        let place = (access_key.to_owned(), call);
        let Some(code) = refused else {
            self.confirmed.remove(&place);
            return;
        };
        if self.confirmed.len() >= DOUBTED && !self.confirmed.contains_key(&place) {
            self.confirmed.retain(|_, known| known.is_fresh(at));
        }
        if self.confirmed.len() < DOUBTED || self.confirmed.contains_key(&place) {
            self.confirmed.insert(place, Confirmed { code, at });
        }
    }

    /// Whether the leader has refused a key this call for the same a moment ago.
    fn is_confirmed(&self, access_key: &str, call: &'static str, code: Code, now: Duration) -> bool {
        let known = self.confirmed.get(&(access_key.to_owned(), call));
        known.is_some_and(|known| known.code == code && known.is_fresh(now))
    }
}

/// A request that is refused before it was let in.
pub(crate) struct Unchecked {
    failure: Failure,
    /// The tables may have been behind: this node did not lead, or had not caught up.
    may_lag: bool,
}

impl Unchecked {
    pub(super) fn of(failure: Failure, term: Option<u64>) -> Self {
        Unchecked { failure, may_lag: term.is_none() }
    }

    pub(super) fn into_failure(self) -> Failure {
        self.failure
    }
}

impl From<Failure> for Unchecked {
    /// A refusal that no table decides.
    fn from(failure: Failure) -> Self {
        Unchecked { failure, may_lag: false }
    }
}

impl Shared {
    /// Answers a request that was refused: what tables that are not behind may tell otherwise is asked of the leader.
    pub(crate) async fn answer_doubtful(&self, request: &Request, refused: Unchecked) -> Answer {
        let Unchecked { failure, may_lag } = refused;
        let found = route::find(&request.method, &request.path);
        let operation = match found {
            Ok(operation) if may_lag && self.is_doubtful(&operation, request, failure.code) => operation,
            _ => return failure.answer(&request.request_id),
        };
        // Claiming a key that there is not costs a try of the address.
        let is_known = matches!(failure.code, Code::AccessKeyDisabled | Code::ScopeDenied);
        let (access_key, now) = (&request.credentials.access_key, self.clock.monotonic());
        if is_known && !self.doubts().may_ask(access_key, now) {
            // Who lacks a scope must not take that for load.
            let same = self.doubts().is_confirmed(access_key, operation.name(), failure.code, now);
            return if same { failure } else { too_many() }.answer(&request.request_id);
        }
        match self.ask_leader(FORWARD_PATH, &operation, request).await {
            Ok(Some(answer)) => {
                if is_known {
                    let same = answer.code().filter(|code| *code == failure.code);
                    self.doubts().answered(access_key, operation.name(), same, now);
                }
                answer
            }
            // What came to nothing here may have come to something there: nobody is told that a key is bad.
            Err(failure) => failure.answer(&request.request_id),
            // It has come to lead, and judges by tables that are not behind any more.
            Ok(None) => self.serve_here(request).await,
        }
    }

    /// Whether somebody who has applied more may know better: that the key is there, is on, or has the scope. What is a
    /// call, or a listener, of the other class stays that, and of a key of the secrets file all is known.
    fn is_doubtful(&self, operation: &Operation, request: &Request, refused: Code) -> bool {
        let access_key = &request.credentials.access_key;
        let Ok(key) = self.directory.key(access_key) else { return false };
        let Some(key) = key else { return true };
        let of_the_file = self.directory.is_of_the_file(access_key);
        match refused {
            Code::AccessKeyDisabled => !of_the_file,
            Code::ScopeDenied => {
                let is_of = |access| auth::is_of_class(access, &key.principal);
                !of_the_file && is_of(operation.access()) && is_of(request.keys_of)
            }
            _ => false,
        }
    }

    fn doubts(&self) -> MutexGuard<'_, Doubts> {
        // Nothing that holds this lock can panic half-way through a change.
        self.doubts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Not that the key is off: of that nobody was asked.
fn too_many() -> Failure {
    let detail = "too many requests that this key may not make";
    let mut failure = Failure::new(Code::RateLimited, detail);
    failure.violated = vec!["refused-requests"];
    failure.retry_after_s = Some(1);
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCOPE: Code = Code::ScopeDenied;

    #[test]
    fn the_leader_is_asked_few_times_about_a_key() {
        let mut doubts = Doubts::default();
        let asked = |doubts: &mut Doubts, s| (0..200).filter(|_| doubts.may_ask("ak_A", second(s))).count();
        assert_eq!([asked(&mut doubts, 0), asked(&mut doubts, 1)], [20, 5]);
        assert!(doubts.may_ask("ak_B", second(1)), "another key has its own");
    }

    fn second(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    #[test]
    fn what_the_leader_has_said_holds_for_the_same_call_of_the_same_key_and_not_for_long() {
        let mut doubts = Doubts::default();
        let now = second(10);
        assert!(!doubts.is_confirmed("ak_A", "submit", SCOPE, now), "nobody was asked");
        doubts.answered("ak_A", "submit", Some(SCOPE), now);
        assert!(doubts.is_confirmed("ak_A", "submit", SCOPE, now));
        for (key, call, code, at) in [
            ("ak_B", "submit", SCOPE, now),
            ("ak_A", "run_job", SCOPE, now),
            ("ak_A", "submit", Code::AccessKeyDisabled, now),
            ("ak_A", "submit", SCOPE, now + ANSWER_FRESH),
        ] {
            assert!(!doubts.is_confirmed(key, call, code, at), "{key} {call} {code:?} {at:?}");
        }
        // By now it may make it.
        doubts.answered("ak_A", "submit", None, now);
        assert!(!doubts.is_confirmed("ak_A", "submit", SCOPE, now));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut doubts = Doubts::default();
        for number in 0..2 * DOUBTED {
            doubts.answered(&format!("ak_{number}"), "submit", Some(SCOPE), second(0));
        }
        assert_eq!(doubts.confirmed.len(), DOUBTED);
        doubts.answered("ak_late", "submit", Some(SCOPE), second(1));
        assert!(doubts.is_confirmed("ak_late", "submit", SCOPE, second(1)), "what is old makes room");
    }
}
