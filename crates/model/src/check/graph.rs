//! Invariants of graphs.

use std::collections::{BTreeMap, BTreeSet};

use super::{all, compare};
use crate::graph::{Role, RunRow, WorkKind, is_met};
use crate::id::TaskId;
use crate::key::{DepKey, ShardKey, TableKey as _, WorkKey};
use crate::schema::{
    DepsTable, GraphWorkTable, JobStateTable, NodeTable, RunFlowTable, RunStepTable, RunTable,
    ShardPlanTable, ShardTable, SpecTable, TaskTable, WaitsTable,
};
use crate::tables::{Read, ReadExt as _};
use crate::task::{Phase, Reason, Status, TaskState};

/// Adds every way in which the tables of graphs contradict themselves.
pub(super) fn check<R: Read>(tables: &R, faults: &mut Vec<String>) -> Result<(), R::Error> {
    let mut waits_of: BTreeMap<TaskId, u16> = BTreeMap::new();
    let mut waiters: BTreeMap<TaskId, u32> = BTreeMap::new();
    for (key, ()) in all::<WaitsTable, R>(tables)? {
        *waits_of.entry(key.child).or_default() += 1;
        *waiters.entry(key.parent).or_default() += 1;
        if !tables.has::<DepsTable>(&key)? {
            faults.push(format!("{key:?}: it waits for what is no parent"));
        }
    }
    let mut work = BTreeSet::new();
    for (task, node) in all::<NodeTable, R>(tables)? {
        let waiting = waiters.remove(&task).unwrap_or_default();
        if node.waiters != waiting {
            faults.push(format!("{task}: {waiting} children wait, counted as {}", node.waiters));
        }
        let ended = tables.get::<TaskTable>(&task)?.is_some_and(|state| state.status.is_terminal());
        if ended && waiting > 0 {
            work.insert(WorkKey { kind: WorkKind::Resolve, task }.encode());
        }
    }
    faults.extend(waiters.keys().map(|task| format!("{task}: children wait and it has no node")));
    check_runs(tables, &mut work, faults)?;
    for (_, state) in all::<JobStateTable, R>(tables)? {
        if let Some(task) = state.queued.filter(|_| state.replace_from.is_some()) {
            work.insert(WorkKey { kind: WorkKind::Replace, task }.encode());
        }
    }
    compare::<GraphWorkTable, R>(tables, "graph work", &work, faults)?;
    for (task, state) in all::<TaskTable, R>(tables)? {
        check_child(tables, task, &state, waits_of.remove(&task).unwrap_or_default(), faults)?;
        check_plan(tables, task, &state, faults)?;
    }
    Ok(())
}

fn check_child<R: Read>(
    tables: &R,
    task: TaskId,
    state: &TaskState,
    waits: u16,
    faults: &mut Vec<String>,
) -> Result<(), R::Error> {
    let Some(spec) = tables.get::<SpecTable>(&task)? else { return Ok(()) };
    let mut unmet = 0;
    for dependency in &spec.depends_on {
        let key = DepKey { parent: dependency.task, child: task };
        if tables.get::<DepsTable>(&key)?.map(|row| row.on) != Some(dependency.on) {
            faults.push(format!("{task}: {key:?} is not among the parents"));
        }
        let parent = tables.get::<TaskTable>(&dependency.task)?.map(|parent| parent.status);
        let met = parent.and_then(|parent| is_met(dependency.on, parent));
        unmet += u16::from(met != Some(true));
        let has_run = state.started_at.is_some();
        if met != Some(true) && has_run {
            faults.push(format!("{task}: it started before its parents let it"));
        }
    }
    if state.status.is_terminal() {
        return Ok(());
    }
    if state.unmet != waits {
        faults.push(format!("{task}: it waits for {waits} parents, counted as {}", state.unmet));
    }
    // A parent that has ended well may not have told its children yet.
    if unmet > state.unmet {
        faults.push(format!("{task}: it waits for too few parents"));
    }
    let blocked = tables.get::<ShardTable>(&ShardKey { task, shard: 0 })?;
    let blocked = blocked.is_some_and(|shard| shard.phase == Phase::Blocked);
    if state.unmet > 0 && (!blocked || state.reason != Reason::Dependencies) {
        faults.push(format!("{task}: it waits for parents and does not say so"));
    }
    if !spec.depends_on.is_empty() && state.unmet == 0 && blocked {
        faults.push(format!("{task}: it waits for nothing"));
    }
    Ok(())
}

fn check_plan<R: Read>(
    tables: &R,
    task: TaskId,
    state: &TaskState,
    faults: &mut Vec<String>,
) -> Result<(), R::Error> {
    let Some(plan) = tables.get::<ShardPlanTable>(&task)? else { return Ok(()) };
    if !plan.targets.is_empty() && plan.targets.len() != usize::from(state.shards) {
        faults.push(format!("{task}: not one shard for each target"));
    }
    if plan.stopping && (!state.cancel_requested || state.failed == 0 || state.status == Status::Cancelled) {
        faults.push(format!("{task}: its shards stop for no reason"));
    }
    Ok(())
}

fn check_runs<R: Read>(
    tables: &R,
    work: &mut BTreeSet<Vec<u8>>,
    faults: &mut Vec<String>,
) -> Result<(), R::Error> {
    let mut flows = BTreeSet::new();
    for (run, row) in all::<RunTable, R>(tables)? {
        let Some(state) = tables.get::<TaskTable>(&run)? else {
            faults.push(format!("{run}: a run without a task"));
            continue;
        };
        let open = !state.status.is_terminal();
        let makes = open && !state.cancel_requested && row.made < row.total;
        if makes {
            flows.insert(run.encode());
        }
        if makes && row.begun {
            work.insert(WorkKey { kind: WorkKind::Make, task: run }.encode());
        }
        if open && state.cancel_requested && row.stopped < row.made {
            work.insert(WorkKey { kind: WorkKind::Stop, task: run }.encode());
        }
        check_run(tables, run, &row, &state, faults)?;
    }
    compare::<RunFlowTable, R>(tables, "flows of runs", &flows, faults)
}

fn check_run<R: Read>(
    tables: &R,
    run: TaskId,
    row: &RunRow,
    state: &TaskState,
    faults: &mut Vec<String>,
) -> Result<(), R::Error> {
    let (mut open, mut good) = (0, 0);
    for index in 0..row.made {
        let Some(step) = tables.get::<RunStepTable>(&ShardKey { task: run, shard: index })? else {
            faults.push(format!("{run}: step {index} is missing"));
            continue;
        };
        let node = tables.get::<NodeTable>(&step)?.map(|node| node.role);
        if node != Some(Role::Step { run, index }) {
            faults.push(format!("{step}: it does not know that it is step {index} of {run}"));
        }
        match tables.get::<TaskTable>(&step)? {
            Some(step) if !step.status.is_terminal() => open += 1,
            Some(step) if step.status == Status::Success || step.reason == Reason::Dependency => good += 1,
            _ => {}
        }
    }
    if !state.cancel_requested && state.status == Status::Running {
        open += row.total - row.made;
    }
    if state.running != open || state.succeeded != good {
        faults.push(format!("{run}: {open} steps open and {good} good, counted as {state:?}"));
    }
    if row.total != state.shards || row.made > row.total || row.stopped > row.made {
        faults.push(format!("{run}: its row is not that of its task: {row:?}"));
    }
    Ok(())
}
