//! The cluster: its members, who leads, and changing both.

use std::time::Duration;

use futures_util::future::join_all;
use orloj_model::id::NodeId;
use orloj_raft_store::status::{MemberInfo, NodeState, NodeStatus, Role};
use orloj_raft_store::types::Member as NewMember;
use orloj_wire::problem::{Code, FieldError};
use orloj_wire::rest::{AddMember, Cluster, Member, MemberChanged, Transfer, Transferred};
use serde::Deserialize;

use super::Call;
use crate::missing::Missing;
use crate::outcome::{Answer, Failure};
use crate::route::Operation;

/// How long a member may take to say how it stands.
const STATUS_WAIT: Duration = Duration::from_millis(700);
/// How long a new leader may take to be known after leadership was handed over.
const LEADER_WAIT: Duration = Duration::from_secs(5);
/// The longest address, in bytes.
const ADDRESS_LIMIT: usize = 300;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl Call<'_> {
    /// Every replica answers by itself, also when nobody leads: it asks the others how they stand.
    pub(super) async fn show_cluster(&self) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let backend = &self.shared.backend;
        let own = backend.status();
        let members = backend.members();
        let asked = members.iter().map(|member| async {
            match own.id == Some(member.id) {
                true => Some(own.clone()),
                false => {
                    let answer = tokio::time::timeout(STATUS_WAIT, backend.peer_status(member.id)).await;
                    answer.ok().and_then(Result::ok)
                }
            }
        });
        let statuses = join_all(asked).await;
        Ok(Answer::json(200, &cluster(&own, &members, &statuses)).at(own.applied))
    }

    pub(super) async fn transfer_leader(&self, operation: &Operation) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let Transfer { to } = self.body()?;
        let backend = &self.shared.backend;
        self.still_may(operation).await?;
        if backend.status().id != Some(to) {
            backend.transfer_leader(to).await?;
        }
        let mut leadership = backend.leadership();
        let known = leadership.wait_for(|now| now.leader.is_some());
        let leader = match tokio::time::timeout(LEADER_WAIT, known).await {
            Ok(Ok(now)) => now.leader.unwrap_or_default(),
            _ => return Err(Failure::no_leader()),
        };
        Ok(Answer::json(200, &Transferred { leader }))
    }

    pub(super) async fn add_member(&self, operation: &Operation) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let AddMember { internal, api } = self.body()?;
        let faults: Vec<FieldError> = [
            (!is_host_port(&internal))
                .then(|| FieldError::new("/internal", format!("{internal:?} is not host:port"))),
            (!is_base_url(&api)).then(|| {
                FieldError::new("/api", format!("{api:?} is not a base URL such as http://10.0.0.4:8080"))
            }),
        ]
        .into_iter()
        .flatten()
        .collect();
        if !faults.is_empty() {
            return Err(Failure::fields(Code::ValidationFailed, faults));
        }
        // The node at the address is asked for its birth token.
        let member = NewMember { internal, api, birth: String::new() };
        self.still_may(operation).await?;
        let id = self.shared.backend.add_member(member).await?;
        Ok(Answer::json(200, &MemberChanged { id, member: true }))
    }

    pub(super) async fn remove_member(&self, operation: &Operation, id: &str) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let Nothing {} = self.optional_body()?;
        let id: NodeId = id.parse().map_err(|_| Failure::missing(Missing::Member))?;
        self.still_may(operation).await?;
        self.shared.backend.remove_member(id).await?;
        Ok(Answer::json(200, &MemberChanged { id, member: false }))
    }
}

/// What the answering node knows, put together. `statuses` are in the order of `members`.
fn cluster(own: &NodeStatus, members: &[MemberInfo], statuses: &[Option<NodeStatus>]) -> Cluster {
    let front = statuses.iter().flatten().map(|status| status.committed).max().unwrap_or(0);
    let member = |(info, status): (&MemberInfo, &Option<NodeStatus>)| Member {
        id: info.id,
        api: info.api.clone(),
        role: status.as_ref().map_or("unknown", shown_role).to_owned(),
        state: status.as_ref().map_or("unreachable", |status| state(status.state)).to_owned(),
        applied_index: status.as_ref().map(|status| status.applied),
        digest: status.as_ref().map(|status| format!("{:016x}", status.digest)),
        lag_entries: status.as_ref().map(|status| front.saturating_sub(status.applied)),
    };
    Cluster {
        cluster_id: own.cluster.clone(),
        leader: own.leader,
        round: own.round,
        term: own.term,
        members: members.iter().zip(statuses).map(member).collect(),
    }
}

/// The role of a member that has answered. One that leads in its own eyes alone is none to turn to.
fn shown_role(status: &NodeStatus) -> &'static str {
    match status.role {
        Role::Leader if status.leader.is_none() => "isolated",
        other => role(other),
    }
}

/// The name of a role in the API.
pub(crate) fn role(role: Role) -> &'static str {
    match role {
        Role::Joining => "joining",
        Role::Learner => "learner",
        Role::Follower => "follower",
        Role::Candidate => "candidate",
        Role::Leader => "leader",
        Role::Stopped => "stopped",
    }
}

fn state(state: NodeState) -> &'static str {
    match state {
        NodeState::Ok => "ok",
        NodeState::DiskLow => "disk_low",
        NodeState::Failed => "failed",
    }
}

fn is_host_port(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    text.len() <= ADDRESS_LIMIT
        && text.chars().all(plain)
        && text
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0))
}

fn is_base_url(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    rest.is_some_and(|rest| {
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        is_host_port(rest) || (!rest.contains(':') && is_host_port(&format!("{rest}:1")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_is_counted_from_the_front_and_silence_is_shown() {
        let status = |id, applied, committed| NodeStatus {
            id: Some(id),
            role: Role::Follower,
            applied,
            committed,
            digest: 0xab,
            ..NodeStatus::default()
        };
        let info = |id: NodeId| MemberInfo {
            id,
            internal: format!("h{id}:1"),
            api: format!("http://h{id}:2"),
            voter: true,
        };
        let own = status(1, 90, 95);
        let statuses = [Some(own.clone()), Some(status(2, 100, 100)), None];
        let cluster = cluster(&own, &[info(1), info(2), info(3)], &statuses);
        let lags: Vec<_> = cluster.members.iter().map(|member| member.lag_entries).collect();
        assert_eq!(lags, [Some(10), Some(0), None]);
        assert_eq!(cluster.members[2].state, "unreachable");
        assert_eq!(cluster.members[0].digest.as_deref(), Some("00000000000000ab"));
    }

    #[test]
    fn a_leader_without_a_majority_is_shown_as_none() {
        let leads = NodeStatus { id: Some(1), role: Role::Leader, leader: Some(1), ..NodeStatus::default() };
        assert_eq!(shown_role(&leads), "leader");
        assert_eq!(shown_role(&NodeStatus { leader: None, ..leads }), "isolated");
    }

    #[test]
    fn addresses_are_host_and_port() {
        for good in ["10.0.0.4:7000", "node-4.example.com:1", "[::1]:7000"] {
            assert!(is_host_port(good), "{good}");
            assert!(is_base_url(&format!("http://{good}")), "{good}");
        }
        for bad in ["", "host", ":1", "host:0", "host:65536", "host:x", "a b:1", "u@h:1", "http://h:1"] {
            assert!(!is_host_port(bad), "{bad}");
        }
        for bad in ["h:1", "ftp://h:1", "http://h:1/p", "http://u@h:1", "http://h:", "http://"] {
            assert!(!is_base_url(bad), "{bad}");
        }
    }
}
