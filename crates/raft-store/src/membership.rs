//! Changes of the membership, on the leader. One at a time; ids are never given twice.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use openraft::ChangeMembers;
use openraft::async_runtime::WatchReceiver as _;
use openraft::errors::{ChangeMembershipError, ClientWriteError, RaftError};
use orloj_model::id::NodeId;
use tokio::time::{Instant, sleep, timeout_at};

use crate::config::SEED_ID_LIMIT;
use crate::failure::MembershipError;
use crate::machine::Machine;
use crate::message::{Adopt, AdoptReply, Join, JoinReply, Probed};
use crate::node::Node;
use crate::peer::CallError;
use crate::runtime::to_its_end;
use crate::status::NodeStatus;
use crate::transport::{RpcKind, TransportError};
use crate::types::{LoggedMembership, Member, Raft, TypeConfig};

/// Longest wait for a node to catch up, and for a handover.
const ADD_DEADLINE: Duration = Duration::from_secs(120);
const CHANGE_DEADLINE: Duration = Duration::from_secs(15);
const TRANSFER_DEADLINE: Duration = Duration::from_secs(5);
const CALL_DEADLINE: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(50);
/// Entries that a node may be behind when it gets its vote.
const CAUGHT_UP: u64 = 1_000;

type WriteError = RaftError<TypeConfig, ClientWriteError<TypeConfig>>;

/// Raft, if this node leads.
fn leading(node: &Node) -> Result<&Raft<Machine>, MembershipError> {
    let leadership = *node.leadership.borrow();
    match (node.raft(), leadership.leader) {
        (Some(raft), _) if leadership.leading => Ok(raft),
        (_, Some(leader)) => Err(MembershipError::NotLeader { leader }),
        _ => Err(MembershipError::NoLeader),
    }
}

fn explain(error: WriteError) -> MembershipError {
    let RaftError::APIError(error) = error else { return MembershipError::Stopped };
    match error {
        ClientWriteError::ForwardToLeader(forward) => match forward.leader_id {
            Some(leader) => MembershipError::NotLeader { leader },
            None => MembershipError::NoLeader,
        },
        ClientWriteError::ChangeMembershipError(ChangeMembershipError::LearnerNotFound(learner)) => {
            MembershipError::NotMember(learner.node_id)
        }
        ClientWriteError::ChangeMembershipError(_) | ClientWriteError::PreconditionFailed(_) => {
            MembershipError::InProgress
        }
        ClientWriteError::LogEntryDiscarded(_) => MembershipError::Timeout,
    }
}

/// Applies a change and waits until it is committed. Another change on its way, and a leader that has not
/// committed anything yet, are waited for.
async fn change(raft: &Raft<Machine>, members: ChangeMembers<NodeId, Member>) -> Result<(), MembershipError> {
    let changed = async {
        loop {
            let (raft, members) = (raft.clone(), members.clone());
            let changed = to_its_end(async move { raft.change_membership(members, false).await });
            match changed.await.map_err(explain) {
                Err(MembershipError::InProgress) => sleep(POLL).await,
                changed => return changed.map(|_| ()),
            }
        }
    };
    tokio::time::timeout(CHANGE_DEADLINE, changed).await.unwrap_or(Err(MembershipError::Timeout))
}

/// An id that nobody had before: the index of an entry that is committed, above the ids of the first boot.
async fn fresh_id(raft: &Raft<Machine>) -> Result<NodeId, MembershipError> {
    match tokio::time::timeout(CHANGE_DEADLINE, raft.write_blank()).await {
        Ok(written) => Ok(SEED_ID_LIMIT + written.map_err(explain)?.log_id.index),
        Err(_) => Err(MembershipError::Timeout),
    }
}

/// A step on the way of a node without data into the cluster; the node asks again until it is a member.
pub async fn admit(node: &Node, join: Join) -> JoinReply {
    match step(node, &join).await {
        Ok(reply) => reply,
        Err(MembershipError::NotLeader { leader }) => {
            JoinReply::NotLeader(node.membership().get_node(&leader).cloned())
        }
        Err(MembershipError::NoLeader) => JoinReply::NotLeader(None),
        Err(error) => JoinReply::Refused(error.to_string()),
    }
}

