//! The tables of graphs.

use crate::graph::{JobFlow, Node, RunFlow, RunRow, ShardPlan};
use crate::id::TaskId;
use crate::job::JobKey;
use crate::key::{DepKey, ShardKey, WorkKey};
use crate::tables::{Table, TableId};

table!(
    /// How the shards of a task hang together.
    ShardPlanTable, ShardPlan, TaskId, ShardPlan
);
table!(
    /// A task's place in graphs.
    NodeTable, Node, TaskId, Node
);
table!(
    /// Children that wait, by parent.
    WaitsTable, Waits, DepKey, ()
);
table!(
    /// What a leader goes on with.
    GraphWorkTable, GraphWork, WorkKey, ()
);
table!(
    /// What a job says beyond its definition.
    JobFlowTable, JobFlow, JobKey, JobFlow
);
table!(
    /// Where a run stands.
    RunTable, Run, TaskId, RunRow
);
table!(
    /// What the steps of a run are made of, until all are made.
    RunFlowTable, RunFlow, TaskId, RunFlow
);
table!(
    /// The steps of a run, by (run, place).
    RunStepTable, RunStep, ShardKey, TaskId
);
