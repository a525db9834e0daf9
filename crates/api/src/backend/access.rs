//! What the API reads of callers and keys to show them.

use orloj_model::access::AccessKeyRow;
use orloj_model::id::CallerId;
use orloj_model::query::{self, CallerView};
use orloj_raft_store::Store;

use super::StorageFault;

/// Access keys with their names.
pub type NamedKeys = Vec<(String, AccessKeyRow)>;

/// Reads of callers and keys, of this node's own tables.
pub trait AccessReads {
    /// One caller with its keys.
    fn caller(&self, id: &CallerId) -> Result<Option<CallerView>, StorageFault>;
    /// Callers with their keys by name; at most `limit`, after `after`.
    fn callers(&self, after: Option<&CallerId>, limit: usize) -> Result<Vec<CallerView>, StorageFault>;
    /// One access key.
    fn access_key(&self, name: &str) -> Result<Option<AccessKeyRow>, StorageFault>;
    /// The keys of administrators; their number is bounded.
    fn admin_keys(&self) -> Result<NamedKeys, StorageFault>;
}

impl AccessReads for Store {
    fn caller(&self, id: &CallerId) -> Result<Option<CallerView>, StorageFault> {
        Ok(query::caller(&self.view(), id)?)
    }

    fn callers(&self, after: Option<&CallerId>, limit: usize) -> Result<Vec<CallerView>, StorageFault> {
        Ok(query::callers(&self.view(), after, limit)?)
    }

    fn access_key(&self, name: &str) -> Result<Option<AccessKeyRow>, StorageFault> {
        Ok(query::access_key(&self.view(), name)?)
    }

    fn admin_keys(&self) -> Result<NamedKeys, StorageFault> {
        Ok(query::access_keys_of(&self.view(), "")?)
    }
}
