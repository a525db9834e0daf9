//! The header `Retry-After` of a receiver that cannot take a callback now.

use jiff::fmt::rfc2822::DateTimeParser;

/// Milliseconds from `now_ms` on: whole seconds, or an HTTP date. `None` for anything else; 0 for a date that has
/// passed.
pub fn retry_after_ms(text: &str, now_ms: i64) -> Option<u64> {
    let text = text.trim();
    if (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse::<u64>().ok().map(|seconds| seconds * 1000);
    }
    let at = DateTimeParser::new().parse_timestamp(text).ok()?.as_millisecond();
    Some(u64::try_from(at.saturating_sub(now_ms)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates() {
        let now = 1_445_412_480_000;
        for (text, expected) in [
            ("120", Some(120_000)),
            ("0", Some(0)),
            (" 7 ", Some(7_000)),
            ("999999999", Some(999_999_999_000)),
            ("Wed, 21 Oct 2015 07:29:00 GMT", Some(60_000)),
            ("Wed, 21 Oct 2015 07:27:00 GMT", Some(0)),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("99999999999999999999", None),
            ("soon", None),
        ] {
            assert_eq!(retry_after_ms(text, now), expected, "{text:?}");
        }
    }
}
