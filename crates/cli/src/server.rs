//! `orloj server`: wires one scheduler replica together, and takes it apart in order.
//!
//! ```text
//!  public listener ─▶ api ─▶ scheduler (on the leader) ─▶ executors
//!  internal listener ─▶ api ─▶ store ◀─ transport ─▶ peers
//! ```

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use orloj_api::{Api, Directory, Parts, Takes, debug_router, internal_router, peer, public_router};
use orloj_model::id::{CallerId, NodeId};
use orloj_model::time::{Clock, ClusterClock};
use orloj_net::{Bounds, ClusterTls, TlsOptions, serve};
use orloj_raft_store::http::HttpTransport;
use orloj_raft_store::{Environment, MemberInfo, Store};
use orloj_scheduler::Service;
use orloj_scheduler::link::HttpLink;
use orloj_wire::clock::SystemClock;
use orloj_wire::random::SystemRandom;
use orloj_wire::sign::Secret;
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::args::ServerArgs;
use crate::config::{check_loopback, load, named};
use crate::exit::{Failure, Outcome};
use crate::process::{end_with_parent, hangups, raise_file_limit, stop_token};
use crate::remote::output;
use crate::telemetry;

mod callbacks;
mod secrets;
mod tls;

use secrets::Secrets;
use tls::{PublicOptions, ReplicaTls};

/// The configuration file of a replica.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Config {
    /// Where to listen for callers, `host:port`. Default: host and port of `store.api`.
    pub listen: Option<String>,
    /// Where to listen for administrators, `host:port`; `listen` then takes none of their calls. Default: nowhere, and
    /// `listen` takes them, too.
    pub listen_admin: Option<String>,
    /// Where to listen for replicas and executors, `host:port`. Default: `store.internal`.
    pub listen_internal: Option<String>,
    /// The file with keys and secrets, mode 0600. Required.
    pub secrets_file: PathBuf,
    /// Where to listen for people in trouble, `host:port` on loopback: the probe, this node's own table, a
    /// snapshot on demand, all unsigned. Default: nowhere.
    pub listen_debug: Option<String>,
    /// What callers sign for: names the environment, 1-64 of `[a-z0-9.-]`. Default: `default`.
    pub audience: Option<String>,
    /// Whether `GET /debug/probe` answers on the public listener. Default: no.
    pub debug_probe: bool,
    /// Threads for everything but the disk, which has its own, 1-1024. Default: one for every two cores, at least one.
    pub worker_threads: Option<usize>,
    /// Certificates of this replica: with them, replicas and executors speak TLS with each other, and callers with
    /// this replica. Default: none.
    pub tls: Option<TlsOptions>,
    /// How callers are spoken to, where that differs.
    pub tls_public: PublicOptions,
    /// The replicated store.
    pub store: orloj_raft_store::Options,
    /// The leader's loop.
    pub scheduler: orloj_scheduler::Options,
    /// Callbacks.
    pub callbacks: callbacks::Options,
}

/// From the signal to the hand-over of the leadership, at most.
const TRANSFER_PATIENCE: Duration = Duration::from_secs(3);
/// For each part to end after it was told to.
const PART_PATIENCE: Duration = Duration::from_secs(6);

/// What a configuration may ask for at most.
const MAX_WORKER_THREADS: usize = 1_024;

impl Config {
    /// Reads and checks a configuration file.
    ///
    /// # Errors
    /// What is wrong, with key and value.
    pub fn load(path: &Path) -> Result<Config, Failure> {
        let config: Config = load(path)?;
        config.check().with_context(|| named(path)).map_err(Failure::usage)?;
        Ok(config)
    }

