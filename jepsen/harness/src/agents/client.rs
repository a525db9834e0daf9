//! A client: pinned to one replica, one operation after the other, no retry.

use std::net::SocketAddr;
use std::time::Duration;

use orloj_jepsen_agents::generator::Op;
use orloj_jepsen_core::event::{Kind, Meta};
use orloj_wire::sign::{Label, Secret};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::http::{Connection, Signer};
use super::load::Load;
use super::operation::{self, End};
use super::recorder::{Note, Recorder};

/// The longest wait for an answer, beyond what a long poll asks for.
const PATIENCE: Duration = Duration::from_secs(5);
/// A client whose operations cannot even be sent does not try faster than this.
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
    fn signer(self) -> Signer {
        let Credentials { audience, access_key, secret } = self;
        Signer { label: Label::Caller, audience, access_key, secret, ahead_s: 0 }
    }
}

/// One client.
#[derive(Debug)]
pub struct Client {
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
            let (op, pause_ns) = load.next();
            let end = self.perform(&op, false).await;
            load.told(&op, &end.told);
            // No catching up after a long operation: that would be a burst.
            next_at = (next_at + Duration::from_nanos(pause_ns)).max(Instant::now());
            if end.err.as_deref().is_some_and(|err| err.starts_with("not_sent")) {
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
        let (mut ask, idempotency_key) = operation::request(op);
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
        let reply = self.connection.ask(ask, PATIENCE + wait).await;
        let end = operation::end(op, last, reply);
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
