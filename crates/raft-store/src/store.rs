//! The handle of a node: propose, read, watch, and change the membership.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::ReadPolicy;
use openraft::errors::{LinearizableReadError, RaftError};
use orloj_model::Command;
use orloj_model::id::{NodeId, Round};
use tokio::sync::{broadcast, watch};

use crate::config::Options;
use crate::environment::Environment;
use crate::events::AppliedEvents;
use crate::failure::{MembershipError, OpenError, PeerError, ProposeError, ReadError, RpcError};
use crate::node::Node;
use crate::peer::CallError;
use crate::proposer::{Applied, Haste};
use crate::runtime::to_its_end;
use crate::status::{Leadership, MemberInfo, NodeHistory, NodeStatus};
use crate::tables::{Stamp, View};
use crate::transport::{RpcEnvelope, RpcKind, Transport};
use crate::types::{Member, TypeConfig};
use crate::{membership, report, rpc, upkeep};

/// Longest wait for a majority to confirm a read.
const READ_DEADLINE: Duration = Duration::from_secs(5);
/// Longest wait for a peer's view of itself.
const STATUS_DEADLINE: Duration = Duration::from_secs(1);

/// A node of the cluster. Clones are cheap and all stand for the same node.
#[derive(Clone)]
pub struct Store {
    pub(crate) node: Arc<Node>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({:?} in {})", self.node.identity().id, self.node.options.dir.display())
    }
}

impl Store {
    /// Opens the data directory and starts the node. A node that has an id takes part when this returns;
    /// one that has none looks for its cluster in the background.
    ///
    /// # Errors
    /// Wrong options, damaged storage, a full disk. The node has not started then.
    pub async fn open(
        options: Options,
        transport: Arc<dyn Transport>,
        environment: Environment,
    ) -> Result<Store, OpenError> {
        Ok(Store { node: Node::open(options, transport, environment).await? })
    }

    /// Proposes a command that holds in any round (of a caller or an executor) and waits until it has been
    /// applied here.
    ///
    /// # Errors
    /// See [`ProposeError`]; only [`ProposeError::Unknown`] and [`ProposeError::Stopped`] leave it open
    /// whether the command has an effect.
    pub async fn propose(&self, command: Command) -> Result<Applied, ProposeError> {
        let mut applied = self.propose_in_round(0, vec![command]).await?;
        applied.pop().ok_or(ProposeError::Unknown)
    }

    /// Proposes commands in order, as few entries as their number and size allow. Not atomic: when it fails
    /// with an unknown outcome, any number of them may have been applied.
    ///
    /// # Errors
    /// As [`propose`](Store::propose), for the first command that failed.
    pub async fn propose_all(&self, commands: Vec<Command>) -> Result<Vec<Applied>, ProposeError> {
        self.propose_in_round(0, commands).await
    }

    /// Proposes the leader's own commands: those marked *round* are refused when `round` is no longer in
    /// force as they are applied.
    ///
    /// # Errors
    /// As [`propose_all`](Store::propose_all).
    pub async fn propose_in_round(
        &self,
        round: Round,
        commands: Vec<Command>,
    ) -> Result<Vec<Applied>, ProposeError> {
        self.propose_with(Haste::ByKind, round, commands).await
    }

    /// As [`propose_in_round`](Store::propose_in_round), for what is late already: no distance is kept from the
    /// entry before.
    ///
    /// # Errors
    /// As [`propose_all`](Store::propose_all).
    pub async fn propose_at_once(
        &self,
        round: Round,
        commands: Vec<Command>,
    ) -> Result<Vec<Applied>, ProposeError> {
        self.propose_with(Haste::AtOnce, round, commands).await
    }

    async fn propose_with(
        &self,
        haste: Haste,
        round: Round,
        commands: Vec<Command>,
    ) -> Result<Vec<Applied>, ProposeError> {
        let leadership = *self.node.leadership.borrow();
        match leadership.leader {
            _ if self.node.faults.raised() => return Err(ProposeError::Stopped),
            _ if leadership.leading => {}
            Some(leader) => return Err(ProposeError::NotLeader { leader }),
            None => return Err(ProposeError::NoLeader),
        }
        // The three quarters of the watermark between low and full are kept for administrators, who ask for little: who
        // is to take a stolen key away must not have to make room first.
        let disk = &self.node.disk;
        if disk.is_low() && (disk.is_full() || !commands.iter().all(Command::is_of_administrators)) {
            return Err(ProposeError::DiskLow);
        }
        // Entries that wait for a majority in vain would hold up the queue: said at once instead.
        if self.node.has_lost_its_majority() {
            return Err(ProposeError::NoLeader);
        }
        match self.node.proposer.propose(haste, round, commands).await {
            // On its way out of the lead: whoever follows a hint to itself would go in circles.
            Err(ProposeError::NotLeader { leader }) if self.node.identity().id == Some(leader) => {
                Err(ProposeError::NoLeader)
            }
            outcome => outcome,
        }
    }

