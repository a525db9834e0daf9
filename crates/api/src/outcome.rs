//! What a call comes to, before it is an HTTP answer.

use std::ops::{Deref, DerefMut};

use bytes::Bytes;
use orloj_model::Refusal;
use orloj_raft_store::{MembershipError, ProposeError, ReadError};
use orloj_wire::problem::{Code, FieldError, MEDIA_TYPE, Problem};
use orloj_wire::rest::{APPLIED_INDEX_HEADER, REQUEST_ID_HEADER, Task};
use orloj_wire::time::Time;
use serde::Serialize;

use crate::backend::StorageFault;
use crate::missing::Missing;

/// An answer: what goes over HTTP, whoever sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// Headers by their lower-case names.
    pub headers: Vec<(String, String)>,
    /// The body; empty for none.
    pub body: Bytes,
}

impl Answer {
    /// A JSON answer.
    pub fn json<T: Serialize>(status: u16, body: &T) -> Self {
        // The bodies are structs with string keys, which always serialise.
        let body = serde_json::to_vec(body).expect("an answer serialises");
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Answer { status, headers, body: body.into() }
    }

    /// An answer without a body.
    pub fn empty(status: u16) -> Self {
        Answer { status, headers: Vec::new(), body: Bytes::new() }
    }

    /// Adds a header.
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Says up to which index the answer knows the log.
    pub fn at(self, applied_index: u64) -> Self {
        self.with(APPLIED_INDEX_HEADER, applied_index.to_string())
    }

    /// The code of a refusal, as its body tells.
    pub fn code(&self) -> Option<Code> {
        if self.status < 400 {
            return None;
        }
        let problem: Problem = serde_json::from_slice(&self.body).ok()?;
        Code::from_text(&problem.code)
    }

    /// Takes a header out of the answer.
    pub fn take_header(&mut self, name: &str) -> Option<String> {
        let place = self.headers.iter().position(|(known, _)| known == name)?;
        Some(self.headers.remove(place).1)
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Tells the replica that a request came in at of what was refused in an answer that is no refusal itself: codes and how
/// often each. It does not leave that replica.
pub const DENIED_HEADER: &str = "orloj-denied";

/// Whether a refusal goes into the audit: for who asked, or for where a callback was to go, by which one inside could be
/// looked for.
pub fn is_denial(code: Code) -> bool {
    matches!(code.status(), 401 | 403) || code == Code::CallbackUrlNotAllowed
}

/// A refusal on its way to becoming a problem document. Boxed, since most calls succeed.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure(Box<Details>);

/// What is known of a refusal.
#[derive(Debug, Clone, PartialEq)]
pub struct Details {
    /// The stable code.
    pub code: Code,
    /// What happened this time; never shows what the caller may not know.
    pub detail: String,
    /// The values at fault.
    pub errors: Vec<FieldError>,
    /// Seconds until a try may pass.
    pub retry_after_s: Option<u64>,
    /// With `method_not_allowed`: what is allowed.
    pub allow: Option<&'static str>,
    /// With `timestamp_out_of_window`: the server's clock.
    pub server_time: Option<Time>,
    /// With `rate_limited`: the empty buckets.
    pub violated: Vec<&'static str>,
    /// With `task_already_terminal`: the task.
    pub task: Option<Box<Task>>,
    /// What is not there.
    pub(crate) missing: Option<Missing>,
}

impl Deref for Failure {
    type Target = Details;

    fn deref(&self) -> &Details {
        &self.0
    }
}

impl DerefMut for Failure {
    fn deref_mut(&mut self) -> &mut Details {
        &mut self.0
    }
}

impl Failure {
    /// A refusal of this code.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Failure(Box::new(Details {
            code,
            detail: detail.into(),
            errors: Vec::new(),
            // Whatever passes by itself is worth another try soon.
            retry_after_s: match code {
                Code::DiskLow => Some(30),
                _ => (code.status() == 503).then_some(1),
            },
            allow: None,
            server_time: None,
            violated: Vec::new(),
            task: None,
            missing: None,
        }))
    }

    /// Values that are at fault.
    pub fn fields(code: Code, errors: Vec<FieldError>) -> Self {
        let detail = match &errors[..] {
            [one] if one.pointer.is_empty() => one.message.clone(),
            [one] => format!("{}: {}", one.pointer, one.message),
            many => format!("{} values are not acceptable", many.len()),
        };
        let mut failure = Failure::new(code, detail);
        failure.errors = errors;
        failure
    }

    /// A method that the path does not take.
    pub fn method(allow: &'static str) -> Self {
        let mut failure = Failure::new(Code::MethodNotAllowed, format!("this path takes {allow}"));
        failure.allow = Some(allow);
        failure
    }

    /// A fault of the server's own: the caller learns nothing but the request id, the log gets the rest.
    pub fn internal(context: &'static str, cause: &dyn std::fmt::Display) -> Self {
        tracing::error!(%cause, "{context}");
        Failure::new(Code::Internal, "the request failed inside; the log has more under the request id")
    }

    /// Nobody leads.
    pub fn no_leader() -> Self {
        Failure::new(Code::NoLeader, "no replica leads at the moment; nothing was changed")
    }

    /// The change may have happened.
    pub fn commit_unknown() -> Self {
        Failure::new(
            Code::CommitUnknown,
            "the change may have been committed or not: sign the request again with the same Idempotency-Key, \
             or look",
        )
    }

    /// No such calendar.
    pub fn calendar_not_found(name: &str) -> Self {
        Failure::new(Code::CalendarNotFound, format!("no calendar of this caller has the name {name:?}"))
    }

    /// The problem document.
    pub fn problem(self, request_id: &str) -> Problem {
        let Details { code, detail, errors, server_time, violated, task, .. } = *self.0;
        let mut problem = Problem::new(code, detail).with_errors(errors);
        problem.instance = format!("urn:orloj:request:{request_id}");
        problem.server_time = server_time;
        problem.violated_policies = violated.into_iter().map(str::to_owned).collect();
        problem.task = task;
        problem
    }

    /// The HTTP answer.
    pub fn answer(self, request_id: &str) -> Answer {
        let (code, allow, retry_after_s) = (self.code, self.allow, self.retry_after_s);
        let mut answer = Answer::json(code.status(), &self.problem(request_id));
        answer.headers[0].1 = MEDIA_TYPE.to_owned();
        if code.status() == 401 {
            answer = answer.with("www-authenticate", "ORLOJ1-HMAC-SHA256");
        }
        if let Some(allow) = allow {
            answer = answer.with("allow", allow);
        }
        if let Some(seconds) = retry_after_s {
            answer = answer.with("retry-after", seconds.to_string());
        }
        answer
    }
}

