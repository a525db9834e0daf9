//! Triggers: when a job fires. Pure arithmetic on instants in UTC milliseconds; whoever calls brings the time.
//!
//! A [`Trigger`] is what is stored: checked once, when a person sends it, and safe in a binary encoding. A
//! [`Schedule`] is the triggers and calendars of one job made ready for computing, and answers what people ask:
//!
//! * [`Schedule::next`]: the next instant, what it is called in local time and what was passed over on the way;
//! * [`Schedule::preview`]: the next so many, with what clock changes and calendars do to them;
//! * [`Schedule::range`]: all of a stretch of the past, for a backfill;
//! * [`Schedule::catch_up`]: which instants fire and which are skipped when nobody was there in time;
//! * [`overlap::decide`]: what happens when the job's last task is still open;
//! * [`placeholder`]: what parameters say of the instant that they run for.
//!
//! Only the leader computes; what it finds travels in the entry, because replicas of two releases may know two
//! editions of the time-zone database.

mod calendar;
mod civil;
mod cron;
mod days;
mod error;
mod expression;
mod field;
mod jitter;
mod misfire;
mod occurrence;
pub mod overlap;
pub mod placeholder;
mod preview;
mod schedule;
mod search;
mod window;
mod zone;

use serde::{Deserialize, Serialize};

use crate::id::Millis;

pub use calendar::{CALENDAR_LIMIT, Calendar, CalendarParts, DateRange};
pub use cron::Cron;
pub use days::DayRule;
pub use error::TriggerError;
pub use expression::EXPRESSION_LIMIT;
pub use jitter::jitter_ms;
pub use misfire::{BURST_LIMIT, CatchUp, Due, MISSED_COUNTED, Misfire, Missed};
pub use occurrence::{DstEffect, Passed, SkipReason};
pub use preview::{PASSED_LIMIT, Preview, PreviewFire};
pub use schedule::{Next, Progress, Schedule};
pub use zone::Zone;

/// The shortest time between two fires of a trigger: the default tick of the wheel.
pub const MIN_EVERY_MS: u64 = 10;
/// The longest time between two fires of a trigger, and the longest delay: about a hundred years.
pub const MAX_EVERY_MS: u64 = 100 * 366 * 86_400_000;
/// The longest jitter: a day.
pub const MAX_JITTER_MS: u64 = 86_400_000;
/// The most triggers of a job.
pub const TRIGGER_LIMIT: usize = 32;
/// The last instant that a trigger may name: 9999-12-30T21:59:59.999Z.
pub const LAST_INSTANT: Millis = search::LAST_SECOND * 1_000 + 999;

/// What becomes of a local time that clocks jump over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Gap {
    /// It is skipped.
    Skip,
    /// It fires at the end of the gap; several such times fire once.
    #[default]
    Shift,
}

/// What becomes of a local time that comes twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Overlap {
    /// It fires the first time.
    #[default]
    First,
    /// It fires the second time.
    Second,
    /// It fires both times.
    Both,
}

/// What becomes of times of day when the clocks change. Has no effect on what keeps a cadence: see [`Cron`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Dst {
    /// Of one that does not exist.
    pub gap: Gap,
    /// Of one that comes twice.
    pub overlap: Overlap,
}

/// Every so often between two times of day.
///
/// The window opens at `from` and closes at `to`, which belongs to it; one whose end is not later than its beginning
/// closes on the next day. Within it fires follow each other in elapsed time. `dst` says what its ends mean when
/// clocks change: a beginning in a gap is shifted to its end, or there is no window on that day; ends that come
/// twice are the first or the second ones, or with `both` the first beginning and the second end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DailyWindow {
    /// When it opens, in seconds of the day.
    pub(crate) from: u32,
    /// When it closes, in seconds of the day; 86,400 is the end of the day.
    pub(crate) to: u32,
    /// The time between two fires, in milliseconds.
    pub(crate) every_ms: u64,
    /// The weekdays on which it opens, as bits 0-6 from Sunday.
    pub(crate) days: u8,
    /// The zone's name.
    pub(crate) time_zone: String,
    /// What clock changes do to its ends.
    pub(crate) dst: Dst,
}

/// The rule of a trigger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// By an expression.
    Cron(Cron),
    /// At `anchor`, and every so often from there.
    FixedRate {
        /// Milliseconds.
        every_ms: u64,
        /// The first instant.
        anchor: Millis,
    },
    /// So long after the job's last task ended; the first time so long after `anchor`.
    FixedDelay {
        /// Milliseconds.
        delay_ms: u64,
        /// The creation of the job.
        anchor: Millis,
    },
    /// Once.
    Once {
        /// When.
        at: Millis,
    },
    /// Every so often between two times of day.
    DailyWindow(DailyWindow),
}

/// When a trigger is in force, and by how much its fires are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// The first instant at which it may fire.
    pub start_at: Option<Millis>,
    /// The last instant at which it may fire.
    pub end_at: Option<Millis>,
    /// How many tasks it may create; instants that were skipped do not count.
    pub max_fires: Option<u64>,
    /// Each fire is due up to so many milliseconds after its scheduled instant, always the same for one job and
    /// instant.
    pub jitter_ms: u64,
}

/// One rule that says when a job fires, checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    kind: Kind,
    limits: Limits,
}

