//! Errors as the API answers them: RFC 9457 problem details with stable codes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// The media type of [`Problem`].
pub const MEDIA_TYPE: &str = "application/problem+json";

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $status:literal, $title:literal;)*) => {
        /// What went wrong. The text of a code and its HTTP status are part of the contract.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            /// The code as it is written.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }

            /// The HTTP status that it comes with.
            pub fn status(self) -> u16 {
                match self { $(Code::$name => $status,)* }
            }

            /// A short text for people, always the same for one code.
            pub fn title(self) -> &'static str {
                match self { $(Code::$name => $title,)* }
            }
        }
    };
}

codes! {
    /// The body or a parameter does not parse.
    InvalidRequest = "invalid_request", 400, "The request is malformed";
    /// The path has characters or segments that no path of the API has.
    InvalidPath = "invalid_path", 400, "The path is malformed";
    /// The query has characters or parameters that the call does not have, or one of them twice.
    InvalidQuery = "invalid_query", 400, "The query is malformed";
    /// The task is too long for the synchronous call.
    SyncDurationTooLong = "sync_duration_too_long", 400, "The task takes too long for a synchronous call";
    /// A credential header is absent.
    MissingCredentials = "missing_credentials", 401, "The request is not signed";
    /// A credential header is not of its documented form.
    MalformedCredentials = "malformed_credentials", 401, "The credentials are malformed";
    /// The signature does not fit, or the access key is unknown.
    InvalidSignature = "invalid_signature", 401, "The signature is not valid";
    /// The timestamp is too far from the server's clock.
    TimestampOutOfWindow = "timestamp_out_of_window", 401, "The timestamp is outside the time window";
    /// The signed request has been used.
    NonceReplayed = "nonce_replayed", 401, "The signed request has been used before";
    /// The access key is switched off.
    AccessKeyDisabled = "access_key_disabled", 403, "The access key is disabled";
    /// The access key is good, but not for this call.
    ScopeDenied = "scope_denied", 403, "The access key does not allow this call";
    /// The access key may not use this handler.
    ExecutorDenied = "executor_denied", 403, "The access key does not allow this handler";
    /// The certificate is good, but names another than who speaks; only executors and peers see this.
    CertificateDenied = "certificate_denied", 403, "The certificate does not allow this call";
    /// No such task, or another caller's.
    TaskNotFound = "task_not_found", 404, "There is no such task";
    /// No such path.
    NotFound = "not_found", 404, "There is no such resource";
    /// The path does not take this method.
    MethodNotAllowed = "method_not_allowed", 405, "The method is not allowed here";
    /// The body did not arrive in time.
    BodyTimeout = "body_timeout", 408, "The body did not arrive in time";
    /// The task has ended.
    TaskAlreadyTerminal = "task_already_terminal", 409, "The task has ended already";
    /// The cluster is not in the state that the call needs.
    Conflict = "conflict", 409, "The cluster's state does not allow this now";
    /// A newer process lives under the executor's id.
    Superseded = "superseded", 409, "A newer process lives under this id";
    /// This replica does not lead; only executors and peers see this.
    NotLeader = "not_leader", 421, "This replica does not lead";
    /// The body is longer than the limit.
    PayloadTooLarge = "payload_too_large", 413, "The body is too large";
    /// The body is not JSON, or is encoded.
    UnsupportedMediaType = "unsupported_media_type", 415, "The body's type is not supported";
    /// The body parses, but a value is not acceptable.
    ValidationFailed = "validation_failed", 422, "A value is not acceptable";
    /// No executor has this handler.
    HandlerUnknown = "handler_unknown", 422, "No executor has this handler";
    /// The address is not on the allow-list.
    CallbackUrlNotAllowed = "callback_url_not_allowed", 422, "The callback address is not allowed";
    /// The Idempotency-Key stands for another request.
    IdempotencyKeyReused = "idempotency_key_reused", 422, "The Idempotency-Key was used for another request";
    /// Too many requests.
    RateLimited = "rate_limited", 429, "Too many requests";
    /// Too many signed requests within the time window.
    NonceStoreFull = "nonce_store_full", 429, "Too many signed requests within the time window";
    /// Too many long polls at once.
    TooManyWaiters = "too_many_waiters", 429, "Too many long polls at once";
    /// Something is broken inside; the request id leads to the log.
    Internal = "internal", 500, "Internal error";
    /// No replica leads at the moment.
    NoLeader = "no_leader", 503, "No replica leads at the moment";
    /// Too much is waiting to be committed.
    Overloaded = "overloaded", 503, "The cluster is overloaded";
    /// The disk is nearly full: nothing new is taken.
    DiskLow = "disk_low", 503, "The disk is nearly full";
    /// The change may have happened or not.
    CommitUnknown = "commit_unknown", 503, "It is not known whether the change was committed";
    /// This replica is starting or stopping.
    NotReady = "not_ready", 503, "This replica is not ready";
    /// No such job, or another caller's.
    JobNotFound = "job_not_found", 404, "There is no such job";
    /// No such calendar, or another caller's.
    CalendarNotFound = "calendar_not_found", 404, "There is no such calendar";
    /// No backfill of the job is under way.
    BackfillNotFound = "backfill_not_found", 404, "No backfill of this job is under way";
    /// The id of a new job is taken.
    JobExists = "job_exists", 409, "There is such a job already";
    /// The job or the calendar is at another version than the request says.
    VersionConflict = "version_conflict", 409, "The version has moved on";
    /// Jobs use the calendar.
    CalendarInUse = "calendar_in_use", 409, "Jobs use the calendar";
    /// Earlier tasks of the job are open, and its overlap policy makes no other one.
    OverlapSkipped = "overlap_skipped", 409, "Earlier tasks of the job are still open";
    /// A backfill of the job is under way.
    BackfillRunning = "backfill_running", 409, "A backfill of this job is under way";
}

