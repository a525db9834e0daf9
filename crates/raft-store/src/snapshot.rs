//! Snapshots: checkpoints of the state database, kept as directories of files.
//!
//! ```text
//! snapshots/00000000000000001234-7/   last index and term; a file `snapshot` lists the others
//! snapshots/incoming-…                being received from the leader
//! snapshots/building-…                being taken
//! snapshots/gone-…                    being removed
//! ```
//!
//! A directory gets its final name only when all of it is on the disk and it has been taken here, or
//! installed here: one that was received and not installed does not outlive the process. The log is purged behind a snapshot,
//! so a snapshot with a final name that does not read back is damage, never something to skip.

mod live;
mod receive;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::codec::{self, Schema};
use crate::error::Fault;
use crate::files::{self, Retirable};
use crate::stored::StoredSnapshotMeta;
use crate::tables::StateDb;
use crate::types::SnapshotMeta;

pub use live::Live;
pub use receive::{Incoming, ReceiveError};

/// The file that lists the others.
const MANIFEST: &str = "snapshot";
const BUILDING: &str = "building-";
const INCOMING: &str = "incoming-";
/// Most files in a snapshot; the engine makes far fewer.
const FILE_LIMIT: usize = 65_536;

/// A file of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its name within the directory.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// CRC-32 (IEEE) of its content.
    pub crc: u32,
}

/// What a snapshot stands for and consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The last entry applied to it, and the membership there.
    pub meta: StoredSnapshotMeta,
    /// Its files, by name.
    pub files: Vec<FileEntry>,
}

impl Manifest {
    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.size))
    }

    /// The name of its directory.
    fn directory(&self) -> String {
        let (index, term) = self.meta.last_log_id.map_or((0, 0), |id| (id.index, id.term));
        format!("{index:020}-{term}")
    }

    /// Checks a manifest that came from outside: names must stay inside the directory.
    fn check(&self) -> Result<(), String> {
        if self.files.len() > FILE_LIMIT {
            return Err(format!("{} files are more than {FILE_LIMIT}", self.files.len()));
        }
        let mut seen = BTreeSet::new();
        for FileEntry { name, .. } in &self.files {
            let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
            if !plain || name.is_empty() || name.starts_with('.') || name == MANIFEST {
                return Err(format!("file name {name:?} is not allowed"));
            }
            if !seen.insert(name) {
                return Err(format!("file {name:?} is listed twice"));
            }
        }
        Ok(())
    }
}

/// A snapshot on the disk. It stays there while a handle is held.
#[derive(Debug, Clone)]
pub struct Handle(Arc<Held>);

#[derive(Debug)]
struct Held {
    manifest: Manifest,
    meta: SnapshotMeta,
    dir: Retirable,
    /// It has its final name.
    kept: bool,
}

impl Handle {
    fn new(manifest: Manifest, meta: SnapshotMeta, dir: Retirable, kept: bool) -> Handle {
        Handle(Arc::new(Held { manifest, meta, dir, kept }))
    }

    /// What it consists of.
    pub fn manifest(&self) -> &Manifest {
        &self.0.manifest
    }

    /// What it stands for.
    pub fn meta(&self) -> &SnapshotMeta {
        &self.0.meta
    }

    /// The path of one of its files.
    pub fn file(&self, entry: &FileEntry) -> PathBuf {
        self.0.dir.path().join(&entry.name)
    }

    /// Index of its last entry; 0 when it is empty.
    pub fn index(&self) -> u64 {
        self.0.meta.last_log_id.as_ref().map_or(0, |id| id.index)
    }

    /// Opens the snapshot whose directory is complete, and checks that every file has its size.
    fn open(dir: PathBuf) -> Result<Handle, Fault> {
        let path = dir.join(MANIFEST);
        let bytes = fs::read(&path).map_err(Fault::io("read", &path))?;
        let what = || format!("the snapshot list {}", path.display());
        let manifest: Manifest =
            codec::decode(Schema::SnapshotManifest, &bytes).map_err(Fault::codec(what()))?;
        for entry in &manifest.files {
            let path = dir.join(&entry.name);
            let size = fs::metadata(&path).map_err(Fault::io("read", &path))?.len();
            if size != entry.size {
                let (path, expected) = (path.display(), entry.size);
                return Err(Fault::Damaged(format!("{path} has {size} bytes, the list says {expected}")));
            }
        }
        let meta = manifest
            .meta
            .clone()
            .try_into()
            .map_err(|error| Fault::Damaged(format!("{}: {error}", what())))?;
        Ok(Handle::new(manifest, meta, Retirable::new(dir), true))
    }
}

