//! When a certificate ends. Pure.
//!
//! The TLS library judges that by itself at every handshake; this is for saying it beforehand. Reads as much of
//! X.509 (RFC 5280, section 4.1) as leads to the two instants, and nothing of it panics.

use time::{Date, Month, PrimitiveDateTime, Time};

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The first and the last instant of a certificate in DER, in Unix seconds; `None` for what is no certificate.
pub fn of(certificate: &[u8]) -> Option<(i64, i64)> {
    let (inside, _) = expect(certificate, SEQUENCE)?;
    let (body, _) = expect(inside, SEQUENCE)?;
    // Version, serial number, signature algorithm, issuer; then the validity.
    let rest = expect(body, VERSION).map_or(body, |(_, rest)| rest);
    let (_, rest) = expect(rest, INTEGER)?;
    let (_, rest) = expect(rest, SEQUENCE)?;
    let (_, rest) = expect(rest, SEQUENCE)?;
    let (validity, _) = expect(rest, SEQUENCE)?;
    let (from, rest) = instant(validity)?;
    let (until, _) = instant(rest)?;
    Some((from, until))
}

/// The day of an instant, for people.
pub fn day(unix_s: i64) -> String {
    match time::OffsetDateTime::from_unix_timestamp(unix_s) {
        Ok(at) => format!("{:04}-{:02}-{:02}", at.year(), u8::from(at.month()), at.day()),
        Err(_) => format!("Unix second {unix_s}"),
    }
}

/// The content of an element with this tag, and what follows it.
fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = element(bytes)?;
    (found == tag).then_some((content, rest))
}

fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        short @ 0..=0x7f => (usize::from(*short), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

fn instant(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (tag, content, rest) = element(bytes)?;
    let text = std::str::from_utf8(content).ok()?.strip_suffix('Z')?;
    let (year, text) = match tag {
        UTC_TIME => {
            let short = number(text.get(..2)?)?;
            // RFC 5280, section 4.1.2.5.1.
            (if short < 50 { 2000 + short } else { 1900 + short }, text.get(2..)?)
        }
        GENERALIZED_TIME => (number(text.get(..4)?)?, text.get(4..)?),
        _ => return None,
    };
    let part = |place: usize| number(text.get(place * 2..place * 2 + 2)?)?.try_into().ok();
    let month = Month::try_from(part(0)?).ok()?;
    let date = Date::from_calendar_date(year, month, part(1)?).ok()?;
    let time = Time::from_hms(part(2)?, part(3)?, part(4)?).ok()?;
    Some((PrimitiveDateTime::new(date, time).assume_utc().unix_timestamp(), rest))
}

fn number(text: &str) -> Option<i32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{DAY, NOW, authority};

    #[test]
    fn the_instants_of_a_certificate_are_read() {
        let ours = authority("blue");
        for (from, until) in [(NOW - DAY, NOW + DAY), (0, 1), (1_000_000_000, 4_000_000_000)] {
            let issued = ours.issue_between("executor", "e1", from, until);
            assert_eq!(of(&issued.der()), Some((from, until)));
        }
        assert_eq!((day(0), day(4_000_000_000)), ("1970-01-01".to_owned(), "2096-10-02".to_owned()));
    }

    #[test]
    fn what_is_cut_or_changed_is_no_certificate_or_another() {
        let der = authority("blue").issue_between("executor", "e1", NOW, NOW + DAY).der();
        for cut in 0..der.len() {
            assert_eq!(of(&der[..cut]), None, "{cut}");
        }
        for at in 0..der.len() {
            for byte in [0, 0x30, 0x7f, 0x80, 0x84, 0xff] {
                let mut changed = der.clone();
                changed[at] = byte;
                let _ = of(&changed);
            }
        }
    }
}
