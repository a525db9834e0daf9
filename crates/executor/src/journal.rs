//! The ledger's changes on disk: segments in the folder `journal`, written by one thread with group commit.
//!
//! A change that has been answered for is on disk (fdatasync). Acknowledgements are written with the next
//! change or within a second: one that is lost costs a repeated report, which the leader knows.
//! Segments are deleted from the oldest on, as soon as nothing in them counts any more.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use orloj_wire::clock::Clock;
use tokio::sync::{mpsc, oneshot};

use crate::dir::{sync_dir, sync_parent};
use crate::error::Error;
use crate::ledger::{Ledger, MemoryLimits, Now, Record};
use crate::segment::{self, Tail};
use crate::sync::lock;

/// A segment is closed when it is longer, in bytes.
const SEGMENT_BYTES: u64 = 8 << 20;
/// Most changes of one group commit.
const GROUP: usize = 1_024;
/// Most bytes of one group commit, about.
const GROUP_BYTES: usize = 8 << 20;

/// The journal has failed or is closed; nothing can be promised any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone;

enum Job {
    Append(Record, oneshot::Sender<()>),
    Later(Record),
    Tidy,
    Close(oneshot::Sender<()>),
}

/// A handle to the writer. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Journal {
    dir: Arc<Path>,
    jobs: mpsc::UnboundedSender<Job>,
    ledger: Arc<Mutex<Ledger>>,
}

impl Journal {
    /// Reads the folder into a ledger and starts the writer. When writing fails, the writer stops and its
    /// reason comes out of the receiver.
    pub(crate) fn open(
        dir: &Path,
        limits: MemoryLimits,
        clock: Arc<dyn Clock>,
    ) -> Result<(Journal, oneshot::Receiver<Error>), Error> {
        fs::create_dir_all(dir).map_err(|cause| Error::disk("creating", dir, &cause))?;
        sync_parent(dir)?;
        let mut ledger = Ledger::new(limits);
        let segments = replay(dir, &mut ledger, now(&*clock))?;
        let next = segments.back().map_or(1, |last| last + 1);
        let ledger = Arc::new(Mutex::new(ledger));
        let open = Open::create(dir, next, lock(&ledger).round())?;
        let mut writer = Writer {
            dir: dir.to_owned(),
            segments,
            open,
            later: Vec::new(),
            ledger: Arc::clone(&ledger),
            clock,
        };
        writer.tidy()?;
        let (jobs, receiver) = mpsc::unbounded_channel();
        let (failed, failure) = oneshot::channel();
        let run = move || {
            if let Err(error) = writer.run(receiver) {
                tracing::error!(cause = %error, "the journal failed");
                let _ = failed.send(error);
            }
        };
        let spawned = std::thread::Builder::new().name("orloj-journal".to_owned()).spawn(run);
        spawned.map_err(|cause| Error::disk("starting the writer of", dir, &cause))?;
        Ok((Journal { dir: dir.into(), jobs, ledger }, failure))
    }

    /// Its folder.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The state of the journal, with every change that is on disk.
    pub(crate) fn ledger(&self) -> &Mutex<Ledger> {
        &self.ledger
    }

    /// Puts a change on disk and into the ledger.
    pub(crate) async fn append(&self, record: Record) -> Result<(), Gone> {
        let (done, waiting) = oneshot::channel();
        self.jobs.send(Job::Append(record, done)).map_err(|_| Gone)?;
        waiting.await.map_err(|_| Gone)
    }

    /// Puts a change on disk some time soon. The ledger has it already.
    pub(crate) fn later(&self, record: Record) {
        // A writer that is gone has said so already.
        let _ = self.jobs.send(Job::Later(record));
    }

    /// Writes what was put off, forgets what is over, deletes old segments.
    pub(crate) fn tidy(&self) {
        let _ = self.jobs.send(Job::Tidy);
    }

    /// Writes everything and stops the writer.
    pub(crate) async fn close(&self) {
        let (done, waiting) = oneshot::channel();
        if self.jobs.send(Job::Close(done)).is_ok() {
            let _ = waiting.await;
        }
    }
}

