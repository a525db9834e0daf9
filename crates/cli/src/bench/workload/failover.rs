//! `failover`: `steady`, with the leader killed again and again.

use std::time::Duration;

use orloj_bench::figures::{Run, Shown};
use orloj_bench::latency::Latency;
use orloj_bench::message::LoadSpec;
use orloj_wire::clock::SystemClock;
use rustix::process::Signal;
use tokio::time::{Instant, sleep_until};

use super::super::args::Way;
use super::super::stage::{Stage, add_outcome};
use super::steady;

/// From the beginning to the first kill, and from a kill to the start of the same replica.
const BEFORE_KILL: Duration = Duration::from_secs(5);
/// After the last submission, for the last tasks to be done: longer than a lease.
const DRAIN: Duration = Duration::from_secs(120);

/// Submits at the rate while the leader is killed with SIGKILL at fixed instants; each replica that was killed is
/// started again after 5 s.
///
/// # Errors
/// A part of the bench or the cluster has gone, or the cluster is not the bench's own.
pub async fn run(stage: &mut Stage) -> anyhow::Result<Run> {
    stage.warm_up(Way::Single).await?;
    let (kills, every_s) = (stage.args.load.kills, stage.args.load.every_s.max(10));
    let spec = LoadSpec {
        key_prefix: Some(stage.key_prefix()),
        ..steady::spec(stage, u64::from(kills) * every_s + BEFORE_KILL.as_secs())
    };
    stage.begin_submit(&spec).await?;
    let kills_us = kill_leaders(stage, kills, Duration::from_secs(every_s)).await?;
    stage.progress.begin("submitting");
    let submitted = stage.submitted(spec.plan.count).await?;

    stage.progress.begin("running");
    stage.wait_done(submitted.acknowledged, DRAIN).await?;
    let checked = stage.check().await?;
    let (summary, gaps_us) = stage.summary(kills_us).await?;

    let mut run = Run { errors: submitted.errors.clone(), ..Run::default() };
    let mut gaps = Latency::default();
    let seen = gaps_us.iter().flatten().filter_map(|gap| u64::try_from(*gap).ok());
    seen.for_each(|gap| gaps.record(gap));
    run.add("leaders killed", "", gaps_us.len() as f64);
    run.add_latency("kill to next dispatch", gaps.quantiles(), &[Shown::P50, Shown::Max]);
    run.add("dispatches that never came", "", (gaps_us.len() as u64 - gaps.count()) as f64);
    run.add_latency("submit", submitted.latency.quantiles(), Shown::ALL);
    run.add("repeated submissions", "", submitted.repeated as f64);
    add_outcome(&mut run, submitted.sent, &checked, &summary, Shown::ALL);
    stage.add_usage(&mut run);
    Ok(run)
}

/// Kills the leader so many times; returns when, in µs since the Unix epoch.
async fn kill_leaders(stage: &mut Stage, kills: u32, every: Duration) -> anyhow::Result<Vec<i64>> {
    let (clock, begin) = (SystemClock::new(), Instant::now());
    let mut kills_us = Vec::new();
    for number in 0..kills {
        stage.progress.begin(format!("{number} of {kills} leaders killed"));
        let at = begin + BEFORE_KILL + every * number;
        sleep_until(at).await;
        let leader = stage.cluster.leader().await?;
        kills_us.push(clock.wall_us());
        stage.cluster.end(leader, Signal::KILL).await?;
        sleep_until(at + BEFORE_KILL).await;
        stage.cluster.start_again(leader)?;
        stage.cluster.ready(leader).await?;
    }
    Ok(kills_us)
}
