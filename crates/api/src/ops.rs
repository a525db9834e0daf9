//! What each call does, on the leader, once its request has been let in.

mod access;
mod audit;
mod batch;
mod callbacks;
mod cluster;
mod executors;
mod graph;
mod jobs;
mod logs;
mod retry;
mod sealing;
mod submit;
mod sync;
mod tasks;

pub(crate) use cluster::role as role_name;
pub(crate) use graph::parent_not_found;
use orloj_model::command::{AccessCommand, Asked, Claim, Command};
use orloj_model::id::{CallerId, Millis, TaskId};
use orloj_model::query::TaskView;
use orloj_model::{Refusal, Reply};
use orloj_raft_store::{Applied, ProposeError};
use orloj_wire::problem::{Code, FieldError};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::backend::At;
use crate::keyring::{Key, Principal};
use crate::outcome::{Answer, Failure};
use crate::request::Request;
use crate::route::Operation;
use crate::service::Shared;

/// The size of a page where none is asked for.
const DEFAULT_PAGE: u64 = 20;

/// The body of a call that takes nothing: `{}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// One call in the making.
pub(crate) struct Call<'a> {
    shared: &'a Shared,
    key: &'a Key,
    request: &'a Request,
}

/// Makes a call.
pub(crate) async fn run(
    shared: &Shared,
    operation: &Operation,
    key: &Key,
    request: &Request,
) -> Result<Answer, Failure> {
    let call = Call { shared, key, request };
    make(call, operation).await.map_err(|failure| failure.named(&request.path))
}

async fn make(call: Call<'_>, operation: &Operation) -> Result<Answer, Failure> {
    if operation.spends_first() {
        call.spend(operation).await?;
    }
    match operation {
        Operation::Submit => call.submit().await,
        Operation::SubmitBatch => call.submit_batch().await,
        Operation::SubmitSync => call.submit_sync().await,
        Operation::ListTasks => call.list_tasks().await,
        Operation::GetTask(id) => call.get_task(id).await,
        Operation::CancelTask(id) => call.cancel_task(id).await,
        Operation::RetryTask(id) => call.retry_task(id).await,
        Operation::ListAttempts(id) => call.list_attempts(id).await,
        Operation::ReadLog(id) => call.read_log(id).await,
        Operation::GetGraph(id) => call.get_graph(id).await,
        Operation::ListCallbacks(id) => call.list_callbacks(id).await,
        Operation::Redeliver(id) => call.redeliver(id).await,
        Operation::Access(operation) => call.access(operation).await,
        Operation::ListExecutors => call.list_executors().await,
        Operation::DrainExecutor(id) => call.drain_executor(id).await,
        Operation::ShowCluster => call.show_cluster().await,
        Operation::TransferLeader => call.transfer_leader(operation).await,
        Operation::AddMember => call.add_member(operation).await,
        Operation::RemoveMember(id) => call.remove_member(operation, id).await,
        Operation::Job(operation) => call.on_jobs(operation).await,
    }
}

