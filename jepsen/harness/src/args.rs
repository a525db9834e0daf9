//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Runs a cluster of Orloj, hurts it, records what everybody was told, and judges the recording.
#[derive(Debug, Parser)]
#[command(name = "orloj-jepsen", version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 valid; 1 invalid; 2 unknown; 70 a wrong command line, or the harness itself failed.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Find out which faults this machine can make.
    Doctor(DoctorArgs),
    /// Run one scenario and judge it.
    Run(RunArgs),
    /// Judge a finished run again.
    Check {
        /// The run's folder.
        run: PathBuf,
    },
    /// Run a recorded plan again.
    Replay(ReplayArgs),
    /// Take steps away from the plan of an invalid run while it stays invalid.
    Shrink(ShrinkArgs),
    /// Write the report of a finished run again.
    Report {
        /// The run's folder.
        run: PathBuf,
    },
    /// Measure how long the cluster takes after its leader is gone, by kind of fault.
    Failover(FailoverArgs),
    /// Undo what runs that ended by force have left behind. Runs that still go on are left alone.
    Clean,
}

/// `orloj-jepsen doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
    /// Fail when anything is missing.
    #[arg(long)]
    pub strict: bool,
}

/// Where runs live and what they run.
#[derive(Debug, Clone, Args)]
pub struct PlaceArgs {
    /// The folder of all runs.
    #[arg(long, default_value = "store")]
    pub store: PathBuf,
    /// The program under test. Default: `orloj` beside this program.
    #[arg(long)]
    pub orloj: Option<PathBuf>,
    /// Keep the disks of the replicas also when the verdict is valid.
    #[arg(long)]
    pub keep: bool,
}

/// `orloj-jepsen run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// A built-in scenario or a file.
    #[arg(long)]
    pub scenario: String,
    /// The seed of every choice. Default: drawn, and printed.
    #[arg(long)]
    pub seed: Option<u64>,
    /// How long the load goes on. Default: as the scenario says.
    #[arg(long, conflicts_with = "minutes")]
    pub seconds: Option<u64>,
    /// The same in minutes.
    #[arg(long)]
    pub minutes: Option<u64>,
    /// Operations a second of all clients together. Default: as the scenario says.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rate: Option<u32>,
    /// Where, and what.
    #[command(flatten)]
    pub place: PlaceArgs,
}

/// `orloj-jepsen replay`
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// A plan, or the folder of a run with one.
    pub plan: PathBuf,
    /// Where, and what.
    #[command(flatten)]
    pub place: PlaceArgs,
}

/// `orloj-jepsen shrink`
#[derive(Debug, Args)]
pub struct ShrinkArgs {
    /// The folder of an invalid run.
    pub run: PathBuf,
    /// How often each candidate is run before it counts as harmless.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub tries: u32,
    /// Where, and what.
    #[command(flatten)]
    pub place: PlaceArgs,
}

/// `orloj-jepsen failover`
#[derive(Debug, Args)]
pub struct FailoverArgs {
    /// How often the leader goes, for each kind of fault.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
    /// Where, and what.
    #[command(flatten)]
    pub place: PlaceArgs,
}

impl RunArgs {
    /// How long the load goes on, where the command line says.
    pub fn seconds(&self) -> Option<u64> {
        self.seconds.or(self.minutes.map(|minutes| minutes * 60))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
        let cli = Cli::parse_from(["orloj-jepsen", "run", "--scenario", "smoke", "--minutes", "2"]);
        let Command::Run(run) = cli.command else { panic!("not a run") };
        assert_eq!(run.seconds(), Some(120));
    }
}
