//! A crowd of connections that say nothing, drip, stop in the middle, or promise bodies that never come.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::setup::pick;
use orloj_wire::rest::Submit;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};

/// Places of a public listener.
const PLACES: usize = 10_000;
/// More than there are places, and in the long form five times as many.
const CROWD: (usize, usize) = (12_000, 50_000);
const PATIENCE: Duration = Duration::from_secs(30);
/// What this process needs descriptors for beside the crowd.
const OTHERS: usize = 200;

/// The connections of this process need descriptors as well. Where the system allows fewer, the crowd is smaller, and
/// where it would fit into the listener there is none.
fn crowd() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    pick(CROWD.0, CROWD.1).min(usize::try_from(allowed).unwrap_or(CROWD.1).saturating_sub(OTHERS))
}

/// A request that looks well until its body, which never comes.
fn promise() -> String {
    format!(
        "POST /openapi/v1/tasks HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\
         x-access-key: ak_NOBODY\r\nx-timestamp: 1800000000\r\nx-nonce: 0123456789abcdef\r\n\
         x-signature: {}\r\n\r\n",
        "0".repeat(64)
    )
}

/// Where the member of this number calls from, and what it says. An address has only so many ports, so there are
/// several; all promises come from one.
fn member(number: usize, promise: &str) -> (u8, &[u8]) {
    let spread = 2 + u8::try_from(number / 4 % 8).expect("below 8");
    match number % 4 {
        0 => (spread, b""),
        1 => (spread, b"POST /openapi/v1/tasks HTTP/1.1\r\nx-drip: "),
        2 => (spread, b"PRI * HTTP/2.0\r\n"),
        _ => (1, promise.as_bytes()),
    }
}

async fn connect(from: u8, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 1, from)), 0))?;
    socket.connect(to).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_that_says_nothing_keeps_nobody_out() {
    let crowd = crowd();
    if crowd <= PLACES {
        println!("NOT TESTED: this system allows {crowd} connections, and it takes more than {PLACES}");
        return;
    }
    let cluster = Cluster::start(Setup::default()).await;
    let api = cluster.ready().replicas[0].api.clone();
    let address: SocketAddr = api.strip_prefix("http://").unwrap().parse().unwrap();
    let promise = promise();
    let mut crowd_of = Vec::new();
    for number in 0..crowd {
        let (from, text) = member(number, &promise);
        // A full backlog answers late; that is what a crowd does to itself.
        let connected = tokio::time::timeout(PATIENCE, connect(from, address)).await;
        let Ok(Ok(mut stream)) = connected else { break };
        let _ = stream.write_all(text).await;
        crowd_of.push(stream);
    }
    println!("{} connections", crowd_of.len());
    assert!(crowd_of.len() > PLACES, "the listener was never full");
    let client = cluster.client_of(&[0], PATIENCE);
    for number in 0..3 {
        let task = client.submit(&Submit::new("echo", json!({"n": number})), None).await.unwrap();
        assert_eq!(client.wait(&task.task_id, PATIENCE).await.unwrap().status, "SUCCESS");
    }
}
