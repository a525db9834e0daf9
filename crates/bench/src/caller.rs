//! Signed calls of the API, to the leader or to all replicas in turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use orloj_net::OutsideTls;
use orloj_wire::clock::{Clock as _, SystemClock};
use orloj_wire::rest::Cluster;
use orloj_wire::sign::{IDEMPOTENCY_HEADER, Label, Outgoing, Secret};
use serde::Deserialize;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::http::{Host, HttpError};
use crate::message::{KeyPair, Target, Via};

/// The longest wait for one answer.
const TRY_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the leader is looked for while all is well.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The longest wait for an answer to that.
const LOOK_TIMEOUT: Duration = Duration::from_millis(500);
/// After a look that found no leader.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The longest wait for a leader before anything is sent.
const SETTLE: Duration = Duration::from_secs(10);

/// Why a call has no good answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// A target that cannot be used.
    #[error("{what}: {value:?} cannot be used")]
    Target {
        /// Which part of it.
        what: &'static str,
        /// Its value; nothing of a secret.
        value: String,
    },
    /// No connection, or it broke.
    #[error("{0}")]
    Http(String),
    /// Nothing came in time.
    #[error("no answer within {TRY_TIMEOUT:?}")]
    Late,
    /// The API refused.
    #[error("{status} {code}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The stable code of the problem.
        code: String,
    },
    /// An answer that is not the API's.
    #[error("an answer that is not understood: {0}")]
    Answer(String),
}

impl CallError {
    /// Whether the same call may succeed later.
    pub(crate) fn passes(&self) -> bool {
        match self {
            CallError::Http(_) | CallError::Late => true,
            CallError::Refused { status, .. } => matches!(status, 408 | 429 | 503),
            CallError::Target { .. } | CallError::Answer(_) => false,
        }
    }

    /// Whether another replica may do better. A limit is the same at each of them.
    fn is_of_the_replica(&self) -> bool {
        match self {
            CallError::Http(_) | CallError::Late => true,
            CallError::Refused { status, .. } => *status == 503,
            CallError::Target { .. } | CallError::Answer(_) => false,
        }
    }
}

impl From<HttpError> for CallError {
    fn from(error: HttpError) -> Self {
        CallError::Http(error.to_string())
    }
}

/// A request before it is signed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) method: &'static str,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) key: Option<&'a str>,
    /// Whose key signs it; 0 is the target's own.
    pub(crate) signer: usize,
}

/// An access key with its secret.
struct Signer {
    access_key: String,
    secret: Secret,
}

impl Signer {
    fn new(pair: &KeyPair) -> Result<Signer, CallError> {
        let secret = Secret::new(pair.secret_key.clone())
            .ok_or_else(|| CallError::Target { what: "secret key", value: String::new() })?;
        Ok(Signer { access_key: pair.access_key.clone(), secret })
    }
}

/// A caller of a cluster.
pub(crate) struct Caller {
    hosts: Vec<Host>,
    urls: Vec<String>,
    via: Via,
    /// The target's own key, and those that submit in its place where there are any.
    signers: Vec<Signer>,
    audience: String,
    /// The place of the leader, or with [`Via::Any`] a counter.
    turn: AtomicUsize,
    look: Notify,
    clock: SystemClock,
}

impl Caller {
    /// A caller of this target; looks for the leader until the last user of the caller is gone.
    ///
    /// # Errors
    /// An address or a key that cannot be used.
    pub(crate) fn new(target: &Target) -> Result<Arc<Caller>, CallError> {
        let urls: Vec<String> =
            target.servers.iter().map(|url| url.trim_end_matches('/').to_owned()).collect();
        let tls = target.ca_pem.as_ref().map(|pem| OutsideTls::trusting(pem.as_bytes())).transpose();
        let tls = tls.map_err(|error| CallError::Target { what: "authority", value: error.to_string() })?;
        let host = |url: &String| host_of(url, tls.as_ref());
        let hosts = urls.iter().map(host).collect::<Result<Vec<_>, _>>()?;
        if hosts.is_empty() {
            return Err(CallError::Target { what: "servers", value: String::new() });
        }
        let own = KeyPair { access_key: target.access_key.clone(), secret_key: target.secret_key.clone() };
        let signers =
            std::iter::once(&own).chain(&target.keys).map(Signer::new).collect::<Result<Vec<_>, _>>()?;
        let caller = Arc::new(Caller {
            hosts,
            urls,
            via: target.via,
            signers,
            audience: target.audience.clone(),
            turn: AtomicUsize::new(0),
            look: Notify::new(),
            clock: SystemClock::new(),
        });
        if target.via == Via::Leader {
            tokio::spawn(follow_leader(Arc::downgrade(&caller)));
        }
        Ok(caller)
    }

