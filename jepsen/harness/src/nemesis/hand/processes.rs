//! Kills, stops and restarts.

use anyhow::Result;

use super::{Hand, done, each};
use crate::action::Action;
use crate::cluster::replica::DEATH;
use crate::hosts::{REAL, REPLICAS};
use crate::nemesis::Installed;

pub fn install(hand: &mut Hand<'_>, action: &Action, hit: &[String]) -> Result<Installed> {
    match action {
        Action::Pause => each(hit, |host| pause(hand, host))?,
        Action::Term => each(hit, |host| terminate(hand, host))?,
        Action::Rolling { .. } => kill(hand, REPLICAS[0])?,
        _ => each(hit, |host| kill(hand, host))?,
    }
    done()
}

/// A crash loop starts on odd beats and kills on even ones. A rolling restart goes one replica further each time.
pub fn beat(hand: &mut Hand<'_>, action: &Action, hit: &[String], beat: u64) -> Result<()> {
    if !matches!(action, Action::Rolling { .. }) {
        return if beat % 2 == 1 { undo(hand, hit) } else { each(hit, |host| kill(hand, host)) };
    }
    let place = usize::try_from(beat).unwrap_or(usize::MAX);
    if let Some(last) = place.checked_sub(1).and_then(|place| REPLICAS.get(place)) {
        start(hand, last)?;
    }
    REPLICAS.get(place).map_or(Ok(()), |next| kill(hand, next))
}

pub fn undo(hand: &Hand<'_>, hit: &[String]) -> Result<()> {
    each(hit, |host| start(hand, host))
}

pub fn kill(hand: &Hand<'_>, host: &str) -> Result<()> {
    if host == REAL {
        return hand.cluster.executor.kill(DEATH).map(drop);
    }
    hand.cluster.replica(host)?.kill()
}

pub fn pause(hand: &Hand<'_>, host: &str) -> Result<()> {
    if host == REAL {
        return hand.cluster.executor.pause();
    }
    hand.cluster.replica(host)?.process.pause()
}

fn terminate(hand: &Hand<'_>, host: &str) -> Result<()> {
    let process = if host == REAL { &hand.cluster.executor } else { &hand.cluster.replica(host)?.process };
    // It may hand over and drain for a while; one that does not end at all is a finding, and is killed.
    process.terminate(DEATH).map(drop)
}

/// Lets it go on and makes sure that it runs.
pub fn start(hand: &Hand<'_>, host: &str) -> Result<()> {
    if host == REAL {
        return hand.cluster.restore_executor();
    }
    let replica = hand.cluster.replica(host)?;
    replica.process.resume()?;
    replica.start()?;
    if hand.memory.damaged.contains(host) {
        replica.process.expect_end();
    }
    Ok(())
}
