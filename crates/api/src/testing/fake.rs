//! A cluster without storage and consensus: one state for all nodes, changed by the model's own `apply`.

mod access;
mod behind;
mod jobs;
mod steer;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use orloj_model::command::Idempotency;
use orloj_model::executor::Executor;
use orloj_model::graph::{Graph, OnShardFailure};
use orloj_model::id::{CallerId, Millis, NodeId, Round, TaskId};
use orloj_model::query::{self, TaskView};
use orloj_model::tables::{MapTables, Write as _};
use orloj_model::time::ManualClock;
use orloj_model::{Batch, Command, Reply, apply};
use orloj_net::Bounds;
use orloj_raft_store::types::Member;
use orloj_raft_store::{
    Applied, AppliedEvents, Checkpoint, Leadership, MemberInfo, MembershipError, NodeHistory, NodeStatus,
    PeerError, ProposeError, ReadError, Role, RpcEnvelope, RpcError, RpcKind, TransportError,
};
use orloj_scheduler::callback::Resolver;
use orloj_wire::random::SystemRandom;
use orloj_wire::sign::Secret;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::fake_keys;
use super::fake_leader::FakeLeader;
use super::json::Json;
use crate::backend::{At, PageQuery, StorageFault, TablePage, read_page};
use crate::{Api, Backend, Directory, Leader, Metrics, Options, Outlook, Parts};
use behind::Behind;

/// When every test begins, in Unix seconds.
pub(crate) const T: i64 = 1_800_000_000;
pub(crate) const CLUSTER_SECRET: &str = "cluster-secret-0123456789abcdef0123456789";
pub(crate) const EXECUTOR_SECRET: &str = "executor-secret-0123456789abcdef012345678";

/// What all nodes share.
struct State {
    tables: MapTables<Json>,
    index: u64,
    round: Round,
}

/// Several nodes over one state.
pub(crate) struct Universe {
    pub(crate) nodes: Vec<Node>,
    pub(crate) clock: Arc<ManualClock>,
    shared: Arc<Shared>,
    _stop: DropGuard,
}

struct Shared {
    state: Mutex<State>,
    events: broadcast::Sender<Arc<AppliedEvents>>,
    clock: Arc<ManualClock>,
    members: Mutex<Vec<MemberInfo>>,
    /// What the next proposals come to, instead of being applied.
    failure: Mutex<Option<ProposeError>>,
    /// What somebody else does before a proposal is applied, and before which one from now on.
    meanwhile: Mutex<Option<(u64, Command)>>,
    proposals: AtomicU64,
}

/// One node.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) public: Router,
    pub(crate) internal: Router,
    pub(crate) debug: Router,
    pub(crate) api: Api,
    pub(crate) url: String,
    pub(crate) address: String,
    pub(crate) leader: Arc<FakeLeader>,
    leadership: watch::Sender<Leadership>,
    behind: Arc<Behind>,
    id: NodeId,
}

impl Universe {
    /// So many nodes; the first leads.
    pub(crate) async fn of(count: usize) -> Universe {
        Universe::with(count, |_| {}).await
    }

    pub(crate) async fn with(count: usize, change: impl Fn(&mut Options)) -> Universe {
        let clock = Arc::new(ManualClock::at(T * 1000));
        let shared = Arc::new(Shared {
            state: Mutex::new(State { tables: MapTables::default(), index: 0, round: 0 }),
            events: broadcast::channel(1024).0,
            clock: Arc::clone(&clock),
            members: Mutex::default(),
            failure: Mutex::default(),
            meanwhile: Mutex::default(),
            proposals: AtomicU64::new(0),
        });
        let stop = CancellationToken::new();
        let mut nodes = Vec::new();
        for id in 1..=count as u64 {
            nodes.push(node(id, &shared, &change, &stop).await);
        }
        let universe = Universe { nodes, clock, shared, _stop: stop.drop_guard() };
        universe.elect(Some(1));
        universe.run(Command::BeginRound { leader: 1 });
        universe.register("e1", &["echo", "sleep"]);
        universe
    }

