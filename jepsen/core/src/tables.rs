//! The tables of the replicas as they were read at the end of a run.

use std::collections::BTreeMap;

use crate::event::{FinalTable, FinalTask, What};
use crate::history::History;

/// One task in one replica's table.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The event that tells it.
    pub event: u64,
    /// What it tells.
    pub task: &'a FinalTask,
}

/// The whole table of one replica.
#[derive(Debug, Clone)]
pub struct Table<'a> {
    /// The replica's host.
    pub node: &'a str,
    /// The event that ends it.
    pub event: u64,
    /// What the replica had applied, the digest, and how many tasks were read.
    pub end: &'a FinalTable,
    /// Every task, by its id.
    pub rows: BTreeMap<&'a str, Row<'a>>,
}

impl Table<'_> {
    /// Whether the history has every row that was read.
    pub fn is_whole(&self) -> bool {
        self.rows.len() as u64 == self.end.tasks
    }
}

/// The last table that was read of each replica, in the order of their hosts.
pub fn final_tables(history: &History) -> Vec<Table<'_>> {
    let mut open: BTreeMap<&str, BTreeMap<&str, Row<'_>>> = BTreeMap::new();
    let mut tables: BTreeMap<&str, Table<'_>> = BTreeMap::new();
    for event in history.events() {
        let node = event.node.as_deref().unwrap_or_default();
        match &event.what {
            What::FinalTask(task) => {
                let row = Row { event: event.i, task };
                open.entry(node).or_default().insert(&task.task.task_id, row);
            }
            What::FinalTable(end) => {
                let rows = open.remove(node).unwrap_or_default();
                tables.insert(node, Table { node, event: event.i, end, rows });
            }
            _ => {}
        }
    }
    tables.into_values().collect()
}
