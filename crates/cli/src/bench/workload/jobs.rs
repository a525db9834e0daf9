//! `jobs`: many jobs of which a known number is due in each second. What making and listing them takes, what they cost
//! in memory, how late their tasks start, and whether each instant makes one task, also while the leadership moves.

use std::time::Duration;

use anyhow::bail;
use orloj_bench::figures::{Run, Shown};
use orloj_bench::jobs::JobPlan;
use orloj_bench::message::{Among, JobList, LoadResult, LoadSpec};
use orloj_bench::outcome::add_requests;
use orloj_bench::plan::{Due, Plan, WARM_FIRST};
use orloj_bench::record::Summary;
use tokio::time::{Instant, sleep};

use super::super::args::Way;
use super::super::stage::Stage;
use super::rest::{add_changes, add_rest, add_restarts, most_memory, timers};

/// Jobs that are made to learn how fast that goes. They never fire.
const WARM_JOBS: u64 = 1_000;
/// When those are due first, in ms from now: ten years.
const NEVER_MS: i64 = 10 * 365 * 86_400_000;
/// How much longer than the warm-up suggests making jobs may take, in per cent.
const MARGIN_PCT: f64 = 140.0;
/// How long a change of leader may take, and the reading of a job in the list, where the first fire is waited for.
const CHANGE_MS: f64 = 3_000.0;
const LISTED_MS: f64 = 0.1;
/// For fires that are missing to come after all: longer than a lease.
const DRAIN: Duration = Duration::from_secs(60);
/// Between two looks for them.
const PAUSE: Duration = Duration::from_millis(500);

/// Makes the jobs, looks at them at rest, lets them fire, and then changes leaders and restarts a replica while they do.
///
/// # Errors
/// A part of the bench or the cluster has gone, the cluster is not the bench's own, or a job cannot be made.
pub async fn run(stage: &mut Stage) -> anyhow::Result<Run> {
    let mut run = Run::default();
    add_rest(stage, &mut run, "empty").await;
    let plan = make(stage, &mut run).await?;
    stage.progress.begin("listing");
    add_list(&mut run, &plan, "", &stage.list_jobs().await?)?;
    add_rest(stage, &mut run, "jobs").await;
    add_changes(stage, &mut run, ", jobs").await?;
    run.add("timers in the wheel", "", timers(stage).await? as f64);
    let gap_ms = plan.base_ms - stage.now_ms();
    run.add("gap to the first due instant", "s", gap_ms as f64 / 1e3);
    let Ok(gap_ms) = u64::try_from(gap_ms) else {
        bail!(
            "the first jobs were due before everything was measured at rest: the machine is too slow for these figures"
        )
    };
    sleep(Duration::from_millis(gap_ms)).await;

    fire(stage, &mut run, &plan).await?;
    disturb(stage, &mut run, &plan).await?;
    run.add("memory of one replica, fired", "MiB", most_memory(stage));
    stage.add_usage(&mut run);
    Ok(run)
}

/// Makes the jobs; says how that went.
async fn make(stage: &mut Stage, run: &mut Run) -> anyhow::Result<JobPlan> {
    let load = stage.args.load.clone();
    stage.progress.begin("warming up");
    let warm = JobPlan {
        first_id: WARM_FIRST,
        count: warm_jobs(load.jobs),
        per_s: load.fires,
        base_ms: stage.now_ms() + NEVER_MS,
        burst_s: 0,
        cron: load.cron,
    };
    let per_s = make_all(stage, warm).await?.per_s();

    let making_ms = load.jobs as f64 / per_s * MARGIN_PCT * 10.0;
    let idle_ms = load.idle_s as f64 * 1_500.0 + f64::from(load.changes) * CHANGE_MS;
    let lead_ms = making_ms + load.jobs as f64 * LISTED_MS + idle_ms + load.lead_s as f64 * 1e3;
    let grain_ms = if load.cron { 60_000 } else { 1_000 };
    let base_ms = (stage.now_ms() + lead_ms as i64 + grain_ms) / grain_ms * grain_ms;
    let mut plan = JobPlan { first_id: 0, count: load.jobs, base_ms, ..warm };
    plan.burst_s = plan.period_s().min(load.seconds) / 2;
    stage.progress.begin("making jobs");
    let before_s = stage.cluster.cpu_s();
    let made = make_all(stage, plan).await?;
    run.add("jobs", "", made.acknowledged as f64);
    run.add("jobs made", "/s", made.per_s());
    add_requests(run, "make a job", &made, &[Shown::P50, Shown::P99]);
    let cpu_ms = (stage.cluster.cpu_s() - before_s) * 1e3;
    run.add("replicas' CPU per job made", "ms", cpu_ms / plan.count.max(1) as f64);
    Ok(plan)
}

fn warm_jobs(jobs: u64) -> u64 {
    WARM_JOBS.min(jobs)
}

async fn make_all(stage: &mut Stage, jobs: JobPlan) -> anyhow::Result<LoadResult> {
    let plan = Plan { first_id: jobs.first_id, count: jobs.count, due: Due::AtOnce, sleep_ms: 0 };
    let spec = LoadSpec { jobs: Some(jobs), remember: false, ..stage.spec(plan, Way::Single) };
    let made = stage.submit(spec).await?;
    if made.acknowledged < jobs.count {
        bail!("only {} of {} jobs were made: {:?}", made.acknowledged, jobs.count, made.errors);
    }
    Ok(made)
}

