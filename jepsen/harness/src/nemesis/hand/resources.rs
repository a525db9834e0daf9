//! Too little of the machine.

use anyhow::{Context as _, Result};

use super::{Hand, done, processes};
use crate::action::Action;
use crate::limits::files;
use crate::nemesis::Installed;

pub fn install(hand: &mut Hand<'_>, action: &Action, hit: &[String]) -> Result<Installed> {
    for host in hit {
        let replica = hand.cluster.replica(host)?;
        if !replica.process.is_running() {
            return Ok(Installed::Skipped(format!("{host} does not run")));
        }
        if let Action::Files { count } = action {
            let pid = replica.process.pid();
            replica.process.expect_end();
            hand.memory.files.insert(host.clone(), (pid, files(pid, Some(*count))?));
            continue;
        }
        let Some(limits) = &replica.limits else {
            return Ok(Installed::Skipped("this machine has no cgroups that can be used".into()));
        };
        match action {
            Action::Cpu { percent } => limits.cpu(Some(*percent))?,
            Action::Memory { mib } => {
                replica.process.expect_end();
                if limits.memory(Some(mib << 20)).is_err() {
                    // The kernel cannot take away what is in use: the next life begins within the limit.
                    replica.kill()?;
                    limits.memory(Some(mib << 20))?;
                    replica.start()?;
                    replica.process.expect_end();
                }
            }
            _ => {}
        }
    }
    done()
}

pub fn undo(hand: &mut Hand<'_>, hit: &[String]) -> Result<()> {
    for host in hit {
        lift(hand, host)?;
        processes::start(hand, host)?;
        if !hand.memory.damaged.contains(host) {
            hand.cluster.replica(host)?.process.expect_life();
        }
    }
    Ok(())
}

fn lift(hand: &mut Hand<'_>, host: &str) -> Result<()> {
    let replica = hand.cluster.replica(host)?;
    if let Some((pid, before)) = hand.memory.files.remove(host)
        && replica.process.is_running()
        && replica.process.pid() == pid
    {
        files(pid, before)?;
    }
    if let Some(limits) = &replica.limits {
        limits.cpu(None).context("lift the limit of CPU")?;
        limits.memory(None).context("lift the limit of memory")?;
    }
    Ok(())
}

pub fn lift_all(hand: &mut Hand<'_>) -> Result<()> {
    let names: Vec<String> = hand.cluster.replicas.iter().map(|replica| replica.name.clone()).collect();
    names.iter().try_for_each(|host| lift(hand, host))
}
