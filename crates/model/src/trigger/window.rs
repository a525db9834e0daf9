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
    for day in (first..first + SEARCH_DAYS).filter(|day| window.days & 1 << weekday(*day) != 0) {
        let Some(open) = open(window, zone, day, after, skips) else { continue };
        let at = if after < open.from {
            open.from
        } else {
            let steps = (after - open.from) / every + 1;
            open.from.saturating_add(steps.saturating_mul(every))
        };
        if at > LAST_SECOND * 1_000 {
            return None;
        }
        if at <= open.to {
            let dst = if at == open.from { open.dst } else { repeated(zone, at) };
            return Some(Occurrence { at, dst });
        }
    }
    None
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
