//! Listing and draining executors.

use orloj_model::Reply;
use orloj_model::command::Command;
use orloj_model::id::ExecutorId;
use orloj_wire::rest::{Drain, Drained, Executors};

use super::{Call, unexpected};
use crate::missing::Missing;
use crate::outcome::{Answer, Failure};
use crate::view;

impl Call<'_> {
    pub(super) async fn list_executors(&self) -> Result<Answer, Failure> {
        self.no_parameters()?;
        self.shared.backend.barrier().await?;
        let rows = self.shared.backend.executors()?;
        let live = self.shared.leader.executors_live();
        let of = |id: &ExecutorId| live.iter().find(|live| live.id == id.as_str());
        let body = Executors {
            executors: rows.value.iter().map(|row| view::executor(row, of(&row.registration.id))).collect(),
            applied_index: rows.applied,
        };
        Ok(Answer::json(200, &body).at(rows.applied))
    }

    pub(super) async fn drain_executor(&self, id: &str) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let Drain { on } = self.optional_body()?;
        let executor = ExecutorId::new(id).map_err(|_| Failure::missing(Missing::Executor))?;
        let command = Command::Drain { executor: executor.clone(), on };
        let applied = self.propose(command).await?;
        match applied.reply {
            Reply::Done => {
                let body =
                    Drained { executor_id: executor.to_string(), draining: on, applied_index: applied.index };
                Ok(Answer::json(200, &body).at(applied.index))
            }
            Reply::Refused(refusal) => Err(refusal.into()),
            other => Err(unexpected(&other)),
        }
    }
}
