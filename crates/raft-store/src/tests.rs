//! Whole nodes in one process, on real disks, over a network in memory.

mod boot;
mod change;
mod crash;
mod digest;
mod disk;
mod replicate;
mod snapshot;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use orloj_model::command::{DueTime, Submit};
use orloj_model::id::{CallerId, NodeId, TaskId};
use orloj_model::random::SeededRandom;
use orloj_model::schema::SpecTable;
use orloj_model::tables::ReadExt as _;
use orloj_model::task::{Origin, RetryPolicy, Strategy, TaskSpec};
use orloj_model::time::{ClusterClock, ManualClock};
use orloj_model::{Command, Reply};
use tempfile::TempDir;

use crate::codec::{self, Schema};
use crate::config::{Options, SeedMember, SnapshotOptions, Timing};
use crate::disk::Probe;
use crate::engine::rocks::Rocks;
use crate::status::NodeStatus;
use crate::tables::StateDb;
use crate::transport::{RpcEnvelope, RpcKind, Transport, TransportError};
use crate::types::Member;
use crate::{Applied, Environment, OpenError, ProposeError, Store};

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);

/// A network in memory. Calls reach who is plugged in at an address, unless the way is cut.
#[derive(Default)]
struct Net {
    plugged: Mutex<HashMap<String, Store>>,
    cut: Mutex<HashSet<String>>,
}

impl Net {
    fn at(&self, address: &str) -> Option<Store> {
        self.plugged.lock().unwrap().get(address).cloned()
    }

    fn is_cut(&self, address: &str) -> bool {
        self.cut.lock().unwrap().contains(address)
    }
}

/// One node's end of the network.
struct Wire {
    net: Arc<Net>,
    from: String,
}

impl Transport for Wire {
    fn call<'a>(
        &'a self,
        to: &'a Member,
        kind: RpcKind,
        envelope: RpcEnvelope,
        body: Bytes,
        deadline: Duration,
    ) -> BoxFuture<'a, Result<Bytes, TransportError>> {
        async move {
            let gone = || TransportError::Unreachable(to.internal.clone());
            if self.net.is_cut(&self.from) || self.net.is_cut(&to.internal) {
                return Err(gone());
            }
            let store = self.net.at(&to.internal).ok_or_else(gone)?;
            match tokio::time::timeout(deadline, store.handle_rpc(kind, envelope, body)).await {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(refusal)) => Err(TransportError::Refused(refusal.to_string())),
                Err(_) => Err(TransportError::Timeout(deadline)),
            }
        }
        .boxed()
    }
}

/// Nodes by slot; slot n has the address `node-n:1`.
struct Cluster {
    root: PathBuf,
    /// The root goes with the cluster, unless it was given from outside.
    _temporary: Option<TempDir>,
    net: Arc<Net>,
    stores: BTreeMap<u64, Store>,
    snapshot: SnapshotOptions,
    digest_check_ms: u64,
    next_task: AtomicU64,
    /// The clocks that nodes were opened with.
    clocks: BTreeMap<u64, Arc<ManualClock>>,
}

/// The state database of a node that has stopped, once that is closed.
async fn state_of(cluster: &Cluster, slot: u64) -> StateDb {
    let root = cluster.dir(slot).join("state");
    let pointer = std::fs::read(root.join("current")).unwrap();
    let number: u64 = codec::decode(Schema::StatePointer, &pointer).unwrap();
    let mut opened = None;
    eventually("a closed database", async || {
        opened = StateDb::open(&root.join(format!("{number:04}")), &Rocks).ok();
        opened.is_some()
    })
    .await;
    opened.unwrap()
}

fn address(slot: u64) -> String {
    format!("node-{slot}:1")
}

impl Cluster {
    fn new() -> Cluster {
        let temporary = tempfile::tempdir().unwrap();
        let cluster = Cluster::at(temporary.path());
        Cluster { _temporary: Some(temporary), ..cluster }
    }

