//! A node's parts and their life: opened in order, started once the node has an id, stopped together.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use openraft::{Config, SnapshotPolicy};
use orloj_model::id::NodeId;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Options;
use crate::disk::Disk;
use crate::environment::Environment;
use crate::error::Fault;
use crate::failure::OpenError;
use crate::faults::Faults;
use crate::files;
use crate::identity::{Data, Identity};
use crate::log::{LogMonitor, LogStore, TAIL_BYTES};
use crate::machine::Machine;
use crate::peer::{Link, Peers};
use crate::proposer::{self, Packer, Proposer};
use crate::published::Published;
use crate::pulse::{self, Pulse};
use crate::receive::Reception;
use crate::runner::{Runner, blocking};
use crate::snapshot::{Live, Snapshots};
use crate::status::Leadership;
use crate::transport::Transport;
use crate::types::{LoggedMembership, Member, Raft};
use crate::{bootstrap, upkeep};

/// Directory of the log.
const LOG_DIR: &str = "raft";
/// Directory of the tables.
const STATE_DIR: &str = "state";
/// Directory of the snapshots.
const SNAPSHOT_DIR: &str = "snapshots";
/// Longest wait for the databases to close.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// A node of the cluster.
pub struct Node {
    /// What it was told.
    pub options: Options,
    /// Runs what waits for the disk.
    pub runner: Arc<dyn Runner>,
    /// Its way to peers, without an id.
    pub link: Link,
    /// Where its parts report that it must stop.
    pub faults: Faults,
    /// The disk of its data.
    pub disk: Arc<Disk>,
    /// Its snapshots.
    pub snapshots: Arc<Snapshots>,
    /// What it has applied.
    pub published: Arc<Published>,
    /// Where commands are handed in.
    pub proposer: Proposer,
    /// Who leads.
    pub leadership: watch::Sender<Leadership>,
    /// When a leader was last heard.
    pub pulse: Pulse,
    /// Held while the membership is changed, so that there is one change at a time.
    pub changing: tokio::sync::Mutex<()>,
    /// The snapshot that is being received.
    pub reception: tokio::sync::Mutex<Reception>,
    /// Stops its tasks.
    pub stop: CancellationToken,
    /// Its tasks.
    pub tasks: TaskTracker,
    identity: Mutex<Identity>,
    raft: OnceLock<Raft<Machine>>,
    parked: Mutex<Option<Parked>>,
    machine_gone: tokio::sync::Mutex<mpsc::Receiver<()>>,
}

/// What waits for the node to get an id.
struct Parked {
    log: LogStore,
    machine: Machine,
    packer: Packer,
}

