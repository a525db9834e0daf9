//! What the loop reads from the tables.

use std::sync::Arc;

use orloj_model::id::Millis;
use orloj_model::key::{DueKey, ShardKey, TimeKey};
use orloj_model::mutant::{Mutant, is_on};
use orloj_model::query;
use orloj_model::schema::{ShardTable, SpecTable, TaskTable};
use orloj_model::tables::{Read, ReadExt as _};
use orloj_model::task::{Phase, TaskSpec};
use orloj_wire::protocol::Dispatch;

use super::fresh::Fresh;
use crate::core::{Candidate, Lease, attempt_ref};

/// A shard that waits, with what placing it needs; `None` when it does not wait any more.
pub(super) fn candidate<R: Read>(view: &R, shard: ShardKey) -> Result<Option<Candidate>, R::Error> {
    let Some(row) = view.get::<ShardTable>(&shard)? else { return Ok(None) };
    let (since, ready) = match row.phase {
        Phase::Due { at, .. } => (at, false),
        Phase::Ready { since } => (since, true),
        Phase::Blocked | Phase::Running | Phase::Done => return Ok(None),
    };
    let Some(spec) = view.get::<SpecTable>(&shard.task)? else { return Ok(None) };
    Ok(Some(Candidate { shard, attempt: row.next_attempt, since, ready, spec: Arc::new(spec) }))
}

/// Of a lease: its attempt's timeout, and whether a cancel was asked for.
pub(super) fn of_lease<R: Read>(view: &R, shard: ShardKey) -> Result<(Option<u64>, bool), R::Error> {
    let timeout_ms = view.get::<SpecTable>(&shard.task)?.and_then(|spec| spec.timeout_ms);
    let cancel = view.get::<TaskTable>(&shard.task)?.is_some_and(|state| state.cancel_requested);
    Ok((timeout_ms, cancel))
}

/// Everything in the due index with `from <= at < until`, read in pages.
pub(super) fn due_between<R: Read>(
    view: &R,
    from: Millis,
    until: Millis,
    page: usize,
) -> Result<Vec<DueKey>, R::Error> {
    let mut keys = query::due_from(view, from, until, page)?;
    while let Some(last) = keys.last().copied() {
        let more = query::due(view, Some(last), until, page)?;
        if more.is_empty() {
            break;
        }
        keys.extend(more);
    }
    Ok(keys)
}

/// Everything in the expiry index with `from <= at < until`, read in pages.
pub(super) fn expiring_between<R: Read>(
    view: &R,
    from: Millis,
    until: Millis,
    page: usize,
) -> Result<Vec<TimeKey>, R::Error> {
    let mut keys = query::expiring_from(view, from, until, page)?;
    while let Some(last) = keys.last().copied() {
        let more = query::expiring(view, Some(last), until, page)?;
        if more.is_empty() {
            break;
        }
        keys.extend(more);
    }
    Ok(keys)
}

/// The body of a push for a lease; `None` when the lease is over.
pub(super) fn dispatch<R: Read>(view: &R, lease: &Lease) -> Result<Option<Dispatch>, R::Error> {
    let Some(row) = view.get::<ShardTable>(&lease.shard)? else { return Ok(None) };
    let granted = row.open_attempt().is_some_and(|open| open.fence == lease.fence);
    if !granted && !is_on(Mutant::PushBeforeGrant) {
        return Ok(None);
    }
    let Some(spec) = view.get::<SpecTable>(&lease.shard.task)? else { return Ok(None) };
    let Some(state) = view.get::<TaskTable>(&lease.shard.task)? else { return Ok(None) };
    Ok(Some(body(lease, &spec, state.due_at, row.checkpoint)))
}

/// The body of the push for a first attempt, of what is in hand.
pub(super) fn first_dispatch(lease: &Lease, fresh: &Fresh) -> Dispatch {
    body(lease, &fresh.spec, fresh.due_at, None)
}

fn body(lease: &Lease, spec: &TaskSpec, due_at: Millis, checkpoint: Option<Vec<u8>>) -> Dispatch {
    let (job_id, scheduled_at) = spec.origin.job().map(|(job, at)| (job.to_owned(), at)).unzip();
    Dispatch {
        attempt: attempt_ref(lease),
        shard_total: spec.shard_total,
        handler: spec.handler.clone(),
        // Parameters were parsed when they were submitted.
        params: serde_json::from_slice(&spec.params).unwrap_or_default(),
        caller_id: spec.caller.to_string(),
        business_key: spec.business_key.clone(),
        dedupe_key: spec.dedupe_key.clone().unwrap_or_else(|| lease.shard.task.to_string()),
        timeout_ms: spec.timeout_ms.map(|ms| if is_on(Mutant::TimeoutDoubled) { 2 * ms } else { ms }),
        due_at,
        scheduled_at,
        job_id,
        checkpoint,
    }
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
