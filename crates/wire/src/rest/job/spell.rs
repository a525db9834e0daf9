//! A job with every default spelled out, as the API shows it: two jobs that mean the same look the same.

use orloj_model::id::Millis;

use super::{JobSpec, MISFIRE_CAP, MISFIRE_GRACE_MS, Misfire};
use crate::problem::FieldError;
use crate::rest::DEFAULT_PRIORITY;
use crate::rest::step;
use crate::rest::trigger::TriggerSpec;

impl JobSpec {
    /// The same job with every default spelled out, as a server shows the definition of a job that was created at
    /// `created_at`.
    ///
    /// # Errors
    /// Every trigger that is not acceptable.
    pub fn spelled_out(&self, created_at: Millis) -> Result<JobSpec, Vec<FieldError>> {
        let triggers = self.check_triggers(created_at)?;
        let misfire = self.misfire.unwrap_or_default();
        Ok(JobSpec {
            job_id: None,
            triggers: triggers.iter().map(TriggerSpec::from).collect(),
            misfire: Some(misfire),
            misfire_cap: (misfire == Misfire::FireAll).then(|| self.misfire_cap.unwrap_or(MISFIRE_CAP.1)),
            misfire_grace_ms: Some(self.misfire_grace_ms.unwrap_or(MISFIRE_GRACE_MS)),
            overlap: Some(self.overlap.unwrap_or_default()),
            priority: Some(self.priority.unwrap_or(DEFAULT_PRIORITY)),
            retry: Some(self.retry.clone().unwrap_or_default()),
            strategy: Some(self.strategy.clone().unwrap_or_default()),
            shard_total: Some(self.shard_total.unwrap_or(1)),
            on_shard_failure: Some(self.on_shard_failure.unwrap_or_default()),
            steps: step::spelled_out(&self.steps),
            allow_unknown_handler: false,
            ..self.clone()
        })
    }
}
