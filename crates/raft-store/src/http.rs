//! Peer calls over HTTP, one POST for each.
//!
//! Entries go over HTTP/1.1: they go one by one, and a call costs less than one of HTTP/2.
//! Entries, heartbeats with votes, and snapshots have connections of their own, so that a snapshot or a large
//! batch of entries never stands in front of a heartbeat.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use orloj_net::{Clients, ClusterTls, Protocol, Role};
use reqwest::Url;

use crate::transport::{RpcEnvelope, RpcKind, Transport, TransportError};
use crate::types::{Member, NodeId};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Well before the peer closes a connection on which nothing comes: a call on one that is being closed would fail.
const IDLE: Duration = Duration::from_secs(4);
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;
/// Bytes of a refusal that are kept for the log.
const REFUSAL_BYTES: usize = 512;

/// What of a call is signed.
#[derive(Debug, Clone, Copy)]
pub struct SignedParts<'a> {
    /// Always `POST`.
    pub method: &'static str,
    /// From the first `/` up to `?`.
    pub path: &'a str,
    /// After the `?`; empty when there is none.
    pub query: &'a str,
    /// Whom the call is for: the internal address that is called.
    pub audience: &'a str,
    /// The body.
    pub body: &'a [u8],
}

/// Makes the headers that prove who calls: names in lower case, with their values.
pub type Signer = Arc<dyn Fn(SignedParts<'_>) -> Vec<(&'static str, String)> + Send + Sync>;

/// The transport of the product.
pub struct HttpTransport {
    signer: Signer,
    entries: Clients,
    urgent: Clients,
    snapshots: Clients,
    /// By kind and member: entries go to the same few members hundreds of times a second.
    ways: Mutex<HashMap<(RpcKind, NodeId), Arc<Way>>>,
}

/// What all calls of one kind to one member have in common.
struct Way {
    internal: String,
    envelope: RpcEnvelope,
    path: String,
    query: String,
    url: Url,
}

impl Way {
    fn new(scheme: &str, to: &Member, kind: RpcKind, envelope: RpcEnvelope) -> Result<Way, TransportError> {
        let (internal, path, query) = (to.internal.clone(), kind.path(), envelope.query());
        let url = Url::parse(&format!("{scheme}://{internal}{path}?{query}"));
        let url = url.map_err(|error| TransportError::Unreachable(format!("{internal}: {error}")))?;
        Ok(Way { internal, envelope, path, query, url })
    }
}

impl HttpTransport {
    /// A transport that signs with `signer`. With `tls` it calls only who shows the certificate of the replica at
    /// the address that is called.
    ///
    /// # Errors
    /// An HTTP client cannot be made.
    pub fn new(signer: Signer, tls: Option<&ClusterTls>) -> Result<HttpTransport, reqwest::Error> {
        let common = || {
            reqwest::Client::builder()
                .no_proxy()
                .tcp_nodelay(true)
                .connect_timeout(CONNECT_TIMEOUT)
                .redirect(reqwest::redirect::Policy::none())
        };
        let one_by_one = move || common().pool_idle_timeout(IDLE);
        let many = move || {
            common()
                .http2_initial_stream_window_size(STREAM_WINDOW)
                .http2_initial_connection_window_size(CONNECTION_WINDOW)
                .http2_keep_alive_interval(KEEP_ALIVE)
                .http2_keep_alive_timeout(KEEP_ALIVE)
        };
        Ok(HttpTransport {
            signer,
            entries: Clients::new(tls, Role::Replica, Protocol::Http1, one_by_one)?,
            urgent: Clients::new(tls, Role::Replica, Protocol::Http2, many)?,
            snapshots: Clients::new(tls, Role::Replica, Protocol::Http2, many)?,
            ways: Mutex::default(),
        })
    }

    /// The way of a call, as the last one of its kind to the same member took it, unless that has changed.
    fn way(&self, to: &Member, kind: RpcKind, envelope: RpcEnvelope) -> Result<Arc<Way>, TransportError> {
        let scheme = self.clients(kind).scheme();
        if kind.to_an_address() {
            return Way::new(scheme, to, kind, envelope).map(Arc::new);
        }
        // Nothing that holds this lock can panic half-way through a change.
        let mut ways = self.ways.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (kind, envelope.target);
        match ways.get(&key) {
            Some(way) if way.internal == to.internal && way.envelope == envelope => Ok(Arc::clone(way)),
            _ => {
                let way = Arc::new(Way::new(scheme, to, kind, envelope)?);
                ways.insert(key, Arc::clone(&way));
                Ok(way)
            }
        }
    }

    fn clients(&self, kind: RpcKind) -> &Clients {
        match kind {
            RpcKind::Append => &self.entries,
            RpcKind::Snapshot => &self.snapshots,
            _ => &self.urgent,
        }
    }

