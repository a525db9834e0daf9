//! Whole logs: live and afterwards.

use orloj_wire::protocol::{AttemptRef, CancelReason, LogChunk, LogRequest};

use crate::support::{Executor, FakeLeader, attempt, shell, sleep};

fn request(attempt: &AttemptRef, offset: u64, limit: u32, wait_ms: u64) -> LogRequest {
    LogRequest { executor_id: "e1".to_owned(), attempt: attempt.clone(), offset, limit, wait_ms }
}

#[tokio::test]
async fn a_log_is_followed_while_it_grows_and_read_afterwards() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    let executor = Executor::start(&leader, dir.path()).await;
    let go = dir.path().join("go");
    let work =
        shell(&format!("echo one; until [ -e {} ]; do sleep 0.02; done; echo two >&2; exit 3", go.display()));
    executor.run(std::slice::from_ref(&work)).await;
    let attempt = attempt(&work);
    let first: LogChunk = executor.ask("/v1/log", &request(&attempt, 0, 1_000, 20_000)).await;
    assert_eq!((first.data.as_slice(), first.next_offset, first.complete), (&b"one\n"[..], 4, false));
    std::fs::write(go, "").unwrap();
    let mut whole = first.data;
    let mut complete = false;
    while !complete {
        let next: LogChunk =
            executor.ask("/v1/log", &request(&attempt, whole.len() as u64, 1_000, 20_000)).await;
        whole.extend(next.data);
        complete = next.complete;
    }
    assert_eq!(whole, b"one\ntwo\n");
    let report = leader.report(attempt.fence).await;
    assert_eq!(report.log_tail.as_deref(), Some(&b"one\ntwo\n"[..]));
    let part: LogChunk = executor.ask("/v1/log", &request(&attempt, 2, 3, 0)).await;
    assert_eq!((part.data.as_slice(), part.next_offset, part.complete), (&b"e\nt"[..], 5, false));
    let rest: LogChunk = executor.ask("/v1/log", &request(&attempt, 5, 1_000, 20_000)).await;
    assert!(rest.complete, "a log that is over does not wait");
}

#[tokio::test]
async fn silent_and_unknown_attempts_differ() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    let executor = Executor::start(&leader, dir.path()).await;
    let silent = sleep(1);
    executor.run(std::slice::from_ref(&silent)).await;
    leader.report(silent.attempt.fence).await;
    let chunk: LogChunk = executor.ask("/v1/log", &request(&attempt(&silent), 0, 10, 20_000)).await;
    assert!(chunk.data.is_empty() && chunk.complete);
    let (status, problem) = executor.push("/v1/log", &request(&attempt(&sleep(1)), 0, 10, 0)).await;
    assert_eq!((status, problem["code"].as_str()), (404, Some("log_gone")));
    let mut outside = attempt(&sleep(1));
    outside.task_id = "..".to_owned();
    assert_eq!(executor.push("/v1/log", &request(&outside, 0, 10, 0)).await.0, 400);
}

#[tokio::test]
async fn the_log_of_a_queued_attempt_is_awaited() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    let executor = Executor::start(&leader, dir.path()).await;
    let busy = [sleep(600_000), sleep(600_000)];
    executor.run(&busy).await;
    let queued = shell("echo here");
    executor.run(std::slice::from_ref(&queued)).await;
    let none: LogChunk = executor.ask("/v1/log", &request(&attempt(&queued), 0, 10, 0)).await;
    assert!(none.data.is_empty() && !none.complete, "its log is still to come");
    let following = request(&attempt(&queued), 0, 10, 20_000);
    let first = [&busy[0]];
    let (followed, _) = tokio::join!(
        executor.ask::<LogChunk>("/v1/log", &following),
        executor.cancel(CancelReason::Cancelled, &first)
    );
    assert_eq!(followed.data, b"here\n");
}
