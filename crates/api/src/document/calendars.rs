//! The entries of the calls on calendars.

use orloj_wire::problem::Code;
use orloj_wire::rest::job::{Calendar, CalendarDeleted, CalendarPage};
use orloj_wire::rest::trigger::CalendarSpec;
use serde_json::{Value, json};

use super::call::Call;
use super::jobs::{guarded, paged};
use super::schema::Nothing;

const TAG: &str = "calendars";
const CALENDAR: &str = "/openapi/v1/calendars/{calendarName}";

/// The entries.
pub(super) fn calls() -> Vec<Call> {
    vec![list(), get(), put(), delete()]
}

fn list() -> Call {
    let page = json!({ "calendars": [calendar()], "nextPageToken": "djEuMTIz", "appliedIndex": 4711 });
    paged(Call::new(TAG, "GET", "/openapi/v1/calendars", "List calendars, by name"))
        .answers::<CalendarPage>(200, "A page.", page)
}

fn get() -> Call {
    Call::new(TAG, "GET", CALENDAR, "Show a calendar")
        .answers::<Calendar>(200, "The calendar.", calendar())
        .refuses(&[Code::CalendarNotFound])
}

fn put() -> Call {
    guarded(Call::new(TAG, "PUT", CALENDAR, "Create or replace a calendar"), "the calendar")
        .takes::<CalendarSpec>(spec())
        .answers::<Calendar>(200, "It was replaced.", calendar())
        .answers::<Calendar>(201, "It was created.", calendar())
        .refuses(&[Code::VersionConflict, Code::Conflict])
}

fn delete() -> Call {
    guarded(Call::new(TAG, "DELETE", CALENDAR, "Delete a calendar that no job uses"), "the calendar")
        .may_take::<Nothing>(json!({}))
        .answers::<CalendarDeleted>(
            200,
            "It is gone.",
            json!({ "name": "holidays.de", "appliedIndex": 4711 }),
        )
        .refuses(&[Code::CalendarNotFound, Code::CalendarInUse, Code::VersionConflict])
}

fn spec() -> Value {
    json!({
        "timeZone": "Europe/Berlin", "dates": ["2027-03-26"],
        "ranges": [{ "from": "2027-12-24", "to": "2027-12-31" }], "weekdays": ["SUN"], "yearly": ["05-01"],
    })
}

fn calendar() -> Value {
    json!({
        "name": "holidays.de", "version": 1, "createdAt": "2027-01-01T00:00:00.000Z",
        "updatedAt": "2027-01-01T00:00:00.000Z", "calendar": spec(), "appliedIndex": 4711,
    })
}
