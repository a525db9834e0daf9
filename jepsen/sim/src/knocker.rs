//! For each replica a client whose key may do little, and that asks for more than that: whether it is let in is
//! all that is judged.

use std::time::Duration;

use bytes::Bytes;
use orloj_jepsen_core::event::{KeyLimits, Knock, What};
use orloj_wire::sign::{Label, Outgoing, Secret};
use tokio_util::sync::CancellationToken;

use crate::client::server_time_ms;
use crate::net::{Message, Net, Reply, Request};
use crate::place::{CLIENTS, Place};
use crate::recorder::Recorder;
use crate::replica::{AUDIENCE, NARROW, NARROW_KEY, NARROW_SECRET};
use crate::world::World;

/// Between two calls of one of them: together several times what the key may do.
const PAUSE: Duration = Duration::from_millis(200);
/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// What is asked for. Only who leads for certain has an answer.
const PATH: &str = "/openapi/v1/executors";
/// Who tells of it in the history.
const SOURCE: &str = "knocker";

struct Knocker {
    replica: Place,
    net: Net,
    recorder: Recorder,
    secret: Secret,
    /// How far the replicas' clock is ahead of ours, in s, once it was told.
    ahead_s: i64,
}

/// Lets them ask until told to stop.
///
/// # Errors
/// Their secret is none.
pub fn start(world: &World, stop: &CancellationToken) -> anyhow::Result<()> {
    let limits = KeyLimits {
        key: NARROW_KEY.to_owned(),
        requests_per_s: NARROW.requests_per_s,
        requests_burst: NARROW.requests_burst,
        submits_per_s: NARROW.submits_per_s,
        submits_burst: NARROW.submits_burst,
    };
    world.recorder.note(SOURCE, None, What::KeyLimits(limits));
    for replica in Place::replicas() {
        let secret = Secret::new(NARROW_SECRET).ok_or_else(|| anyhow::anyhow!("an empty secret"))?;
        let (net, recorder) = (world.net.clone(), world.recorder.clone());
        let knocker = Knocker { replica, net, recorder, secret, ahead_s: 0 };
        world.spawn(knocker.run(stop.clone()));
    }
    Ok(())
}

impl Knocker {
    async fn run(mut self, stop: CancellationToken) {
        // No client of the load: nothing cuts it off from its replica.
        let place = Place::Client(CLIENTS + 1);
        while !stop.is_cancelled() {
            let from_ns = self.recorder.now().mono_ns;
            let asked = self.net.call(place, self.replica, Request::Public(self.sign()), PATIENCE).await;
            // Who has no answer may have been let in or not: nothing can be said of it.
            if let Ok(Reply::Http { status, body, .. }) = asked {
                self.heard(from_ns, status, &body);
            }
            stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
        }
    }

    fn heard(&mut self, from_ns: u64, status: u16, body: &[u8]) {
        if let Some(server_ms) = server_time_ms(body) {
            self.ahead_s = (server_ms - self.recorder.now().wall_ms).div_euclid(1000);
        }
        let (key, let_in) = (NARROW_KEY.to_owned(), status == 200);
        let knock = Knock { key, submits: false, from_ns, let_in, status };
        self.recorder.note(SOURCE, Some(self.replica.to_string()), What::Knock(knock));
    }

    fn sign(&self) -> Message {
        let outgoing = Outgoing {
            label: Label::Caller,
            audience: AUDIENCE,
            access_key: NARROW_KEY,
            method: "GET",
            path: PATH,
            query: "",
            idempotency_key: "",
            body: b"",
        };
        let seconds = self.recorder.now().wall_ms.div_euclid(1000) + self.ahead_s;
        let headers = outgoing.headers(&self.secret, seconds);
        Message {
            method: "GET".to_owned(),
            target: PATH.to_owned(),
            headers: headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            body: Bytes::new(),
        }
    }
}
