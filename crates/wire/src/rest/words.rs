//! Schemas of the model's words, which the model itself knows nothing of: it has no dependency for them.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident = $($word:literal)|+;)*) => { $(
        $(#[$doc])*
        pub struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "enum": [$($word),+] })
            }
        }
    )* };
}

words! {
    /// [`orloj_model::trigger::overlap::OverlapPolicy`]
    OverlapPolicy = "allow" | "skip" | "queue" | "cancelOther";
    /// [`orloj_model::trigger::DstEffect`]
    DstEffect = "gapShifted" | "overlapFirst" | "overlapSecond";
    /// [`orloj_model::trigger::SkipReason`]
    SkipReason = "dstGap" | "dstOverlap" | "calendar" | "misfire" | "misfireCap" | "overlap" | "paused" | "parameters"
        | "callerDisabled" | "handlerDenied" | "edited";
    /// [`orloj_model::trigger::Gap`]
    Gap = "skip" | "shift";
    /// [`orloj_model::trigger::Overlap`]
    Overlap = "first" | "second" | "both";
    /// [`orloj_model::trigger::DayRule`]
    DayRule = "or" | "and";
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use orloj_model::trigger::overlap::OverlapPolicy as Policy;
    use orloj_model::trigger::{
        DayRule as Rule, DstEffect as Effect, Gap as G, Overlap as O, SkipReason as Reason,
    };
    use serde::Serialize;
    use serde_json::{Value, json};

    use super::*;

    /// The words of a schema against what serde writes for every value.
    fn same<W: JsonSchema, T: Serialize>(values: &[T]) {
        let words = SchemaGenerator::default().root_schema_for::<W>().to_value()["enum"].clone();
        let written: Vec<Value> = values.iter().map(|value| json!(value)).collect();
        assert_eq!(words, json!(written), "{}", W::schema_name());
    }

    #[test]
    fn the_words_are_those_that_are_written() {
        same::<OverlapPolicy, _>(&[Policy::Allow, Policy::Skip, Policy::Queue, Policy::CancelOther]);
        same::<DstEffect, _>(&[Effect::GapShifted, Effect::OverlapFirst, Effect::OverlapSecond]);
        same::<SkipReason, _>(&Reason::ALL);
        same::<Gap, _>(&[G::Skip, G::Shift]);
        same::<Overlap, _>(&[O::First, O::Second, O::Both]);
        same::<DayRule, _>(&[Rule::Or, Rule::And]);
    }
}
