//! Graphs of tasks as the API shows them.

use std::collections::{BTreeMap, BTreeSet};

use orloj_model::graph::{Graph, OnShardFailure, Role, is_met};
use orloj_model::id::TaskId;
use orloj_model::task::{Dependency, DependsOn, Origin, Status};
use orloj_wire::rest;
use orloj_wire::time::Time;

/// The answer for the graph around a task.
pub fn graph(task: TaskId, graph: &Graph, applied_index: u64) -> rest::TaskGraph {
    let known: BTreeMap<TaskId, Status> =
        graph.nodes.iter().map(|node| (node.task, node.state.status)).collect();
    let mut edges = Vec::new();
    let mut seen = BTreeSet::new();
    for node in &graph.nodes {
        for dependency in &node.depends_on {
            let Some(status) = known.get(&dependency.task) else { continue };
            if seen.insert((dependency.task, node.task)) {
                edges.push(rest::GraphEdge {
                    parent: dependency.task.to_string(),
                    child: node.task.to_string(),
                    on: on(dependency.on),
                    met: is_met(dependency.on, *status),
                });
            }
        }
    }
    rest::TaskGraph {
        task_id: task.to_string(),
        nodes: graph.nodes.iter().map(node).collect(),
        edges,
        truncated: graph.truncated,
        applied_index,
    }
}

fn node(node: &orloj_model::graph::GraphNode) -> rest::GraphNode {
    let state = &node.state;
    rest::GraphNode {
        task_id: node.task.to_string(),
        role: match node.role {
            Role::Plain => "task",
            Role::Run => "run",
            Role::Step { .. } => "step",
        }
        .to_owned(),
        step: step(&node.origin).1,
        handler: node.handler.clone(),
        status: state.status.name().to_owned(),
        reason: state.reason.name().map(str::to_owned),
        created_at: Time(state.created_at),
        started_at: state.started_at.map(Time),
        finished_at: state.finished_at.map(Time),
        shard_total: state.shards,
        shards_succeeded: state.succeeded,
        shards_running: state.running,
        shards_failed: state.failed,
    }
}

/// Of a step: its run and its name.
pub(super) fn step(origin: &Origin) -> (Option<String>, Option<String>) {
    match origin {
        Origin::Step { run, step, .. } => (Some(run.to_string()), Some(step.clone())),
        _ => (None, None),
    }
}

/// A parent as it was submitted.
pub(super) fn depends_on(dependency: &Dependency) -> rest::DependsOn {
    rest::DependsOn { task_id: dependency.task.to_string(), on: on(dependency.on) }
}

pub(super) fn on(on: DependsOn) -> rest::DependsOnEnd {
    match on {
        DependsOn::Success => rest::DependsOnEnd::Success,
        DependsOn::Completed => rest::DependsOnEnd::Completed,
        DependsOn::Failure => rest::DependsOnEnd::Failure,
    }
}

pub(super) fn on_shard_failure(policy: OnShardFailure) -> rest::OnShardFailure {
    match policy {
        OnShardFailure::Wait => rest::OnShardFailure::Wait,
        OnShardFailure::Cancel => rest::OnShardFailure::Cancel,
    }
}
