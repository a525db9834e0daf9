//! Sends against sinks with vices.
#![allow(clippy::unwrap_used, reason = "a failed test")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use orloj_model::time::ManualClock;
use orloj_wire::callback::{HostEntry, HostRule, check_url};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

/// Answers every connection with the same bytes, and keeps what it was sent.
struct Sink {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

async fn sink(answer: impl Into<String>) -> Sink {
    sink_that(answer, false).await
}

/// One that `stays` keeps the connection after its answer.
async fn sink_that(answer: impl Into<String>, stays: bool) -> Sink {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let connections = Arc::new(AtomicUsize::new(0));
    let (kept, counted, answer) = (Arc::clone(&requests), Arc::clone(&connections), answer.into());
    tokio::spawn(async move {
        loop {
            let Ok((mut stream, _)) = listener.accept().await else { return };
            counted.fetch_add(1, Ordering::SeqCst);
            let (kept, answer) = (Arc::clone(&kept), answer.clone());
            tokio::spawn(async move {
                let mut request = Vec::new();
                let mut piece = [0; 4096];
                while !request.windows(4).any(|end| end == b"\r\n\r\n") || !request.ends_with(b"}") {
                    match stream.read(&mut piece).await {
                        Ok(0) | Err(_) => return,
                        Ok(read) => request.extend_from_slice(&piece[..read]),
                    }
                }
                kept.lock().unwrap().push(String::from_utf8_lossy(&request).into_owned());
                if answer.is_empty() {
                    // Never answers, and keeps the connection.
                    std::future::pending::<()>().await;
                }
                let _ = stream.write_all(answer.as_bytes()).await;
                if stays {
                    std::future::pending::<()>().await;
                }
            });
        }
    });
    Sink { port, requests, connections }
}

impl Sink {
    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Answers one list after the other; the last one stays.
struct Answers {
    lists: Vec<Vec<IpAddr>>,
    asked: AtomicUsize,
}

impl Resolver for Answers {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Vec<IpAddr>> {
        let place = self.asked.fetch_add(1, Ordering::SeqCst).min(self.lists.len() - 1);
        let list = self.lists[place].clone();
        Box::pin(async move { list })
    }
}

fn resolver(lists: &[&[&str]]) -> Arc<dyn Resolver> {
    let lists = lists.iter().map(|list| list.iter().map(|one| one.parse().unwrap()).collect()).collect();
    Arc::new(Answers { lists, asked: AtomicUsize::new(0) })
}

fn link(resolver: Arc<dyn Resolver>, allowed: &[&str]) -> HttpCallbackLink {
    let tls = OutsideTls::of_this_machine().unwrap();
    let allowed = allowed.iter().map(|text| Cidr::parse(text).unwrap()).collect();
    HttpCallbackLink::new(resolver, tls, allowed, Arc::new(ManualClock::at(0)))
}

fn post(scheme: &str, port: u16, cidrs: &[&str]) -> Post {
    let entry = HostEntry {
        host: "hooks.test".into(),
        ports: vec![port],
        plain_http: true,
        allow_cidrs: cidrs.iter().map(|text| (*text).to_owned()).collect(),
    };
    let rules = [HostRule::new(&entry).unwrap()];
    let destination = check_url(&format!("{scheme}://hooks.test:{port}/cb?a=b"), &rules).unwrap();
    Post {
        destination,
        headers: vec![("webhook-id", "evt_1".into())],
        body: b"{\"a\":1}".to_vec(),
        own: Arc::default(),
    }
}

const LOOPBACK: &str = "127.0.0.0/8";

/// To a sink on loopback, which rule and server allow.
async fn to(sink: &Sink) -> SendOutcome {
    let link = link(resolver(&[&["127.0.0.1"]]), &[LOOPBACK]);
    link.post(post("http", sink.port, &[LOOPBACK])).await
}

fn failed(kind: FailureKind) -> SendOutcome {
    SendOutcome::failed(kind)
}

fn status(status: u16, retry_after_ms: Option<u64>) -> SendOutcome {
    SendOutcome::Failed { kind: FailureKind::Status, status: Some(status), retry_after_ms }
}

#[tokio::test]
async fn what_is_sent_is_what_was_signed() {
    let sink = sink("HTTP/1.1 204 No Content\r\n\r\n").await;
    assert_eq!(to(&sink).await, SendOutcome::Delivered { status: 204 });
    let requests = sink.requests();
    assert_eq!(requests.len(), 1);
    let head = requests[0].to_lowercase();
    assert!(requests[0].starts_with("POST /cb?a=b HTTP/1.1\r\n"), "{head}");
    assert!(requests[0].ends_with("\r\n\r\n{\"a\":1}"), "{head}");
    for line in [
        format!("host: hooks.test:{}", sink.port),
        "content-type: application/json".into(),
        "content-length: 7".into(),
        "connection: close".into(),
        "webhook-id: evt_1".into(),
    ] {
        assert!(head.contains(&line), "{line} in {head}");
    }
}

#[tokio::test]
async fn statuses_and_retry_after_are_told() {
    for (answer, expected) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", SendOutcome::Delivered { status: 200 }),
        ("HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n", status(500, None)),
        ("HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n", status(410, None)),
        ("HTTP/1.1 503 No\r\nretry-after: 90\r\ncontent-length: 0\r\n\r\n", status(503, Some(90_000))),
        ("HTTP/1.1 429 No\r\nRetry-After: nonsense\r\ncontent-length: 0\r\n\r\n", status(429, None)),
        // An endless answer is not read to its end.
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
            SendOutcome::Delivered { status: 200 },
        ),
        ("nonsense\r\n\r\n", failed(FailureKind::Connect)),
        ("HTTP/1.1 ", failed(FailureKind::Connect)),
    ] {
        assert_eq!(to(&sink(answer).await).await, expected, "{answer:?}");
    }
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(64 * 1024));
    assert_eq!(to(&sink(long).await).await, failed(FailureKind::Connect), "a head beyond its limit");
}

