//! Triggers and calendars as the REST API writes them.

use orloj_model::id::Millis;
use orloj_model::trigger::{
    Calendar, CalendarParts, Cron, DailyWindow, DayRule, Dst, Gap, Kind, Limits, Overlap, Trigger,
    TriggerError, weekday_number,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem::FieldError;
use crate::time::Time;

/// The kind of a trigger; which of the other fields it takes follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum KindName {
    /// `expression`, `timeZone`, `dst`, `dayRule`.
    Cron,
    /// `everyMs`, `anchor`.
    FixedRate,
    /// `delayMs`.
    FixedDelay,
    /// `at`, or `delayMs` after the creation of the job.
    Once,
    /// `from`, `to`, `everyMs`, `daysOfWeek`, `timeZone`, `dst`.
    DailyWindow,
}

/// What clock changes do to local times; each part has a default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DstSpec {
    /// `skip` or `shift` (the default).
    #[serde(default)]
    #[schemars(with = "crate::rest::words::Gap")]
    pub gap: Gap,
    /// `first` (the default), `second` or `both`.
    #[serde(default)]
    #[schemars(with = "crate::rest::words::Overlap")]
    pub overlap: Overlap,
}

/// A weekday: a name (`MON`, `monday`) or a number (0-7, 0 and 7 are Sunday).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum WeekdaySpec {
    /// By number.
    Number(u8),
    /// By name.
    Name(String),
}

/// A trigger. One flat object, so that a field of another kind is an error that names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TriggerSpec {
    /// Which rule.
    pub kind: KindName,
    /// The cron expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
    /// The IANA zone of local times; UTC where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// What clock changes do to local times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst: Option<DstSpec>,
    /// `or` (the default) or `and`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<crate::rest::words::DayRule>")]
    pub day_rule: Option<DayRule>,
    /// The time between two fires, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<u64>,
    /// The first instant of a fixed rate; the creation of the job where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<Time>,
    /// The delay after the end of the last task, or of a trigger that fires once after the creation, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// When it fires once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// When the window opens: `HH:MM` or `HH:MM:SS`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// When it closes; up to `24:00`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// On which weekdays it opens; every day where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days_of_week: Option<Vec<WeekdaySpec>>,
    /// The first instant at which it may fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<Time>,
    /// The last instant at which it may fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_at: Option<Time>,
    /// How many tasks it may create.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_fires: Option<u64>,
    /// By how many milliseconds at most each fire is put off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_ms: Option<u64>,
}

impl KindName {
    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            KindName::Cron => "cron",
            KindName::FixedRate => "fixedRate",
            KindName::FixedDelay => "fixedDelay",
            KindName::Once => "once",
            KindName::DailyWindow => "dailyWindow",
        }
    }

    /// The fields that it takes beside those that every trigger takes.
    fn fields(self) -> &'static [&'static str] {
        match self {
            KindName::Cron => &["expression", "timeZone", "dst", "dayRule"],
            KindName::FixedRate => &["everyMs", "anchor"],
            KindName::FixedDelay => &["delayMs"],
            KindName::Once => &["at", "delayMs"],
            KindName::DailyWindow => &["from", "to", "everyMs", "daysOfWeek", "timeZone", "dst"],
        }
    }
}

impl TriggerSpec {
    /// A trigger of this kind with no other field.
    pub fn of(kind: KindName) -> TriggerSpec {
        TriggerSpec {
            kind,
            expression: None,
            time_zone: None,
            dst: None,
            day_rule: None,
            every_ms: None,
            anchor: None,
            delay_ms: None,
            at: None,
            from: None,
            to: None,
            days_of_week: None,
            start_at: None,
            end_at: None,
            max_fires: None,
            jitter_ms: None,
        }
    }

    /// Checks it. `created_at` is the creation of the job, also when the job is edited later: what counts from the
    /// creation then stays where it is, and the same body gives the same trigger.
    pub fn check(&self, created_at: Millis) -> Result<Trigger, TriggerError> {
        self.check_fields()?;
        let kind = match self.kind {
            KindName::Cron => Kind::Cron(Cron::new(
                self.needed("expression", self.expression.as_deref())?,
                self.zone(),
                self.dst(),
                self.day_rule.unwrap_or_default(),
                created_at,
            )?),
            KindName::FixedRate => Kind::FixedRate {
                every_ms: self.needed("everyMs", self.every_ms)?,
                // A fixed rate that begins later counts from its beginning.
                anchor: self.anchor.or(self.start_at).map_or(created_at, |at| at.0),
            },
            KindName::FixedDelay => {
                Kind::FixedDelay { delay_ms: self.needed("delayMs", self.delay_ms)?, anchor: created_at }
            }
            KindName::Once => Kind::Once { at: self.once(created_at)? },
            KindName::DailyWindow => Kind::DailyWindow(self.window()?),
        };
        let limits = Limits {
            start_at: self.start_at.map(|at| at.0),
            end_at: self.end_at.map(|at| at.0),
            max_fires: self.max_fires,
            jitter_ms: self.jitter_ms.unwrap_or(0),
        };
        Trigger::new(kind, limits)
    }

