//! The calls on jobs and calendars. What they share is here: whose job it is, and as of when.

mod backfill;
mod calendars;
mod check;
mod define;
mod flow;
mod merge;
mod preview;
mod put;
mod read;
mod run;
mod state;

use orloj_model::Refusal;
use orloj_model::command::{Command, JobCommand};
use orloj_model::id::{CalendarName, JobId, Millis};
use orloj_model::job::Heeded;
use orloj_model::job::JobKey;
use orloj_model::mutant::{Mutant, is_on};
use orloj_model::query::JobView;
use orloj_model::trigger::TriggerError;
use orloj_raft_store::Applied;
use orloj_wire::problem::{Code, FieldError};

use super::Call;
use crate::backend::At;
use crate::outcome::{Answer, Failure};
use crate::route::JobOperation;

/// How often a change is computed anew when the job has moved on meanwhile.
const TRIES: usize = 8;

impl Call<'_> {
    /// Makes a call on jobs or calendars.
    pub(super) async fn on_jobs(&self, operation: &JobOperation) -> Result<Answer, Failure> {
        match operation {
            JobOperation::Create => self.create_job().await,
            JobOperation::List => self.list_jobs().await,
            JobOperation::PreviewTriggers => self.preview_triggers().await,
            JobOperation::Get(id) => self.get_job(id).await,
            JobOperation::Replace(id) => self.replace_job(id).await,
            JobOperation::Patch(id) => self.patch_job(id).await,
            JobOperation::Delete(id) => self.delete_job(id).await,
            JobOperation::Pause(id) => self.pause_job(id).await,
            JobOperation::Resume(id) => self.resume_job(id).await,
            JobOperation::Run(id) => self.run_job(id).await,
            JobOperation::Preview(id) => self.preview_job(id).await,
            JobOperation::Check(id) => self.check_job(id).await,
            JobOperation::History(id) => self.job_history(id).await,
            JobOperation::StartBackfill(id) => self.start_backfill(id).await,
            JobOperation::GetBackfill(id) => self.get_backfill(id).await,
            JobOperation::StopBackfill(id) => self.stop_backfill(id).await,
            JobOperation::ListCalendars => self.list_calendars().await,
            JobOperation::GetCalendar(name) => self.get_calendar(name).await,
            JobOperation::PutCalendar(name) => self.put_calendar(name).await,
            JobOperation::DeleteCalendar(name) => self.delete_calendar(name).await,
        }
    }

    /// The job in a path; an id of another form names no job.
    fn job_key(&self, id: &str) -> Result<JobKey, Failure> {
        let job = JobId::new(id).map_err(|_| Failure::from(Refusal::JobNotFound))?;
        Ok(JobKey { caller: self.caller()?.clone(), job })
    }

    /// The job in a path under which one may be created.
    fn new_job_key(&self, id: &str) -> Result<JobKey, Failure> {
        let job = JobId::new(id).map_err(|error| {
            let fault = FieldError::new("/jobId", format!("{id:?}: {error}"));
            Failure::fields(Code::ValidationFailed, vec![fault])
        })?;
        Ok(JobKey { caller: self.caller()?.clone(), job })
    }

    /// Everything that was acknowledged before the request can be read from here on.
    async fn up_to_date(&self) -> Result<(), Failure> {
        if !is_on(Mutant::LocalReads) {
            self.shared.backend.barrier().await?;
        }
        Ok(())
    }

    fn own_job(&self, key: &JobKey) -> Result<At<JobView>, Failure> {
        let At { applied, value } = self.shared.backend.job(key)?;
        match value {
            Some(value) => Ok(At { applied, value }),
            None => Err(Refusal::JobNotFound.into()),
        }
    }

    /// The present instant, as triggers see it: the wall clock of the leader, where every call is made. What is decided
    /// already stays so: a job's row says up to where.
    fn now(&self) -> Millis {
        self.wall_ms()
    }

    /// Refuses to make tasks of a job that the key's caller could not put now: what it may use may have changed since
    /// it did.
    fn may_run(&self, view: &JobView) -> Result<(), Failure> {
        match view.flow.steps.is_empty() {
            true => self.may_use(&view.job.definition.template.handler),
            false => view.flow.steps.iter().try_for_each(|step| self.may_use(&step.template.handler)),
        }
    }

    async fn propose_job(&self, command: JobCommand) -> Result<Applied, Failure> {
        self.propose(Command::Job(Box::new(command))).await
    }

    /// The calendars that a job names, all of which must be there.
    fn heeded(&self, names: &[CalendarName]) -> Result<Heeded, Failure> {
        let rows = self.shared.backend.calendars_named(self.caller()?, names)?.value;
        let (mut heeded, mut faults) = (Heeded::default(), Vec::new());
        for ((place, name), row) in names.iter().enumerate().zip(rows) {
            match row {
                Some(row) => {
                    heeded.calendars.push(row.calendar);
                    heeded.versions.push(row.version);
                }
                None => {
                    let message = format!("{:?}: no such calendar", name.as_str());
                    faults.push(FieldError::new(format!("/calendars/{place}"), message));
                }
            }
        }
        match faults.is_empty() {
            true => Ok(heeded),
            false => Err(Failure::fields(Code::ValidationFailed, faults)),
        }
    }

    /// The version that the request says it has seen: the parameter `version`, which is signed as every parameter
    /// is.
    fn guard(&self) -> Result<Option<u64>, Failure> {
        let mut parameters = self.request.parameters()?;
        let version = parameters.number("version", 0, u64::MAX)?;
        parameters.finish()?;
        Ok(version)
    }
}

/// A stored job that this release cannot compute: its zone is gone from the database.
fn not_computable(error: TriggerError) -> Failure {
    Failure::new(Code::Conflict, format!("the job cannot be computed: {error}"))
}

/// Others have changed the job each time before this request could.
fn contended() -> Failure {
    Failure::new(Code::Conflict, "the job changes faster than this request can; try again")
}
