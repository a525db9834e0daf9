//! Which directory holds the state database, and how a snapshot takes its place.
//!
//! ```text
//! state/current   names the directory
//! state/0001/     the database
//! ```
//!
//! A snapshot is never opened where it lies: its files are linked where the engine never writes to them again,
//! and the few others copied, into a new directory, and then the pointer is replaced. A crash at any step leaves the old database or the new
//! one; what the pointer does not name is removed at the next start.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Handle, MANIFEST};
use crate::codec::{self, Schema};
use crate::engine::Engine;
use crate::error::Fault;
use crate::files;
use crate::tables::StateDb;

const POINTER: &str = "current";

/// The directory of the state database.
#[derive(Clone)]
pub struct Live {
    root: PathBuf,
    number: u64,
    engine: Arc<dyn Engine>,
}

impl Live {
    /// Opens the database that the pointer names. `fresh` allows a first one to be made where there is no
    /// pointer; without it a missing pointer is damage.
    ///
    /// # Errors
    /// IO or damage.
    pub fn open(root: PathBuf, fresh: bool, engine: Arc<dyn Engine>) -> Result<(Live, StateDb), Fault> {
        files::create_dir(&root)?;
        let pointer = files::read_if_there(&root.join(POINTER))?;
        let number = match &pointer {
            Some(bytes) => codec::decode(Schema::StatePointer, bytes)
                .map_err(Fault::codec(format!("the pointer {}", root.join(POINTER).display())))?,
            None if fresh => 1,
            None => {
                let missing = root.join(POINTER);
                return Err(Fault::Damaged(format!("{} is missing", missing.display())));
            }
        };
        let live = Live { root, number, engine };
        live.remove_others()?;
        if pointer.is_none() {
            files::remove_tree(&live.dir(number))?;
        } else if !live.dir(number).is_dir() {
            return Err(Fault::Damaged(format!("{} is missing", live.dir(number).display())));
        }
        let state = StateDb::open(&live.dir(number), &*live.engine)?;
        if pointer.is_none() {
            files::sync_dir(&live.root)?;
            live.point_at(number)?;
        }
        Ok((live, state))
    }

    /// Puts a snapshot in the place of the database and opens it. The old directory goes once nobody reads
    /// the old database any more.
    ///
    /// # Errors
    /// IO. Either database may be in place then, each of them whole.
    pub fn replace(&mut self, old: &StateDb, snapshot: &Handle) -> Result<StateDb, Fault> {
        let next = self.stage(snapshot)?;
        self.point_at(next)?;
        self.number = next;
        old.retire();
        StateDb::open(&self.dir(next), &*self.engine)
    }

    /// Lays a snapshot out in a new directory, durably. Nothing points at it yet.
    pub(super) fn stage(&self, snapshot: &Handle) -> Result<u64, Fault> {
        let next = self.number + 1;
        let dir = self.dir(next);
        files::remove_tree(&dir)?;
        files::create_dir(&dir)?;
        for entry in &snapshot.manifest().files {
            debug_assert_ne!(entry.name, MANIFEST, "the list never lists itself");
            let (from, to) = (snapshot.file(entry), dir.join(&entry.name));
            if self.engine.is_immutable(&entry.name) {
                fs::hard_link(&from, &to).map_err(Fault::io("link", &from))?;
            } else {
                fs::copy(&from, &to).map_err(Fault::io("copy", &from))?;
                files::sync_file(&to)?;
            }
        }
        files::sync_dir(&dir)?;
        Ok(next)
    }

    /// From now on the database is in this directory.
    pub(super) fn point_at(&self, number: u64) -> Result<(), Fault> {
        let bytes = codec::encode(Schema::StatePointer, &number)
            .map_err(Fault::codec("the pointer to be written"))?;
        files::replace(&self.root.join(POINTER), &bytes)
    }

    fn remove_others(&self) -> Result<(), Fault> {
        let named = directory(self.number);
        for name in files::names(&self.root)? {
            let path = self.root.join(&name);
            if name != named && path.is_dir() {
                files::remove_tree(&path)?;
            }
        }
        Ok(())
    }

    fn dir(&self, number: u64) -> PathBuf {
        self.root.join(directory(number))
    }

    /// Whether there is a database under `root`.
    ///
    /// # Errors
    /// It cannot be told.
    pub fn exists(root: &Path) -> Result<bool, Fault> {
        let pointer = root.join(POINTER);
        pointer.try_exists().map_err(Fault::io("look for", &pointer))
    }
}

fn directory(number: u64) -> String {
    format!("{number:04}")
}
