//! The pure halves of the harness's clients and mock executors.
//!
//! Nothing here does IO, reads a clock or draws a random number that a seed did not fix: the harness of real
//! processes drives these state machines over HTTP, the simulation drives them over its own network.
//!
//! - [`generator`]: what the clients ask next.
//! - [`mock`]: an executor that follows docs/executor-protocol.md, written without the product's executor, with
//!   vices that can be switched on.
//! - [`jobs`]: jobs that fire while the load goes on.
//! - [`hook`]: a callback as a history tells it.
//! - [`behaviour`]: what the parameters of a task ask of a mock executor.
//! - [`seen`]: a task of the API as a history tells it.

pub mod behaviour;
pub mod digest;
pub mod generator;
pub mod hook;
pub mod jobs;
pub mod mock;
pub mod operation;
pub mod rng;
pub mod seen;

/// Nanoseconds in a millisecond.
pub const NS_PER_MS: u64 = 1_000_000;

/// The instant at which something happens, by both clocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Now {
    /// The monotonic clock that all producers of a history share, in ns.
    pub mono_ns: u64,
    /// The harness's wall clock, ms since the epoch.
    pub wall_ms: i64,
}

impl Now {
    /// The monotonic instant so many ms later, in ns.
    pub fn in_ms(self, ms: u64) -> u64 {
        self.mono_ns.saturating_add(ms.saturating_mul(NS_PER_MS))
    }
}
