//! Placeholders in the parameters of a job.
//!
//! | written | becomes | filled in |
//! |---|---|---|
//! | `${scheduledAt}` | the scheduled instant, `2027-01-15T08:00:00.000Z` | at the fire |
//! | `${date:%Y-%m-%d}` | the same in the trigger's zone, by a format | at the fire |
//! | `${jobId}`, `${taskId}` | the ids | at the fire |
//! | `${attempt}` | the attempt's number, from 1 | at the dispatch |
//! | `${shardIndex}`, `${shardTotal}` | the shard | at the dispatch |
//! | `$${` | `${` | at the dispatch |
//!
//! A format holds `%Y %m %d %H %M %S %j %y %b %a %z %%` and text between them. No value holds a character that JSON
//! must escape, so that parameters may be filled in as they are stored, without being read as JSON.

use std::fmt;

use super::civil::{DAY_SECONDS, Date, weekday};
use super::field::WEEKDAYS;
use super::zone::Zone;
use crate::id::{Millis, TaskId};

/// What is known at the fire.
#[derive(Debug, Clone)]
pub struct FireValues<'a> {
    /// The job.
    pub job: &'a str,
    /// Its task.
    pub task: TaskId,
    /// The scheduled instant.
    pub scheduled_at: Millis,
    /// The zone of the trigger.
    pub zone: &'a Zone,
}

/// What is known at the dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptValues {
    /// From 1.
    pub attempt: u32,
    /// From 0.
    pub shard_index: u16,
    /// How many.
    pub shard_total: u16,
}

/// A placeholder that means nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceholderError {
    /// What stands between the braces, cut to 60 characters.
    pub name: String,
    /// Where its `$` stands, in characters from 0.
    pub position: usize,
    /// What is wrong.
    pub message: &'static str,
}

impl fmt::Display for PlaceholderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "placeholder {:?} at character {}: {}", self.name, self.position, self.message)
    }
}

impl std::error::Error for PlaceholderError {}

const UNKNOWN: &str =
    "use scheduledAt, date:FORMAT, jobId, taskId, attempt, shardIndex or shardTotal, or write $${";

/// Checks every placeholder of a text: to be asked when a person sends the job.
pub fn check(text: &str) -> Result<(), PlaceholderError> {
    replace(text, false, |name| match name {
        "scheduledAt" | "jobId" | "taskId" | "attempt" | "shardIndex" | "shardTotal" => {
            Ok(Some(String::new()))
        }
        _ => match name.strip_prefix("date:") {
            Some(format) => check_format(format).map(|()| Some(String::new())),
            None => Err(UNKNOWN),
        },
    })
    .map(|_| ())
}

/// Fills in what is known at the fire and leaves the rest as it stands.
pub fn expand_fire(text: &str, values: &FireValues<'_>) -> Result<String, PlaceholderError> {
    replace(text, true, |name| {
        Ok(match name {
            "scheduledAt" => Some(instant(values.scheduled_at)),
            "jobId" => Some(values.job.to_string()),
            "taskId" => Some(values.task.to_string()),
            "attempt" | "shardIndex" | "shardTotal" => None,
            _ => {
                let format = name.strip_prefix("date:").ok_or(UNKNOWN)?;
                check_format(format)?;
                Some(format_date(format, values.zone, values.scheduled_at))
            }
        })
    })
}

/// Fills in what is known at the dispatch, into what [`expand_fire`] left.
pub fn expand_attempt(text: &str, values: AttemptValues) -> Result<String, PlaceholderError> {
    replace(text, false, |name| match name {
        "attempt" => Ok(Some(values.attempt.to_string())),
        "shardIndex" => Ok(Some(values.shard_index.to_string())),
        "shardTotal" => Ok(Some(values.shard_total.to_string())),
        _ => Err(UNKNOWN),
    })
}

/// Replaces each placeholder by what `value` gives for its name; `None` leaves it. Escapes are kept or taken off.
fn replace(
    text: &str,
    keep_escapes: bool,
    value: impl Fn(&str) -> Result<Option<String>, &'static str>,
) -> Result<String, PlaceholderError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(found) = rest.find("${") {
        let (before, from) = rest.split_at(found);
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str(if keep_escapes { "$${" } else { "${" });
            rest = &from[2..];
            continue;
        }
        out.push_str(before);
        let error = |name: &str, message| PlaceholderError {
            name: name.chars().take(60).collect(),
            position: text[..text.len() - from.len()].chars().count(),
            message,
        };
        let end = from.find('}').ok_or_else(|| error(&from[2..], "the closing brace is missing"))?;
        let name = &from[2..end];
        match value(name).map_err(|message| error(name, message))? {
            Some(value) => out.push_str(&value),
            None => out.push_str(&from[..=end]),
        }
        rest = &from[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

/// RFC 3339 in UTC with milliseconds.
fn instant(at: Millis) -> String {
    format!("{}.{:03}Z", super::civil::show(at.div_euclid(1_000)), at.rem_euclid(1_000))
}

fn check_format(format: &str) -> Result<(), &'static str> {
    if format.is_empty() {
        return Err("the format is empty");
    }
    let mut chars = format.chars();
    while let Some(char) = chars.next() {
        match char {
            '%' => match chars.next() {
                Some('Y' | 'm' | 'd' | 'H' | 'M' | 'S' | 'j' | 'y' | 'b' | 'a' | 'z' | '%') => {}
                _ => return Err("a format holds %Y %m %d %H %M %S %j %y %b %a %z %%"),
            },
            // They would end the JSON string around the placeholder, or begin an escape in it.
            '"' | '\\' => return Err("a format holds no quote and no backslash"),
            _ => {}
        }
    }
    Ok(())
}

