//! Reads over the tables, by index.
