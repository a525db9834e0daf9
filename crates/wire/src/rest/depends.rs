//! Parents and shards of a submission: what parses but is not acceptable.

use std::collections::BTreeSet;

use orloj_model::id::TaskId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::reference::{self, REFERENCES_LIMIT, Which};
use super::{Strategy, Submit};
use crate::problem::FieldError;

/// The most parents of a task.
pub const DEPENDS_LIMIT: usize = 1_000;

/// What becomes of the other shards of a task when one has failed for good.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnShardFailure {
    /// They go on; the task fails when the last one has ended.
    #[default]
    Wait,
    /// Those that wait end at once, those that run are told to stop; the task fails when the last one has.
    Cancel,
}

/// How a parent is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parent {
    /// By its id.
    Task(TaskId),
    /// By its place in the same batch, from 0: written `#3`.
    Batch(usize),
}

impl Parent {
    /// The parent that a text names.
    pub fn parse(text: &str) -> Option<Parent> {
        match text.strip_prefix('#') {
            Some(place) if place.len() <= 3 && place.bytes().all(|byte| byte.is_ascii_digit()) => {
                place.parse().ok().map(Parent::Batch)
            }
            Some(_) => None,
            None => text.parse().ok().map(Parent::Task),
        }
    }
}

impl Submit {
    /// Adds what is wrong with its parents, its shards, and its references to results.
    pub(super) fn check_graph(&self, faults: &mut Vec<FieldError>) {
        if self.depends_on.len() > DEPENDS_LIMIT {
            let message = format!("{} parents are more than {DEPENDS_LIMIT}", self.depends_on.len());
            faults.push(FieldError::new("/dependsOn", message));
            return;
        }
        let mut seen = BTreeSet::new();
        for (place, parent) in self.depends_on.iter().enumerate() {
            let pointer = || format!("/dependsOn/{place}/taskId");
            let id = parent.task_id.as_str();
            if Parent::parse(id).is_none() {
                let shown: String = id.chars().take(80).collect();
                let message = format!("{shown:?} is no task id, and no #PLACE of a batch");
                faults.push(FieldError::new(pointer(), message));
            } else if !seen.insert(id) {
                faults.push(FieldError::new(pointer(), format!("{id:?} is named twice")));
            }
        }
        if self.strategy == Some(Strategy::Broadcast) && self.shard_total.is_some_and(|total| total != 1) {
            let message = "a broadcast has one shard for each executor: leave shardTotal out";
            faults.push(FieldError::new("/shardTotal", message));
        }
        if !self.depends_on.is_empty() {
            let parents: Vec<&str> = self.depends_on.iter().map(|parent| parent.task_id.as_str()).collect();
            check_references(faults, &self.params.0, &parents, "/params");
        }
    }
}

/// Adds each reference in `params` that names none of the parents, or that there are too many.
pub(super) fn check_references(
    faults: &mut Vec<FieldError>,
    params: &serde_json::Value,
    parents: &[&str],
    pointer: &str,
) {
    let all = reference::all(params);
    if all.len() > REFERENCES_LIMIT {
        let message = format!("{} references to parents are more than {REFERENCES_LIMIT}", all.len());
        faults.push(FieldError::new(pointer, message));
        return;
    }
    for (below, reference) in all {
        let known = match &reference.which {
            Which::Name(name) => parents.contains(&name.as_str()),
            Which::Place(place) => *place < parents.len(),
        };
        if !known {
            let named = match &reference.which {
                Which::Name(name) => format!("{:?}", name.chars().take(80).collect::<String>()),
                Which::Place(place) => place.to_string(),
            };
            let message = format!("{named} is none of the {} parents", parents.len());
            faults.push(FieldError::new(format!("{pointer}{below}"), message));
        }
    }
}