impl Node {
    /// Opens the data directory, and starts the node when it has an id.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn open(
        options: Options,
        transport: Arc<dyn Transport>,
        environment: Environment,
    ) -> Result<Arc<Node>, OpenError> {
        options.check()?;
        let dir = options.dir.clone();
        fs::create_dir_all(&dir).map_err(Fault::io("create", &dir))?;
        let disk = Arc::new(Disk::open(dir.clone(), options.disk, Arc::clone(&environment.probe))?);
        let data = data_in(&dir, &environment)?;
        let identity = Identity::open(&dir, &options.cluster, data, &*environment.random)?;
        let fresh = identity.id.is_none();
        let Environment { runner, clock, .. } = environment.clone();
        let opening = move || open_all(&dir, fresh, &environment);
        let (log, state, snapshots) = blocking(&*runner, opening).await?;

        let (faults, snapshots) = (Faults::new(), Arc::new(snapshots));
        let (alive, machine_gone) = mpsc::channel(1);
        let shared = (Arc::clone(&snapshots), Arc::clone(&disk), faults.clone());
        let machine = Machine::new(state, shared, (Arc::clone(&runner), Arc::clone(&clock)), alive)?;
        let (proposer, packer) = proposer::queue(options.proposals, clock);
        let link = Link::new(transport, options.cluster.clone(), 0, identity.birth.clone());
        let node = Arc::new(Node {
            runner,
            link,
            faults,
            disk,
            snapshots,
            published: machine.published(),
            proposer,
            leadership: watch::Sender::new(Leadership::default()),
            pulse: Pulse::default(),
            changing: tokio::sync::Mutex::default(),
            reception: tokio::sync::Mutex::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            identity: Mutex::new(identity.clone()),
            raft: OnceLock::new(),
            parked: Mutex::new(Some(Parked { log, machine, packer })),
            machine_gone: tokio::sync::Mutex::new(machine_gone),
            options,
        });
        if let Some(id) = identity.id {
            node.start(id).await?;
        }
        node.spawn(upkeep::watch_disk(Arc::clone(&node)));
        node.spawn(bootstrap::run(Arc::clone(&node)));
        Ok(node)
    }

    /// Starts Raft under this id. Does nothing when it has been started.
    ///
    /// # Errors
    /// Raft refuses what the storage holds.
    pub async fn start(self: &Arc<Self>, id: NodeId) -> Result<(), OpenError> {
        let parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Parked { log, machine, packer }) = parked else { return Ok(()) };
        machine.cover(&log.state()).await?;
        let config = self.raft_config()?;
        let chunk_timeout = Duration::from_millis(self.options.snapshot.chunk_timeout_ms);
        let peers = Peers::new(self.link.under(id), chunk_timeout, Arc::clone(&self.runner));
        let monitor = log.monitor();
        let raft = Raft::new(id, Arc::new(config), peers, log, machine)
            .await
            .map_err(|error| OpenError::Raft(error.to_string()))?;
        // Raft answers only once it has published what it found in the storage. Until then it would seem to
        // peers that this node knows no membership, as if the cluster had never been booted.
        raft.is_initialized().await.map_err(|fatal| OpenError::Raft(fatal.to_string()))?;
        self.spawn_all(&raft, monitor, packer);
        // Only `start` sets it, and only the call that found something parked gets here.
        let _ = self.raft.set(raft);
        tracing::info!(id, cluster = self.options.cluster, "the node has started");
        Ok(())
    }

    fn spawn_all(self: &Arc<Self>, raft: &Raft<Machine>, monitor: LogMonitor, packer: Packer) {
        self.spawn(packer.run(raft.clone()));
        self.spawn(upkeep::watch_leadership(Arc::clone(self), raft.clone()));
        self.spawn(upkeep::watch_raft(Arc::clone(self), raft.clone()));
        self.spawn(upkeep::stop_on_fault(Arc::clone(self), raft.clone()));
        self.spawn(upkeep::watch_log(Arc::clone(self), monitor));
        self.spawn(upkeep::take_snapshots(Arc::clone(self), raft.clone()));
        self.spawn(upkeep::compare_digests(Arc::clone(self)));
    }

    fn raft_config(&self) -> Result<Config, OpenError> {
        let timing = self.options.timing;
        let config = Config {
            cluster_name: self.options.cluster.clone(),
            heartbeat_interval: timing.heartbeat_ms,
            // A follower that has just answered entries needs no heartbeat besides. Even so the next one comes well
            // within the three heartbeats after which a follower stands for election at the earliest.
            heartbeat_min_interval: Some(timing.heartbeat_ms / 2),
            election_timeout_min: timing.election_min_ms,
            election_timeout_max: timing.election_max_ms,
            enable_pre_vote: Some(true),
            // A leader that comes back stands for election like everybody else: its tables may have fallen
            // back while it was away.
            enable_leader_restore: Some(false),
            allow_log_reversion: None,
            max_payload_entries: 2048,
            max_append_entries: Some(4096),
            api_batch_capacity: 4096,
            api_batch_linger_ms: 0,
            api_channel_size: Some(8192),
            snapshot_policy: SnapshotPolicy::Never,
            max_in_snapshot_log_to_keep: self.options.snapshot.keep_log_entries,
            purge_batch_size: self.options.snapshot.purge_batch(),
            replication_lag_threshold: 1_000,
            install_snapshot_timeout: 600_000,
            ..Config::default()
        };
        config.validate().map_err(|error| OpenError::Raft(error.to_string()))
    }

    /// Runs a task until it ends or the node stops.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = task => {}
            }
        });
    }

    /// Raft, once the node has an id.
    pub fn raft(&self) -> Option<&Raft<Machine>> {
        self.raft.get()
    }

    /// Whether this node leads and has not heard a majority for longer than an election takes: what it
    /// proposed now would not be committed by it.
    pub fn has_lost_its_majority(&self) -> bool {
        let Some(raft) = self.raft() else { return true };
        let patience =
            Duration::from_millis(self.options.timing.election_max_ms + self.options.timing.heartbeat_ms);
        majority_silence(raft).is_some_and(|silence| silence > patience) && !self.is_alone()
    }

    /// The leader that this node knows, where it is there: as a follower it has heard it, as the leader it has heard a
    /// majority, within the time that a change of leader takes.
    pub fn living_leader(&self) -> Option<NodeId> {
        let known = *self.leadership.borrow();
        let silence = match (known.leading, self.raft()) {
            (true, Some(raft)) => [majority_silence(raft), self.pulse.silence()].into_iter().flatten().min(),
            _ => self.pulse.silence(),
        };
        let election = Duration::from_millis(self.options.timing.election_max_ms);
        pulse::living(known, self.is_alone(), silence, election)
    }

    /// Whether nobody else votes.
    fn is_alone(&self) -> bool {
        self.membership().voter_ids().count() < 2
    }

    /// The membership in force, as the last one in this node's log; empty before there is one.
    pub fn membership(&self) -> Arc<LoggedMembership> {
        use openraft::async_runtime::WatchReceiver as _;
        match self.raft.get() {
            Some(raft) => Arc::clone(&raft.server_metrics().borrow_watched().membership_config),
            None => Arc::default(),
        }
    }

    /// The identity as it stands.
    pub fn identity(&self) -> Identity {
        self.lock_identity().clone()
    }

    /// Reads the identity where it stands, without a copy: it is looked at with every call of a peer.
    pub fn with_identity<T>(&self, read: impl FnOnce(&Identity) -> T) -> T {
        read(&self.lock_identity())
    }

    /// Changes the identity, durably. `change` answers whether there is anything to write; with `false` the
    /// identity stays as it was, and so does the answer's meaning to the caller.
    ///
    /// # Errors
    /// IO. The identity has not changed then.
    pub fn change_identity(&self, change: impl FnOnce(&mut Identity) -> bool) -> Result<bool, Fault> {
        let mut held = self.lock_identity();
        let mut next = held.clone();
        if !change(&mut next) {
            return Ok(false);
        }
        next.write(&self.options.dir)?;
        *held = next;
        Ok(true)
    }

    fn lock_identity(&self) -> MutexGuard<'_, Identity> {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This node as a member.
    pub fn member(&self) -> Member {
        Member {
            internal: self.options.internal.clone(),
            api: self.options.api.clone(),
            birth: self.identity().birth,
        }
    }

    /// Stops everything.
    pub async fn shutdown(&self) {
        self.stop.cancel();
        if let Some(raft) = self.raft.get()
            && let Err(error) = raft.shutdown().await
        {
            tracing::warn!(%error, "raft did not stop in good order");
        }
        self.parked.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.tasks.close();
        self.tasks.wait().await;
        self.leadership.send_replace(Leadership::default());
        // The state machine lets go of its database a moment after raft has stopped.
        let gone = async { self.machine_gone.lock().await.recv().await };
        if tokio::time::timeout(CLOSE_WAIT, gone).await.is_err() {
            tracing::warn!("the state machine is still at work");
        }
        // So that the next start has little to apply again.
        let published = Arc::clone(&self.published);
        if let Err(fault) = blocking(&*self.runner, move || published.write_out()).await {
            tracing::warn!(%fault, "what was applied last is applied again by the next start");
        }
    }
}

