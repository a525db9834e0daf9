//! `pending`: many tasks of a later hour. What they cost in memory, and what a restart and a change of leader take.

use std::time::Duration;

use anyhow::{Context as _, bail};
use orloj_bench::figures::{Run, Shown};
use orloj_bench::latency::Latency;
use orloj_bench::message::{LoadResult, LoadSpec};
use orloj_bench::plan::{Due, Plan};
use rustix::process::Signal;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use super::super::args::Way;
use super::super::stage::Stage;

/// Tasks, unless others are wished.
const TASKS: u64 = 1_000_000;
/// The tasks are due so long after the beginning, over as long a span.
const HOUR_MS: u64 = 3_600_000;
/// Those within the leader's window of 5 min are due so long after they are submitted, over as long a span.
const SOON_MS: u64 = 120_000;
/// For memory and disk to come to rest before they are looked at.
const SETTLE: Duration = Duration::from_secs(5);
/// How long idle CPU is measured.
const IDLE: Duration = Duration::from_secs(10);
/// Changes of leader that are measured with an empty table, and with a full one.
const CHANGES: usize = 5;
/// For a change of leader.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at the new leader.
const PAUSE: Duration = Duration::from_millis(1);
/// The longest that submitting may take, in s.
const SUBMIT_S: f64 = 7_200.0;

/// What `GET /debug/probe` says, as far as it is used here.
#[derive(Debug, Deserialize)]
struct Probe {
    serving: Option<u64>,
    wheel: u64,
}

/// Measures the empty cluster, fills it, and measures it again.
///
/// # Errors
/// A part of the bench or the cluster has gone, or the cluster is not the bench's own.
pub async fn run(stage: &mut Stage) -> anyhow::Result<Run> {
    let mut run = Run::default();
    stage.progress.begin("idling");
    add_rest(stage, &mut run, "empty").await;
    let changes = change_leaders(stage).await?;
    run.add_latency("change of leader, empty", changes.quantiles(), &[Shown::P50, Shown::Max]);

    let count = stage.args.load.tasks.unwrap_or(TASKS);
    let soon = stage.args.load.soon.min(count);
    stage.progress.begin("submitting");
    let far =
        submit(stage, Plan { first_id: 0, count: count - soon, due: later(stage, HOUR_MS), sleep_ms: 0 })
            .await?;
    run.add("submitted", "/s", far.per_s());
    run.add_latency("submit", far.latency.quantiles(), &[Shown::P50, Shown::P99]);
    stage.progress.begin("idling");
    add_rest(stage, &mut run, "pending").await;

    let near =
        submit(stage, Plan { first_id: count, count: soon, due: later(stage, SOON_MS), sleep_ms: 0 }).await?;
    run.errors.extend(far.errors.into_iter().chain(near.errors));
    run.add("pending tasks", "", (far.acknowledged + near.acknowledged) as f64);
    let changes = change_leaders(stage).await?;
    run.add_latency("change of leader, pending", changes.quantiles(), &[Shown::P50, Shown::Max]);
    let probe =
        probe(stage, stage.cluster.leader().await?).await.context("the leader's probe does not answer")?;
    run.add("timers in the wheel", "", probe.wheel as f64);

    stage.progress.begin("restarting");
    let leader = stage.cluster.leader().await?;
    let follower = (leader + 1) % stage.cluster.target().servers.len();
    stage.cluster.end(follower, Signal::TERM).await?;
    stage.cluster.start_again(follower)?;
    run.add("restart of one replica", "ms", ms(stage.cluster.ready(follower).await?));
    stage.add_usage(&mut run);
    Ok(run)
}

fn later(stage: &Stage, ms: u64) -> Due {
    Due::Spread { base_ms: stage.now_ms() + i64::try_from(ms).unwrap_or(i64::MAX), spread_ms: ms }
}

async fn submit(stage: &mut Stage, plan: Plan) -> anyhow::Result<LoadResult> {
    let spec = LoadSpec {
        unknown_handler: true,
        remember: false,
        limit_s: SUBMIT_S,
        ..stage.spec(plan, Way::Batch)
    };
    let ran = stage.submit(spec).await?;
    if ran.acknowledged < plan.count {
        bail!("only {} of {} tasks were acknowledged: {:?}", ran.acknowledged, plan.count, ran.errors);
    }
    Ok(ran)
}

/// Memory of the replica that has most, and CPU of all, at rest.
async fn add_rest(stage: &Stage, run: &mut Run, when: &str) {
    sleep(SETTLE).await;
    let before = stage.cluster.cpu_s();
    sleep(IDLE).await;
    let used_s = stage.cluster.cpu_s() - before;
    let most = stage.cluster.usages().iter().map(|(_, usage)| usage.now_mib).fold(0.0, f64::max);
    run.add(format!("memory of one replica, {when}"), "MiB", most);
    run.add(format!("idle CPU of all replicas, {when}"), "% of a core", used_s / IDLE.as_secs_f64() * 100.0);
}

/// Moves the leadership on, again and again: from the order until the next leader has loaded what is due soon and
/// gives out work.
async fn change_leaders(stage: &mut Stage) -> anyhow::Result<Latency> {
    let (admin, mut taken) = (stage.cluster.admin()?, Latency::default());
    for number in 1..=CHANGES {
        stage.progress.begin(format!("change of leader {number} of {CHANGES}"));
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
    }
    Ok(taken)
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

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}
