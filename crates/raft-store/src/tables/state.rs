//! The state database: the tables and, in the same write, how far the log has been applied to them.
//!
//! Its write-ahead log is on but never synced, and what was applied last is held in memory (see [`home`](super::home)).
//! After the kill of a process or a loss of power the database is what it was at some earlier entry, and the entries
//! after it are applied again from the log.

use std::path::Path;
use std::sync::Arc;

use orloj_model::id::{Millis, Round};
use orloj_model::key::Single;
use orloj_model::mutant::{Mutant, is_on};
use orloj_model::query;
use orloj_model::schema::{AccessMetaTable, MetaTable};
use serde::{Deserialize, Serialize};

use super::home::{Home, Stamp};
use super::writes::{Writes, Written};
use super::{Overlay, View, full_key};
use crate::codec::{self, Schema};
use crate::engine::{Engine, Purpose};
use crate::error::Fault;
use crate::status::Checkpoint;
use crate::stored::{StoredLogId, StoredMembership};
use crate::types::{LogId, LoggedMembership};

/// The table number of the store's own rows; the model's tables start at 1.
const BOOKKEEPING: u8 = 0;
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
    /// The scheduling round, as its row in the tables has it.
    pub round: Round,
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
            (self.now_ms, self.round) = (meta.now_ms, meta.round);
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

impl StateDb {
    /// Opens the database in `dir`, which may be empty.
    ///
    /// # Errors
    /// IO, or a damaged database.
    pub fn open(dir: &Path, engine: &dyn Engine) -> Result<StateDb, Fault> {
        let db = engine.open(dir, Purpose::State).map_err(Fault::database("open", dir))?;
        let state = StateDb { home: Arc::new(Home::new(db, dir, engine.worth_a_write())) };
        state.home.begin_at(Stamp::from(&state.position()?));
        Ok(state)
    }

    /// The database itself.
    #[cfg(test)]
    pub fn raw(&self) -> &dyn crate::engine::Database {
        &*self.home.db
    }

    /// Makes a copy of the database as of the last apply in a new directory `to`. Nobody may apply meanwhile.
    ///
    /// # Errors
    /// IO.
    pub fn checkpoint(&self, to: &Path) -> Result<(), Fault> {
        self.write_out()?;
        // Whoever wants a view does not wait for the copy: nothing is held until the next apply.
        self.home.db.checkpoint(to).map_err(Fault::database("take a checkpoint of", self.path()))
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

    /// Where it stands, as a start finds it.
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
        let rows = self.view()?;
        let meta = query::meta(&rows)?;
        (position.now_ms, position.round) = (meta.now_ms, meta.round);
        position.access_revision = query::access_meta(&rows)?.revision;
        Ok(position)
    }

    /// Takes over what entries changed together with where the tables then stand. All of it is written in one batch, now
    /// or later.
    ///
    /// # Errors
    /// IO. The database must not be used any more then.
    pub fn commit(&self, applied: Overlay, position: &Position, what: Changed) -> Result<(), Fault> {
        let (mut writes, floors) = applied.into_parts();
        let stored = StoredPosition {
            applied: position.applied.as_ref().map(StoredLogId::from),
            digest: position.digest,
        };
        if !is_on(Mutant::PositionApart) || position.index().is_multiple_of(2) {
            put(&mut writes, POSITION_KEY, Schema::StateMeta, &stored)?;
        }
        if what.membership {
            let stored = StoredMembership::from(&position.membership);
            put(&mut writes, MEMBERSHIP_KEY, Schema::Membership, &stored)?;
        }
        if what.checkpoints {
            put(&mut writes, CHECKPOINTS_KEY, Schema::Checkpoints, &position.checkpoints)?;
        }
        self.home.hold((writes, floors), Stamp::from(position))
    }

    /// Writes what is held.
    ///
    /// # Errors
    /// IO.
    pub fn write_out(&self) -> Result<(), Fault> {
        self.home.with_all_written(|_| ())
    }

    /// The tables as of the last apply.
    ///
    /// # Errors
    /// IO: what is held was to be written first.
    pub fn view(&self) -> Result<View, Fault> {
        self.home.with_all_written(|stamp| View::of(&self.home, stamp))
    }

    /// What stands for a view that could not be had because of `fault`: every read of it fails.
    pub fn broken_view(&self, fault: &Fault) -> View {
        View::broken(&self.home, self.home.stamp(), fault)
    }

    fn read<T: for<'de> Deserialize<'de>>(&self, key: &[u8], schema: Schema) -> Result<Option<T>, Fault> {
        let bytes = self.home.get(&full_key(BOOKKEEPING, key))?;
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

fn put<T: Serialize>(writes: &mut Writes, key: &[u8], schema: Schema, value: &T) -> Result<(), Fault> {
    let value = codec::encode(schema, value).map_err(Fault::codec("the position to be written"))?;
    writes.set(full_key(BOOKKEEPING, key), Written { value: Some(value), new: false });
    Ok(())
}
