//! Calls to the leader: found among the replicas, signed, each with a deadline.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use orloj_net::{ClusterTls, Protocol, Role};
use orloj_wire::clock::Clock;
use orloj_wire::problem::{Code, Problem};
use orloj_wire::protocol::NotLeader;
use orloj_wire::sign::{Label, Outgoing, Secret};
use reqwest::{StatusCode, redirect};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::sync::lock;
use crate::targets::Targets;
use crate::text::cut;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest answer, in bytes.
const ANSWER_LIMIT: usize = 4 << 20;
/// Whom executors' requests are for.
const AUDIENCE: &str = "scheduler";

/// Why a call brought no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// No replica leads, none could be reached, or the answer made no sense; the last one's reason. It may
    /// have been received: everything that is sent may be sent again.
    #[error("no leader has answered: {0}")]
    Unanswered(String),
    /// The leader refuses this request and would refuse it again.
    #[error("the leader refuses with status {status}: {detail}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The start of the body.
        detail: String,
    },
}

/// What one replica said.
enum Said {
    Answer(Vec<u8>),
    NotLeader(Option<String>),
    Unavailable(String),
    Refused(CallError),
    /// Our clock and the leader's are apart: the leader's, in seconds.
    Clock(i64),
}

/// Calls the leader.
pub(crate) struct LeaderClient {
    http: reqwest::Client,
    scheme: &'static str,
    executor_id: String,
    secret: Secret,
    clock: Arc<dyn Clock>,
    /// How far the leader's clock is ahead of ours, in seconds, where it has refused ours. A clock that is
    /// stepped must not cut an executor off from its leader.
    ahead_s: AtomicI64,
    targets: Mutex<Targets>,
}

impl LeaderClient {
    /// `replicas` are addresses, `host:port`. With `tls` only who shows the certificate of a replica is called. Err
    /// is the HTTP client's reason.
    pub(crate) fn new(
        executor_id: &str,
        secret: Secret,
        replicas: Vec<String>,
        clock: Arc<dyn Clock>,
        tls: Option<&ClusterTls>,
    ) -> Result<Self, String> {
        let builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .referer(false)
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(CALL_TIMEOUT)
            .pool_idle_timeout(Duration::from_secs(60));
        let (builder, scheme) = match tls {
            None => (builder, "http"),
            Some(tls) => {
                let config = tls.client_config(Role::Replica, None, Protocol::Http1);
                let config = config.map_err(|cause| cause.to_string())?;
                (builder.tls_backend_preconfigured(config), "https")
            }
        };
        let http = builder.build().map_err(|cause| cause.to_string())?;
        let targets = Mutex::new(Targets::new(replicas));
        let ahead_s = AtomicI64::new(0);
        Ok(LeaderClient {
            http,
            scheme,
            executor_id: executor_id.to_owned(),
            secret,
            clock,
            ahead_s,
            targets,
        })
    }

    /// The leader lists the replicas.
    pub(crate) fn learn(&self, replicas: &[String]) {
        lock(&self.targets).learn(replicas);
    }

    /// The replica that was asked last does not lead any more, whatever it believes: the next call asks
    /// another.
    pub(crate) fn pass_over(&self) {
        let mut targets = lock(&self.targets);
        let current = targets.current();
        targets.advance(&current);
    }

    /// A new leader has introduced itself.
    pub(crate) fn follow(&self, leader: &str) {
        lock(&self.targets).hint(leader);
    }

    /// Posts a JSON body to the leader and reads its JSON answer. Asks every replica at most once or twice.
    pub(crate) async fn post<B: Serialize, A: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<A, CallError> {
        let answer = self.post_raw(path, body).await?;
        serde_json::from_slice(&answer)
            .map_err(|cause| CallError::Unanswered(format!("{path}: the answer cannot be read: {cause}")))
    }

    /// The same for an answer without a body.
    pub(crate) async fn post_empty<B: Serialize>(&self, path: &str, body: &B) -> Result<(), CallError> {
        self.post_raw(path, body).await.map(drop)
    }

    async fn post_raw<B: Serialize>(&self, path: &str, body: &B) -> Result<Vec<u8>, CallError> {
        // Every message is made of strings, numbers and maps with string keys.
        let body = bytes::Bytes::from(serde_json::to_vec(body).expect("messages have a JSON form"));
        let tries = lock(&self.targets).count() + 2;
        let mut last = String::new();
        for _ in 0..tries {
            let target = lock(&self.targets).current();
            match self.ask(&target, path, body.clone()).await {
                Said::Answer(answer) => return Ok(answer),
                Said::Refused(error) => return Err(error),
                Said::Clock(leader_s) => {
                    last = format!("{target}: the clocks are apart");
                    let own_s = self.clock.wall_ms().div_euclid(1_000);
                    self.ahead_s.store(leader_s - own_s, Ordering::Relaxed);
                }
                Said::Unavailable(reason) => {
                    last = format!("{target}: {reason}");
                    lock(&self.targets).advance(&target);
                }
                Said::NotLeader(hint) => {
                    last = format!("{target} does not lead");
                    let mut targets = lock(&self.targets);
                    if !hint.is_some_and(|leader| targets.hint(&leader)) {
                        targets.advance(&target);
                    }
                }
            }
        }
        Err(CallError::Unanswered(last))
    }

    async fn ask(&self, target: &str, path: &str, body: bytes::Bytes) -> Said {
        let now_s = self.clock.wall_ms().div_euclid(1_000) + self.ahead_s.load(Ordering::Relaxed);
        let outgoing = Outgoing {
            label: Label::Executor,
            audience: AUDIENCE,
            access_key: &self.executor_id,
            method: "POST",
            path,
            query: "",
            idempotency_key: "",
            body: &body,
        };
        let headers = outgoing.headers(&self.secret, now_s);
        let url = format!("{}://{target}{path}", self.scheme);
        let mut request = self.http.post(url).header("content-type", "application/json").body(body);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        match request.send().await {
            Ok(response) => listen(response).await,
            Err(error) => Said::Unavailable(reason(&error)),
        }
    }
}

async fn listen(mut response: reqwest::Response) -> Said {
    let status = response.status();
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() <= ANSWER_LIMIT => body.extend_from_slice(&chunk),
            Ok(Some(_)) => return Said::Unavailable(format!("an answer of more than {ANSWER_LIMIT} bytes")),
            Ok(None) => break,
            Err(error) => return Said::Unavailable(reason(&error)),
        }
    }
    let detail = || cut(&String::from_utf8_lossy(&body), 512).to_owned();
    match status {
        status if status.is_success() => Said::Answer(body),
        StatusCode::MISDIRECTED_REQUEST => {
            Said::NotLeader(serde_json::from_slice::<NotLeader>(&body).ok().and_then(|said| said.leader))
        }
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            Said::Unavailable(format!("status {}: {}", status.as_u16(), detail()))
        }
        status => match leader_clock(&body) {
            Some(leader_s) => Said::Clock(leader_s),
            None => Said::Refused(CallError::Refused { status: status.as_u16(), detail: detail() }),
        },
    }
}

/// The leader's clock in seconds, where it refused ours.
fn leader_clock(body: &[u8]) -> Option<i64> {
    let problem: Problem = serde_json::from_slice(body).ok()?;
    let time = problem.server_time.filter(|_| problem.code == Code::TimestampOutOfWindow.as_str())?;
    Some(time.0.div_euclid(1_000))
}

/// The whole chain of causes; the first link alone says only "error sending request".
fn reason(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(link) = cause {
        text = format!("{text}: {link}");
        cause = link.source();
    }
    text
}
