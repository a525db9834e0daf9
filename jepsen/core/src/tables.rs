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
                let own = open.remove(node).unwrap_or_default();
                let rows = match end.like.as_deref().and_then(|like| tables.get(like)) {
                    Some(like) => like.rows.clone(),
                    None => own,
                };
                tables.insert(node, Table { node, event: event.i, end, rows });
            }
            _ => {}
        }
    }
    tables.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Event;
    use crate::event::TaskSeen;
    use crate::testing::event;

    #[test]
    fn a_table_that_is_like_another_has_its_rows() {
        let of = |node: &str, ms, what| Event { node: Some(node.into()), ..event(ms, what) };
        let task = TaskSeen { task_id: "tsk_1".into(), ..TaskSeen::default() };
        let row = FinalTask { task, ..FinalTask::default() };
        let like = |like: &str| FinalTable { tasks: 1, like: Some(like.into()), ..FinalTable::default() };
        let history = History::merge(vec![
            of("n1", 1, What::FinalTask(row)),
            of("n1", 2, What::FinalTable(FinalTable { tasks: 1, ..FinalTable::default() })),
            of("n2", 3, What::FinalTable(like("n1"))),
            of("n3", 4, What::FinalTable(like("nobody"))),
        ]);
        let tables = final_tables(&history);
        let whole: Vec<_> = tables.iter().map(|table| (table.node, table.is_whole())).collect();
        assert_eq!(whole, [("n1", true), ("n2", true), ("n3", false)]);
    }
}