async fn step(node: &Node, join: &Join) -> Result<JoinReply, MembershipError> {
    let raft = leading(node)?;
    let Ok(_one_at_a_time) = node.changing.try_lock() else { return Ok(JoinReply::CatchingUp) };
    let membership = node.membership();
    let known = membership.nodes().find(|(_, member)| member.birth == join.member.birth);
    match (known.map(|(id, _)| *id), join.id) {
        (Some(id), None) => Ok(JoinReply::Assigned(id)),
        (Some(id), Some(own)) if id != own => Ok(JoinReply::Assigned(id)),
        (Some(id), Some(_)) => promote(raft, &membership, id, &join.member).await,
        (None, None) => Ok(JoinReply::Assigned(fresh_id(raft).await?)),
        (None, Some(id)) if membership.get_node(&id).is_some() => {
            Ok(JoinReply::Refused(format!("node {id} is another one")))
        }
        (None, Some(id)) => {
            tracing::info!(id, address = join.member.internal, "a node without data joins");
            let (raft, member) = (raft.clone(), join.member.clone());
            let added = to_its_end(async move { raft.add_learner(id, member, false).await });
            match tokio::time::timeout(CHANGE_DEADLINE, added).await {
                Ok(added) => added.map(|_| JoinReply::CatchingUp).map_err(explain),
                Err(_) => Err(MembershipError::Timeout),
            }
        }
    }
}

/// Gives a learner its vote once it has caught up, in the place of whoever was at the same address: their data
/// is gone.
async fn promote(
    raft: &Raft<Machine>,
    membership: &LoggedMembership,
    id: NodeId,
    member: &Member,
) -> Result<JoinReply, MembershipError> {
    let mut voters: BTreeSet<NodeId> = membership.voter_ids().collect();
    let gone = formerly(membership, id, &member.internal);
    let never_voted: BTreeSet<NodeId> = gone.difference(&voters).copied().collect();
    if !voters.contains(&id) {
        if !caught_up(raft, id) {
            return Ok(JoinReply::CatchingUp);
        }
        voters.retain(|voter| !gone.contains(voter));
        voters.insert(id);
        tracing::info!(id, replaces = ?gone, "a node that joined gets its vote");
        change(raft, ChangeMembers::ReplaceAllVoters(voters)).await?;
    }
    if !never_voted.is_empty() {
        change(raft, ChangeMembers::RemoveNodes(never_voted)).await?;
    }
    Ok(JoinReply::Member)
}

/// The other members at the address of `id`: its former lives. There are several when a node lost its data
/// again before it had its vote back.
fn formerly(membership: &LoggedMembership, id: NodeId, address: &str) -> BTreeSet<NodeId> {
    let others = membership.nodes().filter(|(other, old)| **other != id && old.internal == address);
    others.map(|(other, _)| *other).collect()
}

fn caught_up(raft: &Raft<Machine>, id: NodeId) -> bool {
    let metrics = raft.metrics();
    let metrics = metrics.borrow_watched();
    let matched = metrics.replication.as_ref().and_then(|peers| peers.get(&id));
    match matched {
        Some(Some(matched)) => matched.index + CAUGHT_UP >= metrics.last_log_index.unwrap_or(0),
        _ => false,
    }
}

/// Adds the node without data at `member.internal`; see [`Store::add_member`](crate::Store::add_member).
///
/// # Errors
/// See [`MembershipError`].
pub async fn add(node: &Node, member: Member, replaces: Option<NodeId>) -> Result<NodeId, MembershipError> {
    let deadline = Instant::now() + ADD_DEADLINE;
    let address = member.internal.clone();
    if let Some(old) = replaces
        && node.membership().get_node(&old).is_none()
    {
        return Err(MembershipError::NotMember(old));
    }
    let added = async {
        loop {
            let raft = leading(node)?;
            if let Some(id) = add_step(node, raft, &member).await? {
                return Ok(id);
            }
            sleep(POLL).await;
        }
    };
    let id = timeout_at(deadline, added).await.map_err(|_| MembershipError::Timeout)??;
    if let Some(old) = replaces
        && node.membership().get_node(&old).is_some()
    {
        remove(node, old).await?;
    }
    tracing::info!(id, address, "a member was added");
    Ok(id)
}

/// Answers the id once the node at the address has its vote.
async fn add_step(
    node: &Node,
    raft: &Raft<Machine>,
    member: &Member,
) -> Result<Option<NodeId>, MembershipError> {
    let address = &member.internal;
    let refuse = |problem: String| Err(MembershipError::NotAddable { address: address.clone(), problem });
    let probed: Probed = call(node, address, RpcKind::Probe, &()).await?;
    if !member.birth.is_empty() && member.birth != probed.birth {
        return refuse("its data directory is another one than named".into());
    }
    let api = if member.api.is_empty() { probed.api.clone() } else { member.api.clone() };
    let member = Member { internal: address.clone(), api, birth: probed.birth.clone() };
    let known = node.membership().nodes().any(|(_, old)| old.birth == member.birth);
    match probed.id {
        Some(id) if !known && probed.entered => refuse(format!("it has data, of node {id}: empty it first")),
        Some(id) => match admit(node, Join { id: Some(id), member }).await {
            JoinReply::Member => Ok(Some(id)),
            JoinReply::CatchingUp | JoinReply::Assigned(_) => Ok(None),
            JoinReply::NotLeader(_) => Err(leading(node).err().unwrap_or(MembershipError::NoLeader)),
            JoinReply::Refused(problem) => refuse(problem),
        },
        None => {
            let id = fresh_id(raft).await?;
            let adopt = Adopt { id, birth: member.birth };
            // A refusal means that it got an id by itself in the meantime; the next step sees it.
            let _: AdoptReply = call(node, address, RpcKind::Adopt, &adopt).await?;
            Ok(None)
        }
    }
}