#[tokio::test]
async fn a_redirect_is_a_failure_and_is_not_followed() {
    let inside = sink("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let location = format!("http://127.0.0.1:{}/", inside.port);
    let answer = format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
    assert_eq!(to(&sink(answer).await).await, status(302, None));
    assert_eq!(inside.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn one_that_does_not_answer_is_not_waited_for() {
    assert_eq!(to(&sink("").await).await, failed(FailureKind::Timeout));
}

#[tokio::test(start_paused = true)]
async fn what_was_delivered_stays_so_however_long_the_answer_goes_on() {
    let endless = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
    assert_eq!(to(&sink_that(endless, true).await).await, SendOutcome::Delivered { status: 200 });
}

#[tokio::test]
async fn nobody_there() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let link = link(resolver(&[&["127.0.0.1"]]), &[LOOPBACK]);
    assert_eq!(link.post(post("http", closed, &[LOOPBACK])).await, failed(FailureKind::Connect));
}

#[tokio::test]
async fn internal_addresses_are_not_dialled() {
    let sink = sink("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    for (found, rule, server) in [
        (&["127.0.0.1"][..], &[][..], &[][..]),
        (&["127.0.0.1"], &[LOOPBACK], &[]),
        (&["127.0.0.1"], &[], &[LOOPBACK]),
        (&["::ffff:127.0.0.1"], &[], &[]),
        (&["1.1.1.1", "127.0.0.1"], &[], &[]),
        (&["127.0.0.1", "10.0.0.1"], &[LOOPBACK], &[LOOPBACK]),
        (&["169.254.169.254"], &["169.254.0.0/16"], &["0.0.0.0/0"]),
    ] {
        let link = link(resolver(&[found]), server);
        let outcome = link.post(post("http", sink.port, rule)).await;
        assert_eq!(outcome, failed(FailureKind::Blocked), "{found:?} {rule:?} {server:?}");
    }
    assert_eq!(sink.connections.load(Ordering::SeqCst), 0);
    let link = link(resolver(&[&[]]), &[LOOPBACK]);
    assert_eq!(link.post(post("http", sink.port, &[LOOPBACK])).await, failed(FailureKind::Dns));
}

#[tokio::test]
async fn b117_a_name_that_comes_to_lead_inside_is_refused_at_that_send() {
    let sink = sink("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    // Public when somebody looked first; the send looks again, once, and dials what it saw.
    let lists: [&[&str]; 3] = [&["1.1.1.1"], &["127.0.0.1"], &["1.1.1.1"]];
    let resolver = resolver(&lists);
    resolver.resolve("hooks.test").await;
    let link = link(Arc::clone(&resolver), &[]);
    assert_eq!(link.post(post("http", sink.port, &[])).await, failed(FailureKind::Blocked));
    assert_eq!(sink.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn the_cluster_does_not_call_itself() {
    let sink = sink("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let link = link(resolver(&[&["127.0.0.1"]]), &[LOOPBACK]);
    // By its address, by a name that leads to it, by the very name that is called.
    for own in ["127.0.0.1", "executor-1.internal", "hooks.test"] {
        let own = vec!["h:1".to_owned(), format!("{own}:{}", sink.port)].into();
        let post = Post { own, ..post("http", sink.port, &[LOOPBACK]) };
        assert_eq!(link.post(post).await, failed(FailureKind::Blocked));
    }
    assert_eq!(sink.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_receiver_that_speaks_no_tls_gets_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let received = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let mut received = Vec::new();
        // The other side breaks off.
        let _ = stream.read_to_end(&mut received).await;
        received
    });
    let link = link(resolver(&[&["127.0.0.1"]]), &[LOOPBACK]);
    assert_eq!(link.post(post("https", port, &[LOOPBACK])).await, failed(FailureKind::Tls));
    let received = received.await.unwrap();
    assert!(!String::from_utf8_lossy(&received).contains("webhook-id"), "nothing but a greeting was sent");
}
