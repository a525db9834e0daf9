//! Requests that are refused by tables that may be behind, as those of a follower may: the leader may know better.

use orloj_wire::problem::Code;

use super::Shared;
use crate::auth;
use crate::forward::FORWARD_PATH;
use crate::limit::Rate;
use crate::outcome::{Answer, Failure};
use crate::request::Request;
use crate::route::{self, Operation};

/// How often the leader is asked about requests that a key has signed well and may not make: so many at once, and per
/// second after that. Whoever goes on with a key that is off must not have every request carried to the leader.
pub(super) const DOUBTS: Rate = Rate { per_s: 5.0, burst: 20 };
/// Keys of which that is counted; only such that there are get here.
pub(super) const DOUBTED_KEYS: usize = 10_000;

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
        if is_known && !self.may_ask_about(&request.credentials.access_key) {
            return too_many().answer(&request.request_id);
        }
        match self.ask_leader(FORWARD_PATH, &operation, request).await {
            Ok(Some(answer)) => answer,
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

    /// Takes one of the questions about a key, if there is one.
    fn may_ask_about(&self, access_key: &str) -> bool {
        let now = self.clock.monotonic();
        let key = access_key.to_owned();
        // Nothing that holds this lock can panic half-way through a change.
        let mut doubts = self.doubts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let may = doubts.has_one(&key, now);
        doubts.take(key, now);
        may
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
