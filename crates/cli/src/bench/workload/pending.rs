//! `pending`: many tasks of a later hour. What they cost in memory, and what a restart and a change of leader take.

use anyhow::bail;
use orloj_bench::figures::{Run, Shown};
use orloj_bench::message::{LoadResult, LoadSpec};
use orloj_bench::plan::{Due, Plan};

use super::super::args::Way;
use super::super::stage::Stage;
use super::rest::{add_rest, change_leaders, ms, restart_follower, timers};

/// Tasks, unless others are wished.
const TASKS: u64 = 1_000_000;
/// The tasks are due so long after the beginning, over as long a span.
const HOUR_MS: u64 = 3_600_000;
/// Those within the leader's window of 5 min are due so long after they are submitted, over as long a span.
const SOON_MS: u64 = 120_000;
/// The longest that submitting may take, in s.
const SUBMIT_S: f64 = 7_200.0;

/// Measures the empty cluster, fills it, and measures it again.
///
/// # Errors
/// A part of the bench or the cluster has gone, or the cluster is not the bench's own.
pub async fn run(stage: &mut Stage) -> anyhow::Result<Run> {
    let mut run = Run::default();
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
    add_rest(stage, &mut run, "pending").await;

    let near =
        submit(stage, Plan { first_id: count, count: soon, due: later(stage, SOON_MS), sleep_ms: 0 }).await?;
    run.errors.extend(far.errors.into_iter().chain(near.errors));
    run.add("pending tasks", "", (far.acknowledged + near.acknowledged) as f64);
    let changes = change_leaders(stage).await?;
    run.add_latency("change of leader, pending", changes.quantiles(), &[Shown::P50, Shown::Max]);
    run.add("timers in the wheel", "", timers(stage).await? as f64);
    run.add("restart of one replica", "ms", ms(restart_follower(stage).await?));
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
