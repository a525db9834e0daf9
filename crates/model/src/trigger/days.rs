//! The two day fields of a cron expression: which days of a month they name.

use super::civil::month_length;
use super::error::Fault;
use super::field::{DAYS, DAYS_OF_WEEK, Piece, number};

/// The day-of-month field. Sets of days are bits 1-31.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct MonthDays {
    /// Begins with `*` or `?`.
    pub free: bool,
    /// Plain days.
    days: u32,
    /// Days before the last one: bit 0 is `L`, bit 3 is `L-3`.
    from_last: u32,
    /// `15W`: the weekday (Monday to Friday) of the same month that is nearest to the day.
    nearest: u32,
    /// `LW`: the last Monday to Friday of the month.
    last_workday: bool,
}

impl MonthDays {
    /// Reads the field.
    pub fn parse(piece: Piece<'_>) -> Result<MonthDays, Fault> {
        if piece.text == "?" {
            return Ok(MonthDays { free: true, days: all_days(31), ..MonthDays::default() });
        }
        let mut found = MonthDays { free: piece.text.starts_with('*'), ..MonthDays::default() };
        for item in piece.items() {
            let upper = item.text.to_ascii_uppercase();
            match upper.as_str() {
                "L" => found.from_last |= 1,
                "LW" | "WL" => found.last_workday = true,
                _ => found.other(item, &upper)?,
            }
        }
        Ok(found)
    }

    fn other(&mut self, item: Piece<'_>, upper: &str) -> Result<(), Fault> {
        if let Some(text) = upper.strip_prefix("L-") {
            match number(Piece { text, at: item.at + 2 }) {
                Some(back @ 1..=30) => self.from_last |= 1 << back,
                _ => return Fault::new(item.at + 2, "L- takes a number of days from 1 to 30"),
            }
        } else if let Some(text) = upper.strip_suffix('W') {
            let day = Piece { text, at: item.at };
            match number(day) {
                Some(1..=31) => self.nearest |= 1 << DAYS.value(day)?,
                _ => {
                    return Fault::new(item.at, "W takes one day of the month before it, such as 15W, or LW");
                }
            }
        } else {
            self.days |= DAYS.item_bits(item)? as u32;
        }
        Ok(())
    }

    /// The days of a month of `length` days whose 1st falls on weekday `first`.
    fn in_month(&self, length: u8, first: u8) -> u32 {
        let mut days = self.days;
        for back in bits(self.from_last).filter(|back| *back < length) {
            days |= 1 << (length - back);
        }
        for day in bits(self.nearest).filter(|day| *day <= length) {
            days |= 1 << nearest_workday(day, length, first);
        }
        if self.last_workday {
            days |= 1 << nearest_workday(length, length, first);
        }
        days & all_days(length)
    }
}

/// The day-of-week field. Weekdays are 0-6 from Sunday.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WeekDays {
    /// Begins with `*` or `?`.
    pub free: bool,
    /// Plain weekdays, as bits.
    days: u8,
    /// `5L`: weekdays that count on their last day in the month, as bits.
    last: u8,
    /// `FRI#2`: bit 2 of number 5.
    nth: [u8; 7],
}

impl WeekDays {
    /// Reads the field.
    pub fn parse(piece: Piece<'_>) -> Result<WeekDays, Fault> {
        if piece.text == "?" {
            return Ok(WeekDays { free: true, days: 0x7f, ..WeekDays::default() });
        }
        let mut found = WeekDays { free: piece.text.starts_with('*'), ..WeekDays::default() };
        for item in piece.items() {
            if item.text.contains('#') {
                found.take_nth(item)?;
            } else if item.text.ends_with(['L', 'l']) {
                let weekday = Piece { text: &item.text[..item.text.len() - 1], at: item.at };
                if weekday.text.is_empty() {
                    return Fault::new(item.at, "L needs a weekday before it, such as 5L or FRIL");
                }
                found.last |= 1 << (DAYS_OF_WEEK.value(weekday)? % 7);
            } else {
                found.days |= DAYS_OF_WEEK.item_bits(item)? as u8;
            }
        }
        Ok(found)
    }

    fn take_nth(&mut self, item: Piece<'_>) -> Result<(), Fault> {
        let (weekday, nth) = item.split('#');
        let weekday = DAYS_OF_WEEK.value(weekday)? % 7;
        match nth.and_then(number) {
            Some(count @ 1..=5) => self.nth[usize::from(weekday)] |= 1 << count,
            _ => {
                let other = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
                let at = nth.map_or(item.at + item.text.len(), |nth| nth.at + other(nth.text));
                return Fault::new(at, "after # stands which one of the month: 1-5");
            }
        }
        Ok(())
    }

