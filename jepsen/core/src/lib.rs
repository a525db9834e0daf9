//! The pure half of the fault harness: what a history is, and what it must not show.
//!
//! Nothing here does IO, reads a clock or draws a random number, and nothing here knows the product's code: a
//! checker that shared a mistake with what it checks would prove nothing. The harness of real processes and
//! the simulation write the same [`history`] and call the same [`check`]ers.

pub mod acks;
pub mod attempts;
mod by_index;
pub mod check;
pub mod clocks;
pub mod creations;
pub mod event;
pub mod faults;
pub mod history;
pub mod leaders;
mod ring;
pub mod spans;
pub mod tables;
pub mod targets;
pub mod task_model;
#[cfg(test)]
mod testing;
pub mod verdict;
pub mod wgl;

pub use event::{Event, Kind, Meta, What};
pub use history::History;
pub use verdict::{Anomaly, Judgement, Validity};
