//! `orloj bench-part`: load and executors in processes of their own, so that their CPU time is told apart.

use std::fs::File;
use std::io::{BufRead, BufReader, stdin};
use std::process::ExitCode;

use anyhow::Context as _;
use orloj_bench::{executors, load, null};

use super::args::{Part, PartArgs};
use crate::exit::{Failure, Outcome};
use crate::process::end_with_parent;
use crate::telemetry::{self, LogFormat};

/// Runs the part until its input is over, or for executors until SIGTERM.
///
/// # Errors
/// Input that is not understood, a cluster or a folder that cannot be used.
pub fn run(args: &PartArgs) -> Outcome {
    telemetry::init(LogFormat::Text).map_err(Failure::usage)?;
    if let Some(parent) = args.exit_with_parent {
        end_with_parent(parent)?;
    }
    let input: Box<dyn BufRead + Send> = match &args.spec {
        Some(path) => {
            let file = File::open(path).with_context(|| format!("cannot open {}", path.display()));
            Box::new(BufReader::new(file.map_err(Failure::usage)?))
        }
        None => Box::new(BufReader::new(stdin())),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ran = runtime.block_on(async move {
        match args.part {
            Part::Executors => executors::run(input).await,
            Part::Load => load::run(input).await,
            Part::Null => null::run().await,
        }
    });
    runtime.shutdown_background();
    ran.map_err(anyhow::Error::from)?;
    Ok(ExitCode::SUCCESS)
}
