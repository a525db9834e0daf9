//! What the replicas log, on stderr, without the machine's own time.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

/// Runs `work` while everything that its thread logs and `filter` lets through is printed.
pub fn with<T>(filter: &str, work: impl FnOnce() -> T) -> T {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let subscriber = fmt::Subscriber::builder()
        .with_env_filter(filter)
        .without_time()
        .with_writer(std::io::stderr)
        .finish();
    tracing::subscriber::with_default(subscriber, work)
}
