//! Support for the tests of the whole: real clusters of processes, load, histories, and the rules of style.

pub mod tidy;
