//! `orloj executor --config F`: runs an executor until it is told to stop.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use orloj_executor::{Handlers, Options, Service};
use orloj_wire::clock::SystemClock;

use crate::args::ExecutorArgs;
use crate::config::{check_plaintext, load, named};
use crate::exit::{Failure, Outcome};
use crate::process::{end_with_parent, hangups, stop_token};
use crate::remote::output;
use crate::{secret, telemetry};

/// Runs the executor; returns once it has left in order.
///
/// # Errors
/// A configuration that cannot be used, a folder or listener that cannot be had, a fault while running.
pub fn run(config: &Path, args: &ExecutorArgs) -> Outcome {
    let mut options: Options = load(config)?;
    check(config, &options, args.insecure_plaintext)
        .with_context(|| named(config))
        .map_err(Failure::usage)?;
    if args.run.print_config {
        options.fill_defaults();
        output::raw(&toml::to_string_pretty(&options).context("cannot show the configuration")?)?;
        return Ok(ExitCode::SUCCESS);
    }
    telemetry::init(args.run.log_format).map_err(Failure::usage)?;
    if let Some(parent) = args.run.exit_with_parent {
        end_with_parent(parent)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(options, Duration::from_millis(args.drain_ms)))?;
    // Handlers that ignore their cancellation must not keep the process alive.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

fn check(config: &Path, options: &Options, insecure_plaintext: bool) -> anyhow::Result<()> {
    options.check()?;
    check_plaintext("listen", &options.listen, insecure_plaintext || options.tls.is_some())?;
    match &options.secret_file {
        Some(path) => secret::read_private(path).map(|_| ()),
        // The secret stands in the configuration file itself.
        None => secret::read_private(config).map(|_| ()),
    }
}

async fn serve(options: Options, patience: Duration) -> anyhow::Result<()> {
    let stop = stop_token().context("cannot handle signals")?;
    let id = options.id.clone();
    let handle = Service::start(options, Handlers::new(), Arc::new(SystemClock::new())).await?;
    tracing::info!(executor = %id, address = %handle.address(), "executor started");
    let mut hangups = hangups().context("cannot handle signals")?;
    loop {
        tokio::select! {
            ended = handle.stopped() => return Ok(ended?),
            () = stop.cancelled() => break,
            Ok(()) = hangups.changed() => handle.reload_certificates(),
        }
    }
    handle.drain(patience).await;
    handle.stopped().await?;
    tracing::info!(executor = %id, "executor stopped");
    Ok(())
}
