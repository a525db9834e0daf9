//! Work inside a host's network namespace: threads with their own runtime, and processes.

use std::future::Future;
use std::io;
use std::net::Ipv4Addr;
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};

use crate::netns;

/// One machine of a run: a name, an address on the fabric and a network namespace. Clones are the same host.
#[derive(Debug, Clone)]
pub struct Host(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    address: Ipv4Addr,
    netns: String,
    namespace: std::fs::File,
}

impl Host {
    /// The host whose namespace `netns` exists already.
    ///
    /// # Errors
    /// When it does not.
    pub(crate) fn open(name: &str, address: Ipv4Addr, netns: String) -> Result<Self> {
        let namespace = netns::open(&netns)?;
        Ok(Self(Arc::new(Inner { name: name.to_string(), address, netns, namespace })))
    }

    /// The host's name, such as `n1`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The host's address on the fabric.
    pub fn address(&self) -> Ipv4Addr {
        self.0.address
    }

    /// The name of its network namespace, as `ip netns exec` takes it.
    pub fn netns(&self) -> &str {
        &self.0.netns
    }

    /// Starts a thread inside the host that runs `future` on a runtime of its own until it is finished. The
    /// future is made on that thread, so it need not be `Send`; sockets that it opens belong to the host.
    /// The thread ends when the future does: give it a signal to stop.
    ///
    /// # Errors
    /// When the thread cannot start. What goes wrong inside it comes out of [`Inside::join`].
    pub fn spawn_inside<T, F, Fut>(&self, name: &str, future: F) -> Result<Inside<T>>
    where
        T: Send + 'static,
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = T>,
    {
        let host = self.clone();
        let name = format!("{}-{name}", self.name());
        let thread = std::thread::Builder::new().name(name.clone()).spawn(move || {
            netns::enter(&host.0.namespace).context("entering the host's network namespace")?;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .context("starting the host's runtime")?;
            Ok(runtime.block_on(future()))
        });
        let thread = thread.with_context(|| format!("starting the thread {name}"))?;
        Ok(Inside { name, thread })
    }

    /// Runs `work` on a thread inside the host and waits for it.
    ///
    /// # Errors
    /// When the thread cannot start or enter, or `work` fails.
    pub fn run_inside<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        netns::within(&self.0.namespace, work)
    }

    /// Starts a process inside the host. It is spawned from a short-lived thread, so a parent-death signal
    /// (`PR_SET_PDEATHSIG`), which is bound to the spawning thread, would hit it at once: do not use one.
    ///
    /// # Errors
    /// When the thread cannot enter the host or the program does not start.
    pub fn spawn_process_inside(&self, command: &mut Command) -> Result<Child> {
        self.run_inside(|| command.spawn().with_context(|| format!("starting {command:?}")))
    }
}

/// A thread inside a host.
#[derive(Debug)]
pub struct Inside<T> {
    name: String,
    thread: JoinHandle<Result<T>>,
}

impl<T> Inside<T> {
    /// The thread's name: the host's and its own.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the work has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the end of the work and gives its result. Blocks: not for use inside a runtime.
    ///
    /// # Errors
    /// When the thread did not get into the host, or the work panicked.
    pub fn join(self) -> Result<T> {
        let name = self.name;
        match self.thread.join() {
            Ok(outcome) => outcome.with_context(|| name),
            Err(panic) => {
                let said = panic
                    .downcast_ref::<String>()
                    .map(String::as_str)
                    .or_else(|| panic.downcast_ref::<&str>().copied())
                    .unwrap_or("without a message");
                Err(anyhow!(io::Error::other(format!("{name} panicked: {said}"))))
            }
        }
    }
}
