//! What the tables have, and nodes that have not applied what others have, or cannot reach them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use orloj_model::id::CallerId;
use orloj_model::query;
use orloj_model::schema::TaskTable;
use orloj_model::tables::{MapTables, WriteExt as _};
use orloj_model::task::Status;

use super::{Node, Universe};
use crate::testing::json::Json;

/// How far one node is behind.
#[derive(Default)]
pub(super) struct Behind {
    tables: Mutex<Option<MapTables<Json>>>,
    cut_off: AtomicBool,
}

impl Behind {
    /// What it reads in the place of what all have applied.
    pub(super) fn tables(&self) -> Option<MapTables<Json>> {
        self.tables.lock().unwrap().clone()
    }

    pub(super) fn is_cut_off(&self) -> bool {
        self.cut_off.load(Ordering::SeqCst)
    }

    pub(super) fn catch_up(&self) {
        *self.tables.lock().unwrap() = None;
    }
}

impl Universe {
    /// The one task of caller `a` that is pending.
    pub(crate) fn pending_task(&self) -> String {
        let tables = &self.shared.state.lock().unwrap().tables;
        let caller = CallerId::new("a").unwrap();
        let pending = query::tasks_of(tables, &caller, Some(Status::Pending), None, 2).unwrap();
        assert_eq!(pending.len(), 1);
        pending[0].to_string()
    }

    /// As if this task had ended so long ago that it is kept no more.
    pub(crate) fn forget_task(&self, task: &str) {
        let tables = &mut self.shared.state.lock().unwrap().tables;
        tables.delete::<TaskTable>(&task.parse().unwrap()).unwrap();
    }

    /// From now on this node applies nothing, until it leads and a majority has told it what was committed.
    pub(crate) fn fall_behind(&self, node: &Node) {
        *node.behind.tables.lock().unwrap() = Some(self.shared.state.lock().unwrap().tables.clone());
    }

    /// From now on this node reaches no majority, whatever it believes of its leadership.
    pub(crate) fn cut_off(&self, node: &Node) {
        self.fall_behind(node);
        node.behind.cut_off.store(true, Ordering::SeqCst);
    }
}
