//! `pending`: many tasks of a later hour, and where that is wished many that are ready and that nobody takes. What they
//! cost in memory, and what a restart and a change of leader take.

use anyhow::bail;
use orloj_bench::figures::{Run, Shown};
use orloj_bench::message::{LoadResult, LoadSpec};
use orloj_bench::outcome::add_requests;
use orloj_bench::plan::{Due, Plan};

use super::super::args::Way;
use super::super::stage::Stage;
use super::rest::{add_changes, add_rest, add_restarts, timers};

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
    add_changes(stage, &mut run, ", empty").await?;

    let count = stage.args.load.tasks.unwrap_or(TASKS);
    let soon = stage.args.load.soon.min(count);
    let ready = stage.args.load.ready.min(count - soon);
    let far = count - soon - ready;
    stage.progress.begin("submitting");
    let hour = later(stage, HOUR_MS);
    let far = submit(stage, Plan { first_id: 0, count: far, due: hour, sleep_ms: 0 }).await?;
    run.add("submitted", "/s", far.per_s());
    add_requests(&mut run, "submit", &far, &[Shown::P50, Shown::P99]);
    add_rest(stage, &mut run, "pending").await;

    let now = Plan { first_id: count, count: ready, due: Due::AtOnce, sleep_ms: 0 };
    let now = submit(stage, now).await?;
    if ready > 0 {
        run.add("ready tasks", "", now.acknowledged as f64);
        add_rest(stage, &mut run, "ready").await;
    }
    let soon = Plan { first_id: 2 * count, count: soon, due: later(stage, SOON_MS), sleep_ms: 0 };
    let near = submit(stage, soon).await?;
    let all = far.acknowledged + now.acknowledged + near.acknowledged;
    run.errors.extend(far.errors.into_iter().chain(now.errors).chain(near.errors));
    run.add("pending tasks", "", all as f64);
    add_changes(stage, &mut run, ", pending").await?;
    run.add("timers in the wheel", "", timers(stage).await? as f64);
    add_restarts(stage, &mut run).await?;
    stage.add_usage(&mut run);
    Ok(run)
}

fn later(stage: &Stage, ms: u64) -> Due {
    let base_ms = stage.now_ms() + i64::try_from(ms).unwrap_or(i64::MAX);
    Due::Spread { base_ms, spread_ms: ms, seed: stage.seed }
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
