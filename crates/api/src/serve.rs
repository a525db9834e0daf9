//! Listening: HTTP/1.1 and HTTP/2 in clear, with bounds on what a connection may cost.

use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::http::Remote;

/// What connections of one listener may cost.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Connections at once; more wait to be accepted.
    pub connections: usize,
    /// The longest that the head of a request may take to arrive.
    pub header_read: Duration,
    /// The largest head of a request, in bytes.
    pub header_bytes: usize,
    /// Requests at once on one HTTP/2 connection.
    pub streams: u32,
    /// How much may be on its way on one HTTP/2 stream, in bytes.
    pub window: u32,
    /// How long requests may go on after the listener has been told to stop.
    pub grace: Duration,
}

impl Bounds {
    /// For the public listener.
    pub const PUBLIC: Bounds = Bounds {
        connections: 10_000,
        header_read: Duration::from_secs(10),
        header_bytes: 16 * 1024,
        streams: 256,
        window: 512 * 1024,
        grace: Duration::from_secs(5),
    };

    /// For the internal listener, whose few connections carry much.
    pub const INTERNAL: Bounds = Bounds {
        connections: 10_000,
        header_read: Duration::from_secs(10),
        header_bytes: 64 * 1024,
        streams: 4_096,
        window: 4 * 1024 * 1024,
        grace: Duration::from_secs(5),
    };
}

/// Pause after an accept that failed, for instance for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves `router` until `stop`, then lets requests that are running finish within the grace.
pub async fn serve(listener: TcpListener, router: Router, bounds: Bounds, stop: CancellationToken) {
    let connections = Arc::new(Semaphore::new(bounds.connections));
    let graceful = GracefulShutdown::new();
    let builder = builder(bounds);
    loop {
        let next = async {
            // Nobody closes the semaphore, so a place always comes.
            let place = Arc::clone(&connections).acquire_owned().await.expect("the semaphore stays open");
            (place, listener.accept().await)
        };
        // Also while every place is taken: a full listener must end as well.
        let Some((place, accepted)) = stop.run_until_cancelled(next).await else { break };
        let (stream, remote) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let watcher = graceful.watcher();
        let (router, builder, stop) = (router.clone(), builder.clone(), stop.clone());
        tokio::spawn(async move {
            let _place = place;
            // One that has said nothing yet has nothing to be finished when the listener ends.
            if stop.run_until_cancelled(speaks(&stream, bounds.header_read)).await != Some(true) {
                return;
            }
            let service = TowerToHyperService::new(router.layer(Extension(Remote(remote))));
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            if let Err(error) = watcher.watch(connection).await {
                tracing::debug!(%remote, error, "a connection broke");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(bounds.grace, graceful.shutdown()).await.is_err() {
        tracing::info!("requests were still running when the listener ended");
    }
}

fn builder(bounds: Bounds) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.header_read)
        .max_buf_size(bounds.header_bytes);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(bounds.header_bytes as u32)
        .max_concurrent_streams(bounds.streams)
        .initial_stream_window_size(bounds.window)
        .initial_connection_window_size(bounds.window.saturating_mul(4))
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(20));
    builder
}

/// Whether the other side sends anything in time: the timer on heads runs from their first byte only.
async fn speaks(stream: &TcpStream, within: Duration) -> bool {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    matches!(tokio::time::timeout(within, stream.peek(&mut [0])).await, Ok(Ok(1)))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;

    use axum::routing::get;
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
    struct Served {
        address: SocketAddr,
        entered: Arc<Notify>,
        go: Arc<Notify>,
        stop: CancellationToken,
        serving: tokio::task::JoinHandle<()>,
    }

    async fn listen() -> Served {
        listen_within(TIGHT).await
    }

    async fn listen_within(bounds: Bounds) -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (entered, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (say, wait) = (Arc::clone(&entered), Arc::clone(&go));
        let route = get(move || async move {
            say.notify_one();
            wait.notified().await;
            "done"
        });
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve(listener, Router::new().route("/", route), bounds, stop.clone()));
        Served { address, entered, go, stop, serving }
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
        let Served { address, go, .. } = listen().await;
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
    async fn heads_are_bounded() {
        let Served { address, .. } = listen().await;
        let head = format!("GET / HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n", "x".repeat(17 * 1024));
        let answer = read(send(address, head.as_bytes()).await).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    }

    #[tokio::test]
    async fn a_listener_that_is_full_of_silent_connections_ends() {
        let day = Duration::from_secs(86_400);
        let bounds = Bounds { connections: 1, header_read: day, grace: day, ..TIGHT };
        let Served { address, stop, serving, .. } = listen_within(bounds).await;
        let _silent = send(address, b"").await;
        let _waits_for_a_place = send(address, b"").await;
        stop.cancel();
        tokio::time::timeout(Duration::from_secs(10), serving).await.expect("it ends").unwrap();
    }

    #[tokio::test]
    async fn a_request_that_runs_is_finished_before_the_end() {
        let Served { address, entered, go, stop, serving } = listen().await;
        let answer = tokio::spawn(read(send(address, GET).await));
        entered.notified().await;
        stop.cancel();
        go.notify_one();
        assert!(answer.await.unwrap().ends_with("done"));
        serving.await.unwrap();
        assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
    }
}