    /// Who signs submission `number`: the keys in turn, or the target's own where there are no others.
    pub(crate) fn signer_of(&self, number: u64) -> usize {
        match self.signers.len() as u64 - 1 {
            0 => 0,
            others => 1 + (number % others) as usize,
        }
    }

    /// The clock that signs.
    pub(crate) fn clock(&self) -> SystemClock {
        self.clock
    }

    /// Waits until the leader is known, so that the first requests go to it and not to whoever comes first in the list;
    /// not for ever, since whoever is asked hands a request on.
    pub(crate) async fn settle(&self) {
        let found = async {
            while self.via == Via::Leader && !self.find_leader().await {
                sleep(LOOK_AGAIN).await;
            }
        };
        // Without a leader the requests themselves will tell what is wrong.
        let _ = timeout(SETTLE, found).await;
    }

    /// Makes one call, once, and returns the body of a good answer.
    ///
    /// # Errors
    /// Everything but a status of 2xx.
    pub(crate) async fn call(&self, call: Call<'_>, body: Bytes) -> Result<Bytes, CallError> {
        let place = match self.via {
            Via::Leader => self.turn.load(Ordering::Relaxed),
            Via::Any => self.turn.fetch_add(1, Ordering::Relaxed) % self.hosts.len(),
        };
        let answer = match timeout(TRY_TIMEOUT, self.ask(place, call, body)).await {
            Ok(answer) => answer,
            Err(_) => Err(CallError::Late),
        };
        if answer.as_ref().is_err_and(CallError::is_of_the_replica) && self.via == Via::Leader {
            self.turn_from(place);
        }
        answer
    }

    /// After a failure: the next replica answers or hands on, until the leader is found.
    fn turn_from(&self, place: usize) {
        let next = (place + 1) % self.hosts.len();
        // Losing this race means that somebody else has turned already.
        let _ = self.turn.compare_exchange(place, next, Ordering::Relaxed, Ordering::Relaxed);
        self.look.notify_one();
    }

    async fn ask(&self, place: usize, call: Call<'_>, body: Bytes) -> Result<Bytes, CallError> {
        let host = &self.hosts[place];
        let (status, answer) = host.send(self.sign(host, call, body)).await?;
        if (200..300).contains(&status) {
            return Ok(answer);
        }
        let code = serde_json::from_slice::<Problem>(&answer).map(|problem| problem.code).unwrap_or_default();
        Err(CallError::Refused { status, code })
    }

    fn sign(&self, host: &Host, call: Call<'_>, body: Bytes) -> Request<Full<Bytes>> {
        let signer = &self.signers[call.signer];
        let outgoing = Outgoing {
            label: Label::Caller,
            audience: &self.audience,
            access_key: &signer.access_key,
            method: call.method,
            path: call.path,
            query: call.query,
            idempotency_key: call.key.unwrap_or_default(),
            body: &body,
        };
        let target = match call.query {
            "" => call.path.to_owned(),
            query => format!("{}?{query}", call.path),
        };
        let mut request = Request::builder().method(call.method).uri(target).header("host", host.address());
        for (name, value) in outgoing.headers(&signer.secret, self.clock.wall_ms().div_euclid(1_000)) {
            request = request.header(name, value);
        }
        if let Some(key) = call.key {
            request = request.header(IDEMPOTENCY_HEADER, key);
        }
        if !body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        // Paths, keys and header values are made of plain characters here.
        request.body(Full::new(body)).expect("the parts of a request are plain text")
    }

    /// Asks the replicas in turn who leads, and remembers it.
    async fn find_leader(&self) -> bool {
        let first = self.turn.load(Ordering::Relaxed);
        for step in 0..self.hosts.len() {
            let place = (first + step) % self.hosts.len();
            let call = Call { method: "GET", path: "/openapi/v1/cluster", query: "", key: None, signer: 0 };
            let Ok(Ok(answer)) = timeout(LOOK_TIMEOUT, self.ask(place, call, Bytes::new())).await else {
                continue;
            };
            let Ok(view) = serde_json::from_slice::<Cluster>(&answer) else { continue };
            let leader = view.members.iter().find(|member| Some(member.id) == view.leader);
            let place = leader
                .and_then(|leader| self.urls.iter().position(|url| *url == leader.api.trim_end_matches('/')));
            if let Some(place) = place {
                self.turn.store(place, Ordering::Relaxed);
                return true;
            }
        }
        false
    }
}

