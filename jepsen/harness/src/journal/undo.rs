//! Undoing single steps, in the right order.

use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::Signal;

use super::process::Pid;
use super::{Step, Ticket};
use crate::netns;
use crate::tool::tool;
use crate::wait;

/// How long the kernel may take to let go of a mount or a cgroup whose processes were killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// Steps in the order in which they are undone. A process on a frozen file system cannot die and a tracer
/// holds its victim, so thawing comes before continuing, that before detaching and that before killing. The
/// rest is undone from the last to the first.
pub fn ordered(mut steps: Vec<(Ticket, Step)>) -> Vec<(Ticket, Step)> {
    steps.sort_by_key(|(ticket, step)| (phase(step), std::cmp::Reverse(*ticket)));
    steps
}

fn phase(step: &Step) -> u8 {
    match step {
        Step::Frozen { .. } | Step::FrozenCgroup { .. } => 0,
        Step::Stopped(_) => 1,
        Step::Tracer(_) => 2,
        Step::Process(_) => 3,
        // Its processes may be unknown by number, and hold mounts and cgroups.
        Step::Netns { .. } => 4,
        Step::Mount { .. }
        | Step::Loop { .. }
        | Step::Cgroup { .. }
        | Step::File { .. }
        | Step::Folder { .. } => 5,
    }
}

/// Undoes one step.
///
/// # Errors
/// When the machine refuses. A step that is not in effect is no error.
pub fn undo(step: &Step) -> Result<()> {
    match step {
        Step::Netns { name } => {
            kill_all(|| netns::processes(name))?;
            netns::delete(name)
        }
        Step::Process(pid) => pid.kill(),
        Step::Stopped(pid) => pid.signal(Signal::CONT),
        Step::Tracer(pid) => {
            pid.signal(Signal::TERM)?;
            // A tracer that does not obey is killed; the kernel then lets its victim go.
            pid.wait_gone().or_else(|_| pid.kill())
        }
        Step::Frozen { mount } => thaw(mount),
        Step::FrozenCgroup { path } => match std::fs::write(path.join("freezer.state"), "THAWED") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            outcome => outcome.with_context(|| format!("thawing {}", path.display())),
        },
        Step::Mount { path } => unmount_patiently(path),
        Step::Loop { image } => detach(image),
        Step::Cgroup { path } => remove_cgroup(path),
        Step::File { path } => unless_missing(std::fs::remove_file(path), path),
        Step::Folder { path } => unless_missing(std::fs::remove_dir(path), path),
    }
}

fn unless_missing(outcome: io::Result<()>, path: &Path) -> Result<()> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome.with_context(|| format!("removing {}", path.display())),
    }
}

/// Kills what `list` gives until it gives nothing: a process may have started another meanwhile.
fn kill_all(list: impl Fn() -> Result<Vec<u32>>) -> Result<()> {
    wait::until("the end of all processes", PATIENCE * 2, || {
        let processes: Vec<Pid> = list()?.into_iter().filter_map(|pid| Pid::of(pid).ok()).collect();
        let own = std::process::id();
        let alive: Vec<&Pid> = processes.iter().filter(|pid| pid.pid != own && pid.is_alive()).collect();
        for pid in &alive {
            pid.signal(Signal::CONT)?;
            pid.kill()?;
        }
        Ok(alive.is_empty().then_some(()))
    })
}

/// Thaws what is frozen. That a file system is not frozen (EINVAL), or not mounted any more so that the
/// path is an ordinary folder of another one, is as good.
fn thaw(mount: &Path) -> Result<()> {
    if !is_mount_point(mount)? {
        return Ok(());
    }
    match tool("fsfreeze", &["--unfreeze", &mount.to_string_lossy()]) {
        Err(error) if !format!("{error:#}").contains("Invalid argument") => Err(error),
        _ => Ok(()),
    }
}

/// Whether something is mounted exactly here, as this process sees it.
fn is_mount_point(path: &Path) -> Result<bool> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").context("reading the mounts")?;
    let wanted = path.to_string_lossy();
    Ok(mounts.lines().any(|line| line.split(' ').nth(4).is_some_and(|point| unescaped(point) == wanted)))
}

/// A path of the mount table, in which blanks and backslashes are octal.
fn unescaped(field: &str) -> String {
    field.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

fn unmount_patiently(path: &Path) -> Result<()> {
    let tried = wait::until("an idle mount", PATIENCE, || match unmount(path, UnmountFlags::empty()) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(Some(())),
        Err(Errno::BUSY) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("unmounting {}", path.display())),
    });
    // Whoever still holds it keeps it out of everybody else's sight from now on.
    tried.or_else(|_| {
        unmount(path, UnmountFlags::DETACH).with_context(|| format!("detaching {}", path.display()))
    })
}

/// Detaches every loop device of the image, also when the image was removed meanwhile.
fn detach(image: &Path) -> Result<()> {
    let image = image.to_string_lossy();
    let devices = tool("losetup", &["--list", "--noheadings", "--output", "NAME,BACK-FILE"])?;
    for line in devices.lines() {
        let Some((device, file)) = line.trim().split_once(' ') else { continue };
        if file.trim().trim_end_matches(" (deleted)") == image {
            tool("losetup", &["--detach", device])?;
        }
    }
    Ok(())
}

fn remove_cgroup(path: &Path) -> Result<()> {
    kill_all(|| match std::fs::read_to_string(path.join("cgroup.procs")) {
        Ok(processes) => Ok(processes.lines().filter_map(|line| line.parse().ok()).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    })?;
    // The kernel counts a dead process for a moment longer.
    wait::until("an empty cgroup", PATIENCE, || match std::fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(None),
        outcome => unless_missing(outcome, path).map(Some),
    })
}
