//! `callers`: `steady` by many callers, each with a key of its own and within the default limits; and once more while
//! one other caller sends as fast as it can, of which the others must feel nothing.

use std::time::Duration;

use anyhow::{Context as _, bail};
use orloj_bench::figures::{Run, Shown};
use orloj_bench::message::{FromLoad, KeyPair, LoadResult, LoadSpec, ToLoad};
use orloj_bench::outcome::{Outcome, add_requests};
use orloj_bench::plan::{Due, Pace, Plan, WARM_FIRST};
use orloj_wire::rest::{NewKey, PutCaller};
use tokio::time::{Instant, sleep};

use super::super::args::Way;
use super::super::stage::Stage;
use super::steady;

/// After the last submission, for the last tasks to be done.
const DRAIN: Duration = Duration::from_secs(60);
/// Between the two halves, for the first one to end.
const PAUSE: Duration = Duration::from_secs(2);
/// The ids of the hammer's tasks: not among the run's own, and not among those of the warm-up.
const HAMMER_FIRST: u64 = WARM_FIRST + (1 << 32);

/// Submits at the rate by all keys in turn, for the time that was asked for, without and with the hammer.
///
/// # Errors
/// A part of the bench or the cluster has gone, the cluster is not the bench's own, or a key cannot be made.
pub async fn run(stage: &mut Stage) -> anyhow::Result<Run> {
    stage.warm_up(Way::Single).await?;
    let load = stage.args.load.clone();
    let mut keys = make_keys(stage, u64::from(load.keys) + 1).await?;
    let hammering = keys.pop().context("no key was made")?;
    stage.submit_as(keys).await?;

    let spec = steady::spec(stage, load.seconds);
    let (alone, alone_cores) = half(stage, &spec, "submitting").await?;
    sleep(PAUSE).await;

    let mut hammer = stage.another_load(hammering).await?;
    hammer.speaker().say(&ToLoad::Run(hammer_spec(stage))).await?;
    let second = LoadSpec { plan: Plan { first_id: spec.plan.count, ..spec.plan }, ..spec };
    let (beside, beside_cores) = half(stage, &second, "submitting beside a hammer").await?;
    let hammered = loop {
        match hammer.next().await? {
            FromLoad::Ran(result) => break result,
            FromLoad::Progress { .. } => {}
            other => bail!("the second load said {other:?} while it submitted"),
        }
    };
    hammer.stop().await?;

    stage.progress.begin("running");
    let drained = stage.wait_done(alone.acknowledged + beside.acknowledged, DRAIN).await?;
    let checked = stage.check().await?;
    let (summary, _) = stage.summary(Vec::new()).await?;

    let mut run = Run { errors: alone.errors.clone(), ..Run::default() };
    for (why, count) in &beside.errors {
        *run.errors.entry(why.clone()).or_default() += count;
    }
    run.add("keys", "", f64::from(load.keys));
    add_requests(&mut run, "submit", &alone, Shown::ALL);
    add_requests(&mut run, "submit, beside a hammer", &beside, Shown::ALL);
    let (sent, acknowledged) = (alone.sent + beside.sent, alone.acknowledged + beside.acknowledged);
    Outcome { sent, acknowledged, drained, checked: &checked, summary: &summary }
        .add_to(&mut run, &[Shown::P50, Shown::P99]);
    add_hammer(&mut run, &hammered);
    run.add("replicas' CPU", "cores", alone_cores);
    run.add("replicas' CPU, beside a hammer", "cores", beside_cores);
    stage.add_usage(&mut run);
    Ok(run)
}

/// One half of the run: how submitting went, and the cores that the replicas used.
async fn half(stage: &mut Stage, spec: &LoadSpec, what: &str) -> anyhow::Result<(LoadResult, f64)> {
    stage.progress.begin(what);
    let (begin, before_s) = (Instant::now(), stage.cluster.cpu_s());
    let submitted = stage.submit(spec.clone()).await?;
    Ok((submitted, (stage.cluster.cpu_s() - before_s) / begin.elapsed().as_secs_f64()))
}

/// A closed loop without any pause, for as long as one half takes.
fn hammer_spec(stage: &Stage) -> LoadSpec {
    let load = &stage.args.load;
    let plan = Plan { first_id: HAMMER_FIRST, count: u64::MAX / 2, due: Due::AtOnce, sleep_ms: 0 };
    let pace = Pace::Closed { clients: load.hammer_clients };
    LoadSpec { limit_s: load.seconds as f64, ..LoadSpec::new(plan, pace) }
}

/// What the one that keeps to no limit got.
fn add_hammer(run: &mut Run, hammered: &LoadResult) {
    let span_s = ((hammered.ended_us - hammered.started_us) as f64 / 1e6).max(1e-6);
    let refused = |status: &str| {
        let of = hammered.errors.iter().filter(|(why, _)| why.starts_with(status));
        of.map(|(_, count)| count).sum::<u64>()
    };
    let (limited, failed) = (refused("429"), refused(""));
    run.add("hammer's requests", "/s", hammered.sent as f64 / span_s);
    run.add("hammer's tasks taken", "/s", hammered.acknowledged as f64 / span_s);
    run.add("hammer refused with 429", "%", limited as f64 / hammered.sent.max(1) as f64 * 100.0);
    run.add("hammer's other failures", "", (failed - limited) as f64);
}

/// Makes so many callers with the default limits, and a key for each.
async fn make_keys(stage: &mut Stage, count: u64) -> anyhow::Result<Vec<KeyPair>> {
    let admin = stage.cluster.admin()?;
    stage.progress.begin("making keys");
    let mut keys = Vec::new();
    for number in 1..=count {
        stage.progress.at(number, count);
        let caller = format!("bench-{number}");
        let made = async {
            admin.put_caller(&caller, &PutCaller::default()).await?;
            admin.add_key(&caller, &NewKey::default()).await
        };
        let made = made.await.with_context(|| format!("cannot make the caller {caller}"))?;
        keys.push(KeyPair { access_key: made.access_key, secret_key: made.secret_key });
    }
    Ok(keys)
}
