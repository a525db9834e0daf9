//! The daily window: every so often between two times of day.

use super::civil::{DAY_SECONDS, show, weekday};
use super::occurrence::{DstEffect, Occurrence, Passed, SkipReason, Skips};
use super::search::LAST_SECOND;
use super::zone::{Resolved, Zone};
use super::{DailyWindow, Gap, Overlap};
use crate::id::Millis;

/// The days that a search looks at: a window opens at least once a week, unless clocks jump over it.
const SEARCH_DAYS: i64 = 400;

/// One day's window, both ends included, in milliseconds.
struct Open {
    from: Millis,
    to: Millis,
    /// What a clock change did to the beginning.
    dst: Option<DstEffect>,
}

/// The first occurrence later than `after`.
pub(crate) fn next(
    window: &DailyWindow,
    zone: &Zone,
    after: Millis,
    skips: &mut Skips,
) -> Option<Occurrence> {
    // A window may have opened on the day before, or have been shifted over a whole day.
    let first = zone.local(after).div_euclid(DAY_SECONDS) - 2;
    let every = i64::try_from(window.every_ms).unwrap_or(i64::MAX);
    let mut best: Option<Occurrence> = None;
    for day in (first..first + SEARCH_DAYS).filter(|day| window.days & 1 << weekday(*day) != 0) {
        let Some(open) = open(window, zone, day, after, skips) else { continue };
        // Where clocks go back, a long window may still be open when the next one opens: each has its own instants.
        if best.is_some_and(|best| best.at <= open.from) {
            break;
        }
        let at = if after < open.from {
            open.from
        } else {
            let steps = (after - open.from) / every + 1;
            open.from.saturating_add(steps.saturating_mul(every))
        };
        if at > LAST_SECOND * 1_000 {
            break;
        }
        if at <= open.to && best.is_none_or(|best| at < best.at) {
            let dst = if at == open.from { open.dst } else { repeated(zone, at) };
            best = Some(Occurrence { at, dst });
        }
    }
    best
}

/// The window that opens on a day, or `None` where it does not.
fn open(window: &DailyWindow, zone: &Zone, day: i64, after: Millis, skips: &mut Skips) -> Option<Open> {
    let begin = day * DAY_SECONDS + i64::from(window.from);
    // An end before the beginning lies on the day after.
    let next_day = if window.to <= window.from { DAY_SECONDS } else { 0 };
    let end = day * DAY_SECONDS + i64::from(window.to) + next_day;
    let shift = window.dst.gap == Gap::Shift;
    let (from, dst) = match zone.resolve(begin) {
        Resolved::Once(second) => (second, None),
        Resolved::Gap(second) if shift => (second, Some(DstEffect::GapShifted)),
        Resolved::Gap(second) => {
            if second * 1_000 > after {
                let reason = SkipReason::DstGap;
                skips.push(Passed { local: show(begin), at: second * 1_000, reason });
            }
            return None;
        }
        Resolved::Twice(_, second) if window.dst.overlap == Overlap::Second => {
            (second, Some(DstEffect::OverlapSecond))
        }
        Resolved::Twice(first, _) => (first, Some(DstEffect::OverlapFirst)),
    };
    let to = match zone.resolve(end) {
        Resolved::Once(second) => second * 1_000,
        Resolved::Gap(second) => second * 1_000 - i64::from(!shift),
        Resolved::Twice(first, _) if window.dst.overlap == Overlap::First => first * 1_000,
        Resolved::Twice(_, second) => second * 1_000,
    };
    Some(Open { from: from * 1_000, to, dst })
}

/// Whether clocks show the local time of an instant twice.
fn repeated(zone: &Zone, at: Millis) -> Option<DstEffect> {
    let (second, local) = (at.div_euclid(1_000), zone.local(at));
    match zone.resolve(local) {
        Resolved::Twice(first, _) if first == second => Some(DstEffect::OverlapFirst),
        Resolved::Twice(..) => Some(DstEffect::OverlapSecond),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Dst;
    use super::*;

    /// All fires on the days around a clock change, as the local times that clocks show.
    fn shown(from: &str, to: &str, gap: Gap, overlap: Overlap, day: &str) -> (Vec<String>, Vec<Passed>) {
        let dst = Dst { gap, overlap };
        let window =
            DailyWindow::new((from, to), 1_800_000, &[0, 1, 2, 3, 4, 5, 6], "America/New_York", dst).unwrap();
        let zone = Zone::named("America/New_York").unwrap();
        let begin = format!("{day}T05:30:00Z").parse::<jiff::Timestamp>().unwrap().as_millisecond();
        let (mut after, mut skips, mut found) = (begin - 1, Skips::up_to(10), Vec::new());
        while let Some(next) = super::next(&window, &zone, after, &mut skips) {
            assert!(next.at > after);
            after = next.at;
            let local = zone.show(after);
            if !local.starts_with(day) {
                break;
            }
            found.push(local[11..16].to_string());
        }
        (found, skips.into_sorted())
    }

    #[test]
    fn a_gap_moves_an_end_or_takes_the_window_out() {
        let spring = |from, to, gap| shown(from, to, gap, Overlap::First, "2027-03-14");
        assert_eq!(spring("02:30", "03:30", Gap::Shift).0, ["03:00", "03:30"]);
        let (fires, skips) = spring("02:30", "03:30", Gap::Skip);
        assert!(fires.is_empty());
        assert_eq!((skips.len(), skips[0].local.as_str()), (1, "2027-03-14T02:30:00"));
        assert_eq!(spring("01:00", "02:30", Gap::Shift).0, ["01:00", "01:30", "03:00"]);
        assert_eq!(spring("01:00", "02:30", Gap::Skip).0, ["01:00", "01:30"]);
    }

    #[test]
    fn a_window_opens_in_time_although_the_one_before_it_is_open_still() {
        let dst = Dst { gap: Gap::Shift, overlap: Overlap::Both };
        let every = 50 * 60_000;
        let window =
            DailyWindow::new(("01:30", "01:15"), every, &[0, 1, 2, 3, 4, 5, 6], "America/New_York", dst)
                .unwrap();
        let zone = Zone::named("America/New_York").unwrap();
        let at = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_millisecond();
        let (mut after, mut found) = (at("2027-11-07T04:00:00Z"), Vec::new());
        for _ in 0..5 {
            let next = super::next(&window, &zone, after, &mut Skips::up_to(10)).unwrap();
            found.push(next.at);
            after = next.at;
        }
        // The one of the day before fires at 04:50 and 05:40 and closes at 06:15, the second 01:15.
        let right = ["04:50", "05:30", "05:40", "06:20", "07:10"];
        assert_eq!(found, right.map(|time| at(&format!("2027-11-07T{time}:00Z"))));
    }

    #[test]
    fn ends_that_come_twice_follow_the_policy() {
        let autumn = |from, to, overlap| shown(from, to, Gap::Shift, overlap, "2027-11-07").0;
        let repeated = ["01:30", "01:00", "01:30", "02:00"];
        assert_eq!(autumn("01:30", "02:00", Overlap::First), repeated);
        assert_eq!(autumn("01:30", "02:00", Overlap::Both), repeated);
        assert_eq!(autumn("01:30", "02:00", Overlap::Second), ["01:30", "02:00"]);
        assert_eq!(autumn("01:30", "01:45", Overlap::First), ["01:30"]);
        assert_eq!(autumn("01:30", "01:45", Overlap::Both), ["01:30", "01:00", "01:30"]);
    }
}
