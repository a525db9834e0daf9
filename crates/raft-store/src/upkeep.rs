//! What a node does by the clock: look at the disk, take snapshots, compare digests; and what it watches: the
//! leadership, and whether Raft and the log are still alive.

use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver as _;
use openraft::{RaftMetrics, ServerState};
use orloj_model::id::NodeId;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use crate::config::SnapshotOptions;
use crate::log::LogMonitor;
use crate::machine::Machine;
use crate::membership;
use crate::node::Node;
use crate::runner::blocking;
use crate::runtime::to_its_end;
use crate::status::{Checkpoint, Leadership, NodeState, NodeStatus};
use crate::transport::RpcKind;
use crate::types::{Member, Raft, TypeConfig};

/// Between two looks at whether a snapshot is due.
const SNAPSHOT_POLL: Duration = Duration::from_secs(1);
const CALL_DEADLINE: Duration = Duration::from_secs(1);

/// Looks at the disk by the clock.
pub async fn watch_disk(node: Arc<Node>) {
    let mut ticks = interval(Duration::from_millis(node.options.disk.check_ms));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let disk = Arc::clone(&node.disk);
        if let Err(fault) = blocking(&*node.runner, move || disk.check()).await {
            node.faults.raise(fault);
            return;
        }
        if node.disk.is_low() && node.leadership.borrow().leading {
            hand_over(&node).await;
        }
    }
}

/// A leader whose disk is nearly full refuses all work. It hands the lead to a voter that has room, if there
/// is one; the next look at the disk tries again.
async fn hand_over(node: &Arc<Node>) {
    let own = node.identity().id;
    let membership = node.membership();
    let link = node.link.under(own.unwrap_or(0));
    for id in membership.voter_ids().filter(|id| Some(*id) != own) {
        let Some(member) = membership.get_node(&id) else { continue };
        let status: Result<NodeStatus, _> =
            link.call((id, member), RpcKind::Status, &(), CALL_DEADLINE).await;
        if status.is_ok_and(|status| status.state == NodeState::Ok) {
            tracing::warn!(to = id, "the disk is nearly full: the lead is handed over");
            match membership::transfer(node, id).await {
                Ok(()) => return,
                Err(error) => tracing::warn!(%error, to = id, "the lead was not handed over"),
            }
        }
    }
}

/// Publishes who leads.
pub async fn watch_leadership(node: Arc<Node>, raft: Raft<Machine>) {
    let mut metrics = raft.server_metrics();
    loop {
        let leadership = {
            let now = metrics.borrow_watched();
            Leadership {
                term: now.vote.leader_id.term,
                leader: now.current_leader,
                leading: now.state == ServerState::Leader && now.current_leader == Some(now.id),
            }
        };
        if leadership.leading && !node.leadership.borrow().leading {
            node.pulse.beat();
        }
        node.leadership.send_if_modified(|held| {
            let changed = *held != leadership;
            *held = leadership;
            changed
        });
        if metrics.changed().await.is_err() {
            node.leadership.send_replace(Leadership::default());
            return;
        }
    }
}

/// Ends the node when Raft has ended by itself.
pub async fn watch_raft(node: Arc<Node>, raft: Raft<Machine>) {
    let all = raft.metrics();
    // These end with Raft as well, and change with its role alone; the others change several times with every entry,
    // and with every tick.
    let mut server = raft.server_metrics();
    while server.changed().await.is_ok() {}
    match &all.borrow_watched().running_state {
        Err(fatal) => node.faults.raise(format!("raft has stopped: {fatal}")),
        Ok(()) => node.faults.raise("raft has stopped"),
    }
}

/// Stops Raft when any part of the node has failed: until its process ends, it must not lead or vote.
pub async fn stop_on_fault(node: Arc<Node>, raft: Raft<Machine>) {
    let raised = node.faults.watch().wait_for(Option::is_some).await.is_ok();
    if raised && let Err(error) = to_its_end(async move { raft.shutdown().await }).await {
        tracing::warn!(%error, "raft did not stop in good order");
    }
}

/// Ends the node when the log has failed.
pub async fn watch_log(node: Arc<Node>, monitor: LogMonitor) {
    let mut fault = monitor.fault();
    let raised = fault.wait_for(Option::is_some).await.ok().and_then(|fault| fault.clone());
    if let Some(reason) = raised {
        node.faults.raise(reason);
    }
}

/// Takes a snapshot when enough has been applied, or the last one is old.
pub async fn take_snapshots(node: Arc<Node>, raft: Raft<Machine>) {
    let options = node.options.snapshot;
    let spread = spread(node.identity().id.unwrap_or(0));
    let (mut since, mut bytes_then) = (Instant::now(), node.published.applied_bytes());
    loop {
        sleep(SNAPSHOT_POLL).await;
        let bytes = node.published.applied_bytes();
        let last = node.snapshots.current().map_or(0, |snapshot| snapshot.index());
        let news = node.published.stamp().applied > last;
        if !news || !due(&options, spread, bytes - bytes_then, since.elapsed()) {
            continue;
        }
        let asked = raft.clone();
        if to_its_end(async move { asked.trigger().snapshot().await }).await.is_err() {
            return;
        }
        (since, bytes_then) = (Instant::now(), bytes);
    }
}

