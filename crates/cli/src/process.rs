//! What a process asks of the system: signals that end it, and its tie to the process that started it.

use anyhow::{Context as _, bail};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getppid, getrlimit, kill_process, set_parent_process_death_signal,
    setrlimit,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Ends this process with the one that started it, whose id is `parent`, however that one ends.
///
/// # Errors
/// The system refused, or the parent is gone already.
pub fn end_with_parent(parent: u32) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot tie this process to its parent")?;
    // The parent may have ended before the call above took effect.
    let now = getppid().map(Pid::as_raw_nonzero).map(|pid| pid.get() as u32);
    if now != Some(parent) {
        bail!("the parent process {parent} is gone");
    }
    Ok(())
}

/// A token that is cancelled by the first SIGTERM or SIGINT. A second one ends the process at once.
///
/// # Errors
/// The system refused the handlers.
pub fn stop_token() -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let stop = token.clone();
    tokio::spawn(async move {
        for last in [false, true] {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            };
            if last {
                tracing::warn!(signal = name, "second signal, ending at once");
                std::process::exit(130);
            }
            tracing::info!(signal = name, "stopping");
            stop.cancel();
        }
    });
    Ok(token)
}

/// Changes at every SIGHUP, which asks to read files again.
///
/// # Errors
/// The system refused the handler.
pub fn hangups() -> std::io::Result<watch::Receiver<()>> {
    let mut hangup = signal(SignalKind::hangup())?;
    let (hint, hints) = watch::channel(());
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            hint.send_replace(());
        }
    });
    Ok(hints)
}

/// Takes as many open files as the system allows this process: a crowd of connections must not leave the
/// databases without any.
pub fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, ?limit, "the limit of open files stays as it is");
    }
}

/// Sends a signal. A process that is gone is no error.
pub fn send(pid: u32, signal: Signal) {
    let Some(process) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    match kill_process(process, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => tracing::warn!(%error, pid, "cannot send a signal"),
    }
}
