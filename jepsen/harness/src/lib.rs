//! The fault harness: runs a cluster, hurts it, records what everybody was told, and judges the recording.

pub mod action;
pub mod args;
pub mod dice;
pub mod plan;
pub mod scenario;
pub mod shrink;
pub mod target;
