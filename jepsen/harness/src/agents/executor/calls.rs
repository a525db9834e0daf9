//! Brings the calls of a mock executor to the replicas, each once, and their answers back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::Method;
use orloj_jepsen_agents::mock::{Call, CallBody, Heard};
use orloj_wire::problem::Problem;
use orloj_wire::protocol::NotLeader;
use orloj_wire::sign::{Label, Secret};
use tokio::task::JoinSet;

use super::Executor;
use crate::agents::http::{Ask, Connection, Failure, Reply, Signer};
use crate::agents::now;

/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Whom executors sign for.
const AUDIENCE: &str = "scheduler";

/// Idle connections and what is known of the replicas' clocks, by address.
#[derive(Debug, Default)]
struct Known {
    idle: BTreeMap<String, Vec<Connection>>,
    ahead_s: BTreeMap<String, i64>,
}

/// The calls of one life; they end with it.
pub(super) struct Calls {
    executor: Executor,
    incarnation: u64,
    signer: Signer,
    known: Arc<Mutex<Known>>,
    under_way: JoinSet<()>,
}

impl Calls {
    pub(super) fn new(executor: Executor, incarnation: u64, secret: Secret) -> Calls {
        let signer = Signer {
            label: Label::Executor,
            audience: AUDIENCE.to_owned(),
            access_key: executor.id(),
            secret,
            ahead_s: 0,
        };
        Calls { executor, incarnation, signer, known: Arc::default(), under_way: JoinSet::new() }
    }

    /// Sends calls; each answer goes to the state machine when it comes.
    pub(super) fn send(&mut self, calls: Vec<Call>) {
        while self.under_way.try_join_next().is_some() {}
        for call in calls {
            let (executor, incarnation) = (self.executor.clone(), self.incarnation);
            let (signer, known) = (self.signer.clone(), Arc::clone(&self.known));
            self.under_way.spawn(async move {
                let heard = ask(signer, &known, &call).await;
                executor.act(|mock| {
                    if mock.incarnation() == incarnation {
                        mock.answered(now(), call.number, heard);
                    }
                });
            });
        }
    }
}

async fn ask(mut signer: Signer, known: &Mutex<Known>, call: &Call) -> Heard {
    let lock = || known.lock().unwrap_or_else(PoisonError::into_inner);
    let Ok(address) = call.to.parse() else { return Heard::NoAnswer };
    let idle = lock().idle.get_mut(&call.to).and_then(Vec::pop);
    let mut connection = idle.unwrap_or_else(|| Connection::new(address));
    signer.ahead_s = lock().ahead_s.get(&call.to).copied().unwrap_or(0);
    let mut heard = exchange(&mut signer, &mut connection, &call.body).await;
    if let Err(server_ms) = heard {
        // The replica's clock is apart from ours, and it has said by how much: once more with its time.
        signer.learn(server_ms);
        lock().ahead_s.insert(call.to.clone(), signer.ahead_s);
        heard = exchange(&mut signer, &mut connection, &call.body).await;
    }
    lock().idle.entry(call.to.clone()).or_default().push(connection);
    heard.unwrap_or(Heard::NoAnswer)
}

/// Err is the replica's clock in ms, where it refused ours.
async fn exchange(signer: &mut Signer, connection: &mut Connection, body: &CallBody) -> Result<Heard, i64> {
    let mut ask =
        Ask { method: Method::POST, path: body.path().to_owned(), body: body.json(), ..Ask::default() };
    signer.sign(&mut ask, None);
    hear(body, connection.ask(ask, PATIENCE).await)
}

fn hear(body: &CallBody, reply: Result<Reply, Failure>) -> Result<Heard, i64> {
    let Ok(reply) = reply else { return Ok(Heard::NoAnswer) };
    match reply.status {
        200..=299 => Ok(body.read(&reply.body).unwrap_or(Heard::NoAnswer)),
        421 => {
            let said: Option<NotLeader> = serde_json::from_slice(&reply.body).ok();
            Ok(Heard::NotLeader(said.and_then(|said| said.leader)))
        }
        429 => Ok(Heard::NoAnswer),
        400..=499 => {
            let problem: Option<Problem> = serde_json::from_slice(&reply.body).ok();
            match problem.and_then(|problem| problem.server_time) {
                Some(time) => Err(time.0),
                None => Ok(Heard::Refused(reply.status)),
            }
        }
        _ => Ok(Heard::NoAnswer),
    }
}
