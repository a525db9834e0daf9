//! Cancels, timeouts and lost leases really stop the work.

use orloj_executor::{AttemptContext, Handler, HandlerError, HandlerOutput, Handlers};
use orloj_wire::protocol::{CancelReason, Dispatch, HeartbeatAck, ReportOutcome};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Executor, FakeLeader, attempt, dispatch, pid_runs, shell, sleep, until, within};

/// A command with a child, a grandchild and one that leaves the process group, all deaf to SIGTERM.
fn family(dir: &Path) -> Dispatch {
    shell(&format!(
        "trap '' TERM; cd {}; echo $$ > a; \
         sh -c 'trap \"\" TERM; echo $$ > b; sh -c \"trap : TERM; echo \\$\\$ > c; sleep 600; sleep 600\"; true'& \
         setsid sh -c 'echo $$ > d; sleep 600; true' & wait; wait; wait; sleep 600",
        dir.display()
    ))
}

async fn pids(dir: &Path) -> Vec<i32> {
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).ok()?.trim().parse::<i32>().ok();
    let all = || ["a", "b", "c", "d"].into_iter().filter_map(read).collect::<Vec<_>>();
    until("four processes", || all().len() == 4).await;
    all()
}

#[tokio::test]
async fn a_cancel_ends_the_whole_family_of_a_command() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    let executor = Executor::start(&leader, dir.path()).await;
    let work = family(dir.path());
    executor.run(std::slice::from_ref(&work)).await;
    let pids = pids(dir.path()).await;
    assert!(pids.iter().all(|pid| pid_runs(*pid)));
    assert_eq!(executor.cancel(CancelReason::Cancelled, &[&work, &sleep(1)]).await, [true, false]);
    assert_eq!(leader.report(work.attempt.fence).await.outcome, ReportOutcome::Cancelled);
    let left: Vec<_> = pids.into_iter().filter(|pid| pid_runs(*pid)).collect();
    assert!(left.is_empty(), "still there when the cancel was reported: {left:?}");
}

#[tokio::test]
async fn a_timeout_is_kept_by_the_executor_itself() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    let executor = Executor::start(&leader, dir.path()).await;
    let mut work = shell(&format!("echo started; echo $$ > {}/pid; sleep 600", dir.path().display()));
    work.timeout_ms = Some(300);
    let mut native = sleep(600_000);
    native.timeout_ms = Some(100);
    executor.run(&[work.clone(), native.clone()]).await;
    let report = leader.report(work.attempt.fence).await;
    assert_eq!(report.outcome, ReportOutcome::TimedOut);
    assert_eq!(report.message.as_deref(), Some("it ran for longer than 300 ms"));
    assert!(String::from_utf8(report.log_tail.unwrap()).unwrap().starts_with("started\n"));
    let pid = std::fs::read_to_string(dir.path().join("pid")).unwrap().trim().parse().unwrap();
    assert!(!pid_runs(pid));
    assert_eq!(leader.report(native.attempt.fence).await.outcome, ReportOutcome::TimedOut);
}

/// Ignores every cancel; tells when it is dropped.
struct Stubborn {
    dropped: Arc<AtomicBool>,
}

struct Tell(Arc<AtomicBool>);

