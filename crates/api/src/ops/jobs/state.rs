//! Pausing, resuming and deleting jobs.

use orloj_model::command::{Computed, JobCommand};
use orloj_model::job::TEXT_LIMIT;
use orloj_model::job::computed_for_resume;
use orloj_model::query::JobView;
use orloj_model::trigger::Missed;
use orloj_model::{Refusal, Reply};
use orloj_wire::problem::{Code, FieldError};
use orloj_wire::rest::job::{JobDeleted, PauseJob};

use super::{Call, TRIES, contended, not_computable};
use crate::ops::{Nothing, unexpected};
use crate::outcome::{Answer, Failure};

impl Call<'_> {
    pub(super) async fn pause_job(&self, id: &str) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let PauseJob { note } = self.optional_body()?;
        if let Some(note) = note.as_ref().filter(|note| note.len() > TEXT_LIMIT) {
            let message = format!("{} bytes are more than {TEXT_LIMIT}", note.len());
            return Err(Failure::fields(Code::ValidationFailed, vec![FieldError::new("/note", message)]));
        }
        let key = self.job_key(id)?;
        let (job, claim) = (key.clone(), Some(self.claim()));
        let command = match note {
            Some(note) => JobCommand::Pause { job, note, claim },
            None => JobCommand::PauseWithoutNote { job, claim },
        };
        match self.propose_job(command).await?.reply {
            Reply::Job { .. } => self.shown(&key, 200),
            Reply::Refused(refusal) => Err(refusal.into()),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) async fn resume_job(&self, id: &str) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let Nothing {} = self.optional_body()?;
        let key = self.job_key(id)?;
        self.up_to_date().await?;
        let mut claim = Some(self.claim());
        for _ in 0..TRIES {
            let view = self.own_job(&key)?.value;
            self.may_run(&view)?;
            let (computed, missed) = self.resumption(&view)?;
            let command = JobCommand::Resume { job: key.clone(), computed, missed, claim: claim.take() };
            match self.propose_job(command).await?.reply {
                Reply::Job { .. } => return self.shown(&key, 200),
                Reply::Refused(Refusal::StaleJob { .. }) => {}
                Reply::Refused(refusal) => return Err(refusal.into()),
                other => return Err(unexpected(&other)),
            }
        }
        Err(contended())
    }

    /// The next fire of a job that is resumed now, and what it missed while it was paused. Nothing is made up for:
    /// whoever paused it meant it.
    fn resumption(&self, view: &JobView) -> Result<(Computed, Option<Missed>), Failure> {
        if view.state.paused.is_none() {
            return Ok((Computed::default(), None));
        }
        let heeded = self.heeded(&view.job.definition.calendars)?;
        computed_for_resume(view, &heeded, self.now()).map_err(not_computable)
    }

    pub(super) async fn delete_job(&self, id: &str) -> Result<Answer, Failure> {
        let expected = self.guard()?;
        let Nothing {} = self.optional_body()?;
        let command = JobCommand::Delete { job: self.job_key(id)?, expected, claim: Some(self.claim()) };
        let applied = self.propose_job(command).await?;
        match applied.reply {
            Reply::Done => {
                let body = JobDeleted { job_id: id.to_owned(), applied_index: applied.index };
                Ok(Answer::json(200, &body).at(applied.index))
            }
            Reply::Refused(refusal) => Err(refusal.into()),
            other => Err(unexpected(&other)),
        }
    }
}
