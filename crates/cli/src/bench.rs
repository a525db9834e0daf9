//! `orloj bench`: measures a cluster, and the machine beside it, and prints the figures.
//!
//! Every run has a cluster of its own with empty folders, so that runs do not see each other. Load and executors
//! are processes of their own (`bench-part`), whose CPU time is told apart from the replicas'.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use orloj_bench::disk::{self, Syncs};
use orloj_bench::figures::{Row, Run, summarise};
use orloj_bench::latency::Quantiles;
use orloj_bench::machine::Machine;
use orloj_bench::message::{FromLoad, LoadSpec, NullListens, Target, ToLoad, Via};
use orloj_bench::plan::{Due, Pace, Plan};
use rand::RngExt as _;
use serde::Serialize;

use crate::exit::{Failure, Outcome};
use crate::process::stop_token;
use crate::remote::output;
use crate::secret::write_public;

pub mod args;
mod child;
mod cluster;
pub mod part;
mod progress;
mod stage;
mod workload;

use args::{BenchArgs, Workload};
use child::PartProcess;
use progress::Progress;
use stage::Stage;
use workload::Play;

/// How long each of the machine's own ceilings is measured.
const CEILING: Duration = Duration::from_secs(2);

/// What stands beside the figures: how fast the machine itself is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Ceilings {
    /// 256 bytes appended and synced on the disk of the data, one after the other.
    fdatasync: Syncs,
    /// The load against a server that only answers, on loopback, by as many callers.
    loopback: Loopback,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Loopback {
    per_s: f64,
    latency: Option<Quantiles>,
}

/// Everything that a bench found.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    machine: &'a Machine,
    ceilings: &'a Ceilings,
    settings: &'a BenchArgs,
    seed: u64,
    summary: &'a [Row],
    runs: &'a [Run],
}

/// Runs the workloads and prints what they measured.
///
/// # Errors
/// A wrong command line, a cluster that does not start or dies, a file that cannot be written.
pub fn run(args: &BenchArgs, json: bool) -> Outcome {
    // Children die with the thread that started them, so this runtime has one thread: the main one.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = stop_token()?;
        tokio::select! {
            outcome = measure(args, json) => outcome,
            // Everything that was started ends with this process.
            () = stop.cancelled() => Err(anyhow::anyhow!("stopped by a signal").into()),
        }
    })
}

