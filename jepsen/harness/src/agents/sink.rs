//! The sink: it stands for the world outside the cluster, where an effect is to happen once.
//!
//! `POST /effect?label=…&key=…` is an effect. One with a key (of the query, or in the header
//! `Idempotency-Key`) is applied when the key is new, and refused as a repetition when it is not: then it is answered
//! like the first one. Each is written down with what became of it, so that a sink which forgets its keys shows in the
//! history as one that applied an effect twice.
//!
//! `POST /hook` is a callback: its signature is checked, and it is written down with the answer that it gets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use hyper::HeaderMap;
use orloj_jepsen_agents::hook::{self, Arrived};
use orloj_jepsen_agents::rng::Rng;
use orloj_jepsen_core::event::{Effect, What};
use orloj_wire::callback::WebhookSecret;
use orloj_wire::sign::IDEMPOTENCY_HEADER;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::recorder::{Note, Recorder};
use super::server::{Reaction, Received, serve};

/// What the sink does wrong on purpose; all off by default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SinkVices {
    /// Share of effects that are answered with 500; half of them have taken effect.
    pub errors: f64,
    /// Share of effects that take effect and are never answered.
    pub silent: f64,
    /// The body of each answer comes so long after its head.
    pub slow_body: Duration,
    /// Nobody listens.
    pub down: bool,
    /// It applies repetitions as well, as an outside world that knows nothing of keys does.
    pub forgetful: bool,
}

/// What becomes of one effect.
#[derive(Debug, Clone, Copy)]
struct Decision {
    took: bool,
    repeated: bool,
    /// Of the answer; 0 for none.
    status: u16,
    /// How late the answer's body is.
    body_delay: Duration,
}

/// The sink. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Sink(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    recorder: Recorder,
    /// What signs callbacks; without it there are none.
    webhook: Option<WebhookSecret>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    vices: SinkVices,
    seen: BTreeSet<String>,
    /// How many effects were applied.
    applied: usize,
    /// Keys whose next so many effects are answered with 500, although they have taken effect.
    failing: BTreeMap<String, u32>,
    rng: Rng,
}

impl Sink {
    /// A sink of this name, which takes callbacks that are signed with `webhook`.
    pub fn new(name: &str, seed: u64, webhook: Option<WebhookSecret>, recorder: Recorder) -> Sink {
        let rng = Rng::new(seed).split(name);
        let (vices, seen, failing) = (SinkVices::default(), BTreeSet::new(), BTreeMap::new());
        let state = State { vices, seen, applied: 0, failing, rng };
        Sink(Arc::new(Inner {
            name: name.to_owned(),
            recorder,
            webhook,
            state: Mutex::new(state),
            changed: Notify::new(),
        }))
    }