    async fn send(
        &self,
        to: &Member,
        kind: RpcKind,
        envelope: RpcEnvelope,
        body: Bytes,
        deadline: Duration,
    ) -> Result<Bytes, TransportError> {
        let way = self.way(to, kind, envelope)?;
        let client = self.clients(kind).to(&to.internal);
        let client = client.map_err(|error| TransportError::Unreachable(chain(&error)))?;
        let mut request = client.post(way.url.clone()).timeout(deadline);
        let (path, query) = (way.path.as_str(), way.query.as_str());
        let parts = SignedParts { method: "POST", path, query, audience: &to.internal, body: &body };
        for (name, value) in (self.signer)(parts) {
            request = request.header(name, value);
        }
        let explain = |error: reqwest::Error| {
            if error.is_connect() || error.is_builder() {
                TransportError::Unreachable(chain(&error))
            } else if error.is_timeout() {
                TransportError::Timeout(deadline)
            } else {
                TransportError::Broken(chain(&error))
            }
        };
        let response = request.body(body).send().await.map_err(explain)?;
        let status = response.status();
        let answer = response.bytes().await.map_err(explain)?;
        if status.is_success() {
            return Ok(answer);
        }
        let text = String::from_utf8_lossy(&answer[..answer.len().min(REFUSAL_BYTES)]);
        Err(TransportError::Refused(format!("{status}: {text}")))
    }
}

/// An error with its causes: reqwest's own text names only the URL.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

impl Transport for HttpTransport {
    fn call<'a>(
        &'a self,
        to: &'a Member,
        kind: RpcKind,
        envelope: RpcEnvelope,
        body: Bytes,
        deadline: Duration,
    ) -> BoxFuture<'a, Result<Bytes, TransportError>> {
        self.send(to, kind, envelope, body, deadline).boxed()
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Calls a listener that treats its connections as told; answers what the caller learns.
    async fn call(address: String) -> TransportError {
        let seen: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
        let note = Arc::clone(&seen);
        let signer: Signer = Arc::new(move |parts| {
            note.lock()
                .unwrap()
                .push(format!("{} {}?{} {}", parts.method, parts.path, parts.query, parts.audience));
            vec![("x-signature", "s".into())]
        });
        let transport = HttpTransport::new(signer, None).unwrap();
        let to = Member { internal: address.clone(), ..Member::default() };
        let envelope = RpcEnvelope {
            cluster: "c".into(),
            target: 1,
            target_birth: "b".into(),
            from: 2,
            from_birth: "d".into(),
        };
        let deadline = Duration::from_millis(300);
        let error = transport.call(&to, RpcKind::Vote, envelope, Bytes::from_static(b"x"), deadline).await;
        assert_eq!(
            *seen.lock().unwrap(),
            [format!("POST /raft/v1/vote?cluster=c&target=1&target-birth=b&from=2&from-birth=d {address}")]
        );
        error.expect_err("nobody answers")
    }

    #[tokio::test]
    async fn a_way_is_kept_until_the_member_or_the_caller_is_another() {
        let transport = HttpTransport::new(Arc::new(|_| Vec::new()), None).unwrap();
        let to = |internal: &str| Member { internal: internal.into(), ..Member::default() };
        let envelope = |birth: &str, from_birth: &str| RpcEnvelope {
            cluster: "c".into(),
            target: 1,
            target_birth: birth.into(),
            from: 2,
            from_birth: from_birth.into(),
        };
        let way = |internal: &str, kind, birth: &str, from_birth: &str| {
            transport.way(&to(internal), kind, envelope(birth, from_birth)).unwrap()
        };
        let first = way("h:1", RpcKind::Append, "b", "d");
        assert_eq!(
            first.url.as_str(),
            "http://h:1/raft/v1/append?cluster=c&target=1&target-birth=b&from=2&from-birth=d"
        );
        assert!(Arc::ptr_eq(&first, &way("h:1", RpcKind::Append, "b", "d")));
        for (internal, kind, birth, from_birth) in [
            ("h:2", RpcKind::Append, "b", "d"),
            ("h:1", RpcKind::Heartbeat, "b", "d"),
            ("h:1", RpcKind::Append, "c", "d"),
            ("h:1", RpcKind::Append, "b", "e"),
        ] {
            let other = way(internal, kind, birth, from_birth);
            let expected = Way::new("http", &to(internal), kind, envelope(birth, from_birth)).unwrap();
            assert_eq!((&other.url, &other.query), (&expected.url, &expected.query));
        }
        assert_eq!(transport.ways.lock().unwrap().len(), 2, "one of each kind");
    }

    #[tokio::test]
    async fn a_port_that_nobody_listens_on_is_unreachable() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        assert!(matches!(call(address).await, TransportError::Unreachable(_)));
    }

    #[tokio::test]
    async fn silence_is_a_timeout() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let held = tokio::spawn(async move { listener.accept().await });
        assert!(matches!(call(address).await, TransportError::Timeout(_)));
        drop(held);
    }

    #[tokio::test]
    async fn a_connection_that_breaks_may_have_carried_the_call() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let breaks = tokio::spawn(async move {
            loop {
                drop(listener.accept().await);
            }
        });
        let error = call(address).await;
        assert!(matches!(error, TransportError::Broken(_)), "{error:?}");
        breaks.abort();
    }
}
