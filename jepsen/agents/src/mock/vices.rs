//! What a mock executor does wrong on purpose.

use serde::{Deserialize, Serialize};

/// Vices, each off by default. Shares are probabilities from 0 to 1, drawn for each case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Vices {
    /// Of accepted attempts: starts and then neither ends nor minds its timeout. A stop ends it, and so does
    /// the end of the vice.
    pub hang: f64,
    /// Of report calls: sent twice at once.
    pub report_twice: f64,
    /// Of reports: held back for `report_late_ms`.
    pub report_late: f64,
    /// How long a late report is held back, in ms.
    pub report_late_ms: u64,
    /// Of report calls: sent to the leader before the present one as well.
    pub report_to_former: f64,
    /// Of pushes: taken, and answered with 500.
    pub broken_answer: f64,
    /// Of pushes: taken, and never answered.
    pub no_answer: f64,
    /// Of pushes: answered after `slow_answer_ms`.
    pub slow_answer: f64,
    /// How long a slow answer takes, in ms.
    pub slow_answer_ms: u64,
    /// Takes no attempt that it does not hold.
    pub refuse_all: bool,
    /// Accepts and works, and says nothing of how it ended.
    pub silent: bool,
    /// Sends no heartbeat.
    pub mute: bool,
    /// Stands still like a stopped process: takes nothing, answers nothing, says nothing, ends nothing.
    pub frozen: bool,
    /// Leaves and registers again in the same life, every so many ms.
    pub flap_ms: Option<u64>,
    /// Registers with this weight instead of its own.
    pub weight: Option<u32>,
}

impl Vices {
    /// Whether none is on.
    pub fn is_clean(&self) -> bool {
        *self == Vices::default()
    }
}
