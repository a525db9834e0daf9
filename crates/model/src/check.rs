//! Invariants of the tables, recomputed from scratch.
