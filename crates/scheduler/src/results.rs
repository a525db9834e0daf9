//! What tasks returned, as JSON: the result of a task of many shards, and the results of its parents in a task's
//! parameters. Both are bounded.

use orloj_model::id::TaskId;
use orloj_model::key::ShardKey;
use orloj_model::mutant::{Mutant, is_on};
use orloj_model::schema::{ShardTable, SpecTable, TaskTable};
use orloj_model::tables::{Read, ReadExt as _};
use orloj_model::task::{Origin, Shard, TaskSpec};
use orloj_wire::rest::reference::{self, Reference, What, Which};
use serde_json::{Value, json};

/// The most bytes of the results in one list, or of the results in one task's parameters together. What goes beyond
/// is shown as `{"$omitted": BYTES}`.
pub const RESULTS_LIMIT: usize = 1 << 20;

/// What is left of [`RESULTS_LIMIT`].
struct Room(usize);

impl Room {
    fn take(&mut self, bytes: &[u8]) -> Value {
        if bytes.len() > self.0 {
            return json!({ "$omitted": bytes.len() });
        }
        self.0 -= bytes.len();
        json_or_text(bytes)
    }
}

/// The result of one shard as it is; of several a list with one place for each, null where there is none.
pub fn of_shards(shards: &[Shard]) -> Option<Value> {
    in_room(shards, &mut Room(RESULTS_LIMIT))
}

fn in_room(shards: &[Shard], room: &mut Room) -> Option<Value> {
    match shards {
        [one] => one.result.as_deref().map(|bytes| room.take(bytes)),
        many if many.iter().any(|shard| shard.result.is_some()) => {
            let shown = |shard| if is_on(Mutant::ShardResultDoubled) { many.first() } else { Some(shard) };
            let results = many.iter().map(|shard| shown(shard).and_then(|shard| shard.result.as_deref()));
            let each = results.map(|result| result.map(|bytes| room.take(bytes)));
            Some(each.map(Option::unwrap_or_default).collect())
        }
        _ => None,
    }
}

/// Stored JSON as a value; anything else as text.
pub fn json_or_text(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(bytes).into_owned()))
}

/// Puts what the parents of a task returned where its parameters refer to them.
pub(crate) fn fill<R: Read>(view: &R, spec: &TaskSpec, params: Value) -> Result<Value, R::Error> {
    if spec.depends_on.is_empty() {
        return Ok(params);
    }
    let mut room = Room(RESULTS_LIMIT);
    let mut fault = None;
    let filled =
        reference::replace(params, &mut |reference| match look_up(view, spec, reference, &mut room) {
            Ok(value) => value,
            Err(error) => {
                fault.get_or_insert(error);
                Value::Null
            }
        });
    match fault {
        Some(fault) => Err(fault),
        None => Ok(filled),
    }
}

fn look_up<R: Read>(
    view: &R,
    spec: &TaskSpec,
    reference: &Reference,
    room: &mut Room,
) -> Result<Value, R::Error> {
    let Some(parent) = parent(view, spec, &reference.which)? else { return Ok(Value::Null) };
    let Some(state) = view.get::<TaskTable>(&parent)? else { return Ok(Value::Null) };
    if reference.what == What::Status {
        return Ok(Value::from(state.status.name()));
    }
    let mut shards = Vec::with_capacity(usize::from(state.shards));
    for shard in 0..state.shards {
        shards.extend(view.get::<ShardTable>(&ShardKey { task: parent, shard })?);
    }
    let value = in_room(&shards, room).unwrap_or_default();
    Ok(match &reference.pointer {
        Some(pointer) => value.pointer(pointer).cloned().unwrap_or_default(),
        None => value,
    })
}

/// The parent that a reference names: by its place, its id, or the name of its step.
fn parent<R: Read>(view: &R, spec: &TaskSpec, which: &Which) -> Result<Option<TaskId>, R::Error> {
    let mut parents = spec.depends_on.iter().map(|dependency| dependency.task);
    match which {
        Which::Place(place) => Ok(parents.nth(*place)),
        Which::Name(name) => {
            for parent in parents {
                if name.parse() == Ok(parent) {
                    return Ok(Some(parent));
                }
                let origin = view.get::<SpecTable>(&parent)?.map(|spec| spec.origin);
                if matches!(&origin, Some(Origin::Step { step, .. }) if step == name) {
                    return Ok(Some(parent));
                }
            }
            Ok(None)
        }
    }
}

#[cfg(test)]
#[path = "results_tests.rs"]
mod tests;