    fn check(&self) -> anyhow::Result<()> {
        self.store.check().context("[store]")?;
        self.scheduler.check().map_err(|error| anyhow!("[scheduler] {error}"))?;
        self.callbacks.check().context("[callbacks]")?;
        let audience = self.audience();
        let fits =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-');
        if !(1..=64).contains(&audience.len()) || !audience.bytes().all(fits) {
            anyhow::bail!("audience = {audience:?}: must be 1-64 of [a-z0-9.-]");
        }
        if let Some(address) = &self.listen_debug {
            check_loopback("listen-debug", address)?;
        }
        if let Some(threads) = self.worker_threads
            && !(1..=MAX_WORKER_THREADS).contains(&threads)
        {
            anyhow::bail!("worker-threads = {threads}: must be 1-{MAX_WORKER_THREADS}");
        }
        if self.secrets_file.as_os_str().is_empty() {
            anyhow::bail!("secrets-file is missing: it holds the keys of callers and the cluster's secrets");
        }
        Ok(())
    }

    fn audience(&self) -> &str {
        self.audience.as_deref().unwrap_or("default")
    }

    /// Each step of an entry wakes the next one, and on two threads most of these wake the other thread, which costs more
    /// than the step: one thread serves a steady load with a fifth less, and sooner. What is heavy, syncs and flushes, has
    /// threads of its own in any case.
    fn worker_threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.worker_threads.unwrap_or_else(|| (cores() / 2).clamp(1, MAX_WORKER_THREADS))
    }

    fn listen(&self) -> &str {
        let api = self.store.api.as_str();
        let host = api.strip_prefix("http://").or_else(|| api.strip_prefix("https://")).unwrap_or(api);
        self.listen.as_deref().unwrap_or(host)
    }

    fn listen_internal(&self) -> &str {
        self.listen_internal.as_deref().unwrap_or(&self.store.internal)
    }
}

