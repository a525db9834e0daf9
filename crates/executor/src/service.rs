//! The executor as a whole: starts every part, hands out a [`Handle`], stops in order.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use orloj_net::{Admission, Bounds, ClusterTls, Role, ServerTls, Tls, TlsOptions};
use orloj_wire::clock::Clock;
use orloj_wire::sign::Secret;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::time::{interval, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::Auth;
use crate::book::Book;
use crate::builtin;
use crate::core::{Core, Settings, StopReason};
use crate::dir::Dir;
use crate::drain;
use crate::error::{Error, OptionsError};
use crate::handler::Handlers;
use crate::intake::{self, Intake};
use crate::journal::Journal;
use crate::leader::LeaderClient;
use crate::ledger::MemoryLimits;
use crate::options::{LogOptions, Options, replica_address};
use crate::outbox;
use crate::presence::{self, Profile};
use crate::procs;
use crate::retention;
use crate::save_sender;
use crate::stats::Stats;
use crate::sync::lock;

/// How often the journal is tidied.
const TIDY_EVERY: Duration = Duration::from_secs(1);
/// What connections of the listener may cost. Answers that are under way may take half a second when everything
/// stops.
const BOUNDS: Bounds = Bounds {
    connections: 1_024,
    header_read: Duration::from_secs(10),
    header_bytes: 16 * 1024,
    streams: 256,
    window: 4 << 20,
    grace: Duration::from_millis(500),
};
/// How long running handlers may take to be gone when everything stops at once.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// Starts executors.
#[derive(Debug, Clone, Copy)]
pub struct Service;

impl Service {
    /// Starts an executor: locks its folder, begins a new life, ends what processes an earlier life left
    /// behind, reads its journal, opens its listener. `handlers` are the program's own; the built-in ones
    /// that the options switch on are added.
    ///
    /// Returns when pushes can be taken; registration goes on in the background until a leader answers.
    pub async fn start(options: Options, handlers: Handlers, clock: Arc<dyn Clock>) -> Result<Handle, Error> {
        options.check()?;
        let secret = options.read_secret()?;
        let tls = options.tls.as_ref().map(|tls| load_tls(tls, &options.id)).transpose()?;
        let handlers = builtin::add(handlers, &options.handlers)?;
        let dir = Dir::open(&options.dir)?;
        let incarnation = dir.next_incarnation(clock.wall_ms())?;
        let mark = dir.mark()?;
        let left = procs::kill_marked(&mark, procs::Match::Start).await;
        if left > 0 {
            tracing::warn!(processes = left, "processes of an earlier life were killed");
        }
        let limits = MemoryLimits {
            window: Duration::from_millis(options.dedupe_window_ms),
            bytes: options.dedupe_bytes,
        };
        let (journal, failure) = Journal::open(&dir.join("journal"), limits, Arc::clone(&clock))?;
        let (listener, address) = listen(&options.listen).await?;
        let settings = Settings {
            id: options.id.clone(),
            incarnation,
            slots: options.slots(),
            logs: dir.join("logs"),
            log_limit: options.logs.max_bytes,
            mark,
            stop_grace: options.stop_grace(),
        };
        let leader = leader_client(&options, secret.clone(), Arc::clone(&clock), tls.as_ref())?;
        let core = build(&options, settings, leader, handlers, journal, Arc::clone(&clock));
        let auth = Arc::new(Auth::new(secret, &options.id, clock));
        tracing::info!(id = %options.id, incarnation, %address, "the executor listens");
        launch(Parts { core, auth, tls, options, dir, listener, address, failure })
    }
}

async fn listen(address: &str) -> Result<(TcpListener, SocketAddr), Error> {
    let failed =
        |cause: std::io::Error| Error::Listen { address: address.to_owned(), cause: cause.to_string() };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// Reads the certificate, which must name this executor; its cluster is the one whose replicas are spoken to.
fn load_tls(options: &TlsOptions, id: &str) -> Result<ClusterTls, OptionsError> {
    let loaded = Tls::load_named(options.files(), Role::Executor, id);
    let (tls, own) = loaded.map_err(|error| OptionsError::new("tls", error.to_string()))?;
    Ok(ClusterTls { tls, cluster: own.cluster })
}

fn leader_client(
    options: &Options,
    secret: Secret,
    clock: Arc<dyn Clock>,
    tls: Option<&ClusterTls>,
) -> Result<LeaderClient, OptionsError> {
    let mut replicas = Vec::new();
    for replica in &options.replicas {
        replicas.push(replica_address(replica).map_err(|problem| OptionsError::new("replicas", problem))?);
    }
    LeaderClient::new(&options.id, secret, replicas, clock, tls)
        .map_err(|problem| OptionsError::new("replicas", problem))
}

fn build(
    options: &Options,
    settings: Settings,
    leader: LeaderClient,
    handlers: Handlers,
    journal: Journal,
    clock: Arc<dyn Clock>,
) -> Arc<Core> {
    let ledger = lock(journal.ledger());
    let mut book = Book::new(options.slots(), options.queue(), ledger.round());
    ledger.reports().for_each(|report| book.restore(report.attempt.clone()));
    drop(ledger);
    Arc::new(Core {
        settings,
        clock,
        handlers,
        leader,
        journal,
        book: Mutex::new(book),
        live: Mutex::new(HashMap::new()),
        stats: Mutex::new(Stats::default()),
        saves: Arc::default(),
        tasks: TaskTracker::new(),
        outbox: tokio::sync::Notify::new(),
        hurry: tokio::sync::Notify::new(),
        beat: tokio::sync::Notify::new(),
        changed: watch::Sender::new(()),
        fatal: watch::Sender::new(None),
    })
}

struct Parts {
    core: Arc<Core>,
    auth: Arc<Auth>,
    tls: Option<ClusterTls>,
    options: Options,
    dir: Dir,
    listener: TcpListener,
    address: SocketAddr,
    failure: oneshot::Receiver<Error>,
}

/// Starts the loops and the one task that stops them.
fn launch(parts: Parts) -> Result<Handle, Error> {
    let Parts { core, auth, tls, options, dir, listener, address, failure } = parts;
    let loops = TaskTracker::new();
    let running = CancellationToken::new();
    let present = running.child_token();
    let every = |token: &CancellationToken, work: futures_util::future::BoxFuture<'static, ()>| {
        let token = token.clone();
        loops.spawn(async move { token.run_until_cancelled(work).await });
    };
    let profile = profile(&options, &core, address);
    every(&present, Box::pin(presence::run(Arc::clone(&core), profile)));
    every(&running, Box::pin(outbox::run(Arc::clone(&core))));
    every(&running, Box::pin(save_sender::run(Arc::clone(&core))));
    every(&running, Box::pin(housekeep(Arc::clone(&core), options.logs.clone())));
    let reload = watch::Sender::new(());
    // Whoever shows no certificate gets no further than /healthz and /metrics.
    let server =
        tls.as_ref().map(|own| ServerTls::new(Arc::clone(&own.tls), Admission::Optional)).transpose();
    let server = server.map_err(|error| OptionsError::new("tls", error.to_string()))?;
    if let (Some(own), Some(options)) = (&tls, &options.tls) {
        let fresh = Arc::clone(&own.tls).keep_fresh(options.reload(), reload.subscribe(), running.clone());
        loops.spawn(fresh);
    }
    let intake = Intake { core: Arc::clone(&core), auth, tls, running: running.clone() };
    loops.spawn(orloj_net::serve(listener, intake::router(intake), BOUNDS, server, running.clone()));
    let stop = CancellationToken::new();
    let end = watch::Sender::new(None);
    let handle = Handle {
        inner: Arc::new(Inner {
            core: Arc::clone(&core),
            address,
            stop: stop.clone(),
            present,
            reload,
            end: end.subscribe(),
            draining: Mutex::new(false),
        }),
    };
    tokio::spawn(supervise(Supervised { core, loops, running, stop, failure, end, _dir: dir }));
    Ok(handle)
}

fn profile(options: &Options, core: &Core, address: SocketAddr) -> Profile {
    Profile {
        address: options.advertise.clone().unwrap_or_else(|| address.to_string()),
        handlers: core.handlers.names(),
        slots: options.slots(),
        queue: options.queue(),
        weight: options.weight(),
        zone: options.zone.clone(),
        labels: options.labels.clone(),
        heartbeat_ms: options.heartbeat_ms,
    }
}

async fn housekeep(core: Arc<Core>, logs: LogOptions) {
    let mut tidy = interval(TIDY_EVERY);
    let mut sweep = interval(Duration::from_millis(logs.sweep_ms));
    let limits = retention::Limits { keep_ms: logs.keep_ms, keep_bytes: logs.keep_bytes };
    loop {
        tokio::select! {
            _ = tidy.tick() => core.journal.tidy(),
            _ = sweep.tick() => sweep_logs(&core, limits).await,
        }
    }
}

async fn sweep_logs(core: &Core, limits: retention::Limits) {
    let dir = core.settings.logs.clone();
    let live: HashSet<_> =
        lock(&core.live).keys().map(|attempt| crate::log::log_path(&dir, attempt)).collect();
    let now_ms = core.clock.wall_ms();
    let swept = tokio::task::spawn_blocking(move || retention::sweep(&dir, &live, limits, now_ms)).await;
    match swept {
        Ok(Ok(0)) => {}
        Ok(Ok(files)) => tracing::info!(files, "old logs were deleted"),
        Ok(Err(cause)) => tracing::warn!(cause = %cause, "old logs could not be deleted"),
        Err(cause) => tracing::warn!(cause = %cause, "the sweep of old logs broke off"),
    }
}

struct Supervised {
    core: Arc<Core>,
    loops: TaskTracker,
    running: CancellationToken,
    stop: CancellationToken,
    failure: oneshot::Receiver<Error>,
    end: watch::Sender<Option<Result<(), Error>>>,
    /// The folder stays locked until everything has stopped.
    _dir: Dir,
}

/// Waits for a reason to stop, then stops everything in order.
async fn supervise(mut parts: Supervised) {
    let mut fatal = parts.core.fatal.subscribe();
    let result = tokio::select! {
        () = parts.stop.cancelled() => Ok(()),
        // A writer that has gone without a word has panicked.
        error = &mut parts.failure => Err(error.unwrap_or_else(|_| parts.core.journal_gone())),
        Ok(error) = fatal.wait_for(Option::is_some) => error.clone().map_or(Ok(()), Err),
    };
    if let Err(error) = &result {
        tracing::error!(cause = %error, "the executor stops");
    }
    let core = &parts.core;
    lock(&core.book).drain();
    core.stop_all(StopReason::Abandoned);
    parts.running.cancel();
    parts.loops.close();
    core.tasks.close();
    if timeout(STOP_PATIENCE, core.tasks.wait()).await.is_err() {
        tracing::error!("handlers do not stop; the executor stops without them");
    }
    parts.loops.wait().await;
    core.journal.close().await;
    tracing::info!("the executor has stopped");
    let Supervised { end, _dir, .. } = parts;
    drop(_dir);
    end.send_replace(Some(result));
}

/// A running executor. Cheap to clone; dropping it stops nothing.
#[derive(Clone)]
pub struct Handle {
    inner: Arc<Inner>,
}

struct Inner {
    core: Arc<Core>,
    address: SocketAddr,
    stop: CancellationToken,
    present: CancellationToken,
    reload: watch::Sender<()>,
    end: watch::Receiver<Option<Result<(), Error>>>,
    draining: Mutex<bool>,
}

impl Handle {
    /// The bound address of its listener.
    pub fn address(&self) -> SocketAddr {
        self.inner.address
    }

    /// Its life: grows with every start of the same folder.
    pub fn incarnation(&self) -> u64 {
        self.inner.core.settings.incarnation
    }

    /// Leaves in order: takes nothing new, hands back what has not started, waits for what runs (at most
    /// `patience`; then stops it and reports it as a failure that may be retried), sends its reports, says
    /// goodbye, stops. Returns when it has stopped. Reports that cannot be delivered stay in the folder and
    /// are sent by the next life. Once begun it goes on, also when the returned future is dropped; a second
    /// call only waits.
    pub async fn drain(&self, patience: Duration) {
        let first = !std::mem::replace(&mut *lock(&self.inner.draining), true);
        if first {
            let inner = Arc::clone(&self.inner);
            tokio::spawn(async move {
                drain::run(&inner.core, &inner.present, patience).await;
                inner.stop.cancel();
            });
        }
        // The reason for stopping is told by `stopped`.
        let _ = self.stopped().await;
    }

    /// How many reports of ended attempts the leader has not acknowledged yet.
    pub fn waiting_reports(&self) -> usize {
        lock(self.inner.core.journal.ledger()).waiting()
    }

    /// Reads the files with the certificates again now, instead of at their next turn.
    pub fn reload_certificates(&self) {
        self.inner.reload.send_replace(());
    }

    /// Stops at once: handlers are killed, and nothing is reported that was not over.
    pub fn shutdown(&self) {
        self.inner.stop.cancel();
    }

    /// Waits until it has stopped: after a drain or a shutdown with Ok, else with the reason.
    pub async fn stopped(&self) -> Result<(), Error> {
        let mut end = self.inner.end.clone();
        match end.wait_for(Option::is_some).await {
            Ok(result) => result.clone().unwrap_or(Ok(())),
            // The supervisor went with its runtime.
            Err(_) => Ok(()),
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("address", &self.inner.address).finish_non_exhaustive()
    }
}
