//! What workloads with a full table measure of a cluster that is left alone: memory and CPU at rest, a change of leader,
//! a restart.

use std::time::Duration;

use anyhow::{Context as _, bail};
use orloj_bench::figures::{Run, Shown};
use orloj_bench::latency::Latency;
use rustix::process::Signal;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use super::super::stage::Stage;
use super::loads::Loads;

/// For a change of leader.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at the new leader.
const PAUSE: Duration = Duration::from_millis(1);

/// What `GET /debug/probe` says, as far as it is used here.
#[derive(Debug, Deserialize)]
struct Probe {
    serving: Option<u64>,
    scheduler: Loop,
}

/// What the leader's loop has in hand.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Loop {
    wheel_size: u64,
    job_timers: u64,
}

/// Timers in the leader's wheel, those of tasks and of jobs.
///
/// # Errors
/// There is no leader, or its probe does not answer.
pub async fn timers(stage: &Stage) -> anyhow::Result<u64> {
    let leader = stage.cluster.leader().await?;
    let probe = probe(stage, leader).await.context("the leader's probe does not answer")?;
    Ok(probe.scheduler.wheel_size + probe.scheduler.job_timers)
}

/// Restarts a replica that does not lead, once after it was stopped in order and once after it was killed; adds how long
/// it took from the start of the process until it could serve.
///
/// # Errors
/// There is no leader, or the replica does not come back.
pub async fn add_restarts(stage: &mut Stage, run: &mut Run) -> anyhow::Result<()> {
    let ways = [(Signal::TERM, "restart of one replica"), (Signal::KILL, "restart of one replica, killed")];
    for (signal, name) in ways {
        stage.progress.begin(name);
        let leader = stage.cluster.leader().await?;
        let follower = (leader + 1) % stage.cluster.target().servers.len();
        stage.cluster.end(follower, signal).await?;
        let took = stage.cluster.restart(follower).await?;
        run.add(name, "ms", took.as_secs_f64() * 1e3);
    }
    Ok(())
}

/// Memory of the replica that has most, and CPU of all, at rest.
pub async fn add_rest(stage: &mut Stage, run: &mut Run, when: &str) {
    stage.progress.begin("idling");
    let idle = Duration::from_secs(stage.args.load.idle_s);
    sleep(idle / 2).await;
    let before = stage.cluster.cpu_s();
    sleep(idle).await;
    let used_s = stage.cluster.cpu_s() - before;
    run.add(format!("memory of one replica, {when}"), "MiB", most_memory(stage));
    run.add(format!("idle CPU of all replicas, {when}"), "% of a core", used_s / idle.as_secs_f64() * 100.0);
}

/// Memory of the replica that has most, in MiB.
pub fn most_memory(stage: &Stage) -> f64 {
    stage.cluster.usages().iter().map(|(_, usage)| usage.now_mib).fold(0.0, f64::max)
}

/// Moves the leadership on, again and again; adds how long it took from the order until the next leader had loaded what
/// is due soon and gave out work, and what that leader says of its loads. `when` follows the names.
///
/// # Errors
/// The cluster is another's, or the leadership does not move.
pub async fn add_changes(stage: &mut Stage, run: &mut Run, when: &str) -> anyhow::Result<()> {
    let admin = stage.cluster.admin()?;
    let (mut taken, mut loads) = (Latency::default(), Loads::default());
    let changes = stage.args.load.changes;
    for number in 1..=changes {
        stage.progress.begin(format!("change of leader {number} of {changes}"));
        let leader = stage.cluster.leader().await?;
        let next = (leader + 1) % stage.cluster.target().servers.len();
        let id = id_of(stage, next).await?;
        let begin = Instant::now();
        let order = admin.transfer(id);
        tokio::pin!(order);
        let serves = serving(stage, next);
        tokio::pin!(serves);
        // The order is answered some time after the leadership has moved.
        let (moved, served) = tokio::join!(&mut order, async {
            serves.await?;
            anyhow::Ok(begin.elapsed())
        });
        moved.context("the leadership does not move")?;
        taken.record(u64::try_from(served?.as_micros()).unwrap_or(u64::MAX));
        stage.cluster.ready(next).await?;
        loads.take(stage, next).await;
    }
    run.add_latency(&format!("change of leader{when}"), &taken, &[Shown::P50, Shown::Max]);
    loads.add_to(run, when);
    Ok(())
}

async fn id_of(stage: &Stage, place: usize) -> anyhow::Result<u64> {
    let view = stage.cluster.client()?.cluster().await?;
    let url = &stage.cluster.target().servers[place];
    let member = view.members.iter().find(|member| member.api == *url);
    Ok(member.with_context(|| format!("{url} is no member"))?.id)
}

async fn serving(stage: &Stage, place: usize) -> anyhow::Result<()> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if probe(stage, place).await.is_ok_and(|probe| probe.serving.is_some()) {
            return Ok(());
        }
        sleep(PAUSE).await;
    }
    bail!("replica {} does not serve within {PATIENCE:?}", place + 1)
}

async fn probe(stage: &Stage, place: usize) -> anyhow::Result<Probe> {
    let url = format!("{}/debug/probe", stage.cluster.target().servers[place]);
    Ok(stage.http().get(url).send().await?.json().await?)
}
