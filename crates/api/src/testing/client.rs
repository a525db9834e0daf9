//! The product's client against the product's listeners.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use orloj_client::{Client, Credentials, Error, ListQuery, LogQuery, Options};
use orloj_wire::problem::Code;
use orloj_wire::rest::Submit;
use serde_json::json;

use super::{SECRET_A, SECRET_ADMIN, SECRET_B, Universe};

fn client(universe: &Universe, access_key: &str, secret: &str) -> Client {
    let urls: Vec<_> = universe.nodes.iter().map(|node| node.url.clone()).collect();
    let clock = Arc::clone(&universe.clock) as _;
    let options = Options { clock, deadline: Duration::from_secs(10), ..Options::default() };
    Client::new(urls, Credentials::new(access_key, secret).unwrap(), options).unwrap()
}

#[tokio::test]
async fn a_task_from_submission_to_result() {
    let universe = Universe::of(3).await;
    let client = client(&universe, "ak_A", SECRET_A);
    let task = client.submit(&Submit::new("echo", json!({"n": 1})), None).await.unwrap().task_id;
    let waiting = tokio::spawn({
        let (client, task) = (client.clone(), task.clone());
        async move { client.wait(&task, Duration::from_secs(30)).await }
    });
    let fence = universe.grant(&task, 1);
    universe.succeed(&task, 1, fence);
    let ended = waiting.await.unwrap().unwrap();
    assert_eq!((ended.status.as_str(), ended.result), ("SUCCESS", Some(json!({"n": 1}))));
    assert_eq!(client.attempts(&task).await.unwrap().attempts.len(), 1);
    assert_eq!(client.logs(&task, &LogQuery::default()).await.unwrap().text, "done €\n");
    let page =
        client.list(&ListQuery { status: Some("SUCCESS".into()), ..ListQuery::default() }).await.unwrap();
    assert_eq!(page.tasks[0].task_id, task);
    let error = client.cancel(&task).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::TaskAlreadyTerminal));
    let Error::Problem(problem) = error else { panic!("no problem document") };
    assert_eq!(problem.task.unwrap().status, "SUCCESS");
}

#[tokio::test]
async fn a_submission_is_repeated_until_somebody_leads_and_makes_one_task() {
    let universe = Universe::of(3).await;
    let client = client(&universe, "ak_A", SECRET_A);
    universe.elect(None);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.submit(&Submit::new("echo", json!({})), None).await }
    });
    tokio::task::yield_now().await;
    universe.elect(Some(2));
    let task = waiting.await.unwrap().unwrap().task_id;
    let page = client.list(&ListQuery::default()).await.unwrap();
    assert_eq!(page.tasks.iter().map(|task| &task.task_id).collect::<Vec<_>>(), [&task]);
}

#[tokio::test]
async fn a_dead_replica_is_passed_over() {
    let universe = Universe::of(1).await;
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let urls = [format!("http://{nobody}"), universe.nodes[0].url.clone()];
    let options = Options { clock: Arc::clone(&universe.clock) as _, ..Options::default() };
    let client = Client::new(urls, Credentials::new("ak_A", SECRET_A).unwrap(), options).unwrap();
    client.submit(&Submit::new("echo", json!({})), None).await.unwrap();
}

#[tokio::test]
async fn a_wait_that_no_clock_can_hold_ends_the_tries() {
    let busy = || async {
        let problem = orloj_wire::problem::Problem::new(Code::Overloaded, "busy");
        (
            axum::http::StatusCode::SERVICE_UNAVAILABLE,
            [("retry-after", u64::MAX.to_string())],
            axum::Json(problem),
        )
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = axum::Router::new().fallback(axum::routing::any(busy));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let client = Client::new([url], Credentials::new("ak_A", SECRET_A).unwrap(), Options::default()).unwrap();
    let error = client.get("tsk_AAECAwQFBgcICQoLDA0ODw").await.unwrap_err();
    assert_eq!(error.code(), Some(Code::Overloaded));
}

#[tokio::test]
async fn refusals_are_not_repeated() {
    let universe = Universe::of(1).await;
    let client = client(&universe, "ak_A", SECRET_B);
    let error = client.get("tsk_AAECAwQFBgcICQoLDA0ODw").await.unwrap_err();
    assert_eq!(error.code(), Some(Code::InvalidSignature));
    assert!(client.get("../x").await.is_err());
}

#[tokio::test]
async fn a_client_with_a_wrong_clock_is_told_the_time_and_goes_on() {
    let universe = Universe::of(1).await;
    let behind = Arc::new(orloj_model::time::ManualClock::at((super::T - 3600) * 1000));
    let options = Options { clock: behind, ..Options::default() };
    let credentials = Credentials::new("ak_A", SECRET_A).unwrap();
    let client = Client::new([universe.nodes[0].url.clone()], credentials, options).unwrap();
    client.submit(&Submit::new("echo", json!({})), None).await.unwrap();
    client.list(&ListQuery::default()).await.unwrap();
}

#[tokio::test]
async fn administrators_look_after_the_cluster() {
    let universe = Universe::of(2).await;
    let client = client(&universe, "adk_A", SECRET_ADMIN);
    assert_eq!(client.cluster().await.unwrap().leader, Some(1));
    assert_eq!(client.executors().await.unwrap().executors[0].executor_id, "e1");
    assert!(client.drain("e1", true).await.unwrap().draining);
    let added = client.add_member("10.0.0.9:7000", "http://10.0.0.9:80").await.unwrap();
    assert!(!client.remove_member(added.id).await.unwrap().member);
    assert_eq!(client.transfer(2).await.unwrap().leader, 2);
}

#[tokio::test]
async fn what_cannot_be_told_from_a_second_one_is_not_repeated_once_it_may_have_been_done() {
    for (code, again) in [(Code::CommitUnknown, false), (Code::NotReady, false), (Code::NoLeader, true)] {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let refuse = move || {
            counted.fetch_add(1, Ordering::SeqCst);
            let problem = orloj_wire::problem::Problem::new(code, "");
            async move { (axum::http::StatusCode::SERVICE_UNAVAILABLE, axum::Json(problem)) }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = axum::Router::new().fallback(axum::routing::any(refuse));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let options = Options { deadline: Duration::from_secs(1), ..Options::default() };
        let client = Client::new([url], Credentials::new("adk_A", SECRET_ADMIN).unwrap(), options).unwrap();
        let error = client.add_key("shop", &orloj_wire::rest::NewKey::default()).await.unwrap_err();
        assert_eq!(error.code(), Some(code));
        assert_eq!(asked.load(Ordering::SeqCst) > 1, again, "{code:?}");
    }
}