    /// The node that leads.
    pub(crate) fn leader(&self) -> &Node {
        self.nodes.iter().find(|node| node.leadership.borrow().leading).expect("somebody leads")
    }

    /// Lets this node lead, or nobody.
    pub(crate) fn elect(&self, leader: Option<NodeId>) {
        for node in &self.nodes {
            node.leadership.send_modify(|now| {
                *now = Leadership { term: now.term + 1, leader, leading: leader == Some(node.id) };
            });
            node.leader.serving.store(leader == Some(node.id), Ordering::SeqCst);
        }
    }

    /// Applies a command as the leader's loop would.
    pub(crate) fn run(&self, command: Command) -> Reply {
        self.shared.apply(command).reply
    }

    pub(crate) fn applied(&self) -> u64 {
        self.shared.state.lock().unwrap().index
    }

    /// Every row, as text.
    pub(crate) fn dump(&self) -> String {
        let state = self.shared.state.lock().unwrap();
        let rows = state.tables.rows().map(|((_, key), value)| {
            format!("{} {}\n", String::from_utf8_lossy(key), String::from_utf8_lossy(value))
        });
        rows.collect()
    }

    /// Every caller and every key.
    pub(crate) fn access(&self) -> query::Access {
        query::access(&self.shared.state.lock().unwrap().tables).unwrap()
    }
}

/// Knows one name, which leads inside.
struct FakeNames;

impl Resolver for FakeNames {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Vec<IpAddr>> {
        let inside = host.starts_with("inside.").then_some(IpAddr::from([10, 0, 0, 5]));
        Box::pin(std::future::ready(inside.into_iter().collect()))
    }
}

async fn node(
    id: NodeId,
    shared: &Arc<Shared>,
    change: &impl Fn(&mut Options),
    stop: &CancellationToken,
) -> Node {
    let internal_listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let public_listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = internal_listener.local_addr().unwrap().to_string();
    let url = format!("http://{}", public_listener.local_addr().unwrap());
    let member = MemberInfo { id, internal: address.clone(), api: url.clone(), voter: true };
    shared.members.lock().unwrap().push(member);
    let leadership = watch::Sender::new(Leadership::default());
    let leader = Arc::new(FakeLeader::default());
    let mut options = Options {
        audience: "default".into(),
        cluster_secret: Secret::new(CLUSTER_SECRET).unwrap(),
        internal: address.clone(),
        debug_probe: true,
        max_running: BTreeMap::new(),
        tls: None,
    };
    change(&mut options);
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let behind: Arc<Behind> = Arc::default();
    let backend: Arc<dyn Backend> = Arc::new(FakeStore {
        id,
        shared: Arc::clone(shared),
        leadership: leadership.clone(),
        behind: Arc::clone(&behind),
    });
    let parts = Parts {
        options,
        directory: Directory::new(fake_keys::keyring(), fake_keys::sealer(), Arc::clone(&backend)),
        backend,
        leader: Arc::clone(&leader) as Arc<dyn Leader>,
        clock: Arc::clone(&shared.clock) as _,
        random: Arc::new(SystemRandom),
        metrics,
        outlook: Outlook::new(Arc::new(FakeNames), Vec::new(), Arc::clone(&shared.clock) as _),
    };
    let api = Api::start(parts, stop.clone()).unwrap();
    let debug = crate::debug_router(api.clone());
    let public = crate::public_router(api.clone(), Arc::new(registry), crate::Takes::All);
    let internal = crate::internal_router(api.clone());
    for (listener, router, bounds) in [
        (public_listener, public.clone(), Bounds::PUBLIC),
        (internal_listener, internal.clone(), Bounds::INTERNAL),
    ] {
        tokio::spawn(orloj_net::serve(listener, router, bounds, None, stop.clone()));
    }
    Node { public, internal, debug, api, url, address, leader, leadership, behind, id }
}

