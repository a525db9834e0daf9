//! Files that must survive a loss of power, and directories that go when nobody needs them any more.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Fault;

/// Bytes read at once for a checksum.
const READ_BYTES: usize = 1 << 20;

/// Makes the names in a directory durable.
pub fn sync_dir(dir: &Path) -> Result<(), Fault> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(Fault::io("sync", dir))
}

/// Makes the content of a file durable.
pub fn sync_file(path: &Path) -> Result<(), Fault> {
    File::open(path).and_then(|file| file.sync_all()).map_err(Fault::io("sync", path))
}

/// Makes a directory and its name durable; its parent must exist.
pub fn create_dir(dir: &Path) -> Result<(), Fault> {
    match fs::create_dir(dir) {
        Ok(()) => match dir.parent() {
            Some(parent) => sync_dir(parent),
            None => Ok(()),
        },
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        Err(error) => Err(Fault::io("create", dir)(error)),
    }
}

/// Replaces a file: a crash leaves the old content or the new, whole.
pub fn replace(path: &Path, content: &[u8]) -> Result<(), Fault> {
    let fresh = path.with_extension("new");
    let write = |file: &mut File| file.write_all(content).and_then(|()| file.sync_all());
    File::create(&fresh).and_then(|mut file| write(&mut file)).map_err(Fault::io("write", &fresh))?;
    rename(&fresh, path)
}

/// Renames within one directory, durably. The name must not be that of a directory with content.
pub fn rename(from: &Path, to: &Path) -> Result<(), Fault> {
    fs::rename(from, to).map_err(Fault::io("rename", from))?;
    match to.parent() {
        Some(parent) => sync_dir(parent),
        None => Ok(()),
    }
}

/// The content of a file, or `None` when there is none.
pub fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, Fault> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Fault::io("read", path)(error)),
    }
}

/// Removes a directory with all that is in it; one that is not there is as good as removed.
pub fn remove_tree(dir: &Path) -> Result<(), Fault> {
    match fs::remove_dir_all(dir) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Fault::io("remove", dir)(error)),
    }
}

/// The names in a directory, sorted.
pub fn names(dir: &Path) -> Result<Vec<String>, Fault> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(Fault::io("list", dir))? {
        let entry = entry.map_err(Fault::io("list", dir))?;
        let name = entry.file_name().into_string();
        names.push(name.map_err(|name| Fault::Damaged(format!("{}: strange name {name:?}", dir.display())))?);
    }
    names.sort();
    Ok(names)
}

/// Size and CRC-32 of a file.
pub fn checksum(path: &Path) -> Result<(u64, u32), Fault> {
    let mut file = File::open(path).map_err(Fault::io("open", path))?;
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut size = 0;
    loop {
        match file.read(&mut buffer).map_err(Fault::io("read", path))? {
            0 => return Ok((size, hasher.finalize())),
            count => {
                hasher.update(&buffer[..count]);
                size += count as u64;
            }
        }
    }
}

/// A directory that can be given up: once its owner is dropped, the directory is removed.
#[derive(Debug)]
pub struct Retirable {
    path: PathBuf,
    retired: AtomicBool,
}

impl Retirable {
    /// A directory that stays.
    pub fn new(path: PathBuf) -> Self {
        Retirable { path, retired: AtomicBool::new(false) }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// From now on the directory goes with its owner.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }
}

impl Drop for Retirable {
    fn drop(&mut self) {
        if self.retired.load(Ordering::Acquire)
            && let Err(fault) = give_up(&self.path)
        {
            // What is left behind is removed at the next start.
            tracing::warn!(%fault, "a directory that is no longer needed stays behind");
        }
    }
}

/// Beginning of the name of a directory that is being removed.
pub const GONE: &str = "gone-";

/// Removes a directory under another name: a crash half-way must not leave half of it under its own.
fn give_up(path: &Path) -> Result<(), Fault> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return remove_tree(path);
    };
    let gone = parent.join(format!("{GONE}{name}"));
    remove_tree(&gone)?;
    match fs::rename(path, &gone) {
        Ok(()) => remove_tree(&gone),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Fault::io("rename", path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_file_has_the_new_content_and_nothing_stays_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("name");
        assert_eq!(read_if_there(&path).unwrap(), None);
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(read_if_there(&path).unwrap().as_deref(), Some(&b"two"[..]));
        assert_eq!(names(dir.path()).unwrap(), ["name"]);
    }

    #[test]
    fn a_checksum_covers_every_byte() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut content = vec![7; READ_BYTES + 3];
        fs::write(&path, &content).unwrap();
        let (size, before) = checksum(&path).unwrap();
        assert_eq!(size, content.len() as u64);
        content[READ_BYTES + 2] = 8;
        fs::write(&path, &content).unwrap();
        assert_ne!(checksum(&path).unwrap().1, before);
    }

    #[test]
    fn only_a_retired_directory_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        create_dir(&path).unwrap();
        fs::write(path.join("file"), b"x").unwrap();
        drop(Retirable::new(path.clone()));
        assert!(path.exists());
        let retirable = Retirable::new(path.clone());
        retirable.retire();
        assert!(path.exists());
        drop(retirable);
        assert!(!path.exists());
    }
}