fn format_date(format: &str, zone: &Zone, at: Millis) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let local = zone.local(at);
    let (day, second) = (local.div_euclid(DAY_SECONDS), local.rem_euclid(DAY_SECONDS));
    let date = Date::of_day(day);
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(char) = chars.next() {
        if char != '%' {
            out.push(char);
            continue;
        }
        out += &match chars.next() {
            Some('Y') => format!("{:04}", date.year),
            Some('y') => format!("{:02}", date.year.rem_euclid(100)),
            Some('m') => format!("{:02}", date.month),
            Some('b') => MONTHS[usize::from(date.month - 1)].to_string(),
            Some('d') => format!("{:02}", date.day),
            Some('j') => format!("{:03}", day - Date { month: 1, day: 1, ..date }.to_day() + 1),
            Some('a') => title(WEEKDAYS[usize::from(weekday(day))]),
            Some('H') => format!("{:02}", second / 3_600),
            Some('M') => format!("{:02}", second / 60 % 60),
            Some('S') => format!("{:02}", second % 60),
            Some('z') => {
                zone.show(at - at.rem_euclid(1_000)).split_off(super::civil::show(0).len()).replace(':', "")
            }
            _ => "%".to_string(),
        };
    }
    out
}

/// `SUN` as `Sun`.
fn title(name: &str) -> String {
    name[..1].to_string() + &name[1..].to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2027-03-14T07:00:00Z: 03:00 in New York, a second after 01:59:59.
    const AT: Millis = 1_805_007_600_000;

    fn fire(text: &str) -> Result<String, PlaceholderError> {
        let zone = Zone::named("America/New_York").unwrap();
        let task = TaskId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        expand_fire(text, &FireValues { job: "nightly", task, scheduled_at: AT, zone: &zone })
    }

    fn both(text: &str) -> String {
        let values = AttemptValues { attempt: 2, shard_index: 3, shard_total: 8 };
        check(text).unwrap();
        expand_attempt(&fire(text).unwrap(), values).unwrap()
    }

    #[test]
    fn every_placeholder_is_filled_in() {
        for (text, right) in [
            ("", ""),
            ("no $ and no {braces}", "no $ and no {braces}"),
            ("${scheduledAt}", "2027-03-14T07:00:00.000Z"),
            ("${jobId}/${taskId}", "nightly/tsk_AAECAwQFBgcICQoLDA0ODw"),
            ("${attempt} ${shardIndex}/${shardTotal}", "2 3/8"),
            ("day=${date:%Y-%m-%d}", "day=2027-03-14"),
            ("${date:%y%m%d %H:%M:%S %j %b %a %z 100%%}", "270314 03:00:00 073 Mar Sun -0400 100%"),
            (r#"{"d": "${date:%d}", "n": "${attempt}"}"#, r#"{"d": "14", "n": "2"}"#),
            ("für ${jobId}", "für nightly"),
        ] {
            assert_eq!(both(text), right, "{text}");
        }
    }

    #[test]
    fn an_escape_survives_both_fillings() {
        assert_eq!(fire("$${HOME} ${attempt}").unwrap(), "$${HOME} ${attempt}");
        assert_eq!(both("echo $${HOME} ${attempt}"), "echo ${HOME} 2");
        assert_eq!(both("$$${HOME}"), "$${HOME}");
    }

    #[test]
    fn what_means_nothing_is_refused_with_its_place() {
        for (text, name, position) in [
            ("${HOME}", "HOME", 0),
            ("é ${scheduledat}", "scheduledat", 2),
            ("${}", "", 0),
            ("${jobId} ${jobId", "jobId", 9),
            ("${date:}", "date:", 0),
            ("${date:%Q}", "date:%Q", 0),
            ("${date:50%}", "date:50%", 0),
            (r#"${date:"}"#, r#"date:""#, 0),
        ] {
            for error in [check(text).unwrap_err(), fire(text).unwrap_err()] {
                assert_eq!((error.name.as_str(), error.position), (name, position), "{text}");
            }
        }
    }
}