/// The snapshots of a node.
#[derive(Debug)]
pub struct Snapshots {
    dir: PathBuf,
    current: Mutex<Option<Handle>>,
    /// Tells directories that are being made apart.
    next: AtomicU64,
}

impl Snapshots {
    /// Opens the directory: the newest snapshot becomes the current one, the others and what was not
    /// finished are removed.
    ///
    /// # Errors
    /// IO, or a damaged snapshot.
    pub fn open(dir: PathBuf) -> Result<Snapshots, Fault> {
        files::create_dir(&dir)?;
        let mut finished = Vec::new();
        for name in files::names(&dir)? {
            if [BUILDING, INCOMING, files::GONE].iter().any(|unfinished| name.starts_with(unfinished)) {
                files::remove_tree(&dir.join(name))?;
            } else {
                finished.push(Handle::open(dir.join(name))?);
            }
        }
        finished.sort_by_key(|snapshot| snapshot.meta().last_log_id);
        let current = finished.pop();
        finished.iter().for_each(|older| older.0.dir.retire());
        Ok(Snapshots { dir, current: Mutex::new(current), next: AtomicU64::new(1) })
    }

    /// The newest snapshot.
    pub fn current(&self) -> Option<Handle> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes a snapshot the current one unless a newer one is; the older goes once nobody holds it.
    pub fn set_current(&self, handle: Handle) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let newer = match current.as_ref() {
            Some(held) => held.meta().last_log_id < handle.meta().last_log_id,
            None => true,
        };
        let older = if newer { current.replace(handle) } else { Some(handle) };
        if let Some(older) = older
            && !current.as_ref().is_some_and(|current| Arc::ptr_eq(&current.0, &older.0))
        {
            older.0.dir.retire();
        }
    }

    /// Takes a checkpoint of the database, which nobody may write meanwhile. Not durable yet.
    ///
    /// # Errors
    /// IO.
    pub fn take(&self, state: &StateDb, meta: SnapshotMeta) -> Result<Taken, Fault> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let dir = Retirable::new(self.dir.join(format!("{BUILDING}{number}")));
        dir.retire();
        state.checkpoint(dir.path())?;
        Ok(Taken { dir, meta })
    }

    /// Makes a checkpoint durable, gives it its name and makes it the current snapshot.
    ///
    /// # Errors
    /// IO.
    pub fn keep(&self, taken: Taken) -> Result<Handle, Fault> {
        if let Some(current) = self.current()
            && current.meta().last_log_id >= taken.meta.last_log_id
        {
            return Ok(current);
        }
        let dir = taken.dir.path();
        let mut manifest = Manifest { meta: (&taken.meta).into(), files: Vec::new() };
        for name in files::names(dir)? {
            let path = dir.join(&name);
            let (size, crc) = files::checksum(&path)?;
            files::sync_file(&path)?;
            manifest.files.push(FileEntry { name, size, crc });
        }
        let handle = self.finish(dir, &manifest)?;
        self.set_current(handle.clone());
        Ok(handle)
    }

    /// Keeps a snapshot that was received and is in use now, and makes it the current one.
    ///
    /// # Errors
    /// IO.
    pub fn adopt(&self, received: &Handle) -> Result<(), Fault> {
        if received.0.kept {
            self.set_current(received.clone());
            return Ok(());
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let dir = self.dir.join(format!("{BUILDING}{number}"));
        files::create_dir(&dir)?;
        for entry in &received.manifest().files {
            // Nobody ever writes to the files of a snapshot.
            let from = received.file(entry);
            fs::hard_link(&from, dir.join(&entry.name)).map_err(Fault::io("link", &from))?;
        }
        let handle = self.finish(&dir, received.manifest())?;
        self.set_current(handle);
        Ok(())
    }

    /// Writes the list of a directory whose files are all durable, and gives it its final name.
    fn finish(&self, dir: &Path, manifest: &Manifest) -> Result<Handle, Fault> {
        let list = codec::encode(Schema::SnapshotManifest, manifest)
            .map_err(Fault::codec("a snapshot's list to be written"))?;
        files::replace(&dir.join(MANIFEST), &list)?;
        let mut path = self.dir.join(manifest.directory());
        while path.exists() {
            // An older one of the same name is still being sent.
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            path = self.dir.join(format!("{}-{number}", manifest.directory()));
        }
        files::rename(dir, &path)?;
        Handle::open(path)
    }
}

/// A checkpoint that is not durable yet; dropped, it is removed.
#[derive(Debug)]
pub struct Taken {
    dir: Retirable,
    meta: SnapshotMeta,
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
mod tests;
