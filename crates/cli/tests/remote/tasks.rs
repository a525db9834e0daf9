//! Submissions and what they end with.

use serde_json::{Value, json};

use super::stub::{orloj, replica};

fn task(status: &str) -> Value {
    let at = "2027-01-15T08:00:00.000Z";
    json!({
        "taskId": "tsk_AAECAwQFBgcICQoLDA0ODw", "handler": "echo", "status": status, "cancelRequested": false, "version": 3,
        "attempt": 1, "priority": 5, "createdAt": at, "updatedAt": at, "dueAt": at, "retry": {}, "strategy": "ring",
        "shardTotal": 1, "shardsSucceeded": 0, "shardsRunning": 1, "appliedIndex": 7,
    })
}

#[test]
fn a_synchronous_submission_ends_with_what_became_of_the_task() {
    let line = ["task", "submit", "echo", "--sync", "--estimate-ms", "100"];
    for (answered, status, code) in [
        (200, "SUCCESS", 0),
        (200, "FAILED", 1),
        (200, "SKIPPED", 1),
        (202, "RUNNING", 6),
        (202, "PENDING", 6),
    ] {
        let url = replica(move |request| {
            assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/openapi/v1/tasks/sync"));
            Some((answered, task(status)))
        });
        let said = orloj(&[&url], &line);
        said.is(code, &[status, "tsk_AAECAwQFBgcICQoLDA0ODw"]);
        assert_eq!(said.err.contains("task wait"), code == 6, "{said:?}");
    }
}

#[test]
fn a_refused_value_is_named_in_plain_words() {
    // What a replica says of a body is what its reader says.
    let url = replica(|request| {
        let fault =
            orloj_wire::json::read_object::<orloj_wire::rest::Submit>(request.body.to_string().as_bytes());
        let fault = fault.unwrap_err();
        let detail = format!("{}: {}", fault.pointer, fault.message);
        super::stub::refusal(orloj_wire::problem::Code::InvalidRequest, &detail, vec![fault])
    });
    let said = orloj(&[&url], &["task", "submit", "echo", "--priority", "11"]);
    said.is(4, &[]);
    assert!(said.err.contains("/priority: 11 is outside 0-9") && !said.err.contains("column"), "{said:?}");
}

#[test]
fn where_the_answer_was_lost_it_says_how_to_go_on() {
    let breaks = || replica(|_| None);
    let lost = [
        (vec!["task", "submit", "echo"], "--idempotency-key "),
        (vec!["task", "submit", "echo", "--idempotency-key", "mine"], "--idempotency-key mine,"),
        (vec!["job", "run", "nightly"], "--idempotency-key "),
        (
            vec![
                "job",
                "backfill",
                "nightly",
                "--from",
                "2027-01-10T00:00:00Z",
                "--to",
                "2027-01-11T00:00:00Z",
            ],
            "orloj job history nightly",
        ),
    ];
    for (line, told) in lost {
        let said = orloj(&[&breaks()], &line);
        said.is(3, &[]);
        assert!(said.err.contains("not known whether it was done") && said.err.contains(told), "{said:?}");
    }
    let said = orloj(&[&breaks()], &["task", "get", "tsk_a"]);
    assert!(!said.err.contains("not known whether"), "a question changes nothing: {said:?}");
}

#[test]
fn an_option_that_would_do_nothing_is_refused() {
    let sync = ["task", "submit", "echo", "--sync", "--estimate-ms", "100"];
    for more in [&["--wait-timeout-ms", "5"][..], &["--wait"]] {
        let said = orloj(&[], &[&sync[..], more].concat());
        assert!(said.code == Some(2) && said.err.contains("cannot be used with"), "{said:?}");
    }
}
