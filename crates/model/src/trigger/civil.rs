//! The proleptic Gregorian calendar in plain numbers.
//!
//! A *day* is counted from 1970-01-01, a *local second* from that day's midnight, both without any zone. Weekdays
//! are 0-6 from Sunday. The conversions are the well-known ones by eras of 400 years, which need no tables.

/// Seconds of a day without a clock change.
pub(crate) const DAY_SECONDS: i64 = 86_400;

/// A date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Date {
    pub year: i32,
    /// 1-12.
    pub month: u8,
    /// 1-31.
    pub day: u8,
}

impl Date {
    /// The date of a day.
    pub fn of_day(day: i64) -> Date {
        let shifted = day + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let day = day_of_year - (153 * march_month + 2) / 5 + 1;
        Date { year: year as i32, month: month as u8, day: day as u8 }
    }

    /// The day of this date.
    pub fn to_day(self) -> i64 {
        let year = i64::from(self.year) - i64::from(self.month <= 2);
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let march_month = (i64::from(self.month) + 9) % 12;
        let day_of_year = (153 * march_month + 2) / 5 + i64::from(self.day) - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * 146_097 + day_of_era - 719_468
    }

    /// Whether there is such a date.
    pub fn exists(self) -> bool {
        (1..=12).contains(&self.month) && (1..=month_length(self.year, self.month)).contains(&self.day)
    }
}

/// The weekday of a day, 0-6 from Sunday.
pub(crate) fn weekday(day: i64) -> u8 {
    (day + 4).rem_euclid(7) as u8
}

/// How many days a month has.
pub(crate) fn month_length(year: i32, month: u8) -> u8 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// `YYYY-MM-DDThh:mm:ss` of a local second.
pub(crate) fn show(local: i64) -> String {
    let (date, second) = (Date::of_day(local.div_euclid(DAY_SECONDS)), local.rem_euclid(DAY_SECONDS));
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{:04}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}", date.year, date.month, date.day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_agree_with_jiff_for_nine_centuries() {
        for day in -200_000..130_000 {
            let date = Date::of_day(day);
            assert_eq!(date.to_day(), day);
            let other = jiff::civil::date(1970, 1, 1).checked_add(jiff::Span::new().days(day)).unwrap();
            let parts = (i32::from(other.year()), other.month() as u8, other.day() as u8);
            assert_eq!((date.year, date.month, date.day), parts);
            assert_eq!(month_length(date.year, date.month), other.days_in_month() as u8);
            assert_eq!(weekday(day), other.weekday().to_sunday_zero_offset() as u8);
        }
    }

    #[test]
    fn a_local_second_is_shown_as_iso_8601() {
        assert_eq!(show(0), "1970-01-01T00:00:00");
        assert_eq!(show(951_868_799), "2000-02-29T23:59:59");
        assert_eq!(show(-1), "1969-12-31T23:59:59");
    }
}
