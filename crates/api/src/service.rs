//! The API's parts, and the way of a request through them: check, then answer here or hand on to the leader.

use std::sync::Arc;
use std::time::Duration;

use orloj_model::access::Denial;
use orloj_model::command::{AccessCommand, Command};
use orloj_model::id::NodeId;
use orloj_model::mutant::{Mutant, is_on};
use orloj_net::ClusterTls;
use orloj_wire::clock::Clock;
use orloj_wire::problem::Code;
use orloj_wire::random::Random;
use orloj_wire::sign::Secret;
use tokio_util::sync::CancellationToken;

use crate::auth;
use crate::backend::Backend;
use crate::denials::Denials;
use crate::directory::Directory;
use crate::forward::{Carrier, DENIALS_PATH, ForwardError, Forwarder, HttpCarrier};
use crate::gate::{Gate, Now};
use crate::hub::Hub;
use crate::keyring::Key;
use crate::leader::Leader;
use crate::metrics::Metrics;
use crate::ops;
use crate::outcome::{Answer, Failure};
use crate::page::Tokens;
use crate::request::Request;
use crate::route::{self, Operation};

/// How long a request waits for a leader to be known before it is refused.
const LEADER_WAIT: Duration = Duration::from_millis(900);
/// How long the answer of a leader is waited for once another one leads.
const LAST_WORD: Duration = Duration::from_secs(1);
/// How often refused calls are written down.
const DENIALS_EVERY: Duration = Duration::from_secs(5);
/// The pause before a leader that could not be reached is tried again.
const LEADER_RETRY: Duration = Duration::from_millis(50);

/// How the API of one node is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// The audience that callers sign for: names the environment, `[a-z0-9.-]{1,64}`.
    pub audience: String,
    /// Signs what replicas say to each other.
    pub cluster_secret: Secret,
    /// This node's internal address as the others call it; they sign for it.
    pub internal: String,
    /// Whether `/debug/probe` answers.
    pub debug_probe: bool,
    /// With it, replicas and executors must show certificates that name them.
    pub tls: Option<ClusterTls>,
}

/// Everything that the API of one node is made of.
pub struct Parts {
    /// How it is set up.
    pub options: Options,
    /// Who may call.
    pub directory: Directory,
    /// The replicated store.
    pub backend: Arc<dyn Backend>,
    /// The leader's loop.
    pub leader: Arc<dyn Leader>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Draws the ids of tasks.
    pub random: Arc<dyn Random>,
    /// What is counted.
    pub metrics: Metrics,
}

/// The API of one node. Clones stand for the same.
#[derive(Clone)]
pub struct Api {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) directory: Directory,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) leader: Arc<dyn Leader>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) metrics: Metrics,
    pub(crate) gate: Arc<Gate>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) tokens: Tokens,
    pub(crate) denials: Denials,
    forwarder: Forwarder,
}

/// A request that this node was asked to answer as the leader, which it is not.
#[derive(Debug)]
pub(crate) struct NotLeading;

impl Api {
    /// Puts the parts together and begins to follow the store's events, until `stop`.
    ///
    /// # Errors
    /// The HTTP client for calls to the leader cannot be made.
    pub fn start(parts: Parts, stop: CancellationToken) -> Result<Api, reqwest::Error> {
        let carrier = HttpCarrier::new(parts.options.tls.as_ref())?;
        Ok(Self::start_over(parts, Arc::new(carrier), stop))
    }

    /// [`start`](Api::start) with another way to the leader.
    pub fn start_over(parts: Parts, carrier: Arc<dyn Carrier>, stop: CancellationToken) -> Api {
        let hub = Arc::new(Hub::default());
        let events = parts.backend.events();
        tokio::spawn(stop.clone().run_until_cancelled_owned(Arc::clone(&hub).run(events)));
        let secret = parts.options.cluster_secret.clone();
        let shared = Shared {
            tokens: Tokens::new(&secret),
            forwarder: Forwarder::new(carrier, secret, Arc::clone(&parts.clock)),
            options: parts.options,
            directory: parts.directory,
            backend: parts.backend,
            leader: parts.leader,
            clock: parts.clock,
            random: parts.random,
            metrics: parts.metrics,
            gate: Arc::default(),
            hub,
            denials: Denials::default(),
        };
        let api = Api { shared: Arc::new(shared) };
        tokio::spawn(stop.run_until_cancelled_owned(api.clone().keep_telling_denials()));
        api
    }

