//! The command of the fault harness.

fn main() {}
