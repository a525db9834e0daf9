//! The pure halves of the harness's agents: what a client asks for next, and how a mock executor behaves.
//!
//! No IO, no clock, no randomness of their own: the harness of real processes and the simulation drive the
//! same code.
