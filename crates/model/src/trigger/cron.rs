//! The cron trigger as it is stored.

use serde::{Deserialize, Serialize};

use super::error::TriggerError;
use super::expression::Parsed;
use super::zone::Zone;
use super::{DayRule, Dst, check_every, check_instant};
use crate::id::Millis;

/// A cron expression in a zone.
///
/// An expression whose seconds, minutes and hours hold neither `*` nor `/` names times of day, and `dst` says what
/// becomes of them when clocks change. Any other keeps a cadence: it fires at every instant whose local time matches,
/// so that a clock change neither silences it for an hour nor makes it fire in a burst, whatever `dst` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cron {
    expression: String,
    time_zone: String,
    dst: Dst,
    day_rule: DayRule,
    /// From where `@every` counts.
    anchor: Millis,
}

impl Cron {
    /// Checks an expression: its grammar, that some date matches it, and its zone. `anchor` is the instant from which
    /// `@every` counts: the creation of the job, so that no edit moves it. Errors on the expression point at a
    /// character.
    pub fn new(
        expression: &str,
        time_zone: &str,
        dst: Dst,
        day_rule: DayRule,
        anchor: Millis,
    ) -> Result<Cron, TriggerError> {
        let time_zone = Zone::named(time_zone)?.name().to_string();
        let parsed =
            Parsed::parse(expression, day_rule).map_err(|fault| fault.in_field("expression", expression))?;
        if let Parsed::Every { every_ms, at } = parsed {
            u64::try_from(every_ms)
                .map_or_else(|_| check_every("expression", 0), |every_ms| check_every("expression", every_ms))
                .map_err(|error| TriggerError::new("expression", expression, error.message).at(at))?;
        }
        Ok(Cron { expression: expression.to_string(), time_zone, dst, day_rule, anchor })
    }

    /// The expression as it was given.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The zone's name.
    pub fn time_zone(&self) -> &str {
        &self.time_zone
    }

    /// What becomes of times of day when clocks change.
    pub fn dst(&self) -> Dst {
        self.dst
    }

    /// How the two day fields meet.
    pub fn day_rule(&self) -> DayRule {
        self.day_rule
    }

    /// From where `@every` counts.
    pub(crate) fn anchor(&self) -> Millis {
        self.anchor
    }

    pub(crate) fn check_anchor(&self) -> Result<(), TriggerError> {
        check_instant("anchor", self.anchor)
    }

    pub(crate) fn parsed(&self) -> Result<Parsed, TriggerError> {
        Parsed::parse(&self.expression, self.day_rule)
            .map_err(|fault| fault.in_field("expression", &self.expression))
    }
}
