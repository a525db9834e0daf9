//! The preview of triggers: what is asked and what is answered.

use orloj_model::trigger::{DstEffect, Preview, SkipReason};
use serde::{Deserialize, Serialize};

use super::trigger::{CalendarSpec, TriggerSpec};
use crate::time::Time;

/// The most fires of one preview.
pub const PREVIEW_LIMIT: usize = 1_000;

/// A calendar in a preview: one that is stored, by its name, or one that is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CalendarRef {
    /// By name.
    Name(String),
    /// Here and now.
    Inline(CalendarSpec),
}

/// A preview that needs no stored job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PreviewRequest {
    /// The triggers.
    pub triggers: Vec<TriggerSpec>,
    /// The calendars whose days are excluded.
    #[serde(default)]
    pub calendars: Vec<CalendarRef>,
    /// From when on, this instant included; now where there is none.
    #[serde(default)]
    pub from: Option<Time>,
    /// How many fires; at most [`PREVIEW_LIMIT`].
    #[serde(default)]
    pub count: Option<usize>,
}

/// One fire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PreviewFire {
    /// The instant.
    pub scheduled_at: Time,
    /// The same in the trigger's zone.
    pub local: String,
    /// What a clock change did to it: `gapShifted`, `overlapFirst`, `overlapSecond` or `null`.
    pub dst: Option<DstEffect>,
}

/// One occurrence that makes no task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PreviewSkip {
    /// The local time, with an offset unless no clock shows it.
    pub local: String,
    /// Why: `dstGap`, `dstOverlap` or `calendar`.
    pub reason: SkipReason,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
