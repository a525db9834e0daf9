//! What every command works with: the tables, the stamp, and the few writes that keep rows and indexes
//! together.

use crate::apply::{Meta, Stamp, callback};
use crate::command::{Refusal, Reply};
use crate::event::Event;
use crate::id::{Millis, TaskId};
use crate::key::{DueKey, ReadyKey, RunningKey, ShardKey, StatusTaskKey, TimeKey};
use crate::mutant::{Mutant, is_on};
use crate::schema::{
    DueTable, ExpireTable, ReadyTable, RunningRow, RunningTable, ShardTable, StatusTasksTable, TaskTable,
};
use crate::tables::{ReadExt as _, Write, WriteExt as _};
use crate::task::{DueClock, Phase, Shard, Status, TaskEvent, TaskState, transition};

/// One entry being applied.
pub(crate) struct Context<'a, T> {
    pub(crate) tables: &'a mut T,
    pub(crate) stamp: Stamp,
    pub(crate) meta: Meta,
    pub(crate) events: &'a mut Vec<Event>,
    /// Tasks that became terminal in this command, for their jobs to hear of at its end.
    pub(crate) ended: Vec<TaskId>,
    /// The key that was judged last in this entry, and why it may change nothing, if so. A batch is judged once.
    pub(crate) judged: Option<(String, Option<Refusal>)>,
}

impl<T: Write> Context<'_, T> {
    /// The cluster's time.
    pub(crate) fn now(&self) -> Millis {
        self.stamp.now_ms
    }

    /// The leader's wall clock: what instants that people named are held against.
    pub(crate) fn wall(&self) -> Millis {
        self.stamp.wall_ms
    }

    /// What the clock shows by which something is due.
    pub(crate) fn shown(&self, clock: DueClock) -> Millis {
        match clock {
            DueClock::Wall => self.wall(),
            DueClock::Cluster => self.now(),
        }
    }

    /// Whether it is too early to hand out what is due at `at`.
    pub(crate) fn is_early(&self, at: Millis, clock: DueClock) -> bool {
        at > self.shown(clock) && !is_on(Mutant::Early)
    }

    /// A task and one of its shards.
    pub(crate) fn load(&self, key: ShardKey) -> Result<Option<(TaskState, Shard)>, T::Error> {
        let Some(state) = self.tables.get::<TaskTable>(&key.task)? else { return Ok(None) };
        Ok(self.tables.get::<ShardTable>(&key)?.map(|shard| (state, shard)))
    }

    /// Moves a shard to another phase, in its row's value and in the indexes. The caller stores the row.
    ///
    /// The attempt that a running shard is indexed by is its last one: push it before moving to
    /// [`Phase::Running`], and keep it last until the shard has left that phase.
    pub(crate) fn set_phase(
        &mut self,
        key: ShardKey,
        priority: u8,
        shard: &mut Shard,
        to: Phase,
    ) -> Result<(), T::Error> {
        match shard.phase {
            Phase::Due { at, clock } => {
                self.tables.delete::<DueTable>(&DueKey { at, shard: key, clock })?;
            }
            Phase::Ready { since } => {
                self.tables.delete::<ReadyTable>(&ReadyKey { priority, since, shard: key })?;
            }
            Phase::Running => {
                if let Some(attempt) = shard.attempts.last() {
                    let executor = attempt.executor.clone();
                    self.tables.delete::<RunningTable>(&RunningKey { executor, shard: key })?;
                }
            }
            Phase::Blocked | Phase::Done => {}
        }
        match to {
            Phase::Due { at, clock } => {
                self.tables.insert::<DueTable>(&DueKey { at, shard: key, clock }, &())?;
            }
            Phase::Ready { since } => {
                self.tables.insert::<ReadyTable>(&ReadyKey { priority, since, shard: key }, &())?;
            }
            Phase::Running => {
                if let Some(attempt) = shard.attempts.last() {
                    let row = RunningRow {
                        fence: attempt.fence,
                        attempt: attempt.number,
                        incarnation: attempt.incarnation,
                        granted_at: attempt.granted_at,
                    };
                    let executor = attempt.executor.clone();
                    self.tables.insert::<RunningTable>(&RunningKey { executor, shard: key }, &row)?;
                }
            }
            Phase::Blocked | Phase::Done => {}
        }
        shard.phase = to;
        Ok(())
    }

    /// Stores a shard's row.
    pub(crate) fn put_shard(&mut self, key: ShardKey, shard: &Shard) -> Result<(), T::Error> {
        self.tables.put::<ShardTable>(&key, shard)
    }

    /// Stores a changed task: takes `event` through the transition table, keeps the status index, counts
    /// the version up, and answers with the task as it stands. An event that the table does not allow
    /// leaves the status as it is; commands check before they come here.
    pub(crate) fn put_task(
        &mut self,
        task: TaskId,
        state: &mut TaskState,
        event: Option<TaskEvent>,
    ) -> Result<Reply, T::Error> {
        let from = state.status;
        if let Some(to) = event.and_then(|event| transition(from, event)) {
            state.status = to;
        }
        if state.status != from {
            let key = |status: Status| StatusTaskKey {
                caller: state.caller.clone(),
                status,
                created_at: state.created_at,
                task,
            };
            self.tables.delete::<StatusTasksTable>(&key(from))?;
            self.tables.insert::<StatusTasksTable>(&key(state.status), &())?;
        }
        if state.status.is_terminal() {
            self.ended.push(task);
            state.finished_at = Some(self.now());
            self.drop_expiry(task, state)?;
            callback::announce(self, task, &state.caller)?;
        }
        state.version += 1;
        state.updated_at = self.now();
        self.tables.put::<TaskTable>(&task, state)?;
        self.events.push(Event::TaskChanged { task, version: state.version, status: state.status });
        Ok(Reply::Task {
            status: state.status,
            version: state.version,
            cancel_requested: state.cancel_requested,
        })
    }

    /// Takes a task out of the expiry index.
    pub(crate) fn drop_expiry(&mut self, task: TaskId, state: &mut TaskState) -> Result<(), T::Error> {
        match state.expire_at.take() {
            Some(at) => self.tables.delete::<ExpireTable>(&TimeKey { at, task }),
            None => Ok(()),
        }
    }
}
