//! What crosses a public boundary: the executor protocol, REST bodies, problem details and signatures.

pub mod clock;
pub mod protocol;
pub mod sign;
