//! The fault harness: runs a cluster, hurts it, records what everybody was told, and judges the recording.

pub mod action;
pub mod agents;
pub mod args;
pub mod clock;
pub mod cluster;
pub mod dice;
pub mod disk;
pub mod doctor;
pub mod fabric;
pub mod hosts;
pub mod inside;
pub mod journal;
pub mod limits;
pub mod nemesis;
pub mod netns;
pub mod plan;
pub mod process;
pub mod run_id;
pub mod scenario;
pub mod shrink;
pub mod store;
pub mod target;
pub mod tool;
pub mod wait;
pub mod wall;

#[cfg(test)]
mod testing;
