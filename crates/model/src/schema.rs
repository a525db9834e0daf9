//! Which rows each table holds.

use serde::{Deserialize, Serialize};

use crate::apply::Meta;
use crate::executor::Executor;
use crate::id::{ExecutorId, Fence, Incarnation, Millis, TaskId};
use crate::key::{
    BusinessTaskKey, CallerTaskKey, CallerTextKey, DepKey, DueKey, NonceKey, ReadyKey, RunningKey, ShardKey,
    Single, StatusTaskKey, TimeKey, TimedCallerTextKey,
};
use crate::tables::{Table, TableId};
use crate::task::{DependsOn, Shard, TaskSpec, TaskState};

macro_rules! table {
    ($(#[$doc:meta])* $name:ident, $id:ident, $key:ty, $row:ty) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $name {}

        impl Table for $name {
            const ID: TableId = TableId::$id;
            type Key = $key;
            type Row = $row;
        }
    };
}

mod access;
mod callback;
mod graph;
mod job;

pub use access::{
    AccessKeyTable, AccessMetaTable, AuditTable, CallerLimitsTable, CallerTable, OwnerKeysTable,
};
pub use callback::{CallbackDueTable, CallbackTable};
pub use graph::{
    GraphWorkTable, JobFlowTable, NodeTable, RunFlowTable, RunStepTable, RunTable, ShardPlanTable, WaitsTable,
};
pub use job::{
    BackfillTable, CalendarSpreadTable, CalendarTable, CalendarUseTable, GoneVersionsTable, JobHistoryTable,
    JobNextTable, JobStateTable, JobTable, JobTasksTable, JobWantedTable, TaskJobTable,
};

table!(
    /// The state machine's own row.
    MetaTable, Meta, Single, Meta
);
table!(
    /// What was asked for, by task.
    SpecTable, Spec, TaskId, TaskSpec
);
table!(
    /// Where a task stands.
    TaskTable, Task, TaskId, TaskState
);
table!(
    /// Where a shard stands.
    ShardTable, Shard, ShardKey, Shard
);
table!(
    /// Shards that wait for their time.
    DueTable, Due, DueKey, ()
);
table!(
    /// Shards that wait for a slot.
    ReadyTable, Ready, ReadyKey, ()
);
table!(
    /// Shards that hold a lease, by executor.
    RunningTable, Running, RunningKey, RunningRow
);
table!(
    /// Deadlines to first start.
    ExpireTable, Expire, TimeKey, ()
);
table!(
    /// Children by parent.
    DepsTable, Deps, DepKey, DependsOnRow
);
table!(
    /// Tasks of a caller, newest first.
    CallerTasksTable, CallerTasks, CallerTaskKey, ()
);
table!(
    /// Tasks of a caller by status, newest first.
    StatusTasksTable, StatusTasks, StatusTaskKey, ()
);
table!(
    /// Idempotency records.
    IdempotencyTable, Idempotency, CallerTextKey, IdempotencyRow
);
table!(
    /// Their expiry.
    IdempotencyExpiryTable, IdempotencyExpiry, TimedCallerTextKey, ()
);
table!(
    /// Spent nonces.
    NonceTable, Nonce, NonceKey, NonceRow
);
table!(
    /// Tasks by business key.
    BusinessKeyTable, BusinessKey, BusinessTaskKey, ()
);
table!(
    /// Executors.
    ExecutorTable, Executor, ExecutorId, Executor
);

/// What the running index says of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningRow {
    /// The lease.
    pub fence: Fence,
    /// The attempt.
    pub attempt: u32,
    /// The executor's life to which it was granted.
    pub incarnation: Incarnation,
    /// When.
    pub granted_at: Millis,
}

/// What the child waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DependsOnRow {
    /// Which end of the parent.
    pub on: DependsOn,
}

/// What an Idempotency-Key was used for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotencyRow {
    /// SHA-256 over the first request.
    pub fingerprint: [u8; 32],
    /// The task that it made.
    pub task: TaskId,
    /// When.
    pub created_at: Millis,
}

/// A spent nonce.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NonceRow {
    /// When it may be forgotten.
    pub expires_at: Millis,
}
