//! Tests of the whole on real processes: replicas and executors that are killed, stopped and robbed of
//! their data while callers submit and wait.
//!
//! One binary, since linking is what costs. Each test takes seconds; `ORLOJ_LONG=1` runs the same tests with
//! the figures of the guarantees (docs/guarantees.md), and `ORLOJ_SEED` repeats a run.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod access;
mod admin_listener;
mod all_killed;
mod bench;
mod callbacks;
mod captured;
mod clients;
mod clock;
mod crowd;
mod delayed;
mod executor_killed;
mod first_steps;
mod forged;
mod graph;
mod job_cases;
mod job_commands;
mod jobs;
mod leader_cases;
mod leader_killed;
mod leader_stopped;
mod must_fail;
mod quorum_lost;
mod replica_data;
mod shards;
mod sync;
mod tls;
mod tls_public;
