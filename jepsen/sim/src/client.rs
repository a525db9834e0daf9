//! The clients: each pinned to one replica, one operation after the other, no retry.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use orloj_jepsen_agents::generator::{Generator, Op, Told};
use orloj_jepsen_agents::operation::{self, Failure};
use orloj_jepsen_core::event::{Event, Kind, Meta, VERSION, What};
use orloj_wire::sign::{IDEMPOTENCY_HEADER, Label, Outgoing, Secret};
use orloj_wire::time::Time;
use tokio_util::sync::CancellationToken;

use crate::net::{CallError, Message, Net, Reply, Request};
use crate::place::{CLIENTS, Place, REPLICAS};
use crate::recorder::Recorder;
use crate::replica::{ACCESS_KEY, AUDIENCE, CALLER_SECRET};

/// The longest wait for an answer, beyond what a long poll asks for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Above the number of any process of the load.
const LAST_PROC: u64 = 1_000_000_000;
/// Between two tries of a last read.
const PAUSE: Duration = Duration::from_millis(100);

/// The part of a problem document that matters here.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Problem {
    code: String,
    server_time: Option<Time>,
}

/// The stable code of a problem document; empty when it is none.
pub fn code(body: &[u8]) -> String {
    serde_json::from_slice::<Problem>(body).map(|problem| problem.code).unwrap_or_default()
}

/// The server's clock, where it refused ours, in ms since the epoch.
pub fn server_time_ms(body: &[u8]) -> Option<i64> {
    serde_json::from_slice::<Problem>(body).ok()?.server_time.map(|time| time.0)
}

/// The load of all clients.
pub type Load = Arc<Mutex<Generator>>;

/// A client.
pub struct Client {
    number: usize,
    place: Place,
    replica: Place,
    net: Net,
    recorder: Recorder,
    secret: Secret,
    /// How far the replicas' clock is ahead of ours, in s, once it was told.
    ahead_s: i64,
    proc: u64,
}

impl Client {
    /// The client with this number, from 1.
    ///
    /// # Errors
    /// Its secret is none.
    pub fn new(number: usize, net: Net, recorder: Recorder) -> anyhow::Result<Client> {
        let secret = Secret::new(CALLER_SECRET).ok_or_else(|| anyhow::anyhow!("an empty secret"))?;
        let replica = Place::Replica((number - 1) % REPLICAS + 1);
        let proc = number as u64;
        Ok(Client { number, place: Place::Client(number), replica, net, recorder, secret, ahead_s: 0, proc })
    }

    /// The client of this number for the last reads: its processes are others than those of the load.
    ///
    /// # Errors
    /// Its secret is none.
    pub fn at_last(number: usize, net: Net, recorder: Recorder) -> anyhow::Result<Client> {
        let client = Client::new(number, net, recorder)?;
        Ok(Client { proc: LAST_PROC + client.proc, ..client })
    }

    /// Does what the generator says until told to stop; the operation that is under way is waited for.
    pub async fn run(mut self, load: Load, stop: CancellationToken) {
        let lock = || load.lock().unwrap_or_else(PoisonError::into_inner);
        let number = u32::try_from(self.number).unwrap_or(u32::MAX);
        while !stop.is_cancelled() {
            let (op, pause_ns) = {
                let mut generator = lock();
                (generator.next(self.recorder.now(), number), generator.pause_ns(CLIENTS as u32))
            };
            let told = self.perform(&op, false).await;
            lock().told(self.recorder.now(), number, &op, &told);
            stop.run_until_cancelled(tokio::time::sleep(Duration::from_nanos(pause_ns))).await;
        }
    }

    /// Reads a task until there is an answer or told to stop.
    pub async fn read_at_last(&mut self, task: &str, stop: &CancellationToken) {
        let op = Op::Get { task: task.to_owned(), wait: None };
        while !stop.is_cancelled() {
            match self.perform(&op, true).await {
                Told::Task(_) | Told::Absent => return,
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// One operation, from its beginning to its end, both recorded.
    async fn perform(&mut self, op: &Op, last: bool) -> Told {
        let (what, key) = operation::invocation(op, last);
        self.record(Kind::Invoke, key, what, None, Meta::default());
        let wait_ms = match op {
            Op::Get { wait: Some(wait), .. } => wait.wait_ms,
            _ => 0,
        };
        let request = Request::Public(self.sign(&operation::request(op)));
        let deadline = PATIENCE + Duration::from_millis(wait_ms);
        let reply = match self.net.call(self.place, self.replica, request, deadline).await {
            Ok(Reply::Http { status, headers, body }) => {
                Ok(operation::Reply { status, headers, body: body.to_vec() })
            }
            Ok(Reply::Raft(_)) | Err(CallError::Unreachable) => Err(Failure::NotSent),
            Err(CallError::Broken | CallError::Timeout(_)) => Err(Failure::Lost),
        };
        let end = operation::end(op, last, reply.as_ref().map_err(Clone::clone));
        let told = end.told;
        self.record(end.kind, end.key, end.what, end.err, end.meta);
        if end.kind == Kind::Info {
            self.proc += CLIENTS as u64;
        }
        if let Some(server_ms) = end.server_ms {
            self.ahead_s = (server_ms - self.recorder.now().wall_ms).div_euclid(1000);
        }
        told
    }

    fn sign(&self, ask: &operation::Ask) -> Message {
        let key = ask.idempotency_key.as_deref();
        let outgoing = Outgoing {
            label: Label::Caller,
            audience: AUDIENCE,
            access_key: ACCESS_KEY,
            method: ask.method,
            path: &ask.path,
            query: &ask.query,
            idempotency_key: key.unwrap_or_default(),
            body: &ask.body,
        };
        let seconds = self.recorder.now().wall_ms.div_euclid(1000) + self.ahead_s;
        let mut headers = outgoing.headers(&self.secret, seconds).to_vec();
        headers.extend(key.map(|key| (IDEMPOTENCY_HEADER, key.to_owned())));
        if !ask.body.is_empty() {
            headers.push(("content-type", "application/json".to_owned()));
        }
        let query = if ask.query.is_empty() { String::new() } else { format!("?{}", ask.query) };
        Message {
            method: ask.method.to_owned(),
            target: format!("{}{query}", ask.path),
            headers: headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            body: Bytes::from(ask.body.clone()),
        }
    }

    fn record(&self, kind: Kind, key: Option<String>, what: What, err: Option<String>, meta: Meta) {
        self.recorder.add([Event {
            v: VERSION,
            i: 0,
            mono_ns: self.recorder.now().mono_ns,
            src: format!("client-{}", self.number),
            proc: self.proc,
            kind,
            node: Some(self.replica.to_string()),
            key,
            what,
            err,
            meta,
        }]);
    }
}
