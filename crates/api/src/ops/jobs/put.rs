//! Creating, replacing and patching jobs.

use std::sync::LazyLock;

use orloj_model::command::PutJob;
use orloj_model::job::JobKey;
use orloj_model::query::JobView;
use orloj_model::{Refusal, Reply};
use orloj_wire::json::Strict;
use orloj_wire::problem::{Code, FieldError};
use orloj_wire::rest::job::JobSpec;
use serde_json::{Value, json};

use super::merge::merge;
use super::{Call, TRIES, contended};
use crate::backend::At;
use crate::etag;
use crate::ops::unexpected;
use crate::outcome::{Answer, Failure};
use crate::view::{self, Detail};

/// Refuses to take out what no job has: merging would pass over it.
fn check_taken_out(patch: &Value) -> Result<(), Failure> {
    static FIELDS: LazyLock<Value> =
        LazyLock::new(|| schemars::schema_for!(JobSpec).get("properties").cloned().unwrap_or_default());
    let taken_out = patch.as_object().into_iter().flatten().filter(|(_, value)| value.is_null());
    for (name, _) in taken_out.filter(|(name, _)| FIELDS.get(name).is_none()) {
        let probe = json!({ "handler": "any", name: null }).to_string();
        let read: Result<JobSpec, _> = orloj_wire::json::read_object(probe.as_bytes());
        read.map_err(|fault| Failure::fields(Code::InvalidRequest, vec![fault]))?;
    }
    Ok(())
}

impl Call<'_> {
    pub(super) async fn create_job(&self) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let spec: JobSpec = self.body()?;
        let Some(id) = spec.job_id.clone() else {
            let fault = FieldError::new("/jobId", "a new job needs one");
            return Err(Failure::fields(Code::ValidationFailed, vec![fault]));
        };
        let key = self.new_job_key(&id)?;
        let exists =
            || Failure::new(Code::JobExists, format!("{id:?}: replace it with PUT, or choose another id"));
        let created = self.store(&key, Some(0), |known| match known {
            Some(_) => Err(exists()),
            None => Ok(spec.clone()),
        });
        created.await?;
        let location = format!("/openapi/v1/jobs/{id}");
        Ok(self.shown(&key, 201)?.with("location", location))
    }

    pub(super) async fn replace_job(&self, id: &str) -> Result<Answer, Failure> {
        let guard = self.guard()?;
        let spec: JobSpec = self.body()?;
        let key = self.new_job_key(id)?;
        let created = self.store(&key, guard, |_| Ok(spec.clone())).await?;
        self.shown(&key, if created { 201 } else { 200 })
    }

    pub(super) async fn patch_job(&self, id: &str) -> Result<Answer, Failure> {
        let guard = self.guard()?;
        let Strict(patch) = self.body()?;
        check_taken_out(&patch)?;
        let key = self.job_key(id)?;
        let patched = self.store(&key, guard, |known| {
            let known = known.ok_or_else(|| Failure::from(Refusal::JobNotFound))?;
            // A struct with string keys always serialises.
            let target = serde_json::to_value(view::job_spec(&known.job.definition, &known.flow))
                .expect("a definition serialises");
            let merged = merge(target, patch.clone()).to_string();
            orloj_wire::json::read_object(merged.as_bytes())
                .map_err(|fault| Failure::fields(Code::InvalidRequest, vec![fault]))
        });
        patched.await?;
        self.shown(&key, 200)
    }

    /// Stores what `body` makes of the job that there is; whether it created one. Nothing comes between what is read
    /// and what is written: when the job has moved on, it is read again, unless the request named the version.
    async fn store(
        &self,
        key: &JobKey,
        guard: Option<u64>,
        body: impl Fn(Option<&JobView>) -> Result<JobSpec, Failure>,
    ) -> Result<bool, Failure> {
        self.up_to_date().await?;
        let mut claim = Some(self.claim());
        for _ in 0..TRIES {
            let known = self.shared.backend.job(key)?.value;
            let version = known.as_ref().map_or(0, |view| view.job.version);
            let spec = body(known.as_ref())?;
            self.look_where_callbacks_lead(spec.callback_url.iter().cloned().collect()).await;
            let now = self.now();
            let definition = self.definition(key, &spec, known.as_ref(), now)?;
            let flow = self.flow(&spec, known.as_ref())?;
            if guard.is_some_and(|guard| guard != version) {
                return match known.filter(|view| view.job.definition == definition && view.flow == flow) {
                    // It is what this request makes of it: the answer to an earlier try was lost. A job that was
                    // created in the place of a deleted one begins with any version.
                    Some(view) if guard == Some(0) || guard == Some(view.job.version - 1) => Ok(false),
                    _ => Err(Refusal::VersionMismatch { current: version }.into()),
                };
            }
            let (computed, missed) = self.computed(key, &definition, known.as_ref(), now).await?;
            let put = PutJob {
                job: key.clone(),
                expected: Some(version),
                definition,
                computed,
                claim: claim.take(),
            };
            match self.propose_put(put, flow, missed).await?.reply {
                Reply::Job { .. } => return Ok(version == 0),
                Reply::Refused(Refusal::VersionMismatch { .. } | Refusal::StaleJob { .. }) => {}
                Reply::Refused(Refusal::CalendarNotFound { calendar }) => {
                    let message = format!("{:?}: no such calendar", calendar.as_str());
                    let fault = FieldError::new("/calendars", message);
                    return Err(Failure::fields(Code::ValidationFailed, vec![fault]));
                }
                Reply::Refused(refusal) => return Err(refusal.into()),
                other => return Err(unexpected(&other)),
            }
        }
        Err(contended())
    }

    /// The job as it stands, with its validator.
    pub(super) fn shown(&self, key: &JobKey, status: u16) -> Result<Answer, Failure> {
        let At { applied, value } = self.own_job(key)?;
        let body = view::job(&value, Detail::Whole, applied);
        Ok(Answer::json(status, &body).at(applied).with("etag", etag::of_job(&body)))
    }
}
