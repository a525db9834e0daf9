//! The command `orloj`: the composition root of replicas and executors, and the command line of the API.
//!
//! | module | does |
//! |---|---|
//! | [`args`], [`exit`] | the command line and the exit codes |
//! | [`server`], [`executor`] | wire the services of one process together and stop them in order |
//! | [`dev`] | supervises a demo cluster of such processes |
//! | [`bench`] | measures a cluster |
//! | [`init`] | makes the secrets of a new cluster |
//! | [`cert`] | makes certificates |
//! | [`remote`] | the commands that call the API of a running cluster |
//! | [`config`], [`secret`], [`process`], [`telemetry`] | files, secrets, signals, logs |

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser as _};

use crate::args::{Cli, Command, ExecutorArgs};
use crate::exit::{Failure, Outcome};

mod args;
mod bench;
mod cert;
mod config;
mod dev;
mod executor;
mod exit;
mod init;
mod process;
mod remote;
mod secret;
mod server;
mod telemetry;

/// RocksDB uses the same allocator, so memory is counted and returned in one place.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(failure) => {
            remote::output::note(&format!("orloj: {failure}"));
            failure.code.into()
        }
    }
}

fn run(cli: Cli) -> Outcome {
    let json = cli.json;
    match cli.command {
        Command::Dev(args) => dev::run(&args),
        Command::Server(args) => server::run(&args),
        Command::Executor(args) => run_executor(args, json),
        Command::Task(command) => call(remote::task::run(command, json)),
        Command::Job(command) => call(remote::job::run(*command, json)),
        Command::Calendar(command) => call(remote::calendar::run(command, json)),
        Command::Cluster(command) => call(remote::cluster::run(command, json)),
        Command::Caller(command) => call(remote::access::caller(command, json)),
        Command::Key(command) => call(remote::access::key(command, json)),
        Command::Audit(args) => call(remote::access::audit(args, json)),
        Command::Init(args) => init::run(&args),
        Command::Cert(command) => cert::run(&command, json),
        Command::Bench(args) => bench::run(&args, json),
        Command::BenchPart(args) => bench::part::run(&args),
        Command::Completions { shell } => {
            // Into memory first: the generator fails when its reader has gone away.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "orloj", &mut script);
            remote::output::raw(&String::from_utf8_lossy(&script))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn run_executor(mut args: ExecutorArgs, json: bool) -> Outcome {
    match (args.command.take(), &args.config) {
        (Some(command), _) => call(remote::executor::run(command, json)),
        (None, Some(config)) => executor::run(config, &args),
        (None, None) => Err(Failure::usage(anyhow::anyhow!("executor: --config or a command is needed"))),
    }
}

/// Runs a call of the API on a small runtime.
fn call(command: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(command)
}
