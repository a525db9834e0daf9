//! What putting a job would come to, without putting it.

use orloj_model::Refusal;
use orloj_wire::rest::job::{JobChange, JobChecked, JobSpec};

use super::Call;
use crate::backend::At;
use crate::outcome::{Answer, Failure};

impl Call<'_> {
    /// Judges a body by everything by which putting it is judged, and changes nothing.
    pub(super) async fn check_job(&self, id: &str) -> Result<Answer, Failure> {
        let guard = self.guard()?;
        let spec: JobSpec = self.body()?;
        let key = self.new_job_key(id)?;
        self.up_to_date().await?;
        let At { applied, value: known } = self.shared.backend.job(&key)?;
        self.look_where_callbacks_of_a_job_lead(&spec, known.as_ref()).await;
        let (version, now) = (known.as_ref().map_or(0, |view| view.job.version), self.now());
        let definition = self.definition(&key, &spec, known.as_ref(), now)?;
        let flow = self.flow(&spec, known.as_ref())?;
        if guard.is_some_and(|guard| guard != version) {
            return Err(Refusal::VersionMismatch { current: version }.into());
        }
        self.computed(&key, &definition, known.as_ref(), now).await?;
        let change = match &known {
            None => JobChange::Create,
            Some(view) if view.job.definition == definition && view.flow == flow => JobChange::None,
            Some(_) => JobChange::Replace,
        };
        let body = JobChecked {
            job_id: id.to_owned(),
            change,
            version,
            unknown_handlers: self.unknown_handlers(&spec)?,
            applied_index: applied,
        };
        Ok(Answer::json(200, &body).at(applied))
    }

    /// The handlers of a job's tasks that no executor has at the moment, each once.
    fn unknown_handlers(&self, spec: &JobSpec) -> Result<Vec<String>, Failure> {
        let of_steps = spec.steps.iter().map(|step| &step.handler);
        let own = spec.steps.is_empty().then_some(&spec.handler);
        let mut unknown = Vec::new();
        for handler in of_steps.chain(own) {
            if !unknown.contains(handler) && !self.has_handler(handler)? {
                unknown.push(handler.clone());
            }
        }
        Ok(unknown)
    }
}
