//! What a node says of itself, put together from its parts.

use openraft::ServerState;
use openraft::async_runtime::WatchReceiver as _;
use orloj_model::id::NodeId;

use crate::node::Node;
use crate::status::{MemberInfo, NodeHistory, NodeState, NodeStatus, Role};
use crate::types::{LogId, LoggedMembership};

/// The node's own view of itself.
pub fn status(node: &Node) -> NodeStatus {
    let stamp = node.published.stamp();
    let identity = node.identity();
    let mut status = NodeStatus {
        id: identity.id,
        cluster: node.options.cluster.clone(),
        state: state(node),
        round: stamp.round,
        applied: stamp.applied,
        digest: stamp.digest,
        digest_checkpoint: node.published.checkpoints().last().copied(),
        disk_free: node.disk.free(),
        snapshot: node.snapshots.current().map_or(0, |snapshot| snapshot.index()),
        ..NodeStatus::default()
    };
    if let Some(raft) = node.raft() {
        status.leader = node.living_leader();
        let metrics = raft.metrics();
        let metrics = metrics.borrow_watched();
        status.role = role(metrics.state, identity.entered, identity.id, &metrics.membership_config);
        status.term = metrics.current_term;
        status.last_log = metrics.last_log_index.unwrap_or(0);
        status.committed = index(metrics.local_committed.as_ref());
        status.purged = index(metrics.purged.as_ref());
    }
    status
}

/// What the node remembers of its own history.
pub fn history(node: &Node) -> NodeHistory {
    let published = &node.published;
    let vote = node.raft().map(|raft| {
        let metrics = raft.metrics();
        let vote = metrics.borrow_watched().vote.leader_id;
        (vote.term, vote.node_id)
    });
    NodeHistory {
        birth: node.identity().birth,
        vote,
        checkpoints: published.checkpoints().to_vec(),
        terms: published.terms(),
        snapshots_installed: published.snapshots_installed(),
    }
}

fn index(id: Option<&LogId>) -> u64 {
    id.map_or(0, |id| id.index)
}

fn role(state: ServerState, entered: bool, id: Option<NodeId>, membership: &LoggedMembership) -> Role {
    let member = id.is_some_and(|id| membership.get_node(&id).is_some());
    match state {
        ServerState::Leader => Role::Leader,
        ServerState::Candidate => Role::Candidate,
        ServerState::Follower => Role::Follower,
        ServerState::Shutdown => Role::Stopped,
        ServerState::Learner if member => Role::Learner,
        ServerState::Learner if entered => Role::Stopped,
        ServerState::Learner => Role::Joining,
    }
}

fn state(node: &Node) -> NodeState {
    match (node.faults.raised(), node.disk.is_low()) {
        (true, _) => NodeState::Failed,
        (false, true) => NodeState::DiskLow,
        (false, false) => NodeState::Ok,
    }
}

/// The members, by id.
pub fn members(membership: &LoggedMembership) -> Vec<MemberInfo> {
    let voters: Vec<NodeId> = membership.voter_ids().collect();
    let info = |(id, member): (&NodeId, &crate::types::Member)| MemberInfo {
        id: *id,
        internal: member.internal.clone(),
        api: member.api.clone(),
        voter: voters.contains(id),
    };
    membership.nodes().map(info).collect()
}
