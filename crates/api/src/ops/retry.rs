//! `POST /openapi/v1/tasks/{id}/retry`: a task that did not succeed, again, as a new one that points back.

use orloj_model::command::{DueTime, Submit};
use orloj_model::graph::is_met;
use orloj_model::id::TaskId;
use orloj_model::query::TaskView;
use orloj_model::task::{Dependency, Origin, Status, TaskSpec};
use orloj_model::{Refusal, Reply};
use orloj_wire::problem::Code;

use super::{Call, Nothing, graph, submit, task_id};
use crate::outcome::{Answer, Failure};

impl Call<'_> {
    pub(super) async fn retry_task(&self, id: &str) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let Nothing {} = self.optional_body()?;
        let id = task_id(id)?;
        self.shared.backend.barrier().await?;
        let old = self.own_task(id)?.value;
        may_be_retried(&old)?;
        let idempotency = self.idempotency();
        let mut spec = self.again(old);
        self.look_where_callbacks_lead(spec.callback_url.iter().cloned().collect()).await;
        match self.may_start(&spec) {
            Ok(url) => spec.callback_url = url,
            // It makes nothing: the answer is that of the first one.
            Err(_) if self.is_repeated(idempotency.as_ref())? => {}
            Err(failure) => return Err(failure),
        }
        let again = Submit {
            task: self.shared.ids.draw(),
            due: DueTime::After(0),
            claim: Some(self.claim()),
            idempotency,
            spec: TaskSpec { origin: Origin::RetryOf(id), ..spec },
        };
        let on_shard_failure = self.shared.backend.on_shard_failure(id)?;
        let command = graph::command_again(again, on_shard_failure);
        let applied = self.propose(command).await?;
        match applied.reply {
            // It has gone in between.
            Reply::Refused(Refusal::ParentNotFound { parent }) => Err(gone(parent)),
            _ => submit::taken(applied),
        }
    }

    /// Refuses what who asks may not do now, and what cannot start. The callback's address as it is stored.
    fn may_start(&self, spec: &TaskSpec) -> Result<Option<String>, Failure> {
        let url = self.may_submit(&spec.handler, spec.callback_url.as_deref())?;
        self.can_start(spec)?;
        Ok(url)
    }

    /// Refuses what would wait for an executor that nobody runs, and what the end of a parent, which never changes,
    /// keeps from starting: the request names none of these, so there is nothing in it to mend.
    fn can_start(&self, spec: &TaskSpec) -> Result<(), Failure> {
        if !self.has_handler(&spec.handler)? {
            let detail = format!(
                "no executor has {:?} any more: start one that has it, and try this task again then",
                spec.handler
            );
            return Err(Failure::new(Code::HandlerUnknown, detail));
        }
        for Dependency { task, on } in &spec.depends_on {
            let Some(parent) = self.shared.backend.task(*task)?.value else { return Err(gone(*task)) };
            let status = parent.state.status;
            if is_met(*on, status) == Some(false) {
                let detail = format!(
                    "its parent {task} is {}, so it would be skipped again: submit it behind another task",
                    status.name()
                );
                return Err(Failure::new(Code::Conflict, detail));
            }
        }
        Ok(())
    }

    /// What was asked for, with every try ahead of it, by who asks now.
    fn again(&self, old: TaskView) -> TaskSpec {
        let TaskView { spec, .. } = old;
        let now = self.wall_ms();
        TaskSpec {
            access_key: self.request.credentials.access_key.clone(),
            // One that has passed would skip the new task at once.
            expire_at: spec.expire_at.filter(|at| *at > now),
            ..spec
        }
    }
}

fn gone(parent: TaskId) -> Failure {
    let detail = format!("its parent {parent} is no longer kept: submit the task without it");
    Failure::new(Code::Conflict, detail)
}

/// Refuses what has not ended, what succeeded, and what lives in a workflow alone.
fn may_be_retried(task: &TaskView) -> Result<(), Failure> {
    let refuse = |detail: String| Err(Failure::new(Code::Conflict, detail));
    let status = task.state.status;
    match &task.spec.origin {
        _ if !status.is_terminal() => refuse(format!("the task is {} and may still succeed", status.name())),
        _ if status == Status::Success => refuse("the task has succeeded: submit another one".to_owned()),
        Origin::Step { job, .. } => {
            refuse(format!("a step runs with its run: POST /openapi/v1/jobs/{job}/run begins another one"))
        }
        origin if task.shards.is_empty() => {
            let job = origin.job().map_or("{jobId}", |(job, _)| job);
            refuse(format!(
                "it stands for a run of steps: POST /openapi/v1/jobs/{job}/run begins another one"
            ))
        }
        origin => match origin.job().filter(|_| names_the_attempt(&task.spec)) {
            // They are filled in for tasks of the job alone.
            Some((job, _)) => refuse(format!(
                "its parameters have placeholders of the attempt: POST /openapi/v1/jobs/{job}/run makes another one"
            )),
            None => Ok(()),
        },
    }
}

/// Whether a text of a job's task has placeholders that are filled in for each attempt; others have been by now.
fn names_the_attempt(spec: &TaskSpec) -> bool {
    let key = spec.business_key.as_deref().unwrap_or_default();
    [&spec.params[..], key.as_bytes()].iter().any(|text| text.windows(2).any(|two| two == b"${"))
}
