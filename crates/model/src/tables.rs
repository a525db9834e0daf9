//! The storage that [`apply`](crate::apply) and [`query`](crate::query) work on: ordered tables of bytes
//! with typed rows on top.
//!
//! [`Read`] and [`Write`] are what an implementation supplies (bytes in, bytes out, plus the codec that
//! turns rows into bytes). [`ReadExt`] and [`WriteExt`] are the typed calls that the model uses; the
//! running digest of every write is kept there, so that no implementation can forget it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::key::TableKey;

/// Names a table. The number is part of the on-disk format and is never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TableId {
    /// Singletons of the state machine: [`crate::apply::Meta`].
    Meta = 1,
    /// Immutable part of a task: [`crate::task::TaskSpec`] by task id.
    Spec = 2,
    /// Changing part of a task: [`crate::task::TaskState`] by task id.
    Task = 3,
    /// [`crate::task::Shard`] by (task id, shard index).
    Shard = 4,
    /// Pending shards that wait for their time: (due ms, task, shard).
    Due = 5,
    /// Pending shards that are due and wait for a slot: (priority, ready since, task, shard).
    Ready = 6,
    /// Leased shards: (executor, task, shard).
    Running = 7,
    /// Deadlines to first start: (expire ms, task).
    Expire = 8,
    /// Children by parent: (parent task, child task).
    Deps = 9,
    /// Tasks of a caller, newest first: (caller, created ms descending, task).
    CallerTasks = 10,
    /// Tasks by status, newest first: (status, created ms descending, task).
    StatusTasks = 11,
    /// Idempotency records: (caller, key).
    Idempotency = 12,
    /// Expiry of idempotency records: (expiry ms, caller, key).
    IdempotencyExpiry = 13,
    /// Spent nonces of signed mutations: (end of the span in which it may be forgotten ms, nonce hash).
    Nonce = 14,
    // 15 was in use before the first release.
    /// Tasks by business key: (caller, business key, task).
    BusinessKey = 16,
    /// [`crate::executor::Executor`] by executor id.
    Executor = 17,
    /// What a job is: [`crate::job::Job`] by (caller, job).
    Job = 18,
    /// Where a job stands: [`crate::job::JobState`] by (caller, job).
    JobState = 19,
    /// Next fires: (due ms, caller, job).
    JobNext = 20,
    /// Jobs whose next fire a leader must compute: (caller, job).
    JobWanted = 21,
    /// What became of a job's instants, newest first: (caller, job, number descending).
    JobHistory = 22,
    /// Open tasks of a job: (caller, job, task).
    JobTasks = 23,
    /// The job of an open task: (task).
    TaskJob = 24,
    /// [`crate::job::CalendarRow`] by (caller, calendar).
    Calendar = 25,
    /// Which jobs use a calendar: (caller, calendar, job).
    CalendarUse = 26,
    /// Changed calendars of which not every job has been told: (caller, calendar).
    CalendarSpread = 27,
    /// Backfills under way: (caller, job).
    Backfill = 28,
    /// How the shards of a task hang together: [`crate::graph::ShardPlan`] by task id.
    ShardPlan = 40,
    /// A task's place in graphs: [`crate::graph::Node`] by task id.
    Node = 41,
    /// Children that wait, by parent: (parent task, child task).
    Waits = 42,
    /// What a leader goes on with in graphs: (kind, task).
    GraphWork = 43,
    /// What a job says beyond its definition: [`crate::graph::JobFlow`] by (caller, job).
    JobFlow = 44,
    /// Where a run of a workflow stands: [`crate::graph::RunRow`] by task id.
    Run = 45,
    /// What the steps of a run are made of: [`crate::graph::RunFlow`] by task id.
    RunFlow = 46,
    /// The steps of a run: (run, place).
    RunStep = 47,
    /// [`crate::callback::Callback`] by task id.
    Callback = 60,
    /// The outbox: (host, next ms, task).
    CallbackDue = 61,
    /// [`crate::access::CallerRow`] by caller.
    Caller = 62,
    /// [`crate::access::AccessKeyRow`] by access key.
    AccessKey = 63,
    /// Access keys by owner: (caller, access key).
    OwnerKeys = 64,
    /// [`crate::access::AuditRow`], newest first: (kind, number descending).
    Audit = 65,
    /// [`crate::access::AccessMeta`].
    AccessMeta = 66,
    /// [`crate::access::CallerLimits`] by caller.
    CallerLimits = 67,
    /// [`crate::job::GoneVersions`] by caller.
    GoneVersions = 68,
}