impl Drop for Tell {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Handler for Stubborn {
    async fn run(&self, _context: AttemptContext) -> Result<HandlerOutput, HandlerError> {
        let _tell = Tell(Arc::clone(&self.dropped));
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_handler_that_ignores_the_cancel_is_aborted_before_it_is_reported() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    let dropped = Arc::new(AtomicBool::new(false));
    let handlers = Handlers::new().with("stubborn", Stubborn { dropped: Arc::clone(&dropped) }).unwrap();
    let executor = Executor::start_with(Executor::options(&leader, dir.path()), handlers).await;
    let work = dispatch("stubborn", json!(null));
    executor.run(std::slice::from_ref(&work)).await;
    executor.cancel(CancelReason::Cancelled, &[&work]).await;
    assert_eq!(leader.report(work.attempt.fence).await.outcome, ReportOutcome::Cancelled);
    assert!(dropped.load(Ordering::SeqCst), "its future was gone before the report");
}

#[tokio::test]
async fn what_has_not_started_is_cancelled_without_being_run() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    let executor = Executor::start(&leader, dir.path()).await;
    let busy = [sleep(600_000), sleep(600_000)];
    executor.run(&busy).await;
    let marker = dir.path().join("ran");
    let queued = shell(&format!("touch {}", marker.display()));
    executor.run(std::slice::from_ref(&queued)).await;
    assert_eq!(executor.cancel(CancelReason::Cancelled, &[&queued]).await, [true]);
    let report = leader.report(queued.attempt.fence).await;
    assert_eq!((report.outcome, report.started_at), (ReportOutcome::Cancelled, None));
    executor.cancel(CancelReason::Cancelled, &[&busy[0], &busy[1]]).await;
    leader.report(busy[1].attempt.fence).await;
    assert!(!marker.exists());
}

#[tokio::test]
async fn an_attempt_without_a_lease_is_killed_and_forgotten() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    let (pushed, told) =
        (sleep(600_000), shell(&format!("echo $$ > {}/pid; sleep 600", dir.path().display())));
    let mut options = Executor::options(&leader, dir.path());
    options.heartbeat_ms = Some(100);
    let executor = Executor::start_with(options, Handlers::new()).await;
    executor.run(&[pushed.clone(), told.clone()]).await;
    until("the command to start", || dir.path().join("pid").exists()).await;
    leader.ack_next(HeartbeatAck {
        round: 1,
        register: false,
        superseded: false,
        stale: vec![attempt(&told)],
    });
    executor.cancel(CancelReason::LeaseLost, &[&pushed]).await;
    within("both to be forgotten", async {
        while !executor.announce(1, &leader).await.holding.is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let after = sleep(1);
    executor.run(std::slice::from_ref(&after)).await;
    leader.report(after.attempt.fence).await;
    assert_eq!(leader.reports().len(), 1, "nothing is reported of the two");
}

#[tokio::test]
async fn failures_say_what_went_wrong() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    struct Panics;
    impl Handler for Panics {
        async fn run(&self, _context: AttemptContext) -> Result<HandlerOutput, HandlerError> {
            panic!("out of luck")
        }
    }
    struct Big;
    impl Handler for Big {
        async fn run(&self, _context: AttemptContext) -> Result<HandlerOutput, HandlerError> {
            Ok(json!("x".repeat(70_000)).into())
        }
    }
    let handlers = Handlers::new().with("panics", Panics).unwrap().with("big", Big).unwrap();
    let executor = Executor::start_with(Executor::options(&leader, dir.path()), handlers).await;
    let cases = [
        (dispatch("panics", json!(null)), true, "the handler panicked: out of luck"),
        (dispatch("big", json!(null)), false, "the result has 70002 bytes"),
        (shell("exit 7"), true, "the command failed: exit status: 7"),
        (shell("kill -9 $$"), true, "the command failed: signal: 9 (SIGKILL)"),
        (dispatch("shell", json!({})), false, "params: either"),
        (dispatch("sleep", json!({ "duration": 1 })), false, "params: unknown field `duration`"),
        (dispatch("fail", json!({ "message": "no", "retryable": false })), false, "no"),
        (dispatch("fail", json!({ "times": 1 })), true, "failed on demand"),
    ];
    for (work, retryable, message) in cases {
        executor.run(std::slice::from_ref(&work)).await;
        let report = leader.report(work.attempt.fence).await;
        let told = report.message.unwrap();
        assert_eq!((report.outcome, report.retryable), (ReportOutcome::Failed, retryable), "{told}");
        assert!(told.starts_with(message), "{told} / {message}");
    }
}
