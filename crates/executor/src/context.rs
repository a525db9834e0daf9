//! What a handler is given: its attempt, and a way to talk back.
/// Why a checkpoint was not saved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SaveError {
    /// More than 64 KiB.
    #[error("the checkpoint has {size} bytes; at most {limit} are allowed")]
    TooLarge {
        /// Its bytes.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// The attempt has no lease any more, or is over: the handler should stop.
    #[error("the attempt has no lease any more")]
    LeaseLost,
}
/// One attempt.
#[derive(Debug, Clone)]
pub struct AttemptContext {}
