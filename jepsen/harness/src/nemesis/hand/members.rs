//! Members that go, come back and are somebody else.

use std::time::Duration;

use anyhow::Result;

use super::{Hand, done, processes};
use crate::action::Action;
use crate::hosts::REPLICAS;
use crate::nemesis::Installed;
use crate::wait::until;

/// For a replica without data to become a voting member under a new id.
const JOIN: Duration = Duration::from_secs(30);
/// The names of data that is put aside.
const OLD: &str = "old";
const NEW: &str = "new";

pub fn install(hand: &mut Hand<'_>, action: &Action, hit: &[String]) -> Result<Installed> {
    for host in hit {
        match action {
            Action::Transfer => return Ok(transfer(hand, host)),
            Action::Snapshot => match hand.cluster.admin.snapshot(hand.fabric, host) {
                Ok(told) => return Ok(Installed::Yes(told)),
                Err(error) => return Ok(Installed::Indeterminate(format!("{error:#}"))),
            },
            Action::Remove => return remove(hand, host),
            Action::OldIdentity { .. } => {
                let replica = hand.cluster.replica(host)?;
                replica.kill()?;
                replica.put_aside(OLD)?;
                replica.start()?;
            }
            _ => replace(hand, host)?,
        }
    }
    done()
}

fn transfer(hand: &Hand<'_>, host: &str) -> Installed {
    let admin = &hand.cluster.admin;
    match admin.member(hand.fabric, host) {
        Ok(Some(id)) => match admin.transfer(hand.fabric, id) {
            Ok(()) => Installed::Yes(format!("to member {id}")),
            Err(error) => Installed::Indeterminate(format!("{error:#}")),
        },
        Ok(None) => Installed::Skipped(format!("{host} is no member")),
        Err(error) => Installed::Skipped(format!("{error:#}")),
    }
}

fn remove(hand: &Hand<'_>, host: &str) -> Result<Installed> {
    let admin = &hand.cluster.admin;
    let Some(id) = admin.member(hand.fabric, host).ok().flatten() else {
        return Ok(Installed::Skipped(format!("{host} is no member")));
    };
    hand.cluster.replica(host)?.process.expect_end();
    Ok(match admin.remove(hand.fabric, id) {
        Ok(()) => Installed::Yes(format!("member {id}")),
        Err(error) => Installed::Indeterminate(format!("{error:#}")),
    })
}

fn replace(hand: &Hand<'_>, host: &str) -> Result<()> {
    let replica = hand.cluster.replica(host)?;
    replica.kill()?;
    replica.wipe()?;
    replica.start()
}

/// The old data comes back for one beat, in the place of the new one.
pub fn beat(hand: &mut Hand<'_>, hit: &[String], beat: u64) -> Result<()> {
    if beat != 1 {
        return Ok(());
    }
    for host in hit {
        let replica = hand.cluster.replica(host)?;
        replica.kill()?;
        replica.put_aside(NEW)?;
        replica.bring_back(OLD)?;
        replica.start()?;
        replica.process.expect_end();
    }
    Ok(())
}

pub fn undo(hand: &mut Hand<'_>, action: &Action, hit: &[String]) -> Result<()> {
    for host in hit {
        match action {
            Action::Transfer | Action::Snapshot => return Ok(()),
            Action::Remove => replace(hand, host)?,
            Action::OldIdentity { .. } => {
                let replica = hand.cluster.replica(host)?;
                replica.kill()?;
                // Without the new data, the beat that put it aside did not come.
                if replica.disk.dir().join(NEW).exists() {
                    replica.bring_back(NEW)?;
                }
                replica.start()?;
            }
            _ => processes::start(hand, host)?,
        }
    }
    wait_whole(hand)
}

/// Waits until there are three members that answer, so that the next fault meets a whole cluster. Whether they ever
/// come together is for the checkers to say.
fn wait_whole(hand: &Hand<'_>) -> Result<()> {
    let whole = || {
        let view = hand.cluster.admin.view(hand.fabric).ok()?;
        let votes = |role: &str| matches!(role, "leader" | "follower");
        let members = view.members.iter().filter(|member| votes(&member.role)).count();
        (members == REPLICAS.len() && view.members.len() == members).then_some(())
    };
    let _ = until("three members", JOIN, || Ok(whole()));
    Ok(())
}
