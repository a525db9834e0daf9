//! Listening: HTTP/1.1 and HTTP/2, in clear or over TLS, with bounds on what a connection may cost.
//!
//! A connection that says nothing, drips, or idles costs nobody else anything: handshake and heads are timed, and
//! when every place is taken, those on which no request runs make room.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http_body::Body;
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt as _};

use crate::accept::ServerTls;
use crate::crowd::{Crowd, Ticket};
use crate::identity::Peer;
use crate::preface::Prefaced;
use crate::remote::Remote;

/// What connections of one listener may cost.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Connections at once; beyond it those that idle make room for new ones.
    pub connections: usize,
    /// The longest that each of these may take to arrive: the first byte, the TLS handshake, the bytes that tell
    /// HTTP/1.1 from HTTP/2, the head of a request.
    pub header_read: Duration,
    /// The largest head of a request, in bytes.
    pub header_bytes: usize,
    /// Requests at once on one HTTP/2 connection.
    pub streams: u32,
    /// How much may be on its way on one HTTP/2 stream, in bytes; on its connection
    /// [`connection_window`](Bounds::connection_window). It is held in memory while nobody reads it.
    pub window: u32,
    /// How long requests may go on after the listener has been told to stop.
    pub grace: Duration,
}

impl Bounds {
    /// How much may be on its way on all streams of one HTTP/2 connection, in bytes. Streams that nobody reads must
    /// leave a part of it to the others.
    pub const fn connection_window(&self) -> u32 {
        self.window.saturating_mul(4)
    }

    /// For the public listener.
    pub const PUBLIC: Bounds = Bounds {
        connections: 10_000,
        header_read: Duration::from_secs(10),
        header_bytes: 16 * 1024,
        streams: 256,
        window: 64 * 1024,
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
/// When it is full, a listener sends away one in so many at once.
const ROOM: usize = 64;
/// The first byte of a TLS handshake.
const HANDSHAKE: u8 = 0x16;
/// To who speaks in clear on a port of TLS.
const USE_HTTPS: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: 38\r\n\
    connection: close\r\n\r\nthis port speaks TLS: call it https://\n";

/// What a service of HTTP requests is here.
pub trait Serves<B>:
    Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

impl<B, S> Serves<B> for S where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static
{
}

/// Serves until `stop`, then lets requests that are running finish within the grace. Every request carries a
/// [`Remote`], and over TLS a [`Peer`].
pub async fn serve<S, B>(
    listener: TcpListener,
    service: S,
    bounds: Bounds,
    tls: Option<Arc<ServerTls>>,
    stop: CancellationToken,
) where
    S: Serves<B>,
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(bounds.connections));
    let crowd = Arc::new(Crowd::default());
    let room = (bounds.connections / ROOM).max(1);
    let graceful = GracefulShutdown::new();
    let builder = builder(bounds);
    loop {
        let Some(accepted) = stop.run_until_cancelled(listener.accept()).await else { break };
        let (stream, remote) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                let gone = crowd.make_room(room);
                tracing::warn!(%error, gone, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let place = match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => {
                crowd.make_room(room);
                // Also while every place is taken: a full listener must end as well.
                let Some(place) = stop.run_until_cancelled(Arc::clone(&places).acquire_owned()).await else {
                    break;
                };
                place.expect("nobody closes the semaphore")
            }
        };
        let ticket = crowd.enter();
        let leave = ticket.leave();
        let connection = Connection {
            service: service.clone(),
            builder: builder.clone(),
            watcher: graceful.watcher(),
            tls: tls.clone(),
            patience: bounds.header_read,
            remote: Remote(remote),
            stop: stop.clone(),
        };
        tokio::spawn(async move {
            let _place = place;
            let _ = leave.run_until_cancelled(connection.serve(stream, ticket)).await;
        });
    }
    drop(listener);
    if tokio::time::timeout(bounds.grace, graceful.shutdown()).await.is_err() {
        tracing::info!("requests were still running when the listener ended");
    }
}

/// What one connection is served with.
struct Connection<S> {
    service: S,
    builder: Builder<TokioExecutor>,
    watcher: Watcher,
    tls: Option<Arc<ServerTls>>,
    patience: Duration,
    remote: Remote,
    stop: CancellationToken,
}

impl<S> Connection<S> {
    async fn serve<B>(self, stream: TcpStream, ticket: Ticket)
    where
        S: Serves<B>,
        B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
    {
        let Connection { service, builder, watcher, tls, patience, remote, stop } = self;
        // One that has said nothing yet has nothing to be finished when the listener ends.
        let opened = stop.run_until_cancelled(open(stream, tls, patience)).await.flatten();
        let Some((stream, peer)) = opened else { return };
        let service = Served { service, remote, peer, ticket };
        let stream = Prefaced::new(stream, patience);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        if let Err(error) = watcher.watch(connection).await {
            tracing::debug!(remote = %remote.0, error, "a connection broke");
        }
    }
}

type Stream = Either<TcpStream, tokio_rustls::server::TlsStream<TcpStream>>;

/// Waits for the first byte and for the handshake, each within `patience`; `None` when nothing good comes.
async fn open(
    mut stream: TcpStream,
    tls: Option<Arc<ServerTls>>,
    patience: Duration,
) -> Option<(Stream, Option<Peer>)> {
    let first = first_byte(&stream, patience).await?;
    let Some(tls) = tls else { return Some((Either::Left(stream), None)) };
    if first != HANDSHAKE {
        // A courtesy: whether it arrives does not matter.
        let _ = stream.write_all(USE_HTTPS).await;
        return None;
    }
    match tokio::time::timeout(patience, tls.accept(stream)).await {
        Ok(Ok((stream, peer))) => Some((Either::Right(stream), Some(peer))),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a TLS handshake failed");
            None
        }
        Err(_) => None,
    }
}

/// The first byte, if it comes in time: the timer on heads runs from there only.
async fn first_byte(stream: &TcpStream, within: Duration) -> Option<u8> {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let mut first = [0];
    match tokio::time::timeout(within, stream.peek(&mut first)).await {
        Ok(Ok(1)) => Some(first[0]),
        _ => None,
    }
}

/// A service that knows whose connection it serves.
struct Served<S> {
    service: S,
    remote: Remote,
    peer: Option<Peer>,
    ticket: Ticket,
}

impl<S, B> hyper::service::Service<Request<Incoming>> for Served<S>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static,
    B: 'static,
{
    type Response = Response<B>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, Infallible>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let busy = self.ticket.begin();
        request.extensions_mut().insert(self.remote);
        if let Some(peer) = &self.peer {
            request.extensions_mut().insert(peer.clone());
        }
        let service = self.service.clone();
        Box::pin(async move {
            let answer = service.oneshot(request).await;
            drop(busy);
            answer
        })
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
        .initial_connection_window_size(bounds.connection_window())
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(20));
    builder
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;
