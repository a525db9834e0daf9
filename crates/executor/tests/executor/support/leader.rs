//! The scripted leader.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use orloj_wire::clock::{Clock as _, SystemClock};
use orloj_wire::problem::{Code, Problem};
use orloj_wire::protocol::{
    AttemptRef, Heartbeat, HeartbeatAck, Leave, NotLeader, Register, Registered, Report, ReportVerdict,
    Reports, ReportsAck, Save, Saves, SavesAck,
};
use orloj_wire::sign::{self, Label, Parts, Secret};
use orloj_wire::time::Time;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::{SECRET, within};

/// What executors have told.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    Register(Register),
    Heartbeat(Heartbeat),
    Report(Report),
    /// Of a batch that was refused.
    Refused(Report),
    /// A call whose timestamp is too far from this leader's clock.
    OutOfTime,
    Save(Save),
    Leave(Leave),
}

/// The status with which a batch is answered, and which report makes it so.
type Refuse = (u16, fn(&Report) -> bool);

#[derive(Default)]
struct Script {
    /// How far its clock is ahead of this machine's, in seconds.
    ahead_s: i64,
    /// Reports are answered with 503.
    deaf: bool,
    /// Batches with a report like that are answered with this status.
    refuse: Option<Refuse>,
    /// Everything is answered with 421 and this hint.
    not_leader: Option<Option<String>>,
    /// Saves are not taken.
    no_lease: bool,
    /// The next answers to heartbeats; then plain ones.
    acks: Vec<HeartbeatAck>,
    /// Told to have no lease at the next registration.
    stale: Vec<AttemptRef>,
    /// How many rounds have begun after the first.
    later: u64,
}

impl Script {
    fn round(&self) -> u64 {
        1 + self.later
    }

    /// What to answer to saves: nothing is taken from who has not heard of the round.
    fn save(&self, saves: Saves) -> Option<(Vec<Event>, String)> {
        if saves.round < self.round() {
            return None;
        }
        let taken = vec![!self.no_lease; saves.saves.len()];
        Some((saves.saves.into_iter().map(Event::Save).collect(), json(&SavesAck { taken })))
    }
}

struct Inner {
    script: Mutex<Script>,
    events: watch::Sender<Vec<Event>>,
}

/// A leader that remembers what it is told and answers as scripted. It believes only good signatures.
#[derive(Clone)]
pub struct FakeLeader {
    inner: Arc<Inner>,
    pub address: SocketAddr,
}

impl FakeLeader {
    pub async fn start() -> Self {
        let inner = Arc::new(Inner { script: Mutex::default(), events: watch::Sender::new(Vec::new()) });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&inner));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        FakeLeader { inner, address }
    }

    pub fn deaf(&self, deaf: bool) {
        self.inner.script.lock().unwrap().deaf = deaf;
    }

    /// Sets its clock so far ahead of this machine's.
    pub fn ahead(&self, seconds: i64) {
        self.inner.script.lock().unwrap().ahead_s = seconds;
    }

    /// How many calls came out of time.
    pub fn out_of_time(&self) -> usize {
        self.events().iter().filter(|event| **event == Event::OutOfTime).count()
    }

    /// Answers a batch that holds such a report with this status.
    pub fn refuse(&self, status: u16, such: fn(&Report) -> bool) {
        self.inner.script.lock().unwrap().refuse = Some((status, such));
    }

    pub fn not_leader(&self, hint: Option<String>) {
        self.inner.script.lock().unwrap().not_leader = Some(hint);
    }

    pub fn no_lease(&self) {
        self.inner.script.lock().unwrap().no_lease = true;
    }

    /// From now on it leads in another round, of which only its answers tell.
    pub fn begin_round(&self) {
        self.inner.script.lock().unwrap().later += 1;
    }

    pub fn ack_next(&self, ack: HeartbeatAck) {
        self.inner.script.lock().unwrap().acks.push(ack);
    }

    pub fn stale_at_registration(&self, attempt: AttemptRef) {
        self.inner.script.lock().unwrap().stale.push(attempt);
    }

    /// Everything so far.
    pub fn events(&self) -> Vec<Event> {
        self.inner.events.borrow().clone()
    }

    /// Waits for the first event, of all since the start, for which `pick` gives something.
    pub async fn wait<T>(&self, what: &str, pick: impl Fn(&Event) -> Option<T>) -> T {
        let mut events = self.inner.events.subscribe();
        within(what, async {
            let found = events.wait_for(|events| events.iter().any(|event| pick(event).is_some())).await;
            found.unwrap().iter().find_map(&pick).unwrap()
        })
        .await
    }

    pub async fn registered(&self) -> Register {
        self.wait("a registration", |event| match event {
            Event::Register(register) => Some(register.clone()),
            _ => None,
        })
        .await
    }

    pub async fn report(&self, fence: u64) -> Report {
        self.wait(&format!("the report of fence {fence}"), |event| match event {
            Event::Report(report) if report.attempt.fence == fence => Some(report.clone()),
            _ => None,
        })
        .await
    }

    pub async fn heartbeat(&self, what: &str, wanted: impl Fn(&Heartbeat) -> bool) -> Heartbeat {
        self.wait(what, |event| match event {
            Event::Heartbeat(beat) if wanted(beat) => Some(beat.clone()),
            _ => None,
        })
        .await
    }

    /// The fences of the reports that were refused, each as often as it was sent.
    pub fn refused(&self) -> Vec<u64> {
        let fence = |event| match event {
            Event::Refused(report) => Some(report.attempt.fence),
            _ => None,
        };
        self.events().into_iter().filter_map(fence).collect()
    }

    pub fn reports(&self) -> Vec<Report> {
        let report = |event| match event {
            Event::Report(report) => Some(report),
            _ => None,
        };
        self.events().into_iter().filter_map(report).collect()
    }
}

