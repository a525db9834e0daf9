//! Wall clocks.

use anyhow::Result;

use super::{Hand, done};
use crate::action::Action;
use crate::nemesis::Installed;

pub fn install(hand: &mut Hand<'_>, action: &Action, hit: &[String]) -> Result<Installed> {
    if let Some(host) = hit.first()
        && let Err(error) = hand.cluster.replica(host)?.clock()
    {
        return Ok(Installed::Skipped(format!("{error:#}")));
    }
    for host in hit {
        let clock = hand.cluster.replica(host)?.clock()?;
        match action {
            Action::ClockJump { by_ms } | Action::ClockStrobe { by_ms, .. } => clock.jump(*by_ms),
            Action::ClockRamp { ms_per_s } => clock.ramp(*ms_per_s),
            _ => {}
        }
    }
    done()
}

/// A strobe goes back on odd beats and forth on even ones.
pub fn beat(hand: &mut Hand<'_>, action: &Action, hit: &[String], beat: u64) -> Result<()> {
    let Action::ClockStrobe { by_ms, .. } = action else { return Ok(()) };
    let by_ms = if beat % 2 == 1 { -by_ms } else { *by_ms };
    for host in hit {
        hand.cluster.replica(host)?.clock()?.jump(by_ms);
    }
    Ok(())
}

pub fn undo(hand: &mut Hand<'_>, hit: &[String]) -> Result<()> {
    for host in hit {
        hand.cluster.replica(host)?.clock()?.restore();
    }
    Ok(())
}

pub fn restore_all(hand: &Hand<'_>) -> Result<()> {
    for replica in &hand.cluster.replicas {
        if let Ok(clock) = replica.clock() {
            clock.restore();
        }
    }
    Ok(())
}
