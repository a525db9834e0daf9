//! The mock executors: drives their state machines over the simulated network.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use orloj_jepsen_agents::mock::{Answer, Call, Heard, Mock, Profile, Said};
use orloj_wire::protocol::NotLeader;
use orloj_wire::sign::{Label, Outgoing, Secret};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::net::{Message, Net, Reply, Request};
use crate::place::Place;
use crate::recorder::Recorder;
use crate::replica::EXECUTOR_SECRET;

/// Whom executors sign for.
const AUDIENCE: &str = "scheduler";
/// The longest wait for an answer of a replica.
const DEADLINE: Duration = Duration::from_secs(5);

/// A mock executor. Clones stand for the same.
#[derive(Clone)]
pub struct Executor {
    place: Place,
    mock: Arc<Mutex<Mock>>,
    net: Net,
    recorder: Recorder,
    secret: Secret,
}

impl Executor {
    /// An executor that begins its first life.
    ///
    /// # Errors
    /// Its secret is none.
    pub fn new(place: Place, seed: u64, net: Net, recorder: Recorder) -> anyhow::Result<Executor> {
        let profile = Profile {
            id: place.to_string(),
            address: place.address(),
            handlers: vec!["mock".to_owned()],
            slots: 4,
            queue: 4,
            weight: 100,
            zone: None,
            labels: Default::default(),
            replicas: Place::replicas().map(|replica| (replica.address(), replica.to_string())).collect(),
            seed,
        };
        let mock = Mock::new(profile, recorder.now());
        let secret = Secret::new(EXECUTOR_SECRET).ok_or_else(|| anyhow::anyhow!("an empty secret"))?;
        Ok(Executor { place, mock: Arc::new(Mutex::new(mock)), net, recorder, secret })
    }

    fn lock(&self) -> MutexGuard<'_, Mock> {
        self.mock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something to the state machine, records what came of it, and sends what it has to say. Called inside
    /// the runtime of the agents.
    pub fn with<T>(&self, work: impl FnOnce(&mut Mock, orloj_jepsen_agents::Now) -> T) -> T {
        let mut mock = self.lock();
        let result = work(&mut mock, self.recorder.now());
        let calls = mock.tick(self.recorder.now());
        self.recorder.add(mock.take_events());
        drop(mock);
        for call in calls {
            let this = self.clone();
            tokio::spawn(async move { this.send(call).await });
        }
        result
    }

    /// Lets it do what is due.
    pub fn settle(&self) {
        let due = self.lock().next_due();
        if due.is_some_and(|due| due <= self.recorder.now().mono_ns) {
            self.with(|_, _| ());
        }
    }

    async fn send(&self, call: Call) {
        let heard = match Place::at(&call.to) {
            Some(to) => self.ask(to, &call).await,
            None => Heard::NoAnswer,
        };
        self.with(|mock, now| mock.answered(now, call.number, heard));
    }

    async fn ask(&self, to: Place, call: &Call) -> Heard {
        let (path, body) = (call.body.path(), call.body.json());
        let outgoing = Outgoing {
            label: Label::Executor,
            audience: AUDIENCE,
            access_key: &self.place.to_string(),
            method: "POST",
            path,
            query: "",
            idempotency_key: "",
            body: &body,
        };
        let mut ahead_s = 0;
        // A leader whose clock is elsewhere says so once.
        for _ in 0..2 {
            let seconds = self.recorder.now().wall_ms.div_euclid(1000) + ahead_s;
            let headers = outgoing.headers(&self.secret, seconds);
            let message = Message {
                method: "POST".to_owned(),
                target: path.to_owned(),
                headers: headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
                body: Bytes::from(body.clone()),
            };
            let answer = self.net.call(self.place, to, Request::Internal(message), DEADLINE).await;
            match answer {
                Ok(Reply::Http { status: 200, body, .. }) => {
                    return call.body.read(&body).unwrap_or(Heard::NoAnswer);
                }
                Ok(Reply::Http { status: 421, body, .. }) => {
                    let hint = serde_json::from_slice::<NotLeader>(&body).ok();
                    return Heard::NotLeader(hint.and_then(|hint| hint.leader));
                }
                Ok(Reply::Http { status: 401, body, .. }) => match crate::client::server_time_ms(&body) {
                    Some(server_ms) if ahead_s == 0 => {
                        ahead_s = (server_ms - self.recorder.now().wall_ms).div_euclid(1000);
                    }
                    _ => return Heard::NoAnswer,
                },
                Ok(Reply::Http { status: status @ 400..=499, .. }) => return Heard::Refused(status),
                Ok(_) | Err(_) => return Heard::NoAnswer,
            }
        }
        Heard::NoAnswer
    }

    /// Answers a push; never, when the executor does not.
    pub async fn answer(&self, from: Place, request: Request) -> Reply {
        let Request::Internal(message) = request else { return problem(404, "not_found") };
        let sender = from.to_string();
        match message.target.as_str() {
            "/v1/run" => {
                self.push(&message.body, |mock, now, push| mock.on_run(now, Some(&sender), push)).await
            }
            "/v1/cancel" => self.push(&message.body, |mock, now, push| mock.on_cancel(now, push)).await,
            "/v1/round" => self.push(&message.body, |mock, now, push| mock.on_round(now, push)).await,
            "/v1/log" => self.push(&message.body, |mock, _, push| mock.on_log(push)).await,
            _ => problem(404, "not_found"),
        }
    }

    async fn push<P: DeserializeOwned, A: Serialize>(
        &self,
        body: &[u8],
        take: impl FnOnce(&mut Mock, orloj_jepsen_agents::Now, &P) -> Answer<A>,
    ) -> Reply {
        let Ok(push) = serde_json::from_slice::<P>(body) else { return problem(400, "invalid_request") };
        let answer = self.with(|mock, now| take(mock, now, &push));
        tokio::time::sleep(Duration::from_millis(answer.delay_ms)).await;
        match answer.said {
            Said::Body(body) => {
                let body = serde_json::to_vec(&body).expect("messages are made of strings and numbers");
                Reply::Http { status: 200, headers: Vec::new(), body: Bytes::from(body) }
            }
            Said::Refused { status, code } => problem(status, code),
            Said::Broken => problem(500, "internal"),
            Said::Nothing => std::future::pending().await,
        }
    }

    /// Whether it lives and holds work.
    pub fn is_busy(&self) -> bool {
        self.lock().is_busy()
    }

    /// Whether it lives.
    pub fn is_up(&self) -> bool {
        self.lock().is_up()
    }
}

fn problem(status: u16, code: &str) -> Reply {
    let body = serde_json::json!({ "status": status, "code": code }).to_string();
    Reply::Http { status, headers: Vec::new(), body: Bytes::from(body) }
}
