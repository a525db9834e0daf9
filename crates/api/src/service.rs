//! The API's parts, and the way of a request through them: check, then answer here or hand on to the leader.

mod doubt;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use orloj_model::id::{CallerId, NodeId, TaskIds};
use orloj_model::mutant::{Mutant, is_on};
use orloj_net::ClusterTls;
use orloj_wire::clock::Clock;
use orloj_wire::problem::Code;
use orloj_wire::random::Random;
use orloj_wire::sign::Secret;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::auth;
use crate::backend::Backend;
use crate::bodies::{Bodies, Room};
use crate::denials::Denials;
use crate::directory::Directory;
use crate::forward::{ADMIT_PATH, Carrier, FORWARD_PATH, ForwardError, Forwarder, HttpCarrier};
use crate::gate::{Gate, Now};
use crate::heard::Heard;
use crate::hub::Hub;
use crate::keyring::Key;
use crate::leader::Leader;
use crate::limit::Decision;
use crate::metrics::Metrics;
use crate::ops;
use crate::outcome::{Answer, Failure};
use crate::outlook::Outlook;
use crate::page::Tokens;
use crate::request::Request;
use crate::route::{self, Operation};
use doubt::{Doubts, Unchecked};

/// How long a request waits for a leader to be known before it is refused.
const LEADER_WAIT: Duration = Duration::from_millis(900);
/// How long the answer of a leader is waited for once another one leads.
const LAST_WORD: Duration = Duration::from_secs(1);
/// How often refused calls are written down.
const DENIALS_EVERY: Duration = Duration::from_secs(5);
/// Every so many times it is also looked for what is remembered of keys that are gone: once a minute.
const SWEEP_ROUNDS: u64 = 12;
/// How long the leader is waited for with what this replica can answer by itself.
const LOCAL_PATIENCE: Duration = Duration::from_secs(2);
/// Synchronous submissions that wait on one node at once.
const SYNC_WAITERS: usize = 256;
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
    /// How many tasks of callers may run at a time, as the configuration says: whatever the tables say of them. It is only
    /// told from here; the leader keeps it.
    pub max_running: BTreeMap<CallerId, u32>,
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
    /// Draws ids and secrets.
    pub random: Arc<dyn Random>,
    /// What is counted.
    pub metrics: Metrics,
    /// Looks where the names of callbacks lead.
    pub outlook: Outlook,
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
    pub(crate) ids: TaskIds,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) metrics: Metrics,
    pub(crate) outlook: Outlook,
    pub(crate) gate: Arc<Gate>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) tokens: Tokens,
    pub(crate) denials: Denials,
    /// Questions to the leader about keys that may not do what they ask for here.
    doubts: Mutex<Doubts>,
    /// Held by the one that writes them down.
    pub(crate) telling: tokio::sync::Mutex<()>,
    /// Places for what executors send of their attempts, until their signature is checked.
    pub(crate) executor_bodies: Bodies,
    /// The same for what they send of themselves.
    pub(crate) executor_signs: Bodies,
    /// Places for what replicas send, until their signature is checked.
    pub(crate) replica_bodies: Bodies,
    /// What executors have said where there is no TLS.
    pub(crate) heard: Heard,
    /// Places for synchronous submissions.
    pub(crate) sync_places: Semaphore,
    pub(crate) forwarder: Forwarder,
    /// The term in which this node, as the leader, has applied everything that was committed before it; 0 for none.
    settled_term: AtomicU64,
}

/// The status of an answer that lets a request in, to the replica that asked.
const LET_IN: u16 = 204;

/// An answer that shows how the buckets stand.
fn limited(answer: Answer, decision: &Decision) -> Answer {
    decision.headers().into_iter().fold(answer, |answer, (name, value)| answer.with(name, value))
}

