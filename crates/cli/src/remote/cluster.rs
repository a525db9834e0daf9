//! `orloj cluster …`

use std::process::ExitCode;

use orloj_wire::rest::{Cluster, Member};

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
    output::print(&table)?;
    cluster.members.iter().filter_map(remark).try_for_each(|remark| output::line(&remark))
}

/// What the role of a replica means, where its name does not say it.
fn remark(member: &Member) -> Option<String> {
    let meaning = match member.role.as_str() {
        "isolated" => "has led, and has heard no majority for a while: another may lead",
        "learner" => "is being brought up to date, and has no vote yet",
        "joining" => "waits to be let into the cluster",
        _ => return None,
    };
    Some(format!("replica {} {meaning}", member.id))
}

fn number(value: Option<u64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_that_says_too_little_is_explained() {
        let of = |role: &str| Member {
            id: 2,
            api: "http://10.0.0.2:7070".into(),
            role: role.into(),
            state: "ok".into(),
            applied_index: None,
            digest: None,
            lag_entries: None,
        };
        for role in ["leader", "follower", "candidate", "stopped", "unknown"] {
            assert_eq!(remark(&of(role)), None, "{role}");
        }
        let isolated = remark(&of("isolated")).unwrap();
        assert!(isolated.starts_with("replica 2 ") && isolated.contains("no majority"), "{isolated}");
        assert!(remark(&of("learner")).unwrap().contains("no vote"));
    }
}
