//! Who may call, as this replica knows it: the keys of the secrets file, and the callers and keys of the tables.
//!
//! The file comes first: it holds what a cluster begins with. What the tables say is read again whenever their
//! revision has moved on, so that a key that was switched off signs nothing more from the moment at which the change
//! is applied here; the leader, which lets every request in, is never behind an answer that it gave.

mod opened;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orloj_model::id::{CallerId, ExecutorId};
use orloj_model::query::TaskView;
use orloj_scheduler::callback::{Policy, Tenants};
use orloj_wire::sign::Secret;

use crate::backend::{Backend, StorageFault};
use crate::keyring::{Key, Keyring};
use crate::seal::Sealer;
use crate::view;
use opened::Opened;

/// Looks callers up. Clones stand for the same.
#[derive(Clone)]
pub struct Directory {
    inner: Arc<Inner>,
}

struct Inner {
    keyring: Keyring,
    sealer: Sealer,
    backend: Arc<dyn Backend>,
    opened: Mutex<Arc<Opened>>,
    /// Held by the one that reads the tables again for all.
    reading: Mutex<()>,
}

impl Directory {
    /// A directory of the keys of the secrets file and of those in the tables.
    pub fn new(keyring: Keyring, sealer: Sealer, backend: Arc<dyn Backend>) -> Self {
        let (opened, reading) = (Mutex::default(), Mutex::default());
        Directory { inner: Arc::new(Inner { keyring, sealer, backend, opened, reading }) }
    }

    /// The key of this name.
    ///
    /// # Errors
    /// The tables cannot be read.
    pub fn key(&self, access_key: &str) -> Result<Option<Arc<Key>>, StorageFault> {
        if let Some(key) = self.inner.keyring.key(access_key) {
            return Ok(Some(Arc::clone(key)));
        }
        Ok(self.opened()?.keys.get(access_key).cloned())
    }

    /// Whether an access key is one of the secrets file, so that what this replica knows of it is all there is.
    pub fn is_of_the_file(&self, access_key: &str) -> bool {
        self.inner.keyring.key(access_key).is_some()
    }

    /// Those of these access keys that there are not.
    ///
    /// # Errors
    /// The tables cannot be read.
    pub fn gone(&self, mut access_keys: Vec<String>) -> Result<Vec<String>, StorageFault> {
        let opened = self.opened()?;
        access_keys.retain(|key| !self.is_of_the_file(key) && !opened.keys.contains_key(key));
        Ok(access_keys)
    }

    /// Whether a name is one of the secrets file: the tables must not have it too.
    pub fn is_in_the_file(&self, caller: &CallerId) -> bool {
        self.inner.keyring.has_caller(caller)
    }

    /// Seals and opens secrets.
    pub fn sealer(&self) -> &Sealer {
        &self.inner.sealer
    }

    /// The secret of an executor.
    pub fn executor(&self, id: &ExecutorId) -> Option<&Secret> {
        self.inner.keyring.executor(id)
    }

    /// What the callbacks of a caller may do; `None` of a caller that there is not.
    ///
    /// # Errors
    /// The tables cannot be read.
    pub fn policy_of(&self, caller: &CallerId) -> Result<Option<Policy>, StorageFault> {
        if let Some(policy) = self.inner.keyring.callbacks(caller) {
            return Ok(Some(policy.clone()));
        }
        Ok(self.opened()?.policies.get(caller).cloned())
    }

    /// What the tables say now. Nothing is read for it, unless something has changed: then one reads them for
    /// all who wait, and opens no more than what was sealed since.
    fn opened(&self) -> Result<Arc<Opened>, StorageFault> {
        let revision = self.inner.backend.access_revision()?;
        let opened = Arc::clone(&locked(&self.inner.opened));
        if opened.revision >= revision {
            return Ok(opened);
        }
        let _reading = locked(&self.inner.reading);
        let before = Arc::clone(&locked(&self.inner.opened));
        if before.revision >= revision {
            return Ok(before);
        }
        let now = Arc::new(before.go_on(&self.inner.backend.access()?, &self.inner.sealer));
        *locked(&self.inner.opened) = Arc::clone(&now);
        Ok(now)
    }

    /// How many secrets were opened when the tables were read last.
    #[cfg(test)]
    pub(crate) fn opened_last(&self) -> usize {
        self.opened().map_or(0, |opened| opened.anew)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that holds these locks can panic half-way through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tenants for Directory {
    fn policy(&self, caller: &CallerId) -> Option<Policy> {
        // Tables that cannot be read stop the node elsewhere.
        self.policy_of(caller).ok().flatten()
    }

    fn body(&self, task: &TaskView) -> Vec<u8> {
        view::event(task).encode()
    }
}
