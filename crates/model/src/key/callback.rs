//! Keys of the outbox.

use super::{KeyReader, KeyWriter, TableKey};
use crate::id::{Millis, TaskId};

/// (host, instant, task): callbacks that are to be sent. By host first, so that the many of a receiver that does
/// not answer are never read on the way to those of another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallbackDueKey {
    /// The host of the address.
    pub host: String,
    /// When the next send is due.
    pub at: Millis,
    /// The task.
    pub task: TaskId,
}

key_codec!(CallbackDueKey, |k, w| w.text(&k.host).millis(k.at).task(k.task), |r| CallbackDueKey {
    host: r.text()?,
    at: r.millis()?,
    task: r.task()?,
});
