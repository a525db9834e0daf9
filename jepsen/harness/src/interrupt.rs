//! Ctrl-C and SIGTERM: a run that is told to end still undoes everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use tokio::signal::unix::{SignalKind, signal};

/// A flag that the first of these signals sets. The second ends the process; `clean` undoes what is left then.
///
/// # Errors
/// Signals cannot be handled.
pub fn flag() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&flag);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut interrupts, mut terms) = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let wait = move || {
        runtime.block_on(async {
            tokio::select! { _ = interrupts.recv() => {} _ = terms.recv() => {} }
            told.store(true, Ordering::Relaxed);
            eprintln!("undoing everything; once more ends at once");
            tokio::select! { _ = interrupts.recv() => {} _ = terms.recv() => {} }
        });
        std::process::exit(70);
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).context("start a thread")?;
    Ok(flag)
}
