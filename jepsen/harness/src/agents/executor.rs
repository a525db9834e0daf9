//! A mock executor on the network: the state machine of `orloj-jepsen-agents` behind HTTP, and a hand on it.

mod calls;
mod control;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use orloj_jepsen_agents::NS_PER_MS;
use orloj_jepsen_agents::mock::{Answer, Mock, Said};
use orloj_wire::problem::Problem;
use orloj_wire::protocol::Run;
use orloj_wire::sign::Secret;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

pub use control::Executor;

use super::now;
use super::server::{Reaction, Received, serve};
use super::verify::Verifier;
use calls::Calls;

/// Between two tries to listen: the port of a life that has just ended may be held for a moment.
const LISTEN_AGAIN: Duration = Duration::from_millis(20);
/// The longest sleep when nothing is due.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// Where a mock executor lives and what it knows.
#[derive(Debug, Clone)]
pub struct Place {
    /// Where it listens in every life.
    pub listen: SocketAddr,
    /// What executors and replicas share.
    pub secret: Secret,
    /// Names of the replicas by their address, to tell in the history who has pushed.
    pub replicas: BTreeMap<IpAddr, String>,
}

/// Lets an executor live, die and live again until `stop`; then it dies for good, as SIGKILL does.
///
/// # Errors
/// The address cannot be listened on.
pub async fn run(executor: Executor, place: Place, stop: CancellationToken) -> Result<()> {
    while !stop.is_cancelled() {
        if !executor.with(|mock| mock.is_up()) {
            tokio::select! {
                () = executor.changed() => {}
                () = stop.cancelled() => {}
            }
            continue;
        }
        live(&executor, &place, &stop).await?;
    }
    executor.kill();
    Ok(())
}

/// One life.
async fn live(executor: &Executor, place: &Place, stop: &CancellationToken) -> Result<()> {
    let incarnation = executor.with(|mock| mock.incarnation());
    let over = CancellationToken::new();
    let _end = over.clone().drop_guard();
    let listener = listen(place.listen).await?;
    let verifier = Arc::new(Mutex::new(Verifier::new(&executor.id(), place.secret.clone())));
    let intake = Intake {
        executor: executor.clone(),
        incarnation,
        verifier,
        replicas: Arc::new(place.replicas.clone()),
    };
    let server = serve(listener, move |push| intake.clone().take(push), over.clone());
    let mut calls = Calls::new(executor.clone(), incarnation, place.secret.clone());
    let driver = async {
        while executor.with(|mock| mock.is_up() && mock.incarnation() == incarnation) {
            let (due, outgoing) = executor.with(|mock| {
                let outgoing = mock.tick(now());
                (mock.next_due(), outgoing)
            });
            calls.send(outgoing);
            tokio::select! {
                () = sleep(until(due)) => {}
                () = executor.changed() => {}
            }
        }
    };
    tokio::select! {
        () = server => {}
        () = driver => {}
        () = stop.cancelled() => {}
    }
    Ok(())
}

/// From now to an instant of the monotonic clock, in ns; a millisecond at least, so that nothing spins.
fn until(due: Option<u64>) -> Duration {
    let Some(due) = due else { return LONGEST_SLEEP };
    let ns = due.saturating_sub(now().mono_ns).max(NS_PER_MS);
    Duration::from_nanos(ns).min(LONGEST_SLEEP)
}

async fn listen(address: SocketAddr) -> Result<TcpListener> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let again = async {
        loop {
            match TcpListener::bind(address).await {
                Ok(listener) => return listener,
                Err(_) => sleep(LISTEN_AGAIN).await,
            }
        }
    };
    timeout(PATIENCE, again).await.with_context(|| format!("cannot listen on {address}"))
}

/// Takes pushes for one life.
#[derive(Clone)]
struct Intake {
    executor: Executor,
    incarnation: u64,
    verifier: Arc<Mutex<Verifier>>,
    replicas: Arc<BTreeMap<IpAddr, String>>,
}

impl Intake {
    async fn take(self, push: Received) -> Reaction {
        let checked =
            self.verifier.lock().unwrap_or_else(PoisonError::into_inner).check(&push, now().wall_ms);
        if let Err(problem) = checked {
            return refusal(&problem);
        }
        let sender = self.replicas.get(&push.from).cloned();
        let answered = match push.path.as_str() {
            "/v1/run" => self.act(&push, |mock, run: Run| mock.on_run(now(), sender.as_deref(), &run)),
            "/v1/cancel" => self.act(&push, |mock, body| mock.on_cancel(now(), &body)),
            "/v1/round" => self.act(&push, |mock, body| mock.on_round(now(), &body)),
            "/v1/log" => self.act(&push, |mock, body| mock.on_log(&body)),
            _ => return Reaction::answer(404, "{}"),
        };
        let Some((delay_ms, reaction)) = answered else { return Reaction::answer(400, "{}") };
        sleep(Duration::from_millis(delay_ms)).await;
        reaction
    }

    /// Hands a push to the state machine. None when its body does not parse.
    fn act<B: DeserializeOwned, A: Serialize>(
        &self,
        push: &Received,
        act: impl FnOnce(&mut Mock, B) -> Answer<A>,
    ) -> Option<(u64, Reaction)> {
        let body = serde_json::from_slice(&push.body).ok()?;
        let answer = self.executor.act(|mock| {
            // A connection may outlive its life by a moment.
            (mock.incarnation() == self.incarnation).then(|| act(mock, body))
        });
        let Some(answer) = answer else { return Some((0, Reaction::Silence)) };
        let reaction = match answer.said {
            Said::Body(body) => {
                Reaction::answer(200, serde_json::to_vec(&body).expect("answers have a JSON form"))
            }
            Said::Refused { status, code } => {
                let problem = serde_json::json!({ "code": code, "status": status });
                Reaction::answer(status, problem.to_string())
            }
            Said::Broken => Reaction::answer(500, r#"{"code":"internal","status":500}"#),
            Said::Nothing => Reaction::Silence,
        };
        Some((answer.delay_ms, reaction))
    }
}

fn refusal(problem: &Problem) -> Reaction {
    Reaction::answer(problem.status, serde_json::to_vec(problem).expect("problems have a JSON form"))
}