impl Call<'_> {
    /// The caller; a route for callers alone has been checked to have one.
    fn caller(&self) -> Result<&CallerId, Failure> {
        match &self.key.principal {
            Principal::Caller(caller) => Ok(caller),
            Principal::Admin => {
                Err(Failure::new(Code::ScopeDenied, "only a caller's key may make this call"))
            }
        }
    }

    /// The request's nonce, to be spent by the command that it leads to.
    fn claim(&self) -> Claim {
        self.request.credentials.claim()
    }

    /// Spends the request's nonce in the log by itself, for a change that is not one command. Whoever loses
    /// the answer signs anew; these calls can be repeated.
    /// An administrator's request is recorded by the same entry.
    async fn spend(&self, operation: &Operation) -> Result<(), Failure> {
        let command = match &self.key.principal {
            Principal::Caller(_) => Command::Spend { claim: self.claim() },
            Principal::Admin => Command::Access(Box::new(AccessCommand::Admit {
                by: self.actor(),
                action: operation.name().to_owned(),
                target: self.request.path.trim_start_matches("/openapi/v1/").to_owned(),
            })),
        };
        match self.shared.backend.propose(self.of_key(command)).await {
            Ok(Applied { reply: Reply::Done, .. }) => Ok(()),
            Ok(Applied { reply: Reply::Refused(refusal), .. }) => Err(refusal.into()),
            Ok(Applied { reply, .. }) => Err(unexpected(&reply)),
            // A disk that is all but full takes no record either, and must not keep an administrator from moving the
            // work elsewhere. A repeated request would only move it there again.
            Err(ProposeError::DiskLow) if *operation == Operation::TransferLeader => {
                let by = &self.request.credentials.access_key;
                let request_id = &self.request.request_id;
                tracing::warn!(by, request_id, "the disk is full: the leadership is moved without a record");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Refuses a key that was switched off, or lost the call's scope, since its request was let in. For changes whose
    /// entries cannot carry the key: those of the members. Asked right before the first of them.
    async fn still_may(&self, operation: &Operation) -> Result<(), Failure> {
        let (directory, access_key) = (&self.shared.directory, &self.request.credentials.access_key);
        if directory.is_of_the_file(access_key) {
            return Ok(());
        }
        self.shared.backend.barrier().await?;
        match directory.key(access_key)? {
            None => Err(Refusal::AccessKeyGone.into()),
            Some(key) if !key.enabled => Err(Refusal::AccessKeyDisabled.into()),
            Some(key) => check_scope(operation, &key),
        }
    }

    /// Proposes what the request asks for.
    async fn propose(&self, change: Command) -> Result<Applied, Failure> {
        Ok(self.shared.backend.propose(self.of_key(change)).await?)
    }

    /// A change as it goes into the log: with the key that asks for it, so that it has no effect behind the entry that
    /// switches that key off. Nobody can switch a key of the secrets file off.
    fn of_key(&self, change: Command) -> Command {
        let access_key = &self.request.credentials.access_key;
        if self.shared.directory.is_of_the_file(access_key) {
            return change;
        }
        match Asked::of(change) {
            Ok(change) => Command::OfKey { access_key: access_key.clone(), change },
            Err(change) => *change,
        }
    }

    /// The body as `T`.
    fn body<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        if self.request.body.is_empty() {
            let missing = FieldError::new("", "this call needs a JSON body");
            return Err(Failure::fields(Code::InvalidRequest, vec![missing]));
        }
        orloj_wire::json::read_object(&self.request.body)
            .map_err(|fault| Failure::fields(Code::InvalidRequest, vec![fault]))
    }

    /// The body as `T`; an absent one counts as `{}`.
    fn optional_body<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let body: &[u8] = if self.request.body.is_empty() { b"{}" } else { &self.request.body };
        orloj_wire::json::read_object(body)
            .map_err(|fault| Failure::fields(Code::InvalidRequest, vec![fault]))
    }

    /// Refuses any parameter.
    fn no_parameters(&self) -> Result<(), Failure> {
        self.request.parameters()?.finish()
    }

    fn wall_ms(&self) -> Millis {
        self.shared.clock.wall_ms()
    }

    /// The caller's task. One of another caller is as absent as one that never was.
    fn own_task(&self, id: TaskId) -> Result<At<TaskView>, Failure> {
        let At { applied, value } = self.shared.backend.task(id)?;
        match value {
            Some(view) if view.spec.caller == *self.caller()? => Ok(At { applied, value: view }),
            _ => Err(Failure::from(Refusal::TaskNotFound)),
        }
    }
}

/// Refuses a key without the scope that a call needs.
pub(crate) fn check_scope(operation: &Operation, key: &Key) -> Result<(), Failure> {
    match operation.scope().filter(|scope| !key.rights.scopes.contains(scope)) {
        Some(scope) => {
            let detail = format!("this access key has no scope {:?}", scope.name());
            Err(Failure::new(Code::ScopeDenied, detail))
        }
        None => Ok(()),
    }
}

/// The id in a path; one of another form names no task.
fn task_id(text: &str) -> Result<TaskId, Failure> {
    text.parse().map_err(|_| Failure::from(Refusal::TaskNotFound))
}

/// A reply that the command cannot have.
fn unexpected(reply: &Reply) -> Failure {
    Failure::internal("a command answered what it cannot", &format_args!("{reply:?}"))
}