    /// The days of a month of `length` days whose 1st falls on weekday `first`.
    fn in_month(&self, length: u8, first: u8) -> u32 {
        let mut days = 0;
        for weekday in 0..7 {
            let earliest = (weekday + 7 - first) % 7 + 1;
            let all = (earliest..=length).step_by(7);
            if self.days & 1 << weekday != 0 {
                days |= all.clone().fold(0, |days, day| days | 1 << day);
            }
            if self.last & 1 << weekday != 0 {
                days |= all.clone().next_back().map_or(0, |day| 1 << day);
            }
            let nth = self.nth[usize::from(weekday)];
            days |=
                all.zip(1..).filter(|(_, count)| nth & 1 << count != 0).fold(0, |d, (day, _)| d | 1 << day);
        }
        days
    }
}

/// How the two day fields meet where both are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DayRule {
    /// As Vixie's cron: where both fields are given, either is enough. A field that begins with `*` or `?` is not
    /// given in this sense, so that `*/2` and a weekday must both match.
    #[default]
    Or,
    /// Both must match, as people who come from Quartz expect.
    And,
}

/// The days of a month that both fields, joined by the rule, name; bits 1-31. `first` is the weekday of the 1st.
pub(crate) fn days_of_month(rule: DayRule, month: &MonthDays, week: &WeekDays, length: u8, first: u8) -> u32 {
    let (by_day, by_weekday) = (month.in_month(length, first), week.in_month(length, first));
    if rule == DayRule::Or && !month.free && !week.free { by_day | by_weekday } else { by_day & by_weekday }
}

/// The Monday to Friday of the same month that is nearest to `day`.
fn nearest_workday(day: u8, length: u8, first: u8) -> u8 {
    match (first + day - 1) % 7 {
        // A Saturday moves back, a Sunday on, unless that would leave the month.
        6 if day == 1 => 3,
        6 => day - 1,
        0 if day == length => day - 2,
        0 => day + 1,
        _ => day,
    }
}

fn all_days(length: u8) -> u32 {
    u32::MAX >> (31 - u32::from(length)) & !1
}

fn bits(set: u32) -> impl Iterator<Item = u8> {
    (0..32).filter(move |bit| set & 1 << bit != 0)
}

/// The length and first weekday of a month.
pub(crate) fn shape(year: i32, month: u8) -> (u8, u8) {
    let first = super::civil::Date { year, month, day: 1 }.to_day();
    (month_length(year, month), super::civil::weekday(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(month: &str, week: &str, rule: DayRule, year: i32, number: u8) -> Vec<u8> {
        let month = MonthDays::parse(Piece { text: month, at: 0 }).unwrap();
        let week = WeekDays::parse(Piece { text: week, at: 0 }).unwrap();
        let (length, first) = shape(year, number);
        bits(days_of_month(rule, &month, &week, length, first)).collect()
    }

    #[test]
    fn last_days_and_nearest_weekdays_stay_in_their_month() {
        let of = |field, year, month| days(field, "*", DayRule::Or, year, month);
        assert_eq!(of("L", 2027, 2), [28]);
        assert_eq!(of("L,L-2", 2028, 2), [27, 29]);
        assert_eq!(of("L-30", 2027, 4), Vec::<u8>::new());
        // 2027-05-01 and 2027-01-31 are at a weekend, at the beginning and at the end of a month.
        assert_eq!((of("1W", 2027, 5), of("31W", 2027, 1), of("LW", 2027, 1)), (vec![3], vec![29], vec![29]));
        // 2027-08-15 is a Sunday, 2027-05-15 a Saturday.
        assert_eq!((of("15W", 2027, 8), of("15w", 2027, 5)), (vec![16], vec![14]));
        assert_eq!(of("31W", 2027, 4), Vec::<u8>::new());
    }

    #[test]
    fn the_day_rule_joins_the_two_fields() {
        let of = |month, week, rule| days(month, week, rule, 2027, 8);
        assert_eq!(of("13", "5", DayRule::Or), [6, 13, 20, 27]);
        assert_eq!(of("14", "5", DayRule::Or), [6, 13, 14, 20, 27]);
        assert_eq!(of("13", "FRI", DayRule::And), [13]);
        assert_eq!(of("?", "FRI#2", DayRule::Or), [13]);
        // As in Vixie's cron a field that begins with a star does not open the other one.
        assert_eq!(of("*/2", "5", DayRule::Or), [13, 27]);
    }

    #[test]
    fn what_never_means_a_day_is_refused() {
        for text in ["L", "1-3L", "L-3", "L,1", "MON#0", "MON#6", "6#2?", "#2", "MON#", "MON-FRI#2", "8"] {
            assert!(WeekDays::parse(Piece { text, at: 0 }).is_err(), "{text}");
        }
        for text in ["W", "32W", "1-5W", "L-0", "L-31", "L-", "LL", "0", "1?", "?,1"] {
            assert!(MonthDays::parse(Piece { text, at: 0 }).is_err(), "{text}");
        }
    }
}
