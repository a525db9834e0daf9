//! Which call a method and a path name. Pure, and the only place that knows the routes: every call is
//! listed with who may make it, so none can be left unprotected.

mod access;
mod job;
mod named;

pub use access::AccessOperation;

use orloj_model::access::Scope;
use orloj_wire::problem::Code;
use orloj_wire::rest::{BATCH_BODY_LIMIT, BODY_LIMIT, JOB_BODY_LIMIT};
use serde::{Deserialize, Serialize};

use crate::limit::Cost;
use crate::outcome::Failure;

pub use job::JobOperation;
pub use named::named;

/// Start of every path of the OpenAPI.
const PREFIX: &str = "/openapi/v1/";
/// The longest target, in bytes.
const TARGET_LIMIT: usize = 4096;

/// A call of the OpenAPI with what its path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// `POST tasks`
    Submit,
    /// `POST tasks/batch`
    SubmitBatch,
    /// `POST tasks/sync`
    SubmitSync,
    /// `GET tasks`
    ListTasks,
    /// `GET tasks/{id}`
    GetTask(String),
    /// `POST tasks/{id}/cancel`
    CancelTask(String),
    /// `POST tasks/{id}/retry`
    RetryTask(String),
    /// `GET tasks/{id}/attempts`
    ListAttempts(String),
    /// `GET tasks/{id}/logs`
    ReadLog(String),
    /// `GET tasks/{id}/graph`
    GetGraph(String),
    /// `GET tasks/{id}/callbacks`
    ListCallbacks(String),
    /// `POST tasks/{id}/callbacks/redeliver`
    Redeliver(String),
    /// Callers, keys and the audit.
    Access(AccessOperation),
    /// `GET executors`
    ListExecutors,
    /// `POST executors/{id}/drain`
    DrainExecutor(String),
    /// `GET cluster`
    ShowCluster,
    /// `POST cluster/transfer`
    TransferLeader,
    /// `POST cluster/members`
    AddMember,
    /// `POST cluster/members/{id}/remove`
    RemoveMember(String),
    /// `jobs…` and `calendars…`
    Job(JobOperation),
}

/// Who may make a call, or calls at a listener.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Access {
    /// Callers, for their own tasks.
    Caller,
    /// Administrators.
    Admin,
    /// Both.
    #[default]
    Both,
}

impl Operation {
    /// Who may make it.
    pub fn access(&self) -> Access {
        match self {
            Operation::Submit
            | Operation::SubmitBatch
            | Operation::SubmitSync
            | Operation::ListTasks
            | Operation::GetTask(_)
            | Operation::CancelTask(_)
            | Operation::RetryTask(_)
            | Operation::ListAttempts(_)
            | Operation::ReadLog(_)
            | Operation::GetGraph(_)
            | Operation::ListCallbacks(_)
            | Operation::Redeliver(_)
            | Operation::Job(_) => Access::Caller,
            Operation::ListExecutors | Operation::ShowCluster => Access::Both,
            Operation::Access(_)
            | Operation::DrainExecutor(_)
            | Operation::TransferLeader
            | Operation::AddMember
            | Operation::RemoveMember(_) => Access::Admin,
        }
    }

    /// The scope that a key needs for it; `None` where every key may.
    pub fn scope(&self) -> Option<Scope> {
        Some(match self {
            Operation::ListExecutors | Operation::ShowCluster => return None,
            Operation::Submit | Operation::SubmitBatch | Operation::RetryTask(_) => Scope::Submit,
            Operation::SubmitSync => Scope::Sync,
            Operation::CancelTask(_) | Operation::Redeliver(_) => Scope::Cancel,
            Operation::Access(AccessOperation::ListAudit) => Scope::Audit,
            Operation::Access(_) => Scope::Callers,
            Operation::DrainExecutor(_)
            | Operation::TransferLeader
            | Operation::AddMember
            | Operation::RemoveMember(_) => Scope::Cluster,
            // It asks whether this very key could put the job.
            Operation::Job(JobOperation::Check(_)) => Scope::Jobs,
            // Whatever else a caller changes are its jobs and calendars.
            other if other.changes() => Scope::Jobs,
            _ => Scope::Read,
        })
    }

    /// What it takes from the buckets.
    pub fn cost(&self) -> Cost {
        match self {
            Operation::Submit | Operation::SubmitBatch | Operation::SubmitSync | Operation::RetryTask(_) => {
                Cost::Submit
            }
            Operation::Job(operation) => operation.cost(),
            _ => Cost::Request,
        }
    }

