//! The command of the fault harness.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;
use orloj_jepsen::args::{Cli, Command};
use orloj_jepsen::journal::{self, Journal};
use orloj_jepsen::{check_cmd, doctor, failover, run, shrink_cmd};

/// The harness failed: no word on any run.
const FAILED: u8 = 70;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(told) => {
            // What was asked for is printed; a command that is not understood must not look like a verdict.
            let _ = told.print();
            return if told.use_stderr() { ExitCode::from(FAILED) } else { ExitCode::SUCCESS };
        }
    };
    carry_out(&cli.command).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(FAILED)
    })
}

fn carry_out(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Doctor(args) => doctor::run(args),
        Command::Run(args) => run::run(args),
        Command::Check { run } => check_cmd::check(run),
        Command::Replay(args) => run::replay(args),
        Command::Shrink(args) => shrink_cmd::run(args),
        Command::Report { run } => check_cmd::report(run),
        Command::Failover(args) => failover::run(args),
        Command::Clean => clean(),
    }
}

fn clean() -> Result<ExitCode> {
    let left = Journal::undo_leftovers(&journal::default_folder())?;
    for one in &left {
        println!("{}: {} steps undone", one.path.display(), one.steps);
        one.problems.iter().for_each(|problem| println!("  not undone: {problem}"));
    }
    let clean = left.iter().all(|one| one.problems.is_empty());
    Ok(ExitCode::from(if clean { 0 } else { FAILED }))
}
