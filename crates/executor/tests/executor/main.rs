//! The executor against a scripted leader, over real sockets and a real folder.
#![allow(clippy::unwrap_used, reason = "tests")]

mod auth;
mod builtin;
mod drain;
mod leader;
mod logs;
mod push;
mod restart;
mod stop;
mod support;
