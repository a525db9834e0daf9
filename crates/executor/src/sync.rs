//! Small helpers for shared state.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks. A panic elsewhere while the lock was held does not spread: every critical section of this crate
/// leaves its data whole between statements that cannot panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
