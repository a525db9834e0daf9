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

/// The first entry of the outbox of the host that follows `after` in the order of hosts.
pub fn next_callback_host<R: Read>(
    tables: &R,
    after: Option<&str>,
) -> Result<Option<CallbackDueKey>, R::Error> {
    let from = after.map(|host| after_prefix(&prefix(host))).unwrap_or_default();
    Ok(tables.keys::<CallbackDueTable>(&from, &after_prefix(&[]), 1)?.pop())
}

/// The outbox of one host up to and with `until`, in order; at most `limit`.
pub fn callbacks_due<R: Read>(
    tables: &R,
    host: &str,
    until: Millis,
    limit: usize,
) -> Result<Vec<CallbackDueKey>, R::Error> {
    let to = KeyWriter::default().text(host).millis(until.saturating_add(1)).finish();
    tables.keys::<CallbackDueTable>(&prefix(host), &to, limit)
}

/// Everything in the outbox of one host, in order; at most `limit`.
pub fn callbacks_of_host<R: Read>(
    tables: &R,
    host: &str,
    limit: usize,
) -> Result<Vec<CallbackDueKey>, R::Error> {
    let prefix = prefix(host);
    tables.keys::<CallbackDueTable>(&prefix, &after_prefix(&prefix), limit)
}

fn prefix(host: &str) -> Vec<u8> {
    KeyWriter::default().text(host).finish()
}