    async fn keep_telling_denials(self) {
        loop {
            tokio::time::sleep(DENIALS_EVERY).await;
            self.shared.tell_denials().await;
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Answers a request that a follower handed on; it is checked like one from outside.
    pub(crate) async fn answer_forwarded(&self, request: Request) -> Result<Answer, NotLeading> {
        let shared = &self.shared;
        if !shared.leads() {
            return Err(NotLeading);
        }
        let answer = match shared.check(&request) {
            Ok((operation, key)) => shared.serve(&operation, &key, &request).await,
            Err(failure) => failure.answer(&request.request_id),
        };
        Ok(answer)
    }
}

impl Shared {
    pub(crate) fn leads(&self) -> bool {
        self.backend.leadership().borrow().leading
    }

    /// The route, the signature and the scope of a request.
    pub(crate) fn check(&self, request: &Request) -> Result<(Operation, Arc<Key>), Failure> {
        let operation = route::find(&request.method, &request.path)?;
        let target = request.target(&self.options.audience);
        let key = self.directory.key(&request.credentials.access_key)?;
        auth::authenticate(key.as_deref(), &request.credentials, target, operation.access())?;
        let key = key.expect("a request of no key is refused");
        if let Some(scope) = operation.scope().filter(|scope| !key.rights.scopes.contains(scope)) {
            let detail = format!("this access key has no scope {:?}", scope.name());
            return Err(Failure::new(Code::ScopeDenied, detail));
        }
        Ok((operation, key))
    }

    /// Answers a request that came in from outside and has been checked.
    pub(crate) async fn answer(&self, operation: &Operation, key: &Key, request: &Request) -> Answer {
        let local = operation.is_local() || (is_on(Mutant::LocalReads) && !operation.changes());
        if local || self.leads() {
            return self.serve(operation, key, request).await;
        }
        match self.hand_on(operation, request).await {
            Ok(Some(answer)) => answer,
            Ok(None) => self.serve(operation, key, request).await,
            Err(failure) => failure.answer(&request.request_id),
        }
    }

    /// Answers a request of a key that is not known here, which a follower may only be behind to know.
    pub(crate) async fn answer_unknown(&self, request: &Request) -> Option<Answer> {
        let unknown = self.directory.key(&request.credentials.access_key).is_ok_and(|key| key.is_none());
        let operation = route::find(&request.method, &request.path).ok()?;
        if !unknown || self.leads() || operation.is_local() {
            return None;
        }
        match self.hand_on(&operation, request).await {
            Ok(Some(answer)) => Some(answer),
            // What came to nothing here may have come to something there: nobody is told that a key is bad.
            Err(failure) => Some(failure.answer(&request.request_id)),
            Ok(None) => {
                let (operation, key) = self.check(request).ok()?;
                Some(self.serve(&operation, &key, request).await)
            }
        }
    }

    /// Writes refused calls down: here on the leader, else through it. Those that cannot be are let go.
    pub(crate) async fn tell_denials(&self) {
        let denials = self.denials.take();
        if denials.is_empty() {
            return;
        }
        if self.leads() {
            return self.write_denials(denials).await;
        }
        let leader = self.backend.leadership().borrow().leader;
        let Some(address) = leader.and_then(|leader| self.internal_address(leader)) else { return };
        let body = serde_json::to_vec(&denials).expect("records serialise");
        if self.forwarder.tell(&address, DENIALS_PATH, body.into()).await.is_err() {
            tracing::debug!("refused calls could not be handed to the leader");
        }
    }

    pub(crate) async fn write_denials(&self, denials: Vec<Denial>) {
        let command = Command::Access(Box::new(AccessCommand::Denied { denials }));
        if let Err(error) = self.backend.propose(command).await {
            tracing::debug!(%error, "refused calls could not be written down");
        }
    }

    /// Answers here: admission, then the call itself.
    async fn serve(&self, operation: &Operation, key: &Key, request: &Request) -> Answer {
        let now = match self.now() {
            Ok(now) => now,
            Err(failure) => return failure.answer(&request.request_id),
        };
        let (mut answer, decision) = match self.gate.admit(&request.credentials, key, operation.cost(), now) {
            Err(refused) => (refused.failure.answer(&request.request_id), refused.decision),
            Ok(decision) => {
                let answer = ops::run(self, operation, key, request).await;
                (answer.unwrap_or_else(|failure| failure.answer(&request.request_id)), Some(decision))
            }
        };
        for (name, value) in decision.iter().flat_map(|decision| decision.headers()) {
            answer = answer.with(name, value);
        }
        answer
    }

    fn now(&self) -> Result<Now, Failure> {
        let cluster_ms = self.backend.now_ms()?;
        let auth_s = self.clock.wall_ms().max(cluster_ms).div_euclid(1000);
        Ok(Now { auth_s, monotonic: self.clock.monotonic() })
    }

    /// Hands a request on to the leader and brings back its answer; `None` when this node has come to lead.
    async fn hand_on(&self, operation: &Operation, request: &Request) -> Result<Option<Answer>, Failure> {
        let deadline = tokio::time::Instant::now() + LEADER_WAIT;
        let mut leadership = self.backend.leadership();
        loop {
            let known =
                tokio::time::timeout_at(deadline, leadership.wait_for(|now| now.leader.is_some())).await;
            let Ok(Ok(now)) = known.map(|known| known.map(|now| *now)) else {
                return Err(Failure::no_leader());
            };
            let Some(leader) = now.leader.filter(|_| !now.leading) else { return Ok(None) };
            let sent = async {
                match self.internal_address(leader) {
                    Some(address) => self.forwarder.send(leader, &address, operation, request).await,
                    None => Err(ForwardError::NotTaken),
                }
            };
            let moved = async {
                let _ =
                    leadership.wait_for(|later| later.leader != Some(leader) || later.term != now.term).await;
                // A leader that was asked to hand over still answers; one that is cut off never does. A read is
                // asked again at once.
                if operation.changes() {
                    tokio::time::sleep(LAST_WORD).await;
                }
            };
            let result = tokio::select! {
                biased;
                result = sent => result,
                () = moved => Err(ForwardError::Broken),
            };
            match result {
                Ok(answer) => return Ok(Some(answer)),
                Err(ForwardError::Broken) if operation.changes() => return Err(Failure::commit_unknown()),
                Err(error) => tracing::debug!(leader, ?error, "the leader did not answer"),
            }
            if tokio::time::Instant::now() + LEADER_RETRY >= deadline {
                return Err(Failure::no_leader());
            }
            tokio::time::sleep(LEADER_RETRY).await;
        }
    }

    fn internal_address(&self, id: NodeId) -> Option<String> {
        self.backend.members().into_iter().find(|member| member.id == id).map(|member| member.internal)
    }
}
