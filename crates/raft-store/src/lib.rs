//! The replication shell of Orloj: openraft on RocksDB.
//!
//! Two databases per node. The *log* database holds the Raft log and the vote, written and synced by one
//! thread; the *state* database holds the model's tables together with the last applied position.
//! Everything that is written or sent goes through [`codec`], in the stable forms of [`stored`].

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test that cannot go on fails"))]

pub mod codec;
pub mod stored;
pub mod types;
