//! A snapshot on its way in: files are written as they come, so that a transfer that broke goes on where it
//! stopped, and nothing counts before every file has its checksum and is on the disk.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use super::{Handle, INCOMING, Manifest, Snapshots};
use crate::error::Fault;
use crate::files::{self, Retirable};

/// Why a piece of a snapshot is not taken.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The sender's doing: it starts again.
    #[error("{0}")]
    Refused(String),
    /// This node's storage failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A snapshot that is being received. Dropped before it is complete, it is removed.
#[derive(Debug)]
pub struct Incoming {
    manifest: Manifest,
    dir: Retirable,
    /// Bytes of each file that have been written, from its beginning.
    received: Vec<u64>,
}

impl Incoming {
    /// Begins to receive.
    ///
    /// # Errors
    /// A manifest with names that no snapshot has, or IO.
    pub fn begin(snapshots: &Snapshots, manifest: Manifest) -> Result<Incoming, ReceiveError> {
        manifest.check().map_err(ReceiveError::Refused)?;
        let number = snapshots.next.fetch_add(1, Ordering::Relaxed);
        let dir = Retirable::new(snapshots.dir.join(format!("{INCOMING}{number}")));
        files::create_dir(dir.path())?;
        dir.retire();
        for entry in &manifest.files {
            let path = dir.path().join(&entry.name);
            File::create(&path).map_err(Fault::io("create", &path))?;
        }
        let received = vec![0; manifest.files.len()];
        Ok(Incoming { manifest, dir, received })
    }

    /// What is being received.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Bytes of each file that need not be sent again.
    pub fn received(&self) -> &[u64] {
        &self.received
    }

    /// Takes a piece of a file. A piece that has been taken before changes nothing.
    ///
    /// # Errors
    /// A piece that is damaged or out of place, or IO.
    pub fn take(&mut self, file: usize, offset: u64, crc: u32, data: &[u8]) -> Result<(), ReceiveError> {
        let refuse = |problem: String| Err(ReceiveError::Refused(problem));
        let Some(entry) = self.manifest.files.get(file) else {
            return refuse(format!("file {file} of {}", self.manifest.files.len()));
        };
        let end = offset.saturating_add(data.len() as u64);
        if end > entry.size {
            return refuse(format!("{} ends at {}, not at {end}", entry.name, entry.size));
        }
        if crc32fast::hash(data) != crc {
            return refuse(format!("{} was damaged on the way at {offset}", entry.name));
        }
        let have = &mut self.received[file];
        if offset > *have {
            return refuse(format!("{} is here up to {have}, not up to {offset}", entry.name));
        }
        let path = self.dir.path().join(&entry.name);
        let write = |path: &PathBuf| -> io::Result<()> {
            OpenOptions::new().write(true).open(path)?.write_all_at(data, offset)
        };
        write(&path).map_err(Fault::io("write", &path))?;
        *have = end.max(*have);
        Ok(())
    }

    /// Verifies every file and makes all durable. The snapshot has no name yet and goes with its handle,
    /// unless it is installed: see [`Snapshots::adopt`].
    ///
    /// # Errors
    /// A file that is not whole (all of it is forgotten then), or IO.
    pub fn finish(self) -> Result<Handle, ReceiveError> {
        for (entry, have) in self.manifest.files.iter().zip(&self.received) {
            if *have != entry.size {
                let (name, size) = (&entry.name, entry.size);
                return Err(ReceiveError::Refused(format!("{name} has {have} of {size} bytes")));
            }
            let path = self.dir.path().join(&entry.name);
            if files::checksum(&path)? != (entry.size, entry.crc) {
                return Err(ReceiveError::Refused(format!("{} is damaged", entry.name)));
            }
            files::sync_file(&path)?;
        }
        let meta = self.manifest.meta.clone().try_into();
        let meta = meta.map_err(|error| ReceiveError::Refused(format!("{error}")))?;
        Ok(Handle::new(self.manifest, meta, self.dir, false))
    }
}
