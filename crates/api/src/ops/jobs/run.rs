//! Running a job now.

use orloj_model::command::{JobCommand, RunNow};
use orloj_model::id::{Millis, TaskId};
use orloj_model::job::Filled;
use orloj_model::query::JobView;
use orloj_model::trigger::placeholder::{FireValues, expand_fire};
use orloj_model::trigger::{SkipReason, Zone};
use orloj_model::{Refusal, Reply};
use orloj_wire::json::Strict;
use orloj_wire::problem::Code;
use orloj_wire::rest::REPLAYED_HEADER;
use orloj_wire::rest::job::{JobRun, RunJob, params_faults};

use super::{Call, TRIES, contended, not_computable};
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
            let (view, now) = (self.own_job(&key)?.value, self.now()?);
            let task = orloj_model::id::TaskId::draw(&*self.shared.random);
            let run = RunNow {
                job: key.clone(),
                version: view.job.version,
                scheduled_at: now,
                task,
                filled: filled(&view, task, now, params.as_deref())?,
                overlap,
                claim: claim.take(),
                idempotency: self.idempotency(),
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

/// The texts of a run, with what is known of it filled in. Dates are in the zone of the job's first trigger.
fn filled(view: &JobView, task: TaskId, now: Millis, params: Option<&str>) -> Result<Filled, Failure> {
    let definition = &view.job.definition;
    let zone = definition.triggers.first().map_or("UTC", |trigger| trigger.time_zone());
    let zone = Zone::named(zone).map_err(not_computable)?;
    let values = FireValues { job: view.key.job.as_str(), task, scheduled_at: now, zone: &zone };
    // Checked when the job, or the request, came in.
    let fill = |text: &str| {
        expand_fire(text, &values).map_err(|error| Failure::internal("a stored placeholder is wrong", &error))
    };
    Ok(Filled {
        params: Some(fill(params.unwrap_or(&definition.template.params))?.into_bytes()),
        business_key: definition.template.business_key.as_deref().map(fill).transpose()?,
    })
}

fn skipped(view: &JobView, reason: SkipReason) -> Failure {
    let open = view.state.open;
    let detail = format!(
        "no task was made ({}): {open} earlier ones are open; another \"overlap\" in the body can allow, queue or \
         replace",
        reason.name()
    );
    Failure::new(Code::OverlapSkipped, detail)
}
