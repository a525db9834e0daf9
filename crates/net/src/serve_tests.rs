use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;

use super::*;

const TIGHT: Bounds = Bounds {
    connections: 2,
    header_read: Duration::from_millis(50),
    header_bytes: 16 * 1024,
    streams: 4,
    window: 64 * 1024,
    grace: Duration::from_secs(10),
};

/// A listener whose one route says that it has been entered, and answers when it is told to.
struct Listening {
    address: SocketAddr,
    entered: Arc<Notify>,
    go: Arc<Notify>,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
}

async fn listen() -> Listening {
    listen_within(TIGHT, None).await
}

async fn listen_within(bounds: Bounds, tls: Option<Arc<ServerTls>>) -> Listening {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (entered, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (say, wait) = (Arc::clone(&entered), Arc::clone(&go));
    let service = tower::service_fn(move |request: Request<Incoming>| {
        let (say, wait) = (Arc::clone(&say), Arc::clone(&wait));
        async move {
            let peer = request.extensions().get::<Peer>().map(Peer::to_string);
            say.notify_one();
            wait.notified().await;
            Ok::<_, Infallible>(Response::new(peer.unwrap_or_else(|| "done".to_owned())))
        }
    });
    let stop = CancellationToken::new();
    let serving = tokio::spawn(serve(listener, service, bounds, tls, stop.clone()));
    Listening { address, entered, go, stop, serving }
}

async fn send(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

/// Everything until the other side closes. A reset counts as closing.
async fn read(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut bytes))
        .await
        .expect("the connection is closed");
    String::from_utf8_lossy(&bytes).into_owned()
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn connections_that_do_not_ask_are_closed_and_make_room() {
    let Listening { address, go, .. } = listen().await;
    let silent = send(address, b"").await;
    let slow = send(address, b"GET / HT").await;
    // Both places are taken until those two are given up.
    let third = send(address, GET).await;
    go.notify_one();
    assert!(read(third).await.ends_with("done"));
    assert_eq!(read(silent).await, "");
    assert!(!read(slow).await.contains("200"));
}

#[tokio::test]
async fn a_connection_that_does_not_tell_its_protocol_is_closed() {
    let Listening { address, .. } = listen().await;
    for half in [&b"P"[..], b"PRI * HT", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r"] {
        assert_eq!(read(send(address, half).await).await, "", "{half:?}");
    }
}

#[tokio::test]
async fn heads_are_bounded() {
    let Listening { address, .. } = listen().await;
    let head = format!("GET / HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n", "x".repeat(17 * 1024));
    let answer = read(send(address, head.as_bytes()).await).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test]
async fn a_listener_that_is_full_of_silent_and_dripping_connections_serves_those_that_ask() {
    let day = Duration::from_secs(86_400);
    let bounds = Bounds { connections: 100, header_read: day, ..TIGHT };
    let Listening { address, go, .. } = listen_within(bounds, None).await;
    let mut crowd = Vec::new();
    for number in 0..1_000 {
        crowd.push(send(address, if number % 2 == 0 { b"" } else { b"GET / HTTP/1.1\r\nx-drip: " }).await);
    }
    for _ in 0..3 {
        go.notify_one();
        assert!(read(send(address, GET).await).await.ends_with("done"));
    }
}

#[tokio::test]
async fn who_idles_after_an_answer_makes_room_and_who_waits_for_one_does_not() {
    let bounds = Bounds { connections: 2, ..TIGHT };
    let Listening { address, entered, go, .. } = listen_within(bounds, None).await;
    let waits = send(address, GET).await;
    entered.notified().await;
    let mut idles = send(address, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    entered.notified().await;
    // The first of the two that wait is told first.
    go.notify_one();
    assert!(read(waits).await.ends_with("done"));
    go.notify_one();
    let mut answer = [0; 16];
    idles.read_exact(&mut answer).await.unwrap();
    let held = send(address, GET).await;
    entered.notified().await;
    // Both places are taken; the one that idles is closed, the one that waits is answered.
    let third = send(address, GET).await;
    entered.notified().await;
    read(idles).await;
    go.notify_one();
    assert!(read(held).await.ends_with("done"));
    go.notify_one();
    assert!(read(third).await.ends_with("done"));
}

#[tokio::test]
async fn a_listener_that_is_full_of_silent_connections_ends() {
    let day = Duration::from_secs(86_400);
    let bounds = Bounds { connections: 1, header_read: day, grace: day, ..TIGHT };
    let Listening { address, stop, serving, .. } = listen_within(bounds, None).await;
    let _silent = send(address, b"").await;
    let _waits_for_a_place = send(address, b"").await;
    stop.cancel();
    tokio::time::timeout(Duration::from_secs(10), serving).await.expect("it ends").unwrap();
}

#[tokio::test]
async fn a_request_that_runs_is_finished_before_the_end() {
    let Listening { address, entered, go, stop, serving } = listen().await;
    let answer = tokio::spawn(read(send(address, GET).await));
    entered.notified().await;
    stop.cancel();
    go.notify_one();
    assert!(answer.await.unwrap().ends_with("done"));
    serving.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}