    /// Whether it changes something, so that a lost answer leaves the outcome unknown.
    pub fn changes(&self) -> bool {
        match self {
            Operation::ListTasks
            | Operation::GetTask(_)
            | Operation::ListAttempts(_)
            | Operation::ReadLog(_)
            | Operation::GetGraph(_)
            | Operation::ListCallbacks(_)
            | Operation::ListExecutors
            | Operation::ShowCluster => false,
            Operation::Job(operation) => operation.changes(),
            Operation::Access(operation) => operation.changes(),
            _ => true,
        }
    }

    /// Whether an Idempotency-Key makes it single: it makes tasks, and the key stands for them.
    pub fn takes_idempotency_key(&self) -> bool {
        matches!(
            self,
            Operation::Submit
                | Operation::SubmitBatch
                | Operation::SubmitSync
                | Operation::RetryTask(_)
                | Operation::Job(JobOperation::Run(_))
        )
    }

    /// Whether its nonce is spent in the log before it is made, since it makes no command that carries one.
    pub fn spends_first(&self) -> bool {
        match self {
            Operation::SubmitBatch => true,
            // These make as many commands as it takes.
            Operation::Access(AccessOperation::RenewSealing) => true,
            // These make a command each, which spends it.
            Operation::Access(_) => false,
            _ => self.access() == Access::Admin,
        }
    }

    /// Whether any replica answers it by itself, also without a leader.
    pub fn is_local(&self) -> bool {
        matches!(self, Operation::ShowCluster | Operation::Access(AccessOperation::ShowSealing))
    }

    /// The largest body that it takes, in bytes.
    pub fn body_limit(&self) -> usize {
        match self {
            Operation::SubmitBatch => BATCH_BODY_LIMIT,
            Operation::Job(operation) if operation.defines() => JOB_BODY_LIMIT,
            _ => BODY_LIMIT,
        }
    }

    /// Its name in metrics and logs.
    pub fn name(&self) -> &'static str {
        match self {
            Operation::Submit => "submit",
            Operation::SubmitBatch => "submit_batch",
            Operation::SubmitSync => "submit_sync",
            Operation::ListTasks => "list_tasks",
            Operation::GetTask(_) => "get_task",
            Operation::CancelTask(_) => "cancel_task",
            Operation::RetryTask(_) => "retry_task",
            Operation::ListAttempts(_) => "list_attempts",
            Operation::ReadLog(_) => "read_log",
            Operation::GetGraph(_) => "get_graph",
            Operation::ListCallbacks(_) => "list_callbacks",
            Operation::Redeliver(_) => "redeliver_callback",
            Operation::Access(operation) => operation.name(),
            Operation::ListExecutors => "list_executors",
            Operation::DrainExecutor(_) => "drain_executor",
            Operation::ShowCluster => "show_cluster",
            Operation::TransferLeader => "transfer_leader",
            Operation::AddMember => "add_member",
            Operation::RemoveMember(_) => "remove_member",
            Operation::Job(operation) => operation.name(),
        }
    }
}

/// The call that `method` and `path` name. `path` is as it was sent, neither decoded nor normalised.
pub fn find(method: &str, path: &str) -> Result<Operation, Failure> {
    let not_found = || Failure::new(Code::NotFound, "no call of the API has this path");
    if !path.starts_with("/openapi") {
        return Err(not_found());
    }
    check_path(path)?;
    let rest = path.strip_prefix(PREFIX).ok_or_else(not_found)?;
    let segments: Vec<&str> = rest.split('/').collect();
    if let Some(found) = job::find(method, &segments) {
        return found.map(Operation::Job);
    }
    if let Some(found) = access::find(method, &segments) {
        return found.map_err(Failure::method);
    }
    let owned = |id: &str| id.to_owned();
    let (allowed, operation) = match segments[..] {
        ["tasks"] if method == "POST" => ("GET, POST", Operation::Submit),
        ["tasks"] => {
            return if method == "GET" {
                Ok(Operation::ListTasks)
            } else {
                Err(Failure::method("GET, POST"))
            };
        }
        ["tasks", "batch"] => ("POST", Operation::SubmitBatch),
        ["tasks", "sync"] => ("POST", Operation::SubmitSync),
        ["tasks", id] => ("GET", Operation::GetTask(owned(id))),
        ["tasks", id, "cancel"] => ("POST", Operation::CancelTask(owned(id))),
        ["tasks", id, "retry"] => ("POST", Operation::RetryTask(owned(id))),
        ["tasks", id, "attempts"] => ("GET", Operation::ListAttempts(owned(id))),
        ["tasks", id, "logs"] => ("GET", Operation::ReadLog(owned(id))),
        ["tasks", id, "graph"] => ("GET", Operation::GetGraph(owned(id))),
        ["tasks", id, "callbacks"] => ("GET", Operation::ListCallbacks(owned(id))),
        ["tasks", id, "callbacks", "redeliver"] => ("POST", Operation::Redeliver(owned(id))),
        ["executors"] => ("GET", Operation::ListExecutors),
        ["executors", id, "drain"] => ("POST", Operation::DrainExecutor(owned(id))),
        ["cluster"] => ("GET", Operation::ShowCluster),
        ["cluster", "transfer"] => ("POST", Operation::TransferLeader),
        ["cluster", "members"] => ("POST", Operation::AddMember),
        ["cluster", "members", id, "remove"] => ("POST", Operation::RemoveMember(owned(id))),
        _ => return Err(not_found()),
    };
    match allowed.split(", ").any(|one| one == method) {
        true => Ok(operation),
        false => Err(Failure::method(allowed)),
    }
}

