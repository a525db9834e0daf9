//! Who may call, as this replica knows it: the keys of the secrets file, and the callers and keys of the tables.
//!
//! The file comes first: it holds what a cluster begins with. What the tables say is read again whenever their
//! revision has moved on, so that a key that was switched off signs nothing more from the moment at which the change
//! is applied here; the leader, which lets every request in, is never behind an answer that it gave.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use orloj_model::access::{AccessKeyRow, CallerRow, KeyLimits, KeyOwner};
use orloj_model::id::{CallerId, ExecutorId};
use orloj_model::query::{Access, TaskView};
use orloj_scheduler::callback::{Policy, Tenants};
use orloj_wire::callback::{HostEntry, HostRule, WebhookSecret};
use orloj_wire::sign::Secret;

use crate::backend::{Backend, StorageFault};
use crate::keyring::{Key, Keyring, Limits, Principal, Rights};
use crate::seal::{Sealer, of_key, of_webhook};
use crate::view;

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
}

/// The tables' callers and keys at one revision, with their secrets opened.
#[derive(Default)]
struct Opened {
    revision: u64,
    keys: HashMap<String, Arc<Key>>,
    policies: HashMap<CallerId, Policy>,
}

impl Directory {
    /// A directory of the keys of the secrets file and of those in the tables.
    pub fn new(keyring: Keyring, sealer: Sealer, backend: Arc<dyn Backend>) -> Self {
        Directory { inner: Arc::new(Inner { keyring, sealer, backend, opened: Mutex::default() }) }
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

    /// What the tables say now. One small row is read for it, unless something has changed.
    fn opened(&self) -> Result<Arc<Opened>, StorageFault> {
        let revision = self.inner.backend.access_revision()?;
        // Nothing that holds this lock can panic half-way through a change.
        let mut opened = self.inner.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if opened.revision != revision {
            *opened = Arc::new(open(&self.inner.backend.access()?, &self.inner.sealer));
        }
        Ok(Arc::clone(&opened))
    }
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

/// Opens everything. What cannot be opened is left out and logged: its key signs nothing here.
fn open(access: &Access, sealer: &Sealer) -> Opened {
    let mut opened = Opened { revision: access.revision, ..Opened::default() };
    let callers: HashMap<&CallerId, &CallerRow> =
        access.callers.iter().map(|(caller, row)| (caller, row)).collect();
    for (caller, row) in &access.callers {
        opened.policies.insert(caller.clone(), policy(caller, row, sealer));
    }
    for (name, row) in &access.keys {
        let caller = match &row.owner {
            KeyOwner::Caller(caller) => callers.get(caller).copied(),
            KeyOwner::Admin { .. } => None,
        };
        match key(name, row, caller, sealer) {
            Some(key) => drop(opened.keys.insert(name.clone(), Arc::new(key))),
            None => {
                tracing::error!(access_key = %name, "a sealed secret cannot be opened here: see sealing-keys")
            }
        }
    }
    opened
}

fn key(name: &str, row: &AccessKeyRow, caller: Option<&CallerRow>, sealer: &Sealer) -> Option<Key> {
    let secret = Secret::new(sealer.open(&of_key(name), &row.sealed).ok()?)?;
    Some(match (&row.owner, caller) {
        (KeyOwner::Caller(id), Some(caller)) => Key {
            principal: Principal::Caller(id.clone()),
            secret,
            limits: limits(&caller.settings.limits),
            enabled: row.enabled && caller.settings.enabled,
            rights: Rights {
                scopes: caller.settings.scopes.clone(),
                handlers: caller.settings.handlers.clone(),
            },
        },
        (KeyOwner::Caller(_), None) => return None,
        (KeyOwner::Admin { scopes }, _) => Key {
            principal: Principal::Admin,
            secret,
            limits: Limits::default(),
            enabled: row.enabled,
            rights: Rights { scopes: scopes.clone(), handlers: Vec::new() },
        },
    })
}

fn policy(caller: &CallerId, row: &CallerRow, sealer: &Sealer) -> Policy {
    let rule = |host: &orloj_model::access::CallbackHost| {
        let entry = HostEntry {
            host: host.host.clone(),
            ports: host.ports.clone(),
            plain_http: host.plain_http,
            allow_cidrs: host.allow_cidrs.clone(),
        };
        HostRule::new(&entry).ok()
    };
    let secret = |secret: &orloj_model::access::SealedSecret| {
        let text = sealer.open(&of_webhook(caller.as_str(), &secret.id), &secret.sealed).ok()?;
        WebhookSecret::parse(&text)
    };
    let hosts = match row.settings.enabled {
        true => row.settings.callback_hosts.iter().filter_map(rule).collect(),
        false => Vec::new(),
    };
    let secrets: Vec<_> = row.webhook_secrets.iter().filter_map(secret).collect();
    let unopened = secrets.len() < row.webhook_secrets.len();
    Policy { hosts, secrets, unopened }
}

fn limits(row: &KeyLimits) -> Limits {
    let rate = |per_1000s: u64| per_1000s as f64 / 1000.0;
    Limits {
        requests_per_s: rate(row.requests_per_1000s),
        requests_burst: row.requests_burst,
        submits_per_s: rate(row.submits_per_1000s),
        submits_burst: row.submits_burst,
        waiters: row.waiters,
    }
}