    /// A cluster whose data lies, or will lie, in this directory.
    fn at(root: &Path) -> Cluster {
        Cluster {
            root: root.to_path_buf(),
            _temporary: None,
            net: Arc::default(),
            stores: BTreeMap::new(),
            snapshot: SnapshotOptions::default(),
            digest_check_ms: 60_000,
            next_task: AtomicU64::new(1),
            clocks: BTreeMap::new(),
        }
    }

    /// Three nodes that have booted, and one of them leads.
    async fn three() -> Cluster {
        Cluster::new().boot().await
    }

    async fn boot(mut self) -> Cluster {
        for slot in 1..=3 {
            self.open(slot).await.unwrap();
        }
        self.leader().await;
        self
    }

    fn dir(&self, slot: u64) -> PathBuf {
        self.root.join(slot.to_string())
    }

    fn options(&self, slot: u64) -> Options {
        let seed = |id| SeedMember { id, internal: address(id), api: format!("http://node-{id}") };
        Options {
            node_id: slot,
            cluster: "test".into(),
            dir: self.dir(slot),
            internal: address(slot),
            api: format!("http://node-{slot}"),
            members: if slot <= 3 { (1..=3).map(seed).collect() } else { Vec::new() },
            join: if slot <= 3 { Vec::new() } else { (1..=3).map(address).collect() },
            timing: Timing {
                heartbeat_ms: 100,
                election_min_ms: 500,
                election_max_ms: 800,
                digest_check_ms: self.digest_check_ms,
            },
            snapshot: self.snapshot,
            disk: crate::config::DiskOptions { ballast_bytes: 0, check_ms: 20, ..Default::default() },
            ..Options::default()
        }
    }

    async fn open(&mut self, slot: u64) -> Result<Store, OpenError> {
        self.open_on(slot, crate::disk::statvfs()).await
    }

