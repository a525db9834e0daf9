//! `life` and `burst`: delayed tasks that do nothing, due over a span or at one instant.

use std::time::Duration;

use orloj_bench::figures::{Run, Shown};
use orloj_bench::outcome::{Outcome, add_requests};
use orloj_bench::plan::{Due, Plan};
use tokio::time::sleep;

use super::super::args::Way;
use super::super::stage::Stage;

/// Tasks, unless others are wished.
const TASKS: u64 = 50_000;
/// After the span, for the last tasks to be done.
const DRAIN: Duration = Duration::from_secs(150);
/// How much longer than the warm-up suggests submitting may take, in per cent.
const MARGIN_PCT: f64 = 120.0;

/// Submits tasks that are due `spread_ms` wide, after everything is submitted, and waits until all are done.
///
/// # Errors
/// A part of the bench or the cluster has gone.
pub async fn run(stage: &mut Stage, way: Way, spread_ms: u64) -> anyhow::Result<Run> {
    let count = stage.args.load.tasks.unwrap_or(TASKS);
    let per_s = stage.warm_up(way).await?.max(50.0);
    let lead_ms = stage.args.load.lead_s as f64 * 1e3;
    let base_ms = stage.now_ms() + (count as f64 / per_s * MARGIN_PCT * 10.0 + lead_ms) as i64;
    let due = Due::Spread { base_ms, spread_ms, seed: stage.seed };
    let plan = Plan { first_id: 0, count, due, sleep_ms: 0 };

    stage.progress.begin("submitting");
    let at_start = (stage.cluster.cpu_s(), stage.others_cpu_s());
    let submitted = stage.submit(stage.spec(plan, way)).await?;
    let at_submitted = stage.cluster.cpu_s();
    let gap_ms = base_ms - stage.now_ms();
    sleep(Duration::from_millis(u64::try_from(gap_ms).unwrap_or(0))).await;

    stage.progress.begin("running");
    let at_due = stage.cluster.cpu_s();
    let longest = Duration::from_millis(spread_ms) + DRAIN;
    let drained = stage.wait_done(submitted.acknowledged, longest).await?;
    let (at_end, others) = (stage.cluster.cpu_s(), stage.others_cpu_s());
    let checked = stage.check().await?;
    let (summary, _) = stage.summary(Vec::new()).await?;

    let mut run = Run { errors: submitted.errors.clone(), ..Run::default() };
    run.add("submitted", "/s", submitted.per_s());
    add_requests(&mut run, "submit", &submitted, &[Shown::P50, Shown::P99]);
    run.add("gap to the first due instant", "s", gap_ms as f64 / 1e3);
    if gap_ms < 0 {
        run.faults.push(format!(
            "the first tasks were due {} ms before all were submitted: lateness, whole lives and CPU say nothing",
            -gap_ms
        ));
    }
    if spread_ms == 0 {
        let to_success_s = (checked.last_finished_ms - base_ms).max(1) as f64 / 1e3;
        let to_report_s = (summary.settled_us / 1_000 - base_ms).max(1) as f64 / 1e3;
        let to_handler_s = (summary.last_end_us / 1_000 - base_ms).max(1) as f64 / 1e3;
        // When a report was never acknowledged there is no such rate, and a fault tells more.
        if summary.settled_us > 0 {
            run.add("whole lives", "/s", checked.succeeded() / to_report_s);
        }
        // Of a sample, the last success stands for that of all.
        run.add("successes put into the log", "/s", checked.succeeded() / to_success_s);
        run.add("handlers done", "/s", summary.tasks as f64 / to_handler_s);
    }
    let (sent, acknowledged) = (submitted.sent, submitted.acknowledged);
    Outcome { sent, acknowledged, drained, checked: &checked, summary: &summary }
        .add_to(&mut run, Shown::ALL);
    let replicas_s = (at_submitted - at_start.0, at_end - at_due);
    let per_task_ms = (replicas_s.0 + replicas_s.1) * 1e3 / submitted.acknowledged.max(1) as f64;
    run.add("replicas' CPU per task", "ms", per_task_ms);
    run.add("replicas' CPU, submitting", "s", replicas_s.0);
    run.add("replicas' CPU, running", "s", replicas_s.1);
    run.add("executors' CPU", "s", others.0 - at_start.1.0);
    run.add("load's CPU", "s", others.1 - at_start.1.1);
    run.slices = orloj_bench::slices::rates(&stage.samples(base_ms), 1.0);
    stage.add_usage(&mut run);
    Ok(run)
}
