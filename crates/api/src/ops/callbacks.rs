//! Callbacks: whether a task may have one, what became of it, and sending it again.

use std::sync::Arc;

use orloj_model::command::{CallbackCommand, Command};
use orloj_model::executor::ExecutorState;
use orloj_model::{Refusal, Reply};
use orloj_raft_store::Applied;
use orloj_scheduler::callback::of_replica;
use orloj_wire::callback::{Destination, check_url};
use orloj_wire::problem::{Code, FieldError};
use orloj_wire::rest::{Callbacks, Redelivering};
use serde::Deserialize;

use super::{Call, task_id, unexpected};
use crate::backend::StorageFault;
use crate::outcome::{Answer, Failure};
use crate::view;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl Call<'_> {
    /// Looks where the names in these addresses lead, for [`callback_url`](Call::callback_url) to know.
    pub(super) async fn look_where_callbacks_lead(&self, urls: Vec<String>) {
        // Where there is no address there is nothing to wait for.
        if urls.is_empty() {
            return;
        }
        let policy = self.caller().and_then(|caller| Ok(self.shared.directory.policy_of(caller)?));
        let (Ok(Some(policy)), Ok(own)) = (policy, self.own_listeners()) else { return };
        let to: Vec<Destination> =
            urls.into_iter().filter_map(|url| check_url(&url, &policy.hosts).ok()).collect();
        self.shared.outlook.look(&to, &own).await;
    }

    /// Where the replicas and the executors listen.
    fn own_listeners(&self) -> Result<Arc<[String]>, StorageFault> {
        let backend = &self.shared.backend;
        self.shared.outlook.own_listeners(|ports| {
            let members = backend.members().into_iter();
            let replicas = members.flat_map(|member| of_replica(&member.internal, &member.api, ports));
            // One that has left listens no more.
            let executors = backend.executors()?.value.into_iter();
            let executors = executors.filter(|executor| executor.state != ExecutorState::Left);
            Ok(replicas.chain(executors.map(|executor| executor.registration.address)).collect())
        })
    }

    /// The address as it is stored, if the caller may have callbacks there. Where the name of one that is `kept` leads
    /// is not asked: an edit of something else, or one that is repeated, must not fail for it, and the send looks.
    pub(super) fn callback_url(&self, url: &str, kept: Option<&str>) -> Result<String, Failure> {
        let refuse = |message: String| {
            Failure::fields(Code::CallbackUrlNotAllowed, vec![FieldError::new("/callbackUrl", message)])
        };
        let policy = self.shared.directory.policy_of(self.caller()?)?.unwrap_or_default();
        let destination = check_url(url, &policy.hosts).map_err(|fault| refuse(fault.to_string()))?;
        if policy.secrets.is_empty() {
            return Err(refuse("this caller has no webhook secret to sign with".to_owned()));
        }
        if kept != Some(destination.url())
            && self.shared.outlook.leads_astray(&destination, &self.own_listeners()?)
        {
            return Err(refuse(format!("{} leads where callbacks may not go", destination.host())));
        }
        Ok(destination.url().to_owned())
    }

    pub(super) async fn list_callbacks(&self, id: &str) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let id = task_id(id)?;
        self.shared.backend.barrier().await?;
        let applied = self.own_task(id)?.applied;
        let row = self.shared.backend.callback(id)?;
        let body = Callbacks {
            callback: row.as_ref().map(view::callback),
            sends: row.iter().flat_map(view::callback_sends).collect(),
            applied_index: applied,
        };
        Ok(Answer::json(200, &body).at(applied))
    }

    pub(super) async fn redeliver(&self, id: &str) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let Nothing {} = self.optional_body()?;
        let id = task_id(id)?;
        let (caller, claim) = (self.caller()?.clone(), Some(self.claim()));
        let command = CallbackCommand::Redeliver { task: id, caller, claim };
        let applied = self.propose(Command::Callback(Box::new(command))).await?;
        match applied {
            Applied { reply: Reply::Done, index } => {
                let body = Redelivering { task_id: id.to_string(), state: "pending".to_owned() };
                Ok(Answer::json(202, &body).at(index))
            }
            Applied { reply: Reply::Refused(Refusal::CallbackOpen), .. } => Err(Failure::new(
                Code::Conflict,
                "the callback waits for the end of its task or is being delivered",
            )),
            Applied { reply: Reply::Refused(Refusal::CallbackNotFound), .. } => {
                Err(Failure::new(Code::Conflict, "the task has no callback address"))
            }
            Applied { reply: Reply::Refused(refusal), .. } => Err(refusal.into()),
            Applied { reply, .. } => Err(unexpected(&reply)),
        }
    }
}
