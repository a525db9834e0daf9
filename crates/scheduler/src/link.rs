//! How the leader reaches executors: one trait, so that a simulation can stand in for the network, and its
//! HTTP implementation.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use orloj_model::Clock;
use orloj_net::{Clients, ClusterTls, Protocol, Role};
use orloj_wire::protocol::{AnnounceRound, Cancel, CancelAck, Holdings, LogChunk, LogRequest, Run, RunAck};
use orloj_wire::sign::{Label, Outgoing, Secret};
use orloj_wire::time::Time;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why a call to an executor came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// No answer: what was asked for may have happened.
    #[error("no answer: {0}")]
    NoAnswer(String),
    /// The executor refused the call as a whole.
    #[error("refused: {status} {code}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// The stable code of the problem.
        code: String,
    },
    /// The answer does not follow the protocol.
    #[error("malformed answer: {0}")]
    Malformed(String),
}

/// An executor as the link knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its id: the audience of the signature.
    pub id: String,
    /// `host:port`, from its authenticated registration.
    pub address: String,
}

/// Calls to executors. One that has no answer when its deadline is over fails.
pub trait ExecutorLink: Send + Sync + 'static {
    /// Posts `body` (JSON) to `path` of an executor and answers with the body of a 200.
    fn post<'a>(
        &'a self,
        target: &'a Target,
        path: &'static str,
        body: Vec<u8>,
        deadline: Duration,
    ) -> BoxFuture<'a, Result<Vec<u8>, LinkError>>;
}

/// Pushes and cancels are answered from memory: an executor that takes longer is in trouble.
const DEADLINE: Duration = Duration::from_secs(5);

/// Pushes a batch of attempts.
pub(crate) async fn run(link: &dyn ExecutorLink, target: &Target, run: &Run) -> Result<RunAck, LinkError> {
    call(link, target, "/v1/run", run, DEADLINE).await
}

/// Stops attempts.
pub(crate) async fn cancel(
    link: &dyn ExecutorLink,
    target: &Target,
    cancel: &Cancel,
) -> Result<CancelAck, LinkError> {
    call(link, target, "/v1/cancel", cancel, DEADLINE).await
}

/// Announces a round.
pub(crate) async fn announce(
    link: &dyn ExecutorLink,
    target: &Target,
    announce: &AnnounceRound,
) -> Result<Holdings, LinkError> {
    call(link, target, "/v1/round", announce, DEADLINE).await
}

/// Reads a part of a log.
pub(crate) async fn log(
    link: &dyn ExecutorLink,
    target: &Target,
    request: &LogRequest,
) -> Result<LogChunk, LinkError> {
    call(link, target, "/v1/log", request, DEADLINE + Duration::from_millis(request.wait_ms)).await
}

async fn call<B: Serialize, A: DeserializeOwned>(
    link: &dyn ExecutorLink,
    target: &Target,
    path: &'static str,
    body: &B,
    deadline: Duration,
) -> Result<A, LinkError> {
    let body = serde_json::to_vec(body).map_err(|error| LinkError::Malformed(error.to_string()))?;
    let answer = link.post(target, path, body, deadline).await?;
    serde_json::from_slice(&answer).map_err(|error| LinkError::Malformed(error.to_string()))
}

/// The link over HTTP: pooled connections, one client, every call signed for its receiver.
pub struct HttpLink {
    clients: Clients,
    secret: Secret,
    /// Who signs: this node.
    sender: String,
    clock: Arc<dyn Clock>,
    /// How far the clock of an executor is ahead of ours, in seconds, where a call was refused for it.
    ahead: Mutex<HashMap<String, i64>>,
}

impl HttpLink {
    /// A link that signs as `sender` with the secret that it shares with the executors. With `tls` it calls only who
    /// shows the certificate of the executor that is meant.
    ///
    /// # Errors
    /// The HTTP client cannot be built.
    pub fn new(
        sender: String,
        secret: Secret,
        clock: Arc<dyn Clock>,
        tls: Option<&ClusterTls>,
    ) -> Result<Self, reqwest::Error> {
        let make = || {
            reqwest::Client::builder()
                .no_proxy()
                .redirect(reqwest::redirect::Policy::none())
                .tcp_nodelay(true)
                .connect_timeout(Duration::from_secs(2))
                .pool_idle_timeout(Duration::from_secs(60))
        };
        let clients = Clients::new(tls, Role::Executor, Protocol::Http1, make)?;
        Ok(HttpLink { clients, secret, sender, clock, ahead: Mutex::default() })
    }

    async fn try_once(
        &self,
        target: &Target,
        path: &'static str,
        body: &Bytes,
        deadline: Duration,
    ) -> Result<Vec<u8>, (LinkError, Option<i64>)> {
        let seconds = self.clock.wall_ms().div_euclid(1000) + self.ahead_of(&target.id);
        let outgoing = Outgoing {
            label: Label::Executor,
            audience: &target.id,
            access_key: &self.sender,
            method: "POST",
            path,
            query: "",
            idempotency_key: "",
            body,
        };
        let client = self.clients.to(&target.id);
        let client = client.map_err(|error| (LinkError::NoAnswer(error.to_string()), None))?;
        let url = format!("{}://{}{path}", self.clients.scheme(), target.address);
        let mut request = client.post(url).timeout(deadline);
        for (name, value) in outgoing.headers(&self.secret, seconds) {
            request = request.header(name, value);
        }
        let response = request
            .header("content-type", "application/json")
            .body(body.clone())
            .send()
            .await
            .map_err(|error| (LinkError::NoAnswer(error.to_string()), None))?;
        let status = response.status().as_u16();
        let answer =
            response.bytes().await.map_err(|error| (LinkError::NoAnswer(error.to_string()), None))?;
        if status == 200 {
            return Ok(answer.to_vec());
        }
        let problem: Problem = serde_json::from_slice(&answer).unwrap_or_default();
        let server_time = problem
            .server_time
            .filter(|_| problem.code == "timestamp_out_of_window")
            .map(|Time(ms)| ms.div_euclid(1000));
        Err((LinkError::Refused { status, code: problem.code }, server_time))
    }

    fn ahead_of(&self, id: &str) -> i64 {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner).get(id).copied().unwrap_or(0)
    }
}

/// The part of a problem document that matters here.
#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Problem {
    code: String,
    /// Comes with `timestamp_out_of_window`.
    server_time: Option<Time>,
}

impl ExecutorLink for HttpLink {
    fn post<'a>(
        &'a self,
        target: &'a Target,
        path: &'static str,
        body: Vec<u8>,
        deadline: Duration,
    ) -> BoxFuture<'a, Result<Vec<u8>, LinkError>> {
        Box::pin(async move {
            let body = Bytes::from(body);
            match self.try_once(target, path, &body, deadline).await {
                Ok(answer) => Ok(answer),
                // Our clock and the executor's are apart (one of them was stepped): sign by its clock. Its
                // memory of nonces still lets each call through once only.
                Err((_, Some(server_time))) => {
                    let ahead = server_time - self.clock.wall_ms().div_euclid(1000);
                    self.ahead
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .insert(target.id.clone(), ahead);
                    self.try_once(target, path, &body, deadline).await.map_err(|(error, _)| error)
                }
                Err((error, None)) => Err(error),
            }
        })
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
