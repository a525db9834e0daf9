use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
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
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    replica(move |mut stream| {
        // A request of a test fits into one read.
        let _ = stream.read(&mut [0; 16_384]);
        let _ = stream.write_all(format!("{head}{body}").as_bytes());
    })
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
