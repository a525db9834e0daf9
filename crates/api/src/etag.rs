//! Validators of what is read: `ETag` and `If-None-Match` (RFC 9110). Pure.
//!
//! A request's `If-None-Match` is not signed. It can turn an answer into "you have it already" and nothing else, and
//! only for who has it. `If-Match` would guard a change and must therefore be signed: versions in the query are.

use bytes::Bytes;
use orloj_wire::rest::Task;
use orloj_wire::rest::job::Job;
use orloj_wire::sign::{hex, sha256};
use serde::Serialize;

use crate::outcome::Answer;

/// Of a task: its version, and a mark of everything that is shown: its callback and what is heard late of an attempt
/// move on when the version does not.
pub fn of_task(task: &Task) -> String {
    let task = Task { applied_index: 0, ..task.clone() };
    format!("\"{}-{}\"", task.version, mark(&task))
}

/// Of a job: its version, which counts edits, and a mark of everything that is shown, which fires change too.
pub fn of_job(job: &Job) -> String {
    let job = Job { applied_index: 0, ..job.clone() };
    format!("\"{}-{}\"", job.version, mark(&job))
}

fn mark<T: Serialize>(shown: &T) -> String {
    // Bodies are structs with string keys, which always serialise.
    let bytes = serde_json::to_vec(shown).expect("an answer serialises");
    hex(&sha256(&[&bytes])[..8])
}

/// 304 without a body in the place of an answer whose `ETag` the request knows.
pub fn unless_known(answer: Answer, if_none_match: Option<&str>) -> Answer {
    let known = answer.header("etag").zip(if_none_match).is_some_and(|(etag, known)| names(known, etag));
    if !known {
        return answer;
    }
    let headers = answer.headers.into_iter().filter(|(name, _)| name != "content-type").collect();
    Answer { status: 304, headers, body: Bytes::new() }
}

/// Whether the header's list has the validator. Our validators have no comma, and weak ones are as good here.
fn names(if_none_match: &str, etag: &str) -> bool {
    let one = |one: &str| one == "*" || one.strip_prefix("W/").unwrap_or(one) == etag;
    if_none_match.split(',').map(str::trim).any(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_validator_is_known_alone_in_a_list_weak_or_as_anything() {
        let answer = || Answer::json(200, &1).with("etag", "\"7\"").at(9);
        for known in ["\"7\"", "W/\"7\"", "\"6\", \"7\"", " \"7\" ", "*"] {
            let same = unless_known(answer(), Some(known));
            assert_eq!(
                (same.status, same.body.len(), same.header("etag")),
                (304, 0, Some("\"7\"")),
                "{known}"
            );
            assert_eq!((same.header("content-type"), same.header("orloj-applied-index")), (None, Some("9")));
        }
        for other in [None, Some(""), Some("\"70\""), Some("7"), Some("w/\"7\"")] {
            assert_eq!(unless_known(answer(), other).status, 200, "{other:?}");
        }
        assert_eq!(
            unless_known(Answer::json(200, &1), Some("*")).status,
            200,
            "what has no validator is sent"
        );
    }
}