    /// Who leads; changes as this node learns of it.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.node.leadership.subscribe()
    }

    /// Confirms with a majority that this node leads, waits until everything that was committed before the
    /// call is applied here, and returns the index up to which it is. A [`view`](Store::view) taken after
    /// it is linearizable.
    ///
    /// # Errors
    /// This node does not lead, or cannot confirm it.
    pub async fn barrier(&self) -> Result<u64, ReadError> {
        let raft = self.node.raft().ok_or(ReadError::NoLeader)?.clone();
        let confirmed = to_its_end(async move { raft.ensure_linearizable(ReadPolicy::ReadIndex).await });
        match tokio::time::timeout(READ_DEADLINE, confirmed).await {
            // Raft goes on for a moment after a fault of the node, which must not answer any more.
            Ok(_) if self.node.faults.raised() => Err(ReadError::Stopped),
            Ok(Ok(read)) => Ok(read.index()),
            Ok(Err(error)) => Err(explain_read(error)),
            Err(_) => Err(ReadError::Timeout),
        }
    }

    /// What the tables say of themselves as of the last applied entry: dearer facts want a [`view`](Store::view).
    pub fn stamp(&self) -> Stamp {
        self.node.published.stamp()
    }

    /// The tables as of the last applied entry. Stays as it is while it is held, and is cheap to clone. To get one, what
    /// is held in memory is written to the database; and an old one keeps old rows on the disk.
    pub fn view(&self) -> View {
        self.node.published.view()
    }

    /// What applied entries change, from now on. The channel is bounded: a reader that is too slow is told
    /// how many it missed and reads the tables again; so it does when a snapshot took the place of the tables,
    /// which [`AppliedEvents::read_again`] tells.
    pub fn events(&self) -> broadcast::Receiver<Arc<AppliedEvents>> {
        self.node.published.events()
    }

    /// Index of the last applied entry.
    pub fn applied(&self) -> watch::Receiver<u64> {
        self.node.published.applied()
    }

    /// This node's view of itself.
    pub fn status(&self) -> NodeStatus {
        report::status(&self.node)
    }

    /// What this node remembers of its own history.
    pub fn history(&self) -> NodeHistory {
        report::history(&self.node)
    }

    /// Asks a member for its view of itself; this node's own id is answered without a call.
    ///
    /// # Errors
    /// No such member, or it does not answer within a second.
    pub async fn peer_status(&self, id: NodeId) -> Result<NodeStatus, PeerError> {
        if self.node.identity().id == Some(id) {
            return Ok(self.status());
        }
        let membership = self.node.membership();
        let member = membership.get_node(&id).ok_or(PeerError::NotMember(id))?;
        let link = self.node.link.under(self.node.identity().id.unwrap_or(0));
        match link.call((id, member), RpcKind::Status, &(), STATUS_DEADLINE).await {
            Ok(status) => Ok(status),
            Err(CallError::Transport(error)) => Err(error.into()),
            Err(CallError::Codec(error)) => Err(PeerError::Answer(error.to_string())),
        }
    }

    /// The members, by id, as the last membership in this node's log has them.
    pub fn members(&self) -> Vec<MemberInfo> {
        report::members(&self.node.membership())
    }

    /// Gives a vote to the node without data that runs at `member.internal`, under an id that was never
    /// used before, in place of `replaces` where that is given. Only on the leader; waits until the node
    /// has caught up. `member.birth` may be empty: the node is asked for it.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub async fn add_member(
        &self,
        member: Member,
        replaces: Option<NodeId>,
    ) -> Result<NodeId, MembershipError> {
        membership::add(&self.node, member, replaces).await
    }

    /// Takes a member out of the cluster. Its id never comes back. Only on the leader, which may name
    /// itself and then hands over.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub async fn remove_member(&self, id: NodeId) -> Result<(), MembershipError> {
        membership::remove(&self.node, id).await
    }

    /// Hands the leadership to a voter and waits until this node no longer leads. Only on the leader.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub async fn transfer_leader(&self, to: NodeId) -> Result<(), MembershipError> {
        membership::transfer(&self.node, to).await
    }

    /// Takes a snapshot now and purges the log behind it; returns when the snapshot is on the disk, with
    /// the index of its last entry.
    ///
    /// # Errors
    /// The node has stopped, or the snapshot did not come about within `deadline`.
    pub async fn snapshot_now(&self, deadline: Duration) -> Result<u64, ReadError> {
        let raft = self.node.raft().ok_or(ReadError::Stopped)?;
        let least = self.node.published.stamp().applied;
        let asked = raft.clone();
        to_its_end(async move { asked.trigger().snapshot().await }).await.map_err(|_| ReadError::Stopped)?;
        let taken =
            upkeep::wait_for(raft, |metrics| metrics.snapshot.as_ref().map_or(0, |last| last.index) >= least);
        match tokio::time::timeout(deadline, taken).await {
            Ok(Ok(())) => Ok(self.node.snapshots.current().map_or(0, |snapshot| snapshot.index())),
            Ok(Err(_)) => Err(ReadError::Stopped),
            Err(_) => Err(ReadError::Timeout),
        }
    }

    /// Answers a call of a peer. The HTTP layer mounts it under
    /// [`RPC_PREFIX`](crate::transport::RPC_PREFIX), after checking the signature.
    ///
    /// # Errors
    /// The call is refused without an effect.
    pub async fn handle_rpc(
        &self,
        kind: RpcKind,
        envelope: RpcEnvelope,
        body: Bytes,
    ) -> Result<Bytes, RpcError> {
        rpc::handle(&self.node, kind, envelope, body).await
    }

    /// Turns to `Some` with the reason when the process must end with a failure: a storage fault, or tables
    /// that differ from those of the majority.
    pub fn fatal(&self) -> watch::Receiver<Option<String>> {
        self.node.faults.watch()
    }

    /// Stops the node. Its databases close with the last handle and the last view. What was acknowledged is on
    /// the disk with or without it.
    pub async fn shutdown(&self) {
        self.node.shutdown().await;
    }
}

fn explain_read(error: RaftError<TypeConfig, LinearizableReadError<TypeConfig>>) -> ReadError {
    match error {
        RaftError::APIError(LinearizableReadError::ForwardToLeader(forward)) => match forward.leader_id {
            Some(leader) => ReadError::NotLeader { leader },
            None => ReadError::NoLeader,
        },
        RaftError::APIError(LinearizableReadError::QuorumNotEnough(_)) => ReadError::NoLeader,
        RaftError::Fatal(_) => ReadError::Stopped,
    }
}