    /// Opens a node; a database that its last life is still closing is waited for.
    async fn open_on(&mut self, slot: u64, probe: Probe) -> Result<Store, OpenError> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let wire = Arc::new(Wire { net: Arc::clone(&self.net), from: address(slot) });
            let manual = Arc::new(ManualClock::at(STARTED_AT));
            self.clocks.insert(slot, Arc::clone(&manual));
            let clock = Arc::new(ClusterClock::new(manual));
            let environment = Environment { probe: Arc::clone(&probe), clock, ..environment() };
            let opened = Store::open(self.options(slot), wire, environment).await;
            match opened {
                Err(OpenError::Storage(why)) if why.contains("lock") => {
                    assert!(tokio::time::Instant::now() < deadline, "{why}");
                    tokio::time::sleep(LOOK).await;
                }
                Err(error) => return Err(error),
                Ok(store) => {
                    self.net.plugged.lock().unwrap().insert(address(slot), store.clone());
                    self.stores.insert(slot, store.clone());
                    return Ok(store);
                }
            }
        }
    }

    /// Stops a node and lets go of it.
    async fn stop(&mut self, slot: u64) {
        self.net.plugged.lock().unwrap().remove(&address(slot));
        self.stores.remove(&slot).unwrap().shutdown().await;
    }

    fn cut(&self, slot: u64) {
        self.net.cut.lock().unwrap().insert(address(slot));
    }

    fn heal(&self, slot: u64) {
        self.net.cut.lock().unwrap().remove(&address(slot));
    }

    fn store(&self, slot: u64) -> Store {
        self.stores[&slot].clone()
    }

    /// The slot of the node that leads, once all nodes that can be reached agree on it.
    async fn leader(&self) -> u64 {
        let mut found = 0;
        eventually("a leader", async || {
            let up: Vec<_> =
                self.stores.iter().filter(|(slot, _)| !self.net.is_cut(&address(**slot))).collect();
            let leaders: BTreeSet<_> =
                up.iter().map(|(_, store)| store.leadership().borrow().leader).collect();
            let leading = up.iter().find(|(_, store)| store.leadership().borrow().leading);
            match (leading, leaders.len()) {
                (Some((slot, store)), 1) if leaders.contains(&store.status().id) => {
                    found = **slot;
                    true
                }
                _ => false,
            }
        })
        .await;
        found
    }

    fn submit(&self) -> (TaskId, Command) {
        let number = self.next_task.fetch_add(1, Ordering::Relaxed);
        let mut id = [0; 16];
        id[8..].copy_from_slice(&number.to_be_bytes());
        let task = TaskId(id);
        let submit =
            Submit { task, spec: spec(), due: DueTime::After(60_000), claim: None, idempotency: None };
        (task, Command::Submit(Box::new(submit)))
    }

    /// Submits a task to whoever leads, again and again until it is acknowledged.
    async fn put(&self) -> TaskId {
        let (task, command) = self.submit();
        eventually("an acknowledged task", async || {
            let leader = self.leader().await;
            match self.store(leader).propose(command.clone()).await {
                Ok(Applied { reply: Reply::Submitted { .. }, .. }) => true,
                // An earlier try of ours went through after all.
                Ok(Applied { reply: Reply::Refused(orloj_model::Refusal::TaskExists), .. }) => true,
                Ok(other) => panic!("unexpected reply {other:?}"),
                Err(ProposeError::Stopped) => panic!("the leader has stopped"),
                Err(_) => false,
            }
        })
        .await;
        task
    }

    async fn put_many(&self, count: usize) -> Vec<TaskId> {
        let mut tasks = Vec::new();
        for _ in 0..count {
            tasks.push(self.put().await);
        }
        tasks
    }

    /// Waits until these nodes have applied the same entries, up to the last one of the leader.
    async fn level(&self) {
        let leader = self.store(self.leader().await);
        let least = leader.barrier().await.unwrap();
        for store in self.stores.values() {
            let mut applied = store.applied();
            let reached = applied.wait_for(|index| *index >= least);
            tokio::time::timeout(PATIENCE, reached).await.expect("the nodes come level").unwrap();
        }
        eventually("equal positions", async || {
            let all: BTreeSet<_> = self.stores.values().map(|store| store.status().applied).collect();
            all.len() == 1
        })
        .await;
        let digests: BTreeSet<_> = self.stores.values().map(|store| store.status().digest).collect();
        assert_eq!(digests.len(), 1, "the digests differ");
    }
}

/// What every clock shows first, in ms since the epoch.
const STARTED_AT: i64 = 1_800_000_000_000;

fn environment() -> Environment {
    let (clock, random) = (ManualClock::at(STARTED_AT), SeededRandom::new(rand::random()));
    Environment::new(Arc::new(clock), Arc::new(random))
}

/// Looks until it holds.
async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let looks = async {
        while !holds().await {
            tokio::time::sleep(LOOK).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, looks).await.is_ok(), "not in time: {what}");
}

fn has(store: &Store, task: TaskId) -> bool {
    store.view().has::<SpecTable>(&task).unwrap()
}

fn ids(store: &Store) -> Vec<NodeId> {
    store.members().iter().filter(|member| member.voter).map(|member| member.id).collect()
}

fn status(store: &Store) -> NodeStatus {
    store.status()
}

pub(crate) fn spec() -> TaskSpec {
    TaskSpec {
        caller: CallerId::new("caller").unwrap(),
        access_key: "ak".into(),
        handler: "echo".into(),
        params: b"{}".to_vec(),
        origin: Origin::Submission,
        priority: 5,
        labels: BTreeMap::new(),
        routing_key: None,
        zone: None,
        strategy: Strategy::Ring,
        business_key: None,
        dedupe_key: None,
        retry: RetryPolicy::default(),
        timeout_ms: None,
        expire_at: None,
        shard_total: 1,
        depends_on: Vec::new(),
        callback_url: None,
        estimated_duration_ms: None,
    }
}