impl TableId {
    /// Every table, in the order of its number.
    pub const ALL: [TableId; 44] = [
        TableId::Meta,
        TableId::Spec,
        TableId::Task,
        TableId::Shard,
        TableId::Due,
        TableId::Ready,
        TableId::Running,
        TableId::Expire,
        TableId::Deps,
        TableId::CallerTasks,
        TableId::StatusTasks,
        TableId::Idempotency,
        TableId::IdempotencyExpiry,
        TableId::Nonce,
        TableId::BusinessKey,
        TableId::Executor,
        TableId::Job,
        TableId::JobState,
        TableId::JobNext,
        TableId::JobWanted,
        TableId::JobHistory,
        TableId::JobTasks,
        TableId::TaskJob,
        TableId::Calendar,
        TableId::CalendarUse,
        TableId::CalendarSpread,
        TableId::Backfill,
        TableId::ShardPlan,
        TableId::Node,
        TableId::Waits,
        TableId::GraphWork,
        TableId::JobFlow,
        TableId::Run,
        TableId::RunFlow,
        TableId::RunStep,
        TableId::Callback,
        TableId::CallbackDue,
        TableId::Caller,
        TableId::AccessKey,
        TableId::OwnerKeys,
        TableId::Audit,
        TableId::AccessMeta,
        TableId::CallerLimits,
        TableId::GoneVersions,
    ];
}

/// One row as stored: its key and its encoded value.
pub type RawRow = (Vec<u8>, Vec<u8>);

/// Read access to the tables. An error is a storage fault (IO, corruption) and stops the node; it never
/// means "not there".
pub trait Read {
    /// What can go wrong in the storage itself.
    type Error: Debug;

