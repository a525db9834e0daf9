//! One field of a cron expression: lists, ranges, steps and names over a small set of numbers.

use super::error::Fault;

/// What a field may hold.
#[derive(Debug)]
pub(crate) struct Field {
    /// As errors call it.
    pub name: &'static str,
    /// The smallest number.
    pub min: u16,
    /// The largest number.
    pub max: u16,
    /// Names of the numbers from `first_name` on.
    pub names: &'static [&'static str],
    /// The number of the first name.
    pub first_name: u16,
    /// Whether a range may run over the end of the field, such as `22-2` or `FRI-MON`.
    pub wraps: bool,
}

const MONTHS: &[&str] = &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
/// The weekdays' names, from Sunday.
pub(crate) const WEEKDAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

const fn numbers(name: &'static str, min: u16, max: u16) -> Field {
    Field { name, min, max, names: &[], first_name: 0, wraps: true }
}

pub(crate) const SECONDS: Field = numbers("seconds", 0, 59);
pub(crate) const MINUTES: Field = numbers("minutes", 0, 59);
pub(crate) const HOURS: Field = numbers("hours", 0, 23);
pub(crate) const DAYS: Field = numbers("day of month", 1, 31);
pub(crate) const MONTHS_OF_YEAR: Field = Field { names: MONTHS, first_name: 1, ..numbers("month", 1, 12) };
/// 0 and 7 are both Sunday.
pub(crate) const DAYS_OF_WEEK: Field = Field { names: WEEKDAYS, ..numbers("day of week", 0, 7) };
pub(crate) const YEARS: Field = Field { wraps: false, ..numbers("year", 1970, 9999) };

/// A piece of an expression and where it begins, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    pub text: &'a str,
    pub at: usize,
}

impl<'a> Piece<'a> {
    /// The part before the first `mark` and the part behind it.
    pub fn split(self, mark: char) -> (Piece<'a>, Option<Piece<'a>>) {
        match self.text.find(mark) {
            None => (self, None),
            Some(place) => (
                Piece { text: &self.text[..place], at: self.at },
                Some(Piece { text: &self.text[place + 1..], at: self.at + place + 1 }),
            ),
        }
    }

    /// Its items between commas.
    pub fn items(self) -> impl Iterator<Item = Piece<'a>> {
        let mut rest = Some(self);
        std::iter::from_fn(move || {
            let (item, behind) = rest?.split(',');
            rest = behind;
            Some(item)
        })
    }

    fn fault<T>(self, message: impl Into<String>) -> Result<T, Fault> {
        Fault::new(self.at, message)
    }
}

/// The numbers from `from` to `to` in steps; `to` is behind `max` where a range wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub from: u16,
    pub to: u16,
    pub step: u16,
}

impl Run {
    /// Whether the year is one of them; for the field that is too wide for a set of bits.
    pub fn holds(self, number: u16) -> bool {
        (self.from..=self.to).contains(&number) && (number - self.from).is_multiple_of(self.step)
    }
}

impl Field {
    /// The numbers of the field as bits.
    pub fn bits(&self, piece: Piece<'_>) -> Result<u64, Fault> {
        piece.items().try_fold(0, |bits, item| Ok(bits | self.item_bits(item)?))
    }

    /// The numbers of one item of a list as bits.
    pub fn item_bits(&self, item: Piece<'_>) -> Result<u64, Fault> {
        Ok(self.spread(self.run(item)?))
    }

    /// The bits of a run, folded back into the field where it wraps. Sunday is bit 0 alone.
    fn spread(&self, run: Run) -> u64 {
        let size = self.last() - self.min + 1;
        (run.from..=run.to)
            .step_by(usize::from(run.step))
            .fold(0, |bits, number| bits | 1 << (self.min + (number - self.min) % size))
    }

    /// Reads `*`, `a`, `a-b`, and each of them with `/step`.
    pub fn run(&self, item: Piece<'_>) -> Result<Run, Fault> {
        if item.text.is_empty() {
            return item.fault(format!("nothing stands here for {}", self.name));
        }
        let (range, step) = item.split('/');
        let (from, to) = self.range(range, step.is_some())?;
        let Some(step) = step else { return Ok(Run { from, to, step: 1 }) };
        let size = self.last() - self.min;
        // Only a range of one's own can be narrower than the field: `45/30` is minute 45 and said on purpose.
        let widest = if range.text.contains('-') { to - from } else { size };
        match number(step) {
            None => step.fault(format!("a step is a number, not {:?}", step.text)),
            Some(0) => step.fault("a step is at least 1"),
            Some(found) if found > u32::from(widest) => step.fault(format!(
                "step {} is larger than the range of {}: at most {widest}",
                step.text, self.name
            )),
            Some(found) => Ok(Run { from, to, step: found as u16 }),
        }
    }

    /// The last number of a whole turn: of the weekdays 6, since 7 would count Sunday twice.
    fn last(&self) -> u16 {
        if self.max == 7 { 6 } else { self.max }
    }

