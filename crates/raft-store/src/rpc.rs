//! Calls from peers, as plain functions: the HTTP layer checks the signature and hands them in.

use std::sync::Arc;

use bytes::Bytes;
use openraft::errors::{Fatal, RaftError};
use openraft::raft::{AppendEntriesResponse, TransferLeaderRequest, VoteRequest};

use crate::failure::RpcError;
use crate::machine::Machine;
use crate::message::{
    Adopt, AdoptReply, Append, AppendReply, AskVote, Join, Probed, SendSnapshot, Transfer, TransferReply,
    VoteReply, read_request, reply,
};
use crate::node::Node;
use crate::runtime::to_its_end;
use crate::status::Checkpoint;
use crate::stored::StoredLogId;
use crate::transport::{RpcEnvelope, RpcKind};
use crate::types::{LoggedMembership, NodeId, Raft, TypeConfig};
use crate::{membership, receive, report};

/// Answers a call. A caller that goes away does not stop what it began.
///
/// # Errors
/// The call is refused; nothing was done.
pub async fn handle(
    node: &Arc<Node>,
    kind: RpcKind,
    envelope: RpcEnvelope,
    body: Bytes,
) -> Result<Bytes, RpcError> {
    if matches!(kind, RpcKind::Probe | RpcKind::Status | RpcKind::Digests) {
        return answer(node, kind, envelope, body).await;
    }
    let node = Arc::clone(node);
    to_its_end(async move { answer(&node, kind, envelope, body).await }).await
}

async fn answer(
    node: &Arc<Node>,
    kind: RpcKind,
    envelope: RpcEnvelope,
    body: Bytes,
) -> Result<Bytes, RpcError> {
    if node.faults.raised() || node.stop.is_cancelled() {
        return Err(RpcError::Stopped("the node has stopped".into()));
    }
    check_target(node, kind, &envelope)?;
    match kind {
        RpcKind::Probe => reply(&probe(node)),
        RpcKind::Join => {
            let join: Join = read_request(&body)?;
            reply(&membership::admit(node, join).await)
        }
        RpcKind::Adopt => {
            let adopt: Adopt = read_request(&body)?;
            reply(&adopted(node, adopt).await)
        }
        RpcKind::Status => reply(&report::status(node)),
        RpcKind::Digests => reply::<Vec<Checkpoint>>(&node.published.checkpoints()),
        _ => {
            let raft = node.raft().ok_or(RpcError::NotReady)?;
            check_sender(&node.membership(), &envelope)?;
            replicate(node, raft, kind, envelope.from, &body).await
        }
    }
}

async fn replicate(
    node: &Node,
    raft: &Raft<Machine>,
    kind: RpcKind,
    from: NodeId,
    body: &[u8],
) -> Result<Bytes, RpcError> {
    match kind {
        RpcKind::Append | RpcKind::Heartbeat => {
            let request = read_request::<Append>(body)?.into_request()?;
            let response = raft.append_entries(request).await.map_err(stopped)?;
            if !matches!(response, AppendEntriesResponse::HigherVote(_)) {
                node.pulse.beat();
            }
            reply(&AppendReply::from(response))
        }
        RpcKind::Vote => {
            let ask: AskVote = read_request(body)?;
            check_candidate(&node.membership(), from, ask.last)?;
            let response = raft.vote(VoteRequest::from(ask)).await.map_err(stopped)?;
            reply(&VoteReply::from(response))
        }
        RpcKind::PreVote => {
            let ask: AskVote = read_request(body)?;
            check_candidate(&node.membership(), from, ask.last)?;
            let response = raft.pre_vote(VoteRequest::from(ask)).await.map_err(stopped)?;
            reply(&VoteReply::from(response))
        }
        RpcKind::Transfer => {
            let transfer: Transfer = read_request(body)?;
            let request = TransferLeaderRequest::from(transfer);
            let response = raft.handle_transfer_leader(request).await;
            let response =
                response.map_err(|fatal: Fatal<TypeConfig>| RpcError::Stopped(fatal.to_string()))?;
            reply(&TransferReply::from(response))
        }
        RpcKind::Snapshot => {
            let step: SendSnapshot = read_request(body)?;
            reply(&receive::receive(node, raft, step).await?)
        }
        RpcKind::Probe | RpcKind::Join | RpcKind::Adopt | RpcKind::Status | RpcKind::Digests => {
            Err(RpcError::Malformed(format!("{kind} is not about the log")))
        }
    }
}

