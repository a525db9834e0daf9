//! The cluster under test.

pub mod files;
