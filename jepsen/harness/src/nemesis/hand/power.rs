//! Power losses.

use anyhow::{Context as _, Result};

use super::{Hand, done, each, processes};
use crate::action::Action;
use crate::hosts::REPLICAS;
use crate::nemesis::Installed;

pub fn install(hand: &mut Hand<'_>, action: &Action, hit: &[String]) -> Result<Installed> {
    if !matches!(action, Action::Amnesiac { .. }) {
        each(hit, |host| hand.cluster.replica(host)?.power_loss())?;
        return done();
    }
    let leader = hit.first().context("nobody leads")?.clone();
    let mut followers: Vec<String> =
        REPLICAS.iter().filter(|name| **name != leader).map(|name| (*name).to_owned()).collect();
    hand.dice.shuffle(&mut followers);
    let [stopped, powerless] = <[String; 2]>::try_from(followers).ok().context("there are three replicas")?;
    processes::pause(hand, &stopped)?;
    let detail = format!("{stopped} stops, {powerless} loses power");
    hand.memory.amnesiac = Some([leader, stopped, powerless]);
    Ok(Installed::Yes(detail))
}

/// What the leader and the second follower have acknowledged alone must still be there when the second has lost its
/// power and makes a majority with the first.
pub fn beat(hand: &mut Hand<'_>, beat: u64) -> Result<()> {
    let Some([leader, stopped, powerless]) = &hand.memory.amnesiac else { return Ok(()) };
    match beat {
        1 => hand.cluster.replica(powerless)?.power_loss(),
        2 => {
            processes::pause(hand, leader)?;
            processes::start(hand, powerless)?;
            processes::start(hand, stopped)
        }
        _ => Ok(()),
    }
}

pub fn undo(hand: &mut Hand<'_>, hit: &[String]) -> Result<()> {
    match hand.memory.amnesiac.take() {
        Some(all) => processes::undo(hand, &all),
        None => processes::undo(hand, hit),
    }
}