/// Runs the replica; returns once it has stopped in order.
///
/// # Errors
/// A configuration that cannot be used, storage or listeners that cannot be had, a storage fault.
pub fn run(args: &ServerArgs) -> Outcome {
    #[cfg(feature = "mutants")]
    switch_on_mutant().map_err(Failure::usage)?;
    let config = Config::load(&args.config)?;
    let tls = ReplicaTls::load(&config, args.insecure_plaintext)
        .with_context(|| named(&args.config))
        .map_err(Failure::usage)?;
    let secrets = Secrets::load(&config.secrets_file).map_err(Failure::usage)?;
    if args.run.print_config {
        let text = toml::to_string_pretty(&config).context("cannot show the configuration")?;
        output::raw(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    telemetry::init(args.run.log_format).map_err(Failure::usage)?;
    if let Some(parent) = args.run.exit_with_parent {
        end_with_parent(parent)?;
    }
    let threads = config.worker_threads();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    raise_file_limit();
    let served = runtime.block_on(serve_replica(config, secrets, tls));
    runtime.shutdown_timeout(PART_PATIENCE);
    served?;
    Ok(ExitCode::SUCCESS)
}

/// Breaks this replica on purpose, in the way that `ORLOJ_MUTANT` names.
#[cfg(feature = "mutants")]
fn switch_on_mutant() -> anyhow::Result<()> {
    let name = std::env::var("ORLOJ_MUTANT").ok();
    orloj_model::mutant::switch_on(name.as_deref()).map_err(|error| anyhow!("ORLOJ_MUTANT: {error}"))
}

async fn serve_replica(config: Config, secrets: Secrets, tls: ReplicaTls) -> anyhow::Result<()> {
    let stop = stop_token().context("cannot handle signals")?;
    // The listeners first: a port that is taken must not cost a start of the storage.
    let public = bind("listen", config.listen()).await?;
    let admin = bind_if("listen-admin", config.listen_admin.as_deref()).await?;
    let internal = bind("listen-internal", config.listen_internal()).await?;
    let debug = bind_if("listen-debug", config.listen_debug.as_deref()).await?;
    let listeners = Listeners { public, admin, internal, debug };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let signer = peer::signer(secrets.cluster.clone(), Arc::clone(&clock));
    let transport = HttpTransport::new(signer, tls.cluster.as_ref())?;
    // One cluster's time for whoever stamps entries and for the leader's loop.
    let cluster_clock = ClusterClock::new(Arc::clone(&clock));
    let stamps = Arc::new(cluster_clock.clone());
    let environment = Environment::new(stamps, Arc::new(SystemRandom));
    let store = Store::open(config.store.clone(), Arc::new(transport), environment).await?;
    tracing::info!(node = ?store.status().id, api = %config.store.api, internal = %config.store.internal, "replica started");
    let ends = CancellationToken::new();
    tls.keep_fresh(&hangups().context("cannot handle signals")?, &ends);
    let parts = Running::start(&config, secrets, &store, cluster_clock, (listeners, tls), &ends)?;
    let mut fatal = store.fatal();
    let failure = tokio::select! {
        () = stop.cancelled() => None,
        reason = fatal.wait_for(Option::is_some) => {
            Some(reason.ok().and_then(|reason| reason.clone()).unwrap_or_else(|| "the store is gone".to_owned()))
        }
        // A replica that could lead and not schedule would be worse than one less.
        () = parts.scheduler_ended.cancelled() => Some("the scheduler has ended".to_owned()),
    };
    if failure.is_none() {
        hand_over(&store).await;
    }
    ends.cancel();
    let scheduling = parts.stop(&store).await;
    match failure {
        Some(reason) => scheduling.and(Err(anyhow!(reason))).context("the replica must stop"),
        None => scheduling,
    }
}

async fn bind(option: &str, address: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("{option} = {address:?}: cannot listen"))
}

async fn bind_if(option: &str, address: Option<&str>) -> anyhow::Result<Option<TcpListener>> {
    match address {
        Some(address) => bind(option, address).await.map(Some),
        None => Ok(None),
    }
}

fn api_options(
    config: &Config,
    cluster_secret: Secret,
    max_running: BTreeMap<CallerId, u32>,
    tls: Option<ClusterTls>,
) -> orloj_api::Options {
    orloj_api::Options {
        audience: config.audience().to_owned(),
        cluster_secret,
        internal: config.store.internal.clone(),
        debug_probe: config.debug_probe,
        max_running,
        tls,
    }
}

/// Where a replica listens.
struct Listeners {
    public: TcpListener,
    admin: Option<TcpListener>,
    internal: TcpListener,
    debug: Option<TcpListener>,
}

impl Listeners {
    /// The ports that others can reach.
    fn ports(&self) -> std::io::Result<Vec<u16>> {
        let reached = [Some(&self.public), self.admin.as_ref(), Some(&self.internal)];
        reached.into_iter().flatten().map(|listener| Ok(listener.local_addr()?.port())).collect()
    }
}

/// The parts of a replica that run by themselves.
struct Running {
    api: Api,
    scheduler: JoinHandle<Result<(), String>>,
    /// Cancelled once the scheduler has ended, however it did.
    scheduler_ended: CancellationToken,
    public: JoinHandle<()>,
    admin: Option<JoinHandle<()>>,
    internal: JoinHandle<()>,
    /// Ends the internal listener, which peers need until this node has handed over and stopped.
    internal_ends: CancellationToken,
}

impl Running {
    fn start(
        config: &Config,
        secrets: Secrets,
        store: &Store,
        cluster_clock: ClusterClock,
        (listeners, tls): (Listeners, ReplicaTls),
        ends: &CancellationToken,
    ) -> anyhow::Result<Running> {
        let clock = Arc::clone(cluster_clock.base());
        let mut registry = Registry::default();
        let directory = Directory::new(secrets.keyring, secrets.sealer, Arc::new(store.clone()));
        let name = peer::REPLICA.to_owned();
        let link = HttpLink::new(name, secrets.executors, Arc::clone(&clock), tls.cluster.as_ref())?;
        let callbacks = config.callbacks.sender(directory.clone(), Arc::clone(&clock), listeners.ports()?)?;
        let scheduler = Service::new(
            store.clone(),
            Arc::new(link),
            cluster_clock,
            Arc::new(SystemRandom),
            orloj_scheduler::Options { max_running: secrets.max_running.clone(), ..config.scheduler.clone() },
            orloj_scheduler::metrics::Metrics::register(&mut registry),
        )
        .with_callbacks(callbacks);
        let parts = Parts {
            options: api_options(config, secrets.cluster, secrets.max_running, tls.cluster),
            directory,
            backend: Arc::new(store.clone()),
            leader: Arc::new(scheduler.handle()),
            outlook: config.callbacks.outlook(Arc::clone(&clock), listeners.ports()?)?,
            clock,
            random: Arc::new(SystemRandom),
            metrics: orloj_api::Metrics::register(&mut registry),
        };
        let api = Api::start(parts, ends.clone())?;
        let internal_ends = CancellationToken::new();
        if let Some(debug) = listeners.debug {
            // Ends with the others; nobody waits for what it still answers.
            tokio::spawn(serve(debug, debug_router(api.clone()), Bounds::PUBLIC, None, ends.clone()));
        }
        let registry = Arc::new(registry);
        let serve_public = |listener, takes| {
            let router = public_router(api.clone(), Arc::clone(&registry), takes);
            tokio::spawn(serve(listener, router, Bounds::PUBLIC, tls.public.clone(), ends.clone()))
        };
        let takes = if listeners.admin.is_some() { Takes::Callers } else { Takes::All };
        let public = serve_public(listeners.public, takes);
        let admin = listeners.admin.map(|listener| serve_public(listener, Takes::Administrators));
        let scheduler_ended = CancellationToken::new();
        let (told, stop) = (scheduler_ended.clone().drop_guard(), ends.clone());
        Ok(Running {
            api: api.clone(),
            scheduler: tokio::spawn(async move {
                let _told = told;
                scheduler.run(stop).await
            }),
            scheduler_ended,
            public,
            admin,
            internal: tokio::spawn(serve(
                listeners.internal,
                internal_router(api),
                Bounds::INTERNAL,
                tls.internal,
                internal_ends.clone(),
            )),
            internal_ends,
        })
    }

    /// Waits for the callers' requests and the leader's loop, writes down what was refused meanwhile, then stops the
    /// store and the internal listener.
    async fn stop(self, store: &Store) -> anyhow::Result<()> {
        let scheduling = ended("scheduler", self.scheduler).await;
        ended("public listener", self.public).await;
        if let Some(admin) = self.admin {
            ended("listener of administrators", admin).await;
        }
        within("audit", self.api.finish()).await;
        within("store", store.shutdown()).await;
        self.internal_ends.cancel();
        ended("internal listener", self.internal).await;
        match scheduling {
            Some(Err(reason)) => Err(anyhow!(reason).context("the scheduler failed")),
            _ => Ok(()),
        }
    }
}

/// Moves the leadership to another voter, so that the cluster does not wait for an election.
async fn hand_over(store: &Store) {
    if !store.leadership().borrow().leading {
        return;
    }
    match timeout(TRANSFER_PATIENCE, transfer(store)).await {
        Ok(Some(to)) => tracing::info!(to, "leadership handed over"),
        Ok(None) => tracing::warn!("no other replica takes the leadership"),
        Err(_) => tracing::warn!("the leadership was not handed over in time"),
    }
}

/// The voter that took it.
async fn transfer(store: &Store) -> Option<NodeId> {
    let own = store.status().id;
    for MemberInfo { id, voter, .. } in store.members() {
        // One that does not answer is down, or is stopping as well.
        if !voter || Some(id) == own || store.peer_status(id).await.is_err() {
            continue;
        }
        match store.transfer_leader(id).await {
            Ok(()) => return Some(id),
            Err(error) => tracing::warn!(%error, to = id, "the leadership was not handed over"),
        }
    }
    None
}

async fn ended<T>(part: &str, handle: JoinHandle<T>) -> Option<T> {
    match within(part, handle).await? {
        Ok(value) => Some(value),
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

async fn within<T>(part: &str, work: impl Future<Output = T>) -> Option<T> {
    let done = timeout(PART_PATIENCE, work).await.ok();
    if done.is_none() {
        tracing::warn!(part, "did not stop in time");
    }
    done
}
