//! The system's random numbers.

pub use orloj_model::random::Random;

/// The operating system's source.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) {
        // Without random numbers from the operating system nothing can be kept secret.
        getrandom::fill(bytes).expect("the operating system supplies random numbers");
    }
}
