//! Executors come, drain and go.

use crate::apply::context::Context;
use crate::command::{Refusal, Reply};
use crate::event::Event;
use crate::executor::{Executor, ExecutorState, Registration};
use crate::id::{ExecutorId, Incarnation};
use crate::schema::ExecutorTable;
use crate::tables::{ReadExt as _, Write, WriteExt as _};

pub(crate) fn register<T: Write>(
    cx: &mut Context<'_, T>,
    registration: &Registration,
) -> Result<Reply, T::Error> {
    let now = cx.now();
    let known = cx.tables.get::<ExecutorTable>(&registration.id)?;
    let row = match known {
        // One that is gone keeps nobody out: its clock may have been ahead, by a year even, when it chose its life.
        Some(row) if row.registration.incarnation > registration.incarnation && row.is_there() => {
            let current = row.registration.incarnation;
            return Ok(Reply::Refused(Refusal::IncarnationSuperseded { current }));
        }
        Some(row) if row.registration.incarnation == registration.incarnation => {
            // The same life: it keeps its drain, and comes back from offline.
            let state = match row.state {
                ExecutorState::Draining => ExecutorState::Draining,
                _ => ExecutorState::Online,
            };
            if row.registration == *registration && row.state == state {
                return Ok(Reply::Done);
            }
            let changed_at = if row.state == state { row.changed_at } else { now };
            Executor {
                registration: registration.clone(),
                state,
                registered_at: row.registered_at,
                changed_at,
            }
        }
        _ => Executor {
            registration: registration.clone(),
            state: ExecutorState::Online,
            registered_at: now,
            changed_at: now,
        },
    };
    put(cx, &row)
}

pub(crate) fn gone<T: Write>(
    cx: &mut Context<'_, T>,
    executor: &ExecutorId,
    incarnation: Incarnation,
) -> Result<Reply, T::Error> {
    change_state(cx, executor, Some(incarnation), ExecutorState::Offline)
}

pub(crate) fn left<T: Write>(
    cx: &mut Context<'_, T>,
    executor: &ExecutorId,
    incarnation: Incarnation,
) -> Result<Reply, T::Error> {
    change_state(cx, executor, Some(incarnation), ExecutorState::Left)
}

pub(crate) fn drain<T: Write>(
    cx: &mut Context<'_, T>,
    executor: &ExecutorId,
    on: bool,
) -> Result<Reply, T::Error> {
    let to = if on { ExecutorState::Draining } else { ExecutorState::Online };
    change_state(cx, executor, None, to)
}

/// Changes the state of an executor that is there (online or draining), of this life where one is named.
fn change_state<T: Write>(
    cx: &mut Context<'_, T>,
    executor: &ExecutorId,
    incarnation: Option<Incarnation>,
    to: ExecutorState,
) -> Result<Reply, T::Error> {
    let Some(mut row) = cx.tables.get::<ExecutorTable>(executor)? else {
        return Ok(Reply::Refused(Refusal::ExecutorUnknown));
    };
    if let Some(meant) = incarnation
        && meant != row.registration.incarnation
    {
        let current = row.registration.incarnation;
        return Ok(Reply::Refused(Refusal::IncarnationSuperseded { current }));
    }
    if row.state == to {
        return Ok(Reply::Done);
    }
    if !row.is_there() {
        return Ok(Reply::Refused(Refusal::ExecutorNotOnline));
    }
    row.state = to;
    row.changed_at = cx.now();
    put(cx, &row)
}

fn put<T: Write>(cx: &mut Context<'_, T>, row: &Executor) -> Result<Reply, T::Error> {
    cx.tables.put::<ExecutorTable>(&row.registration.id, row)?;
    cx.events.push(Event::ExecutorChanged { executor: row.registration.id.clone() });
    Ok(Reply::Done)
}
