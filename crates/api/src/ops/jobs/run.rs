//! Running a job now.

use orloj_model::command::{Idempotency, JobCommand, RunNow};
use orloj_model::id::{Millis, TaskId};
use orloj_model::job::{Definition, Filled};
use orloj_model::query::JobView;
use orloj_model::trigger::SkipReason;
use orloj_model::{Refusal, Reply};
use orloj_wire::json::Strict;
use orloj_wire::problem::{Code, FieldError};
use orloj_wire::rest::REPLAYED_HEADER;
use orloj_wire::rest::job::{JobRun, RunJob, params_faults};
use orloj_wire::sign::sha256;

use super::{Call, TRIES, contended};
use crate::ops::unexpected;
use crate::outcome::{Answer, Failure};

impl Call<'_> {
    pub(super) async fn run_job(&self, id: &str) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let RunJob { params, overlap } = self.optional_body()?;
        let key = self.job_key(id)?;
        let faults = params.as_ref().map(|Strict(params)| params_faults("/params", params, id));
        if let Some(faults) = faults.filter(|faults| !faults.is_empty()) {
            return Err(Failure::fields(Code::ValidationFailed, faults));
        }
        let params = params.map(|Strict(params)| params.to_string());
        self.up_to_date().await?;
        let mut claim = Some(self.claim());
        for _ in 0..TRIES {
            let (view, now) = (self.own_job(&key)?.value, self.now());
            let idempotency = self.idempotency().map(|key| of_job(key, &view));
            if let Err(failure) = self.may_run(&view)
                && !self.is_repeated(idempotency.as_ref())?
            {
                return Err(failure);
            }
            if params.is_some() && !view.flow.steps.is_empty() {
                // They would reach nobody: the task of the run has no attempts, and steps have their own.
                let message =
                    "the job is a workflow, and each of its steps has parameters of its own; leave them out";
                let fault = FieldError::new("/params", message);
                return Err(Failure::fields(Code::ValidationFailed, vec![fault]));
            }
            let task = self.shared.ids.draw();
            let run = RunNow {
                job: key.clone(),
                version: view.job.version,
                scheduled_at: now,
                task,
                filled: filled(&view, task, now, params.as_deref())?,
                overlap,
                claim: claim.take(),
                idempotency,
            };
            let applied = self.propose_job(JobCommand::RunNow(Box::new(run))).await?;
            let (task, queued) = match applied.reply {
                Reply::Fired { task, queued } => (task, Some(queued)),
                Reply::Submitted { task, replayed: true, .. } => (task, None),
                Reply::FireSkipped { reason } => return Err(skipped(&view, reason)),
                Reply::Refused(Refusal::VersionMismatch { .. }) => continue,
                Reply::Refused(refusal) => return Err(refusal.into()),
                other => return Err(unexpected(&other)),
            };
            let body = JobRun {
                job_id: id.to_owned(),
                task_id: task.to_string(),
                queued,
                applied_index: applied.index,
            };
            let location = format!("/openapi/v1/tasks/{task}");
            let answer = Answer::json(202, &body).at(applied.index).with("location", location);
            return Ok(if queued.is_none() { answer.with(REPLAYED_HEADER, "true") } else { answer });
        }
        Err(contended())
    }
}

/// An Idempotency-Key that stands for a run of this very job, and of none that had its id before.
fn of_job(key: Idempotency, view: &JobView) -> Idempotency {
    let fingerprint = sha256(&[&key.fingerprint, &view.job.created_at.to_be_bytes()]);
    Idempotency { fingerprint, ..key }
}

/// The texts of a run, with what is known of it filled in. Dates are in the zone of the job's first trigger.
fn filled(view: &JobView, task: TaskId, now: Millis, params: Option<&str>) -> Result<Filled, Failure> {
    let zone = view.job.definition.triggers.first().map_or("UTC", |trigger| trigger.time_zone());
    let fill = |definition: &Definition| {
        // Checked when the job, or the request, came in.
        definition
            .fill(&view.key, task, now, zone)
            .map_err(|error| Failure::internal("a stored placeholder is wrong", &error))
    };
    let Some(params) = params else { return fill(&view.job.definition) };
    let mut definition = view.job.definition.clone();
    params.clone_into(&mut definition.template.params);
    let mut filled = fill(&definition)?;
    filled.params.get_or_insert_with(|| params.as_bytes().to_vec());
    Ok(filled)
}

fn skipped(view: &JobView, reason: SkipReason) -> Failure {
    if reason != SkipReason::Overlap {
        // What the caller may do has changed between the check and the commit.
        let detail = format!("no task was made ({})", reason.name());
        return Failure::new(Code::ExecutorDenied, detail);
    }
    let open = view.state.open;
    let detail = format!(
        "no task was made ({}): open tasks of this job: {open}; a request to run it may name another overlap: allow makes \
         one, cancelOther one in their place, and queue one that waits, unless one waits already",
        reason.name()
    );
    Failure::new(Code::OverlapSkipped, detail)
}
