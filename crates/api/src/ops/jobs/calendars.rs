//! Calendars.

use orloj_model::command::JobCommand;
use orloj_model::id::CalendarName;
use orloj_model::job::{CalendarKey, CalendarRow, JobKey};
use orloj_model::{Refusal, Reply};
use orloj_wire::problem::{Code, FieldError};
use orloj_wire::rest::MAX_PAGE;
use orloj_wire::rest::job::{CalendarDeleted, CalendarPage};
use orloj_wire::rest::trigger::CalendarSpec;

use super::Call;
use super::read::foreign_token;
use crate::backend::At;
use crate::ops::{DEFAULT_PAGE, Nothing, unexpected};
use crate::outcome::{Answer, Failure};
use crate::page::Scope;
use crate::view;

/// The jobs that use a calendar are counted up to so many.
const USERS_COUNTED: usize = 1_000;
/// So many of them are named.
const USERS_NAMED: usize = 5;

/// A calendar stays while jobs use it. The last of `users` only tells that there are more than are counted.
fn in_use(name: &str, users: &[JobKey]) -> Failure {
    let named: Vec<&str> = users.iter().take(USERS_NAMED).map(|key| key.job.as_str()).collect();
    let more = match users.len() {
        0..=USERS_NAMED => String::new(),
        count if count > USERS_COUNTED => format!(" and more than {} others", USERS_COUNTED - USERS_NAMED),
        count => format!(" and {} more", count - USERS_NAMED),
    };
    let detail = format!(
        "jobs use calendar {name:?}: {}{more}; take it out of their calendars first",
        named.join(", ")
    );
    Failure::new(Code::CalendarInUse, detail)
}

impl Call<'_> {
    /// The calendar in a path; a name of another form names none.
    fn calendar_key(&self, name: &str) -> Result<CalendarKey, Failure> {
        let calendar = CalendarName::new(name).map_err(|_| Failure::calendar_not_found(name))?;
        Ok(CalendarKey { caller: self.caller()?.clone(), calendar })
    }

    /// A calendar as this node has it.
    fn calendar_row(&self, key: &CalendarKey) -> Result<Option<CalendarRow>, Failure> {
        let names = std::slice::from_ref(&key.calendar);
        Ok(self.shared.backend.calendars_named(&key.caller, names)?.value.into_iter().next().flatten())
    }

    fn shown_calendar(&self, key: &CalendarKey, status: u16) -> Result<Answer, Failure> {
        let name = &key.calendar;
        let At { applied, value } =
            self.shared.backend.calendars_named(&key.caller, std::slice::from_ref(name))?;
        match value.into_iter().next().flatten() {
            Some(row) => Ok(Answer::json(status, &view::calendar(key, &row, applied)).at(applied)),
            None => Err(Failure::calendar_not_found(name.as_str())),
        }
    }

    pub(super) async fn get_calendar(&self, name: &str) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let key = self.calendar_key(name)?;
        self.up_to_date().await?;
        self.shown_calendar(&key, 200)
    }

    pub(super) async fn put_calendar(&self, name: &str) -> Result<Answer, Failure> {
        let expected = self.guard()?;
        let spec: CalendarSpec = self.body()?;
        let refuse = |fault| Failure::fields(Code::ValidationFailed, vec![fault]);
        let parts = spec.check().map_err(|error| refuse(error.into()))?;
        let calendar = CalendarName::new(name)
            .map_err(|error| refuse(FieldError::new("name", format!("{name:?}: {error}"))))?;
        let key = CalendarKey { caller: self.caller()?.clone(), calendar };
        self.up_to_date().await?;
        let known = self.calendar_row(&key)?.is_some();
        let claim = Some(self.claim());
        let command =
            JobCommand::PutCalendar { calendar: key.clone(), expected, parts: parts.clone(), claim };
        match self.propose_job(command).await?.reply {
            Reply::Calendar { .. } => self.shown_calendar(&key, if known { 200 } else { 201 }),
            Reply::Refused(Refusal::VersionMismatch { current }) => {
                match self.calendar_row(&key)?.filter(|row| row.calendar == parts) {
                    // It is what this request makes of it: the answer to an earlier try was lost.
                    Some(row) if expected == Some(0) || expected == Some(row.version - 1) => {
                        self.shown_calendar(&key, 200)
                    }
                    _ => Err(Refusal::VersionMismatch { current }.into()),
                }
            }
            Reply::Refused(refusal) => Err(refusal.into()),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) async fn delete_calendar(&self, name: &str) -> Result<Answer, Failure> {
        let expected = self.guard()?;
        let Nothing {} = self.optional_body()?;
        let calendar = self.calendar_key(name)?;
        let command =
            JobCommand::DeleteCalendar { calendar: calendar.clone(), expected, claim: Some(self.claim()) };
        let applied = self.propose_job(command).await?;
        match applied.reply {
            Reply::Done => {
                let body = CalendarDeleted { name: name.to_owned(), applied_index: applied.index };
                Ok(Answer::json(200, &body).at(applied.index))
            }
            Reply::Refused(Refusal::CalendarInUse) => {
                let users = self.shared.backend.calendar_users(&calendar, USERS_COUNTED + 1)?.value;
                Err(in_use(name, &users))
            }
            Reply::Refused(refusal) => Err(refusal.into()),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) async fn list_calendars(&self) -> Result<Answer, Failure> {
        let caller = self.caller()?;
        let mut parameters = self.request.parameters()?;
        let limit = parameters.number("page_size", 1, MAX_PAGE as u64)?.unwrap_or(DEFAULT_PAGE) as usize;
        let token = parameters.text("page_token");
        parameters.finish()?;
        let (scope, now) = (Scope { caller: caller.as_str(), filters: "calendars" }, self.wall_ms());
        let after = token.map(|token| self.shared.tokens.open_text(scope, token, now)).transpose()?;
        let after = after.map(CalendarName::new).transpose().map_err(|_| foreign_token())?;
        self.up_to_date().await?;
        let At { applied, value: mut rows } =
            self.shared.backend.calendars(caller, after.as_ref(), limit + 1)?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| more).map(|(key, _)| key.calendar.as_str());
        let body = CalendarPage {
            next_page_token: next.map(|name| self.shared.tokens.seal_text(scope, name, now)),
            calendars: rows.iter().map(|(key, row)| view::calendar(key, row, applied)).collect(),
            applied_index: applied,
        };
        Ok(Answer::json(200, &body).at(applied))
    }
}
