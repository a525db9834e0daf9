//! The state database: the tables and, in the same write, how far the log has been applied to them.
//!
//! Its write-ahead log is on but never synced. A killed process loses nothing; after a loss of power the
//! database is what it was at some earlier entry, and the entries after it are applied again from the log.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orloj_model::id::Millis;
use orloj_model::key::Single;
use orloj_model::mutant::{Mutant, is_on};
use orloj_model::query;
use orloj_model::schema::{AccessMetaTable, MetaTable};
use serde::{Deserialize, Serialize};

use super::recent::Recent;
use super::{Overlay, View, full_key};
use crate::codec::{self, Schema};
use crate::engine::{Database, Durability, Engine, Purpose, WriteBatch};
use crate::error::Fault;
use crate::files::Retirable;
use crate::status::Checkpoint;
use crate::stored::{StoredLogId, StoredMembership};
use crate::types::{LogId, LoggedMembership};

/// The table number of the store's own rows; the model's tables start at 1.
const BOOKKEEPING: u8 = 0;
/// So many rows at most.
const BOOKKEEPING_ROWS: usize = 3;
const POSITION_KEY: &[u8] = b"position";
const MEMBERSHIP_KEY: &[u8] = b"membership";
const CHECKPOINTS_KEY: &[u8] = b"checkpoints";

/// The digest is kept at every multiple of this many entries.
const CHECKPOINT_EVERY: u64 = 256;
/// So many checkpoints are remembered: at 100 entries a second, about three minutes.
const CHECKPOINTS_KEPT: usize = 64;

/// The stored form of where the database stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct StoredPosition {
    applied: Option<StoredLogId>,
    digest: u64,
}

/// How far the log has been applied, and what came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Position {
    /// The last entry applied.
    pub applied: Option<LogId>,
    /// The last membership applied.
    pub membership: LoggedMembership,
    /// The running digest.
    pub digest: u64,
    /// The digests at the last checkpoints, oldest first.
    pub checkpoints: Vec<Checkpoint>,
    /// The cluster's time, as its row in the tables has it.
    pub now_ms: Millis,
    /// The revision of callers and keys, as its row in the tables has it.
    pub access_revision: u64,
}

impl Position {
    /// Takes note of what is kept of two rows, where `writes` have changed them.
    ///
    /// # Errors
    /// A row does not decode.
    pub fn take_note(&mut self, writes: &Overlay) -> Result<(), Fault> {
        if let Some(meta) = writes.written::<MetaTable>(&Single)? {
            self.now_ms = meta.now_ms;
        }
        if let Some(access) = writes.written::<AccessMetaTable>(&Single)? {
            self.access_revision = access.revision;
        }
        Ok(())
    }

    /// Index of the last entry applied; 0 before the first.
    pub fn index(&self) -> u64 {
        self.applied.as_ref().map_or(0, |id| id.index)
    }

    /// Takes note that `id` has been applied with this digest. Answers whether that made a checkpoint.
    pub fn advance(&mut self, id: LogId, digest: u64) -> bool {
        self.digest = digest;
        let index = id.index;
        self.applied = Some(id);
        let due = index > 0 && index.is_multiple_of(CHECKPOINT_EVERY);
        if due {
            let surplus = (self.checkpoints.len() + 1).saturating_sub(CHECKPOINTS_KEPT);
            self.checkpoints.drain(..surplus);
            self.checkpoints.push(Checkpoint { index, digest });
        }
        due
    }
}

/// An open state database. Clones are cheap and stand for the same database; it closes with the last of them
/// and of its views.
#[derive(Clone)]
pub struct StateDb {
    home: Arc<Home>,
}

/// A database and its directory. The database closes before the directory goes.
pub(super) struct Home {
    pub(super) db: Arc<dyn Database>,
    /// Belongs to whoever applies; nobody else asks, so the lock is always free.
    recent: Mutex<Recent>,
    dir: Retirable,
}

impl Home {
    /// The directory.
    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        // Nothing that holds this lock can panic half-way through a change.
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A row as the next apply finds it, by full key.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        let mut recent = self.recent();
        if let Some(value) = recent.get(key) {
            return Ok(Some(value));
        }
        let stored = self.db.get(key).map_err(Fault::database("read", self.path()))?;
        if let Some(value) = &stored {
            recent.keep(key.to_vec(), value.clone());
        }
        Ok(stored)
    }
}

