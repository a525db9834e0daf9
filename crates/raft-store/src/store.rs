//! The handle of a node: propose, read, watch, and change the membership.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use orloj_model::id::{NodeId, Round};
use orloj_model::{Clock, Command, Reply};
use tokio::sync::{broadcast, watch};

use crate::config::Options;
use crate::failure::{MembershipError, OpenError, PeerError, ProposeError, ReadError, RpcError};
use crate::machine::AppliedEvents;
use crate::status::{Leadership, MemberInfo, NodeStatus};
use crate::tables::View;
use crate::transport::{RpcEnvelope, RpcKind, Transport};
use crate::types::Member;

/// A command that has been applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The index of its entry in the log.
    pub index: u64,
    /// What it answered.
    pub reply: Reply,
}

/// A node of the cluster. Clones are cheap and all stand for the same node.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {}

impl Store {
    /// Opens the data directory and starts the node. A node that has an id takes part when this returns;
    /// one that has none looks for its cluster in the background.
    ///
    /// # Errors
    /// Wrong options, damaged storage, a full disk. The node has not started then.
    pub async fn open(
        options: Options,
        transport: Arc<dyn Transport>,
        clock: Arc<dyn Clock>,
    ) -> Result<Store, OpenError> {
        options.check()?;
        let _ = (transport, clock);
        Ok(Store { inner: Arc::new(Inner {}) })
    }

    /// Proposes a command that holds in any round (of a caller or an executor) and waits until it has been
    /// applied here.
    ///
    /// # Errors
    /// See [`ProposeError`]; only [`ProposeError::Unknown`] and [`ProposeError::Stopped`] leave it open
    /// whether the command has an effect.
    pub async fn propose(&self, command: Command) -> Result<Applied, ProposeError> {
        let _ = command;
        Err(ProposeError::NoLeader)
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
        let _ = (round, commands);
        Err(ProposeError::NoLeader)
    }

    /// Who leads; changes as this node learns of it.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        watch::channel(Leadership::default()).1
    }

    /// Confirms with a majority that this node leads, waits until everything that was committed before the
    /// call is applied here, and returns the index up to which it is. A [`view`](Store::view) taken after
    /// it is linearizable.
    ///
    /// # Errors
    /// This node does not lead, or cannot confirm it.
    pub async fn barrier(&self) -> Result<u64, ReadError> {
        Err(ReadError::NoLeader)
    }

    /// The tables as of the last applied entry. Stays as it is while it is held; cheap to get and to clone,
    /// but an old one keeps old rows on the disk.
    pub fn view(&self) -> View {
        unimplemented!()
    }

    /// What applied entries change, from now on. The channel is bounded: a reader that is too slow is told
    /// how many it missed and reads the tables again. An installed snapshot shows as a lag, too.
    pub fn events(&self) -> broadcast::Receiver<Arc<AppliedEvents>> {
        broadcast::channel(1).1
    }

    /// Index of the last applied entry.
    pub fn applied(&self) -> watch::Receiver<u64> {
        watch::channel(0).1
    }

    /// This node's view of itself.
    pub fn status(&self) -> NodeStatus {
        NodeStatus::default()
    }

    /// Asks a member for its view of itself; this node's own id is answered without a call.
    ///
    /// # Errors
    /// No such member, or it does not answer within a second.
    pub async fn peer_status(&self, id: NodeId) -> Result<NodeStatus, PeerError> {
        Err(PeerError::NotMember(id))
    }

    /// The members, by id, as the last membership in this node's log has them.
    pub fn members(&self) -> Vec<MemberInfo> {
        Vec::new()
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
        let _ = (member, replaces);
        Err(MembershipError::NoLeader)
    }

    /// Takes a member out of the cluster. Its id never comes back. Only on the leader, which may name
    /// itself and then hands over.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub async fn remove_member(&self, id: NodeId) -> Result<(), MembershipError> {
        Err(MembershipError::NotMember(id))
    }

    /// Hands the leadership to a voter and waits until this node no longer leads. Only on the leader.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub async fn transfer_leader(&self, to: NodeId) -> Result<(), MembershipError> {
        Err(MembershipError::NotMember(to))
    }

    /// Takes a snapshot now and purges the log behind it; returns when the snapshot is on the disk, with
    /// the index of its last entry.
    ///
    /// # Errors
    /// The node has stopped, or the snapshot did not come about within `deadline`.
    pub async fn snapshot_now(&self, deadline: Duration) -> Result<u64, ReadError> {
        let _ = deadline;
        Err(ReadError::Stopped)
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
        let _ = (kind, envelope, body);
        Err(RpcError::NotReady)
    }

    /// Turns to `Some` with the reason when the process must end with a failure: a storage fault, or tables
    /// that differ from those of the majority.
    pub fn fatal(&self) -> watch::Receiver<Option<String>> {
        watch::channel(None).1
    }

    /// Stops the node and closes its databases. What was acknowledged is on the disk with or without it.
    pub async fn shutdown(&self) {
        let _ = &self.inner;
    }
}
