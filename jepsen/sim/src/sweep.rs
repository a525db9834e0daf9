//! Many seeds, each in a process of its own: what one leaves behind in a process would change the next, and a seed
//! that hangs or dies takes nobody with it.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use orloj_jepsen_core::Validity;
use orloj_jepsen_core::check::Report;

use crate::single;

/// The checker whose figures tell what was exercised.
const COVERAGE: &str = "H1";

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
}

/// What came of one seed.
struct Ended {
    seed: u64,
    /// The word on it; none when the simulation itself failed, with what it said then.
    report: Result<Report, String>,
}

/// Runs the seeds and tells of each that is not valid how to run it again. Fails when any is not.
///
/// # Errors
/// The program cannot run itself, or nobody reads what it tells.
pub fn run(sweep: &Sweep, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let began = clock();
    let program = std::env::current_exe().context("cannot find this program")?;
    let next = AtomicU64::new(sweep.from);
    let end = sweep.from.saturating_add(sweep.seeds);
    let (sender, ended) = mpsc::channel();
    let failure: Mutex<Option<std::io::Error>> = Mutex::new(None);
    let work = |sender: mpsc::Sender<Ended>| {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            let output = Command::new(&program)
                .args(["run", "--json", "--seed", &seed.to_string(), "--seconds", &sweep.seconds.to_string()])
                .stdin(Stdio::null())
                .output();
            let ended = match output {
                Ok(output) => Ended { seed, report: read(&output) },
                Err(error) => {
                    *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    return;
                }
            };
            if sender.send(ended).is_err() {
                return;
            }
        }
    };
    let mut failed = Vec::new();
    let mut coverage = Coverage::default();
    std::thread::scope(|scope| -> anyhow::Result<()> {
        for _ in 0..sweep.jobs.max(1) {
            let sender = sender.clone();
            scope.spawn(|| work(sender));
        }
        drop(sender);
        for Ended { seed, report } in ended {
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
        }
        Ok(())
    })?;
    if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error).context("cannot run a seed");
    }
    coverage.tell(out)?;
    failed.sort_unstable();
    let took = clock().saturating_duration_since(began).max(Duration::from_millis(1));
    writeln!(
        out,
        "{} seeds in {:.0} s, {} failed: {failed:?}",
        sweep.seeds,
        took.as_secs_f64(),
        failed.len()
    )?;
    Ok(ExitCode::from(u8::from(!failed.is_empty())))
}

/// The report that a seed's process told, or why there is none.
fn read(output: &Output) -> Result<Report, String> {
    serde_json::from_slice(&output.stdout)
        .map_err(|_| String::from_utf8_lossy(&output.stderr).trim_end().to_owned())
}

/// What all seeds together exercised: the figures of the coverage checker, added up.
#[derive(Debug, Default)]
struct Coverage {
    sums: BTreeMap<String, f64>,
}

impl Coverage {
    fn add(&mut self, report: &Report) {
        let figures = report.judgements.iter().filter(|judgement| judgement.id == COVERAGE);
        for (name, value) in figures.flat_map(|judgement| &judgement.stats) {
            *self.sums.entry(name.clone()).or_default() += value;
        }
    }

    fn tell(&self, out: &mut impl Write) -> std::io::Result<()> {
        writeln!(out, "exercised, all seeds together:")?;
        self.sums.iter().try_for_each(|(name, value)| writeln!(out, "  {name} {value}"))
    }
}

#[allow(clippy::disallowed_methods, reason = "how long a sweep takes is told to people, and decides nothing")]
fn clock() -> Instant {
    Instant::now()
}
