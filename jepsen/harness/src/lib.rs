//! The fault harness: runs a cluster, hurts it, records what everybody was told, and judges the recording.

pub mod action;
pub mod agents;
pub mod args;
pub mod check_cmd;
pub mod clock;
pub mod cluster;
pub mod dice;
pub mod disk;
pub mod doctor;
pub mod fabric;
pub mod failover;
pub mod hosts;
pub mod inside;
pub mod interrupt;
pub mod journal;
pub mod judge;
pub mod limits;
pub mod nemesis;
pub mod netns;
pub mod plan;
pub mod process;
pub mod report;
pub mod run;
pub mod run_id;
pub mod scenario;
pub mod shrink;
pub mod shrink_cmd;
pub mod store;
pub mod target;
pub mod tool;
pub mod verdict;
pub mod wait;
pub mod wall;

#[cfg(test)]
mod testing;
