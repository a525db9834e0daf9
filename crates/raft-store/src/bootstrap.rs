//! How a node without an id finds its cluster.
//!
//! Every node asks every configured one who it is. Only when all of them answer, none has data, and all are
//! configured with the same members, does the one with the lowest id boot the cluster, with the birth tokens
//! that it was told; the others find themselves in its membership. Everywhere else a node without an id
//! *joins*: it asks the leader for an id that nobody had before, starts under it without a vote, and gets
//! its vote once it has caught up. So no second cluster comes about, and a node whose data is gone never
//! votes under its old id.

use std::sync::Arc;
use std::time::Duration;

use openraft::errors::{InitializeError, RaftError};
use orloj_model::id::NodeId;
use tokio::time::sleep;

use crate::failure::OpenError;
use crate::message::{Join, JoinReply, Probed};
use crate::node::Node;
use crate::rpc;
use crate::transport::RpcKind;
use crate::types::Member;

const CALL_DEADLINE: Duration = Duration::from_secs(1);
/// Between two rounds of questions, at first and later.
const FIRST_POLL: Duration = Duration::from_millis(50);
const LAST_POLL: Duration = Duration::from_millis(500);
/// Rounds in which the node that boots the cluster waits for a majority before it stands for election by the
/// clock alone.
const BOOT_ROUNDS: u32 = 40;

/// What a node without an id does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Ask again.
    Wait,
    /// Boot the cluster with these members.
    Boot(Vec<(NodeId, Member)>),
    /// Start under this id: a membership has this node's birth under it.
    Settle(NodeId),
    /// Ask these addresses to be let in, the leader's first.
    Join(Vec<String>),
}

/// Decides from what the others said. `own` is this node; `answers` are those of the addresses that were
/// asked, in any order, without the silent ones.
pub fn decide(own: &Probed, answers: &[Probed]) -> Decision {
    let booted = answers.iter().filter(|answer| !answer.members.is_empty());
    let mut addresses = Vec::new();
    for answer in booted {
        if let Some((id, _)) = answer.members.iter().find(|(_, member)| member.birth == own.birth) {
            return Decision::Settle(*id);
        }
        let leader = answer.members.iter().find(|(id, _)| Some(*id) == answer.leader);
        let others = answer.members.iter();
        for (_, member) in leader.into_iter().chain(others) {
            if !addresses.contains(&member.internal) {
                addresses.push(member.internal.clone());
            }
        }
    }
    if !addresses.is_empty() {
        return Decision::Join(addresses);
    }
    boot(own, answers).map_or(Decision::Wait, Decision::Boot)
}

/// The members to boot with, when this node is the one to do so and everybody is there.
fn boot(own: &Probed, answers: &[Probed]) -> Option<Vec<(NodeId, Member)>> {
    let (lowest, _) = own.seeds.first()?;
    if own.seed_id != *lowest {
        return None;
    }
    let mut members = Vec::new();
    for (id, address) in &own.seeds {
        let found = match *id == own.seed_id {
            true => own,
            false => answers.iter().find(|answer| answer.seed_id == *id && answer.internal == *address)?,
        };
        // One with an id and no membership was stopped in the middle of an earlier attempt.
        if found.id.is_some_and(|taken| taken != *id) || !found.members.is_empty() || found.seeds != own.seeds
        {
            return None;
        }
        let member = Member { internal: address.clone(), api: found.api.clone(), birth: found.birth.clone() };
        members.push((*id, member));
    }
    Some(members)
}

/// Brings the node into its cluster, and ends when it has a vote.
pub async fn run(node: Arc<Node>) {
    if let Err(error) = enter(&node).await {
        node.faults.raise(error);
    }
}

async fn enter(node: &Arc<Node>) -> Result<(), OpenError> {
    let mut poll = FIRST_POLL;
    while is_outside(node).await {
        match decide(&rpc::probe(node), &ask_all(node).await) {
            Decision::Wait => {}
            Decision::Boot(founders) => {
                settle(node, node.options.node_id).await?;
                initialize(node, founders).await?;
                break;
            }
            Decision::Settle(id) => {
                settle(node, id).await?;
                break;
            }
            Decision::Join(addresses) if node.identity().id.is_none() => {
                if let Some(id) = ask_for_id(node, &addresses).await {
                    tracing::info!(id, "the cluster gave this node an id");
                    take_id(node, id, false).await?;
                    break;
                }
            }
            Decision::Join(_) => {
                tracing::warn!("the cluster was booted without this node: empty its data directory");
            }
        }
        sleep(poll).await;
        poll = (poll * 2).min(LAST_POLL);
    }
    if node.identity().entered { Ok(()) } else { wait_for_vote(node).await }
}

/// Whether the node still looks for its cluster: it has no id, or it was stopped in the middle of the first
/// boot.
async fn is_outside(node: &Node) -> bool {
    let identity = node.identity();
    match (identity.id, node.raft()) {
        (Some(_), Some(raft)) => identity.entered && raft.is_initialized().await == Ok(false),
        _ => true,
    }
}

