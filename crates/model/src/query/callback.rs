//! Reads of callbacks.

use crate::callback::Callback;
use crate::id::{Millis, TaskId};
use crate::key::{CallbackDueKey, KeyWriter, after_prefix};
use crate::schema::{CallbackDueTable, CallbackTable};
use crate::tables::{Read, ReadExt as _};

/// The callback of a task; `None` of one without an address for it.
pub fn callback<R: Read>(tables: &R, task: TaskId) -> Result<Option<Callback>, R::Error> {
    tables.get::<CallbackTable>(&task)
}

/// The first entry of the lane of the outbox that follows the lane `after`.
pub fn next_callback_lane<R: Read>(
    tables: &R,
    after: Option<&str>,
) -> Result<Option<CallbackDueKey>, R::Error> {
    let from = after.map(|lane| after_prefix(&prefix(lane))).unwrap_or_default();
    Ok(tables.keys::<CallbackDueTable>(&from, &after_prefix(&[]), 1)?.pop())
}

/// The entries of one lane up to and with `until`, in order; at most `limit`.
pub fn callbacks_due<R: Read>(
    tables: &R,
    lane: &str,
    until: Millis,
    limit: usize,
) -> Result<Vec<CallbackDueKey>, R::Error> {
    let to = KeyWriter::default().text(lane).millis(until.saturating_add(1)).finish();
    tables.keys::<CallbackDueTable>(&prefix(lane), &to, limit)
}

/// Every entry of one lane, in order; at most `limit`.
pub fn callbacks_of_lane<R: Read>(
    tables: &R,
    lane: &str,
    limit: usize,
) -> Result<Vec<CallbackDueKey>, R::Error> {
    let prefix = prefix(lane);
    tables.keys::<CallbackDueTable>(&prefix, &after_prefix(&prefix), limit)
}

fn prefix(lane: &str) -> Vec<u8> {
    KeyWriter::default().text(lane).finish()
}
