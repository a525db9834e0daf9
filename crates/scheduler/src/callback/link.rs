//! The way of a callback out of the cluster.
//!
//! No redirects, no proxy, no kept connections, no cookies: a name is resolved, every address of it is checked,
//! one of them is dialled, and the peer of the connection is compared with it. Nothing of the answer but its status
//! and `Retry-After` is looked at, and nobody is told more of it than the kind of failure.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, Either, select};
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use orloj_model::Clock;
use orloj_model::callback::{FailureKind, SendOutcome};
use orloj_net::OutsideTls;
use orloj_wire::address::Cidr;
use orloj_wire::callback::{Destination, retry_after_ms};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::own::{OwnNames, Standing};

/// To resolve a name.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(3);
/// To connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// For everything together.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of an answer is read before the connection is closed, in bytes.
const ANSWER_LIMIT: usize = 4 * 1024;
/// How long the body of an answer is listened to; it says nothing that counts.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest head of an answer, in bytes.
const HEAD_LIMIT: usize = 16 * 1024;

/// One send.
#[derive(Debug, Clone)]
pub struct Post {
    /// Where to.
    pub destination: Destination,
    /// Its signature.
    pub headers: Vec<(&'static str, String)>,
    /// Exactly the bytes that were signed.
    pub body: Vec<u8>,
    /// `host:port` of the cluster's own listeners, also as URLs: nobody may make it call itself.
    pub own: Arc<[String]>,
}

/// Sends callbacks. One that has no answer when its deadline is over fails.
pub trait CallbackLink: Send + Sync + 'static {
    /// Sends once.
    fn post(&self, post: Post) -> BoxFuture<'_, SendOutcome>;
}

/// Resolves names.
pub trait Resolver: Send + Sync + 'static {
    /// Every address of `host`; none when it has none.
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Vec<IpAddr>>;
}

/// The operating system's resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Vec<IpAddr>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await;
            found.map(|addresses| addresses.map(|address| address.ip()).collect()).unwrap_or_default()
        })
    }
}

/// Sends over HTTP/1.1, with TLS where the address says so.
pub struct HttpCallbackLink {
    resolver: Arc<dyn Resolver>,
    tls: OutsideTls,
    /// Ranges beside the public internet that the operator lets callbacks reach.
    allowed: Vec<Cidr>,
    own: OwnNames,
    clock: Arc<dyn Clock>,
}

impl HttpCallbackLink {
    /// A link that trusts what `tls` trusts.
    pub fn new(
        resolver: Arc<dyn Resolver>,
        tls: OutsideTls,
        allowed: Vec<Cidr>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let own = OwnNames::new(Arc::clone(&resolver), Arc::clone(&clock));
        HttpCallbackLink { resolver, tls, allowed, own, clock }
    }

    async fn exchange(&self, post: Post) -> Result<SendOutcome, FailureKind> {
        let destination = &post.destination;
        let addresses = self.addresses(destination, &post.own).await?;
        let stream =
            timeout(CONNECT_TIMEOUT, connect(&addresses)).await.map_err(|_| FailureKind::Timeout)??;
        if !destination.is_tls() {
            return self.converse(stream, post).await;
        }
        let stream = self.tls.greet(destination.host(), stream).await.map_err(|_| FailureKind::Tls)?;
        self.converse(stream, post).await
    }

    /// The addresses to dial; one that may not be reached spoils them all.
    async fn addresses(&self, to: &Destination, own: &[String]) -> Result<Vec<SocketAddr>, FailureKind> {
        let resolving = self.resolver.resolve(to.host());
        let found = timeout(RESOLVE_TIMEOUT, resolving).await.map_err(|_| FailureKind::Dns)?;
        if found.is_empty() {
            return Err(FailureKind::Dns);
        }
        let addresses: Vec<_> =
            found.into_iter().map(|address| SocketAddr::new(address, to.port())).collect();
        if !addresses.iter().all(|one| to.may_reach(one.ip(), &self.allowed)) {
            return Err(FailureKind::Blocked);
        }
        match self.own.hold(own, to.host(), &addresses).await {
            Standing::Own => Err(FailureKind::Blocked),
            Standing::Foreign => Ok(addresses),
            Standing::Unknown => Err(FailureKind::Dns),
        }
    }

    async fn converse<S>(&self, stream: S, post: Post) -> Result<SendOutcome, FailureKind>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let mut builder = http1::Builder::new();
        builder.max_buf_size(HEAD_LIMIT);
        let (mut sender, connection) =
            builder.handshake(TokioIo::new(stream)).await.map_err(|_| FailureKind::Connect)?;
        let request = request(post)?;
        let exchange = Box::pin(async move {
            let mut response = sender.send_request(request).await.map_err(|_| FailureKind::Connect)?;
            let (status, retry_after) = (response.status(), retry_after(&response));
            // Whoever still writes is heard out, a little: what counts is known.
            let hear_out = async {
                let mut read = 0;
                while read < ANSWER_LIMIT
                    && let Some(Ok(frame)) = response.frame().await
                {
                    read += frame.data_ref().map_or(1, Bytes::len);
                }
            };
            let _ = timeout(ANSWER_TIMEOUT, hear_out).await;
            Ok((status, retry_after))
        });
        // The connection may be closed with its answer still to be taken.
        let answer = match select(exchange, Box::pin(connection)).await {
            Either::Left((answer, _)) => answer,
            Either::Right((_, exchange)) => exchange.await,
        };
        let (status, retry_after) = answer?;
        let status = status.as_u16();
        if (200..300).contains(&status) {
            return Ok(SendOutcome::Delivered { status });
        }
        let now = self.clock.wall_ms();
        let retry_after_ms = retry_after.and_then(|text| retry_after_ms(&text, now));
        Ok(SendOutcome::Failed { kind: FailureKind::Status, status: Some(status), retry_after_ms })
    }
}

impl CallbackLink for HttpCallbackLink {
    fn post(&self, post: Post) -> BoxFuture<'_, SendOutcome> {
        Box::pin(async move {
            match timeout(TOTAL_TIMEOUT, self.exchange(post)).await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(kind)) => SendOutcome::failed(kind),
                Err(_) => SendOutcome::failed(FailureKind::Timeout),
            }
        })
    }
}

/// Dials one address after the other; what is connected is what was checked.
async fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, FailureKind> {
    for address in addresses {
        if let Ok(stream) = TcpStream::connect(address).await {
            return match stream.peer_addr() {
                Ok(peer) if peer == *address => Ok(stream),
                _ => Err(FailureKind::Blocked),
            };
        }
    }
    Err(FailureKind::Connect)
}

fn request(post: Post) -> Result<Request<Full<Bytes>>, FailureKind> {
    let mut request = Request::post(post.destination.target())
        .header("host", post.destination.authority())
        .header("content-type", "application/json")
        .header("user-agent", concat!("orloj/", env!("CARGO_PKG_VERSION")))
        .header("connection", "close");
    for (name, value) in post.headers {
        request = request.header(name, value);
    }
    request.body(Full::new(Bytes::from(post.body))).map_err(|_| FailureKind::Blocked)
}

fn retry_after<B>(response: &hyper::Response<B>) -> Option<String> {
    response.headers().get("retry-after")?.to_str().ok().map(str::to_owned)
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
