//! Handing a request on to the leader over the internal listener.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use orloj_model::id::NodeId;
use orloj_net::{Clients, ClusterTls, Protocol, Role};
use orloj_raft_store::http::SignedParts;
use orloj_wire::clock::Clock;
use orloj_wire::sign::Secret;

use crate::outcome::Answer;
use crate::peer;
use crate::request::Request;
use crate::route::Operation;

/// The path of the call.
pub const FORWARD_PATH: &str = "/internal/v1/forward";
/// The path under which a replica asks the leader to let a request in that it answers by itself.
pub const ADMIT_PATH: &str = "/internal/v1/admit";
/// The path under which a replica tells the leader of calls that it refused.
pub const DENIALS_PATH: &str = "/internal/v1/denials";
/// Marks an answer as that of the API, not of something on the way to it.
pub const ANSWERED_HEADER: &str = "x-orloj-answered";

/// The longest that a read may take: the longest long poll and more.
const READ_TIMEOUT: Duration = Duration::from_secs(45);
/// The longest that a commit may take before its outcome counts as unknown.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(15);
/// The same for a batch, which spends its nonce by an entry of its own first.
const BATCH_TIMEOUT: Duration = Duration::from_secs(25);
/// The longest that a new member may take to catch up.
const MEMBERSHIP_TIMEOUT: Duration = Duration::from_secs(150);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardError {
    /// The request had no effect: no connection, or the node there does not lead.
    NotTaken,
    /// The request may have had an effect.
    Broken,
}

/// A call of one replica to another's internal listener, signed and ready to be sent.
#[derive(Debug, Clone)]
pub struct PeerCall {
    /// `host:port` of the internal listener.
    pub address: String,
    /// The path; the method is always POST.
    pub path: &'static str,
    /// The signature.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Bytes,
    /// The longest wait for the whole answer.
    pub deadline: Duration,
}

/// What came back.
#[derive(Debug, Clone)]
pub struct PeerAnswer {
    /// HTTP status.
    pub status: u16,
    /// Headers, in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

/// Brings calls to other replicas and their answers back: the seam at which a simulation replaces the network.
pub trait Carrier: Send + Sync + 'static {
    /// Sends a call and waits for the whole answer.
    ///
    /// # Errors
    /// See [`ForwardError`].
    fn post(&self, call: PeerCall) -> BoxFuture<'_, Result<PeerAnswer, ForwardError>>;
}

/// The carrier of the product: HTTP/2 on connections that are kept.
pub struct HttpCarrier {
    clients: Clients,
}

impl HttpCarrier {
    /// A carrier without connections. With `tls` it calls only who shows the certificate of the replica at the
    /// address that is called.
    ///
    /// # Errors
    /// The HTTP client cannot be made.
    pub fn new(tls: Option<&ClusterTls>) -> Result<Self, reqwest::Error> {
        let make = || {
            reqwest::Client::builder()
                .no_proxy()
                .redirect(reqwest::redirect::Policy::none())
                .retry(reqwest::retry::never())
                .connect_timeout(CONNECT_TIMEOUT)
                .tcp_nodelay(true)
                .http2_keep_alive_interval(Duration::from_secs(2))
                .http2_keep_alive_timeout(Duration::from_secs(4))
                .http2_keep_alive_while_idle(true)
        };
        Ok(HttpCarrier { clients: Clients::new(tls, Role::Replica, Protocol::Http2, make)? })
    }
}

impl Carrier for HttpCarrier {
    fn post(&self, call: PeerCall) -> BoxFuture<'_, Result<PeerAnswer, ForwardError>> {
        let PeerCall { address, path, headers, body, deadline } = call;
        let Ok(client) = self.clients.to(&address) else {
            return Box::pin(async { Err(ForwardError::NotTaken) });
        };
        let url = format!("{}://{address}{path}", self.clients.scheme());
        let mut builder = client.post(url).timeout(deadline);
        for (name, value) in headers {
            builder = builder.header(name, value);
        }
        Box::pin(async move {
            let response = builder.body(body).send().await.map_err(|error| match error.is_connect() {
                true => ForwardError::NotTaken,
                false => ForwardError::Broken,
            })?;
            let status = response.status().as_u16();
            let headers = response
                .headers()
                .iter()
                .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
                .collect();
            let body = response.bytes().await.map_err(|_| ForwardError::Broken)?;
            Ok(PeerAnswer { status, headers, body })
        })
    }
}

/// Sends requests to the leader.
pub struct Forwarder {
    carrier: Arc<dyn Carrier>,
    secret: Secret,
    clock: Arc<dyn Clock>,
}

impl Forwarder {
    /// Signs with the cluster's secret.
    pub fn new(carrier: Arc<dyn Carrier>, secret: Secret, clock: Arc<dyn Clock>) -> Self {
        Forwarder { carrier, secret, clock }
    }

    /// Tells the leader something, which it acknowledges without a word.
    pub async fn tell(&self, address: &str, path: &'static str, body: Bytes) -> Result<(), ForwardError> {
        let call = SignedParts { method: "POST", path, query: "", audience: address, body: &body };
        let headers = peer::sign(call, &self.secret, self.clock.wall_ms()).into();
        let address = address.to_owned();
        let call = PeerCall { address, path, headers, body, deadline: CHANGE_TIMEOUT };
        match self.carrier.post(call).await?.status {
            204 => Ok(()),
            _ => Err(ForwardError::NotTaken),
        }
    }

    /// Sends `request` to the node `to` at its internal `address`, for what `path` stands for.
    pub async fn send(
        &self,
        path: &'static str,
        (to, address): (NodeId, &str),
        operation: &Operation,
        request: &Request,
    ) -> Result<Answer, ForwardError> {
        let body = request.encode();
        let call = SignedParts { method: "POST", path, query: "", audience: address, body: &body };
        let headers = peer::sign(call, &self.secret, self.clock.wall_ms()).into();
        let (address, deadline) = (address.to_owned(), timeout(operation));
        let call = PeerCall { address, path, headers, body, deadline };
        let mut answer = self.carrier.post(call).await?;
        if !answer.headers.iter().any(|(name, _)| name == ANSWERED_HEADER) {
            // The node refused the call itself: it is not the leader, or does not know this node.
            tracing::debug!(to, status = answer.status, "a forwarded request was refused");
            return Err(ForwardError::NotTaken);
        }
        answer.headers.retain(|(name, _)| is_kept(name));
        Ok(Answer { status: answer.status, headers: answer.headers, body: answer.body })
    }
}

/// Whether a header belongs to the answer, not to the connection that brought it.
fn is_kept(name: &str) -> bool {
    !matches!(name, "date" | "content-length" | "connection" | "transfer-encoding" | ANSWERED_HEADER)
}

fn timeout(operation: &Operation) -> Duration {
    match operation {
        Operation::AddMember | Operation::RemoveMember(_) | Operation::TransferLeader => MEMBERSHIP_TIMEOUT,
        Operation::SubmitBatch => BATCH_TIMEOUT,
        operation if operation.changes() => CHANGE_TIMEOUT,
        _ => READ_TIMEOUT,
    }
}
