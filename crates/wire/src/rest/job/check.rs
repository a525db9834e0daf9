//! What of a job parses but is not acceptable. What its tasks are made of is held to the rules of a submission
//! ([`JobSpec::submission`]); here is what a job has beside it.

use std::collections::BTreeSet;

use orloj_model::graph::FLOW_BYTES_LIMIT;
use orloj_model::id::{CalendarName, Millis, TaskId, check_job_id};
use orloj_model::job::{FIELD_LIMIT, JOB_CALENDARS_LIMIT, PARAMS_LIMIT, TEXT_LIMIT, TITLE_LIMIT};
use orloj_model::trigger::placeholder::{self, FireValues, PlaceholderError};
use orloj_model::trigger::{TRIGGER_LIMIT, Trigger, Zone};
use serde_json::Value;

use super::{JobSpec, Misfire};
use crate::problem::FieldError;
use crate::rest::step;
use crate::rest::submit::shortened;

impl JobSpec {
    /// Everything beside its task and its triggers that parses but is not acceptable; empty when all is well.
    /// `job` is its id.
    pub fn faults(&self, job: &str) -> Vec<FieldError> {
        let mut faults = Vec::new();
        if let Err(error) = check_job_id(job) {
            faults.push(FieldError::new("/jobId", format!("{:?}: {error}", shortened(job))));
        }
        for (pointer, text, limit) in
            [("/title", &self.title, TITLE_LIMIT), ("/description", &self.description, TEXT_LIMIT)]
        {
            if text.len() > limit {
                let message = format!("{:?}: {} bytes are more than {limit}", shortened(text), text.len());
                faults.push(FieldError::new(pointer, message));
            }
        }
        if self.misfire_cap.is_some() && self.misfire != Some(Misfire::FireAll) {
            let message = "only with \"misfire\": \"fireAll\"";
            faults.push(FieldError::new("/misfireCap", message));
        }
        self.check_calendars(&mut faults);
        faults.extend(key_fault("/businessKey", self.business_key.as_deref(), job));
        faults.extend(params_faults("/params", &self.params.0, job));
        self.check_steps(job, &mut faults);
        faults
    }

    fn check_steps(&self, job: &str, faults: &mut Vec<FieldError>) {
        faults.extend(step::faults(&self.steps));
        if self.steps.len() > step::STEPS_LIMIT {
            return;
        }
        let mut bytes = 0;
        for (place, step) in self.steps.iter().enumerate() {
            let pointer = format!("/steps/{place}/params");
            faults.extend(params_faults(&pointer, &step.params.0, job));
            bytes += step.bytes();
            let pointer = format!("/steps/{place}/businessKey");
            faults.extend(key_fault(&pointer, step.business_key.as_deref(), job));
        }
        if bytes > FLOW_BYTES_LIMIT {
            let message =
                format!("{bytes} bytes of names, parameters and keys are more than {FLOW_BYTES_LIMIT}");
            faults.push(FieldError::new("/steps", message));
        }
    }

    fn check_calendars(&self, faults: &mut Vec<FieldError>) {
        if self.calendars.len() > JOB_CALENDARS_LIMIT {
            let message = format!("{} calendars are more than {JOB_CALENDARS_LIMIT}", self.calendars.len());
            faults.push(FieldError::new("/calendars", message));
        }
        let mut seen = BTreeSet::new();
        for (place, name) in self.calendars.iter().enumerate().take(JOB_CALENDARS_LIMIT) {
            let pointer = format!("/calendars/{place}");
            if let Err(error) = CalendarName::new(name.as_str()) {
                faults.push(FieldError::new(&pointer, format!("{:?}: {error}", shortened(name))));
            }
            if !seen.insert(name) {
                faults.push(FieldError::new(&pointer, format!("{:?} stands there twice", shortened(name))));
            }
        }
    }

    /// Its triggers, each checked. `created_at` is the creation of the job, also where it is edited: see
    /// [`TriggerSpec::check`](crate::rest::trigger::TriggerSpec::check).
    ///
    /// # Errors
    /// Every trigger that is not acceptable.
    pub fn check_triggers(&self, created_at: Millis) -> Result<Vec<Trigger>, Vec<FieldError>> {
        if self.triggers.len() > TRIGGER_LIMIT {
            let message = format!("{} triggers are more than {TRIGGER_LIMIT}", self.triggers.len());
            return Err(vec![FieldError::new("/triggers", message)]);
        }
        let (mut triggers, mut faults) = (Vec::new(), Vec::new());
        for (place, spec) in self.triggers.iter().enumerate() {
            match spec.check(created_at) {
                Ok(trigger) => triggers.push(trigger),
                Err(error) => faults.push(error.under(&format!("triggers[{place}]")).into()),
            }
        }
        if faults.is_empty() { Ok(triggers) } else { Err(faults) }
    }
}

/// What is wrong with parameters: their placeholders, and their size once these are filled in for this job.
pub fn params_faults(pointer: &str, params: &Value, job: &str) -> Vec<FieldError> {
    let mut faults = Vec::new();
    check_strings(pointer, params, &mut faults);
    if !faults.is_empty() {
        return faults;
    }
    let text = params.to_string();
    match filled(&text, job) {
        Ok(filled) if filled.len().max(text.len()) > PARAMS_LIMIT => {
            let message = format!(
                "{} bytes of compact JSON with its placeholders filled in are more than {PARAMS_LIMIT}",
                filled.len().max(text.len())
            );
            faults.push(FieldError::new(pointer, message));
        }
        Ok(_) => {}
        // A character that JSON escapes inside a placeholder.
        Err(error) => faults.push(FieldError::new(pointer, error.to_string())),
    }
    faults
}

/// What is wrong with a business key: its placeholders, and its length once these are filled in for this job.
fn key_fault(pointer: &str, key: Option<&str>, job: &str) -> Option<FieldError> {
    let key = key?;
    let fault = |error: PlaceholderError| FieldError::new(pointer, error.to_string()).at(error.position);
    if let Err(error) = placeholder::check(key) {
        return Some(fault(error));
    }
    match filled(key, job) {
        Ok(filled) if filled.len() > FIELD_LIMIT => {
            let (length, shown) = (filled.len(), shortened(key));
            let message = format!(
                "{shown:?}: {length} bytes with its placeholders filled in are more than {FIELD_LIMIT}"
            );
            Some(FieldError::new(pointer, message))
        }
        Ok(_) => None,
        Err(error) => Some(fault(error)),
    }
}

/// A text as a fire of this job fills it in: what comes out has the same length at every instant and in every zone.
fn filled(text: &str, job: &str) -> Result<String, PlaceholderError> {
    let utc = Zone::utc();
    placeholder::expand_fire(text, &FireValues { job, task: TaskId([0; 16]), scheduled_at: 0, zone: &utc })
}

/// Checks every string, so that an error names the place; keys may hold placeholders too.
fn check_strings(pointer: &str, value: &Value, faults: &mut Vec<FieldError>) {
    match value {
        Value::String(text) => check_string(pointer, text, faults),
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                check_strings(&format!("{pointer}/{place}"), item, faults);
            }
        }
        Value::Object(object) => {
            for (key, value) in object {
                let inner = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
                check_string(&inner, key, faults);
                check_strings(&inner, value, faults);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn check_string(pointer: &str, text: &str, faults: &mut Vec<FieldError>) {
    if let Err(error) = placeholder::check(text) {
        faults.push(FieldError::new(pointer, error.to_string()).at(error.position));
    }
}