async fn call<Q: serde::Serialize, A: serde::de::DeserializeOwned>(
    node: &Node,
    address: &str,
    kind: RpcKind,
    request: &Q,
) -> Result<A, MembershipError> {
    let id = node.identity().id.unwrap_or(0);
    let called = node.link.under(id).call_address(address, kind, request, CALL_DEADLINE).await;
    called.map_err(|error| unanswered(address, error))
}

fn unanswered(address: &str, error: CallError) -> MembershipError {
    let cause = match error {
        CallError::Transport(cause) => cause,
        CallError::Codec(error) => TransportError::Refused(error.to_string()),
    };
    MembershipError::Peer { address: address.to_owned(), cause }
}

/// Takes a member out; see [`Store::remove_member`](crate::Store::remove_member).
///
/// # Errors
/// See [`MembershipError`].
pub async fn remove(node: &Node, id: NodeId) -> Result<(), MembershipError> {
    let raft = leading(node)?;
    let _one_at_a_time = node.changing.lock().await;
    let membership = node.membership();
    if membership.get_node(&id).is_none() {
        return Err(MembershipError::NotMember(id));
    }
    let voters: BTreeSet<NodeId> = membership.voter_ids().collect();
    let gone = BTreeSet::from([id]);
    if !voters.contains(&id) {
        return change(raft, ChangeMembers::RemoveNodes(gone)).await;
    }
    if voters.len() == 1 {
        return Err(MembershipError::LastVoter(id));
    }
    change(raft, ChangeMembers::RemoveVoters(gone)).await
}

/// Whether a member that shall lead answers at all: handing the lead to a dead one would leave the cluster
/// without a leader for an election.
async fn answers(node: &Arc<Node>, id: NodeId, member: &Member) -> Result<(), MembershipError> {
    let link = node.link.under(node.identity().id.unwrap_or(0));
    let status: Result<NodeStatus, _> = link.call((id, member), RpcKind::Status, &(), CALL_DEADLINE).await;
    status.map(|_| ()).map_err(|error| unanswered(&member.internal, error))
}

/// Hands the leadership over; see [`Store::transfer_leader`](crate::Store::transfer_leader).
///
/// # Errors
/// See [`MembershipError`].
pub async fn transfer(node: &Arc<Node>, to: NodeId) -> Result<(), MembershipError> {
    let raft = leading(node)?;
    let membership = node.membership();
    if membership.get_node(&to).is_none() {
        return Err(MembershipError::NotMember(to));
    }
    if !membership.voter_ids().any(|voter| voter == to) {
        return Err(MembershipError::NotVoter(to));
    }
    if node.identity().id == Some(to) {
        return Ok(());
    }
    if let Some(member) = membership.get_node(&to) {
        answers(node, to, member).await?;
    }
    let asked = raft.clone();
    to_its_end(async move { asked.trigger().transfer_leader(to).await })
        .await
        .map_err(|_| MembershipError::Stopped)?;
    let mut leadership = node.leadership.subscribe();
    let handed_over = leadership.wait_for(|now| now.leader == Some(to));
    match tokio::time::timeout(TRANSFER_DEADLINE, handed_over).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) => Err(MembershipError::Stopped),
        Err(_) => Err(MembershipError::Timeout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Membership;

    #[test]
    fn every_former_life_at_the_address_goes() {
        let member = |id, internal: &str| (id, Member { internal: internal.into(), ..Member::default() });
        // 1005 lost its data before it had a vote, 1010 after.
        let nodes = [member(1, "a"), member(2, "b"), member(1005, "c"), member(1010, "c"), member(1020, "c")];
        let nodes: std::collections::BTreeMap<_, _> = nodes.into_iter().collect();
        let membership = Membership::new(vec![BTreeSet::from([1, 2, 1010])], nodes).unwrap();
        let membership = LoggedMembership::new(None, membership);
        assert_eq!(formerly(&membership, 1020, "c"), BTreeSet::from([1005, 1010]));
        assert_eq!(formerly(&membership, 1, "a"), BTreeSet::new());
    }
}