/// Adds what every answer carries.
pub fn finish(answer: Answer, request_id: &str) -> Answer {
    answer.with("cache-control", "no-store").with(REQUEST_ID_HEADER, request_id)
}

impl From<ProposeError> for Failure {
    fn from(error: ProposeError) -> Self {
        match error {
            ProposeError::NotLeader { .. } | ProposeError::NoLeader => Failure::no_leader(),
            ProposeError::Overloaded => Failure::new(Code::Overloaded, "too much waits to be committed"),
            ProposeError::DiskLow => Failure::new(Code::DiskLow, "the leader's disk is nearly full"),
            ProposeError::TooLarge { size, limit } => Failure::new(
                Code::PayloadTooLarge,
                format!("the request makes a log entry of {size} bytes, more than {limit}"),
            ),
            ProposeError::Unknown | ProposeError::Stopped => Failure::commit_unknown(),
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Stopped => Failure::new(Code::NotReady, "this replica is stopping"),
            ReadError::NotLeader { .. } | ReadError::NoLeader | ReadError::Timeout => Failure::no_leader(),
        }
    }
}

impl From<StorageFault> for Failure {
    fn from(fault: StorageFault) -> Self {
        Failure::internal("the tables cannot be read", &fault)
    }
}

impl From<MembershipError> for Failure {
    fn from(error: MembershipError) -> Self {
        let detail = error.to_string();
        match error {
            MembershipError::NotLeader { .. } | MembershipError::NoLeader => Failure::no_leader(),
            MembershipError::NotMember(_) => Failure::new(Code::NotFound, detail),
            MembershipError::LastVoter(_) | MembershipError::NotVoter(_) | MembershipError::InProgress => {
                Failure::new(Code::Conflict, detail)
            }
            MembershipError::NotAddable { .. } | MembershipError::Peer { .. } => {
                Failure::new(Code::ValidationFailed, detail)
            }
            MembershipError::Timeout => Failure::commit_unknown(),
            MembershipError::Stopped => Failure::new(Code::NotReady, "this replica is stopping"),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::TaskNotFound => Failure::missing(Missing::Task),
            Refusal::NonceReplayed => {
                Failure::new(Code::NonceReplayed, "sign every request with a new nonce, repeated ones too")
            }
            Refusal::IdempotencyKeyReused => Failure::new(
                Code::IdempotencyKeyReused,
                "this Idempotency-Key stands for a request with another body, path or query",
            ),
            Refusal::ExecutorUnknown => Failure::missing(Missing::Executor),
            Refusal::ExecutorNotOnline => Failure::new(Code::Conflict, "the executor is offline or has left"),
            Refusal::ParentNotFound { parent } => crate::ops::parent_not_found(parent),
            Refusal::JobNotFound => Failure::missing(Missing::Job),
            Refusal::CalendarNotFound { calendar } => Failure::calendar_not_found(calendar.as_str()),
            Refusal::VersionMismatch { current: 0 } => {
                Failure::new(Code::VersionConflict, "there is none, which is version 0")
            }
            Refusal::VersionMismatch { current } => Failure::new(
                Code::VersionConflict,
                format!("version {current} is there: read it and decide anew"),
            ),
            Refusal::CalendarInUse => {
                Failure::new(Code::CalendarInUse, "jobs use it: take it out of their calendars first")
            }
            Refusal::BackfillRunning => Failure::new(
                Code::BackfillRunning,
                "a job has one backfill at a time: wait for it, or stop it",
            ),
            Refusal::BackfillNotFound => Failure::missing(Missing::Backfill),
            Refusal::CallerNotFound => Failure::missing(Missing::Caller),
            Refusal::AccessKeyNotFound => Failure::missing(Missing::AccessKey),
            Refusal::WebhookSecretNotFound => Failure::missing(Missing::WebhookSecret),
            Refusal::TooManyKeys => Failure::new(
                Code::Conflict,
                "there are as many as there may be (two enabled keys and 16 in all, two webhook secrets): take one away",
            ),
            Refusal::TooManyCallers => {
                Failure::new(Code::Conflict, "there are as many callers as there may be")
            }
            Refusal::CallerHasJobs => Failure::new(
                Code::Conflict,
                "the caller has jobs: delete them with one of its keys first, or disable it, and they make no tasks",
            ),
            Refusal::AccessKeyDisabled => Failure::new(
                Code::AccessKeyDisabled,
                "this access key was disabled before the change was committed",
            ),
            // What the request would hear if it came now.
            Refusal::AccessKeyGone => {
                Failure::new(Code::InvalidSignature, "the access key or the signature is wrong")
            }
            // The checks before the proposal rule the others out.
            other => Failure::internal("a command was refused", &format_args!("{other:?}")),
        }
    }
}
