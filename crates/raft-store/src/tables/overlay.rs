//! The tables while entries are applied: what is on disk with the writes of this apply on top.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use orloj_model::key::TableKey as _;
use orloj_model::tables::{RawRow, Read, Table, TableId, Write};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Home, PREFIX, by_key, decode_row, full_key};
use crate::codec::{self, Schema};
use crate::engine::{Cursor, WriteBatch};
use crate::error::Fault;

/// Writes that are not on disk yet, in front of the database; reads see both.
pub struct Overlay {
    base: Arc<Home>,
    /// By full key; `None` removes.
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    bytes: usize,
    digest: u64,
}

impl Overlay {
    /// No writes yet, over a database whose running digest is `digest`.
    pub(super) fn new(base: Arc<Home>, digest: u64) -> Self {
        Overlay { base, writes: BTreeMap::new(), bytes: 0, digest }
    }

    /// Bytes of keys and values written so far, repeated writes counted each time.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A row as this apply has written it; `None` if it has not.
    ///
    /// # Errors
    /// Its bytes do not decode.
    pub(super) fn written<T: Table>(&self, key: &T::Key) -> Result<Option<T::Row>, Fault> {
        match by_key(T::ID as u8, &key.encode(), |key| self.writes.get(key)) {
            Some(Some(value)) => decode_row(value).map(Some),
            _ => Ok(None),
        }
    }

    /// Every write, as a batch, with room for `more`.
    pub fn batch(&self, more: usize) -> WriteBatch<'_> {
        let mut batch = WriteBatch::with_capacity(self.writes.len() + more);
        for (key, value) in &self.writes {
            match value {
                Some(value) => batch.put(key.as_slice(), value.as_slice()),
                None => batch.delete(key.as_slice()),
            }
        }
        batch
    }

    /// Every write, by full key; `None` removes.
    pub(super) fn into_writes(self) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
        self.writes
    }

    fn write(&mut self, table: TableId, key: &[u8], value: Option<Vec<u8>>) {
        let key = full_key(table as u8, key);
        self.bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        self.writes.insert(key, value);
    }
}

impl Read for Overlay {
    type Error = Fault;

    fn get_raw(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        by_key(table as u8, key, |key| match self.writes.get(key) {
            Some(value) => Ok(value.clone()),
            None => self.base.get(key),
        })
    }

    fn range_raw(&self, table: TableId, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<RawRow>, Fault> {
        let (from, to) = (full_key(table as u8, from), full_key(table as u8, to));
        if from >= to || limit == 0 {
            return Ok(Vec::new());
        }
        let mut stored = self.base.db.scan(&from, &to);
        let written = self.writes.range((Bound::Included(from), Bound::Excluded(to)));
        let rows = merge(&mut *stored, written, limit);
        stored.status().map_err(Fault::database("read", self.base.path()))?;
        Ok(rows)
    }

    fn decode<V: DeserializeOwned>(&self, bytes: &[u8]) -> Result<V, Fault> {
        decode_row(bytes)
    }
}

/// The first `limit` rows of both, in key order; a written key hides the stored one.
fn merge<'a>(
    stored: &mut dyn Cursor,
    written: impl Iterator<Item = (&'a Vec<u8>, &'a Option<Vec<u8>>)>,
    limit: usize,
) -> Vec<RawRow> {
    let mut rows = Vec::new();
    for (key, value) in written {
        // Stored rows in front of the written key, then the stored row that it hides.
        while rows.len() < limit
            && let Some((stored_key, stored_value)) = stored.item()
            && stored_key < key.as_slice()
        {
            rows.push((stored_key[PREFIX..].to_vec(), stored_value.to_vec()));
            stored.advance();
        }
        if rows.len() == limit {
            return rows;
        }
        if stored.item().is_some_and(|(stored_key, _)| stored_key == key.as_slice()) {
            stored.advance();
        }
        if let Some(value) = value {
            rows.push((key[PREFIX..].to_vec(), value.clone()));
        }
    }
    while rows.len() < limit
        && let Some((key, value)) = stored.item()
    {
        rows.push((key[PREFIX..].to_vec(), value.to_vec()));
        stored.advance();
    }
    rows
}

impl Write for Overlay {
    fn put_raw(&mut self, table: TableId, key: Vec<u8>, value: Vec<u8>) -> Result<(), Fault> {
        self.write(table, &key, Some(value));
        Ok(())
    }

    fn delete_raw(&mut self, table: TableId, key: Vec<u8>) -> Result<(), Fault> {
        self.write(table, &key, None);
        Ok(())
    }

    fn encode<V: Serialize>(&self, value: &V) -> Result<Vec<u8>, Fault> {
        codec::encode(Schema::Row, value).map_err(Fault::codec("a row to be written"))
    }

    fn digest(&self) -> u64 {
        self.digest
    }

    fn set_digest(&mut self, digest: u64) {
        self.digest = digest;
    }
}
