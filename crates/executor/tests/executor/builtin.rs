//! The handlers that go out into the world.

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Redirect;
use axum::routing::{any, get};
use orloj_executor::Handlers;
use orloj_wire::protocol::{Dispatch, Report, ReportOutcome};
use serde_json::{Value, json};

use crate::support::{Executor, FakeLeader, dispatch, shell};

async fn outcome(leader: &FakeLeader, executor: &Executor, work: Dispatch) -> Report {
    executor.run(std::slice::from_ref(&work)).await;
    leader.report(work.attempt.fence).await
}

async fn site() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let echo = |headers: HeaderMap, body: String| async move {
        format!("{} {body}", headers["x-test"].to_str().unwrap())
    };
    let busy = || async { (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "7")], "later") };
    let router = Router::new()
        .route("/echo", any(echo))
        .route("/busy", get(busy))
        .route("/away", get(|| async { Redirect::temporary("/echo") }));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

#[tokio::test]
async fn http_sends_and_judges() {
    let (leader, dir, site) = (FakeLeader::start().await, tempfile::tempdir().unwrap(), site().await);
    let mut options = Executor::options(&leader, dir.path());
    options.handlers.http.allow_cidrs = vec!["127.0.0.1/32".to_owned()];
    let executor = Executor::start_with(options, Handlers::new()).await;
    let http = |params: Value| outcome(&leader, &executor, dispatch("http", params));
    let report = http(json!({ "method": "PUT", "url": format!("{site}/echo"), "headers": { "X-Test": "h" },
        "body": { "a": 1 } }))
    .await;
    assert_eq!(report.outcome, ReportOutcome::Succeeded, "{report:?}");
    let result: Value = serde_json::from_str(&report.result.unwrap()).unwrap();
    assert_eq!(result, json!({ "status": 200, "body": "h {\"a\":1}" }));
    let report = http(json!({ "url": format!("{site}/busy") })).await;
    assert_eq!(
        (report.outcome, report.retryable, report.retry_after_ms),
        (ReportOutcome::Failed, true, Some(7_000))
    );
    let report = http(json!({ "url": format!("{site}/nothing") })).await;
    assert_eq!((report.outcome, report.retryable), (ReportOutcome::Failed, false));
    let report = http(json!({ "url": format!("{site}/nothing"), "expectedStatus": [404] })).await;
    assert_eq!(report.outcome, ReportOutcome::Succeeded);
    let report = http(json!({ "url": format!("{site}/away") })).await;
    assert_eq!(report.message.as_deref(), Some("the answer has status 307"), "redirects are not followed");
    let report = http(json!({ "url": "http://127.0.0.2/" })).await;
    assert_eq!((report.outcome, report.retryable), (ReportOutcome::Failed, false));
}

#[tokio::test]
async fn http_does_not_reach_inside_by_default() {
    let (leader, dir, site) = (FakeLeader::start().await, tempfile::tempdir().unwrap(), site().await);
    let executor = Executor::start(&leader, dir.path()).await;
    let port = site.rsplit_once(':').unwrap().1;
    for url in
        [format!("{site}/echo"), format!("http://localhost:{port}/echo"), format!("http://[::1]:{port}/")]
    {
        let report = outcome(&leader, &executor, dispatch("http", json!({ "url": url }))).await;
        let message = report.message.unwrap();
        assert_eq!((report.outcome, report.retryable), (ReportOutcome::Failed, false), "{url}: {message}");
        assert!(message.contains("not a public address"), "{url}: {message}");
    }
}

#[tokio::test]
async fn shell_runs_only_what_is_allowed_and_shows_its_output() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    let mut options = Executor::options(&leader, dir.path());
    options.handlers.shell.allow_any = false;
    options.handlers.shell.allow = vec!["echo *".to_owned(), "printf".to_owned()];
    let executor = Executor::start_with(options, Handlers::new()).await;
    let report =
        outcome(&leader, &executor, shell("echo $ORLOJ_TASK_ID:$ORLOJ_ATTEMPT; echo oops >&2")).await;
    let task = &report.attempt.task_id;
    assert_eq!(report.result.unwrap(), format!("\"{task}:1\\n\""));
    assert!(String::from_utf8(report.log_tail.unwrap()).unwrap().contains("oops"));
    let printf = dispatch("shell", json!({ "program": "printf", "args": ["%s;", "$HOME", "a b"] }));
    assert_eq!(outcome(&leader, &executor, printf).await.result.as_deref(), Some("\"$HOME;a b;\""));
    let report = outcome(&leader, &executor, shell("touch x")).await;
    assert_eq!((report.outcome, report.retryable), (ReportOutcome::Failed, false));
    assert!(report.message.unwrap().contains("allow-list"));
}

#[tokio::test]
async fn a_command_sees_no_secret_and_leaves_nothing_behind() {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    let executor = Executor::start(&leader, dir.path()).await;
    let report = outcome(&leader, &executor, shell("env")).await;
    let environment: String = serde_json::from_str(&report.result.unwrap()).unwrap();
    assert!(!environment.contains("CARGO"), "the executor's own environment is not handed on: {environment}");
    let background = shell("sleep 600 & echo $!");
    let report = outcome(&leader, &executor, background).await;
    let pid: String = serde_json::from_str(&report.result.unwrap()).unwrap();
    assert!(!crate::support::pid_runs(pid.trim().parse().unwrap()), "a slot is free when its work is over");
}
