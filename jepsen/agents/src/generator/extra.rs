//! What few loads ask for: parents, shards, broadcasts and callbacks.

use orloj_jepsen_core::event::Edge;
use orloj_wire::rest::{DependsOn, DependsOnEnd, OnShardFailure, Strategy};

use super::mix::Mix;
use super::submission::Planned;
use crate::rng::Rng;

/// Parents are among the newest so many tasks: most of them have not ended yet.
const NEWEST: usize = 24;
/// The most parents.
const PARENTS: u64 = 3;
/// The most shards.
const SHARDS: u64 = 12;
/// Of tasks with shards: those whose other shards stop when one has failed for good.
const STOPPED: f64 = 0.3;

/// Gives a submission what the shares say. `newest` are the tasks that are known, the newest first.
pub(super) fn add<'a>(
    rng: &mut Rng,
    mix: &Mix,
    newest: impl Iterator<Item = &'a str>,
    planned: &mut Planned,
) {
    let extra = &mix.shares.extra;
    // One after the other, so that each share holds by itself.
    let [dependent, sharded, broadcast, callback] =
        [extra.dependent, extra.sharded, extra.broadcast, extra.callback].map(|share| rng.chance(share));
    // The real executor's handler has effects: how often it runs is judged by them.
    let is_effect = planned.seen.behaviour == "effect";
    if dependent {
        depend(rng, newest, planned);
    } else if sharded && !is_effect {
        shard(rng, planned);
    } else if broadcast && !is_effect {
        undo_placement(planned);
        planned.body.strategy = Some(Strategy::Broadcast);
        planned.seen.broadcast = true;
    }
    if let Some(url) = mix.callback_url.as_ref().filter(|_| callback) {
        planned.body.callback_url = Some(url.clone());
        planned.seen.callback = true;
    }
}

/// It waits for some of the newest tasks, and then for nothing else.
fn depend<'a>(rng: &mut Rng, newest: impl Iterator<Item = &'a str>, planned: &mut Planned) {
    let mut among: Vec<&str> = newest.take(NEWEST).collect();
    let count = rng.between(1, PARENTS);
    for _ in 0..count {
        if among.is_empty() {
            break;
        }
        let at = usize::try_from(rng.below(among.len() as u64)).unwrap_or(0);
        let task = among.swap_remove(at).to_owned();
        let (on, name) = match rng.weighted(&[50, 30, 20]) {
            1 => (DependsOnEnd::Completed, "completed"),
            2 => (DependsOnEnd::Failure, "failure"),
            _ => (DependsOnEnd::Success, "success"),
        };
        planned.body.depends_on.push(DependsOn { task_id: task.clone(), on });
        planned.seen.depends_on.push(Edge { task, on: name.to_owned() });
    }
    if !planned.seen.depends_on.is_empty() {
        undo_timing(planned);
        // When it is ready is not told by its own times: nothing is said of its turn among others.
        planned.seen.anywhere = None;
    }
}

fn shard(rng: &mut Rng, planned: &mut Planned) {
    let shards = rng.between(2, SHARDS);
    undo_placement(planned);
    planned.body.shard_total = Some(shards);
    planned.seen.shard_total = shards;
    if rng.chance(STOPPED) {
        planned.body.on_shard_failure = Some(OnShardFailure::Cancel);
        planned.seen.stops_shards = true;
    }
}

fn undo_timing(planned: &mut Planned) {
    (planned.body.delay_ms, planned.body.run_at, planned.body.expire_at) = (None, None, None);
    (planned.seen.delay_ms, planned.seen.run_at_ms, planned.seen.expire_at_ms) = (None, None, None);
}

/// Not pinned, without a key, and without a deadline, which would end what has begun in part.
fn undo_placement(planned: &mut Planned) {
    (planned.body.strategy, planned.body.routing_key, planned.body.expire_at) = (None, None, None);
    (planned.seen.routing_key, planned.seen.expire_at_ms, planned.seen.anywhere) = (None, None, None);
}
