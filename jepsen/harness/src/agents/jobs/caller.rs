//! A caller that asks one replica after the other until one of them answers.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hyper::Method;
use orloj_wire::problem::Problem;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use crate::agents::client::Credentials;
use crate::agents::http::{Ask, Connection, Reply, Signer};

/// For one try.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(50);
/// Whatever is done to the cluster, it answers within this.
const DEADLINE: Duration = Duration::from_secs(180);

/// What was asked was refused, and would be refused again.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {status} {said}")]
pub struct Refused {
    what: String,
    status: u16,
    said: String,
}

impl Refused {
    /// Whether this is a refusal of what a body says.
    pub fn is_unprocessable(error: &anyhow::Error) -> bool {
        error.downcast_ref::<Refused>().is_some_and(|refused| refused.status == 422)
    }
}

/// See the module's description.
#[derive(Debug)]
pub struct Caller {
    replicas: Vec<(Connection, Signer)>,
    at: usize,
}

impl Caller {
    /// Asks the replicas at these addresses, the first of them first.
    pub fn new(addresses: &[SocketAddr], credentials: &Credentials) -> Caller {
        let one = |address: &SocketAddr| (Connection::new(*address), credentials.clone().signer());
        Caller { replicas: addresses.iter().map(one).collect(), at: 0 }
    }

    /// The body of the first good answer. What is asked may be done more than once.
    ///
    /// # Errors
    /// It is refused as such, or nobody answers for three minutes.
    pub async fn ask<T: DeserializeOwned>(
        &mut self,
        method: &'static str,
        path: &str,
        query: &str,
        body: Vec<u8>,
    ) -> Result<T> {
        let deadline = Instant::now() + DEADLINE;
        let mut said = String::new();
        while Instant::now() < deadline {
            match self.once(method, path, query, body.clone()).await? {
                Ok(reply) if (200..300).contains(&reply.status) => {
                    return serde_json::from_slice(&reply.body)
                        .with_context(|| format!("the answer to {method} {path}"));
                }
                Ok(reply) if is_final(reply.status) => {
                    let said = String::from_utf8_lossy(&reply.body).into_owned();
                    bail!(Refused { what: format!("{method} {path}"), status: reply.status, said });
                }
                Ok(reply) => said = format!("status {}", reply.status),
                Err(problem) => said = problem,
            }
            self.at = (self.at + 1) % self.replicas.len();
            sleep(PAUSE).await;
        }
        bail!("{method} {path}: nobody answers: {said}")
    }

    /// One try, and a second one where the replica's clock is apart from ours.
    async fn once(
        &mut self,
        method: &str,
        path: &str,
        query: &str,
        body: Vec<u8>,
    ) -> Result<Result<Reply, String>> {
        let (connection, signer) = self.replicas.get_mut(self.at).context("there is nobody to ask")?;
        for _ in 0..2 {
            let method: Method = method.parse().context("a method")?;
            let (path, query, body) = (path.to_owned(), query.to_owned(), body.clone());
            let mut ask = Ask { method, path, query, body, headers: Vec::new() };
            signer.sign(&mut ask, None);
            let reply = match connection.ask(ask, PATIENCE).await {
                Ok(reply) => reply,
                Err(failure) => return Ok(Err(failure.to_string())),
            };
            let problem: Option<Problem> = serde_json::from_slice(&reply.body).ok();
            match problem.and_then(|problem| problem.server_time).filter(|_| reply.status == 401) {
                Some(time) => signer.learn(time.0),
                None => return Ok(Ok(reply)),
            }
        }
        Ok(Err("its clock does not stand still".to_owned()))
    }
}

/// Whether it would be refused again: for its form, or for what it names.
fn is_final(status: u16) -> bool {
    matches!(status, 400 | 403 | 404 | 413 | 422)
}
