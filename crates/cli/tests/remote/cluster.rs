//! Which replica is asked, and what is said when none answers.

use orloj_wire::problem::Code;
use serde_json::json;

use super::stub::{orloj, refusal, replica, silent};

#[test]
fn a_replica_that_never_answers_is_passed_over_by_every_command() {
    let executors = replica(|_| Some((200, json!({"executors": [], "appliedIndex": 1}))));
    let first = silent();
    orloj(&[&first, &executors], &["executor", "list"]).is(0, &["EXECUTOR", "LOAD %"]);
}

#[test]
fn when_none_answers_each_ones_own_fault_is_named() {
    let follower = replica(|_| refusal(Code::NoLeader, "nobody leads", Vec::new()));
    let first = silent();
    let said = orloj(&[&first, &follower, "http://127.0.0.1:1"], &["executor", "list"]);
    said.is(3, &[]);
    for (url, why) in [
        (first.as_str(), "no answer in time"),
        (follower.as_str(), "no_leader (503): nobody leads"),
        ("http://127.0.0.1:1", "refused"),
    ] {
        let line = said.err.lines().find(|line| line.contains(&format!("{url}: ")));
        assert!(line.is_some_and(|line| line.contains(why)), "{said:?}");
    }
}
