//! Calendars: days on which a job does not fire.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::civil::{DAY_SECONDS, Date, month_length, weekday};
use super::error::TriggerError;
use super::zone::{Resolved, Zone};
use crate::id::Millis;

/// The most entries of each kind in one calendar.
pub const CALENDAR_LIMIT: usize = 10_000;

/// A range of dates, both ends included, as `YYYY-MM-DD`.
pub type DateRange = (String, String);

/// What a calendar excludes, as people write it. All of it is read in the calendar's zone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CalendarParts {
    /// The zone by which an instant belongs to a day; UTC where there is none.
    pub time_zone: Option<String>,
    /// Single dates, `YYYY-MM-DD`.
    pub dates: Vec<String>,
    /// Ranges of dates.
    pub ranges: Vec<DateRange>,
    /// Weekdays, 0-6 from Sunday.
    pub weekdays: BTreeSet<u8>,
    /// Days of every year, `MM-DD`.
    pub yearly: Vec<String>,
}

/// A checked calendar, as it is stored. Dates are days since 1970-01-01.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calendar {
    time_zone: String,
    /// Ranges of days, both ends included, in order and apart.
    ranges: Vec<(i64, i64)>,
    /// Bits 0-6 from Sunday.
    weekdays: u8,
    /// Month x 32 + day.
    yearly: BTreeSet<u16>,
}

impl Calendar {
    /// Checks a calendar. Errors name the field and the entry, such as `ranges[2].from`.
    pub fn new(parts: &CalendarParts) -> Result<Calendar, TriggerError> {
        let zone = Zone::named(parts.time_zone.as_deref().unwrap_or("UTC"))?;
        for (field, count) in
            [("dates", parts.dates.len()), ("ranges", parts.ranges.len()), ("yearly", parts.yearly.len())]
        {
            if count > CALENDAR_LIMIT {
                return Err(TriggerError::new(field, count, format!("at most {CALENDAR_LIMIT} entries")));
            }
        }
        let mut ranges = Vec::new();
        for (place, date) in parts.dates.iter().enumerate() {
            let day = parse_date(&format!("dates[{place}]"), date)?.to_day();
            ranges.push((day, day));
        }
        for (place, (from, to)) in parts.ranges.iter().enumerate() {
            let first = parse_date(&format!("ranges[{place}].from"), from)?.to_day();
            let last = parse_date(&format!("ranges[{place}].to"), to)?.to_day();
            if last < first {
                return Err(TriggerError::new(&format!("ranges[{place}].to"), to, "before the range begins"));
            }
            ranges.push((first, last));
        }
        let mut yearly = BTreeSet::new();
        for (place, text) in parts.yearly.iter().enumerate() {
            yearly.insert(parse_yearly(&format!("yearly[{place}]"), text)?);
        }
        let weekdays = parts.weekdays.iter().fold(0, |bits, weekday| bits | 1u8 << (weekday % 7));
        if weekdays == 0x7f {
            return Err(TriggerError::new("weekdays", "all seven", "every day would be excluded"));
        }
        Ok(Calendar { time_zone: zone.name().to_string(), ranges: joined(ranges), weekdays, yearly })
    }

    /// The same calendar as people write it; single dates come back as dates.
    pub fn parts(&self) -> CalendarParts {
        let date = |day: i64| {
            let date = Date::of_day(day);
            format!("{:04}-{:02}-{:02}", date.year, date.month, date.day)
        };
        let (dates, ranges): (Vec<_>, Vec<_>) = self.ranges.iter().partition(|(first, last)| first == last);
        CalendarParts {
            time_zone: Some(self.time_zone.clone()),
            dates: dates.into_iter().map(|(day, _)| date(day)).collect(),
            ranges: ranges.into_iter().map(|(first, last)| (date(first), date(last))).collect(),
            weekdays: (0..7).filter(|weekday| self.weekdays & 1 << weekday != 0).collect(),
            yearly: self.yearly.iter().map(|code| format!("{:02}-{:02}", code / 32, code % 32)).collect(),
        }
    }

    fn excludes(&self, day: i64) -> bool {
        if self.weekdays & 1 << weekday(day) != 0 {
            return true;
        }
        let date = Date::of_day(day);
        let behind = self.ranges.partition_point(|(first, _)| *first <= day);
        self.yearly.contains(&(u16::from(date.month) * 32 + u16::from(date.day)))
            || behind.checked_sub(1).is_some_and(|place| self.ranges[place].1 >= day)
    }
}

/// A calendar with its zone's rules at hand.
#[derive(Debug, Clone)]
pub(crate) struct Exclusion {
    calendar: Calendar,
    zone: Zone,
}

impl Exclusion {
    /// Looks up the zone.
    pub fn new(calendar: &Calendar) -> Result<Exclusion, TriggerError> {
        Ok(Exclusion { calendar: calendar.clone(), zone: Zone::named(&calendar.time_zone)? })
    }

    /// When the excluded day ends in which the instant lies, or `None` where it lies in none.
    pub fn until(&self, at: Millis) -> Option<Millis> {
        let day = self.zone.local(at).div_euclid(DAY_SECONDS);
        if !self.calendar.excludes(day) {
            return None;
        }
        let end = match self.zone.resolve((day + 1) * DAY_SECONDS) {
            Resolved::Once(second) | Resolved::Gap(second) | Resolved::Twice(second, _) => second * 1_000,
        };
        // Where clocks go back over midnight the day may show once more behind its end.
        Some(end.max(at + 1))
    }
}

/// Sorts ranges and joins those that overlap, so that a search is by halves.
fn joined(mut ranges: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    ranges.sort_unstable();
    let mut joined: Vec<(i64, i64)> = Vec::new();
    for (first, last) in ranges {
        match joined.last_mut() {
            Some((_, end)) if first <= *end => *end = last.max(*end),
            _ => joined.push((first, last)),
        }
    }
    joined
}

fn parse_date(field: &str, text: &str) -> Result<Date, TriggerError> {
    let error = || TriggerError::new(field, text, "not a date such as 2027-12-24");
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return Err(error()) };
    let digits = |part: &str, length| {
        (part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| part.parse::<u16>().ok())
            .flatten()
    };
    let (Some(year), Some(month), Some(day)) = (digits(year, 4), digits(month, 2), digits(day, 2)) else {
        return Err(error());
    };
    let date = Date { year: i32::from(year), month: month as u8, day: day as u8 };
    if date.exists() { Ok(date) } else { Err(TriggerError::new(field, text, "there is no such date")) }
}

fn parse_yearly(field: &str, text: &str) -> Result<u16, TriggerError> {
    // A leap year, so that 02-29 is a day of every year in which there is one.
    let date = parse_date(field, &format!("2000-{text}"))
        .map_err(|_| TriggerError::new(field, text, "not a day of the year such as 12-25"))?;
    debug_assert!(date.day <= month_length(2000, date.month));
    Ok(u16::from(date.month) * 32 + u16::from(date.day))
}
