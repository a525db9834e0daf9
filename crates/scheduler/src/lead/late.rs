//! A view that is taken when it is first read.

use std::cell::OnceCell;

use orloj_model::tables::{RawRow, Read, TableId};
use orloj_raft_store::{Store, View};
use serde::de::DeserializeOwned;

/// The tables as of the first read. Whoever takes a view has the store write what it still holds in memory, and a leader
/// knows most of what is due without.
pub(super) struct LateView<'a> {
    store: &'a Store,
    view: OnceCell<View>,
}

impl<'a> LateView<'a> {
    pub(super) fn of(store: &'a Store) -> LateView<'a> {
        LateView { store, view: OnceCell::new() }
    }

    fn view(&self) -> &View {
        self.view.get_or_init(|| self.store.view())
    }
}

impl Read for LateView<'_> {
    type Error = <View as Read>::Error;

    fn get_raw(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, Self::Error> {
        self.view().get_raw(table, key)
    }

    fn range_raw(
        &self,
        table: TableId,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<RawRow>, Self::Error> {
        self.view().range_raw(table, from, to, limit)
    }

    fn decode<V: DeserializeOwned>(&self, bytes: &[u8]) -> Result<V, Self::Error> {
        self.view().decode(bytes)
    }
}
