//! From a body to a definition, and to its next fire.

use orloj_model::command::Computed;
use orloj_model::id::{CalendarName, Millis};
use orloj_model::job::{Definition, JobKey, Template, computed_for_put, dropped_by_edit};
use orloj_model::query::JobView;
use orloj_model::task::TaskSpec;
use orloj_model::trigger::{self, Calendar, CatchUp, Missed, Schedule, Trigger};
use orloj_wire::problem::{Code, FieldError};
use orloj_wire::rest::job::{JobSpec, MISFIRE_CAP, MISFIRE_GRACE_MS, Misfire};

use super::Call;
use crate::ops::submit;
use crate::outcome::Failure;

impl Call<'_> {
    /// Looks where the address of a job's callbacks leads, unless the job has it already.
    pub(super) async fn look_where_callbacks_of_a_job_lead(&self, spec: &JobSpec, known: Option<&JobView>) {
        let kept = known.and_then(|view| view.job.definition.template.callback_url.as_ref());
        let anew = spec.callback_url.iter().filter(|url| kept != Some(*url));
        self.look_where_callbacks_lead(anew.cloned().collect()).await;
    }

    /// The definition that a body stands for. What counts from the creation of the job counts from that of `known`,
    /// so that the same body gives the same definition.
    pub(super) fn definition(
        &self,
        key: &JobKey,
        spec: &JobSpec,
        known: Option<&JobView>,
        now: Millis,
    ) -> Result<Definition, Failure> {
        let mut faults = spec.faults(key.job.as_str());
        if let Some(id) = spec.job_id.as_deref().filter(|id| *id != key.job.as_str()) {
            let message = format!("{id:?} is not the job in the path, {:?}", key.job.as_str());
            faults.push(FieldError::new("/jobId", message));
        }
        let created_at = known.map_or(now, |view| view.job.created_at);
        let triggers = spec.check_triggers(created_at).unwrap_or_else(|more| {
            faults.extend(more);
            Vec::new()
        });
        let task = self.task_of(spec, known);
        match &task {
            Err(failure) if failure.code == Code::ValidationFailed => faults.extend(failure.errors.clone()),
            _ => {}
        }
        if !faults.is_empty() {
            return Err(Failure::fields(Code::ValidationFailed, faults));
        }
        let calendars = spec.calendars.iter().map(|name| CalendarName::new(name.as_str()));
        Ok(Definition {
            title: spec.title.clone(),
            description: spec.description.clone(),
            template: template(task?, spec.expire_after_ms),
            triggers,
            calendars: calendars.collect::<Result<_, _>>().map_err(|error| {
                let fault = FieldError::new("/calendars", error.to_string());
                Failure::fields(Code::ValidationFailed, vec![fault])
            })?,
            misfire: catch_up(spec),
            overlap: spec.overlap.unwrap_or_default(),
            max_running: spec.max_running.map(|most| u32::try_from(most).unwrap_or(u32::MAX)),
        })
    }

    /// What a task of the job would be, were it submitted: so a job can ask for nothing that a submission cannot.
    /// The handler that a job has already is not asked for again, whoever has left since, nor is where the name of its
    /// callback's address leads.
    fn task_of(&self, spec: &JobSpec, known: Option<&JobView>) -> Result<TaskSpec, Failure> {
        let mut body = spec.submission();
        if spec.steps.is_empty() {
            self.may_use(&body.handler)?;
        }
        if let Some(url) = body.callback_url.take() {
            let kept = known.and_then(|view| view.job.definition.template.callback_url.as_deref());
            body.callback_url = Some(self.callback_url(&url, kept)?);
        }
        let access_key = &self.request.credentials.access_key;
        submit::spec(body, self.caller()?.clone(), access_key, |handler, _| {
            let kept = known.is_some_and(|view| view.job.definition.template.handler == handler);
            // A job with steps runs none of its own.
            Ok(!spec.steps.is_empty() || kept || self.has_handler(handler)?)
        })
    }

    /// The next fire of a definition, and the instants that its triggers had named before and that come to nothing now.
    /// Triggers that are new must have a next fire: a job that can never fire is a mistake of whoever wrote it.
    pub(super) async fn computed(
        &self,
        key: &JobKey,
        definition: &Definition,
        known: Option<&JobView>,
        now: Millis,
    ) -> Result<(Computed, Option<Missed>), Failure> {
        let heeded = self.heeded(&definition.calendars)?;
        let old = known.map(|view| &view.job.definition);
        let same =
            |old: &Definition| old.triggers == definition.triggers && old.calendars == definition.calendars;
        if let Some(known) = known.filter(|view| same(&view.job.definition)) {
            // It keeps its next fire.
            let (revision, after) = (known.state.revision, known.state.decided.max(now));
            return Ok((Computed { revision, calendars: heeded.versions, after, next: None }, None));
        }
        for (place, trigger) in definition.triggers.iter().enumerate() {
            if !old.is_some_and(|old| old.triggers.contains(trigger)) {
                check_fires(key, place, trigger, &heeded.calendars, now)?;
                // Each may pass over thousands of excluded days.
                tokio::task::yield_now().await;
            }
        }
        let computed = computed_for_put(key, known, definition, &heeded, now)
            .map_err(|error| Failure::fields(Code::ValidationFailed, vec![error.into()]))?;
        let dropped = match known {
            // Old triggers whose zone this release has lost name nothing any more.
            Some(view) => {
                let old = self.heeded(&view.job.definition.calendars)?;
                dropped_by_edit(view, &old, computed.after).ok().flatten()
            }
            None => None,
        };
        Ok((computed, dropped))
    }
}

fn check_fires(
    key: &JobKey,
    place: usize,
    trigger: &Trigger,
    calendars: &[Calendar],
    now: Millis,
) -> Result<(), Failure> {
    let pointer = format!("/triggers/{place}");
    let alone = Schedule::new(key.job.as_str(), std::slice::from_ref(trigger), calendars);
    alone.and_then(|schedule| schedule.check_each_fires(now)).map_err(|error| {
        Failure::fields(Code::ValidationFailed, vec![FieldError::new(pointer, error.message)])
    })
}

/// What a task is made of that a submission would have made.
pub(super) fn template(task: TaskSpec, expire_after_ms: Option<u64>) -> Template {
    Template {
        handler: task.handler,
        // It was a JSON value a moment ago.
        params: String::from_utf8_lossy(&task.params).into_owned(),
        priority: task.priority,
        labels: task.labels,
        routing_key: task.routing_key,
        zone: task.zone,
        strategy: task.strategy,
        business_key: task.business_key,
        retry: task.retry,
        timeout_ms: task.timeout_ms,
        expire_after_ms,
        shard_total: task.shard_total,
        callback_url: task.callback_url,
        estimated_duration_ms: task.estimated_duration_ms,
    }
}

fn catch_up(spec: &JobSpec) -> CatchUp {
    let policy = match spec.misfire.unwrap_or_default() {
        Misfire::Skip => trigger::Misfire::Skip,
        Misfire::FireOnce => trigger::Misfire::FireOnce,
        Misfire::FireAll => {
            let cap = spec.misfire_cap.unwrap_or(MISFIRE_CAP.1);
            trigger::Misfire::FireAll { cap: u32::try_from(cap).unwrap_or(u32::MAX) }
        }
    };
    CatchUp { policy, grace_ms: spec.misfire_grace_ms.unwrap_or(MISFIRE_GRACE_MS) }
}
