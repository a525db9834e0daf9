//! Where work runs that waits for the disk: in the product on threads of its own, so that it holds up no task.
//! A simulation runs everything in one place, in an order that it decides.

use std::io;
use std::thread::JoinHandle;

use crate::error::Fault;
use crate::log::LogWriter;

/// Work that waits for the disk.
pub type Job = Box<dyn FnOnce() + Send>;

/// Runs what waits for the disk.
pub trait Runner: Send + Sync + 'static {
    /// Lets the writer of a log work until its log is closed or has failed: either in a thread, by
    /// [`LogWriter::run`], or in a task, step by step. The thread is joined when the log is dropped.
    ///
    /// # Errors
    /// There is no thread to be had.
    fn write_log(&self, writer: LogWriter) -> io::Result<Option<JoinHandle<()>>>;

    /// Runs a job, now or soon.
    fn run(&self, job: Job);
}

/// The product's: the log's writer has a thread, and jobs run on the runtime's threads for blocking work.
#[derive(Debug, Clone, Copy, Default)]
pub struct Threads;

impl Runner for Threads {
    fn write_log(&self, writer: LogWriter) -> io::Result<Option<JoinHandle<()>>> {
        std::thread::Builder::new().name("orloj-log".into()).spawn(move || writer.run()).map(Some)
    }

    fn run(&self, job: Job) {
        // The job answers through its own channel, which also tells when it has died.
        drop(tokio::task::spawn_blocking(job));
    }
}

/// Runs work that waits for the disk, and waits for its result.
///
/// # Errors
/// The work's own, or it has died.
pub async fn blocking<T, F>(runner: &dyn Runner, work: F) -> Result<T, Fault>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, Fault> + Send + 'static,
{
    let (done, result) = tokio::sync::oneshot::channel();
    runner.run(Box::new(move || {
        // Whoever asked may have gone away.
        drop(done.send(work()));
    }));
    result.await.unwrap_or_else(|_| Err(Fault::Damaged("a task of the storage died".into())))
}
