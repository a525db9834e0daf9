//! The command of the fault harness.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;
use orloj_jepsen::args::{Cli, Command};
use orloj_jepsen::journal::{self, Journal};
use orloj_jepsen::{check_cmd, doctor, failover, run, shrink_cmd};

fn main() -> ExitCode {
    match carry_out(&Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(70)
        }
    }
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
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
