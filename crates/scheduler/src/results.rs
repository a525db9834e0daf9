//! What tasks returned, as JSON: the result of a task of many shards, and the results of its parents in a task's
//! parameters. Both are bounded.

use std::collections::BTreeMap;
use std::io;

use orloj_model::id::TaskId;
use orloj_model::key::ShardKey;
use orloj_model::mutant::{Mutant, is_on};
use orloj_model::schema::{ShardTable, SpecTable, TaskTable};
use orloj_model::tables::{Read, ReadExt as _};
use orloj_model::task::{Origin, Shard, TaskSpec, TaskState};
use orloj_wire::json::stored;
use orloj_wire::rest::reference::{self, Reference, What, Which};
use serde_json::{Value, json};

/// The most bytes of the results in one list, or of the results in one task's parameters together. What goes beyond
/// is shown as `{"$omitted": BYTES}`.
pub const RESULTS_LIMIT: usize = 1 << 20;

/// The most rows of shards that are read for one task's parameters.
const ROWS_READ: usize = 4_096;
/// The most bytes of results, checkpoints and logs in them, beyond the last row.
const BYTES_READ: usize = 4 << 20;
/// The most bytes whose length is found out to see whether they fit.
const MEASURED_LIMIT: usize = 4 << 20;

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
    let results: Vec<_> = shards.iter().map(|shard| shard.result.as_deref()).collect();
    in_room(&results, &mut Room(RESULTS_LIMIT))
}

fn in_room(results: &[Option<&[u8]>], room: &mut Room) -> Option<Value> {
    match results {
        [one] => one.map(|bytes| room.take(bytes)),
        many if many.iter().any(Option::is_some) => {
            let shown = |result| if is_on(Mutant::ShardResultDoubled) { many[0] } else { result };
            let each = many.iter().map(|result| shown(*result).map(|bytes| room.take(bytes)));
            Some(each.map(Option::unwrap_or_default).collect())
        }
        _ => None,
    }
}

/// Stored JSON as a value, as [`stored`] reads it; anything else as text.
pub fn json_or_text(bytes: &[u8]) -> Value {
    stored(bytes).unwrap_or_else(|| Value::String(String::from_utf8_lossy(bytes).into_owned()))
}