    /// Switches vices at once, all together.
    pub fn set_vices(&self, vices: SinkVices) {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).vices = vices;
        self.0.changed.notify_one();
    }

    /// Answers the first so many effects of a key with 500, although they have taken effect: the worst that an
    /// outside world can do to whoever tries again.
    pub fn fail_first(&self, key: &str, times: u32) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failing.insert(key.to_owned(), times);
    }

    /// How many effects were applied.
    pub fn effects(&self) -> usize {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).applied
    }

    fn is_down(&self) -> bool {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).vices.down
    }

    /// Serves at `address` until `stop`, whenever it is not down.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn run(self, address: SocketAddr, stop: CancellationToken) -> Result<()> {
        while !stop.is_cancelled() {
            let over = CancellationToken::new();
            let _end = over.clone().drop_guard();
            let up = async {
                if self.is_down() {
                    return std::future::pending().await;
                }
                let sink = self.clone();
                let listener = listen(address).await?;
                serve(listener, move |request| sink.clone().take(request), over.clone()).await;
                anyhow::Ok(())
            };
            let turned = async {
                let before = self.is_down();
                while self.is_down() == before {
                    self.0.changed.notified().await;
                }
            };
            tokio::select! {
                served = up => served?,
                () = turned => {}
                () = stop.cancelled() => {}
            }
        }
        Ok(())
    }

    /// Takes a callback, or does to it what its vices say.
    fn hear(&self, request: &Received, secret: &WebhookSecret) -> Reaction {
        let (status, body_delay) = {
            let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
            let State { vices, rng, .. } = &mut *state;
            let status = match () {
                () if rng.chance(vices.errors) => 500,
                () if rng.chance(vices.silent) => 0,
                () => 200,
            };
            (status, vices.slow_body)
        };
        let header = |name: &str| request.headers.get(name)?.to_str().ok().map(str::to_owned);
        let callback = hook::told(Arrived { header: &header, body: &request.body }, secret, status);
        let key = Some(callback.task.clone()).filter(|task| !task.is_empty());
        self.0.recorder.note(Note { key, ..Note::event(&self.0.name, What::Callback(callback)) });
        match status {
            0 => Reaction::Silence,
            status => Reaction::Answer { status, body: b"{}".to_vec(), body_delay },
        }
    }

    async fn take(self, request: Received) -> Reaction {
        if let Some(secret) = self.0.webhook.as_ref().filter(|_| request.path == "/hook") {
            return self.hear(&request, secret);
        }
        if request.path != "/effect" {
            return Reaction::answer(404, "{}");
        }
        let label = parameter(&request.query, "label");
        let key = parameter(&request.query, "key").or_else(|| header(&request.headers));
        let decided = self.decide(key.as_deref());
        let effect = Effect {
            task: parameter(&request.query, "task").unwrap_or_default(),
            label: label.clone(),
            business_key: key,
            took: decided.took,
            repeated: decided.repeated,
            status: decided.status,
            ..Effect::default()
        };
        let note = Note { key: label, ..Note::event(&self.0.name, What::Effect(effect)) };
        self.0.recorder.note(note);
        match decided.status {
            0 => Reaction::Silence,
            status => Reaction::Answer { status, body: b"{}".to_vec(), body_delay: decided.body_delay },
        }
    }

    fn decide(&self, key: Option<&str>) -> Decision {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { vices, seen, applied, failing, rng } = &mut *state;
        let fails = rng.chance(vices.errors);
        if fails && rng.chance(0.5) {
            return Decision { took: false, repeated: false, status: 500, body_delay: Duration::ZERO };
        }
        let known = key.is_some_and(|key| !seen.insert(key.to_owned()));
        let repeated = known && !vices.forgetful;
        *applied += usize::from(!repeated);
        let left = key.and_then(|key| failing.get_mut(key)).filter(|left| **left > 0);
        let told_to_fail = left.map(|left| *left -= 1).is_some();
        let status = match () {
            () if fails || told_to_fail => 500,
            () if rng.chance(vices.silent) => 0,
            () => 200,
        };
        Decision { took: !repeated, repeated, status, body_delay: vices.slow_body }
    }
}

/// A port that was closed a moment ago may be held for another.
async fn listen(address: SocketAddr) -> Result<TcpListener> {
    const PATIENCE: Duration = Duration::from_secs(5);
    const PAUSE: Duration = Duration::from_millis(20);
    let again = async {
        loop {
            match TcpListener::bind(address).await {
                Ok(listener) => return listener,
                Err(_) => sleep(PAUSE).await,
            }
        }
    };
    timeout(PATIENCE, again).await.with_context(|| format!("cannot listen on {address}"))
}

/// A parameter of a query; labels and keys of the harness need no decoding.
fn parameter(query: &str, name: &str) -> Option<String> {
    query.split('&').find_map(|pair| {
        let (found, value) = pair.split_once('=')?;
        (found == name).then(|| value.to_owned())
    })
}

fn header(headers: &HeaderMap) -> Option<String> {
    headers.get(IDEMPOTENCY_HEADER)?.to_str().ok().map(str::to_owned)
}
