//! Peer calls over HTTP, one POST for each.
//!
//! Entries go over HTTP/1.1: they go one by one, and a call costs less than one of HTTP/2.
//! Entries, heartbeats with votes, and snapshots have connections of their own, so that a snapshot or a large
//! batch of entries never stands in front of a heartbeat.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use orloj_net::{Clients, ClusterTls, Protocol, Role};

use crate::transport::{RpcEnvelope, RpcKind, Transport, TransportError};
use crate::types::Member;

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
        })
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
        let path = kind.path();
        let query = envelope.query();
        let clients = self.clients(kind);
        let url = format!("{}://{}{path}?{query}", clients.scheme(), to.internal);
        let client = clients.to(&to.internal);
        let client = client.map_err(|error| TransportError::Unreachable(chain(&error)))?;
        let mut request = client.post(url).timeout(deadline);
        let parts =
            SignedParts { method: "POST", path: &path, query: &query, audience: &to.internal, body: &body };
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
