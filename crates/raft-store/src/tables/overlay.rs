//! The tables while entries are applied: what was applied before with the writes of this apply on top.

use std::cell::RefCell;
use std::sync::Arc;

use orloj_model::key::TableKey as _;
use orloj_model::tables::{RawRow, Read, Table, TableId, Write};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::floors::Floors;
use super::writes::{Writes, Written, layered};
use super::{Home, PREFIX, by_key, decode_row, full_key};
use crate::codec::{self, Schema};
use crate::engine::Cursor;
use crate::error::Fault;

/// Writes of one apply, in front of what was applied before; reads see both.
pub struct Overlay {
    base: Arc<Home>,
    writes: Writes,
    /// Of both.
    floors: RefCell<Floors>,
    digest: u64,
}

impl Overlay {
    /// No writes yet, over tables whose running digest is `digest`.
    pub(super) fn new(base: Arc<Home>, digest: u64) -> Self {
        let floors = RefCell::new(base.take_floors());
        Overlay { base, writes: Writes::default(), floors, digest }
    }

    /// Bytes of keys and values written so far, repeated writes counted each time.
    pub fn bytes(&self) -> usize {
        self.writes.taken()
    }

    /// A row as this apply has written it; `None` if it has not.
    ///
    /// # Errors
    /// Its bytes do not decode.
    pub(super) fn written<T: Table>(&self, key: &T::Key) -> Result<Option<T::Row>, Fault> {
        match by_key(T::ID as u8, &key.encode(), |key| self.writes.get(key)) {
            Some(Written { value: Some(value), .. }) => decode_row(value).map(Some),
            _ => Ok(None),
        }
    }

    /// Every write, and where the queues begin with them.
    pub(super) fn into_parts(self) -> (Writes, Floors) {
        (self.writes, self.floors.into_inner())
    }

    fn write(&mut self, table: TableId, key: &[u8], written: Written) {
        let key = full_key(table as u8, key);
        if written.value.is_some() {
            self.floors.get_mut().written(table, &key);
        }
        self.writes.set(key, written);
    }
}

impl Read for Overlay {
    type Error = Fault;

    fn get_raw(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        by_key(table as u8, key, |key| match self.writes.get(key) {
            Some(written) => Ok(written.value.clone()),
            None if self.writes.hides(key) => Ok(None),
            None => self.base.get(key),
        })
    }

    fn range_raw(&self, table: TableId, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<RawRow>, Fault> {
        let (from, to) = (full_key(table as u8, from), full_key(table as u8, to));
        if from >= to || limit == 0 {
            return Ok(Vec::new());
        }
        let mut floors = self.floors.borrow_mut();
        let first = floors.first(table, &from);
        if first >= to.as_slice() {
            return Ok(Vec::new());
        }
        let rows = self.base.with_held(|held| {
            let below = self.writes.first_below(first).min(to.as_slice());
            let mut stored = self.base.db.scan(held.first_below(below).min(to.as_slice()), &to);
            let written = layered(held.range(below, &to), self.writes.range(first, &to));
            let rows = merge(&mut *stored, written, limit);
            stored.status().map_err(Fault::database("read", self.base.path()))?;
            Ok(rows)
        })?;
        let first = rows.first().map(|(key, _)| full_key(table as u8, key));
        floors.found(table, &from, first.as_deref().unwrap_or(&to));
        Ok(rows)
    }

    fn decode<V: DeserializeOwned>(&self, bytes: &[u8]) -> Result<V, Fault> {
        decode_row(bytes)
    }
}

/// The first `limit` rows of both, in key order; a written key hides the stored one.
fn merge<'a>(
    stored: &mut dyn Cursor,
    written: impl Iterator<Item = (&'a Vec<u8>, &'a Written)>,
    limit: usize,
) -> Vec<RawRow> {
    let mut rows = Vec::new();
    for (key, written) in written {
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
        if let Some(value) = &written.value {
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
        self.write(table, &key, Written { value: Some(value), new: false });
        Ok(())
    }

    fn insert_raw(&mut self, table: TableId, key: Vec<u8>, value: Vec<u8>) -> Result<(), Fault> {
        debug_assert_eq!(self.get_raw(table, &key)?, None, "{table:?} has a row at {key:?} already");
        self.write(table, &key, Written { value: Some(value), new: true });
        Ok(())
    }

    fn delete_raw(&mut self, table: TableId, key: Vec<u8>) -> Result<(), Fault> {
        self.write(table, &key, Written { value: None, new: false });
        Ok(())
    }

    fn clear_raw(&mut self, table: TableId, to: Vec<u8>) -> Result<(), Fault> {
        self.writes.clear(full_key(table as u8, &to));
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
