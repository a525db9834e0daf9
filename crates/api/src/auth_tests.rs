#![allow(clippy::unwrap_used, reason = "a failed test")]