/// What a request was found to be.
pub(crate) struct Checked {
    operation: Operation,
    key: Arc<Key>,
    /// The term in which this node led and had caught up before; `None` where it did not.
    term: Option<u64>,
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
        let backend = Arc::clone(&parts.backend);
        let hub = Arc::new(Hub::new(move || backend.events()));
        tokio::spawn(stop.clone().run_until_cancelled_owned(Arc::clone(&hub).run()));
        let secret = parts.options.cluster_secret.clone();
        let shared = Shared {
            tokens: Tokens::new(&secret),
            forwarder: Forwarder::new(carrier, secret, Arc::clone(&parts.clock)),
            heard: Heard::new(Arc::clone(&parts.clock)),
            options: parts.options,
            directory: parts.directory,
            backend: parts.backend,
            leader: parts.leader,
            clock: parts.clock,
            ids: TaskIds::new(Arc::clone(&parts.random)),
            random: parts.random,
            metrics: parts.metrics,
            outlook: parts.outlook,
            gate: Arc::default(),
            hub,
            denials: Denials::default(),
            doubts: Mutex::default(),
            telling: tokio::sync::Mutex::default(),
            executor_bodies: Bodies::new(Room::EXECUTORS),
            executor_signs: Bodies::new(Room::EXECUTORS),
            replica_bodies: Bodies::new(Room::REPLICAS),
            sync_places: Semaphore::new(SYNC_WAITERS),
            settled_term: AtomicU64::new(0),
        };
        let api = Api { shared: Arc::new(shared) };
        tokio::spawn(stop.run_until_cancelled_owned(api.clone().keep_house()));
        api
    }

    /// Writes down what was refused since the last time. For the end of a replica, while it still reaches the others.
    pub async fn finish(&self) {
        self.shared.tell_denials().await;
    }

    async fn keep_house(self) {
        for round in 1_u64.. {
            tokio::time::sleep(DENIALS_EVERY).await;
            self.shared.tell_denials().await;
            if round.is_multiple_of(SWEEP_ROUNDS) {
                self.shared.forget_gone_keys();
            }
        }
    }

    /// Lets a request in that a follower answers by itself, or not; it is checked like one from outside.
    pub(crate) async fn let_in_forwarded(&self, request: Request) -> Result<Answer, NotLeading> {
        let shared = &self.shared;
        if !shared.leads() {
            return Err(NotLeading);
        }
        let answer = match shared.judge_here(&request).await {
            Err(failure) => failure.answer(&request.request_id),
            Ok((operation, key)) => match shared.let_in(&operation, &key, &request) {
                Ok(decision) => limited(Answer::empty(LET_IN), &decision),
                Err(refused) => refused,
            },
        };
        Ok(answer)
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
        Ok(shared.serve_here(&request).await)
    }
}

impl Shared {
    pub(crate) fn leads(&self) -> bool {
        self.backend.leadership().borrow().leading
    }

    /// The route, the signature and the scope of a request, by tables that are not behind on a node that leads: a new
    /// leader first applies everything that was committed before it, the disabling of a key among it. Once in a term;
    /// from then on it applies every change before anybody is told of it.
    pub(crate) async fn check(&self, request: &Request) -> Result<Checked, Unchecked> {
        let term = match self.settle().await {
            Ok(term) => term,
            Err(failure) => {
                // A path that there is not needs no tables, and a key of the secrets file is as good as ever for what
                // any replica answers by itself.
                let local = route::find(&request.method, &request.path)?.is_local();
                if !local || !self.directory.is_of_the_file(&request.credentials.access_key) {
                    return Err(failure.into());
                }
                None
            }
        };
        let (operation, key) = self.judge(request).map_err(|failure| Unchecked::of(failure, term))?;
        Ok(Checked { operation, key, term })
    }