impl StateDb {
    /// Opens the database in `dir`, which may be empty.
    ///
    /// # Errors
    /// IO, or a damaged database.
    pub fn open(dir: &Path, engine: &dyn Engine) -> Result<StateDb, Fault> {
        let db = engine.open(dir, Purpose::State).map_err(Fault::database("open", dir))?;
        let home = Home { db, recent: Mutex::new(Recent::new()), dir: Retirable::new(dir.to_path_buf()) };
        Ok(StateDb { home: Arc::new(home) })
    }

    /// The database itself, for checkpoints.
    pub fn raw(&self) -> &dyn Database {
        &*self.home.db
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        self.home.path()
    }

    /// Its directory goes when it closes.
    pub fn retire(&self) {
        self.home.dir.retire();
    }

    /// A layer for the writes of an apply.
    pub fn overlay(&self, position: &Position) -> Overlay {
        Overlay::new(Arc::clone(&self.home), position.digest)
    }

    /// Where it stands.
    ///
    /// # Errors
    /// IO or corruption.
    pub fn position(&self) -> Result<Position, Fault> {
        let stored: StoredPosition = self.read(POSITION_KEY, Schema::StateMeta)?.unwrap_or_default();
        let membership: Option<StoredMembership> = self.read(MEMBERSHIP_KEY, Schema::Membership)?;
        let membership = match membership {
            None => LoggedMembership::default(),
            Some(stored) => stored
                .try_into()
                .map_err(|error| Fault::Damaged(format!("the applied membership: {error}")))?,
        };
        let mut position = Position {
            applied: stored.applied.map(LogId::from),
            membership,
            digest: stored.digest,
            checkpoints: self.read(CHECKPOINTS_KEY, Schema::Checkpoints)?.unwrap_or_default(),
            ..Position::default()
        };
        let rows = self.view(&position);
        position.now_ms = query::meta(&rows)?.now_ms;
        position.access_revision = query::access_meta(&rows)?.revision;
        Ok(position)
    }

    /// Writes what entries changed together with where the database then stands, in one batch.
    ///
    /// # Errors
    /// IO. Nothing of the batch has been written then, and the database must not be used any more.
    pub fn commit(&self, writes: Overlay, position: &Position, what: Changed) -> Result<(), Fault> {
        let mut batch = writes.batch(BOOKKEEPING_ROWS);
        let stored = StoredPosition {
            applied: position.applied.as_ref().map(StoredLogId::from),
            digest: position.digest,
        };
        if !is_on(Mutant::PositionApart) || position.index().is_multiple_of(2) {
            put(&mut batch, POSITION_KEY, Schema::StateMeta, &stored)?;
        }
        if what.membership {
            let stored = StoredMembership::from(&position.membership);
            put(&mut batch, MEMBERSHIP_KEY, Schema::Membership, &stored)?;
        }
        if what.checkpoints {
            put(&mut batch, CHECKPOINTS_KEY, Schema::Checkpoints, &position.checkpoints)?;
        }
        self.home.db.write(&batch, Durability::Buffered).map_err(Fault::database("write", self.path()))?;
        drop(batch);
        let mut recent = self.home.recent();
        for (key, value) in writes.into_writes() {
            recent.written(key, value);
        }
        Ok(())
    }

    /// A view of what it holds now.
    pub fn view(&self, position: &Position) -> View {
        View::of(&self.home, position)
    }

    fn read<T: for<'de> Deserialize<'de>>(&self, key: &[u8], schema: Schema) -> Result<Option<T>, Fault> {
        let bytes =
            self.home.db.get(&full_key(BOOKKEEPING, key)).map_err(Fault::database("read", self.path()))?;
        bytes
            .map(|bytes| codec::decode(schema, &bytes))
            .transpose()
            .map_err(Fault::codec("the applied position"))
    }
}

/// Which parts of a [`Position`] besides the index and the digest have changed since the last write.
#[derive(Debug, Clone, Copy, Default)]
pub struct Changed {
    /// The membership.
    pub membership: bool,
    /// The checkpoints.
    pub checkpoints: bool,
}

fn put<T: Serialize>(batch: &mut WriteBatch<'_>, key: &[u8], schema: Schema, value: &T) -> Result<(), Fault> {
    let bytes = codec::encode(schema, value).map_err(Fault::codec("the position to be written"))?;
    batch.put(full_key(BOOKKEEPING, key), bytes);
    Ok(())
}
