//! The calls on jobs and calendars. All of them are for callers, on what is their own.

use crate::limit::Cost;
use crate::outcome::Failure;

/// A call on jobs or calendars with what its path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobOperation {
    /// `POST jobs`
    Create,
    /// `GET jobs`
    List,
    /// `POST jobs/preview`
    PreviewTriggers,
    /// `GET jobs/{id}`
    Get(String),
    /// `PUT jobs/{id}`
    Replace(String),
    /// `PATCH jobs/{id}`
    Patch(String),
    /// `DELETE jobs/{id}`
    Delete(String),
    /// `POST jobs/{id}/pause`
    Pause(String),
    /// `POST jobs/{id}/resume`
    Resume(String),
    /// `POST jobs/{id}/run`
    Run(String),
    /// `POST jobs/{id}/preview`
    Preview(String),
    /// `POST jobs/{id}/check`
    Check(String),
    /// `GET jobs/{id}/history`
    History(String),
    /// `POST jobs/{id}/backfill`
    StartBackfill(String),
    /// `GET jobs/{id}/backfill`
    GetBackfill(String),
    /// `DELETE jobs/{id}/backfill`
    StopBackfill(String),
    /// `GET calendars`
    ListCalendars,
    /// `GET calendars/{name}`
    GetCalendar(String),
    /// `PUT calendars/{name}`
    PutCalendar(String),
    /// `DELETE calendars/{name}`
    DeleteCalendar(String),
}

impl JobOperation {
    /// What it takes from the buckets: what makes tasks is a submission.
    pub fn cost(&self) -> Cost {
        match self {
            JobOperation::Run(_) | JobOperation::StartBackfill(_) => Cost::Submit,
            _ => Cost::Request,
        }
    }

    /// Whether it says what a job is, which with many steps is long.
    pub fn defines(&self) -> bool {
        use JobOperation::{Check, Create, Patch, Replace};
        matches!(self, Create | Replace(_) | Patch(_) | Check(_))
    }

    /// Whether it changes something.
    pub fn changes(&self) -> bool {
        !matches!(
            self,
            JobOperation::List
                | JobOperation::PreviewTriggers
                | JobOperation::Get(_)
                | JobOperation::Preview(_)
                | JobOperation::Check(_)
                | JobOperation::History(_)
                | JobOperation::GetBackfill(_)
                | JobOperation::ListCalendars
                | JobOperation::GetCalendar(_)
        )
    }

    /// Its name in metrics and logs.
    pub fn name(&self) -> &'static str {
        match self {
            JobOperation::Create => "create_job",
            JobOperation::List => "list_jobs",
            JobOperation::PreviewTriggers => "preview_triggers",
            JobOperation::Get(_) => "get_job",
            JobOperation::Replace(_) => "replace_job",
            JobOperation::Patch(_) => "patch_job",
            JobOperation::Delete(_) => "delete_job",
            JobOperation::Pause(_) => "pause_job",
            JobOperation::Resume(_) => "resume_job",
            JobOperation::Run(_) => "run_job",
            JobOperation::Preview(_) => "preview_job",
            JobOperation::Check(_) => "check_job",
            JobOperation::History(_) => "job_history",
            JobOperation::StartBackfill(_) => "start_backfill",
            JobOperation::GetBackfill(_) => "get_backfill",
            JobOperation::StopBackfill(_) => "stop_backfill",
            JobOperation::ListCalendars => "list_calendars",
            JobOperation::GetCalendar(_) => "get_calendar",
            JobOperation::PutCalendar(_) => "put_calendar",
            JobOperation::DeleteCalendar(_) => "delete_calendar",
        }
    }
}

/// The call that a method and the segments of a path name; `None` where the path is of something else.
pub fn find(method: &str, segments: &[&str]) -> Option<Result<JobOperation, Failure>> {
    use JobOperation as Op;
    let own = |id: &str| id.to_owned();
    let calls: Vec<(&'static str, Op)> = match segments {
        ["jobs"] => vec![("GET", Op::List), ("POST", Op::Create)],
        ["jobs", id] => {
            let mut calls = vec![
                ("GET", Op::Get(own(id))),
                ("PUT", Op::Replace(own(id))),
                ("PATCH", Op::Patch(own(id))),
                ("DELETE", Op::Delete(own(id))),
            ];
            // A job may be called so too: it has no POST of its own.
            if *id == "preview" {
                calls.push(("POST", Op::PreviewTriggers));
            }
            calls
        }
        ["jobs", id, "pause"] => vec![("POST", Op::Pause(own(id)))],
        ["jobs", id, "resume"] => vec![("POST", Op::Resume(own(id)))],
        ["jobs", id, "run"] => vec![("POST", Op::Run(own(id)))],
        ["jobs", id, "preview"] => vec![("POST", Op::Preview(own(id)))],
        ["jobs", id, "check"] => vec![("POST", Op::Check(own(id)))],
        ["jobs", id, "history"] => vec![("GET", Op::History(own(id)))],
        ["jobs", id, "backfill"] => vec![
            ("GET", Op::GetBackfill(own(id))),
            ("POST", Op::StartBackfill(own(id))),
            ("DELETE", Op::StopBackfill(own(id))),
        ],
        ["calendars"] => vec![("GET", Op::ListCalendars)],
        ["calendars", name] => vec![
            ("GET", Op::GetCalendar(own(name))),
            ("PUT", Op::PutCalendar(own(name))),
            ("DELETE", Op::DeleteCalendar(own(name))),
        ],
        _ => return None,
    };
    Some(choose(method, calls))
}

fn choose(method: &str, calls: Vec<(&'static str, JobOperation)>) -> Result<JobOperation, Failure> {
    let allow = match calls.iter().map(|(method, _)| *method).collect::<Vec<_>>()[..] {
        ["GET", "POST"] => "GET, POST",
        ["GET", "PUT", "PATCH", "DELETE"] => "GET, PUT, PATCH, DELETE",
        ["GET", "PUT", "PATCH", "DELETE", "POST"] => "GET, PUT, PATCH, DELETE, POST",
        ["GET", "POST", "DELETE"] => "GET, POST, DELETE",
        ["GET", "PUT", "DELETE"] => "GET, PUT, DELETE",
        ["POST"] => "POST",
        _ => "GET",
    };
    let found = calls.into_iter().find(|(allowed, _)| *allowed == method);
    found.map(|(_, operation)| operation).ok_or_else(|| Failure::method(allow))
}
