//! Keys of the tables of graphs.

use super::{KeyReader, KeyWriter, TableKey};
use crate::graph::WorkKind;
use crate::id::TaskId;

/// (kind, task): what a leader goes on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkKey {
    /// What is to be done.
    pub kind: WorkKind,
    /// Of which task.
    pub task: TaskId,
}

key_codec!(WorkKey, |k, w| w.byte(k.kind as u8).task(k.task), |r| WorkKey {
    kind: WorkKind::from_number(r.byte()?)?,
    task: r.task()?
});
