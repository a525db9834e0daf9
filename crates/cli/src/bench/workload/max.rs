//! `max`: as much as the cluster can do, slice by slice, so that a fall over time shows.

use std::time::Duration;

use orloj_bench::figures::{Run, Shown};
use orloj_bench::message::LoadSpec;
use orloj_bench::outcome::{Outcome, add_requests};
use orloj_bench::plan::{Due, Plan};
use orloj_bench::slices::{Sample, Spent, costs, course, rates};
use tokio::time::Instant;

use super::super::args::{LoadArgs, Way};
use super::super::stage::Stage;

/// For what is outstanding at the end to be done.
const DRAIN: Duration = Duration::from_secs(60);
/// For the table to be filled.
const FILL: Duration = Duration::from_secs(7_200);

/// Keeps as many tasks outstanding as was asked for, for as long, and waits until all are done.
///
/// # Errors
/// A part of the bench or the cluster has gone, or the table cannot be filled.
pub async fn run(stage: &mut Stage, way: Way) -> anyhow::Result<Run> {
    stage.warm_up(way).await?;
    let load = stage.args.load.clone();
    fill(stage, load.finished).await?;

    stage.progress.begin("running");
    let relay = stage.relay_done(load.finished);
    let plan = Plan { first_id: load.finished, count: u64::MAX / 2, due: Due::AtOnce, sleep_ms: 0 };
    let spec = LoadSpec {
        limit_s: load.seconds as f64,
        outstanding: Some(load.outstanding),
        ..stage.spec(plan, way)
    };
    let (begin, begin_ms) = (Instant::now(), stage.now_ms());
    let (before_s, others_before) = (stage.cluster.cpu_s(), stage.others_cpu_s());
    let watch = stage.watch_cpu();
    stage.begin_submit(&spec).await?;
    let submitted = stage.submitted(0).await?;
    let spent = watch.map(|watch| watch.spent()).unwrap_or_default();
    let (took_s, replicas_s, others) =
        (begin.elapsed().as_secs_f64(), stage.cluster.cpu_s() - before_s, stage.others_cpu_s());
    let done = stage.done().saturating_sub(load.finished);
    drop(relay);
    let drained = stage.wait_done(load.finished + submitted.acknowledged, DRAIN).await?;
    let checked = stage.check().await?;
    let (summary, _) = stage.summary(Vec::new()).await?;

    let mut run = Run { errors: submitted.errors.clone(), ..Run::default() };
    run.add("tasks done", "/s", done as f64 / took_s);
    add_slices(stage, &mut run, &load, begin_ms);
    add_costs(&mut run, &load, &spent);
    add_requests(&mut run, "submit", &submitted, &[Shown::P50, Shown::P99]);
    // The handlers have seen those with which the table was filled, too.
    let (sent, acknowledged) = (submitted.sent, load.finished + submitted.acknowledged);
    Outcome { sent, acknowledged, drained, checked: &checked, summary: &summary }
        .add_to(&mut run, &[Shown::P50, Shown::P99]);
    run.add("replicas' CPU per task", "ms", replicas_s * 1e3 / done.max(1) as f64);
    run.add("replicas' CPU", "cores", replicas_s / took_s);
    run.add("executors' CPU", "cores", (others.0 - others_before.0) / took_s);
    run.add("load's CPU", "cores", (others.1 - others_before.1) / took_s);
    stage.add_usage(&mut run);
    Ok(run)
}

/// How throughput went on, slice by slice.
fn add_slices(stage: &Stage, run: &mut Run, load: &LoadArgs, begin_ms: i64) {
    let mut samples = stage.samples(begin_ms);
    // Nothing is counted while nothing is done, and slices in which the cluster stood still are slices as well.
    let count = samples.last().map_or(0, |last| last.count);
    samples.push(Sample { at_s: (stage.now_ms() - begin_ms) as f64 / 1e3, count });
    run.slices = rates(&samples, load.slice_s as f64);
    // The work goes on a little after the end, at no full load.
    run.slices.truncate((load.seconds / load.slice_s.max(1)) as usize);
    if let Some(course) = course(&run.slices) {
        run.add("first slices", "/s", course.first);
        run.add("last quarter", "/s", course.last);
        run.add("fall from the first slices to the last quarter", "%", course.fall_pct);
    }
    let least = run.slices.iter().copied().reduce(f64::min);
    if let Some(least) = least {
        run.add("slowest slice", "/s", least);
    }
}

/// What a task cost at the beginning and at the end, and how much of the fall that leaves to the product.
fn add_costs(run: &mut Run, load: &LoadArgs, spent: &[Spent]) {
    let Some(costs) = costs(&run.slices, load.slice_s as f64, spent) else { return };
    for (when, cost) in [("first slices", costs.first), ("last quarter", costs.last)] {
        run.add(format!("replicas' CPU per task, {when}"), "ms", cost.replicas_ms);
        run.add(format!("clients' CPU per task, {when}"), "ms", cost.clients_ms);
    }
    run.add("fall, at the machine's pace of the first slices", "%", costs.fall_at_pace_pct);
}

/// Lets so many tasks run and be kept.
async fn fill(stage: &mut Stage, count: u64) -> anyhow::Result<()> {
    if count == 0 {
        return Ok(());
    }
    stage.progress.begin("filling the table");
    let plan = Plan { first_id: 0, count, due: Due::AtOnce, sleep_ms: 0 };
    let spec = LoadSpec {
        outstanding: Some(stage.args.load.outstanding),
        limit_s: FILL.as_secs_f64(),
        remember: false,
        ..stage.spec(plan, Way::Batch)
    };
    let relay = stage.relay_done(0);
    let ran = stage.submit(spec).await?;
    drop(relay);
    if ran.acknowledged < count || !stage.wait_done(count, FILL).await? {
        anyhow::bail!("the table could not be filled with {count} finished tasks: {:?}", ran.errors);
    }
    Ok(())
}
