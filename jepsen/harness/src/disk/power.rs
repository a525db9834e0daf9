//! A replica loses its power.

use std::time::Duration;

use anyhow::Result;

use super::Disk;
use crate::process::{Ended, Proc};

/// Cuts the power of a replica: its process is gone and what it had not synced is lost. Its disk is mounted
/// again when this returns, and [`Proc::start_again`] gives the power back. A process that has ended already
/// is no hindrance.
///
/// The process is stopped first and killed last, so that it neither sees its disk fail nor closes its files.
pub fn power_loss(disk: &Disk, process: &Proc, patience: Duration) -> Result<Ended> {
    process.expect_end();
    // A process that waits for a frozen disk can be neither stopped nor killed.
    disk.thaw()?;
    if process.is_running() {
        process.pause()?;
    }
    disk.cut()?;
    let ended = process.kill(patience)?;
    disk.unmount()?;
    disk.mount()?;
    Ok(ended)
}
