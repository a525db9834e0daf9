//! What meets bytes from outside, as functions that a fuzzer calls, and a small fuzzer for the stable compiler.
//!
//! A target panics when its code panics or breaks a promise, such as "what was read can be written and read again".
//! `fuzz/` gives the same targets to cargo-fuzz, which finds its way by coverage and needs a nightly compiler; the
//! test of this crate drives them by chance from seeds, for a while with every `make test` and for as long as
//! `ORLOJ_FUZZ_S` says. An input that was a finding once stays in `fuzz/corpus/<target>/` and is tried first.

pub mod mutate;
pub mod targets;

pub use mutate::mutate;
pub use targets::{Target, all};
