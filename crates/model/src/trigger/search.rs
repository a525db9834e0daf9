//! Cron in a zone: from local times to instants, with an explicit rule for clock changes.
//!
//! The search walks over the stretches of time between two changes of the zone's offset. Within a stretch local time
//! and elapsed time run in step, so that the next match is a search over local times alone; what is special happens
//! only at its ends. This is done here and not by a cron library because the libraries know one rule for clock
//! changes each, and none of them points at the character of a wrong expression; what remains is this page.
//!
//! * An expression without `*` and `/` in its seconds, minutes and hours names *times of day*. A time that clocks
//!   jump over is shifted to the instant behind the gap or skipped; one that comes twice fires at the first, the
//!   second or both, as the policy says.
//! * Any other expression keeps a *cadence*: it fires at every instant whose local time matches. Clocks that go back
//!   do not silence it, and clocks that go forward make it miss nothing, so the policy changes nothing for it.

use super::civil::show;
use super::expression::Expression;
use super::occurrence::{DstEffect, Occurrence, Passed, SkipReason, Skips};
use super::zone::{FAR, Span, Zone};
use super::{Dst, Gap, Overlap};
use crate::id::Millis;

/// The last instant that is looked at, in seconds: 9999-12-30T21:59:59Z, the last that has a date with a four-digit
/// year in every zone.
pub(crate) const LAST_SECOND: i64 = 253_402_207_199;
/// The first one: 0001-01-02T00:00:00Z.
pub(crate) const FIRST_SECOND: i64 = -62_135_510_400;

/// The first occurrence later than `after`; what the policy drops on the way goes to `skips`. Bounded: it gives up behind
/// [`BARREN_LIMIT`](super::occurrence::BARREN_LIMIT) stretches without a match, and looks no further than
/// [`LAST_SECOND`]; between two matches it looks at each month once.
pub(crate) fn next(
    expression: &Expression,
    zone: &Zone,
    dst: Dst,
    after: Millis,
    skips: &mut Skips,
) -> Option<Occurrence> {
    let mut search = Search { expression, zone, dst, skips };
    let mut second = after.div_euclid(1_000).saturating_add(1).max(FIRST_SECOND);
    while second <= LAST_SECOND {
        let span = zone.span(second);
        if let Some(found) = search.at_gap(second, &span).or_else(|| search.within(second, &span)) {
            return (found.at <= LAST_SECOND * 1_000).then_some(found);
        }
        let (end, later) = span.behind?;
        if !search.skips.pass_barren() {
            return None;
        }
        // The next local match may be years away, and no change of the offset before it matters. Local times that
        // the change at the end of this stretch shows once more are still to come.
        let local = expression.next_local((second + span.offset).min(end + later))?;
        second = end.max(local - FAR);
    }
    None
}

struct Search<'a> {
    expression: &'a Expression,
    zone: &'a Zone,
    dst: Dst,
    skips: &'a mut Skips,
}

impl Search<'_> {
    /// What the gap at the very beginning of a stretch does: times within it are shifted to its end, or skipped.
    fn at_gap(&mut self, second: i64, span: &Span) -> Option<Occurrence> {
        let (change, earlier) = span.before?;
        if self.expression.cadence || change != second || earlier >= span.offset {
            return None;
        }
        let (mut local, end) = (second + earlier, second + span.offset);
        while let Some(found) = self.expression.next_local(local).filter(|found| *found < end) {
            if self.dst.gap == Gap::Shift {
                return Some(Occurrence { at: second * 1_000, dst: Some(DstEffect::GapShifted) });
            }
            let skipped = Passed { local: show(found), at: second * 1_000, reason: SkipReason::DstGap };
            if !self.skips.push(skipped) {
                break;
            }
            local = found + 1;
        }
        None
    }

    /// The first match inside a stretch at or after `second`.
    fn within(&mut self, mut second: i64, span: &Span) -> Option<Occurrence> {
        // Local times before `again` were shown before the change at the beginning; from `twice` on they will be
        // shown once more behind the change at the end.
        let again = span.before.map_or(i64::MIN, |(change, earlier)| change + earlier);
        let twice = span.behind.map_or(i64::MAX, |(change, later)| change + later);
        let end = span.behind.map_or(i64::MAX, |(change, _)| change);
        loop {
            let local = self.expression.next_local(second + span.offset)?;
            let found = local - span.offset;
            if found >= end {
                return None;
            }
            let (effect, dropped_until) = if local < again {
                (Some(DstEffect::OverlapSecond), (self.dst.overlap == Overlap::First).then_some(again))
            } else if local >= twice {
                (Some(DstEffect::OverlapFirst), (self.dst.overlap == Overlap::Second).then_some(i64::MAX))
            } else {
                (None, None)
            };
            let Some(until) = dropped_until.filter(|_| !self.expression.cadence) else {
                return Some(Occurrence { at: found * 1_000, dst: effect });
            };
            let at = found * 1_000;
            let shown = self.zone.show(at);
            if self.skips.push(Passed { local: shown, at, reason: SkipReason::DstOverlap }) {
                second = found + 1;
            } else if until == i64::MAX {
                return None;
            } else {
                second = until - span.offset;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::expression::Parsed;
    use super::super::{DayRule, occurrence::BARREN_LIMIT};
    use super::*;

    /// 2027-01-01T00:00:00Z.
    const FROM: Millis = 1_798_761_600_000;

    #[test]
    fn b43_a_search_whose_every_match_is_jumped_over_gives_up() {
        // The hour that New York's clocks jump over every March.
        let Ok(Parsed::Fields(expression)) = Parsed::parse("30 2 * 3 SUN#2", DayRule::Or) else {
            panic!("it is an expression of fields")
        };
        let zone = Zone::named("America/New_York").unwrap();
        let dst = Dst { gap: Gap::Skip, overlap: Overlap::First };
        let mut skips = Skips::up_to(0);
        assert_eq!(next(&expression, &zone, dst, FROM, &mut skips), None);
        assert!(skips.steps > 1_000, "they are many");
        assert!(skips.steps <= BARREN_LIMIT, "{} of them were looked at", skips.steps);
        // With the other policy the first one fires.
        let dst = Dst { gap: Gap::Shift, ..dst };
        let found = next(&expression, &zone, dst, FROM, &mut Skips::up_to(0)).unwrap();
        assert_eq!(zone.show(found.at), "2027-03-14T03:00:00-04:00");
    }
}