fn now(clock: &dyn Clock) -> Now {
    Now { wall_ms: clock.wall_ms(), monotonic: clock.monotonic() }
}

/// The segment that is written to.
struct Open {
    number: u64,
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Open {
    fn create(dir: &Path, number: u64, round: u64) -> Result<Self, Error> {
        let path = dir.join(format!("{number:012}.jnl"));
        let failed = |cause: io::Error| Error::disk("creating", &path, &cause);
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(failed)?;
        file.write_all(segment::HEADER).and_then(|()| file.sync_all()).map_err(failed)?;
        sync_dir(dir)?;
        let mut open = Open { number, path, file, bytes: segment::HEADER.len() as u64 };
        // The round goes into every segment, so that no old one is kept for its sake.
        open.write(&[Record::Round(round)])?;
        Ok(open)
    }

    fn write(&mut self, records: &[Record]) -> Result<(), Error> {
        let failed = |cause: io::Error| Error::disk("writing", &self.path, &cause);
        let payload = serde_json::to_vec(records).map_err(|cause| failed(cause.into()))?;
        if payload.len() > segment::FRAME_LIMIT {
            return Err(failed(io::Error::other(format!("a change of {} bytes is too long", payload.len()))));
        }
        let mut frame = Vec::with_capacity(payload.len() + 16);
        segment::write_frame(&mut frame, &payload);
        self.file.write_all(&frame).and_then(|()| self.file.sync_data()).map_err(failed)?;
        self.bytes += frame.len() as u64;
        Ok(())
    }
}

struct Writer {
    dir: PathBuf,
    /// Closed segments, oldest first.
    segments: VecDeque<u64>,
    open: Open,
    /// Changes that wait for the next write.
    later: Vec<Record>,
    ledger: Arc<Mutex<Ledger>>,
    clock: Arc<dyn Clock>,
}

impl Writer {
    fn run(&mut self, mut jobs: mpsc::UnboundedReceiver<Job>) -> Result<(), Error> {
        while let Some(first) = jobs.blocking_recv() {
            let mut group = Vec::new();
            let (mut tidy, mut close, mut bytes) = (false, None, 0);
            let mut next = Some(first);
            while let Some(job) = next {
                match job {
                    Job::Append(record, done) => {
                        bytes += weight(&record);
                        group.push((record, done));
                    }
                    Job::Later(record) => self.later.push(record),
                    Job::Tidy => tidy = true,
                    Job::Close(done) => close = Some(done),
                }
                let full = group.len() >= GROUP || bytes >= GROUP_BYTES || close.is_some();
                next = if full { None } else { jobs.try_recv().ok() };
            }
            self.commit(group, tidy || close.is_some())?;
            if tidy {
                self.tidy()?;
            }
            if let Some(done) = close {
                let _ = done.send(());
                return Ok(());
            }
        }
        self.commit(Vec::new(), true)
    }

    /// One group commit: written, synced, in the ledger, answered.
    fn commit(&mut self, group: Vec<(Record, oneshot::Sender<()>)>, flush: bool) -> Result<(), Error> {
        if group.is_empty() && (self.later.is_empty() || !flush) {
            return Ok(());
        }
        if self.open.bytes > SEGMENT_BYTES {
            self.roll()?;
        }
        let (records, waiting): (Vec<_>, Vec<_>) = group.into_iter().unzip();
        let fresh = records.len();
        // Acknowledgements go first: a report that was sent is older than any that is written now.
        let mut all = std::mem::take(&mut self.later);
        all.extend(records);
        self.open.write(&all)?;
        let now = now(&*self.clock);
        let mut ledger = lock(&self.ledger);
        let first = all.len() - fresh;
        all.drain(first..).for_each(|record| ledger.apply(record, self.open.number, now));
        drop(ledger);
        for done in waiting {
            // Whoever does not wait any more need not be told.
            let _ = done.send(());
        }
        Ok(())
    }

    fn roll(&mut self) -> Result<(), Error> {
        let round = lock(&self.ledger).round();
        let next = Open::create(&self.dir, self.open.number + 1, round)?;
        self.segments.push_back(self.open.number);
        self.open = next;
        self.tidy()
    }

