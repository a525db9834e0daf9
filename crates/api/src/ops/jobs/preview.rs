//! What triggers will do: of a stored job, and of triggers that are sent.

use orloj_model::id::{CalendarName, Millis};
use orloj_model::job::JOB_CALENDARS_LIMIT;
use orloj_model::trigger::{Calendar, Progress, Schedule};
use orloj_wire::problem::{Code, FieldError};
use orloj_wire::rest::job::{JobSpec, PreviewJob};
use orloj_wire::rest::preview::{CalendarRef, PREVIEW_COUNT, PreviewAnswer, PreviewRequest};
use serde_json::Value;

use super::{Call, not_computable};
use crate::outcome::{Answer, Failure};

impl Call<'_> {
    pub(super) async fn preview_job(&self, id: &str) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let PreviewJob { from, count } = self.optional_body()?;
        let key = self.job_key(id)?;
        self.up_to_date().await?;
        let view = self.own_job(&key)?.value;
        let heeded = self.heeded(&view.job.definition.calendars)?;
        let schedule = view.schedule(&heeded.calendars).map_err(not_computable)?;
        // What has been decided does not fire any more, also where that is the present instant.
        let next = || self.now().max(view.state.decided.saturating_add(1));
        let from = from.map_or_else(next, |from| from.0);
        Ok(preview(&schedule, &view.state.progress, from, count))
    }

    pub(super) async fn preview_triggers(&self) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let PreviewRequest { triggers, calendars, from, count } = self.body()?;
        let created_at = from.map_or_else(|| self.now(), |from| from.0);
        let spec = JobSpec { triggers, ..JobSpec::new("preview", Value::Null) };
        let triggers = spec
            .check_triggers(created_at)
            .map_err(|faults| Failure::fields(Code::ValidationFailed, faults))?;
        self.up_to_date().await?;
        let calendars = self.calendars_of(&calendars)?;
        let schedule = Schedule::new("preview", &triggers, &calendars)
            .map_err(|error| Failure::fields(Code::ValidationFailed, vec![error.into()]))?;
        // As of a job that is created now, or then: whatever it fires is later.
        Ok(preview(&schedule, &Progress::default(), created_at.saturating_add(1), count))
    }

    /// The calendars of a preview, wherever they are.
    fn calendars_of(&self, calendars: &[CalendarRef]) -> Result<Vec<Calendar>, Failure> {
        if calendars.len() > JOB_CALENDARS_LIMIT {
            let message = format!("{} calendars are more than {JOB_CALENDARS_LIMIT}", calendars.len());
            return Err(Failure::fields(
                Code::ValidationFailed,
                vec![FieldError::new("/calendars", message)],
            ));
        }
        let refuse = |fault| Failure::fields(Code::ValidationFailed, vec![fault]);
        let mut found = Vec::new();
        for (place, calendar) in calendars.iter().enumerate() {
            match calendar {
                CalendarRef::Inline(spec) => found.push(
                    spec.check()
                        .map_err(|error| refuse(error.under(&format!("calendars[{place}]")).into()))?,
                ),
                CalendarRef::Name(name) => {
                    let missing = |why: &str| {
                        refuse(FieldError::new(format!("/calendars/{place}"), format!("{name:?}: {why}")))
                    };
                    let name =
                        CalendarName::new(name.as_str()).map_err(|error| missing(&error.to_string()))?;
                    let rows = self.shared.backend.calendars_named(self.caller()?, &[name])?.value;
                    let row = rows.into_iter().next().flatten();
                    found.push(row.ok_or_else(|| missing("no such calendar"))?.calendar);
                }
            }
        }
        Ok(found)
    }
}

fn preview(schedule: &Schedule, progress: &Progress, from: Millis, count: Option<u64>) -> Answer {
    let count = usize::try_from(count.unwrap_or(PREVIEW_COUNT)).unwrap_or(usize::MAX);
    Answer::json(200, &PreviewAnswer::from(schedule.preview(progress, from, count)))
}
