//! The parts of `orloj bench`: workload plans, load, executors that record, figures.
//!
//! ```text
//!  conductor (orloj bench) ── starts ──▶ replicas
//!      │ lines of JSON                       ▲ ▲
//!      ├──▶ load ──── signed submissions ────┘ │
//!      └──▶ executors ── real executor library ┘
//! ```
//!
//! Load and executors run in processes of their own, so that their CPU time is told apart from the replicas'.
//! The conductor talks to them in lines of JSON on their standard input and output ([`message`]).
//!
//! | module | does |
//! |---|---|
//! | [`plan`], `shuffle`, [`jobs`], [`latency`], [`record`], `seen`, [`slices`], [`outcome`], [`ceilings`], [`figures`] | pure: what is submitted when, and what is made of it |
//! | [`message`] | what conductor and parts tell each other |
//! | [`load`], [`check`], `listing`, [`executors`], [`null`] | the parts |
//! | [`machine`], [`disk`], [`usage`] | the machine: facts, the latency of its disk, what processes use |
//!
//! Absent on purpose: how a cluster is started, and what the workloads are. Both stand in the command `orloj`.
//! In an open loop a latency counts from the instant at which the plan wanted the work to begin, never from when the
//! load found time for it: a replica that stalls is charged for everything that waited. In a closed loop a caller that
//! waits for an answer sends nothing, so there a latency is the time of service. Requests that fail are in it, too.

mod caller;
pub mod ceilings;
pub mod check;
pub mod disk;
pub mod executors;
pub mod figures;
mod http;
pub mod jobs;
pub mod latency;
mod listing;
pub mod load;
pub mod machine;
pub mod message;
pub mod null;
pub mod outcome;
mod pacer;
pub mod plan;
pub mod record;
mod seen;
mod shuffle;
pub mod slices;
pub mod usage;
