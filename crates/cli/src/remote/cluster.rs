//! `orloj cluster …`

use std::process::ExitCode;

use orloj_wire::rest::Cluster;

use super::{Principal, connect, output};
use crate::args::ClusterCommand;
use crate::exit::{Code, Outcome};

/// Runs one of the commands.
///
/// # Errors
/// What the cluster refused, or what the command line got wrong.
pub async fn run(command: ClusterCommand, json: bool) -> Outcome {
    match command {
        ClusterCommand::Status => {
            let cluster = connect(Principal::Either)?.cluster().await?;
            show(&cluster, json)?;
            if cluster.leader.is_none() {
                // For scripts: what changes something would be refused now.
                return Ok(Code::Unreachable.into());
            }
        }
        ClusterCommand::Transfer { to } => {
            let moved = connect(Principal::Admin)?.transfer(to).await?;
            if json {
                output::json(&moved)?;
            } else {
                output::line(&format!("replica {} leads", moved.leader))?;
            }
        }
        ClusterCommand::Add { internal, api } => {
            let added = connect(Principal::Admin)?.add_member(&internal, &api).await?;
            if json {
                output::json(&added)?;
            } else {
                output::line(&format!("replica {} is a member", added.id))?;
            }
        }
        ClusterCommand::Remove { id } => {
            let removed = connect(Principal::Admin)?.remove_member(id).await?;
            if json {
                output::json(&removed)?;
            } else {
                output::line(&format!("replica {} is no member any more", removed.id))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show(cluster: &Cluster, json: bool) -> std::io::Result<()> {
    if json {
        return output::json(cluster);
    }
    output::fields(&[
        ("cluster", Some(cluster.cluster_id.clone())),
        ("leader", Some(cluster.leader.map_or_else(|| "no leader".to_owned(), |id| id.to_string()))),
        ("round", Some(cluster.round.to_string())),
        ("term", Some(cluster.term.to_string())),
    ])?;
    output::line("")?;
    let mut table = output::table(["id", "api", "role", "state", "applied", "lag", "digest"]);
    for member in &cluster.members {
        table.add_row([
            member.id.to_string(),
            member.api.clone(),
            member.role.clone(),
            member.state.clone(),
            number(member.applied_index),
            number(member.lag_entries),
            member.digest.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    output::print(&table)
}

fn number(value: Option<u64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
