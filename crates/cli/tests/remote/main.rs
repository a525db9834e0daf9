//! The commands that call the API, against a replica that a test plays.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cluster;
mod jobs;
mod stub;
mod tasks;
