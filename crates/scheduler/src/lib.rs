//! The leader: what runs on the one replica that leads, and is dropped with the leadership.
//!
//! * [`wheel`], [`ring`], [`placement`] and [`waiting`] are pure: timers, places on the ring, the choice of an
//!   executor, and the order of those who wait for one.
//! * `core` is the leader's mind: plain data in, plain data out.
//! * `lead` is the loop that feeds it and carries out what it asks for; [`Service`] starts that loop whenever
//!   this node comes to lead, and [`Scheduler`] is the handle through which the API reaches it.
//! * [`callback`] announces the ends of tasks to their callers.
//! * [`link`] is the way to the executors.
//!
//! Order of a new leader: raise the round, wait until everything that was committed is applied here, load the
//! executors, the leases, the waiting room and the window, announce the round to the executors, serve. A grant
//! is committed before its push, always.

#![warn(clippy::iter_over_hash_type, reason = "its order differs between two runs of one seed")]

pub mod callback;
mod core;
mod error;
mod handle;
mod lead;
pub mod link;
pub mod metrics;
pub mod options;
pub mod placement;
pub mod results;
pub mod ring;
mod service;
#[cfg(test)]
mod testing;
pub mod waiting;
pub mod wheel;

pub use error::LeaderError;
pub use handle::{LiveExecutor, Probe, Scheduler};
pub use options::Options;
pub use service::Service;
