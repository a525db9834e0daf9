//! The model's tables on RocksDB.

use orloj_model::tables::{RawRow, Read, TableId};
use serde::de::DeserializeOwned;

use crate::failure::StorageFault;

/// The tables at one applied index. Cheap to clone.
#[derive(Clone)]
pub struct View {}

impl View {
    /// Index of the last entry whose changes it shows.
    pub fn applied(&self) -> u64 {
        0
    }

    /// The running digest of everything up to there.
    pub fn digest(&self) -> u64 {
        0
    }
}

impl Read for View {
    type Error = StorageFault;

    fn get_raw(&self, _table: TableId, _key: &[u8]) -> Result<Option<Vec<u8>>, StorageFault> {
        Ok(None)
    }

    fn range_raw(
        &self,
        _table: TableId,
        _from: &[u8],
        _to: &[u8],
        _limit: usize,
    ) -> Result<Vec<RawRow>, StorageFault> {
        Ok(Vec::new())
    }

    fn decode<V: DeserializeOwned>(&self, _bytes: &[u8]) -> Result<V, StorageFault> {
        Err(StorageFault(String::new()))
    }
}
