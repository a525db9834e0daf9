//! What was asked for with a key of the tables is held against them once more as it takes effect.
//!
//! Between the check of a request and its last entry others may commit that its key is off: what comes behind that in
//! the log has no effect, so that nothing takes effect that was asked for with a key after somebody was told that the
//! key is off.

use crate::access::KeyOwner;
use crate::apply::context::Context;
use crate::apply::{access, callback, cancel, executor, graph, job, nonce, submit};
use crate::command::{Asked, Refusal, Reply};
use crate::key::AccessKeyName;
use crate::schema::{AccessKeyTable, CallerTable};
use crate::tables::{ReadExt as _, Write};

/// Applies a change if the key that asked for it may still change something. Reads two small rows for each run of
/// commands of one key in an entry.
pub(crate) fn of_key<T: Write>(
    cx: &mut Context<'_, T>,
    access_key: &str,
    change: &Asked,
) -> Result<Reply, T::Error> {
    if change.is_of_the_round() {
        return Ok(Reply::Refused(Refusal::Invalid));
    }
    if cx.judged.as_ref().is_none_or(|(known, _)| known != access_key) {
        cx.judged = Some((access_key.to_owned(), judge(cx, access_key)?));
    }
    if let Some(refusal) = cx.judged.as_ref().and_then(|(_, refusal)| refusal.clone()) {
        return Ok(Reply::Refused(refusal));
    }
    match change {
        Asked::Submit(command) => submit::submit(cx, command),
        Asked::Cancel { task, caller, claim } => cancel::cancel(cx, *task, caller.as_ref(), claim.as_ref()),
        Asked::Drain { executor, on } => executor::drain(cx, executor, *on),
        Asked::Spend { claim } => Ok(nonce::spend(cx, Some(claim))?.map_or(Reply::Done, Reply::Refused)),
        Asked::Job(command) => job::route(cx, command),
        Asked::Graph(command) => graph::route(cx, command),
        Asked::Callback(command) => callback::route(cx, command),
        Asked::Access(command) => access::route(cx, command),
    }
}

/// Why a key may change nothing now; `None` of one that may.
fn judge<T: Write>(cx: &Context<'_, T>, access_key: &str) -> Result<Option<Refusal>, T::Error> {
    let key = cx.tables.get::<AccessKeyTable>(&AccessKeyName(access_key.to_owned()))?;
    let Some(key) = key else { return Ok(Some(Refusal::AccessKeyGone)) };
    if !key.enabled {
        return Ok(Some(Refusal::AccessKeyDisabled));
    }
    let KeyOwner::Caller(caller) = &key.owner else { return Ok(None) };
    Ok(match cx.tables.get::<CallerTable>(caller)? {
        None => Some(Refusal::AccessKeyGone),
        Some(row) if !row.settings.enabled => Some(Refusal::AccessKeyDisabled),
        Some(_) => None,
    })
}