async fn answer(State(inner): State<Arc<Inner>>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 64 << 20).await.unwrap();
    let header = |name: &str| parts.headers.get(name).unwrap().to_str().unwrap();
    let signed = Parts {
        label: Label::Executor,
        audience: "scheduler",
        access_key: header(sign::ACCESS_KEY_HEADER),
        timestamp: header(sign::TIMESTAMP_HEADER),
        nonce: header(sign::NONCE_HEADER),
        method: parts.method.as_str(),
        path: parts.uri.path(),
        query: "",
        idempotency_key: "",
        body: &body,
    };
    if !signed.verify(&Secret::new(SECRET).unwrap(), header(sign::SIGNATURE_HEADER)) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let mut script = inner.script.lock().unwrap();
    let stamped_s = header(sign::TIMESTAMP_HEADER).parse().unwrap();
    if let Some(problem) = out_of_time(script.ahead_s, stamped_s) {
        inner.events.send_modify(|all| all.push(Event::OutOfTime));
        return (StatusCode::UNAUTHORIZED, json(&problem)).into_response();
    }
    if let Some(leader) = script.not_leader.clone() {
        let said = NotLeader { code: "not_leader".to_owned(), leader };
        return (StatusCode::MISDIRECTED_REQUEST, json(&said)).into_response();
    }
    let round = script.round();
    let (events, reply) = match parts.uri.path() {
        "/internal/v1/executors/register" => {
            let register: Register = serde_json::from_slice(&body).unwrap();
            let stale = std::mem::take(&mut script.stale);
            let reply = Registered { round, heartbeat_ms: 60_000, stale, replicas: Vec::new() };
            (vec![Event::Register(register)], json(&reply))
        }
        "/internal/v1/executors/heartbeat" => {
            let beat: Heartbeat = serde_json::from_slice(&body).unwrap();
            let plain = HeartbeatAck { round, register: false, superseded: false, stale: Vec::new() };
            let reply = if script.acks.is_empty() { plain } else { script.acks.remove(0) };
            (vec![Event::Heartbeat(beat)], json(&reply))
        }
        "/internal/v1/executors/report" if script.deaf => {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
        "/internal/v1/executors/report" => {
            let reports: Reports = serde_json::from_slice(&body).unwrap();
            if let Some(refusal) = inner.refusal(script.refuse, &reports) {
                return refusal;
            }
            let verdicts = vec![ReportVerdict::Accepted; reports.reports.len()];
            let events = reports.reports.into_iter().map(Event::Report).collect();
            (events, json(&ReportsAck { verdicts, round }))
        }
        "/internal/v1/executors/save" => match script.save(serde_json::from_slice(&body).unwrap()) {
            Some(answer) => answer,
            None => return StatusCode::CONFLICT.into_response(),
        },
        "/internal/v1/executors/leave" => {
            (vec![Event::Leave(serde_json::from_slice(&body).unwrap())], String::new())
        }
        other => panic!("an executor called {other}"),
    };
    inner.events.send_modify(|all| all.extend(events));
    reply.into_response()
}

impl Inner {
    /// The answer to a batch that holds a report which is to be refused.
    fn refusal(&self, refuse: Option<Refuse>, batch: &Reports) -> Option<Response> {
        let (status, such) = refuse?;
        if !batch.reports.iter().any(such) {
            return None;
        }
        let refused = batch.reports.iter().cloned().map(Event::Refused);
        self.events.send_modify(|all| all.extend(refused));
        Some((StatusCode::from_u16(status).unwrap(), "it has a result").into_response())
    }
}

/// What a leader whose clock is so far ahead says to a timestamp, where that is outside its window.
fn out_of_time(ahead_s: i64, stamped_s: i64) -> Option<Problem> {
    let now_ms = SystemClock::new().wall_ms() + ahead_s * 1_000;
    let apart_s = (stamped_s - now_ms.div_euclid(1_000)).abs();
    let problem = Problem::new(Code::TimestampOutOfWindow, "the clocks are apart");
    (apart_s > sign::TIME_WINDOW_S).then_some(Problem { server_time: Some(Time(now_ms)), ..problem })
}

fn json(body: &impl Serialize) -> String {
    serde_json::to_string(body).unwrap()
}
