//! Cron expressions: from the text to sets of bits, and the next local time that they name.
//!
//! The grammar is a superset of Vixie's and most of Quartz's: five fields (minutes first), six (seconds first) or
//! seven (and a year behind); `L`, `L-3`, `15W`, `LW`, `5L`, `FRI#2`, names, lists, ranges that may wrap, steps, `?`
//! for a day field; `@hourly` and friends; `@every` and a duration. Weekdays count from Sunday as 0, and 7 is Sunday
//! too; this also holds with the day rule `and`, unlike Quartz. What could never fire is refused, not accepted.

use super::civil::{DAY_SECONDS, Date};
use super::days::{DayRule, MonthDays, WeekDays, days_of_month, shape};
use super::error::Fault;
use super::field::{Field, HOURS, MINUTES, MONTHS_OF_YEAR, Piece, Run, SECONDS, YEARS};

/// The longest expression, in characters.
pub const EXPRESSION_LIMIT: usize = 512;

/// The calendar, weekdays and all, repeats itself after so many years.
const CYCLE_YEARS: i32 = 400;
/// The last year that a search looks at.
const LAST_YEAR: i32 = 9999;

const MACROS: &[(&str, &str)] = &[
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// What a text says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// Fields.
    Fields(Box<Expression>),
    /// `@every`, in milliseconds; the bounds are whoever's it is.
    Every {
        every_ms: i128,
        /// Where the duration begins.
        at: usize,
    },
}

/// The fields of an expression, ready to be searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expression {
    seconds: u64,
    minutes: u64,
    hours: u64,
    months: u64,
    month_days: MonthDays,
    week_days: WeekDays,
    rule: DayRule,
    /// Empty for every year.
    years: Vec<Run>,
    /// Seconds, minutes or hours hold `*` or `/`: it counts time as it passes, not times of day.
    pub cadence: bool,
}

impl Parsed {
    /// Reads an expression.
    pub fn parse(text: &str, rule: DayRule) -> Result<Parsed, Fault> {
        for (position, found) in text.chars().enumerate() {
            if position == EXPRESSION_LIMIT {
                return Fault::new(position, format!("longer than {EXPRESSION_LIMIT} characters"));
            }
            if !(found.is_ascii_graphic() || found == ' ' || found == '\t') {
                return Fault::new(position, format!("{found:?} is not allowed"));
            }
        }
        let fields = split(text);
        match fields.first() {
            None => Fault::new(0, "it is empty"),
            Some(first) if first.text.starts_with('@') => named(&fields, *first, rule),
            Some(first) if first.text.contains('=') => {
                Fault::new(first.at, "a zone does not stand in the expression, but in timeZone")
            }
            Some(_) => Expression::parse(&fields, text.len(), rule).map(Parsed::fields),
        }
    }

    fn fields(expression: Expression) -> Parsed {
        Parsed::Fields(Box::new(expression))
    }
}

fn split(text: &str) -> Vec<Piece<'_>> {
    let mut fields = Vec::new();
    let mut at = 0;
    for part in text.split([' ', '\t']) {
        if !part.is_empty() {
            fields.push(Piece { text: part, at });
        }
        at += part.len() + 1;
    }
    fields
}

