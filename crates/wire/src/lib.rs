//! What crosses a public boundary: the executor protocol, REST bodies, problem details and signatures.

pub mod address;
pub mod callback;
pub mod clock;
pub mod json;
pub mod problem;
pub mod protocol;
pub mod random;
pub mod rest;
pub mod sign;
pub mod time;
