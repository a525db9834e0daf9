//! Support for the tests of the whole: real clusters of processes, load, histories, and the rules of style.

pub mod cluster;
pub mod figures;
pub mod history;
pub mod load;
pub mod process;
pub mod raw;
pub mod setup;
pub mod sink;
pub mod tidy;
