//! Mock executors and the sink.

use anyhow::Result;
use orloj_jepsen_agents::mock::Vices;

use super::{Hand, done, each};
use crate::action::Action;
use crate::nemesis::Installed;
use crate::nemesis::resolve::Sighting;

/// What stands around the cluster, as the nemesis touches it.
pub trait Actors: Sync {
    /// What was seen of the cluster last.
    fn sighting(&self) -> Sighting;
    /// Switches the vices of a mock executor.
    ///
    /// # Errors
    /// There is none of this name.
    fn vices(&self, executor: &str, vices: Vices) -> Result<()>;
    /// Ends the life of a mock executor.
    ///
    /// # Errors
    /// There is none of this name.
    fn kill(&self, executor: &str) -> Result<()>;
    /// Begins its next life.
    ///
    /// # Errors
    /// There is none of this name.
    fn restart(&self, executor: &str) -> Result<()>;
    /// Lets the sink be so.
    ///
    /// # Errors
    /// It cannot.
    fn sink(&self, action: Option<&Action>) -> Result<()>;
    /// Takes every vice away and lets everybody live.
    ///
    /// # Errors
    /// Somebody does not come back.
    fn relent(&self) -> Result<()>;
}

pub fn install(hand: &mut Hand<'_>, action: &Action, hit: &[String]) -> Result<Installed> {
    match action {
        Action::ExecutorKill => each(hit, |host| hand.actors.kill(host))?,
        Action::SinkErrors | Action::SinkSilent | Action::SinkSlow { .. } | Action::SinkDown => {
            hand.actors.sink(Some(action))?;
        }
        _ => each(hit, |host| hand.actors.vices(host, vices(action)))?,
    }
    done()
}

pub fn undo(hand: &mut Hand<'_>, action: &Action, hit: &[String]) -> Result<()> {
    match action {
        Action::ExecutorKill => each(hit, |host| hand.actors.restart(host)),
        Action::SinkErrors | Action::SinkSilent | Action::SinkSlow { .. } | Action::SinkDown => {
            hand.actors.sink(None)
        }
        _ => each(hit, |host| hand.actors.vices(host, Vices::default())),
    }
}

fn vices(action: &Action) -> Vices {
    let none = Vices::default();
    match action {
        Action::ExecutorHang => Vices { frozen: true, ..none },
        Action::ExecutorStuck => Vices { hang: 1.0, ..none },
        Action::NoAnswer => Vices { no_answer: 1.0, ..none },
        Action::ExecutorSilent => Vices { silent: true, ..none },
        Action::ReportTwice => Vices { report_twice: 1.0, ..none },
        Action::ReportLate { delay_ms } => Vices { report_late: 1.0, report_late_ms: *delay_ms, ..none },
        Action::ReportOldLeader => Vices { report_to_former: 1.0, ..none },
        Action::ErrorAfterAccept => Vices { broken_answer: 1.0, ..none },
        Action::Flap { every_ms } => Vices { flap_ms: Some(*every_ms), ..none },
        Action::Weight { weight } => Vices { weight: Some(*weight), ..none },
        _ => none,
    }
}