    fn tidy(&mut self) -> Result<(), Error> {
        let now = now(&*self.clock);
        let mut ledger = lock(&self.ledger);
        ledger.forget(now);
        let keep = ledger.oldest_segment().unwrap_or(self.open.number);
        drop(ledger);
        while let Some(oldest) = self.segments.front().copied().filter(|oldest| *oldest < keep) {
            let path = self.dir.join(format!("{oldest:012}.jnl"));
            fs::remove_file(&path).map_err(|cause| Error::disk("deleting", &path, &cause))?;
            self.segments.pop_front();
        }
        Ok(())
    }
}

fn weight(record: &Record) -> usize {
    match record {
        Record::Ended { report, .. } => {
            512 + report.result.as_ref().map_or(0, String::len)
                + report.message.as_ref().map_or(0, String::len)
                + report.log_tail.as_ref().map_or(0, Vec::len)
        }
        Record::Round(_) | Record::Acknowledged(_) => 64,
    }
}

/// Reads every segment, oldest first; cuts the torn tail of the last one. Returns their numbers.
fn replay(dir: &Path, ledger: &mut Ledger, now: Now) -> Result<VecDeque<u64>, Error> {
    let mut segments = numbers(dir)?;
    for at in 0..segments.len() {
        let number = segments[at];
        let path = dir.join(format!("{number:012}.jnl"));
        if at > 0 && segments[at - 1] + 1 != number {
            let problem = format!("segment {} before it is missing", number - 1);
            return Err(Error::Corrupt { path, offset: 0, problem });
        }
        let last = at + 1 == segments.len();
        if !read_segment(&path, number, last, ledger, now)? {
            segments.pop_back();
        }
    }
    Ok(segments)
}

fn numbers(dir: &Path) -> Result<VecDeque<u64>, Error> {
    let failed = |cause: io::Error| Error::disk("reading", dir, &cause);
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let number =
            path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".jnl"));
        match number.and_then(|digits| digits.parse().ok()) {
            Some(number) => numbers.push(number),
            None => {
                let problem = "a foreign file in the journal's folder".to_owned();
                return Err(Error::Corrupt { path, offset: 0, problem });
            }
        }
    }
    numbers.sort_unstable();
    Ok(numbers.into())
}

/// Reads one segment. False when it held not even a header and is gone.
fn read_segment(path: &Path, number: u64, last: bool, ledger: &mut Ledger, now: Now) -> Result<bool, Error> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    read.map_err(|cause| Error::disk("reading", path, &cause))?;
    let scan = segment::scan(&bytes);
    let corrupt = |problem: &str| Error::Corrupt {
        path: path.to_owned(),
        offset: scan.good as u64,
        problem: problem.to_owned(),
    };
    for frame in &scan.frames {
        let records: Vec<Record> = serde_json::from_slice(frame)
            .map_err(|cause| corrupt(&format!("a sound frame cannot be read: {cause}")))?;
        records.into_iter().for_each(|record| ledger.apply(record, number, now));
    }
    match scan.tail {
        Tail::Clean => Ok(true),
        Tail::Torn if last => cut(path, scan.good).map(|()| scan.good > 0),
        Tail::Torn => Err(corrupt("the end of a closed segment is missing")),
        Tail::Damaged => Err(corrupt("a damaged frame before sound ones")),
    }
}

/// Cuts a torn tail: what a crash left of a write that nobody was told of.
fn cut(path: &Path, good: usize) -> Result<(), Error> {
    let failed = |cause: io::Error| Error::disk("cutting the torn tail of", path, &cause);
    tracing::warn!(path = %path.display(), offset = good, "the journal ends in an unfinished write; it is cut");
    if good == 0 {
        fs::remove_file(path).map_err(failed)?;
        return sync_parent(path);
    }
    let file = OpenOptions::new().write(true).open(path).map_err(failed)?;
    file.set_len(good as u64).and_then(|()| file.sync_all()).map_err(failed)
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
