//! The whole log of one attempt: on disk while it grows, its end in memory, and a way to follow it.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use orloj_wire::protocol::AttemptRef;
use tokio::sync::watch;

use crate::sync::lock;

/// How much of a log's end goes into the report, in bytes.
pub(crate) const TAIL_BYTES: usize = 16 << 10;

/// Where the log of an attempt is, below the folder of logs.
pub(crate) fn log_path(dir: &Path, attempt: &AttemptRef) -> PathBuf {
    let name = format!("{}-{}-{}.log", attempt.shard_index, attempt.attempt, attempt.fence);
    dir.join(&attempt.task_id).join(name)
}

/// How far a log has grown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Growth {
    /// Bytes on disk.
    pub(crate) bytes: u64,
    /// Nothing will be added.
    pub(crate) complete: bool,
}

/// A log that is being written. Its file appears with its first byte.
pub(crate) struct Log {
    path: PathBuf,
    limit: u64,
    inner: Mutex<Inner>,
    growth: watch::Sender<Growth>,
}

struct Inner {
    file: Option<File>,
    bytes: u64,
    cut: bool,
    broken: bool,
    complete: bool,
    tail: VecDeque<u8>,
}

impl Log {
    /// A log that will be at `path` and hold at most `limit` bytes and a mark.
    pub(crate) fn new(path: PathBuf, limit: u64) -> Self {
        let inner =
            Inner { file: None, bytes: 0, cut: false, broken: false, complete: false, tail: VecDeque::new() };
        let growth = watch::Sender::new(Growth { bytes: 0, complete: false });
        Log { path, limit, inner: Mutex::new(inner), growth }
    }

    /// Adds a line.
    pub(crate) fn line(&self, line: &str) {
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        self.write(&bytes);
    }

    /// Adds bytes. The write goes to the page cache. A disk that refuses it costs the log, not the attempt.
    pub(crate) fn write(&self, bytes: &[u8]) {
        let mut inner = lock(&self.inner);
        if inner.complete {
            return;
        }
        let keep = bytes.len().saturating_sub(TAIL_BYTES);
        inner.tail.extend(&bytes[keep..]);
        let excess = inner.tail.len().saturating_sub(TAIL_BYTES);
        inner.tail.drain(..excess);
        if inner.cut || inner.broken {
            return;
        }
        let room = usize::try_from(self.limit - inner.bytes).unwrap_or(usize::MAX);
        let written = if bytes.len() <= room {
            inner.append(&self.path, bytes)
        } else {
            inner.cut = true;
            let mark = format!("\n[log cut here: it is longer than {} bytes]\n", self.limit);
            inner.append(&self.path, &bytes[..room]).and_then(|()| inner.append(&self.path, mark.as_bytes()))
        };
        if let Err(cause) = written {
            inner.broken = true;
            tracing::warn!(path = %self.path.display(), cause = %cause, "a log cannot be written");
        }
        let bytes = inner.bytes;
        drop(inner);
        self.growth.send_replace(Growth { bytes, complete: false });
    }

    /// The end of the log, also of what was cut on disk.
    pub(crate) fn tail(&self) -> Vec<u8> {
        lock(&self.inner).tail.iter().copied().collect()
    }

    /// Nothing will be added any more.
    pub(crate) fn complete(&self) {
        let mut inner = lock(&self.inner);
        inner.complete = true;
        inner.file = None;
        drop(inner);
        self.growth.send_modify(|growth| growth.complete = true);
    }

    /// Tells of growth.
    pub(crate) fn follow(&self) -> watch::Receiver<Growth> {
        self.growth.subscribe()
    }
}

impl Inner {
    fn append(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            self.file = Some(OpenOptions::new().create(true).append(true).open(path)?);
        }
        if let Some(file) = &mut self.file {
            file.write_all(bytes)?;
            self.bytes += bytes.len() as u64;
        }
        Ok(())
    }
}

/// Reads a part of a log file. None when there is no such file.
pub(crate) fn read_part(path: &Path, offset: u64, limit: usize) -> io::Result<Option<Vec<u8>>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(cause),
    };
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(limit as u64).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_silent_attempt_leaves_no_file() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("t/0-1-1.log");
        let log = Log::new(path.clone(), 100);
        log.complete();
        assert_eq!(read_part(&path, 0, 10).unwrap(), None);
        assert!(log.follow().borrow().complete);
    }

    #[test]
    fn parts_can_be_read_while_it_grows() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("t/0-1-1.log");
        let log = Log::new(path.clone(), 100);
        log.line("one");
        log.line("two");
        assert_eq!(read_part(&path, 4, 3).unwrap().unwrap(), b"two");
        assert_eq!(read_part(&path, 99, 3).unwrap().unwrap(), b"");
        assert_eq!(log.follow().borrow().bytes, 8);
    }

    #[test]
    fn a_long_log_is_cut_with_a_mark_and_its_tail_goes_on() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("t/0-1-1.log");
        let log = Log::new(path.clone(), 10);
        log.write(b"0123456789abc");
        log.write(b"the end");
        let whole = read_part(&path, 0, 1_000).unwrap().unwrap();
        assert!(whole.starts_with(b"0123456789\n[log cut here"), "{}", String::from_utf8_lossy(&whole));
        assert!(log.tail().ends_with(b"abcthe end"));
    }

    #[test]
    fn the_tail_is_bounded() {
        let temp = tempfile::tempdir().unwrap();
        let log = Log::new(temp.path().join("t/l"), 1 << 20);
        for n in 0..100_u8 {
            log.write(&[n; 1_000]);
        }
        let tail = log.tail();
        assert_eq!((tail.len(), tail[tail.len() - 1], tail[0]), (TAIL_BYTES, 99, 83));
        log.write(&[7; 3 * TAIL_BYTES]);
        assert_eq!(log.tail(), vec![7; TAIL_BYTES]);
    }
}
