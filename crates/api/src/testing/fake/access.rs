//! The fake store's reads of callers and keys.

use orloj_model::access::AccessKeyRow;
use orloj_model::id::CallerId;
use orloj_model::query::{self, CallerView};

use super::FakeStore;
use crate::backend::{AccessReads, NamedKeys, StorageFault};

impl AccessReads for FakeStore {
    fn caller(&self, id: &CallerId) -> Result<Option<CallerView>, StorageFault> {
        Ok(self.read(|tables| query::caller(tables, id))?.value)
    }

    fn callers(&self, after: Option<&CallerId>, limit: usize) -> Result<Vec<CallerView>, StorageFault> {
        Ok(self.read(|tables| query::callers(tables, after, limit))?.value)
    }

    fn access_key(&self, name: &str) -> Result<Option<AccessKeyRow>, StorageFault> {
        Ok(self.read(|tables| query::access_key(tables, name))?.value)
    }

    fn admin_keys(&self) -> Result<NamedKeys, StorageFault> {
        Ok(self.read(|tables| query::access_keys_of(tables, ""))?.value)
    }
}
