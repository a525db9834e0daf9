//! `orloj-sim`: runs seeds.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
#[cfg(feature = "mutants")]
use orloj_sim::mutants::prove::{self, Proof};
use orloj_sim::single::{self, Said, Single};
use orloj_sim::sweep::{self, Sweep};

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
        /// Only faults of this name, such as `clock.jump`; may be given several times.
        #[arg(long)]
        only: Vec<String>,
        /// Writes the history there.
        #[arg(long)]
        history: Option<PathBuf>,
        /// Tells the verdict as JSON.
        #[arg(long)]
        json: bool,
        /// Fails when it is not over after so much real time, in seconds.
        #[arg(long, default_value_t = single::DEFAULT_LIMIT_S)]
        limit_s: u64,
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
        /// A seed has failed that is not over after so much real time, in seconds.
        #[arg(long, default_value_t = single::DEFAULT_LIMIT_S)]
        limit_s: u64,
    },
    /// Runs one seed and prints what the replicas log, with simulated times, and the history.
    Trace {
        /// The seed.
        #[arg(long)]
        seed: u64,
        /// How long the load with faults goes on, in simulated seconds.
        #[arg(long, default_value_t = single::DEFAULT_LOAD_S)]
        seconds: u64,
        /// Only faults of this name; may be given several times.
        #[arg(long)]
        only: Vec<String>,
        /// What to log, as `RUST_LOG` has it.
        #[arg(long, default_value = "info")]
        log: String,
    },
    /// Breaks the product in each known way and sees that a checker that was named for it notices.
    #[cfg(feature = "mutants")]
    Mutants {
        /// Only this one.
        #[arg(long)]
        only: Option<String>,
        /// How many seeds must be valid without any first.
        #[arg(long, default_value_t = 3)]
        sound: u64,
        /// How long the load with faults goes on, in simulated seconds.
        #[arg(long, default_value_t = single::DEFAULT_LOAD_S)]
        seconds: u64,
        /// Tells one JSON object a line.
        #[arg(long)]
        json: bool,
    },
}

fn main() -> anyhow::Result<ExitCode> {
    #[cfg(feature = "mutants")]
    break_product()?;
    match Args::parse().command {
        Command::Run { seed, seconds, only, history, json, limit_s } => {
            let outcome = Single { seed, seconds, only, log: None, limit_s }.run()?;
            if let Some(path) = history {
                single::write_history(&outcome.history, std::fs::File::create(path)?)?;
            }
            let text = match json {
                true => serde_json::to_string(&Said::of(&outcome))?,
                false => {
                    let (events, seconds) = (outcome.history.events().len(), outcome.simulated_ms / 1_000);
                    let verdict = single::tell(seed, &outcome.report);
                    format!("{verdict}\n{events} events in {seconds} simulated seconds")
                }
            };
            writeln!(std::io::stdout(), "{text}")?;
            Ok(single::exit(outcome.report.validity))
        }
        Command::Sweep { seeds, from, jobs, seconds, limit_s } => {
            let sweep = Sweep { from, seeds, jobs, seconds, limit_s };
            sweep::run(&sweep, &mut std::io::stdout())
        }
        Command::Trace { seed, seconds, only, log } => {
            let limit_s = single::DEFAULT_LIMIT_S;
            let outcome = Single { seed, seconds, only, log: Some(log), limit_s }.run()?;
            single::write_history(&outcome.history, std::io::stdout())?;
            Ok(single::exit(outcome.report.validity))
        }
        #[cfg(feature = "mutants")]
        Command::Mutants { only, sound, seconds, json } => {
            let proof = Proof { only, sound, seconds, json };
            prove::run(&proof, &mut std::io::stdout())
        }
    }
}

/// Breaks the product on purpose, in the way that the environment names; its seeds inherit it.
#[cfg(feature = "mutants")]
fn break_product() -> anyhow::Result<()> {
    let name = std::env::var(prove::VARIABLE).ok();
    let switched = orloj_model::mutant::switch_on(name.as_deref());
    switched.map_err(|error| anyhow::anyhow!("{}: {error}", prove::VARIABLE))
}
