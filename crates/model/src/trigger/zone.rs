//! Time zones: which offset holds when, from the database that is compiled in, so that every replica of a release
//! has the same rules whatever its host has installed.

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::civil;
use super::error::TriggerError;
use crate::id::Millis;

/// The longest zone name of the database has 32 characters; longer texts are not looked up.
const NAME_LIMIT: usize = 64;

/// Half of this is further than any zone's offset from UTC, in seconds.
pub(crate) const FAR: i64 = 26 * 3_600;

/// A time zone by its name in the IANA database.
#[derive(Debug, Clone)]
pub struct Zone(TimeZone);

/// A stretch of time with one offset from UTC, between two changes of it. All in seconds since the epoch, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// Local time minus UTC.
    pub offset: i64,
    /// The change at its beginning and the offset before; there may be none.
    pub before: Option<(i64, i64)>,
    /// The change at its end and the offset behind; there may be none.
    pub behind: Option<(i64, i64)>,
}

/// What a local time is in a zone. All in seconds since the epoch, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolved {
    /// One instant.
    Once(i64),
    /// None: clocks jump over it at this instant.
    Gap(i64),
    /// Two instants: clocks go back.
    Twice(i64, i64),
}

impl Zone {
    /// The zone with this name, in any case of letters; old names that link to another are zones too.
    pub fn named(name: &str) -> Result<Zone, TriggerError> {
        let found = (name.len() <= NAME_LIMIT).then(|| TimeZoneDatabase::bundled().get(name).ok()).flatten();
        match found.filter(|zone| !zone.is_unknown() && zone.iana_name().is_some()) {
            Some(zone) => Ok(Zone(zone)),
            None => Err(TriggerError::new(
                "timeZone",
                name,
                "not a zone of the IANA database, such as Europe/Berlin or UTC",
            )),
        }
    }

    /// UTC.
    pub fn utc() -> Zone {
        Zone(TimeZone::UTC)
    }

    /// The name, spelled as the database does.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// Local time minus UTC at an instant, in seconds.
    pub(crate) fn offset(&self, second: i64) -> i64 {
        i64::from(self.0.to_offset(timestamp(second)).seconds())
    }

    /// The local second that clocks show at an instant.
    pub(crate) fn local(&self, at: Millis) -> i64 {
        let second = at.div_euclid(1_000);
        second + self.offset(second)
    }

    /// RFC 3339 of an instant with the zone's offset, to the second, or to the millisecond where there are any.
    pub fn show(&self, at: Millis) -> String {
        let second = at.div_euclid(1_000);
        let offset = self.offset(second);
        let fraction = match at.rem_euclid(1_000) {
            0 => String::new(),
            millis => format!(".{millis:03}"),
        };
        let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.abs() / 60);
        let local = civil::show(second + offset);
        format!("{local}{fraction}{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }

    /// The stretch in which an instant lies. Changes that leave the offset as it was do not count.
    pub(crate) fn span(&self, second: i64) -> Span {
        let offset = self.offset(second);
        let behind = self
            .0
            .following(timestamp(second))
            .map(|change| (change.timestamp().as_second(), i64::from(change.offset().seconds())))
            .find(|(_, after)| *after != offset);
        let before = self
            .0
            .preceding(timestamp(second.saturating_add(1)))
            .map(|change| change.timestamp().as_second())
            .map(|at| (at, self.offset(at - 1)))
            .find(|(_, earlier)| *earlier != offset);
        Span { offset, before, behind }
    }

    /// Which instants show a local second.
    pub(crate) fn resolve(&self, local: i64) -> Resolved {
        let mut seen = [None; 2];
        let mut second = local - FAR;
        let mut gap = second;
        while second <= local + FAR {
            let span = self.span(second);
            let end = span.behind.map_or(i64::MAX, |(at, _)| at);
            let begin = span.before.map_or(i64::MIN, |(at, _)| at);
            if (begin..end).contains(&(local - span.offset)) {
                seen[usize::from(seen[0].is_some())] = Some(local - span.offset);
            }
            // Where nothing shows it, clocks jumped over it at the end of the last span that lay before it.
            if end != i64::MAX && end + span.offset <= local {
                gap = end;
            }
            second = end;
        }
        match seen {
            [Some(first), Some(second)] => Resolved::Twice(first, second),
            [Some(only), None] => Resolved::Once(only),
            _ => Resolved::Gap(gap),
        }
    }
}

/// Two zones are the same when they have the same name.
impl PartialEq for Zone {
    fn eq(&self, other: &Zone) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Zone {}

fn timestamp(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or(if second < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str) -> Zone {
        Zone::named(name).unwrap()
    }

    #[test]
    fn names_are_those_of_the_database() {
        for name in
            ["Mars/Phobos", "UTC+8", "+08:00", "../../etc/passwd", "", "Local", "Etc/Unknown", "EST5EDTX"]
        {
            let error = Zone::named(name).unwrap_err();
            assert_eq!((error.field.as_str(), error.value.as_str()), ("timeZone", name));
        }
        assert_eq!(zone("america/new_york").name(), "America/New_York");
        assert_eq!(zone("US/Eastern").name(), "US/Eastern");
        assert_eq!(zone("utc").name(), "UTC");
        assert!(Zone::named(&"x".repeat(1_000_000)).is_err());
    }

    #[test]
    fn a_span_lies_between_two_changes_of_the_offset() {
        // New York, summer of 2027: 2027-03-14T07:00Z to 2027-11-07T06:00Z.
        let (begin, end) = (1_805_007_600, 1_825_567_200);
        let summer = Span { offset: -14_400, before: Some((begin, -18_000)), behind: Some((end, -18_000)) };
        for second in [begin, begin + 1, end - 1] {
            assert_eq!(zone("America/New_York").span(second), summer);
        }
        assert_eq!(zone("America/New_York").span(begin - 1).behind, Some((begin, -14_400)));
        assert_eq!(zone("UTC").span(0), Span { offset: 0, before: None, behind: None });
    }

    #[test]
    fn a_local_time_is_shown_never_once_or_twice() {
        let new_york = zone("America/New_York");
        let local = |text: &str| {
            text.parse::<jiff::civil::DateTime>()
                .unwrap()
                .to_zoned_datetime(TimeZone::UTC)
                .unwrap()
                .timestamp()
                .as_second()
        };
        assert_eq!(new_york.resolve(local("2027-03-14T02:30:00")), Resolved::Gap(1_805_007_600));
        assert_eq!(new_york.resolve(local("2027-03-14T03:00:00")), Resolved::Once(1_805_007_600));
        let twice = Resolved::Twice(1_825_563_600, 1_825_567_200);
        assert_eq!(new_york.resolve(local("2027-11-07T01:00:00")), twice);
        let apia = zone("Pacific/Apia").resolve(local("2011-12-30T12:00:00"));
        assert_eq!(apia, Resolved::Gap(local("2011-12-30T10:00:00")));
    }

    #[test]
    fn an_instant_is_shown_with_its_offset() {
        assert_eq!(zone("Asia/Kolkata").show(1_800_000_000_007), "2027-01-15T13:30:00.007+05:30");
        assert_eq!(zone("America/St_Johns").show(0), "1969-12-31T20:30:00-03:30");
    }
}