impl Shared {
    fn apply(&self, command: Command) -> Applied {
        let mut state = self.state.lock().unwrap();
        state.index += 1;
        let (index, round) = (state.index, state.round);
        let now_ms = orloj_model::Clock::wall_ms(&*self.clock);
        let batch = Batch { now_ms, round, changes: vec![command] };
        let mut events = Vec::new();
        let reply = apply(&mut state.tables, index, &batch, &mut events).unwrap().remove(0);
        if let Reply::Round(round) = reply {
            state.round = round;
        }
        drop(state);
        // Nobody listens in some tests.
        let _ = self.events.send(Arc::new(AppliedEvents { index, events }));
        Applied { index, reply }
    }
}

struct FakeStore {
    id: NodeId,
    shared: Arc<Shared>,
    leadership: watch::Sender<Leadership>,
    behind: Arc<Behind>,
}

impl FakeStore {
    fn read<T>(
        &self,
        read: impl FnOnce(&MapTables<Json>) -> Result<T, serde_json::Error>,
    ) -> Result<At<T>, StorageFault> {
        let (state, old) = (self.shared.state.lock().unwrap(), self.behind.tables());
        let tables = old.as_ref().unwrap_or(&state.tables);
        let value = read(tables).map_err(|error| StorageFault(error.to_string()))?;
        Ok(At { applied: state.index, value })
    }
}