/// Puts what the parents of a task returned where its parameters refer to them. Bounded, whatever they refer to and
/// however often: each parent is read once, and of all together no more than [`ROWS_READ`] rows of shards and
/// [`BYTES_READ`] bytes.
pub(crate) fn fill<R: Read>(view: &R, spec: &TaskSpec, params: Value) -> Result<Value, R::Error> {
    if spec.depends_on.is_empty() {
        return Ok(params);
    }
    let mut parents = Parents {
        view,
        spec,
        names: None,
        known: BTreeMap::new(),
        rows: ROWS_READ,
        bytes: BYTES_READ,
        room: RESULTS_LIMIT,
        measured: MEASURED_LIMIT,
    };
    let mut fault = None;
    let filled = reference::replace(params, &mut |reference| match parents.look_up(reference) {
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

/// The parents of one task, as far as its parameters have asked for them.
struct Parents<'a, R> {
    view: &'a R,
    spec: &'a TaskSpec,
    /// By the names of their steps; read when the first name is asked for.
    names: Option<BTreeMap<String, TaskId>>,
    known: BTreeMap<TaskId, Parent>,
    /// Rows that may still be read.
    rows: usize,
    /// Bytes in rows that may still be read.
    bytes: usize,
    /// Bytes that may still be put in.
    room: usize,
    /// Bytes whose length may still be found out, to see whether they may be put in.
    measured: usize,
}

/// What is known of a parent.
struct Parent {
    state: TaskState,
    /// What it returned, once that was asked for.
    result: Option<Returned>,
}

/// What a task returned.
#[derive(Clone)]
struct Returned {
    value: Value,
    /// How long that was, where all of it was read.
    bytes: Option<usize>,
}

impl<R: Read> Parents<'_, R> {
    fn look_up(&mut self, reference: &Reference) -> Result<Value, R::Error> {
        let Some(task) = self.find(&reference.which)? else { return Ok(Value::Null) };
        let Some(mut parent) = self.parent(task)? else { return Ok(Value::Null) };
        if reference.what == What::Status {
            let name = parent.state.status.name();
            self.known.insert(task, parent);
            return Ok(Value::from(name));
        }
        let returned = match parent.result.take() {
            Some(returned) => returned,
            None => self.read(task, parent.state.shards)?,
        };
        let meant = match &reference.pointer {
            Some(pointer) if returned.bytes.is_some() => returned.value.pointer(pointer),
            _ => Some(&returned.value),
        };
        let value = meant.map_or(Value::Null, |meant| self.put_in(meant, returned.bytes));
        self.known.insert(task, Parent { result: Some(returned), ..parent });
        Ok(value)
    }

    /// The parent that a reference names: by its place, its id, or the name of its step.
    fn find(&mut self, which: &Which) -> Result<Option<TaskId>, R::Error> {
        let mut parents = self.spec.depends_on.iter().map(|dependency| dependency.task);
        let name = match which {
            Which::Place(place) => return Ok(parents.nth(*place)),
            Which::Name(name) => name,
        };
        if let Some(task) = name.parse().ok().and_then(|task: TaskId| parents.find(|parent| *parent == task))
        {
            return Ok(Some(task));
        }
        let names = match &mut self.names {
            Some(names) => names,
            none => none.insert(names(self.view, self.spec)?),
        };
        Ok(names.get(name).copied())
    }

    /// Taken out of what is known, and put back by whoever asked.
    fn parent(&mut self, task: TaskId) -> Result<Option<Parent>, R::Error> {
        match self.known.remove(&task) {
            Some(parent) => Ok(Some(parent)),
            None => Ok(self.view.get::<TaskTable>(&task)?.map(|state| Parent { state, result: None })),
        }
    }

    fn read(&mut self, task: TaskId, shards: u16) -> Result<Returned, R::Error> {
        let mut results = Vec::new();
        for shard in 0..shards {
            if self.rows == 0 || self.bytes == 0 {
                return Ok(Returned { value: json!({ "$omitted": null }), bytes: None });
            }
            self.rows -= 1;
            let Some(row) = self.view.get::<ShardTable>(&ShardKey { task, shard })? else { continue };
            let texts = [&row.result, &row.checkpoint, &row.log_tail];
            let length: usize = texts.into_iter().flatten().map(Vec::len).sum();
            self.bytes = self.bytes.saturating_sub(length);
            results.push(row.result);
        }
        let bytes = results.iter().flatten().map(Vec::len).sum();
        let results: Vec<_> = results.iter().map(Option::as_deref).collect();
        let value = in_room(&results, &mut Room(RESULTS_LIMIT)).unwrap_or_default();
        Ok(Returned { value, bytes: Some(bytes) })
    }

    /// A value, or what stands for it where it does not fit. `bytes` is the length of the result that it is a part of.
    fn put_in(&mut self, value: &Value, bytes: Option<usize>) -> Value {
        let most = self.room.min(self.measured);
        match length(value, most) {
            Some(length) => {
                self.room -= length;
                self.measured -= length;
                value.clone()
            }
            None => {
                self.measured -= most;
                json!({ "$omitted": bytes })
            }
        }
    }
}

/// The names of the steps among a task's parents.
fn names<R: Read>(view: &R, spec: &TaskSpec) -> Result<BTreeMap<String, TaskId>, R::Error> {
    let mut names = BTreeMap::new();
    for dependency in &spec.depends_on {
        let origin = view.get::<SpecTable>(&dependency.task)?.map(|spec| spec.origin);
        if let Some(Origin::Step { step, .. }) = origin {
            names.entry(step).or_insert(dependency.task);
        }
    }
    Ok(names)
}

/// How many bytes a value takes as JSON; `None` where it is more than `most`.
pub(crate) fn length(value: &Value, most: usize) -> Option<usize> {
    let mut length = Length { bytes: 0, most };
    serde_json::to_writer(&mut length, value).ok().map(|()| length.bytes)
}

/// Counts what is written, and refuses what is more than `most`.
struct Length {
    bytes: usize,
    most: usize,
}

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len();
        if self.bytes > self.most { Err(io::ErrorKind::WriteZero.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[path = "results_tests.rs"]
mod tests;