/// What a reading of the whole list took. A list that is not whole is an error.
fn add_list(run: &mut Run, plan: &JobPlan, when: &str, list: &JobList) -> anyhow::Result<()> {
    let expected = plan.count + warm_jobs(plan.count);
    if list.jobs != expected || list.disorder > 0 {
        bail!("the list has {} jobs instead of {expected}, {} out of order", list.jobs, list.disorder);
    }
    run.add(format!("list of all jobs{when}"), "s", list.took_us as f64 / 1e6);
    run.add_latency(&format!("page of 100 jobs{when}"), &list.page, &[Shown::P50, Shown::P99]);
    Ok(())
}

/// Lets the jobs fire for the time that was asked for, and says how late their tasks began.
async fn fire(stage: &mut Stage, run: &mut Run, plan: &JobPlan) -> anyhow::Result<()> {
    let seconds = stage.args.load.seconds;
    let end_ms = plan.base_ms + (seconds * 1_000) as i64;
    let (before_s, others_before) = (stage.cluster.cpu_s(), stage.others_cpu_s());
    stage.progress.begin("firing");
    sleep_until_ms(stage, end_ms).await;
    let (replicas_s, others) = (stage.cluster.cpu_s() - before_s, stage.others_cpu_s());
    started(stage, plan, end_ms).await?;

    let (mut even, mut at_once) = (Summary::default(), Summary::default());
    for stretch in plan.stretches(seconds) {
        let summary = stage.summary_of(stretch.among).await?;
        if stretch.at_once { at_once.merge(&summary) } else { even.merge(&summary) }
    }
    run.add("fires", "/s", (even.tasks + at_once.tasks) as f64 / seconds.max(1) as f64);
    run.add_latency("lateness", &even.lateness, Shown::ALL);
    run.add_latency("lateness, all of a second at once", &at_once.lateness, Shown::ALL);
    run.add("replicas' CPU", "cores", replicas_s / seconds.max(1) as f64);
    run.add("replicas' CPU per fire", "ms", replicas_s * 1e3 / plan.fires_before(end_ms).max(1) as f64);
    run.add("executors' CPU", "cores", (others.0 - others_before.0) / seconds.max(1) as f64);
    run.slices = orloj_bench::slices::rates(&stage.samples(plan.base_ms), 1.0);
    run.slices.truncate(usize::try_from(seconds).unwrap_or(usize::MAX));
    Ok(())
}

/// Lists the jobs, changes leaders and restarts a replica while the jobs go on firing; then counts the fires of the
/// whole run.
async fn disturb(stage: &mut Stage, run: &mut Run, plan: &JobPlan) -> anyhow::Result<()> {
    let begin_ms = stage.now_ms();
    stage.progress.begin("listing");
    add_list(run, plan, ", firing", &stage.list_jobs().await?)?;
    add_changes(stage, run, ", firing").await?;
    add_restarts(stage, run).await?;
    let until_ms = stage.now_ms();
    let expected = plan.fires_before(until_ms);

    stage.progress.begin("counting");
    let summary = started(stage, plan, until_ms).await?;
    let disturbed = Among { from_us: begin_ms * 1_000, until_us: until_ms * 1_000 };
    let disturbed = stage.summary_of(disturbed).await?;
    run.add_latency("lateness, leaders changing", &disturbed.lateness, &[Shown::P50, Shown::P99, Shown::Max]);
    let list = stage.list_jobs().await?;
    run.add("instants of jobs", "", expected as f64);
    let counts = [
        (expected.saturating_sub(summary.tasks), "lost", "instants of jobs made no task"),
        (summary.tasks.saturating_sub(expected), "too many", "tasks belong to no instant of a job"),
        (summary.duplicates, "duplicates", "tasks were started more than once"),
        (summary.early, "early", "tasks were started before they were due"),
        (summary.open, "open", "tasks did not end"),
    ];
    for (count, name, fault) in counts {
        run.add(name, "", count as f64);
        run.must_be_none(count, fault);
    }
    run.add("skipped, as the API tells it", "", list.skipped as f64);
    Ok(())
}

/// What the handlers saw of everything that was due up to an instant, as soon as that is all, or when what is missing
/// does not come.
async fn started(stage: &mut Stage, plan: &JobPlan, until_ms: i64) -> anyhow::Result<Summary> {
    let all = Among { from_us: plan.base_ms * 1_000, until_us: until_ms * 1_000 };
    let (expected, deadline) = (plan.fires_before(until_ms), Instant::now() + DRAIN);
    loop {
        sleep(PAUSE).await;
        let summary = stage.summary_of(all).await?;
        if (summary.tasks >= expected && summary.open == 0) || Instant::now() >= deadline {
            return Ok(summary);
        }
    }
}

async fn sleep_until_ms(stage: &Stage, at_ms: i64) {
    let left_ms = u64::try_from(at_ms - stage.now_ms()).unwrap_or(0);
    sleep(Duration::from_millis(left_ms)).await;
}
