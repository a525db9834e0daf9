//! The fault harness: runs a cluster, hurts it, records what everybody was told, and judges the recording.

pub mod action;
pub mod args;
pub mod dice;
pub mod fabric;
pub mod inside;
pub mod journal;
pub mod netns;
pub mod plan;
pub mod run_id;
pub mod scenario;
pub mod shrink;
pub mod target;
pub mod tool;
pub mod wait;
