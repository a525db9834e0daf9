//! Invariants of callbacks.

use std::collections::BTreeSet;

use super::{all, compare};
use crate::callback::{Callback, MAX_SENDS, SENDS_KEPT, Stage, lane};
use crate::id::TaskId;
use crate::key::{CallbackDueKey, TableKey as _};
use crate::schema::{CallbackDueTable, CallbackTable, TaskTable};
use crate::tables::{Read, ReadExt as _};

pub(super) fn check<R: Read>(tables: &R, faults: &mut Vec<String>) -> Result<(), R::Error> {
    let mut outbox = BTreeSet::new();
    for (task, callback) in all::<CallbackTable, R>(tables)? {
        let state = tables.get::<TaskTable>(&task)?;
        if let (Some(at), Some(state)) = (callback.next_at, &state) {
            outbox.insert(CallbackDueKey { lane: lane(&callback.url, &state.caller), at, task }.encode());
        }
        check_row(task, &callback, state.map(|state| state.status.is_terminal()), faults);
    }
    compare::<CallbackDueTable, R>(tables, "callback outbox", &outbox, faults)
}

fn check_row(task: TaskId, callback: &Callback, ended: Option<bool>, faults: &mut Vec<String>) {
    let mut fault = |what: &str| faults.push(format!("callback of {task}: {what}"));
    match ended {
        None => fault("there is no such task"),
        Some(ended) if ended == (callback.stage == Stage::Waiting) => {
            fault("waiting if and only if its task has not ended");
        }
        Some(_) => {}
    }
    if (callback.stage == Stage::Pending) != callback.next_at.is_some() {
        fault("in the outbox if and only if it is pending");
    }
    if callback.stage == Stage::Waiting && !callback.sends.is_empty() {
        fault("sent before its task has ended");
    }
    if callback.sent > MAX_SENDS || callback.sends.len() > SENDS_KEPT {
        fault("too many sends");
    }
    let closed = callback.sends.len().saturating_sub(1);
    if callback.sends.iter().take(closed).any(|send| send.outcome.is_none()) {
        fault("a send before the last one is open");
    }
    if callback.stage != Stage::Pending && callback.open_send().is_some() {
        fault("a send is open outside the outbox");
    }
    let numbers = callback.sends.iter().map(|send| (send.series, send.number));
    if !numbers.is_sorted_by(|a, b| a < b) {
        fault("the numbers of its sends do not grow");
    }
    if callback.sends.iter().any(|send| send.number == 0 || send.number > MAX_SENDS) {
        fault("a send has a number outside its bounds");
    }
}
