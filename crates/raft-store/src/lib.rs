//! The replication shell of Orloj: openraft on RocksDB, behind one handle, the [`Store`].
//!
//! A [`Store`] proposes commands, hands out views of the tables, tells who leads, and changes the membership.
//! It knows nothing of HTTP servers: peers' calls are handed in ([`Store::handle_rpc`]), and calls to peers
//! go through a [`Transport`].
//! What the machine decides (disk, threads, time, chance) is given to it as an [`Environment`].
//!
//! Two databases per node, of the storage [`engine`]. The *log* database holds the Raft log and the vote,
//! written and synced by one writer ([`log`], checked by [`guard`]); the *state* database holds the model's
//! tables together with the last applied position ([`tables`], [`machine`]). Snapshots are checkpoints of the
//! state database, sent file by file and put in its place by a pointer ([`snapshot`]).
//!
//! Everything that is written or sent goes through [`codec`], in the stable forms of [`stored`] and
//! [`message`].
//!
//! What holds at all times:
//!
//! * Nothing is acknowledged that is not on the disks of a majority.
//! * A storage that has failed, is damaged, or has lost what it had synced stops the node
//!   ([`Store::fatal`], [`OpenError`]). Damage is never taken for absence.
//! * A node is its id *and* the birth of its data directory. One without the other never votes.

#![warn(clippy::iter_over_hash_type, reason = "its order differs between two runs of one seed")]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test that cannot go on fails"))]

mod applier;
mod bootstrap;
mod coalesce;
pub mod codec;
pub mod config;
pub mod disk;
pub mod engine;
pub mod environment;
pub mod error;
mod events;
pub mod failure;
mod faults;
mod files;
pub mod guard;
pub mod http;
mod identity;
pub mod log;
pub mod machine;
mod membership;
pub mod message;
mod node;
pub mod peer;
pub mod proposer;
pub mod published;
mod pulse;
mod receive;
mod report;
mod rpc;
pub mod runner;
pub mod runtime;
mod send;
pub mod snapshot;
pub mod status;
pub mod store;
pub mod stored;
pub mod tables;
pub mod transport;
pub mod types;
mod upkeep;

pub use config::Options;
pub use environment::Environment;
pub use error::Fault;
pub use events::AppliedEvents;
pub use failure::{MembershipError, OpenError, PeerError, ProposeError, ReadError, RpcError};
pub use proposer::Applied;
pub use status::{Checkpoint, Leadership, MemberInfo, NodeHistory, NodeState, NodeStatus, Role};
pub use store::Store;
pub use tables::{Stamp, View};
pub use transport::{RpcEnvelope, RpcKind, Transport, TransportError};

#[cfg(test)]
mod suite_tests;

#[cfg(test)]
mod tests;

#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod victim;
