//! Instants as the REST API writes them: RFC 3339 in UTC with milliseconds.

use std::borrow::Cow;
use std::fmt;

use orloj_model::id::Millis;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The last instant that the API takes: 9999-12-30T21:59:59.999Z, the last that has a date with a four-digit
/// year at every offset from UTC.
pub const LAST: Millis = 253_402_207_199_999;

/// An instant from 1970-01-01T00:00:00Z to [`LAST`], in milliseconds since the Unix epoch.
///
/// On output always `2027-01-15T08:00:00.000Z`. On input any RFC 3339 date-time with a zone; what is finer
/// than a millisecond is rounded up, so that nothing runs early. A leap second is refused, because no Unix
/// time stands for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub Millis);

impl JsonSchema for Time {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

/// Why a text is not an instant that the API takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not an RFC 3339 date-time such as 2027-01-15T08:00:00Z: {}", self.text, self.why)
    }
}

impl std::error::Error for TimeError {}

/// The longest text that can be an instant: nanoseconds and an offset.
const TEXT_LIMIT: usize = 35;

impl Time {
    /// Reads an RFC 3339 date-time.
    pub fn parse(text: &str) -> Result<Time, TimeError> {
        let error = |why| TimeError { text: text.chars().take(TEXT_LIMIT + 1).collect(), why };
        shape(text.as_bytes()).map_err(error)?;
        let instant: jiff::Timestamp = text.parse().map_err(|_| error("no such date, time or offset"))?;
        let nanoseconds = instant.as_nanosecond();
        let milliseconds =
            nanoseconds.div_euclid(1_000_000) + i128::from(nanoseconds.rem_euclid(1_000_000) > 0);
        match Millis::try_from(milliseconds) {
            Ok(ms @ 0..=LAST) => Ok(Time(ms)),
            _ => Err(error("outside 1970-01-01T00:00:00Z to 9999-12-30T21:59:59.999Z")),
        }
    }
}

/// Checks `YYYY-MM-DDThh:mm:ss[.f]` and `Z` or `±hh:mm`, since the parser behind takes much more.
fn shape(text: &[u8]) -> Result<(), &'static str> {
    const PATTERN: &[u8] = b"0000-00-00T00:00:00";
    if text.len() > TEXT_LIMIT {
        return Err("it is too long");
    }
    if text.len() <= PATTERN.len() {
        return Err("date, T, time and zone are needed");
    }
    let matches = |byte: u8, pattern: u8| match pattern {
        b'0' => byte.is_ascii_digit(),
        b'T' => byte == b'T' || byte == b't',
        other => byte == other,
    };
    if !text.iter().zip(PATTERN).all(|(byte, pattern)| matches(*byte, *pattern)) {
        return Err("date, T, time and zone are needed");
    }
    if text[17] == b'6' {
        return Err("a leap second has no Unix time");
    }
    let mut rest = &text[PATTERN.len()..];
    if let [b'.', fraction @ ..] = rest {
        let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if !(1..=9).contains(&digits) {
            return Err("a fraction has 1 to 9 digits");
        }
        rest = &fraction[digits..];
    }
    match rest {
        [b'Z' | b'z'] => Ok(()),
        [b'+' | b'-', h1, h2, b':', m1, m2] if [h1, h2, m1, m2].iter().all(|d| d.is_ascii_digit()) => Ok(()),
        _ => Err("the zone is Z or an offset such as +02:00"),
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(instant) => write!(f, "{instant:.3}"),
            // Outside the years that a date can show; such a value cannot come in through the API.
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Time::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;

    #[test]
    fn shows_milliseconds_in_utc() {
        assert_eq!(Time(1_800_000_000_000).to_string(), "2027-01-15T08:00:00.000Z");
        assert_eq!(Time(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Time(LAST).to_string(), "9999-12-30T21:59:59.999Z");
        assert_eq!(Time(7).to_string(), "1970-01-01T00:00:00.007Z");
    }

    #[test]
    fn reads_rfc_3339_and_rounds_up() {
        for (text, ms) in [
            ("2027-01-15T08:00:00Z", 1_800_000_000_000),
            ("2027-01-15t08:00:00z", 1_800_000_000_000),
            ("2027-01-15T10:00:00+02:00", 1_800_000_000_000),
            ("2027-01-15T08:00:00.001Z", 1_800_000_000_001),
            ("2027-01-15T08:00:00.000000001Z", 1_800_000_000_001),
            ("2027-01-15T08:00:00.5Z", 1_800_000_000_500),
            ("1970-01-01T00:00:00Z", 0),
            ("9999-12-30T21:59:59.999Z", LAST),
        ] {
            assert_eq!(Time::parse(text), Ok(Time(ms)), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_not_exact() {
        for text in [
            "",
            "now",
            "1800000000000",
            "2027-01-15",
            "2027-01-15 08:00:00Z",
            "2027-01-15T08:00Z",
            "2027-01-15T08:00:00",
            "2027-01-15T08:00:00.Z",
            "2027-01-15T08:00:00,5Z",
            "2027-01-15T08:00:00+0200",
            "2027-01-15T08:00:00+02",
            "2027-01-15T08:00:00+02:00[Europe/Paris]",
            "2027-02-29T08:00:00Z",
            "2027-13-01T08:00:00Z",
            "2027-01-15T24:00:00Z",
            "2016-12-31T23:59:60Z",
            "0001-01-01T00:00:00Z",
            "1969-12-31T23:59:59.999Z",
            "10000-01-01T00:00:00Z",
            "+10000-01-01T00:00:00Z",
            "9999-12-30T21:59:59.9999Z",
            "9999-12-31T23:59:59Z",
            "2027-01-15T08:00:00.0000000001Z",
            "２０２７-01-15T08:00:00Z",
        ] {
            assert!(Time::parse(text).is_err(), "{text:?} passed");
        }
    }

    #[test]
    fn every_instant_comes_back() {
        for ms in [0, 1, 999, 1_000, 951_782_400_000, 1_800_000_000_123, LAST] {
            assert_eq!(Time::parse(&Time(ms).to_string()).unwrap(), Time(ms));
        }
    }
}
