//! The preview of triggers: what is asked and what is answered.

use std::fmt;

use orloj_model::trigger::{DstEffect, Preview, SkipReason};
use schemars::JsonSchema;
use serde::de::{Deserializer, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Serialize};

use super::submit::within;
use super::trigger::{CalendarSpec, TriggerSpec};
use crate::json::objects;
use crate::time::Time;

/// The most fires of one preview.
pub const PREVIEW_LIMIT: u64 = 1_000;
/// How many fires a preview shows by default.
pub const PREVIEW_COUNT: u64 = 10;

/// A calendar in a preview: one that is stored, by its name, or one that is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum CalendarRef {
    /// By name.
    Name(String),
    /// Here and now.
    Inline(CalendarSpec),
}

impl<'de> Deserialize<'de> for CalendarRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CalendarRefVisitor)
    }
}

/// By hand, so that an error tells what is wrong with the calendar and not only that it is none.
struct CalendarRefVisitor;

impl<'de> Visitor<'de> for CalendarRefVisitor {
    type Value = CalendarRef;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a calendar, or a calendar")
    }

    fn visit_str<E>(self, name: &str) -> Result<CalendarRef, E> {
        Ok(CalendarRef::Name(name.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<CalendarRef, A::Error> {
        CalendarSpec::deserialize(MapAccessDeserializer::new(map)).map(CalendarRef::Inline)
    }
}

/// A preview that needs no stored job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PreviewRequest {
    /// The triggers, as of a job that is created at `from`.
    #[serde(deserialize_with = "objects")]
    pub triggers: Vec<TriggerSpec>,
    /// The calendars whose days are excluded, at most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calendars: Vec<CalendarRef>,
    /// When the job is created: whatever it fires is later, and what counts from the creation counts from here. Now where
    /// there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Time>,
    /// How many fires, 1-1,000; by default 10.
    #[serde(
        default,
        deserialize_with = "within::<_, 1, PREVIEW_LIMIT>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 1, max = PREVIEW_LIMIT))]
    pub count: Option<u64>,
}

/// One fire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewFire {
    /// The instant.
    pub scheduled_at: Time,
    /// The same in the trigger's zone.
    pub local: String,
    /// What a clock change did to it: `gapShifted`, `overlapFirst`, `overlapSecond` or `null`.
    #[schemars(with = "Option<crate::rest::words::DstEffect>")]
    pub dst: Option<DstEffect>,
}

/// One occurrence that makes no task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewSkip {
    /// The local time, with an offset unless no clock shows it.
    pub local: String,
    /// Why: `dstGap`, `dstOverlap` or `calendar`.
    #[schemars(with = "crate::rest::words::SkipReason")]
    pub reason: SkipReason,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewAnswer {
    /// In order; fewer than asked for where there are no more.
    pub fires: Vec<PreviewFire>,
    /// In order, up to the last fire.
    pub skipped: Vec<PreviewSkip>,
    /// More was skipped than is listed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

impl From<Preview> for PreviewAnswer {
    fn from(preview: Preview) -> PreviewAnswer {
        let fires = preview.fires.into_iter().map(|fire| PreviewFire {
            scheduled_at: Time(fire.scheduled_at),
            local: fire.local,
            dst: fire.dst,
        });
        let skipped =
            preview.skipped.into_iter().map(|skip| PreviewSkip { local: skip.local, reason: skip.reason });
        PreviewAnswer { fires: fires.collect(), skipped: skipped.collect(), truncated: preview.truncated }
    }
}
