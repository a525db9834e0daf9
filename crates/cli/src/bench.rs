//! `orloj bench`: measures a cluster, and the machine beside it, and prints the figures.
//!
//! Every run has a cluster of its own with empty folders, so that runs do not see each other. Load and executors
//! are processes of their own (`bench-part`), whose CPU time is told apart from the replicas'.

use std::path::Path;

use anyhow::Context as _;
use orloj_bench::figures::Run;
use orloj_bench::machine::Machine;
use orloj_wire::clock::{Clock as _, SystemClock};
use orloj_wire::time::Time;
use rand::RngExt as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::exit::{Failure, Outcome};
use crate::process::stop_token;
use crate::remote::output;

pub mod args;
mod ceilings;
mod child;
mod cluster;
pub mod part;
mod progress;
mod report;
mod scratch;
mod stage;
mod workload;

use args::{BenchArgs, Workload};
use progress::Progress;
use report::Report;
use stage::Stage;
use workload::Play;

/// Runs the workloads and prints what they measured.
///
/// # Errors
/// A wrong command line, a cluster that does not start or dies, a file that cannot be written. What was measured before
/// is printed and written all the same. That something was lost, done twice or early is no error, but an exit code.
pub fn run(args: &BenchArgs, json: bool) -> Outcome {
    // Children die with the thread that started them, so this runtime has one thread: the main one.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = stop_token()?;
        measure(args, json, &stop).await
    })
}

async fn measure(args: &BenchArgs, json: bool, stop: &CancellationToken) -> Outcome {
    let plays = plays(args)?;
    let seed = args.seed.unwrap_or_else(|| rand::rng().random_range(0..1 << 32));
    let data = cluster::data_dir(args);
    std::fs::create_dir_all(&data)
        .with_context(|| format!("cannot make the folder {}", data.display()))
        .map_err(Failure::usage)?;
    let machine = Machine::look(&data);
    if !machine.optimised {
        output::note("orloj bench: this program was built without optimisation; its figures say little");
    }
    let mut report = Report::new(args, machine, seed);
    // Also without any run: what an earlier bench has left there must not be taken for this one. And a file that cannot be
    // written is told before anything is measured.
    report.write().map_err(Failure::usage)?;
    let broken = tokio::select! {
        played = series(args, &plays, seed, &data, &mut report) => played.err(),
        // Everything that the run had started ends with it.
        () = stop.cancelled() => Some(anyhow::anyhow!("stopped by a signal").into()),
    };
    if let Some(failure) = &broken {
        report.break_off(failure.to_string());
        if let Err(error) = report.write() {
            output::note(&format!("orloj bench: {error:#}"));
        }
    }
    let broken = match broken {
        Some(failure) if report.is_empty() => return Err(failure),
        broken => broken,
    };
    match json {
        true => output::json(&report)?,
        false => report.print()?,
    }
    let code = report.judge();
    match broken {
        Some(failure) => Err(failure),
        None => Ok(code),
    }
}

/// What was asked for, in its variants.
fn plays(args: &BenchArgs) -> Result<Vec<Play>, Failure> {
    let workloads = match args.workloads[..] {
        [] => vec![Workload::Life, Workload::Burst, Workload::Steady],
        ref wished => wished.to_vec(),
    };
    let plays: Vec<Play> = workloads.into_iter().flat_map(|workload| Play::of(workload, args)).collect();
    plays.iter().try_for_each(|play| play.check(args)).map_err(Failure::usage)?;
    Ok(plays)
}

/// Plays everything as often as was asked for, and writes the report after each run.
async fn series(
    args: &BenchArgs,
    plays: &[Play],
    seed: u64,
    data: &Path,
    report: &mut Report<'_>,
) -> Result<(), Failure> {
    let rounds = 1..=args.runs;
    let names = rounds.clone().flat_map(|_| plays.iter().map(|play| play.name())).collect();
    let mut progress = Progress::new(args.quiet, names);
    for number in rounds {
        for play in plays {
            progress.begin_run();
            let mut run = play_once(args, *play, seed, data, &progress).await?;
            run.run = number;
            progress.end_run();
            report.add(run);
            report.write()?;
        }
    }
    Ok(())
}

async fn play_once(
    args: &BenchArgs,
    play: Play,
    seed: u64,
    data: &Path,
    progress: &Progress,
) -> Result<Run, Failure> {
    let mut progress = progress.clone();
    progress.begin("measuring the machine");
    let ceilings = ceilings::measure(args.load.clients, data).await?;
    let (started_at, begin) = (Time(SystemClock::new().wall_ms()).to_string(), Instant::now());
    let mut stage = Stage::start(args, seed, progress, play.wants_executors()).await?;
    let (played_from, before) = (Instant::now(), stage.cpu());
    let mut run = match play.run(&mut stage).await {
        Ok(run) => run,
        Err(error) => {
            stage.progress.end();
            stage.cluster.keep();
            let kept = stage.cluster.scratch();
            output::note(&format!("orloj bench: what the processes wrote is kept in {}", kept.display()));
            return Err(error.into());
        }
    };
    if let (Some(before), Some(after)) = (before, stage.cpu()) {
        let others_s = (after.machine_s - before.machine_s) - (after.bench_s - before.bench_s);
        let cores = others_s.max(0.0) / played_from.elapsed().as_secs_f64();
        run.add("CPU of everything else on the machine", "cores", cores);
    }
    ceilings.add_to(&mut run);
    run.faults.extend(stage.cluster.deaths().await);
    if let Err(error) = stage.stop().await {
        run.faults.push(format!("the cluster could not be ended in order: {error:#}"));
    }
    Ok(Run { workload: play.name(), seed, started_at, took_s: begin.elapsed().as_secs_f64(), ..run })
}
