//! Network namespaces by name, through `ip netns`, and threads that enter them.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::tool::tool;

/// Where `ip netns` keeps the names.
const NAMES: &str = "/run/netns";

/// The file that stands for the namespace `name`.
pub fn path(name: &str) -> PathBuf {
    Path::new(NAMES).join(name)
}

/// Creates the namespace `name`.
///
/// # Errors
/// When it exists, or the caller may not create namespaces, or `ip` is missing.
pub fn create(name: &str) -> Result<()> {
    tool("ip", &["netns", "add", name]).map(drop)
}

/// Deletes the namespace `name`; without effect when there is none. The namespace itself lives on until the
/// last process or thread in it is gone.
///
/// # Errors
/// When `ip` refuses.
pub fn delete(name: &str) -> Result<()> {
    if !path(name).exists() {
        return Ok(());
    }
    match tool("ip", &["netns", "del", name]).map(drop) {
        // Somebody else was faster.
        Err(_) if !path(name).exists() => Ok(()),
        outcome => outcome,
    }
}

/// A handle on the namespace `name`, which [`enter`] takes.
///
/// # Errors
/// When there is no such namespace.
pub fn open(name: &str) -> Result<File> {
    File::open(path(name)).with_context(|| format!("opening the network namespace {name}"))
}

/// Moves the calling *thread* into a network namespace. Threads and processes that it starts from then on
/// begin there too.
///
/// # Errors
/// When the handle is no network namespace or the caller is not privileged.
pub fn enter(namespace: &impl AsFd) -> rustix::io::Result<()> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
}

/// Runs `work` on a thread of its own inside the namespace and waits for it.
///
/// # Errors
/// When the thread cannot start or cannot enter the namespace, or `work` fails.
pub fn within<T: Send>(namespace: &File, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("netns".to_string()).spawn_scoped(scope, || {
            enter(namespace).context("entering a network namespace")?;
            work()
        });
        match thread.context("starting a thread")?.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Runs commands of `ip`, one a line without the word `ip`, in the namespace of the calling thread.
///
/// # Errors
/// The first line that `ip` refuses, with its words.
pub fn ip_batch(lines: &str) -> Result<()> {
    feed(Command::new("ip").args(["-batch", "-"]), lines)
}

/// Runs a command with `input` on its standard input.
///
/// # Errors
/// When it does not start or does not succeed, with what it printed.
pub fn feed(command: &mut Command, input: &str) -> Result<()> {
    let shown = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {shown}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that ends without reading says why on its standard error, which is reported below.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{shown} with {input:?}: {}: {}", output.status, said.trim());
    }
    Ok(())
}

/// The processes whose main thread is in the namespace `name`.
///
/// # Errors
/// When the process table cannot be read.
pub fn processes(name: &str) -> Result<Vec<u32>> {
    use std::os::unix::fs::MetadataExt;
    let Ok(namespace) = std::fs::metadata(path(name)) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // A process that ends meanwhile, or a zombie, has no namespace any more.
        let Ok(own) = std::fs::metadata(entry.path().join("ns/net")) else { continue };
        if (own.dev(), own.ino()) == (namespace.dev(), namespace.ino()) {
            found.push(pid);
        }
    }
    Ok(found)
}
