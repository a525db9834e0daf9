//! `orloj task graph`, and what `orloj task submit` says of parents and shards.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::bail;
use orloj_client::Client;
use orloj_wire::rest::{DependsOn, DependsOnEnd, GraphNode, OnShardFailure, TaskGraph};

use super::output;
use crate::args::ShardFailure;
use crate::exit::Outcome;

/// Prints the graph around a task.
pub(super) async fn show(client: &Client, task: &str, json: bool) -> Outcome {
    let graph = client.graph(task).await?;
    if json {
        output::json(&graph)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = output::table(["task", "step", "handler", "status", "reason", "shards", "waits for"]);
    let parents = waits_for(&graph);
    for node in &graph.nodes {
        table.add_row([
            node.task_id.clone(),
            node.step
                .clone()
                .unwrap_or_else(|| if node.role == "run" { "(run)".into() } else { String::new() }),
            node.handler.clone(),
            node.status.clone(),
            node.reason.clone().unwrap_or_default(),
            format!("{}/{}", node.shards_succeeded, node.shard_total),
            parents.get(node.task_id.as_str()).cloned().unwrap_or_default(),
        ]);
    }
    output::print(&table)?;
    if graph.truncated {
        output::note("there are more tasks: ask for the graph of one of these");
    }
    Ok(ExitCode::SUCCESS)
}

/// By child: its parents, each with the end that is waited for, and `!` where it ended otherwise.
fn waits_for(graph: &TaskGraph) -> BTreeMap<&str, String> {
    let name = |node: &GraphNode| node.step.clone().unwrap_or_else(|| node.task_id.clone());
    let names: BTreeMap<&str, String> =
        graph.nodes.iter().map(|node| (node.task_id.as_str(), name(node))).collect();
    let mut parents: BTreeMap<&str, String> = BTreeMap::new();
    for edge in &graph.edges {
        let name = names.get(edge.parent.as_str()).cloned().unwrap_or_else(|| edge.parent.clone());
        let on = match edge.on {
            DependsOnEnd::Success => "success",
            DependsOnEnd::Completed => "completed",
            DependsOnEnd::Failure => "failure",
        };
        let lost = if edge.met == Some(false) { "!" } else { "" };
        let list = parents.entry(edge.child.as_str()).or_default();
        if !list.is_empty() {
            list.push_str(", ");
        }
        list.push_str(&format!("{name}:{on}{lost}"));
    }
    parents
}

/// The parents that `--after` names.
pub(super) fn parents(given: &[String]) -> anyhow::Result<Vec<DependsOn>> {
    let mut parents = Vec::with_capacity(given.len());
    for text in given {
        let (task, on) = match text.split_once(':') {
            None => (text.as_str(), DependsOnEnd::Success),
            Some((task, "success")) => (task, DependsOnEnd::Success),
            Some((task, "completed")) => (task, DependsOnEnd::Completed),
            Some((task, "failure")) => (task, DependsOnEnd::Failure),
            Some((_, on)) => bail!("--after {text:?}: {on:?} is not success, completed or failure"),
        };
        parents.push(DependsOn { task_id: task.to_owned(), on });
    }
    Ok(parents)
}

pub(super) fn policy(policy: ShardFailure) -> OnShardFailure {
    match policy {
        ShardFailure::Wait => OnShardFailure::Wait,
        ShardFailure::Cancel => OnShardFailure::Cancel,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_are_a_task_and_an_end() {
        let found = parents(&["tsk_a".into(), "tsk_b:failure".into(), "tsk_c:completed".into()]).unwrap();
        let ends: Vec<_> = found.iter().map(|parent| (parent.task_id.as_str(), parent.on)).collect();
        let right = [
            ("tsk_a", DependsOnEnd::Success),
            ("tsk_b", DependsOnEnd::Failure),
            ("tsk_c", DependsOnEnd::Completed),
        ];
        assert_eq!(ends, right);
        assert!(parents(&["tsk_a:end".into()]).unwrap_err().to_string().contains("\"end\""));
    }
}