async fn measure(args: &BenchArgs, json: bool) -> Outcome {
    let workloads = match args.workloads[..] {
        [] => vec![Workload::Life, Workload::Burst, Workload::Steady],
        ref wished => wished.to_vec(),
    };
    let plays: Vec<Play> = workloads.into_iter().flat_map(|workload| Play::of(workload, args)).collect();
    if let Some(play) = plays.iter().find(|play| play.wants_own_cluster() && !args.other.servers.is_empty()) {
        let name = play.name();
        let error =
            anyhow::anyhow!("{name} restarts replicas or makes callers: it runs without --servers alone");
        return Err(Failure::usage(error));
    }
    let seed = args.seed.unwrap_or_else(|| rand::rng().random_range(0..1 << 32));
    let data = cluster::data_dir(args);
    std::fs::create_dir_all(&data)
        .with_context(|| format!("cannot make the folder {}", data.display()))
        .map_err(Failure::usage)?;
    let machine = Machine::look(&data);
    if !machine.optimised {
        output::note("orloj bench: this program was built without optimisation; its figures say little");
    }
    let mut progress = Progress::new(args.quiet || json);
    progress.begin("measuring the machine");
    let ceilings = ceilings(args, &data).await?;
    let mut runs = Vec::new();
    for number in 1..=args.runs.max(1) {
        for play in &plays {
            runs.push(play_once(args, *play, number, seed, &progress).await?);
        }
    }
    let summary = summarise(&runs);
    let report = Report {
        machine: &machine,
        ceilings: &ceilings,
        settings: args,
        seed,
        summary: &summary,
        runs: &runs,
    };
    if let Some(path) = &args.out {
        let text = serde_json::to_string_pretty(&report).context("cannot write the figures as JSON")?;
        write_public(path, &text)?;
    }
    match json {
        true => output::json(&report)?,
        false => print(&report)?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn play_once(
    args: &BenchArgs,
    play: Play,
    number: u32,
    seed: u64,
    progress: &Progress,
) -> Result<Run, Failure> {
    let named = progress.named(&format!("{}, run {number} of {}", play.name(), args.runs.max(1)));
    let mut stage = Stage::start(args, seed, named, play.wants_executors()).await?;
    let played = play.run(&mut stage).await;
    let run = match played {
        Ok(run) => run,
        Err(error) => {
            stage.progress.end();
            stage.cluster.keep();
            let kept = stage.cluster.scratch();
            output::note(&format!("orloj bench: what the processes wrote is kept in {}", kept.display()));
            return Err(error.into());
        }
    };
    stage.stop().await?;
    Ok(Run { workload: play.name(), run: number, seed, ..run })
}

async fn ceilings(args: &BenchArgs, data: &Path) -> anyhow::Result<Ceilings> {
    let dir = data.to_path_buf();
    let fdatasync = tokio::task::spawn_blocking(move || disk::measure(&dir, CEILING))
        .await
        .context("the measurement of the disk died")?
        .with_context(|| format!("cannot measure the disk of {}", data.display()))?;
    let scratch = cluster::new_scratch(data)?;
    let loopback = loopback(args.load.clients, &scratch).await?;
    std::fs::remove_dir_all(&scratch).with_context(|| format!("cannot remove {}", scratch.display()))?;
    Ok(Ceilings { fdatasync, loopback })
}

/// How fast so many callers get answers from a server that does nothing else.
async fn loopback(clients: u32, logs: &Path) -> anyhow::Result<Loopback> {
    let mut null = PartProcess::<NullListens>::start("null", logs)?;
    let url = null.next().await?.url;
    let mut load = PartProcess::<FromLoad>::start("load", logs)?;
    let target = Target {
        servers: vec![url],
        access_key: "ak_CEILING".to_owned(),
        secret_key: "sk_CEILING".to_owned(),
        audience: "default".to_owned(),
        via: Via::Any,
        keys: Vec::new(),
        ca_pem: None,
    };
    load.speaker().say(&ToLoad::Connect(target)).await?;
    load.next().await?;
    let plan = Plan { first_id: 0, count: u64::MAX, due: Due::AtOnce, sleep_ms: 0 };
    let spec = LoadSpec { limit_s: CEILING.as_secs_f64(), ..LoadSpec::new(plan, Pace::Closed { clients }) };
    load.speaker().say(&ToLoad::Run(spec)).await?;
    let ran = loop {
        if let FromLoad::Ran(ran) = load.next().await? {
            break ran;
        }
    };
    null.stop().await?;
    load.stop().await?;
    Ok(Loopback { per_s: ran.per_s().round(), latency: ran.latency.quantiles() })
}

fn print(report: &Report<'_>) -> std::io::Result<()> {
    let Machine { cores, cpu, memory_mib, kernel, file_system, load, .. } = report.machine;
    output::line(&format!("{cores} cores of {cpu}, {memory_mib} MiB, {kernel}, {file_system}, load {load}"))?;
    let Ceilings { fdatasync, loopback } = report.ceilings;
    let p50 = |quantiles: &Option<Quantiles>| quantiles.map_or(0.0, |quantiles| quantiles.p50);
    output::line(&format!(
        "fdatasync of 256 bytes: p50 {} ms, {} /s; the load against a server that only answers: p50 {} ms, {} /s",
        p50(&fdatasync.latency),
        fdatasync.per_s,
        p50(&loopback.latency),
        loopback.per_s,
    ))?;
    output::line(&format!("seed {}\n", report.seed))?;
    let mut table = output::table(["workload", "figure", "median", "spread", "runs"]);
    for row in report.summary {
        table.add_row(row.cells());
    }
    output::print(&table)?;
    for run in report.runs.iter().filter(|run| !run.errors.is_empty()) {
        output::line(&format!("{}, run {}: not acknowledged: {:?}", run.workload, run.run, run.errors))?;
    }
    Ok(())
}