/// For how long a leader has not heard a majority; `None` of a node that does not lead, or has not heard one yet.
fn majority_silence(raft: &Raft<Machine>) -> Option<Duration> {
    use openraft::async_runtime::WatchReceiver as _;
    let metrics = raft.metrics();
    let heard = metrics.borrow_watched().last_quorum_acked;
    heard.map(|heard| openraft::Instant::elapsed(&*heard))
}

fn data_in(dir: &Path, environment: &Environment) -> Result<Data, Fault> {
    let log = LogStore::exists(&dir.join(LOG_DIR), &*environment.engine)?;
    Ok(Data { log, state: Live::exists(&dir.join(STATE_DIR))? })
}

type Opened = (LogStore, (Live, crate::tables::StateDb), Snapshots);

fn open_all(dir: &Path, fresh: bool, environment: &Environment) -> Result<Opened, Fault> {
    let log_dir = dir.join(LOG_DIR);
    files::create_dir(&log_dir)?;
    let log = LogStore::open(&log_dir, TAIL_BYTES, environment)?;
    let snapshots = Snapshots::open(dir.join(SNAPSHOT_DIR))?;
    let state = Live::open(dir.join(STATE_DIR), fresh, Arc::clone(&environment.engine))?;
    Ok((log, state, snapshots))
}
