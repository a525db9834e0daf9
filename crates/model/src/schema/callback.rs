//! The tables of callbacks.

use crate::callback::Callback;
use crate::id::TaskId;
use crate::key::CallbackDueKey;
use crate::tables::{Table, TableId};

table!(
    /// Callbacks of tasks that have an address for one.
    CallbackTable, Callback, TaskId, Callback
);
table!(
    /// The outbox: callbacks to be sent, by lane and by when.
    CallbackDueTable, CallbackDue, CallbackDueKey, ()
);
