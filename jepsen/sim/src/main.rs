//! `orloj-sim`: runs seeds.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use orloj_sim::sweep::{self, Sweep};
use orloj_sim::{single, single::Single};

/// Runs whole clusters in simulated time, each decided by its seed.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs one seed and tells the verdict.
    Run {
        /// The seed.
        #[arg(long)]
        seed: u64,
        /// How long the load with faults goes on, in simulated seconds.
        #[arg(long, default_value_t = single::DEFAULT_LOAD_S)]
        seconds: u64,
        /// Writes the history there.
        #[arg(long)]
        history: Option<PathBuf>,
        /// Tells the verdict as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Runs many seeds, each in a process of its own, and lists those that fail.
    Sweep {
        /// How many.
        #[arg(long, default_value_t = 50)]
        seeds: u64,
        /// The first one.
        #[arg(long, default_value_t = 1)]
        from: u64,
        /// How many run at once.
        #[arg(long, default_value_t = 2)]
        jobs: usize,
        /// How long the load with faults goes on, in simulated seconds.
        #[arg(long, default_value_t = single::DEFAULT_LOAD_S)]
        seconds: u64,
    },
    /// Runs one seed and prints what the replicas log, with simulated times, and the history.
    Trace {
        /// The seed.
        #[arg(long)]
        seed: u64,
        /// How long the load with faults goes on, in simulated seconds.
        #[arg(long, default_value_t = single::DEFAULT_LOAD_S)]
        seconds: u64,
        /// What to log, as `RUST_LOG` has it.
        #[arg(long, default_value = "info")]
        log: String,
    },
}

fn main() -> anyhow::Result<ExitCode> {
    match Args::parse().command {
        Command::Run { seed, seconds, history, json } => {
            let outcome = Single { seed, seconds, log: None }.run()?;
            if let Some(path) = history {
                single::write_history(&outcome.history, std::fs::File::create(path)?)?;
            }
            let text =
                if json { serde_json::to_string(&outcome.report)? } else { single::tell(seed, &outcome) };
            writeln!(std::io::stdout(), "{text}")?;
            Ok(single::exit(&outcome.report))
        }
        Command::Sweep { seeds, from, jobs, seconds } => {
            let sweep = Sweep { from, seeds, jobs, seconds };
            sweep::run(&sweep, &mut std::io::stdout())
        }
        Command::Trace { seed, seconds, log } => {
            let outcome = Single { seed, seconds, log: Some(log) }.run()?;
            single::write_history(&outcome.history, std::io::stdout())?;
            Ok(single::exit(&outcome.report))
        }
    }
}
