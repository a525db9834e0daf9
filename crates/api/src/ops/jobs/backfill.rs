//! Making up for a stretch of the past.

use orloj_model::command::JobCommand;
use orloj_model::trigger::overlap::OverlapPolicy;
use orloj_model::{Refusal, Reply};
use orloj_wire::problem::{Code, FieldError};
use orloj_wire::rest::job::{BACKFILL_LIMIT, Backfill, StartBackfill};
use orloj_wire::time::Time;

use super::{Call, not_computable};
use crate::backend::At;
use crate::ops::{Nothing, unexpected};
use crate::outcome::{Answer, Failure};
use crate::view;

impl Call<'_> {
    pub(super) async fn start_backfill(&self, id: &str) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let StartBackfill { from, to, overlap } = self.body()?;
        let (key, overlap) = (self.job_key(id)?, overlap.unwrap_or(OverlapPolicy::Queue));
        let refuse = |pointer: &str, message: String| {
            Failure::fields(Code::ValidationFailed, vec![FieldError::new(pointer, message)])
        };
        let now = self.now();
        if to.0 > now {
            return Err(refuse("/to", format!("{to} is later than now, {}", Time(now))));
        }
        if from > to {
            return Err(refuse("/to", format!("{to} is before from, {from}")));
        }
        self.up_to_date().await?;
        let view = self.own_job(&key)?.value;
        self.may_run(&view)?;
        let heeded = self.heeded(&view.job.definition.calendars)?;
        let schedule = view.schedule(&heeded.calendars).map_err(not_computable)?;
        match schedule.range(from.0, to.0, BACKFILL_LIMIT + 1).len() {
            0 => {
                return Err(refuse("/from", format!("no trigger names an instant from {from} to {to}")));
            }
            1..=BACKFILL_LIMIT => {}
            _ => {
                let message = format!("more than {BACKFILL_LIMIT} instants from {from} to {to}");
                return Err(refuse("/to", message));
            }
        }
        let claim = Some(self.claim());
        let command = JobCommand::StartBackfill { job: key.clone(), from: from.0, to: to.0, overlap, claim };
        let applied = self.propose_job(command).await?;
        match applied.reply {
            Reply::Backfill { fired, skipped, .. } => {
                let body = Backfill {
                    job_id: id.to_owned(),
                    from,
                    to,
                    overlap,
                    through: None,
                    fired,
                    skipped,
                    running: true,
                    created_at: Time(now),
                    applied_index: applied.index,
                };
                Ok(Answer::json(202, &body).at(applied.index))
            }
            Reply::Refused(refusal) => Err(refusal.into()),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) async fn get_backfill(&self, id: &str) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let key = self.job_key(id)?;
        self.up_to_date().await?;
        self.own_job(&key)?;
        let At { applied, value } = self.shared.backend.backfill(&key)?;
        let row = value.ok_or_else(|| Failure::from(Refusal::BackfillNotFound))?;
        Ok(Answer::json(200, &view::backfill(&key, &row, true, applied)).at(applied))
    }

    /// Answers with where it ended. Those of its tasks that have begun go on.
    pub(super) async fn stop_backfill(&self, id: &str) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let Nothing {} = self.optional_body()?;
        let key = self.job_key(id)?;
        self.up_to_date().await?;
        self.own_job(&key)?;
        let row = self.shared.backend.backfill(&key)?.value;
        let row = row.ok_or_else(|| Failure::from(Refusal::BackfillNotFound))?;
        let command = JobCommand::StopBackfill { job: key.clone(), claim: Some(self.claim()) };
        let applied = self.propose_job(command).await?;
        match applied.reply {
            Reply::Backfill { through, fired, skipped, .. } => {
                let row = orloj_model::job::BackfillRow { through, fired, skipped, ..row };
                Ok(Answer::json(200, &view::backfill(&key, &row, false, applied.index)).at(applied.index))
            }
            Reply::Refused(refusal) => Err(refusal.into()),
            other => Err(unexpected(&other)),
        }
    }
}
