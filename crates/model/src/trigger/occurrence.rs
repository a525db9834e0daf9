//! What a trigger says of one instant, and what it passes over on the way to it.

use serde::{Deserialize, Serialize};

use crate::id::Millis;

/// What a clock change did to a fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DstEffect {
    /// Its local time does not exist on this day: it fires at the end of the gap.
    GapShifted,
    /// Its local time comes twice: this is the first.
    OverlapFirst,
    /// Its local time comes twice: this is the second.
    OverlapSecond,
}

/// Why a scheduled instant makes no task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SkipReason {
    /// Clocks jumped over its local time, and the policy is to skip.
    DstGap,
    /// Its local time comes twice, and the policy takes the other one.
    DstOverlap,
    /// A calendar of the job excludes the day.
    Calendar,
    /// Nobody was there when it was due, and the policy does not make up for it.
    Misfire,
    /// As `misfire`, but only because more were missed than may be made up for.
    MisfireCap,
    /// The job's last task was still open.
    Overlap,
    /// The job was paused.
    Paused,
    /// Its parameters could not be filled in, or were too long afterwards.
    Parameters,
    /// The job's caller was disabled.
    CallerDisabled,
    /// The job's caller may no longer use its handler, or that of one of its steps.
    HandlerDenied,
    /// An edit of the job came before it had fired: it waited for the end of its jitter, or for a leader.
    Edited,
}

impl SkipReason {
    /// Every reason.
    pub const ALL: [SkipReason; 11] = [
        SkipReason::DstGap,
        SkipReason::DstOverlap,
        SkipReason::Calendar,
        SkipReason::Misfire,
        SkipReason::MisfireCap,
        SkipReason::Overlap,
        SkipReason::Paused,
        SkipReason::Parameters,
        SkipReason::CallerDisabled,
        SkipReason::HandlerDenied,
        SkipReason::Edited,
    ];

    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            SkipReason::DstGap => "dstGap",
            SkipReason::DstOverlap => "dstOverlap",
            SkipReason::Calendar => "calendar",
            SkipReason::Misfire => "misfire",
            SkipReason::MisfireCap => "misfireCap",
            SkipReason::Overlap => "overlap",
            SkipReason::Paused => "paused",
            SkipReason::Parameters => "parameters",
            SkipReason::CallerDisabled => "callerDisabled",
            SkipReason::HandlerDenied => "handlerDenied",
            SkipReason::Edited => "edited",
        }
    }
}

/// An occurrence that a trigger passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// The local time: RFC 3339 with the offset, or without one where no clock shows it (`dstGap`).
    pub local: String,
    /// The instant; of a local time that does not exist, the end of the gap.
    pub at: Millis,
    /// Why.
    pub reason: SkipReason,
}

/// One instant of one trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Occurrence {
    pub at: Millis,
    pub dst: Option<DstEffect>,
}

/// Keeps what was passed over, up to a limit.
#[derive(Debug)]
pub(crate) struct Skips {
    kept: Vec<Passed>,
    limit: usize,
    /// There was more than the limit.
    pub truncated: bool,
    /// How many were passed over, kept or not: what the search has cost.
    pub steps: usize,
    /// How many stretches between two clock changes were passed over because nothing fires in them.
    barren: usize,
}

/// A search gives up behind so many stretches between two clock changes in which nothing fires: some two thousand years
/// of them, which only an expression passes over whose every match the clocks jump over.
pub(crate) const BARREN_LIMIT: usize = 4_000;

impl Skips {
    /// Keeps up to `limit`.
    pub fn up_to(limit: usize) -> Skips {
        Skips { kept: Vec::new(), limit, truncated: false, steps: 0, barren: 0 }
    }

    /// Takes one; `false` when it is full, and whoever searches may jump over more of the same kind.
    pub fn push(&mut self, passed: Passed) -> bool {
        let room = self.kept.len() < self.limit;
        self.steps += 1;
        if room {
            self.kept.push(passed);
        }
        self.truncated |= !room;
        room
    }

    /// Takes note of a stretch between two clock changes in which nothing fires; `false` when there were too many.
    pub fn pass_barren(&mut self) -> bool {
        self.barren += 1;
        self.barren <= BARREN_LIMIT
    }

    /// Whether it takes more.
    pub fn has_room(&self) -> bool {
        self.kept.len() < self.limit
    }

    /// What was kept, by instant.
    pub fn into_sorted(mut self) -> Vec<Passed> {
        self.kept.sort_by(|a, b| (a.at, &a.local, a.reason).cmp(&(b.at, &b.local, b.reason)));
        self.kept.dedup();
        self.kept
    }
}
