//! Keys of the outbox.

use super::{KeyReader, KeyWriter, TableKey};
use crate::id::{Millis, TaskId};

/// (lane, instant, task): callbacks that are to be sent. By lane first, so that the many of a receiver that does
/// not answer, or of a caller that has many, are never read on the way to those of another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallbackDueKey {
    /// Where it waits: [`lane`](crate::callback::lane).
    pub lane: String,
    /// When the next send is due.
    pub at: Millis,
    /// The task.
    pub task: TaskId,
}

key_codec!(CallbackDueKey, |k, w| w.text(&k.lane).millis(k.at).task(k.task), |r| CallbackDueKey {
    lane: r.text()?,
    at: r.millis()?,
    task: r.task()?,
});
