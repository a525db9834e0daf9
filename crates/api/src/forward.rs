//! Handing a request on to the leader over the internal listener.

use std::sync::Arc;
use std::time::Duration;

use orloj_model::id::NodeId;
use orloj_raft_store::http::SignedParts;
use orloj_wire::clock::Clock;
use orloj_wire::sign::Secret;

use crate::outcome::Answer;
use crate::peer;
use crate::request::Request;
use crate::route::Operation;

/// The path of the call.
pub const FORWARD_PATH: &str = "/internal/v1/forward";
/// Marks an answer as that of the API, not of something on the way to it.
pub const ANSWERED_HEADER: &str = "x-orloj-answered";

/// The longest that a read may take: the longest long poll and more.
const READ_TIMEOUT: Duration = Duration::from_secs(45);
/// The longest that a commit may take before its outcome counts as unknown.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(15);
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

/// Sends requests to the leader.
pub struct Forwarder {
    http: reqwest::Client,
    secret: Secret,
    clock: Arc<dyn Clock>,
}

impl Forwarder {
    /// Signs with the cluster's secret.
    pub fn new(secret: Secret, clock: Arc<dyn Clock>) -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_prior_knowledge()
            .http2_keep_alive_interval(Duration::from_secs(2))
            .http2_keep_alive_timeout(Duration::from_secs(4))
            .http2_keep_alive_while_idle(true)
            .build()?;
        Ok(Forwarder { http, secret, clock })
    }

    /// Sends `request` to the node `to` at its internal `address`.
    pub async fn send(
        &self,
        to: NodeId,
        address: &str,
        operation: &Operation,
        request: &Request,
    ) -> Result<Answer, ForwardError> {
        let body = request.encode();
        let call =
            SignedParts { method: "POST", path: FORWARD_PATH, query: "", audience: address, body: &body };
        let mut builder =
            self.http.post(format!("http://{address}{FORWARD_PATH}")).timeout(timeout(operation));
        for (name, value) in peer::sign(call, &self.secret, self.clock.wall_ms()) {
            builder = builder.header(name, value);
        }
        let response = builder.body(body).send().await.map_err(|error| match error.is_connect() {
            true => ForwardError::NotTaken,
            false => ForwardError::Broken,
        })?;
        if !response.headers().contains_key(ANSWERED_HEADER) {
            // The node refused the call itself: it is not the leader, or does not know this node.
            tracing::debug!(to, status = response.status().as_u16(), "a forwarded request was refused");
            return Err(ForwardError::NotTaken);
        }
        let status = response.status().as_u16();
        let headers = response
            .headers()
            .iter()
            .filter(|(name, _)| is_kept(name.as_str()))
            .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
            .collect();
        let body = response.bytes().await.map_err(|_| ForwardError::Broken)?;
        Ok(Answer { status, headers, body })
    }
}

/// Whether a header belongs to the answer, not to the connection that brought it.
fn is_kept(name: &str) -> bool {
    !matches!(name, "date" | "content-length" | "connection" | "transfer-encoding" | ANSWERED_HEADER)
}

fn timeout(operation: &Operation) -> Duration {
    match operation {
        Operation::AddMember | Operation::RemoveMember(_) | Operation::TransferLeader => MEMBERSHIP_TIMEOUT,
        operation if operation.changes() => CHANGE_TIMEOUT,
        _ => READ_TIMEOUT,
    }
}
