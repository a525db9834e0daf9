//! What the API needs of the replicated store, as a trait: [`Store`] supplies it, and tests supply their own
//! over the model in memory.

mod access;
mod jobs;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use orloj_model::Command;
use orloj_model::access::{AuditKind, AuditRow};
use orloj_model::callback::Callback;
use orloj_model::command::Idempotency;
use orloj_model::executor::{Executor, ExecutorState};
use orloj_model::graph::{Graph, OnShardFailure};
use orloj_model::id::{CallerId, Millis, NodeId, TaskId};
use orloj_model::query::{self, Access, Cursor, TaskView};
use orloj_model::tables::Read;
use orloj_model::task::Status;
use orloj_raft_store::status::{Leadership, MemberInfo, NodeHistory, NodeStatus};
use orloj_raft_store::transport::{RpcEnvelope, RpcKind};
use orloj_raft_store::types::Member;
use orloj_raft_store::{
    Applied, AppliedEvents, Fault, MembershipError, PeerError, ProposeError, ReadError, RpcError, Store,
};
use tokio::sync::{broadcast, watch};

pub use access::{AccessReads, NamedKeys};
pub use jobs::{HistoryRows, JobReads, read_calendars, read_history, read_jobs};

/// Something read from the tables, with the index up to which they were applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At<T> {
    /// The index.
    pub applied: u64,
    /// What was read.
    pub value: T,
}

/// Records of the audit with their numbers.
pub type AuditPage = Vec<(u64, AuditRow)>;

/// The tables cannot be read: a fault of the storage, which stops the node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StorageFault(pub String);

impl From<Fault> for StorageFault {
    fn from(fault: Fault) -> Self {
        StorageFault(fault.to_string())
    }
}

/// Which tasks a page holds.
#[derive(Debug, Clone)]
pub struct PageQuery {
    /// Whose.
    pub caller: CallerId,
    /// Only those with this status.
    pub status: Option<Status>,
    /// Only those that come after.
    pub after: Option<Cursor>,
    /// At most so many.
    pub limit: usize,
}

/// The replicated store as the API sees it. The reads are of this node's own tables; on the leader, after
/// [`barrier`](Backend::barrier), they are linearizable.
pub trait Backend: AccessReads + JobReads + Send + Sync + 'static {
    /// Who leads.
    fn leadership(&self) -> watch::Receiver<Leadership>;
    /// Proposes a command and waits until it has been applied here.
    fn propose(&self, command: Command) -> BoxFuture<'_, Result<Applied, ProposeError>>;
    /// Proposes commands in order, not atomically: when the outcome is unknown, any number of them may have
    /// been applied.
    fn propose_all(&self, commands: Vec<Command>) -> BoxFuture<'_, Result<Vec<Applied>, ProposeError>>;
    /// Confirms that this node leads and has applied everything that was committed before the call.
    fn barrier(&self) -> BoxFuture<'_, Result<u64, ReadError>>;
    /// The cluster's time: the greatest leader clock of any applied entry.
    fn now_ms(&self) -> Result<Millis, StorageFault>;
    /// A task, whole.
    fn task(&self, id: TaskId) -> Result<At<Option<TaskView>>, StorageFault>;
    /// A page of a caller's tasks, newest first.
    fn page(&self, query: &PageQuery) -> Result<At<Vec<TaskView>>, StorageFault>;
    /// Tasks of every caller by id, after `after`; at most `limit`.
    fn tasks(&self, after: Option<TaskId>, limit: usize) -> Result<At<TablePage>, StorageFault>;
    /// Every executor.
    fn executors(&self) -> Result<At<Vec<Executor>>, StorageFault>;
    /// The graph around a task, of at most `limit` tasks.
    fn graph(&self, id: TaskId, limit: usize) -> Result<At<Option<Graph>>, StorageFault>;
    /// What becomes of a task's other shards when one has failed for good.
    fn on_shard_failure(&self, id: TaskId) -> Result<OnShardFailure, StorageFault>;
    /// Whether a request with this Idempotency-Key repeats one that was taken, and does until then.
    fn is_repeated(
        &self,
        caller: &CallerId,
        idempotency: &Idempotency,
        until: Millis,
    ) -> Result<bool, StorageFault>;
    /// The callback of a task.
    fn callback(&self, id: TaskId) -> Result<Option<Callback>, StorageFault>;
    /// Grows with every change of callers and keys.
    fn access_revision(&self) -> Result<u64, StorageFault>;
    /// Every caller and every key, to judge requests by.
    fn access(&self) -> Result<Access, StorageFault>;
    /// Records of the audit, newest first; at most `limit`, older than number `before`.
    fn audit(
        &self,
        kind: AuditKind,
        before: Option<u64>,
        limit: usize,
    ) -> Result<At<AuditPage>, StorageFault>;
    /// What applied entries change.
    fn events(&self) -> broadcast::Receiver<Arc<AppliedEvents>>;
    /// This node's view of itself.
    fn status(&self) -> NodeStatus;
    /// What this node remembers of its own history.
    fn history(&self) -> NodeHistory;
    /// Takes a snapshot now; the index of its last entry.
    fn snapshot_now(&self) -> BoxFuture<'_, Result<u64, ReadError>>;
    /// The members.
    fn members(&self) -> Vec<MemberInfo>;
    /// A member's view of itself.
    fn peer_status(&self, id: NodeId) -> BoxFuture<'_, Result<NodeStatus, PeerError>>;
    /// Adds a member.
    fn add_member(&self, member: Member) -> BoxFuture<'_, Result<NodeId, MembershipError>>;
    /// Removes a member.
    fn remove_member(&self, id: NodeId) -> BoxFuture<'_, Result<(), MembershipError>>;
    /// Hands leadership over.
    fn transfer_leader(&self, to: NodeId) -> BoxFuture<'_, Result<(), MembershipError>>;
    /// Answers a peer's call.
    fn handle_rpc(
        &self,
        kind: RpcKind,
        envelope: RpcEnvelope,
        body: Bytes,
    ) -> BoxFuture<'_, Result<Bytes, RpcError>>;
}