    fn check_fields(&self) -> Result<(), TriggerError> {
        let given = [
            ("expression", self.expression.is_some()),
            ("timeZone", self.time_zone.is_some()),
            ("dst", self.dst.is_some()),
            ("dayRule", self.day_rule.is_some()),
            ("everyMs", self.every_ms.is_some()),
            ("anchor", self.anchor.is_some()),
            ("delayMs", self.delay_ms.is_some()),
            ("at", self.at.is_some()),
            ("from", self.from.is_some()),
            ("to", self.to.is_some()),
            ("daysOfWeek", self.days_of_week.is_some()),
        ];
        let taken = self.kind.fields();
        match given.iter().find(|(field, given)| *given && !taken.contains(field)) {
            Some((field, _)) => {
                let message = format!("a trigger of kind {} takes {}", self.kind.name(), taken.join(", "));
                Err(TriggerError::new(field, "", message))
            }
            None => Ok(()),
        }
    }

    fn needed<T>(&self, field: &str, value: Option<T>) -> Result<T, TriggerError> {
        let message = || format!("a trigger of kind {} needs it", self.kind.name());
        value.ok_or_else(|| TriggerError::new(field, "", message()))
    }

    fn zone(&self) -> &str {
        self.time_zone.as_deref().unwrap_or("UTC")
    }

    fn dst(&self) -> Dst {
        let spec = self.dst.unwrap_or_default();
        Dst { gap: spec.gap, overlap: spec.overlap }
    }

    fn once(&self, created_at: Millis) -> Result<Millis, TriggerError> {
        match (self.at, self.delay_ms) {
            (Some(at), None) => Ok(at.0),
            (None, Some(0)) => Err(TriggerError::new(
                "delayMs",
                0,
                "at least 1: whatever a job fires is later than its creation",
            )),
            (None, Some(delay)) => i64::try_from(delay)
                .ok()
                .and_then(|delay| created_at.checked_add(delay))
                .ok_or_else(|| TriggerError::new("delayMs", delay, "further than any date")),
            (Some(_), Some(delay)) => Err(TriggerError::new("delayMs", delay, "either at or delayMs")),
            (None, None) => Err(TriggerError::new("at", "", "a trigger of kind once needs at or delayMs")),
        }
    }

    fn window(&self) -> Result<DailyWindow, TriggerError> {
        let days = match &self.days_of_week {
            None => (0..7).collect(),
            Some(days) => weekdays("daysOfWeek", days)?,
        };
        let from = self.needed("from", self.from.as_deref())?;
        let to = self.needed("to", self.to.as_deref())?;
        let every_ms = self.needed("everyMs", self.every_ms)?;
        DailyWindow::new((from, to), every_ms, &days, self.zone(), self.dst())
    }
}

/// The field as a JSON pointer into the body, and the value with the position of the first wrong character.
impl From<TriggerError> for FieldError {
    fn from(error: TriggerError) -> FieldError {
        let pointer = error.field.replace(['[', '.'], "/").replace(']', "");
        let TriggerError { value, message, position, .. } = error;
        match position {
            Some(at) => {
                FieldError::new(format!("/{pointer}"), format!("{value:?}: at character {at}: {message}"))
                    .at(at)
            }
            // What is not there has no value.
            None if value.is_empty() => FieldError::new(format!("/{pointer}"), message),
            None => FieldError::new(format!("/{pointer}"), format!("{value:?}: {message}")),
        }
    }
}

/// Checks the triggers of a job; errors begin with `triggers[2]`.
pub fn check_triggers(specs: &[TriggerSpec], created_at: Millis) -> Result<Vec<Trigger>, TriggerError> {
    specs
        .iter()
        .enumerate()
        .map(|(place, spec)| {
            spec.check(created_at).map_err(|error| error.under(&format!("triggers[{place}]")))
        })
        .collect()
}

