//! A replica loses its data, or was away for longer than the log goes back.

use std::fs;
use std::time::Duration;

use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::history::faults;
use orloj_tests::load::{Load, Running, outcomes};
use orloj_tests::process::until;
use orloj_wire::rest::{Cluster as View, Submit};

const PATIENCE: Duration = Duration::from_secs(120);
/// Little is kept of the log, so that only a snapshot can help.
pub(super) const SHORT_LOG: [&str; 2] =
    ["store.snapshot.log-bytes=200000", "store.snapshot.keep-log-entries=50"];

fn load(cluster: &Cluster, name: &str) -> Running {
    let make = |_: &str, number| {
        Submit::new("echo", serde_json::json!({ "number": number, "fill": "x".repeat(500) }))
    };
    Load::new(cluster.client(), name, make).callers(4).start(usize::MAX)
}

async fn further(running: &Running, count: usize) {
    let goal = running.acknowledged() + count;
    until(&format!("{count} more submissions"), PATIENCE, async || running.acknowledged() >= goal).await;
}

async fn all_succeeded(cluster: &Cluster, running: Running) {
    let history = running.stop().await;
    let tasks = outcomes(&cluster.client(), &history, PATIENCE).await;
    let faults: Vec<String> = tasks.iter().flat_map(faults).collect();
    assert!(faults.is_empty(), "{} faults, for instance {:?}", faults.len(), &faults[..faults.len().min(3)]);
}

fn id_at(view: &View, api: &str) -> Option<u64> {
    view.members
        .iter()
        .find(|member| member.api == api && member.role != "learner" && member.role != "unknown")
        .map(|member| member.id)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_without_its_data_joins_under_a_new_identity() {
    let cluster = Cluster::start(Setup { set: SHORT_LOG.to_vec(), ..Setup::default() }).await;
    let running = load(&cluster, "wiped");
    further(&running, 300).await;
    let follower = (cluster.leader().await + 1) % 3;
    let (name, replica) = (cluster.replica(follower), cluster.ready().replicas[follower].clone());
    cluster.kill(&name).await;
    // The old data is kept aside: it stands for a disk that turns up again.
    let aside = cluster.dir().join("old-data");
    fs::rename(&replica.dir, &aside).unwrap();
    further(&running, 300).await;
    cluster.start_again(&name, &[]);
    let client = cluster.client();
    let mut new_id = None;
    until("the replica votes under a new id", PATIENCE, async || {
        let Ok(view) = client.cluster().await else { return false };
        new_id = id_at(&view, &replica.api).filter(|id| *id != replica.id);
        new_id.is_some() && view.members.iter().all(|member| member.id != replica.id)
    })
    .await;
    further(&running, 100).await;
    all_succeeded(&cluster, running).await;
    cluster.agree(3).await;
    the_old_identity_is_refused(&cluster, follower, &aside, new_id).await;
}

/// The old data comes back at the old address. It must neither vote nor become a member again.
async fn the_old_identity_is_refused(
    cluster: &Cluster,
    place: usize,
    aside: &std::path::Path,
    new_id: Option<u64>,
) {
    let (name, replica) = (cluster.replica(place), cluster.ready().replicas[place].clone());
    cluster.kill(&name).await;
    let new_data = cluster.dir().join("new-data");
    fs::rename(&replica.dir, &new_data).unwrap();
    fs::rename(aside, &replica.dir).unwrap();
    cluster.start_again(&name, &[]);
    let others: Vec<usize> = (0..3).filter(|other| *other != place).collect();
    let client = cluster.client_of(&others, Duration::from_secs(10));
    let before = client.cluster().await.unwrap();
    let running = load(cluster, "ghost");
    further(&running, 300).await;
    all_succeeded(cluster, running).await;
    let view = client.cluster().await.unwrap();
    assert!(view.members.iter().all(|member| member.id != replica.id), "{view:?}");
    assert_eq!((view.leader, view.term), (before.leader, before.term), "the old identity forced an election");
    let member = view.members.iter().find(|member| Some(member.id) == new_id);
    assert!(
        member.is_some_and(|member| member.applied_index.is_none()),
        "old data answers as the new id: {view:?}"
    );
    // With its own data the replica is welcome.
    cluster.kill(&name).await;
    fs::rename(&replica.dir, cluster.dir().join("old-data")).unwrap();
    fs::rename(&new_data, &replica.dir).unwrap();
    cluster.start_again(&name, &[]);
    cluster.agree(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_was_away_catches_up_by_snapshot() {
    let cluster = Cluster::start(Setup { set: SHORT_LOG.to_vec(), ..Setup::default() }).await;
    let running = load(&cluster, "away");
    further(&running, 100).await;
    let leader = cluster.leader().await;
    let follower = (leader + 1) % 3;
    let last = cluster.probe(follower).await.expect("the probe answers")["lastLog"].as_u64().unwrap();
    cluster.kill(&cluster.replica(follower)).await;
    until("the leader's log has forgotten what the replica needs", PATIENCE, async || {
        let leader = cluster.leader().await;
        let probe = cluster.probe(leader).await;
        probe.is_some_and(|probe| probe["purged"].as_u64().is_some_and(|purged| purged > last + 50))
    })
    .await;
    cluster.start_again(&cluster.replica(follower), &[]);
    let client = cluster.client_of(&[follower], Duration::from_secs(2));
    until("the replica has caught up under load", PATIENCE, async || {
        client.cluster().await.is_ok_and(|view| {
            let api = &cluster.ready().replicas[follower].api;
            let member = view.members.iter().find(|member| member.api == *api);
            member.is_some_and(|member| member.lag_entries.is_some_and(|lag| lag < 50))
        })
    })
    .await;
    all_succeeded(&cluster, running).await;
    cluster.agree(3).await;
}
