//! A replica as `orloj server` composes it, on the simulated network, disk and clocks.

mod seams;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use orloj_api::{Api, Directory, Keyring, Limits, Outlook, Parts, Sealer};
use orloj_model::id::CallerId;
use orloj_model::query;
use orloj_model::task::Status;
use orloj_model::time::{Clock, ClusterClock};
use orloj_raft_store::environment::Environment;
use orloj_raft_store::{Options as StoreOptions, Store};
use orloj_scheduler::callback::{Callbacks, Policy, Resolver};
use orloj_scheduler::{Options as SchedulerOptions, Scheduler, Service};
use orloj_wire::callback::{HostEntry, HostRule, WebhookSecret};
use orloj_wire::random::SystemRandom;
use orloj_wire::sign::Secret;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::disk::Disk;
use crate::net::{Message, Net, Reply, Request};
use crate::place::{Place, SINK_NAME, SINK_PORT};

/// Whom callers sign for.
pub const AUDIENCE: &str = "sim";
/// The caller that all clients are.
pub const CALLER: &str = "sim";
/// The clients' access key.
pub const ACCESS_KEY: &str = "ak_sim";
/// The clients' secret.
pub const CALLER_SECRET: &str = "sk_SSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSS";
/// The access key that may do little.
pub const NARROW_KEY: &str = "ak_narrow";
/// The secret of that key.
pub const NARROW_SECRET: &str = "sk_NNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNN";
/// What that key may do, whichever replica leads.
pub const NARROW: Limits =
    Limits { requests_per_s: 4.0, requests_burst: 4, submits_per_s: 1.0, submits_burst: 1, waiters: 1 };
/// What executors sign with.
pub const EXECUTOR_SECRET: &str = "ek_EEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEE";
const CLUSTER_SECRET: &str = "ck_CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC";
/// The largest answer, in bytes.
const ANSWER_LIMIT: usize = 64 << 20;

/// There is no name server: where callbacks go is found out by the sends.
struct NoNames;

impl Resolver for NoNames {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Vec<IpAddr>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}

/// What a replica is made of.
#[derive(Clone)]
pub struct Setup {
    /// Which one it is.
    pub place: Place,
    /// The store's options, the folder among them.
    pub store: StoreOptions,
    /// The scheduler's options.
    pub scheduler: SchedulerOptions,
    /// The network.
    pub net: Net,
    /// Its disk.
    pub disk: Disk,
}

impl Setup {
    /// The folder of its data.
    pub fn dir(&self) -> &PathBuf {
        &self.store.dir
    }
}

/// A replica that runs.
#[derive(Clone)]
pub struct Replica {
    /// Its store.
    pub store: Store,
    /// Its scheduler.
    pub scheduler: Scheduler,
    /// Its host's clocks.
    pub clock: Arc<dyn Clock>,
    public: Router,
    internal: Router,
    debug: Router,
}

/// Where the process of a replica stands.
#[derive(Clone)]
pub enum State {
    /// It opens its storage.
    Booting,
    /// It runs.
    Up(Box<Replica>),
    /// It has ended by itself, for this reason.
    Ended(String),
}

/// The process of a replica as others find it. Clones stand for the same.
#[derive(Clone)]
pub struct Process {
    state: Arc<Mutex<State>>,
}

