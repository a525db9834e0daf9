use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;

/// Longer than any test: who waits for it hangs.
const NEVER: Duration = Duration::from_secs(600);

/// A replica that does this with each connection, and how it is addressed.
fn replica(mut serve: impl FnMut(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || listener.incoming().map_while(Result::ok).for_each(&mut serve));
    url
}

/// It takes connections and never answers.
fn silent() -> String {
    let mut kept = Vec::new();
    replica(move |stream| kept.push(stream))
}

/// It answers everything with this.
fn saying(status: u16, body: &Value) -> String {
    let body = body.clone();
    replica(move |stream| answer(stream, status, &body))
}

fn answer(mut stream: TcpStream, status: u16, body: &Value) {
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    // A request of a test fits into one read.
    let _ = stream.read(&mut [0; 16_384]);
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
}

/// Nobody listens there any more.
fn gone() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

fn client(urls: &[&String], try_timeout: Duration, deadline: Duration) -> Client {
    let options = Options { try_timeout, deadline, ..Options::default() };
    Client::new(urls, Credentials::new("ak_A", "sk_0123456789").unwrap(), options).unwrap()
}

#[tokio::test]
async fn a_replica_that_takes_connections_and_never_answers_is_passed_over_within_the_deadline() {
    let there = saying(200, &json!({"n": 1}));
    let (first, second) = (silent(), silent());
    // A try may take longer than the whole call: it gets its share of the deadline.
    let client = client(&[&first, &second, &there], NEVER, Duration::from_secs(6));
    let answer: Value = client.send(Call::get("/x".to_owned())).await.unwrap();
    assert_eq!(answer, json!({"n": 1}));
}

/// What a replica says of the cluster.
fn view(leader: Option<u64>) -> Value {
    json!({"clusterId": "c", "leader": leader, "round": 2, "term": 3, "members": []})
}

#[tokio::test]
async fn how_the_cluster_is_every_replica_is_asked_at_the_same_time() {
    let (asked, heard) = mpsc::channel();
    let hanging = || {
        let (asked, mut kept) = (asked.clone(), Vec::new());
        replica(move |stream| {
            kept.push(stream);
            let _ = asked.send(());
        })
    };
    let hang = [hanging(), hanging()];
    // It takes its time: until the others have been asked.
    let slow = replica(move |stream| {
        let both = [(); 2].map(|()| heard.recv_timeout(NEVER));
        assert!(both.iter().all(Result::is_ok));
        answer(stream, 200, &view(Some(1)));
    });
    let client = client(&[&slow, &hang[0], &hang[1]], NEVER, Duration::from_secs(6));
    assert_eq!(client.cluster().await.unwrap().leader, Some(1));
}

#[tokio::test]
async fn who_knows_of_a_leader_is_believed_before_one_that_hears_nobody() {
    let (said, heard) = mpsc::channel();
    let isolated = replica(move |stream| {
        answer(stream, 200, &view(None));
        let _ = said.send(());
    });
    let alone = client(&[&isolated, &silent()], NEVER, NEVER);
    assert_eq!(alone.cluster().await.unwrap().leader, None, "there comes no better answer");
    heard.recv_timeout(NEVER).unwrap();
    let follower = replica(move |stream| {
        assert!(heard.recv_timeout(NEVER).is_ok());
        answer(stream, 200, &view(Some(1)));
    });
    let both = client(&[&isolated, &follower], NEVER, NEVER);
    assert_eq!(both.cluster().await.unwrap().leader, Some(1));
}

#[tokio::test]
async fn a_refusal_of_one_replica_waits_for_no_other() {
    let denied = saying(403, &json!(Problem::new(orloj_wire::problem::Code::ScopeDenied, "no such scope")));
    let client = client(&[&silent(), &denied], NEVER, NEVER);
    let error = client.cluster().await.unwrap_err();
    assert_eq!(error.code(), Some(orloj_wire::problem::Code::ScopeDenied), "{error}");
}

#[tokio::test]
async fn a_call_that_waits_long_does_not_wait_for_a_replica_that_nobody_has_heard_of() {
    let (there, hangs) = (saying(200, &json!({"n": 2})), silent());
    let client = client(&[&hangs, &there], Duration::from_millis(300), Duration::from_secs(60));
    let call = Call { wait: NEVER, ..Call::get("/x".to_owned()) };
    let answer: Value = client.send(call).await.unwrap();
    assert_eq!(answer, json!({"n": 2}));
}

#[tokio::test]
async fn each_replicas_own_fault_is_named() {
    let no_leader = json!(Problem::new(orloj_wire::problem::Code::NoLeader, "nobody leads"));
    let (hangs, gone, follows) = (silent(), gone(), saying(503, &no_leader));
    let client = client(&[&hangs, &gone, &follows], Duration::from_secs(1), Duration::from_secs(4));
    let error = client.send::<Value>(Call::get("/x".to_owned())).await.unwrap_err();
    assert!(error.is_unknown(), "the silent one may have done it");
    let said = error.to_string();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 4, "{said}");
    for (line, url, why) in [
        (lines[1], &hangs, "no answer in time"),
        (lines[2], &gone, "refused"),
        (lines[3], &follows, "nobody leads"),
    ] {
        assert!(line.contains(url.as_str()) && line.contains(why), "{said}");
    }
}

#[tokio::test]
async fn refusals_of_all_replicas_are_one_refusal() {
    let no_leader = json!(Problem::new(orloj_wire::problem::Code::NoLeader, "nobody leads"));
    let (one, other) = (saying(503, &no_leader), saying(503, &no_leader));
    let client = client(&[&one, &other], Duration::from_secs(30), Duration::from_millis(500));
    let error = client.send::<Value>(Call::get("/x".to_owned())).await.unwrap_err();
    assert_eq!(error.code(), Some(orloj_wire::problem::Code::NoLeader), "{error}");
}

#[test]
fn a_base_url_has_scheme_host_and_port_only() {
    assert!(base_url("http://127.0.0.1:8080").is_ok());
    assert!(base_url("https://orloj.example.com/").is_ok());
    for bad in [
        "127.0.0.1:8080",
        "localhost:80",
        "ftp://h",
        "http://h/p",
        "http://h/?q",
        "http://u@h",
        "http://:p@h",
        "http://h/#f",
        "",
    ] {
        assert!(base_url(bad).is_err(), "{bad}");
    }
}