impl Code {
    /// The code with this text.
    pub fn from_text(text: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}

/// One value that is at fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FieldError {
    /// JSON pointer into the body, or the name of a parameter or header.
    pub pointer: String,
    /// What is wrong with it, with the value.
    pub message: String,
    /// Of a text with a grammar: the first wrong character, counted in characters from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
}

impl FieldError {
    /// A fault at `pointer`.
    pub fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        FieldError { pointer: pointer.into(), message: message.into(), position: None }
    }

    /// The same fault, pointing at a character of the value.
    pub fn at(mut self, position: usize) -> Self {
        self.position = Some(position);
        self
    }
}

/// The body of every error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// `urn:orloj:problem:<code>`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Fixed text of the code.
    pub title: String,
    /// The HTTP status again.
    pub status: u16,
    /// What happened this time. Generic when the fault is the server's own.
    pub detail: String,
    /// `urn:orloj:request:<X-Request-Id>`.
    pub instance: String,
    /// The stable code.
    pub code: String,
    /// The values at fault.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// With `timestamp_out_of_window`: the server's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_time: Option<Time>,
    /// With `rate_limited`: which limits.
    #[serde(default, rename = "violated-policies", skip_serializing_if = "Vec::is_empty")]
    pub violated_policies: Vec<String>,
    /// With `task_already_terminal`: the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Box<crate::rest::Task>>,
}

impl Problem {
    /// A problem of this code; `instance` is filled in where the request id is known.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Problem {
            kind: format!("urn:orloj:problem:{}", code.as_str()),
            title: code.title().to_owned(),
            status: code.status(),
            detail: detail.into(),
            instance: String::new(),
            code: code.as_str().to_owned(),
            errors: Vec::new(),
            server_time: None,
            violated_policies: Vec::new(),
            task: None,
        }
    }

    /// Adds the values at fault.
    pub fn with_errors(mut self, errors: Vec<FieldError>) -> Self {
        self.errors = errors;
        self
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_distinct_and_found_again() {
        let texts: BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(texts.len(), Code::ALL.len());
        for code in Code::ALL {
            assert_eq!(Code::from_text(code.as_str()), Some(*code));
            assert!((400..600).contains(&code.status()), "{code:?}");
        }
    }

    #[test]
    fn a_problem_has_the_documented_form() {
        let problem = Problem::new(Code::ValidationFailed, "1 value is not acceptable")
            .with_errors(vec![FieldError::new("/priority", "11 is outside 0-9")]);
        assert_eq!(
            serde_json::to_value(&problem).unwrap(),
            serde_json::json!({
                "type": "urn:orloj:problem:validation_failed",
                "title": "A value is not acceptable",
                "status": 422,
                "detail": "1 value is not acceptable",
                "instance": "",
                "code": "validation_failed",
                "errors": [{"pointer": "/priority", "message": "11 is outside 0-9"}],
            })
        );
    }
}
