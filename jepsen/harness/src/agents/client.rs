//! A client: pinned to one replica, one operation after the other, no retry.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::Method;
use orloj_jepsen_agents::generator::Op;
use orloj_jepsen_agents::operation::{self, End};
use orloj_jepsen_core::event::{Kind, Meta};
use orloj_wire::sign::{Label, Secret};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::http::{self, Ask, Connection, Signer};
use super::load::Load;
use super::recorder::{Note, Recorder};

/// The longest wait for an answer, beyond what a long poll asks for.
const PATIENCE: Duration = Duration::from_secs(5);
/// A client that is refused does not try faster than this.
const SHORTEST_GAP: Duration = Duration::from_millis(20);

/// A caller of the API.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// Whom requests are for; `default` unless the replicas are configured otherwise.
    pub audience: String,
    /// Its access key.
    pub access_key: String,
    /// Its secret.
    pub secret: Secret,
}

impl Credentials {
    /// Signs as this caller.
    pub(super) fn signer(self) -> Signer {
        let Credentials { audience, access_key, secret } = self;
        Signer { label: Label::Caller, audience, access_key, secret, ahead_s: 0 }
    }
}

/// One client.
#[derive(Debug)]
pub struct Client {
    number: u32,
    /// The replica that it asks.
    node: String,
    connection: Connection,
    signer: Signer,
    recorder: Recorder,
    proc: u64,
    /// From one process number to the next, so that no two clients ever have the same.
    stride: u64,
}

impl Client {
    /// The client with this number, from 1, of so many, that asks the replica `node` at `address`.
    pub fn new(
        number: u32,
        clients: u32,
        node: &str,
        address: SocketAddr,
        credentials: Credentials,
        recorder: Recorder,
    ) -> Client {
        Client {
            number,
            node: node.to_owned(),
            connection: Connection::new(address),
            signer: credentials.signer(),
            recorder,
            proc: u64::from(number),
            stride: u64::from(clients.max(1)),
        }
    }

    /// Does what the generator says until told to stop; the operation that is under way is waited for.
    pub async fn run(mut self, load: Load, stop: CancellationToken) {
        let mut next_at = Instant::now();
        while !stop.is_cancelled() {
            let (op, pause_ns) = load.next(self.number);
            let end = self.perform(&op, false).await;
            load.told(self.number, &op, &end.told);
            // No catching up after a long operation: that would be a burst.
            next_at = (next_at + Duration::from_nanos(pause_ns)).max(Instant::now());
            if end.kind == Kind::Fail {
                next_at = next_at.max(Instant::now() + SHORTEST_GAP);
            }
            tokio::select! {
                () = sleep_until(next_at) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// One operation, from its beginning to its end, both recorded. `last` marks a read of the final phase.
    pub async fn perform(&mut self, op: &Op, last: bool) -> End {
        let operation::Ask { method, path, query, idempotency_key, body } = operation::request(op);
        let method = if method == "POST" { Method::POST } else { Method::GET };
        let mut ask = Ask { method, path, query, body, headers: Vec::new() };
        self.signer.sign(&mut ask, idempotency_key.as_deref());
        let wait = match op {
            Op::Get { wait: Some(wait), .. } => Duration::from_millis(wait.wait_ms),
            _ => Duration::ZERO,
        };
        let (what, key) = operation::invocation(op, last);
        self.recorder.note(Note {
            proc: self.proc,
            kind: Kind::Invoke,
            node: Some(self.node.clone()),
            key,
            what,
            err: None,
            meta: Meta::default(),
        });
        let (reply, detail) = told(self.connection.ask(ask, PATIENCE + wait).await);
        let mut end = operation::end(op, last, reply.as_ref().map_err(Clone::clone));
        if let (Some(err), Some(detail)) = (&mut end.err, detail) {
            *err = format!("{err}: {detail}");
        }
        self.recorder.note(Note {
            proc: self.proc,
            kind: end.kind,
            node: Some(self.node.clone()),
            key: end.key.clone(),
            what: end.what.clone(),
            err: end.err.clone(),
            meta: end.meta.clone(),
        });
        if end.kind == Kind::Info {
            self.proc += self.stride;
        }
        if let Some(server_ms) = end.server_ms {
            self.signer.learn(server_ms);
        }
        end
    }

    /// Reads a task for the last time, again and again until there is an answer or `deadline` has passed.
    /// Says whether there was one.
    pub async fn read_at_last(&mut self, task: &str, deadline: Instant) -> bool {
        const PAUSE: Duration = Duration::from_millis(100);
        let op = Op::Get { task: task.to_owned(), wait: None };
        loop {
            if self.perform(&op, true).await.kind == Kind::Ok {
                return true;
            }
            if Instant::now() + PAUSE >= deadline {
                return false;
            }
            sleep(PAUSE).await;
        }
    }
}

/// What came back, as far as it counts, and the words for what went wrong.
fn told(
    reply: Result<http::Reply, http::Failure>,
) -> (Result<operation::Reply, operation::Failure>, Option<String>) {
    match reply {
        Ok(http::Reply { status, headers, body }) => {
            let text = |value: &hyper::header::HeaderValue| value.to_str().unwrap_or_default().to_owned();
            let headers =
                headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
            (Ok(operation::Reply { status, headers, body: body.to_vec() }), None)
        }
        Err(http::Failure::NotSent(detail)) => (Err(operation::Failure::NotSent), Some(detail)),
        Err(http::Failure::Lost(detail)) => (Err(operation::Failure::Lost), Some(detail)),
    }
}