    fn range(&self, range: Piece<'_>, open: bool) -> Result<(u16, u16), Fault> {
        if range.text == "*" {
            return Ok((self.min, self.last()));
        }
        let (first, last) = range.split('-');
        let from = self.value(first)?;
        let Some(last) = last else {
            // An open range from Sunday as 7 is the whole week, as from 0.
            let from = if open && from > self.last() { self.min } else { from };
            return Ok((from, if open { self.last() } else { from }));
        };
        let to = self.value(last)?;
        if from <= to {
            return Ok((from, to));
        }
        if !self.wraps {
            return range.fault(format!("the range {:?} of {} runs backwards", range.text, self.name));
        }
        if self.max == 7 {
            // From Sunday as 7 the week begins again; any other day runs on into the next week.
            return Ok(if from == 7 { (0, to) } else { (from, to + 7) });
        }
        Ok((from, to + self.max - self.min + 1))
    }

    /// Reads a number or a name.
    pub fn value(&self, piece: Piece<'_>) -> Result<u16, Fault> {
        if let Some(place) = self.names.iter().position(|name| name.eq_ignore_ascii_case(piece.text)) {
            return Ok(self.first_name + place as u16);
        }
        match number(piece) {
            Some(found) if (u32::from(self.min)..=u32::from(self.max)).contains(&found) => Ok(found as u16),
            Some(_) => {
                piece.fault(format!("{} is outside {}-{} of {}", piece.text, self.min, self.max, self.name))
            }
            None if piece.text.is_empty() => piece.fault(format!("a number is missing for {}", self.name)),
            None if piece.text == "?" => piece.fault("? stands for a whole day field alone"),
            None => piece.fault(format!("{:?} is not a value of {}", piece.text, self.name)),
        }
    }
}

/// A number of up to six digits; a longer one is outside every field and shown as such.
pub(crate) fn number(piece: Piece<'_>) -> Option<u32> {
    let digits = !piece.text.is_empty() && piece.text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| piece.text.parse().ok().filter(|found| *found < 1_000_000).unwrap_or(999_999))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(field: &Field, text: &str) -> Vec<u32> {
        let bits = field.bits(Piece { text, at: 0 }).unwrap();
        (0..64).filter(|bit| bits & 1 << bit != 0).collect()
    }

    #[test]
    fn lists_ranges_steps_and_names() {
        assert_eq!(bits(&MINUTES, "*/45"), [0, 45]);
        assert_eq!(bits(&MINUTES, "1,3-5,50/5"), [1, 3, 4, 5, 50, 55]);
        assert_eq!(bits(&HOURS, "9-17/4"), [9, 13, 17]);
        assert_eq!(bits(&MONTHS_OF_YEAR, "jan,Mar-MAY"), [1, 3, 4, 5]);
        assert_eq!(bits(&DAYS_OF_WEEK, "0,7,SUN"), [0]);
    }

    #[test]
    fn a_range_over_the_end_wraps() {
        assert_eq!(bits(&HOURS, "22-2"), [0, 1, 2, 22, 23]);
        assert_eq!(bits(&DAYS, "28-3"), [1, 2, 3, 28, 29, 30, 31]);
        assert_eq!(bits(&MONTHS_OF_YEAR, "NOV-FEB"), [1, 2, 11, 12]);
        assert_eq!(bits(&DAYS_OF_WEEK, "FRI-MON"), [0, 1, 5, 6]);
        assert_eq!(bits(&DAYS_OF_WEEK, "5-1/2"), [0, 5]);
        assert_eq!(bits(&DAYS_OF_WEEK, "7-1"), [0, 1]);
        assert_eq!(bits(&DAYS_OF_WEEK, "5-7"), [0, 5, 6]);
        assert_eq!(bits(&DAYS_OF_WEEK, "0-7"), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(bits(&DAYS_OF_WEEK, "*/2"), [0, 2, 4, 6]);
        assert_eq!((bits(&DAYS_OF_WEEK, "7/2"), bits(&DAYS_OF_WEEK, "5/2")), (vec![0, 2, 4, 6], vec![5]));
        assert!(YEARS.run(Piece { text: "2030-2027", at: 0 }).is_err());
    }

    #[test]
    fn a_fault_points_at_its_character() {
        let position = |field: &Field, text| field.bits(Piece { text, at: 10 }).unwrap_err().position;
        for (text, at) in
            [("*/60", 12), ("*/90", 12), ("*/0", 12), ("1,,2", 12), ("5-", 12), ("/5", 10), ("1,x", 12)]
        {
            assert_eq!(position(&MINUTES, text), at, "{text}");
        }
        assert_eq!(position(&HOURS, "24"), 10);
        assert_eq!(position(&HOURS, "1-5/9"), 14);
        assert_eq!((position(&DAYS, "*/31"), position(&DAYS_OF_WEEK, "*/7")), (12, 12));
        assert_eq!(position(&MINUTES, "99999999999999999999"), 10);
    }
}
