//! Where the log of the process goes: standard error, as text or as JSON lines.

use std::io::{IsTerminal as _, stderr};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

/// How a log line looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What is logged without a word in the environment: our own at info, the rest at warn, and openraft only
/// when it fails, since it warns of every call to a peer that is down.
const DEFAULT_FILTER: &str = "warn,openraft=error,orloj=info,orloj_api=info,orloj_cli=info,orloj_executor=info,\
                              orloj_raft_store=info,orloj_scheduler=info";

/// Starts logging. `ORLOJ_LOG` overrides the levels (`debug`, or `info,orloj_scheduler=debug`).
///
/// # Errors
/// A filter that cannot be read, with its text.
pub fn init(format: LogFormat) -> anyhow::Result<()> {
    let text = std::env::var("ORLOJ_LOG").unwrap_or_else(|_| DEFAULT_FILTER.to_string());
    let filter = EnvFilter::try_new(&text).map_err(|error| anyhow::anyhow!("ORLOJ_LOG={text:?}: {error}"))?;
    // A reader of the log that has gone away must not end the process: the default would report the failure on
    // the same standard error, and panic.
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr).log_internal_errors(false);
    match format {
        LogFormat::Text => builder.with_ansi(stderr().is_terminal()).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    Ok(())
}