/// Longest wait for a snapshot that was asked for.
const SNAPSHOT_DEADLINE: Duration = Duration::from_secs(60);

/// A page of the whole table takes no further task once its tasks have so many bytes of their callers' and
/// handlers' making: a thousand tasks of the largest kind would take the memory of the whole node.
const PAGE_BYTES: usize = 1 << 20;

/// Tasks of every caller, by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TablePage {
    /// Digest of the tables that all of it was read from.
    pub digest: u64,
    /// The tasks.
    pub tasks: Vec<TaskView>,
    /// After which task the next page begins; `None` on the last one.
    pub next: Option<TaskId>,
}

impl TablePage {
    /// Reads at most `limit` tasks behind `after` from any tables, which have this digest.
    pub fn read<R: Read>(
        tables: &R,
        digest: u64,
        after: Option<TaskId>,
        limit: usize,
    ) -> Result<TablePage, R::Error> {
        let ids = query::tasks(tables, after, limit)?;
        let mut more = ids.len() == limit;
        let (mut tasks, mut bytes) = (Vec::new(), 0);
        for id in ids {
            if bytes >= PAGE_BYTES {
                more = true;
                break;
            }
            let task = query::task(tables, id)?;
            bytes += task.as_ref().map_or(0, size);
            tasks.extend(task);
        }
        let next = tasks.last().filter(|_| more).map(|task: &TaskView| task.id);
        Ok(TablePage { digest, tasks, next })
    }
}

/// What callers and handlers have given a task, in bytes.
fn size(task: &TaskView) -> usize {
    let kept = task.shards.iter().flat_map(|shard| [&shard.result, &shard.checkpoint, &shard.log_tail]);
    let messages =
        task.shards.iter().flat_map(|shard| &shard.attempts).filter_map(|one| one.message.as_ref());
    task.spec.params.len()
        + kept.flatten().map(Vec::len).sum::<usize>()
        + messages.map(String::len).sum::<usize>()
}

/// Reads a page of tasks from any tables.
pub fn read_page<R: Read>(tables: &R, page: &PageQuery) -> Result<Vec<TaskView>, R::Error> {
    let ids = query::tasks_of(tables, &page.caller, page.status, page.after, page.limit)?;
    let mut tasks = Vec::with_capacity(ids.len());
    for id in ids {
        tasks.extend(query::task(tables, id)?);
    }
    Ok(tasks)
}

/// The handlers of the executors that have not left.
pub fn handlers(executors: &[Executor]) -> BTreeSet<String> {
    executors
        .iter()
        .filter(|executor| executor.state != ExecutorState::Left)
        .flat_map(|executor| executor.registration.handlers.iter().cloned())
        .collect()
}

impl Backend for Store {
    fn leadership(&self) -> watch::Receiver<Leadership> {
        Store::leadership(self)
    }

