//! `steady`: so many submissions a second, whatever comes back, of tasks that take a while.

use std::time::Duration;

use orloj_bench::figures::{Run, Shown};
use orloj_bench::message::LoadSpec;
use orloj_bench::outcome::{Outcome, add_requests};
use orloj_bench::plan::{Due, Pace, Plan};
use tokio::time::Instant;

use super::super::args::Way;
use super::super::stage::Stage;

/// After the last submission, for the last tasks to be done.
const DRAIN: Duration = Duration::from_secs(60);

/// The load of this workload for so many seconds.
pub fn spec(stage: &Stage, seconds: u64) -> LoadSpec {
    let load = &stage.args.load;
    let count = (load.rate * seconds as f64) as u64;
    let plan = Plan { first_id: 0, count, due: Due::AtOnce, sleep_ms: load.sleep_ms };
    LoadSpec { pace: Pace::Open { per_s: load.rate }, ..stage.spec(plan, Way::Single) }
}

/// Submits at the rate, and waits until all are done.
///
/// # Errors
/// A part of the bench or the cluster has gone.
pub async fn run(stage: &mut Stage) -> anyhow::Result<Run> {
    stage.warm_up(Way::Single).await?;
    let spec = spec(stage, stage.args.load.seconds);

    stage.progress.begin("submitting");
    let (begin, before_s, others_before) = (Instant::now(), stage.cluster.cpu_s(), stage.others_cpu_s());
    let submitted = stage.submit(spec).await?;
    let (took_s, replicas_s) = (begin.elapsed().as_secs_f64(), stage.cluster.cpu_s() - before_s);
    let others = stage.others_cpu_s();

    stage.progress.begin("running");
    let drained = stage.wait_done(submitted.acknowledged, DRAIN).await?;
    let checked = stage.check().await?;
    let (summary, _) = stage.summary(Vec::new()).await?;

    let mut run = Run { errors: submitted.errors.clone(), ..Run::default() };
    add_requests(&mut run, "submit", &submitted, Shown::ALL);
    let (sent, acknowledged) = (submitted.sent, submitted.acknowledged);
    Outcome { sent, acknowledged, drained, checked: &checked, summary: &summary }
        .add_to(&mut run, Shown::ALL);
    run.add("replicas' CPU", "cores", replicas_s / took_s);
    run.add("executors' CPU", "cores", (others.0 - others_before.0) / took_s);
    run.add("load's CPU", "cores", (others.1 - others_before.1) / took_s);
    stage.add_usage(&mut run);
    Ok(run)
}