impl Trigger {
    /// Checks a trigger. Errors name the field as the API writes it.
    pub fn new(kind: Kind, limits: Limits) -> Result<Trigger, TriggerError> {
        match &kind {
            Kind::Cron(cron) => cron.check_anchor()?,
            Kind::FixedRate { every_ms, anchor } => {
                check_every("everyMs", *every_ms)?;
                check_instant("anchor", *anchor)?;
            }
            Kind::FixedDelay { delay_ms, anchor } => {
                check_every("delayMs", *delay_ms)?;
                check_instant("anchor", *anchor)?;
            }
            Kind::Once { at } => check_instant("at", *at)?,
            Kind::DailyWindow(_) => {}
        }
        for (field, at) in [("startAt", limits.start_at), ("endAt", limits.end_at)] {
            at.map_or(Ok(()), |at| check_instant(field, at))?;
        }
        if let (Some(start), Some(end)) = (limits.start_at, limits.end_at)
            && end < start
        {
            let message = format!("before startAt, {}", shown(start));
            return Err(TriggerError::new("endAt", shown(end), message));
        }
        if limits.max_fires == Some(0) {
            return Err(TriggerError::new("maxFires", 0, "at least 1"));
        }
        if limits.jitter_ms > MAX_JITTER_MS {
            return Err(TriggerError::new("jitterMs", limits.jitter_ms, format!("at most {MAX_JITTER_MS}")));
        }
        Ok(Trigger { kind, limits })
    }

    /// Its rule.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// When it is in force.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The name of the zone in which it reads local times; UTC of those that read none.
    pub fn time_zone(&self) -> &str {
        match &self.kind {
            Kind::Cron(cron) => cron.time_zone(),
            Kind::DailyWindow(window) => &window.time_zone,
            _ => "UTC",
        }
    }
}

impl DailyWindow {
    /// Checks a window. `from` and `to` are `HH:MM` or `HH:MM:SS`, and `to` may be `24:00`; `days` are weekdays,
    /// 0-6 from Sunday.
    pub fn new(
        (from, to): (&str, &str),
        every_ms: u64,
        days: &[u8],
        time_zone: &str,
        dst: Dst,
    ) -> Result<DailyWindow, TriggerError> {
        let time_zone = Zone::named(time_zone)?.name().to_string();
        let (opens, closes) = (time_of_day("from", from)?, time_of_day("to", to)?);
        if opens == 86_400 {
            return Err(TriggerError::new("from", from, "a window opens at 23:59:59 at the latest"));
        }
        if opens == closes {
            return Err(TriggerError::new("to", to, "the same as from: for whole days write 00:00 to 24:00"));
        }
        if every_ms > 86_400_000 {
            return Err(TriggerError::new("everyMs", every_ms, "longer than a day"));
        }
        check_every("everyMs", every_ms)?;
        let bits = days.iter().fold(0, |bits, day| bits | 1u8 << (day % 7));
        if bits == 0 {
            return Err(TriggerError::new("daysOfWeek", "", "no day at all"));
        }
        Ok(DailyWindow { from: opens, to: closes, every_ms, days: bits, time_zone, dst })
    }

    /// When it opens and closes, as `HH:MM:SS`.
    pub fn hours(&self) -> (String, String) {
        let show = |at: u32| format!("{:02}:{:02}:{:02}", at / 3_600, at / 60 % 60, at % 60);
        (show(self.from), show(self.to))
    }

    /// The time between two fires, in milliseconds.
    pub fn every_ms(&self) -> u64 {
        self.every_ms
    }

    /// The weekdays on which it opens, 0-6 from Sunday.
    pub fn days(&self) -> Vec<u8> {
        (0..7).filter(|day| self.days & 1 << day != 0).collect()
    }

    /// What clock changes do to its ends.
    pub fn dst(&self) -> Dst {
        self.dst
    }
}

/// The number of a weekday, 0-6 from Sunday, by its name (three letters or all of it) or number (7 is Sunday too).
pub fn weekday_number(text: &str) -> Option<u8> {
    const FULL: [&str; 7] = ["SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY"];
    let upper = text.to_ascii_uppercase();
    let by_name = FULL.iter().position(|full| upper == *full || upper == full[..3]);
    let by_number = || text.parse().ok().filter(|_| text.len() == 1).filter(|number| *number < 8);
    by_name.or_else(by_number).map(|number: usize| (number % 7) as u8)
}

fn check_every(field: &str, every_ms: u64) -> Result<(), TriggerError> {
    if (MIN_EVERY_MS..=MAX_EVERY_MS).contains(&every_ms) {
        return Ok(());
    }
    Err(TriggerError::new(field, every_ms, format!("outside {MIN_EVERY_MS}-{MAX_EVERY_MS} milliseconds")))
}

/// An instant as the API writes it; one that has no date as it is stored.
fn shown(at: Millis) -> String {
    match jiff::Timestamp::from_millisecond(at) {
        Ok(instant) => format!("{instant:.3}"),
        Err(_) => format!("{at} ms since 1970-01-01T00:00:00Z"),
    }
}

fn check_instant(field: &str, at: Millis) -> Result<(), TriggerError> {
    if (0..=LAST_INSTANT).contains(&at) {
        return Ok(());
    }
    Err(TriggerError::new(field, shown(at), "outside 1970-01-01T00:00:00Z to 9999-12-30T21:59:59.999Z"))
}

fn time_of_day(field: &str, text: &str) -> Result<u32, TriggerError> {
    let error = || TriggerError::new(field, text, "not a time of day such as 09:00 or 17:30:00");
    let parts: Vec<&str> = text.split(':').collect();
    if !(2..=3).contains(&parts.len()) || parts.iter().any(|part| part.len() != 2) {
        return Err(error());
    }
    let mut seconds = [0; 3];
    for (place, part) in parts.iter().enumerate() {
        let digits = part.bytes().all(|byte| byte.is_ascii_digit());
        seconds[place] = part.parse::<u32>().ok().filter(|_| digits).ok_or_else(error)?;
    }
    let [hour, minute, second] = seconds;
    let at = hour * 3_600 + minute * 60 + second;
    if minute > 59 || second > 59 || at > 86_400 { Err(error()) } else { Ok(at) }
}