/// Segments of `[A-Za-z0-9._-]` alone: nothing that a proxy could normalise into another path.
fn check_path(path: &str) -> Result<(), Failure> {
    let error = |detail: String| Failure::new(Code::InvalidPath, detail);
    if path.len() > TARGET_LIMIT {
        return Err(error(format!("the path has {} bytes, more than {TARGET_LIMIT}", path.len())));
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    if let Some(found) = path.chars().find(|c| !fits(*c)) {
        return Err(error(format!("the path has the character {found:?}; segments are of [A-Za-z0-9._-]")));
    }
    for segment in path.split('/').skip(1) {
        if segment.bytes().all(|byte| byte == b'.') {
            return Err(error(format!("the path has the segment {segment:?}")));
        }
    }
    Ok(())
}

/// The parameters of a query, each at most once. `query` is as it was sent.
pub fn parameters(query: &str) -> Result<Vec<(&str, &str)>, Failure> {
    let error = |detail: String| Failure::new(Code::InvalidQuery, detail);
    if query.is_empty() {
        return Ok(Vec::new());
    }
    if query.len() > TARGET_LIMIT {
        return Err(error(format!("the query has {} bytes, more than {TARGET_LIMIT}", query.len())));
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '~' | '.' | '=' | '&' | '-');
    if let Some(found) = query.chars().find(|c| !fits(*c)) {
        return Err(error(format!(
            "the query has the character {found:?}; only [A-Za-z0-9_~.=&-] is allowed"
        )));
    }
    let mut parameters: Vec<(&str, &str)> = Vec::new();
    for pair in query.split('&') {
        let Some((name, value)) = pair
            .split_once('=')
            .filter(|(name, value)| !name.is_empty() && !value.is_empty() && !value.contains('='))
        else {
            return Err(error(format!("{pair:?} is not name=value")));
        };
        if parameters.iter().any(|(known, _)| *known == name) {
            return Err(error(format!("the parameter {name:?} stands there twice")));
        }
        parameters.push((name, value));
    }
    Ok(parameters)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;

    const ALL: [(&str, &str); 53] = [
        ("POST", "/openapi/v1/tasks"),
        ("POST", "/openapi/v1/tasks/batch"),
        ("POST", "/openapi/v1/tasks/sync"),
        ("GET", "/openapi/v1/tasks"),
        ("GET", "/openapi/v1/tasks/tsk_AAECAwQFBgcICQoLDA0ODw"),
        ("POST", "/openapi/v1/tasks/tsk_AAECAwQFBgcICQoLDA0ODw/cancel"),
        ("POST", "/openapi/v1/tasks/x/retry"),
        ("GET", "/openapi/v1/tasks/x/attempts"),
        ("GET", "/openapi/v1/tasks/x/logs"),
        ("GET", "/openapi/v1/tasks/x/graph"),
        ("GET", "/openapi/v1/tasks/x/callbacks"),
        ("POST", "/openapi/v1/tasks/x/callbacks/redeliver"),
        ("GET", "/openapi/v1/callers"),
        ("GET", "/openapi/v1/callers/c"),
        ("PUT", "/openapi/v1/callers/c"),
        ("DELETE", "/openapi/v1/callers/c"),
        ("POST", "/openapi/v1/callers/c/keys"),
        ("POST", "/openapi/v1/callers/c/webhook-secrets"),
        ("DELETE", "/openapi/v1/callers/c/webhook-secrets/s"),
        ("GET", "/openapi/v1/admin-keys"),
        ("POST", "/openapi/v1/admin-keys"),
        ("POST", "/openapi/v1/keys/k/enable"),
        ("POST", "/openapi/v1/keys/k/disable"),
        ("DELETE", "/openapi/v1/keys/k"),
        ("GET", "/openapi/v1/audit"),
        ("GET", "/openapi/v1/sealing"),
        ("POST", "/openapi/v1/sealing/renew"),
        ("GET", "/openapi/v1/executors"),
        ("POST", "/openapi/v1/executors/rack.1/drain"),
        ("GET", "/openapi/v1/cluster"),
        ("POST", "/openapi/v1/cluster/transfer"),
        ("POST", "/openapi/v1/cluster/members"),
        ("POST", "/openapi/v1/cluster/members/4/remove"),
        ("GET", "/openapi/v1/jobs"),
        ("POST", "/openapi/v1/jobs"),
        ("POST", "/openapi/v1/jobs/preview"),
        ("GET", "/openapi/v1/jobs/preview"),
        ("PUT", "/openapi/v1/jobs/preview"),
        ("PATCH", "/openapi/v1/jobs/preview"),
        ("DELETE", "/openapi/v1/jobs/preview"),
        ("GET", "/openapi/v1/jobs/nightly"),
        ("PUT", "/openapi/v1/jobs/nightly"),
        ("PATCH", "/openapi/v1/jobs/nightly"),
        ("DELETE", "/openapi/v1/jobs/nightly"),
        ("POST", "/openapi/v1/jobs/nightly/run"),
        ("GET", "/openapi/v1/jobs/nightly/history"),
        ("GET", "/openapi/v1/jobs/nightly/backfill"),
        ("POST", "/openapi/v1/jobs/nightly/backfill"),
        ("DELETE", "/openapi/v1/jobs/nightly/backfill"),
        ("GET", "/openapi/v1/calendars"),
        ("GET", "/openapi/v1/calendars/holidays.de"),
        ("PUT", "/openapi/v1/calendars/holidays.de"),
        ("DELETE", "/openapi/v1/calendars/holidays.de"),
    ];

    #[test]
    fn every_route_is_found_and_other_methods_are_told_what_is_allowed() {
        for (method, path) in ALL {
            find(method, path).unwrap();
            for other in
                ["PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "get", "TRACE", "CONNECT", "POST", "GET"]
            {
                if ALL.contains(&(other, path)) {
                    continue;
                }
                let failure = find(other, path).unwrap_err();
                assert_eq!(failure.code, Code::MethodNotAllowed, "{other} {path}");
                assert!(failure.allow.unwrap().contains(method), "{other} {path}");
            }
        }
    }

    #[test]
    fn other_spellings_of_a_path_are_no_route() {
        for path in [
            "/openapi/v1/tasks/",
            "//openapi/v1/tasks",
            "/openapi//v1/tasks",
            "/openapi/v1//tasks",
            "/openapi/v1/./tasks",
            "/openapi/v1/../v1/tasks",
            "/openapi/v1/x/../tasks",
            "/openapi/v1/%2e%2e/tasks",
            "/openapi/v1%2Ftasks",
            "/openapi/v1/tasks;a=b",
            "/openapi/v1/tasks%00",
            "/openapi/v1/TASKS",
            "/OPENAPI/v1/tasks",
            "/openapi/v1/tasks/%78",
            "/openapi/v1/tasks/é",
            "/openapi/v1/tasks/...",
            "/openapi\\v1\\tasks",
            "/openapi/v1",
            "/openapi",
            "/openapix/v1/tasks",
            "/openapi/v2/tasks",
            "/internal/v1/forward",
            "/raft/v1/append",
            "",
            "*",
        ] {
            let failure = find("GET", path).unwrap_err();
            assert!(matches!(failure.code, Code::NotFound | Code::InvalidPath), "{path}: {failure:?}");
        }
        let long = format!("/openapi/v1/tasks/{}", "x".repeat(5000));
        assert_eq!(find("GET", &long).unwrap_err().code, Code::InvalidPath);
    }

    #[test]
    fn a_query_has_each_parameter_once() {
        assert_eq!(parameters("").unwrap(), vec![]);
        assert_eq!(parameters("b=2&a=1").unwrap(), vec![("b", "2"), ("a", "1")]);
        for bad in ["a", "a=", "=1", "a=1&", "&a=1", "a=1&&b=2", "a=1&a=1", "a=2&b=1&a=2", "a=1=2"] {
            assert_eq!(parameters(bad).unwrap_err().code, Code::InvalidQuery, "{bad}");
        }
        for bad in ["a=%20", "a=+", "a=é", "a=1;b=2", "a=a:b", "a=a@b", "a=a/b", "a=[1]", "a=1#f", "a=1 "] {
            assert_eq!(parameters(bad).unwrap_err().code, Code::InvalidQuery, "{bad}");
        }
    }
}
