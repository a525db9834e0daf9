//! A leader and an executor whose clocks are apart.

#![allow(clippy::unwrap_used, reason = "a failed test")]

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use orloj_model::time::ManualClock;
use orloj_wire::sign::{TIME_WINDOW_S, TIMESTAMP_HEADER};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const NOW_S: i64 = 1_800_000_000;

/// An executor that looks at timestamps alone.
struct Executor {
    /// Its clock, in seconds.
    clock_s: AtomicI64,
    /// The code of what it refuses.
    code: &'static str,
    /// Calls that it has had.
    calls: AtomicUsize,
}

impl Executor {
    async fn start(code: &'static str) -> (Arc<Executor>, Target) {
        let executor = Executor { clock_s: AtomicI64::new(NOW_S), code, calls: AtomicUsize::new(0) };
        let executor = Arc::new(executor);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let own = Arc::clone(&executor);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                own.answer(stream).await;
            }
        });
        (executor, Target { id: address.clone(), address })
    }

    async fn answer(&self, mut stream: TcpStream) {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n{}") {
            let mut bytes = [0; 1_024];
            let length = stream.read(&mut bytes).await.unwrap();
            assert!(length > 0, "the call broke off: {head}");
            head.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
        }
        self.calls.fetch_add(1, Ordering::SeqCst);
        let header = head.to_ascii_lowercase();
        let name = format!("{}: ", TIMESTAMP_HEADER.to_ascii_lowercase());
        let stamp = header.split(&name).nth(1).unwrap().split("\r\n").next().unwrap();
        let (stamp, clock_s): (i64, _) = (stamp.parse().unwrap(), self.clock_s.load(Ordering::SeqCst));
        let (status, body) = match (stamp - clock_s).abs() <= TIME_WINDOW_S {
            true => ("200 OK", "{}".to_owned()),
            false => {
                let time = serde_json::to_value(Time(clock_s * 1_000)).unwrap();
                let body = serde_json::json!({ "code": self.code, "serverTime": time });
                ("401 Unauthorized", body.to_string())
            }
        };
        let length = body.len();
        let answer =
            format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
        stream.write_all(answer.as_bytes()).await.unwrap();
    }

    fn set_clock(&self, ahead_s: i64) {
        self.clock_s.store(NOW_S + ahead_s, Ordering::SeqCst);
    }

    /// How many calls one message takes, and whether it got through.
    async fn tries(&self, link: &HttpLink, target: &Target) -> (usize, Result<Vec<u8>, LinkError>) {
        let before = self.calls.load(Ordering::SeqCst);
        let answer = link.post(target, "/v1/run", b"{}".to_vec(), Duration::from_secs(30)).await;
        (self.calls.load(Ordering::SeqCst) - before, answer)
    }
}

fn link() -> HttpLink {
    let secret = Secret::new("exs_0123456789abcdef0123456789abcdef").unwrap();
    let clock = Arc::new(ManualClock::at(NOW_S * 1_000));
    HttpLink::new("replica".to_owned(), secret, clock, None).unwrap()
}

#[tokio::test]
async fn b59_b131_an_executor_whose_clock_is_stepped_is_reached_all_the_same() {
    let link = link();
    let (executor, target) = Executor::start("timestamp_out_of_window").await;
    let (other, beside) = Executor::start("timestamp_out_of_window").await;
    for (ahead_s, tries) in [(0, 1), (300, 1), (-300, 1), (3_600, 2), (3_605, 1), (-3_600, 2), (0, 2)] {
        executor.set_clock(ahead_s);
        let (took, answer) = executor.tries(&link, &target).await;
        assert_eq!((took, answer.is_ok()), (tries, true), "{ahead_s}: {answer:?}");
        assert_eq!(executor.tries(&link, &target).await.0, 1, "{ahead_s}: it is remembered");
        assert_eq!(other.tries(&link, &beside).await.0, 1, "{ahead_s}: and of nobody else");
    }
}

#[tokio::test]
async fn a_refusal_for_another_reason_is_one_whatever_time_it_tells() {
    let link = link();
    let (executor, target) = Executor::start("invalid_signature").await;
    executor.set_clock(3_600);
    let refused = LinkError::Refused { status: 401, code: "invalid_signature".to_owned() };
    assert_eq!(executor.tries(&link, &target).await, (1, Err(refused)));
}