    fn propose(&self, command: Command) -> BoxFuture<'_, Result<Applied, ProposeError>> {
        Box::pin(Store::propose(self, command))
    }

    fn propose_all(&self, commands: Vec<Command>) -> BoxFuture<'_, Result<Vec<Applied>, ProposeError>> {
        Box::pin(Store::propose_all(self, commands))
    }

    fn barrier(&self) -> BoxFuture<'_, Result<u64, ReadError>> {
        Box::pin(Store::barrier(self))
    }

    fn now_ms(&self) -> Result<Millis, StorageFault> {
        Ok(self.stamp().now_ms)
    }

    fn task(&self, id: TaskId) -> Result<At<Option<TaskView>>, StorageFault> {
        let view = self.view();
        Ok(At { applied: view.applied(), value: query::task(&view, id)? })
    }

    fn page(&self, page: &PageQuery) -> Result<At<Vec<TaskView>>, StorageFault> {
        let view = self.view();
        Ok(At { applied: view.applied(), value: read_page(&view, page)? })
    }

    fn tasks(&self, after: Option<TaskId>, limit: usize) -> Result<At<TablePage>, StorageFault> {
        let view = self.view();
        Ok(At { applied: view.applied(), value: TablePage::read(&view, view.digest(), after, limit)? })
    }

    fn executors(&self) -> Result<At<Vec<Executor>>, StorageFault> {
        let view = self.view();
        Ok(At { applied: view.applied(), value: query::executors(&view)? })
    }

    fn graph(&self, id: TaskId, limit: usize) -> Result<At<Option<Graph>>, StorageFault> {
        let view = self.view();
        Ok(At { applied: view.applied(), value: query::graph(&view, id, limit)? })
    }

    fn on_shard_failure(&self, id: TaskId) -> Result<OnShardFailure, StorageFault> {
        Ok(query::shard_plan(&self.view(), id)?.unwrap_or_default().on_failure)
    }

    fn is_repeated(
        &self,
        caller: &CallerId,
        idempotency: &Idempotency,
        until: Millis,
    ) -> Result<bool, StorageFault> {
        Ok(query::is_repeated(&self.view(), caller, idempotency, until)?)
    }

    fn callback(&self, id: TaskId) -> Result<Option<Callback>, StorageFault> {
        Ok(query::callback(&self.view(), id)?)
    }

    fn access_revision(&self) -> Result<u64, StorageFault> {
        Ok(self.stamp().access_revision)
    }

    fn access(&self) -> Result<Access, StorageFault> {
        Ok(query::access(&self.view())?)
    }

    fn audit(
        &self,
        kind: AuditKind,
        before: Option<u64>,
        limit: usize,
    ) -> Result<At<AuditPage>, StorageFault> {
        let view = self.view();
        Ok(At { applied: view.applied(), value: query::audit(&view, kind, before, limit)? })
    }

    fn events(&self) -> broadcast::Receiver<Arc<AppliedEvents>> {
        Store::events(self)
    }

    fn status(&self) -> NodeStatus {
        Store::status(self)
    }

    fn history(&self) -> NodeHistory {
        Store::history(self)
    }

    fn snapshot_now(&self) -> BoxFuture<'_, Result<u64, ReadError>> {
        Box::pin(Store::snapshot_now(self, SNAPSHOT_DEADLINE))
    }

    fn members(&self) -> Vec<MemberInfo> {
        Store::members(self)
    }

    fn peer_status(&self, id: NodeId) -> BoxFuture<'_, Result<NodeStatus, PeerError>> {
        Box::pin(Store::peer_status(self, id))
    }

    fn add_member(&self, member: Member) -> BoxFuture<'_, Result<NodeId, MembershipError>> {
        Box::pin(Store::add_member(self, member, None))
    }

    fn remove_member(&self, id: NodeId) -> BoxFuture<'_, Result<(), MembershipError>> {
        Box::pin(Store::remove_member(self, id))
    }

    fn transfer_leader(&self, to: NodeId) -> BoxFuture<'_, Result<(), MembershipError>> {
        Box::pin(Store::transfer_leader(self, to))
    }

    fn handle_rpc(
        &self,
        kind: RpcKind,
        envelope: RpcEnvelope,
        body: Bytes,
    ) -> BoxFuture<'_, Result<Bytes, RpcError>> {
        Box::pin(Store::handle_rpc(self, kind, envelope, body))
    }
}