impl Process {
    /// Starts a replica. Called inside its host's runtime.
    pub fn start(setup: Setup, clock: Arc<dyn Clock>) -> Process {
        let process = Process { state: Arc::new(Mutex::new(State::Booting)) };
        let this = process.clone();
        tokio::spawn(async move {
            let reason = match this.run(setup, clock).await {
                Ok(reason) => reason,
                Err(error) => format!("{error:#}"),
            };
            this.set(State::Ended(reason));
        });
        process
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The replica, when it runs.
    pub fn up(&self) -> Option<Replica> {
        match self.state() {
            State::Up(replica) => Some(*replica),
            State::Booting | State::Ended(_) => None,
        }
    }

    fn set(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// Runs until the replica must end; answers why.
    async fn run(&self, setup: Setup, clock: Arc<dyn Clock>) -> anyhow::Result<String> {
        let place = setup.place;
        let cluster_clock = ClusterClock::new(Arc::clone(&clock));
        let environment = Environment {
            engine: Arc::new(setup.disk.clone()),
            runner: Arc::new(seams::Tasks::new(setup.disk.clone())),
            clock: Arc::new(cluster_clock.clone()),
            random: Arc::new(SystemRandom),
            probe: setup.disk.probe(),
        };
        let wire = Arc::new(seams::Wire::new(setup.net.clone(), place));
        let store = Store::open(setup.store.clone(), Arc::clone(&wire) as _, environment).await?;
        let mut registry = Registry::default();
        let metrics = orloj_scheduler::metrics::Metrics::register(&mut registry);
        let (link, random) = (Arc::clone(&wire) as _, Arc::new(SystemRandom));
        let service = Service::new(store.clone(), link, cluster_clock, random, setup.scheduler, metrics);
        let scheduler = service.handle();
        let directory = Directory::new(
            keyring(secret(CALLER_SECRET)?, secret(EXECUTOR_SECRET)?)?,
            Sealer::default(),
            Arc::new(store.clone()),
        );
        let (link, tenants) = (Arc::clone(&wire) as _, Arc::new(directory.clone()));
        let service = service.with_callbacks(Callbacks { link, tenants, own_ports: Vec::new() });
        let parts = Parts {
            options: orloj_api::Options {
                audience: AUDIENCE.to_owned(),
                cluster_secret: secret(CLUSTER_SECRET)?,
                internal: setup.store.internal,
                debug_probe: false,
                max_running: BTreeMap::new(),
                tls: None,
            },
            directory,
            backend: Arc::new(store.clone()),
            leader: Arc::new(scheduler.clone()),
            outlook: Outlook::new(Arc::new(NoNames), Vec::new(), Arc::clone(&clock)),
            clock: Arc::clone(&clock),
            random: Arc::new(SystemRandom),
            metrics: orloj_api::Metrics::register(&mut registry),
        };
        let never = CancellationToken::new();
        let api = Api::start_over(parts, wire, never.clone());
        self.set(State::Up(Box::new(Replica {
            store: store.clone(),
            scheduler,
            clock,
            public: orloj_api::public_router(api.clone(), Arc::new(registry), orloj_api::Takes::All),
            internal: orloj_api::internal_router(api.clone()),
            debug: orloj_api::debug_router(api),
        })));
        let mut fatal = store.fatal();
        tokio::select! {
            biased;
            reason = fatal.wait_for(Option::is_some) => {
                Ok(reason.ok().and_then(|reason| reason.clone()).unwrap_or_default())
            }
            ended = service.run(never) => {
                Ok(ended.err().unwrap_or_else(|| "the scheduler has ended".to_owned()))
            }
        }
    }
}

fn secret(text: &str) -> anyhow::Result<Secret> {
    Secret::new(text).ok_or_else(|| anyhow::anyhow!("an empty secret"))
}

fn keyring(caller: Secret, executors: Secret) -> anyhow::Result<Keyring> {
    // The load is not held up; limits of rates are those of another key.
    let limits = Limits {
        requests_per_s: 100_000.0,
        requests_burst: 100_000,
        submits_per_s: 100_000.0,
        submits_burst: 100_000,
        waiters: 1_000,
    };
    let mut keyring = Keyring::new();
    keyring.add_caller(CallerId::new(CALLER)?, ACCESS_KEY, caller, limits)?;
    keyring.add_caller(CallerId::new("narrow")?, NARROW_KEY, secret(NARROW_SECRET)?, NARROW)?;
    keyring.share_with_executors(executors)?;
    let entry = HostEntry {
        host: SINK_NAME.to_owned(),
        ports: vec![SINK_PORT],
        plain_http: true,
        allow_cidrs: Vec::new(),
    };
    let host = HostRule::new(&entry).map_err(|problem| anyhow::anyhow!(problem))?;
    let policy = Policy { hosts: vec![host], secrets: vec![webhook()], unopened: false };
    keyring.set_callbacks(CallerId::new(CALLER)?, policy);
    Ok(keyring)
}

/// What signs callbacks.
pub fn webhook() -> WebhookSecret {
    WebhookSecret::of([7; 32])
}

impl Replica {
    /// Whether every task of its table is over.
    pub fn has_finished(&self) -> bool {
        let (view, caller) = (self.store.view(), CallerId::new(CALLER));
        let Ok(caller) = caller else { return false };
        let none = |status| {
            query::tasks_of(&view, &caller, Some(status), None, 1).is_ok_and(|tasks| tasks.is_empty())
        };
        none(Status::Pending) && none(Status::Running)
    }

    /// Answers a request.
    pub async fn answer(self, request: Request) -> Reply {
        match request {
            Request::Raft(kind, envelope, body) => {
                let answer = self.store.handle_rpc(kind, envelope, body).await;
                Reply::Raft(answer.map_err(|error| error.to_string()))
            }
            Request::Internal(message) => serve(self.internal, message).await,
            Request::Public(message) => serve(self.public, message).await,
            Request::Callback(_) => Reply::Http { status: 404, headers: Vec::new(), body: Bytes::new() },
        }
    }

    /// Answers a request to the debug listener: the body of a 200.
    ///
    /// # Errors
    /// The status and the body of anything else.
    pub async fn debug(self, target: &str) -> Result<Bytes, String> {
        let message = Message { method: "GET".into(), target: target.into(), ..Message::default() };
        match serve(self.debug, message).await {
            Reply::Http { status: 200, body, .. } => Ok(body),
            other => Err(format!("{other:?}")),
        }
    }
}

async fn serve(router: Router, message: Message) -> Reply {
    let mut request = axum::http::Request::builder().method(message.method.as_str()).uri(&message.target);
    for (name, value) in &message.headers {
        request = request.header(name, value);
    }
    let Ok(request) = request.body(Body::from(message.body)) else {
        return Reply::Http { status: 400, headers: Vec::new(), body: Bytes::new() };
    };
    let Ok(response) = router.oneshot(request).await;
    let (head, body) = response.into_parts();
    let text = |value: &axum::http::HeaderValue| value.to_str().unwrap_or_default().to_owned();
    let headers = head.headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
    match axum::body::to_bytes(body, ANSWER_LIMIT).await {
        Ok(body) => Reply::Http { status: head.status.as_u16(), headers, body },
        Err(_) => Reply::Http { status: 500, headers, body: Bytes::new() },
    }
}
