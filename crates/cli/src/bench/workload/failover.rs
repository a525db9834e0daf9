//! `failover`: `steady`, with the leader killed again and again.

use std::time::Duration;

use anyhow::bail;
use orloj_bench::figures::{Run, Shown};
use orloj_bench::latency::Latency;
use orloj_bench::message::LoadSpec;
use orloj_bench::outcome::{Outcome, add_requests};
use orloj_bench::plan::{Due, Plan, WARM_FIRST};
use rustix::process::Signal;
use tokio::time::{Instant, sleep_until};

use super::super::args::Way;
use super::super::stage::Stage;
use super::loads::Loads;
use super::steady;

/// From the beginning to the first kill, and from a kill to the start of the same replica.
const BEFORE_KILL: Duration = Duration::from_secs(5);
/// After the last submission, for the last tasks to be done: longer than a lease.
const DRAIN: Duration = Duration::from_secs(120);
/// The handler of the tasks that wait all the time, which no executor has.
const NOBODYS: &str = "bench-nobodys";
/// Their ids: not among the run's own, and not among those of the warm-up.
const WAITING_FIRST: u64 = WARM_FIRST + (1 << 33);
/// The longest that submitting them may take, in s.
const SUBMIT_S: f64 = 7_200.0;

/// Submits at the rate while the leader is killed with SIGKILL at fixed instants; each replica that was killed is
/// started again after 5 s. Where a backlog was asked for, so many further tasks are ready all the time and nobody can
/// take them.
///
/// # Errors
/// A part of the bench or the cluster has gone, the cluster is not the bench's own, or the backlog cannot be made.
pub async fn run(stage: &mut Stage) -> anyhow::Result<Run> {
    stage.warm_up(Way::Single).await?;
    make_backlog(stage).await?;
    let (kills, every_s) = (stage.args.load.kills, stage.args.load.every_s);
    let spec = LoadSpec {
        key_prefix: Some(stage.key_prefix()),
        ..steady::spec(stage, u64::from(kills) * every_s + BEFORE_KILL.as_secs())
    };
    stage.begin_submit(&spec).await?;
    let (kills_us, loads) = kill_leaders(stage, kills, Duration::from_secs(every_s)).await?;
    stage.progress.begin("submitting");
    let submitted = stage.submitted(spec.plan.count).await?;

    stage.progress.begin("running");
    let drained = stage.wait_done(submitted.acknowledged, DRAIN).await?;
    let checked = stage.check().await?;
    let (summary, gaps_us) = stage.summary(kills_us).await?;

    let mut run = Run { errors: submitted.errors.clone(), ..Run::default() };
    let mut gaps = Latency::default();
    let seen = gaps_us.iter().flatten().filter_map(|gap| u64::try_from(*gap).ok());
    seen.for_each(|gap| gaps.record(gap));
    run.add("leaders killed", "", gaps_us.len() as f64);
    run.add("ready tasks that nobody can take", "", stage.args.load.ready as f64);
    run.add_latency("kill to next dispatch", &gaps, &[Shown::P50, Shown::Max]);
    loads.add_to(&mut run, "");
    let never = gaps_us.len() as u64 - gaps.count();
    run.add("dispatches that never came", "", never as f64);
    run.must_be_none(never, "kills of a leader were followed by no dispatch");
    add_requests(&mut run, "submit", &submitted, Shown::ALL);
    run.add("repeated submissions", "", submitted.repeated as f64);
    let (sent, acknowledged) = (submitted.sent, submitted.acknowledged);
    Outcome { sent, acknowledged, drained, checked: &checked, summary: &summary }
        .add_to(&mut run, Shown::ALL);
    stage.add_usage(&mut run);
    Ok(run)
}

/// Submits the tasks that wait all the time.
async fn make_backlog(stage: &mut Stage) -> anyhow::Result<()> {
    let count = stage.args.load.ready;
    if count == 0 {
        return Ok(());
    }
    stage.progress.begin("submitting what nobody can take");
    let plan = Plan { first_id: WAITING_FIRST, count, due: Due::AtOnce, sleep_ms: 0 };
    let spec = LoadSpec {
        handler: Some(NOBODYS.to_owned()),
        unknown_handler: true,
        remember: false,
        limit_s: SUBMIT_S,
        ..stage.spec(plan, Way::Batch)
    };
    let ran = stage.submit(spec).await?;
    if ran.acknowledged < count {
        bail!("only {} of {count} tasks were acknowledged: {:?}", ran.acknowledged, ran.errors);
    }
    Ok(())
}

/// Kills the leader so many times; returns when, in µs since the Unix epoch, and what the next ones say of their loads.
async fn kill_leaders(stage: &mut Stage, kills: u32, every: Duration) -> anyhow::Result<(Vec<i64>, Loads)> {
    let begin = Instant::now();
    let (mut kills_us, mut loads) = (Vec::new(), Loads::default());
    for number in 0..kills {
        stage.progress.begin(format!("{number} of {kills} leaders killed"));
        let at = begin + BEFORE_KILL + every * number;
        sleep_until(at).await;
        let leader = stage.cluster.leader().await?;
        kills_us.push(stage.cluster.end(leader, Signal::KILL).await?);
        sleep_until(at + BEFORE_KILL).await;
        stage.cluster.restart(leader).await?;
        let next = stage.cluster.leader().await?;
        loads.take(stage, next).await;
    }
    Ok((kills_us, loads))
}
