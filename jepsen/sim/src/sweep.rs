//! Many seeds, each in a process of its own: what one leaves behind in a process would change the next, and a seed
//! that hangs or dies takes nobody with it.

mod coverage;

use std::io::Write;
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use orloj_jepsen_core::Validity;
use orloj_jepsen_core::check::Report;

use crate::single;
use coverage::Coverage;

/// What to run.
#[derive(Debug, Clone, Copy)]
pub struct Sweep {
    /// The first seed.
    pub from: u64,
    /// How many.
    pub seeds: u64,
    /// How many run at once.
    pub jobs: usize,
    /// How long the load with faults goes on, in simulated seconds.
    pub seconds: u64,
    /// A seed that is not over after so much real time has failed, in seconds.
    pub limit_s: u64,
}

/// What came of one seed.
struct Ended {
    seed: u64,
    /// The word on it; none when the simulation itself failed, with what it said then.
    report: Result<Report, String>,
}

/// Runs the seeds and tells of each that is not valid how to run it again, and of a sweep that is large enough what
/// it exercised too seldom. The exit code is that of one run: 0 valid, 1 when a seed failed, 3 when none did and not
/// enough was exercised.
///
/// # Errors
/// The program cannot run itself, or nobody reads what it tells.
pub fn run(sweep: &Sweep, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let began = clock();
    let mut failed = Vec::new();
    let mut coverage = Coverage::default();
    each_seed(sweep, |Ended { seed, report }| {
        let problem = match report {
            Ok(report) => {
                coverage.add(&report);
                (report.validity != Validity::Valid).then(|| single::tell(seed, &report))
            }
            Err(problem) => Some(format!("seed {seed}: the simulation failed\n{problem}")),
        };
        if let Some(problem) = problem {
            writeln!(out, "{problem}\n  again: orloj-sim run --seed {seed} --seconds {}", sweep.seconds)?;
            out.flush()?;
            failed.push(seed);
        }
        Ok(())
    })?;
    coverage.tell(out)?;
    let missing = coverage.missing(sweep.seeds);
    missing.iter().try_for_each(|missing| writeln!(out, "not exercised enough: {missing}"))?;
    if sweep.seeds < coverage::ENOUGH_SEEDS {
        writeln!(out, "fewer than {} seeds: nothing had to be exercised", coverage::ENOUGH_SEEDS)?;
    }
    failed.sort_unstable();
    let validity = match (failed.is_empty(), missing.is_empty()) {
        (false, _) => Validity::Invalid,
        (true, false) => Validity::Unknown,
        (true, true) => Validity::Valid,
    };
    let took = clock().saturating_duration_since(began).max(Duration::from_millis(1));
    let (seeds, count) = (sweep.seeds, failed.len());
    writeln!(out, "{validity:?}: {seeds} seeds in {:.0} s, {count} failed: {failed:?}", took.as_secs_f64())?;
    Ok(single::exit(validity))
}

/// Runs every seed and hands over what came of each as it ends.
fn each_seed(sweep: &Sweep, mut ended: impl FnMut(Ended) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let next = AtomicU64::new(sweep.from);
    let end = sweep.from.saturating_add(sweep.seeds);
    let (sender, receiver) = mpsc::channel();
    let failure: Mutex<Option<std::io::Error>> = Mutex::new(None);
    let work = |sender: mpsc::Sender<Ended>| {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            let numbers = [("--seed", seed), ("--seconds", sweep.seconds), ("--limit-s", sweep.limit_s)];
            let mut command = Command::new(&program);
            command.args(["run", "--json"]).stdin(Stdio::null());
            for (name, number) in numbers {
                command.arg(name).arg(number.to_string());
            }
            match command.output() {
                Ok(output) if sender.send(Ended { seed, report: read(&output) }).is_ok() => {}
                Ok(_) => return,
                Err(error) => {
                    *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    return;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..sweep.jobs.max(1) {
            let sender = sender.clone();
            scope.spawn(|| work(sender));
        }
        drop(sender);
        receiver.into_iter().try_for_each(&mut ended)
    })?;
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error).context("cannot run a seed"),
        None => Ok(()),
    }
}

/// The report that a seed's process told, or why there is none.
fn read(output: &Output) -> Result<Report, String> {
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("{}: {}", output.status, said.trim_end())
    })
}

#[allow(clippy::disallowed_methods, reason = "how long a sweep takes is told to people, and decides nothing")]
fn clock() -> Instant {
    Instant::now()
}
