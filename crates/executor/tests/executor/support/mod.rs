//! A leader that does as it is told, and an executor to play with.

mod executor;
mod leader;

pub use executor::{Executor, attempt, dispatch, next_fence, pid_runs, shell, sleep};
pub use leader::{Event, FakeLeader};

use std::future::Future;
use std::time::Duration;

/// The secret of every test.
pub const SECRET: &str = "exs_for_tests_only_and_long_enough_to_be_taken";
/// The longest that anything may take; far beyond what it takes.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Waits with the deadline.
pub async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, work).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: not within {DEADLINE:?}"),
    }
}

/// Waits until a condition of the outside world holds that sends no event.
pub async fn until(what: &str, holds: impl Fn() -> bool) {
    within(what, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}