    /// Waits, as the leader of a new term, until everything that was committed before is applied here. The term;
    /// `None` where another node leads, and judges.
    async fn settle(&self) -> Result<Option<u64>, Failure> {
        let now = *self.backend.leadership().borrow();
        if !now.leading {
            return Ok(None);
        }
        if self.settled_term.load(Ordering::Acquire) >= now.term {
            return Ok(Some(now.term));
        }
        match self.backend.barrier().await {
            Ok(_) => {
                self.settled_term.fetch_max(now.term, Ordering::AcqRel);
                Ok(Some(now.term))
            }
            Err(_) if !self.leads() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The check by which a request is let in here: with a key that is sure to be good now. What was checked before
    /// this node led, or without asking anybody, was checked by tables that may lag behind the disabling of the key.
    async fn judge_here(&self, request: &Request) -> Result<(Operation, Arc<Key>), Failure> {
        let Checked { operation, key, term } = self.check(request).await.map_err(Unchecked::into_failure)?;
        match operation.is_local() {
            // What this replica knows of a key of the secrets file is all there is.
            true if self.directory.is_of_the_file(&request.credentials.access_key) => Ok((operation, key)),
            // It reads no tables by itself, so the leadership is proved, and the tables are caught up, for it alone.
            true => match self.backend.barrier().await {
                Ok(_) => self.judge(request),
                Err(_) => Err(Failure::no_leader()),
            },
            false if term.is_some() => Ok((operation, key)),
            false => Err(Failure::no_leader()),
        }
    }

    /// The route, the signature and the scope of a request, by the tables as they are here.
    fn judge(&self, request: &Request) -> Result<(Operation, Arc<Key>), Failure> {
        let operation = route::find(&request.method, &request.path)?;
        let target = request.target(&self.options.audience);
        let key = self.directory.key(&request.credentials.access_key)?;
        auth::authenticate(key.as_deref(), &request.credentials, target, operation.access())?;
        let key = key.expect("a request of no key is refused");
        if !auth::is_of_class(request.keys_of, &key.principal) {
            let detail = "keys of this class are taken at another listener";
            return Err(Failure::new(Code::ScopeDenied, detail));
        }
        ops::check_scope(&operation, &key)?;
        Ok((operation, key))
    }

    /// Answers a request that came in from outside and has been checked.
    pub(crate) async fn answer(&self, checked: &Checked, request: &Request) -> Answer {
        let Checked { operation, key, term } = checked;
        if operation.is_local() {
            return self.answer_local(operation, key, request).await;
        }
        let now = *self.backend.leadership().borrow();
        let has_led_since = now.leading && *term == Some(now.term);
        if has_led_since || (is_on(Mutant::LocalReads) && !operation.changes()) {
            return self.serve(operation, key, request).await;
        }
        match self.ask_leader(FORWARD_PATH, operation, request).await {
            Ok(Some(answer)) => answer,
            Ok(None) => self.serve_here(request).await,
            Err(failure) => failure.answer(&request.request_id),
        }
    }

    /// Answers what any replica answers by itself, also without a leader. While one can be asked, it is the leader that
    /// lets the request in: it alone knows of a key that was disabled a moment ago, of spent nonces and of tokens.
    async fn answer_local(&self, operation: &Operation, key: &Key, request: &Request) -> Answer {
        if !self.leads() {
            let asked = self.ask_leader(ADMIT_PATH, operation, request);
            match tokio::time::timeout(LOCAL_PATIENCE, asked).await {
                Ok(Ok(Some(let_in))) if let_in.status == LET_IN => {
                    let mut answer = self.make(operation, key, request).await;
                    answer.headers.extend(let_in.headers);
                    return answer;
                }
                Ok(Ok(Some(refused))) => return refused,
                // It has come to lead, or nobody can be asked.
                Ok(Ok(None) | Err(_)) | Err(_) => {}
            }
        }
        self.serve_here(request).await
    }

    /// Serves a request here, by a judgement of now.
    async fn serve_here(&self, request: &Request) -> Answer {
        match self.judge_here(request).await {
            Ok((operation, key)) => self.serve(&operation, &key, request).await,
            Err(failure) => failure.answer(&request.request_id),
        }
    }

    /// Frees what is remembered of keys that are gone. Only a leader that is not behind knows that they are; others
    /// free what has expired.
    fn forget_gone_keys(&self) {
        let Ok(now) = self.now() else { return };
        let leadership = *self.backend.leadership().borrow();
        let sure = leadership.leading && self.settled_term.load(Ordering::Acquire) >= leadership.term;
        let known = self.gate.keys();
        let gone = if sure { self.directory.gone(known).unwrap_or_default() } else { Vec::new() };
        self.gate.sweep(&gone, now);
    }

    /// The time by which requests are judged, in Unix seconds.
    pub(crate) fn auth_s(&self) -> Result<i64, Failure> {
        Ok(self.now()?.auth_s)
    }

    /// Answers here: admission, then the call itself.
    async fn serve(&self, operation: &Operation, key: &Key, request: &Request) -> Answer {
        match self.let_in(operation, key, request) {
            Ok(decision) => limited(self.make(operation, key, request).await, &decision),
            Err(refused) => refused,
        }
    }

    /// Lets a request in, or refuses it: by its time, its nonce and its key's rates.
    fn let_in(&self, operation: &Operation, key: &Key, request: &Request) -> Result<Decision, Answer> {
        let now = self.now().map_err(|failure| failure.answer(&request.request_id))?;
        self.gate.admit(&request.credentials, key, operation.cost(), now).map_err(|refused| {
            let answer = refused.failure.answer(&request.request_id);
            match &refused.decision {
                Some(decision) => limited(answer, decision),
                None => answer,
            }
        })
    }

    /// Makes a call that was let in.
    async fn make(&self, operation: &Operation, key: &Key, request: &Request) -> Answer {
        let answer = ops::run(self, operation, key, request).await;
        answer.unwrap_or_else(|failure| failure.answer(&request.request_id))
    }

    fn now(&self) -> Result<Now, Failure> {
        let cluster_ms = self.backend.now_ms()?;
        let auth_s = self.clock.wall_ms().max(cluster_ms).div_euclid(1000);
        Ok(Now { auth_s, monotonic: self.clock.monotonic() })
    }

    /// Hands a request on to the leader, for what `path` stands for, and brings back its answer; `None` when this node
    /// has come to lead.
    async fn ask_leader(
        &self,
        path: &'static str,
        operation: &Operation,
        request: &Request,
    ) -> Result<Option<Answer>, Failure> {
        let deadline = tokio::time::Instant::now() + LEADER_WAIT;
        let mut leadership = self.backend.leadership();
        let mut was_broken = false;
        loop {
            let known =
                tokio::time::timeout_at(deadline, leadership.wait_for(|now| now.leader.is_some())).await;
            let Ok(Ok(now)) = known.map(|known| known.map(|now| *now)) else {
                return Err(Failure::no_leader());
            };
            let Some(leader) = now.leader.filter(|_| !now.leading) else { return Ok(None) };
            let sent = async {
                match self.internal_address(leader) {
                    Some(address) => self.forwarder.send(path, (leader, &address), operation, request).await,
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
                // A copy of this read was let in, and its answer was lost on the way: whoever asks has sent it once.
                Ok(answer) if was_broken && answer.code() == Some(Code::NonceReplayed) => {
                    let detail =
                        "the leader's answer was lost on the way: sign the request anew and ask again";
                    return Err(Failure::new(Code::NoLeader, detail));
                }
                Ok(answer) => return Ok(Some(answer)),
                Err(ForwardError::Broken) if operation.changes() => return Err(Failure::commit_unknown()),
                Err(error) => {
                    was_broken |= error == ForwardError::Broken;
                    tracing::debug!(leader, ?error, "the leader did not answer");
                }
            }
            if tokio::time::Instant::now() + LEADER_RETRY >= deadline {
                return Err(Failure::no_leader());
            }
            tokio::time::sleep(LEADER_RETRY).await;
        }
    }

    pub(crate) fn internal_address(&self, id: NodeId) -> Option<String> {
        self.backend.members().into_iter().find(|member| member.id == id).map(|member| member.internal)
    }
}
