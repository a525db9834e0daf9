//! The sink: where callbacks arrive. Each seed has one that fails more or less often until the faults are healed.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use orloj_jepsen_agents::hook::{self, Arrived};
use orloj_jepsen_agents::rng::Rng;
use orloj_jepsen_core::event::What;

use crate::net::{Reply, Request};
use crate::recorder::Recorder;
use crate::replica::webhook;

/// Shares of a seed that is hard on callbacks: of those that are answered with 500, and of those that are not answered.
const HARD: (f64, f64) = (0.4, 0.2);

#[derive(Debug)]
struct State {
    rng: Rng,
    errors: f64,
    silent: f64,
}

/// See the module. Clones stand for the same.
#[derive(Debug, Clone)]
pub struct Sink {
    state: Arc<Mutex<State>>,
    recorder: Recorder,
}

impl Sink {
    /// A sink whose faults this stream decides.
    pub fn new(mut rng: Rng, recorder: Recorder) -> Sink {
        let (errors, silent) = (rng.unit() * HARD.0, rng.unit() * HARD.1);
        Sink { state: Arc::new(Mutex::new(State { rng, errors, silent })), recorder }
    }

    /// Answers everything from now on.
    pub fn relent(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.errors, state.silent) = (0.0, 0.0);
    }

    /// Takes a callback; never answers when it is silent.
    pub async fn answer(&self, request: Request) -> Reply {
        let Request::Callback(message) = request else { return answered(404) };
        let status = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let State { rng, errors, silent } = &mut *state;
            match () {
                () if rng.chance(*errors) => 500,
                () if rng.chance(*silent) => 0,
                () => 200,
            }
        };
        let header = |name: &str| {
            message.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        };
        let callback = hook::told(Arrived { header: &header, body: &message.body }, &webhook(), status);
        self.recorder.note("sink", Some("sink".to_owned()), What::Callback(callback));
        match status {
            0 => std::future::pending().await,
            status => answered(status),
        }
    }
}

fn answered(status: u16) -> Reply {
    Reply::Http { status, headers: Vec::new(), body: Bytes::new() }
}