/// A fifth at most, in permille, so that the members do not all take their snapshots at once.
fn spread(id: NodeId) -> u64 {
    (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % 201
}

fn due(options: &SnapshotOptions, spread: u64, bytes: u64, age: Duration) -> bool {
    let longer = |value: u64| value.saturating_add(value / 1000 * spread);
    bytes >= longer(options.log_bytes)
        || age >= Duration::from_millis(longer(options.every_s.saturating_mul(1000)))
}

/// Compares the digests with those of the other members by the clock.
pub async fn compare_digests(node: Arc<Node>) {
    let every = Duration::from_millis(node.options.timing.digest_check_ms);
    loop {
        sleep(every).await;
        let Some(id) = node.identity().id else { continue };
        let membership = node.membership();
        let voters: Vec<NodeId> = membership.voter_ids().collect();
        let link = node.link.under(id);
        let others = membership.nodes().filter(|(other, _)| **other != id && voters.contains(other));
        let calls = others.map(|(other, member): (&NodeId, &Member)| {
            let link = &link;
            let (other, member) = (*other, member.clone());
            async move {
                let answer = link.call((other, &member), RpcKind::Digests, &(), CALL_DEADLINE).await;
                answer.ok().map(|checkpoints: Vec<Checkpoint>| (other, checkpoints))
            }
        });
        let answers: Vec<_> = futures_util::future::join_all(calls).await.into_iter().flatten().collect();
        match verdict(&node.published.checkpoints(), &answers, voters.len()) {
            Verdict::Agrees => {}
            Verdict::Differs(other) => {
                tracing::error!(other, "the tables of a member differ from the others'")
            }
            Verdict::Odd(at) => {
                let problem = "the tables differ from those of the majority";
                node.faults.raise(format!(
                    "{problem} at entry {}: remove this node and let it join as a new member",
                    at.index
                ));
                return;
            }
        }
    }
}

/// What a comparison of digests says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// No difference was found.
    Agrees,
    /// This member differs from this node, which is with the majority or cannot tell.
    Differs(NodeId),
    /// This node differs at this checkpoint from a majority that agrees.
    Odd(Checkpoint),
}

/// Compares at the newest checkpoint that each other member has in common with this node.
fn verdict(own: &[Checkpoint], others: &[(NodeId, Vec<Checkpoint>)], voters: usize) -> Verdict {
    let mut differs = None;
    for mine in own.iter().rev() {
        let at = |theirs: &Vec<Checkpoint>| theirs.iter().find(|c| c.index == mine.index).map(|c| c.digest);
        let digests: Vec<(NodeId, u64)> =
            others.iter().filter_map(|(id, theirs)| Some((*id, at(theirs)?))).collect();
        for (id, digest) in &digests {
            if *digest == mine.digest {
                continue;
            }
            let with_them = digests.iter().filter(|(_, other)| other == digest).count();
            if 2 * with_them > voters {
                return Verdict::Odd(*mine);
            }
            differs = Some(*id);
        }
    }
    differs.map_or(Verdict::Agrees, Verdict::Differs)
}

/// Waits until Raft says so of itself.
///
/// # Errors
/// Raft has stopped.
pub async fn wait_for(
    raft: &Raft<Machine>,
    holds: impl Fn(&RaftMetrics<TypeConfig>) -> bool,
) -> Result<(), String> {
    let mut metrics = raft.metrics();
    loop {
        if holds(&metrics.borrow_watched()) {
            return Ok(());
        }
        metrics.changed().await.map_err(|_| "raft has stopped".to_string())?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Checkpoint = Checkpoint { index: 256, digest: 1 };
    const B: Checkpoint = Checkpoint { index: 512, digest: 2 };
    const X: Checkpoint = Checkpoint { index: 512, digest: 9 };

    #[test]
    fn the_odd_one_is_who_differs_from_an_agreeing_majority() {
        let both = |theirs: &[Checkpoint]| vec![(2, theirs.to_vec()), (3, theirs.to_vec())];
        assert_eq!(verdict(&[A, B], &both(&[A, B]), 3), Verdict::Agrees);
        assert_eq!(verdict(&[A, X], &both(&[A, B]), 3), Verdict::Odd(X));
        assert_eq!(verdict(&[A, B], &[(2, vec![A, B]), (3, vec![A, X])], 3), Verdict::Differs(3));
        // Nothing in common is no difference.
        assert_eq!(verdict(&[A], &both(&[B]), 3), Verdict::Agrees);
    }

    #[test]
    fn a_minority_stops_nobody() {
        assert_eq!(verdict(&[A, X], &[(2, vec![A, B])], 3), Verdict::Differs(2));
        assert_eq!(verdict(&[X], &[(2, vec![B]), (3, vec![B])], 5), Verdict::Differs(3));
        assert_eq!(verdict(&[X], &[(2, vec![B]), (3, vec![B]), (4, vec![B])], 5), Verdict::Odd(X));
    }

    #[test]
    fn a_snapshot_is_due_by_size_or_by_age() {
        let options = SnapshotOptions { log_bytes: 1000, every_s: 100, ..SnapshotOptions::default() };
        assert!(!due(&options, 0, 999, Duration::from_secs(99)));
        assert!(due(&options, 0, 1000, Duration::ZERO));
        assert!(due(&options, 0, 0, Duration::from_secs(100)));
        assert!(!due(&options, 200, 1199, Duration::from_secs(119)));
        assert!(due(&options, 200, 1200, Duration::ZERO));
        assert!((1..1000).all(|id| spread(id) <= 200));
    }
}
