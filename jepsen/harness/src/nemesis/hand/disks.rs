//! Bad disks.

use std::time::Duration;

use anyhow::{Context as _, Result};

use super::{Hand, done, each, processes};
use crate::action::Action;
use crate::cluster::replica::Replica;
use crate::disk::damage::{Damage, Part, damage};
use crate::disk::fsync::{Errno, FsyncFault};
use crate::nemesis::Installed;

/// A replica that has run for so long after a damage has read what it needs to start.
const STARTED: Duration = Duration::from_secs(4);

pub fn install(hand: &mut Hand<'_>, action: &Action, hit: &[String]) -> Result<Installed> {
    match action {
        Action::DiskFull => each(hit, |host| {
            let replica = hand.cluster.replica(host)?;
            replica.process.expect_end();
            replica.disk.fill(0).map(drop)
        })?,
        Action::Stall => each(hit, |host| hand.cluster.replica(host)?.disk.freeze())?,
        Action::ReadOnly => each(hit, |host| {
            let replica = hand.cluster.replica(host)?;
            replica.process.expect_end();
            replica.disk.read_only()
        })?,
        Action::SlowSync { .. } | Action::SyncError => return trace(hand, action, hit),
        _ => return hurt(hand, action, hit),
    }
    done()
}

fn trace(hand: &mut Hand<'_>, action: &Action, hit: &[String]) -> Result<Installed> {
    for host in hit {
        let replica = hand.cluster.replica(host)?;
        if !replica.process.is_running() {
            return Ok(Installed::Skipped(format!("{host} does not run")));
        }
        let (pid, journal) = (replica.process.pid(), hand.cluster.journal());
        let fault = match action {
            Action::SlowSync { delay_ms } => {
                FsyncFault::slow(pid, Duration::from_millis(*delay_ms), journal)?
            }
            _ => {
                replica.process.expect_end();
                FsyncFault::fail(pid, Errno::Eio, 1, journal)?
            }
        };
        hand.memory.tracers.insert(host.clone(), fault);
    }
    done()
}

/// Damages bytes that lie on the disk of a replica that has been killed.
fn hurt(hand: &mut Hand<'_>, action: &Action, hit: &[String]) -> Result<Installed> {
    let mut details = Vec::new();
    for host in hit {
        let replica = hand.cluster.replica(host)?;
        replica.kill()?;
        let part = *hand.dice.pick(&[Part::Wal, Part::Sst]).context("there are two parts")?;
        let how = match action {
            Action::Flip => Damage::Flip { place: hand.dice.draw() },
            _ => Damage::Truncate { bytes: hand.dice.between(1, 4_096) },
        };
        let told = match damage(&replica.data(), part, how)? {
            Some(told) => Some(told),
            // There are no tables before the first flush.
            None => damage(&replica.data(), Part::Wal, how)?,
        };
        match told {
            Some(told) => details.push(format!("{host}: {told}")),
            None => return Ok(Installed::Skipped(format!("{host} has no file to damage"))),
        }
        hand.memory.damaged.insert(host.clone());
    }
    Ok(Installed::Yes(details.join(", ")))
}

pub fn undo(hand: &mut Hand<'_>, action: &Action, hit: &[String]) -> Result<()> {
    for host in hit {
        if let Some(fault) = hand.memory.tracers.remove(host) {
            fault.detach()?;
        }
        let replica = hand.cluster.replica(host)?;
        match action {
            Action::DiskFull => replica.disk.free()?,
            Action::Stall => replica.disk.thaw()?,
            Action::ReadOnly => {
                replica.kill()?;
                replica.disk.unmount()?;
            }
            _ => {}
        }
        processes::start(hand, host)?;
        if matches!(action, Action::Flip | Action::Truncate) {
            if start_or_replace(replica)? {
                hand.memory.damaged.remove(host);
            }
        } else if !hand.memory.damaged.contains(host) {
            // What is wrong with it from now on is its own fault.
            replica.process.expect_life();
        }
    }
    Ok(())
}

/// A replica that cannot start on its damaged bytes comes back empty, under a new identity. Says whether it did.
fn start_or_replace(replica: &Replica) -> Result<bool> {
    replica.process.expect_end();
    if replica.process.wait(STARTED)?.is_none() {
        return Ok(false);
    }
    replica.wipe()?;
    replica.start()?;
    Ok(true)
}

/// Before a run ends: replicas that ended on damaged bytes later, when they read them.
pub fn replace_damaged(hand: &mut Hand<'_>) -> Result<()> {
    for host in std::mem::take(&mut hand.memory.damaged) {
        start_or_replace(hand.cluster.replica(&host)?)?;
    }
    Ok(())
}

/// Ends every trace.
pub fn detach_all(hand: &mut Hand<'_>) -> Result<()> {
    let tracers = std::mem::take(&mut hand.memory.tracers);
    tracers.into_values().try_for_each(FsyncFault::detach)
}
