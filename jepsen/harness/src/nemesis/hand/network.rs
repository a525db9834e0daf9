//! Cuts and bad links.

use std::collections::BTreeMap;

use anyhow::Result;

use super::{Hand, done, each, processes};
use crate::action::Action;
use crate::fabric::LinkRule;
use crate::hosts::{REPLICAS, is_client, is_executor};
use crate::nemesis::Installed;
use crate::nemesis::links::{Link, overlay};
use crate::plan::Step;

pub fn install(hand: &mut Hand<'_>, step: &Step, hit: &[String]) -> Result<Installed> {
    let other = others(hit, |host| REPLICAS.contains(&host), hand);
    let other = hand.dice.pick(&other).cloned();
    match &step.action {
        Action::Swizzle { .. } => {
            let mut peers = others(hit, |host| REPLICAS.contains(&host) || is_executor(host), hand);
            hand.dice.shuffle(&mut peers);
            // The second half heals them, in an order of its own.
            let mut heals = peers.clone();
            hand.dice.shuffle(&mut heals);
            hand.memory.swizzle = [peers, heals].concat();
            swizzle(hand, step.number, hit, 0)?;
        }
        Action::Resets { .. } => reset(hand, hit)?,
        action => {
            let overlay = overlay(action, hit, &hand.hosts, other.as_deref());
            let rules = hand.memory.links.lay(step.number, overlay);
            apply(hand, rules)?;
        }
    }
    match &step.action {
        Action::HalfOpen => {
            each(hit, |host| processes::kill(hand, host))?;
            done()
        }
        Action::Edge => Ok(Installed::Yes(format!("to {}", other.unwrap_or_default()))),
        _ => done(),
    }
}

pub fn beat(hand: &mut Hand<'_>, step: &Step, hit: &[String], beat: u64) -> Result<()> {
    match &step.action {
        Action::Resets { .. } => reset(hand, hit),
        _ => swizzle(hand, step.number, hit, beat),
    }
}

pub fn undo(hand: &mut Hand<'_>, step: &Step, hit: &[String]) -> Result<()> {
    let rules = hand.memory.links.lift(step.number);
    apply(hand, rules)?;
    match &step.action {
        Action::HalfOpen => processes::undo(hand, hit),
        _ => Ok(()),
    }
}

fn others(hit: &[String], wanted: impl Fn(&str) -> bool, hand: &Hand<'_>) -> Vec<String> {
    hand.hosts.iter().filter(|host| wanted(host) && !hit.contains(host)).cloned().collect()
}

fn apply(hand: &Hand<'_>, rules: BTreeMap<Link, LinkRule>) -> Result<()> {
    rules.into_iter().try_for_each(|((from, to), rule)| hand.fabric.set_link(&from, &to, rule))
}

/// The state of a swizzle after so many beats: the first half of the list is cut one by one, the second half healed.
fn swizzle(hand: &mut Hand<'_>, number: u64, hit: &[String], beat: u64) -> Result<()> {
    let order = &hand.memory.swizzle;
    let done = usize::try_from(beat + 1).unwrap_or(usize::MAX).min(order.len());
    let half = order.len() / 2;
    let healed = &order[half..done.max(half)];
    let cut = order[..done.min(half)].iter().filter(|peer| !healed.contains(peer));
    let mut links = Vec::new();
    for peer in cut {
        for host in hit {
            links.push(((peer.clone(), host.clone()), LinkRule::cut()));
            links.push(((host.clone(), peer.clone()), LinkRule::cut()));
        }
    }
    let rules = hand.memory.links.lay(number, links);
    apply(hand, rules)
}

fn reset(hand: &Hand<'_>, hit: &[String]) -> Result<()> {
    for host in hit {
        for peer in hand.hosts.iter().filter(|peer| *peer != host && !is_client(peer)) {
            hand.fabric.reset_connections(host, peer)?;
        }
    }
    Ok(())
}