    /// The encoded row at `key`, if there is one.
    fn get_raw(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, Self::Error>;

    /// Up to `limit` rows with `from <= key < to`, in key order.
    fn range_raw(
        &self,
        table: TableId,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<RawRow>, Self::Error>;

    /// Decodes a row that [`Write::encode`] wrote. Bytes that do not decode are corruption.
    fn decode<V: DeserializeOwned>(&self, bytes: &[u8]) -> Result<V, Self::Error>;
}

/// Write access to the tables. A write is visible to every later read through the same value.
pub trait Write: Read {
    /// Stores an encoded row.
    fn put_raw(&mut self, table: TableId, key: Vec<u8>, value: Vec<u8>) -> Result<(), Self::Error>;

    /// Stores an encoded row where there is none. An implementation may rely on that, and write nothing at all of a row
    /// that is removed again before it was written.
    fn insert_raw(&mut self, table: TableId, key: Vec<u8>, value: Vec<u8>) -> Result<(), Self::Error> {
        self.put_raw(table, key, value)
    }

    /// Removes a row; removing what is not there does nothing.
    fn delete_raw(&mut self, table: TableId, key: Vec<u8>) -> Result<(), Self::Error>;

    /// Removes every row of a table in front of the key `to`, however many there are, at the price of one.
    fn clear_raw(&mut self, table: TableId, to: Vec<u8>) -> Result<(), Self::Error>;

    /// Encodes a row. The same value gives the same bytes on every replica.
    fn encode<V: Serialize>(&self, value: &V) -> Result<Vec<u8>, Self::Error>;

    /// The running digest of all writes so far.
    fn digest(&self) -> u64;

    /// Replaces the running digest; only [`WriteExt`] calls it.
    fn set_digest(&mut self, digest: u64);
}

/// Rows of a table with their keys, in the order of the keys.
pub type Rows<T> = Vec<(<T as Table>::Key, <T as Table>::Row)>;

/// A typed table: which rows it holds and how they are keyed.
pub trait Table {
    /// Its number.
    const ID: TableId;
    /// Its key, encoded so that byte order is key order.
    type Key: TableKey;
    /// Its row. `()` for pure indexes, which store no bytes at all.
    type Row: Serialize + DeserializeOwned;
}

/// Typed reads.
pub trait ReadExt: Read {
    /// The row at `key`.
    fn get<T: Table>(&self, key: &T::Key) -> Result<Option<T::Row>, Self::Error> {
        match self.get_raw(T::ID, &key.encode())? {
            None => Ok(None),
            Some(bytes) => self.decode(&bytes).map(Some),
        }
    }

    /// Whether a row exists.
    fn has<T: Table>(&self, key: &T::Key) -> Result<bool, Self::Error> {
        Ok(self.get_raw(T::ID, &key.encode())?.is_some())
    }

    /// Up to `limit` rows with `from <= key < to`, where both ends are encoded key prefixes.
    fn range<T: Table>(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Rows<T>, Self::Error> {
        let mut rows = Vec::new();
        for (key, value) in self.range_raw(T::ID, from, to, limit)? {
            rows.push((self.decode_key::<T>(&key)?, self.decode(&value)?));
        }
        Ok(rows)
    }

    /// Up to `limit` keys with `from <= key < to`.
    fn keys<T: Table>(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<T::Key>, Self::Error> {
        self.range_raw(T::ID, from, to, limit)?
            .into_iter()
            .map(|(key, _)| self.decode_key::<T>(&key))
            .collect()
    }

    /// Decodes a key; a key that does not decode is reported through the codec as corruption.
    fn decode_key<T: Table>(&self, bytes: &[u8]) -> Result<T::Key, Self::Error> {
        match T::Key::decode(bytes) {
            Some(key) => Ok(key),
            // An undecodable key is corruption: let the codec say so about the same bytes.
            None => self.decode::<Unreadable>(bytes).map(|never| match never.0 {}),
        }
    }
}

impl<R: Read + ?Sized> ReadExt for R {}

/// Has no value: asking a codec for it always yields that codec's corruption error.
#[derive(Debug)]
struct Unreadable(std::convert::Infallible);

impl<'de> serde::Deserialize<'de> for Unreadable {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::custom("key does not decode"))
    }
}

/// Typed writes, each folded into the running digest.
pub trait WriteExt: Write {
    /// Stores a row.
    fn put<T: Table>(&mut self, key: &T::Key, row: &T::Row) -> Result<(), Self::Error> {
        let (key, value) = folded::<Self, T>(self, key, row)?;
        self.put_raw(T::ID, key, value)
    }

    /// Stores a row where there is none: the entries of an index that come and go with what a task does. It is a fault of
    /// the caller to have one there, which debug builds look for.
    fn insert<T: Table>(&mut self, key: &T::Key, row: &T::Row) -> Result<(), Self::Error> {
        let (key, value) = folded::<Self, T>(self, key, row)?;
        self.insert_raw(T::ID, key, value)
    }

    /// Removes a row.
    fn delete<T: Table>(&mut self, key: &T::Key) -> Result<(), Self::Error> {
        let key = key.encode();
        self.set_digest(crate::digest::fold(self.digest(), T::ID, &key, None));
        self.delete_raw(T::ID, key)
    }

    /// Removes every row in front of `to`, an encoded key or the beginning of one.
    fn clear<T: Table>(&mut self, to: Vec<u8>) -> Result<(), Self::Error> {
        // No row has the empty key, so this is told from removing one row.
        let cleared = crate::digest::fold(self.digest(), T::ID, &[], None);
        self.set_digest(crate::digest::fold(cleared, T::ID, &to, None));
        self.clear_raw(T::ID, to)
    }
}

impl<W: Write + ?Sized> WriteExt for W {}

/// A row to be stored, encoded and in the running digest.
fn folded<W: Write + ?Sized, T: Table>(
    tables: &mut W,
    key: &T::Key,
    row: &T::Row,
) -> Result<RawRow, W::Error> {
    let key = key.encode();
    let value = if std::mem::size_of::<T::Row>() == 0 { Vec::new() } else { tables.encode(row)? };
    tables.set_digest(crate::digest::fold(tables.digest(), T::ID, &key, Some(&value)));
    Ok((key, value))
}

/// Turns rows into bytes for [`MapTables`]. The product's codec lives in `orloj-raft-store`; tests of this
/// crate bring their own.
pub trait Codec {
    /// What can go wrong.
    type Error: Debug;
    /// Encodes a row.
    fn encode<V: Serialize>(value: &V) -> Result<Vec<u8>, Self::Error>;
    /// Decodes a row.
    fn decode<V: DeserializeOwned>(bytes: &[u8]) -> Result<V, Self::Error>;
}

/// The tables as one ordered map in memory, for tests and simulation.
#[derive(Debug)]
pub struct MapTables<C> {
    rows: BTreeMap<(TableId, Vec<u8>), Vec<u8>>,
    digest: u64,
    codec: PhantomData<fn() -> C>,
}

impl<C> Clone for MapTables<C> {
    fn clone(&self) -> Self {
        MapTables { rows: self.rows.clone(), digest: self.digest, codec: PhantomData }
    }
}

impl<C> Default for MapTables<C> {
    fn default() -> Self {
        MapTables { rows: BTreeMap::new(), digest: 0, codec: PhantomData }
    }
}

impl<C> MapTables<C> {
    /// Every row of every table, in order; what a snapshot holds.
    pub fn rows(&self) -> impl Iterator<Item = (&(TableId, Vec<u8>), &Vec<u8>)> {
        self.rows.iter()
    }
}

impl<C: Codec> Read for MapTables<C> {
    type Error = C::Error;

    fn get_raw(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, Self::Error> {
        Ok(self.rows.get(&(table, key.to_vec())).cloned())
    }

    fn range_raw(
        &self,
        table: TableId,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<RawRow>, Self::Error> {
        if from >= to {
            return Ok(Vec::new());
        }
        Ok(self
            .rows
            .range((table, from.to_vec())..(table, to.to_vec()))
            .take(limit)
            .map(|((_, key), value)| (key.clone(), value.clone()))
            .collect())
    }

    fn decode<V: DeserializeOwned>(&self, bytes: &[u8]) -> Result<V, Self::Error> {
        C::decode(bytes)
    }
}

impl<C: Codec> Write for MapTables<C> {
    fn put_raw(&mut self, table: TableId, key: Vec<u8>, value: Vec<u8>) -> Result<(), Self::Error> {
        self.rows.insert((table, key), value);
        Ok(())
    }

    fn insert_raw(&mut self, table: TableId, key: Vec<u8>, value: Vec<u8>) -> Result<(), Self::Error> {
        let before = self.rows.insert((table, key), value);
        debug_assert_eq!(before, None, "{table:?} has such a row already");
        Ok(())
    }

    fn delete_raw(&mut self, table: TableId, key: Vec<u8>) -> Result<(), Self::Error> {
        self.rows.remove(&(table, key));
        Ok(())
    }

    fn clear_raw(&mut self, table: TableId, to: Vec<u8>) -> Result<(), Self::Error> {
        self.rows.retain(|(other, key), _| *other != table || *key >= to);
        Ok(())
    }

    fn encode<V: Serialize>(&self, value: &V) -> Result<Vec<u8>, Self::Error> {
        C::encode(value)
    }

    fn digest(&self) -> u64 {
        self.digest
    }

    fn set_digest(&mut self, digest: u64) {
        self.digest = digest;
    }
}