/// Starts under an id that the first membership gives to this node.
async fn settle(node: &Arc<Node>, id: NodeId) -> Result<(), OpenError> {
    take_id(node, id, true).await
}

/// Writes an id down, unless the node has one, and starts.
async fn take_id(node: &Arc<Node>, id: NodeId, entered: bool) -> Result<(), OpenError> {
    let taken = node.change_identity(|identity| {
        let free = identity.id.is_none();
        if free {
            (identity.id, identity.entered) = (Some(id), entered);
        }
        free
    })?;
    // Somebody else may have given it an id meanwhile, and has started it.
    if taken { node.start(id).await } else { Ok(()) }
}

/// Boots the cluster. A crash before the membership is on the disk leaves nothing behind that matters.
async fn initialize(node: &Arc<Node>, founders: Vec<(NodeId, Member)>) -> Result<(), OpenError> {
    let Some(raft) = node.raft() else { return Ok(()) };
    let members: std::collections::BTreeMap<NodeId, Member> = founders.iter().cloned().collect();
    match raft.initialize(members).await {
        Ok(()) => tracing::info!(cluster = node.options.cluster, "the cluster is booted"),
        Err(RaftError::APIError(InitializeError::NotAllowed(_))) => return Ok(()),
        Err(error) => return Err(OpenError::Raft(error.to_string())),
    }
    // The others start once they have found themselves in the membership. Waiting for them here and standing
    // then saves an election's timeout.
    for _ in 0..BOOT_ROUNDS {
        let started = ask_all(node).await.iter().filter(|answer| answer.id.is_some()).count();
        if 2 * (started + 1) > founders.len() {
            if raft.trigger().elect(true).await.is_err() {
                tracing::warn!("raft has stopped");
            }
            return Ok(());
        }
        sleep(FIRST_POLL).await;
    }
    Ok(())
}

/// Asks to be let in until the node has its vote.
async fn wait_for_vote(node: &Arc<Node>) -> Result<(), OpenError> {
    let mut poll = FIRST_POLL;
    loop {
        let mut addresses: Vec<String> = Vec::new();
        let membership = node.membership();
        if let Some(leader) = node.leadership.borrow().leader
            && let Some(member) = membership.get_node(&leader)
        {
            addresses.push(member.internal.clone());
        }
        addresses.extend(membership.nodes().map(|(_, member)| member.internal.clone()));
        addresses.extend(others(node));
        match ask_to_join(node, &addresses).await {
            Some(JoinReply::Member) => {
                node.change_identity(|identity| {
                    identity.entered = true;
                    true
                })?;
                tracing::info!("this node has its vote");
                return Ok(());
            }
            Some(JoinReply::Refused(why)) => tracing::warn!(why, "the cluster does not let this node in"),
            _ => {}
        }
        sleep(poll).await;
        poll = (poll * 2).min(LAST_POLL);
    }
}

async fn ask_for_id(node: &Arc<Node>, addresses: &[String]) -> Option<NodeId> {
    match ask_to_join(node, addresses).await? {
        JoinReply::Assigned(id) => Some(id),
        other => {
            tracing::debug!(?other, "no id yet");
            None
        }
    }
}

/// Asks one address after the other until one is, or knows, the leader.
async fn ask_to_join(node: &Arc<Node>, addresses: &[String]) -> Option<JoinReply> {
    let join = Join { id: node.identity().id, member: node.member() };
    let link = node.link.under(join.id.unwrap_or(0));
    let mut queue: std::collections::VecDeque<String> = addresses.iter().cloned().collect();
    let mut asked = Vec::new();
    while let Some(address) = queue.pop_front() {
        if asked.contains(&address) || address == node.options.internal {
            continue;
        }
        match link.call_address(&address, RpcKind::Join, &join, 5 * CALL_DEADLINE).await {
            Ok(JoinReply::NotLeader(hint)) => queue.extend(hint.map(|leader| leader.internal)),
            Ok(reply) => return Some(reply),
            Err(error) => tracing::debug!(address, %error, "no answer"),
        }
        asked.push(address);
    }
    None
}

/// The addresses to ask, without this node's own.
fn others(node: &Node) -> Vec<String> {
    let seeds = node.options.members.iter().map(|seed| &seed.internal);
    let mut addresses: Vec<String> = seeds.chain(&node.options.join).cloned().collect();
    addresses.retain(|address| *address != node.options.internal);
    addresses.sort();
    addresses.dedup();
    addresses
}

async fn ask_all(node: &Arc<Node>) -> Vec<Probed> {
    let link = node.link.under(node.identity().id.unwrap_or(0));
    let addresses = others(node);
    let calls = addresses.iter().map(|address| {
        let link = &link;
        async move { link.call_address(address, RpcKind::Probe, &(), CALL_DEADLINE).await.ok() }
    });
    futures_util::future::join_all(calls).await.into_iter().flatten().collect()
}

#[cfg(test)]
#[path = "bootstrap_tests.rs"]
mod tests;
