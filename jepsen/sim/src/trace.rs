//! What the replicas log, on stderr, without the machine's own time.

use tracing::Dispatch;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

/// What prints everything that `filter` lets through. It has hash maps, whose keys depend on how many this thread made
/// before: made on the thread of a seed, it would change the course of what is to be traced.
pub fn printer(filter: &str) -> Dispatch {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    fmt::Subscriber::builder()
        .with_env_filter(filter)
        .without_time()
        .with_writer(std::io::stderr)
        .finish()
        .into()
}