/// The server that a URL names; one with `https` needs an authority that vouches for it.
fn host_of(url: &str, tls: Option<&OutsideTls>) -> Result<Host, CallError> {
    let (address, tls) = match (url.strip_prefix("http://"), url.strip_prefix("https://"), tls) {
        (Some(address), ..) => (address, None),
        (_, Some(address), Some(tls)) => (address, Some(tls.clone())),
        _ => ("", None),
    };
    match address.contains(':') && !address.contains('/') {
        true => Ok(Host::new(address, tls)),
        false => Err(CallError::Target { what: "server", value: url.to_owned() }),
    }
}

/// A problem of the API, as far as it is counted.
#[derive(Deserialize)]
struct Problem {
    code: String,
}

/// Keeps the leader known, and looks sooner when a call has failed.
async fn follow_leader(caller: std::sync::Weak<Caller>) {
    loop {
        let Some(caller) = caller.upgrade() else { return };
        let pause = match caller.find_leader().await {
            true => LOOK_EVERY,
            false => LOOK_AGAIN,
        };
        // A failure that came while the leader was looked for was before this answer.
        let _ = timeout(pause, caller.look.notified()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(server: &str) -> Target {
        Target {
            servers: vec![server.to_owned()],
            access_key: "ak_X".to_owned(),
            secret_key: "sk_X".to_owned(),
            audience: "default".to_owned(),
            via: Via::Any,
            keys: Vec::new(),
            ca_pem: None,
        }
    }

    #[test]
    fn a_target_that_cannot_be_used_is_named() {
        for bad in ["127.0.0.1:1", "https://a:1", "http://a:1/b", "http://a"] {
            let error = Caller::new(&target(bad)).err().unwrap().to_string();
            assert!(error.contains(bad), "{error}");
        }
        assert!(Caller::new(&target("http://127.0.0.1:1/")).is_ok());
        let keyless = Target { secret_key: " ".to_owned(), ..target("http://127.0.0.1:1") };
        assert!(Caller::new(&keyless).is_err());
        let untrusted = Target { ca_pem: Some("nonsense".to_owned()), ..target("http://127.0.0.1:1") };
        assert!(Caller::new(&untrusted).err().unwrap().to_string().starts_with("authority"));
    }

    #[test]
    fn only_failures_that_pass_are_repeated() {
        assert!(CallError::Late.passes());
        assert!(CallError::Refused { status: 503, code: "no_leader".to_owned() }.passes());
        assert!(!CallError::Refused { status: 422, code: "handler_unknown".to_owned() }.passes());
        let limited = CallError::Refused { status: 429, code: "rate_limited".to_owned() };
        assert!(limited.passes() && !limited.is_of_the_replica());
    }

    #[test]
    fn a_signed_request_names_its_host_and_its_query() {
        let caller = Caller::new(&target("http://127.0.0.1:1")).unwrap();
        let call = Call { method: "GET", path: "/p", query: "a=1", key: Some("k-1"), signer: 0 };
        let request = caller.sign(&caller.hosts[0], call, Bytes::new());
        assert_eq!(request.uri().to_string(), "/p?a=1");
        assert_eq!(request.headers()["host"], "127.0.0.1:1");
        assert_eq!(request.headers()["idempotency-key"], "k-1");
        assert_eq!(request.headers()["x-signature"].len(), 64);
        assert!(!request.headers().contains_key("content-type"));
    }

    #[test]
    fn other_keys_submit_in_turn_and_the_own_one_looks() {
        let pair = |name: &str| KeyPair { access_key: name.to_owned(), secret_key: "sk_Y".to_owned() };
        let keys = vec![pair("ak_1"), pair("ak_2")];
        let caller = Caller::new(&Target { keys, ..target("http://127.0.0.1:1") }).unwrap();
        assert_eq!([0, 1, 2, 3].map(|number| caller.signer_of(number)), [1, 2, 1, 2]);
        let call = Call { method: "GET", path: "/p", query: "", key: None, signer: 2 };
        let request = caller.sign(&caller.hosts[0], call, Bytes::new());
        assert_eq!(request.headers()["x-access-key"], "ak_2");
        let alone = Caller::new(&target("http://127.0.0.1:1")).unwrap();
        assert_eq!(alone.signer_of(7), 0);
    }
}