fn stopped(error: RaftError<TypeConfig>) -> RpcError {
    RpcError::Stopped(error.to_string())
}

/// Refuses what is meant for another cluster, another member or another life of this one.
fn check_target(node: &Node, kind: RpcKind, envelope: &RpcEnvelope) -> Result<(), RpcError> {
    let refuse = |problem: String| Err(RpcError::Misdirected(problem));
    let cluster = &node.options.cluster;
    if envelope.cluster != *cluster {
        return refuse(format!("this is cluster {cluster:?}, not {:?}", envelope.cluster));
    }
    if kind.to_an_address() {
        return Ok(());
    }
    node.with_identity(|identity| {
        let Some(id) = identity.id else { return Err(RpcError::NotReady) };
        if envelope.target != id {
            return refuse(format!("this is node {id}, not {}", envelope.target));
        }
        if envelope.target_birth != identity.birth {
            return refuse(format!("this is another life of node {id} than the membership knows"));
        }
        Ok(())
    })
}

/// Refuses a caller that has a member's id and not its birth. A caller that is no member known here may be
/// one that was added a moment ago.
fn check_sender(membership: &LoggedMembership, envelope: &RpcEnvelope) -> Result<(), RpcError> {
    match membership.get_node(&envelope.from) {
        Some(member) if member.birth != envelope.from_birth => {
            let problem = format!("the caller is another life of node {}", envelope.from);
            Err(RpcError::Misdirected(problem))
        }
        _ => Ok(()),
    }
}

/// Refuses a candidate that is no member here, unless its log goes beyond the membership here, which may then
/// have been changed in its favour. One that was removed, or whose data was lost, disturbs nobody.
fn check_candidate(
    membership: &LoggedMembership,
    from: NodeId,
    last: Option<StoredLogId>,
) -> Result<(), RpcError> {
    let known = membership.log_id().as_ref().map(StoredLogId::from);
    let position = |id: StoredLogId| (id.term, id.index);
    if membership.get_node(&from).is_none() && last.map(position) < known.map(position) {
        return Err(RpcError::Misdirected(format!("node {from} is not a member")));
    }
    Ok(())
}

/// Who this node is.
pub fn probe(node: &Node) -> Probed {
    let identity = node.identity();
    let mut seeds: Vec<_> =
        node.options.members.iter().map(|seed| (seed.id, seed.internal.clone())).collect();
    seeds.sort();
    Probed {
        id: identity.id,
        birth: identity.birth,
        entered: identity.entered,
        seeds,
        seed_id: node.options.node_id,
        internal: node.options.internal.clone(),
        api: node.options.api.clone(),
        members: node.membership().nodes().map(|(id, member)| (*id, member.clone())).collect(),
        leader: node.leadership.borrow().leader,
    }
}

/// Takes the id that a leader gives to this node, if it has none.
async fn adopted(node: &Arc<Node>, adopt: Adopt) -> AdoptReply {
    let mut refusal = String::new();
    let changed = node.change_identity(|identity| {
        if identity.birth != adopt.birth {
            refusal = "the data directory is another one than the leader knows".into();
        } else if let Some(id) = identity.id {
            refusal = format!("the node has the id {id}");
        } else {
            identity.id = Some(adopt.id);
        }
        refusal.is_empty()
    });
    match changed {
        Ok(true) => {}
        Ok(false) => return AdoptReply::Refused(refusal),
        Err(fault) => {
            node.faults.raise(&fault);
            return AdoptReply::Refused(fault.to_string());
        }
    }
    if let Err(error) = node.start(adopt.id).await {
        node.faults.raise(&error);
        return AdoptReply::Refused(error.to_string());
    }
    AdoptReply::Taken
}

#[cfg(test)]
#[path = "rpc_tests.rs"]
mod tests;