/// Reads what begins with `@`.
fn named(fields: &[Piece<'_>], first: Piece<'_>, rule: DayRule) -> Result<Parsed, Fault> {
    let name = first.text.to_ascii_lowercase();
    if name == "@every" {
        return every(fields);
    }
    if let Some(extra) = fields.get(1) {
        return Fault::new(extra.at, format!("nothing may stand behind {}", first.text));
    }
    match MACROS.iter().find(|(macro_name, _)| *macro_name == name) {
        Some((_, fields)) => Expression::parse(&split(fields), fields.len(), rule).map(Parsed::fields),
        None => Fault::new(
            first.at,
            format!(
                "{} is not known: use @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly or @every",
                first.text
            ),
        ),
    }
}

fn every(fields: &[Piece<'_>]) -> Result<Parsed, Fault> {
    let [name, duration] = fields else {
        let at = fields.get(2).unwrap_or(&fields[0]).at;
        return Fault::new(at, "@every takes one duration behind it, such as 90s or 1h30m");
    };
    debug_assert!(name.at < duration.at);
    match duration.text.parse::<jiff::SignedDuration>() {
        Ok(found) if found.as_nanos() % 1_000_000 != 0 => Fault::new(duration.at, "finer than a millisecond"),
        Ok(found) => Ok(Parsed::Every { every_ms: found.as_millis(), at: duration.at }),
        Err(_) => Fault::new(
            duration.at,
            format!("{:?} is not a duration such as 90s, 10m or 1h30m (a day is 24h)", duration.text),
        ),
    }
}

impl Expression {
    fn parse(fields: &[Piece<'_>], end: usize, rule: DayRule) -> Result<Expression, Fault> {
        let zero = Piece { text: "0", at: 0 };
        let (seconds, rest, year) = match fields.len() {
            5 => (zero, fields, None),
            6 => (fields[0], &fields[1..], None),
            7 => (fields[0], &fields[1..6], Some(fields[6])),
            8.. => return Fault::new(fields[7].at, "more than seven fields"),
            count => return Fault::new(end, format!("{count} fields: five, six or seven are needed")),
        };
        let time = [seconds, rest[0], rest[1]];
        let expression = Expression {
            seconds: bits(&SECONDS, time[0])?,
            minutes: bits(&MINUTES, time[1])?,
            hours: bits(&HOURS, time[2])?,
            month_days: MonthDays::parse(rest[2])?,
            months: bits(&MONTHS_OF_YEAR, rest[3])?,
            week_days: WeekDays::parse(rest[4])?,
            rule,
            years: year.map_or(Ok(Vec::new()), years)?,
            cadence: time.iter().any(|field| field.text.contains(['*', '/'])),
        };
        if !expression.is_possible() {
            return Fault::new(rest[2].at, "no date ever matches the day, month and weekday together");
        }
        Ok(expression)
    }

    /// Whether any date matches. Exact: without a year field every date of the calendar's cycle is looked at.
    fn is_possible(&self) -> bool {
        let first = self.years.iter().map(|run| i32::from(run.from)).min().unwrap_or(2000);
        self.next_day(Date { year: first, month: 1, day: 1 }.to_day()).is_some()
    }

    /// The first local second at or after `from` that the expression names.
    pub fn next_local(&self, from: i64) -> Option<i64> {
        let (day, second) = (from.div_euclid(DAY_SECONDS), from.rem_euclid(DAY_SECONDS));
        let found = self.next_day(day)?;
        if found == day
            && let Some(time) = self.next_time(second)
        {
            return Some(day * DAY_SECONDS + time);
        }
        let found = if found == day { self.next_day(day + 1)? } else { found };
        Some(found * DAY_SECONDS + self.next_time(0)?)
    }

    /// The first second of the day at or after `from`.
    fn next_time(&self, from: i64) -> Option<i64> {
        let (hour, minute, second) = (from / 3_600, from / 60 % 60, from % 60);
        if self.hours & 1 << hour != 0 {
            if self.minutes & 1 << minute != 0
                && let Some(second) = at_or_after(self.seconds, second)
            {
                return Some(hour * 3_600 + minute * 60 + second);
            }
            if let Some(minute) = at_or_after(self.minutes, minute + 1) {
                return Some(hour * 3_600 + minute * 60 + at_or_after(self.seconds, 0)?);
            }
        }
        let hour = at_or_after(self.hours, hour + 1)?;
        Some(hour * 3_600 + at_or_after(self.minutes, 0)? * 60 + at_or_after(self.seconds, 0)?)
    }

    /// The first day at or after `from` that the expression names.
    fn next_day(&self, from: i64) -> Option<i64> {
        let start = Date::of_day(from);
        let end = if self.years.is_empty() { start.year + CYCLE_YEARS } else { LAST_YEAR };
        for year in start.year..=end.min(LAST_YEAR) {
            if !self.has_year(year) {
                continue;
            }
            let first_month = if year == start.year { start.month } else { 1 };
            for month in (first_month..=12).filter(|month| self.months & 1 << month != 0) {
                let (length, weekday) = shape(year, month);
                let days = days_of_month(self.rule, &self.month_days, &self.week_days, length, weekday);
                let earliest = if (year, month) == (start.year, start.month) { start.day } else { 1 };
                if let Some(day) = at_or_after(u64::from(days), i64::from(earliest)) {
                    return Some(Date { year, month, day: day as u8 }.to_day());
                }
            }
        }
        None
    }

    fn has_year(&self, year: i32) -> bool {
        self.years.is_empty()
            || u16::try_from(year).is_ok_and(|year| self.years.iter().any(|run| run.holds(year)))
    }
}

fn bits(field: &Field, piece: Piece<'_>) -> Result<u64, Fault> {
    field.bits(piece)
}

fn years(piece: Piece<'_>) -> Result<Vec<Run>, Fault> {
    if piece.text == "*" {
        return Ok(Vec::new());
    }
    piece.items().map(|item| YEARS.run(item)).collect()
}

/// The lowest bit of the set at or above `from`.
fn at_or_after(set: u64, from: i64) -> Option<i64> {
    let rest =
        u32::try_from(from).ok().and_then(|from| u64::MAX.checked_shl(from)).map_or(0, |mask| set & mask);
    (rest != 0).then(|| i64::from(rest.trailing_zeros()))
}
