//! The receiving side of a snapshot's transfer: one at a time, of the newest leader.

use openraft::async_runtime::WatchReceiver as _;
use openraft::storage::Snapshot;

use crate::error::Fault;
use crate::failure::RpcError;
use crate::machine::Machine;
use crate::message::{SendSnapshot, SnapshotReply};
use crate::node::Node;
use crate::runner::blocking;
use crate::snapshot::{Incoming, Manifest, ReceiveError};
use crate::stored::StoredVote;
use crate::types::{LogId, Raft, Vote};

/// A snapshot needs so many times its size in free space: it is received, and RocksDB rewrites tables as it
/// goes on from there.
const SPACE_FACTOR: u64 = 2;

/// What is being received, if anything.
#[derive(Default)]
pub struct Reception(Option<Incoming>);

/// Takes a step of a transfer.
///
/// # Errors
/// The storage failed; the node stops.
pub async fn receive(
    node: &Node,
    raft: &Raft<Machine>,
    step: SendSnapshot,
) -> Result<SnapshotReply, RpcError> {
    let (SendSnapshot::Begin { vote, .. } | SendSnapshot::Piece { vote, .. } | SendSnapshot::Finish { vote }) =
        &step;
    let vote = *vote;
    let held = StoredVote::from(&raft.server_metrics().borrow_watched().vote);
    if (vote.term, vote.node) < (held.term, held.node) {
        return Ok(SnapshotReply::Done(held));
    }
    let mut reception = node.reception.lock().await;
    if let SendSnapshot::Begin { manifest, .. } = &step
        && vote == held
        && is_applied(raft, manifest)
    {
        // The answer to an earlier transfer got lost, or came too late.
        return Ok(SnapshotReply::Done(held));
    }
    let taken = match step {
        SendSnapshot::Begin { manifest, .. } => begin(node, &mut reception, *manifest).await,
        SendSnapshot::Piece { file, offset, crc, data, .. } => {
            let Some(mut incoming) = reception.0.take() else {
                return Ok(SnapshotReply::Again("nothing is being received".into()));
            };
            let write = move || {
                let taken = incoming.take(file as usize, offset, crc, &data);
                Ok((incoming, taken))
            };
            match blocking(&*node.runner, write).await {
                Ok((incoming, taken)) => {
                    reception.0 = Some(incoming);
                    taken.map(|()| SnapshotReply::Written)
                }
                Err(fault) => Err(fault.into()),
            }
        }
        SendSnapshot::Finish { .. } => finish(node, raft, &mut reception, vote).await,
    };
    answer(node, taken)
}

/// Whether everything that a snapshot stands for has been applied here.
fn is_applied(raft: &Raft<Machine>, manifest: &Manifest) -> bool {
    let applied = raft.metrics().borrow_watched().last_applied;
    manifest.meta.last_log_id.map(LogId::from) <= applied
}

async fn begin(
    node: &Node,
    reception: &mut Reception,
    manifest: Manifest,
) -> Result<SnapshotReply, ReceiveError> {
    if let Some(incoming) = &reception.0
        && *incoming.manifest() == manifest
    {
        return Ok(SnapshotReply::Have(incoming.received().to_vec()));
    }
    // Gone before the next one is begun, so that its space is free again.
    reception.0 = None;
    let (needed, free) = (manifest.bytes().saturating_mul(SPACE_FACTOR), node.disk.free());
    if needed > free {
        return Ok(SnapshotReply::Again(format!("{needed} bytes are needed, {free} are free")));
    }
    let snapshots = std::sync::Arc::clone(&node.snapshots);
    let begun = blocking(&*node.runner, move || Ok(Incoming::begin(&snapshots, manifest))).await??;
    let have = begun.received().to_vec();
    reception.0 = Some(begun);
    Ok(SnapshotReply::Have(have))
}

async fn finish(
    node: &Node,
    raft: &Raft<Machine>,
    reception: &mut Reception,
    vote: StoredVote,
) -> Result<SnapshotReply, ReceiveError> {
    let Some(incoming) = reception.0.take() else {
        return Ok(SnapshotReply::Again("nothing is being received".into()));
    };
    let handle = blocking(&*node.runner, move || Ok(incoming.finish())).await??;
    let snapshot = Snapshot { meta: handle.meta().clone(), snapshot: handle };
    match raft.install_full_snapshot(Vote::from(vote), snapshot).await {
        Ok(response) => Ok(SnapshotReply::Done((&response.vote).into())),
        Err(error) => Ok(SnapshotReply::Again(error.to_string())),
    }
}

fn answer(node: &Node, taken: Result<SnapshotReply, ReceiveError>) -> Result<SnapshotReply, RpcError> {
    match taken {
        Ok(reply) => Ok(reply),
        Err(ReceiveError::Refused(why)) => Ok(SnapshotReply::Again(why)),
        Err(ReceiveError::Fault(fault)) => Err(stop(node, &fault)),
    }
}

fn stop(node: &Node, fault: &Fault) -> RpcError {
    node.faults.raise(fault);
    RpcError::Stopped(fault.to_string())
}