/// How the API shows a stored trigger, with every default spelled out.
impl From<&Trigger> for TriggerSpec {
    fn from(trigger: &Trigger) -> TriggerSpec {
        let limits = trigger.limits();
        let zone = Some(trigger.time_zone().to_string());
        let dst = |dst: Dst| Some(DstSpec { gap: dst.gap, overlap: dst.overlap });
        let mut spec = match trigger.kind() {
            Kind::Cron(cron) => TriggerSpec {
                expression: Some(cron.expression().to_string()),
                time_zone: zone,
                dst: dst(cron.dst()),
                day_rule: Some(cron.day_rule()),
                ..TriggerSpec::of(KindName::Cron)
            },
            Kind::FixedRate { every_ms, anchor } => TriggerSpec {
                every_ms: Some(*every_ms),
                anchor: Some(Time(*anchor)),
                ..TriggerSpec::of(KindName::FixedRate)
            },
            Kind::FixedDelay { delay_ms, .. } => {
                TriggerSpec { delay_ms: Some(*delay_ms), ..TriggerSpec::of(KindName::FixedDelay) }
            }
            Kind::Once { at } => TriggerSpec { at: Some(Time(*at)), ..TriggerSpec::of(KindName::Once) },
            Kind::DailyWindow(window) => {
                let (from, to) = window.hours();
                TriggerSpec {
                    from: Some(from),
                    to: Some(to),
                    every_ms: Some(window.every_ms()),
                    days_of_week: Some(window.days().into_iter().map(shown_weekday).collect()),
                    time_zone: zone,
                    dst: dst(window.dst()),
                    ..TriggerSpec::of(KindName::DailyWindow)
                }
            }
        };
        spec.start_at = limits.start_at.map(Time);
        spec.end_at = limits.end_at.map(Time);
        spec.max_fires = limits.max_fires;
        spec.jitter_ms = (limits.jitter_ms > 0).then_some(limits.jitter_ms);
        spec
    }
}

/// A range of dates, both ends included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DateRangeSpec {
    /// `YYYY-MM-DD`.
    pub from: String,
    /// `YYYY-MM-DD`.
    pub to: String,
}

/// The days that a calendar excludes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CalendarSpec {
    /// The IANA zone by which an instant belongs to a day; UTC where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Single dates, `YYYY-MM-DD`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dates: Vec<String>,
    /// Ranges of dates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<DateRangeSpec>,
    /// Weekdays.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub weekdays: Vec<WeekdaySpec>,
    /// Days of every year, `MM-DD`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub yearly: Vec<String>,
}

impl CalendarSpec {
    /// Checks it.
    pub fn check(&self) -> Result<Calendar, TriggerError> {
        Calendar::new(&CalendarParts {
            time_zone: self.time_zone.clone(),
            dates: self.dates.clone(),
            ranges: self.ranges.iter().map(|range| (range.from.clone(), range.to.clone())).collect(),
            weekdays: weekdays("weekdays", &self.weekdays)?.into_iter().collect(),
            yearly: self.yearly.clone(),
        })
    }
}

impl From<&Calendar> for CalendarSpec {
    fn from(calendar: &Calendar) -> CalendarSpec {
        let parts = calendar.parts();
        CalendarSpec {
            time_zone: parts.time_zone,
            dates: parts.dates,
            ranges: parts.ranges.into_iter().map(|(from, to)| DateRangeSpec { from, to }).collect(),
            weekdays: parts.weekdays.into_iter().map(shown_weekday).collect(),
            yearly: parts.yearly,
        }
    }
}

fn weekdays(field: &str, days: &[WeekdaySpec]) -> Result<Vec<u8>, TriggerError> {
    let number = |(place, day): (usize, &WeekdaySpec)| {
        let text = match day {
            WeekdaySpec::Number(number) => number.to_string(),
            WeekdaySpec::Name(name) => name.clone(),
        };
        let message = "not a weekday: use SUN, MON, TUE, WED, THU, FRI, SAT or 0-7";
        weekday_number(&text).ok_or_else(|| TriggerError::new(&format!("{field}[{place}]"), &text, message))
    };
    days.iter().enumerate().map(number).collect()
}

fn shown_weekday(day: u8) -> WeekdaySpec {
    const NAMES: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
    WeekdaySpec::Name(NAMES[usize::from(day % 7)].to_string())
}

#[cfg(test)]
#[path = "trigger_tests.rs"]
mod tests;