impl Backend for FakeStore {
    fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }

    fn propose(&self, command: Command) -> BoxFuture<'_, Result<Applied, ProposeError>> {
        async move {
            if !self.leadership.borrow().leading || self.behind.is_cut_off() {
                return Err(ProposeError::NoLeader);
            }
            self.behind.catch_up();
            let number = self.shared.proposals.fetch_add(1, Ordering::SeqCst);
            let meanwhile = self.shared.meanwhile.lock().unwrap().take_if(|(at, _)| *at <= number);
            meanwhile.into_iter().for_each(|(_, command)| drop(self.shared.apply(command)));
            match self.shared.failure.lock().unwrap().clone() {
                Some(failure) => Err(failure),
                None => Ok(self.shared.apply(command)),
            }
        }
        .boxed()
    }

    fn propose_all(&self, commands: Vec<Command>) -> BoxFuture<'_, Result<Vec<Applied>, ProposeError>> {
        async move {
            let mut applied = Vec::new();
            for command in commands {
                applied.push(self.propose(command).await?);
            }
            Ok(applied)
        }
        .boxed()
    }

    fn barrier(&self) -> BoxFuture<'_, Result<u64, ReadError>> {
        async move {
            match self.leadership.borrow().leading && !self.behind.is_cut_off() {
                true => {
                    self.behind.catch_up();
                    Ok(self.shared.state.lock().unwrap().index)
                }
                false => Err(ReadError::NoLeader),
            }
        }
        .boxed()
    }

    fn now_ms(&self) -> Result<Millis, StorageFault> {
        Ok(self.read(query::meta)?.value.now_ms)
    }

    fn task(&self, id: TaskId) -> Result<At<Option<TaskView>>, StorageFault> {
        self.read(|tables| query::task(tables, id))
    }

    fn page(&self, page: &PageQuery) -> Result<At<Vec<TaskView>>, StorageFault> {
        self.read(|tables| read_page(tables, page))
    }

    fn tasks(&self, after: Option<TaskId>, limit: usize) -> Result<At<TablePage>, StorageFault> {
        self.read(|tables| TablePage::read(tables, tables.digest(), after, limit))
    }

    fn executors(&self) -> Result<At<Vec<Executor>>, StorageFault> {
        self.read(query::executors)
    }

    fn graph(&self, id: TaskId, limit: usize) -> Result<At<Option<Graph>>, StorageFault> {
        self.read(|tables| query::graph(tables, id, limit))
    }

    fn on_shard_failure(&self, id: TaskId) -> Result<OnShardFailure, StorageFault> {
        Ok(self.read(|tables| query::shard_plan(tables, id))?.value.unwrap_or_default().on_failure)
    }

    fn is_repeated(&self, caller: &CallerId, key: &Idempotency, until: Millis) -> Result<bool, StorageFault> {
        Ok(self.read(|tables| query::is_repeated(tables, caller, key, until))?.value)
    }

    fn callback(&self, id: TaskId) -> Result<Option<orloj_model::callback::Callback>, StorageFault> {
        Ok(self.read(|tables| query::callback(tables, id))?.value)
    }

    fn access_revision(&self) -> Result<u64, StorageFault> {
        Ok(self.read(query::access_meta)?.value.revision)
    }

    fn access(&self) -> Result<query::Access, StorageFault> {
        Ok(self.read(query::access)?.value)
    }

    fn audit(
        &self,
        kind: orloj_model::access::AuditKind,
        before: Option<u64>,
        limit: usize,
    ) -> Result<At<crate::backend::AuditPage>, StorageFault> {
        self.read(|tables| query::audit(tables, kind, before, limit))
    }

    fn events(&self) -> broadcast::Receiver<Arc<AppliedEvents>> {
        self.shared.events.subscribe()
    }

    fn history(&self) -> NodeHistory {
        NodeHistory {
            birth: format!("b{}", self.id),
            vote: Some((1, 1)),
            checkpoints: vec![Checkpoint { index: 256, digest: 7 }],
            terms: vec![(16, 1)],
            snapshots_installed: 0,
        }
    }

    fn snapshot_now(&self) -> BoxFuture<'_, Result<u64, ReadError>> {
        let applied = self.shared.state.lock().unwrap().index;
        async move { Ok(applied) }.boxed()
    }

    fn status(&self) -> NodeStatus {
        let (state, leadership) = (self.shared.state.lock().unwrap(), *self.leadership.borrow());
        NodeStatus {
            id: Some(self.id),
            cluster: "test".into(),
            role: if leadership.leading { Role::Leader } else { Role::Follower },
            term: leadership.term,
            leader: leadership.leader,
            round: state.round,
            last_log: state.index,
            committed: state.index,
            applied: state.index,
            digest: state.tables.digest(),
            ..NodeStatus::default()
        }
    }

    fn members(&self) -> Vec<MemberInfo> {
        self.shared.members.lock().unwrap().clone()
    }

    fn peer_status(&self, id: NodeId) -> BoxFuture<'_, Result<NodeStatus, PeerError>> {
        async move {
            match id {
                3 => Err(PeerError::Transport(TransportError::Unreachable("no".into()))),
                id => Ok(NodeStatus { id: Some(id), role: Role::Follower, ..self.status() }),
            }
        }
        .boxed()
    }

    fn add_member(&self, member: Member) -> BoxFuture<'_, Result<NodeId, MembershipError>> {
        async move {
            let id = self.shared.members.lock().unwrap().len() as u64 + 1;
            let info = MemberInfo { id, internal: member.internal, api: member.api, voter: true };
            self.shared.members.lock().unwrap().push(info);
            Ok(id)
        }
        .boxed()
    }

    fn remove_member(&self, id: NodeId) -> BoxFuture<'_, Result<(), MembershipError>> {
        async move {
            let mut members = self.shared.members.lock().unwrap();
            let before = members.len();
            members.retain(|member| member.id != id);
            if members.len() == before { Err(MembershipError::NotMember(id)) } else { Ok(()) }
        }
        .boxed()
    }

    fn transfer_leader(&self, to: NodeId) -> BoxFuture<'_, Result<(), MembershipError>> {
        async move {
            if !self.members().iter().any(|member| member.id == to) {
                return Err(MembershipError::NotMember(to));
            }
            self.leadership.send_modify(|now| {
                *now = Leadership { term: now.term + 1, leader: Some(to), leading: false };
            });
            Ok(())
        }
        .boxed()
    }

    fn handle_rpc(
        &self,
        kind: RpcKind,
        envelope: RpcEnvelope,
        body: Bytes,
    ) -> BoxFuture<'_, Result<Bytes, RpcError>> {
        async move {
            match envelope.target {
                0 => Err(RpcError::Misdirected("nobody".into())),
                target => Ok(format!("{kind} to {target}: {}", body.len()).into()),
            }
        }
        .boxed()
    }
}
