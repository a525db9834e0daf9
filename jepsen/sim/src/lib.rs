//! A whole cluster in one thread: three replicas of the product, mock executors and clients, with simulated
//! network, disks and clocks. One seed decides everything; a seed run again gives the same history, byte by byte.
//!
//! * [`plan`] says what a seed means; [`run`] carries it out and judges it with the checkers of the harness.
//! * [`world`] moves the one clock; [`host`] is a runtime whose time stands still until it does.
//! * [`net`], [`disk`] and [`time`] stand in for the machine, [`entropy`] for its random numbers.
//! * [`replica`] composes the product as its server does, [`machine`] starts, stops and crashes it; [`panics`]
//!   tells of tasks that died.
//! * [`mutants`] breaks the product on purpose, which proves the checkers.
//! * [`nemesis`] hurts them, [`client`] and [`executors`] drive the harness's own agents, [`jobs`] fire meanwhile.
//!
//! What is not simulated: HTTP connections (routers are called in memory), RocksDB (the storage engine is another),
//! plain files (identity, guard and snapshots survive every crash as they were written), threads, and the kernel.
//! The harness of real processes has those.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test that cannot go on fails"))]

pub mod client;
pub mod disk;
pub mod entropy;
pub mod executors;
mod final_table;
pub mod host;
pub mod jobs;
mod knocker;
pub mod machine;
pub mod mutants;
pub mod nemesis;
pub mod net;
pub mod panics;
pub mod place;
pub mod plan;
pub mod recorder;
pub mod replica;
pub mod run;
pub mod single;
pub mod sink;
pub mod sweep;
pub mod time;
pub mod trace;
pub mod world;
