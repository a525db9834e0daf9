//! The executor's folder: one process at a time, and a life that grows with every start.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use orloj_wire::sign::new_nonce;

use crate::error::Error;

/// A locked folder. The lock goes with the process.
#[derive(Debug)]
pub(crate) struct Dir {
    path: PathBuf,
    _lock: File,
}

impl Dir {
    /// Creates the folder when it is missing, and locks it.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        fs::create_dir_all(path).map_err(|cause| Error::disk("creating", path, &cause))?;
        let lock_path = path.join("lock");
        let failed = |cause: io::Error| Error::disk("locking", &lock_path, &cause);
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).open(&lock_path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Dir { path: path.to_owned(), _lock: file }),
            Err(TryLockError::WouldBlock) => Err(Error::Locked { path: path.to_owned() }),
            Err(TryLockError::Error(cause)) => Err(failed(cause)),
        }
    }

    /// Where it is.
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Begins a new life: greater than the last one and not below the wall clock, on disk before it is told.
    pub(crate) fn next_incarnation(&self, wall_ms: i64) -> Result<u64, Error> {
        let path = self.join("incarnation");
        let last = match read_if_there(&path)? {
            Some(text) => parse_incarnation(&path, &text)?,
            None => 0,
        };
        let next = (last + 1).max(u64::try_from(wall_ms).unwrap_or(0));
        write_whole(&path, format!("{next}\n").as_bytes())?;
        Ok(next)
    }

    /// A random name for the processes that this folder's executor starts, the same in every life.
    pub(crate) fn mark(&self) -> Result<String, Error> {
        let path = self.join("mark");
        if let Some(text) = read_if_there(&path)? {
            let mark = text.trim();
            if mark.len() == 32 && mark.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Ok(mark.to_owned());
            }
            let problem = format!("`{mark}` is not 32 hex digits");
            return Err(Error::Corrupt { path, offset: 0, problem });
        }
        let mark = new_nonce();
        write_whole(&path, format!("{mark}\n").as_bytes())?;
        Ok(mark)
    }
}

fn parse_incarnation(path: &Path, text: &str) -> Result<u64, Error> {
    // Without the final newline the file is not whole; an empty one must not start the count anew.
    text.strip_suffix('\n').and_then(|digits| digits.parse().ok()).filter(|last| *last < u64::MAX).ok_or_else(
        || Error::Corrupt {
            path: path.to_owned(),
            offset: 0,
            problem: format!("{text:?} is not an incarnation"),
        },
    )
}

fn read_if_there(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(Error::disk("reading", path, &cause)),
    }
}

/// Replaces a small file: the old or the new content is there after a crash, never a part.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let fresh = path.with_extension("new");
    let write = || -> io::Result<()> {
        let mut file = File::create(&fresh)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    };
    write().map_err(|cause| Error::disk("writing", path, &cause))?;
    sync_parent(path)
}

/// Makes a folder's entries durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), Error> {
    File::open(dir).and_then(|file| file.sync_all()).map_err(|cause| Error::disk("syncing", dir, &cause))
}

/// Makes the entry of a file or folder in its parent durable.
pub(crate) fn sync_parent(path: &Path) -> Result<(), Error> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_dir(parent),
        _ => sync_dir(Path::new(".")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn one_process_at_a_time() {
        let temp = tempfile::tempdir().unwrap();
        let first = Dir::open(temp.path()).unwrap();
        assert!(matches!(Dir::open(temp.path()), Err(Error::Locked { .. })));
        drop(first);
        Dir::open(temp.path()).unwrap();
    }

    #[test]
    fn lives_grow_even_when_the_wall_clock_goes_back() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open(temp.path()).unwrap();
        assert_eq!(dir.next_incarnation(5_000).unwrap(), 5_000);
        assert_eq!(dir.next_incarnation(1_000).unwrap(), 5_001);
        assert_eq!(dir.next_incarnation(-1).unwrap(), 5_002);
        assert_eq!(dir.next_incarnation(9_000).unwrap(), 9_000);
    }

    #[test]
    fn a_damaged_incarnation_is_an_error_and_not_a_new_count() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open(temp.path()).unwrap();
        for bad in ["", "12", "x\n"] {
            fs::write(dir.join("incarnation"), bad).unwrap();
            assert!(matches!(dir.next_incarnation(1), Err(Error::Corrupt { .. })), "{bad:?}");
        }
    }

    #[test]
    fn the_mark_stays() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open(temp.path()).unwrap();
        let mark = dir.mark().unwrap();
        assert_eq!(dir.mark().unwrap(), mark);
        fs::write(dir.join("mark"), "short").unwrap();
        assert!(matches!(dir.mark(), Err(Error::Corrupt { .. })));
    }
}
