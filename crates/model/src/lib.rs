//! The functional core of Orloj: identifiers, records, commands and the one function that changes
//! replicated state, [`apply`].
//!
//! Nothing here performs IO, reads a clock, draws a random number or depends on configuration. Three
//! replicas that apply the same entries in the same order hold byte-identical tables; the running
//! digest ([`digest`]) proves it.
//!
//! * [`command::Command`] is the replicated vocabulary. It is append-only: a variant never changes
//!   meaning, new ones are added at the end, and each has golden bytes.
//! * [`apply`] is *total* (a committed command cannot fail: refusals are replies), *closed* (time
//!   travels in the entry), *guarded* (every command names what it believes) and *bounded*.
//! * [`tables`] is the storage that `apply` works on. It has two implementations: ordered maps here
//!   ([`tables::MapTables`]) and RocksDB in `orloj-raft-store`.
//! * [`query`] reads the tables by index.

pub mod access;
pub mod apply;
mod blob;
pub mod callback;
pub mod check;
pub mod command;
pub mod digest;
pub mod event;
pub mod executor;
pub mod graph;
pub mod id;
pub mod job;
pub mod key;
pub mod mutant;
pub mod query;
pub mod random;
pub mod schema;
pub mod tables;
pub mod task;
pub mod time;
pub mod trigger;

pub use apply::{Stamp, apply};
pub use command::{Batch, Command, Refusal, Reply};
pub use event::Event;
pub use random::Random;
pub use time::{Clock, ClusterClock};
