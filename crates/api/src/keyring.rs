//! Who may call: access keys with their secrets and limits.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use orloj_model::access::Scope;
use orloj_model::id::{CallerId, ExecutorId};
use orloj_scheduler::callback::Policy;
use orloj_wire::sign::{Label, Secret};

/// How much one access key may do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Requests per second, all calls together; by default 20.
    pub requests_per_s: f64,
    /// Requests at once after a pause; by default 20.
    pub requests_burst: u32,
    /// Submissions per second; by default 2.
    pub submits_per_s: f64,
    /// Submissions at once after a pause; by default 2.
    pub submits_burst: u32,
    /// Long polls at once; by default 10.
    pub waiters: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { requests_per_s: 20.0, requests_burst: 20, submits_per_s: 2.0, submits_burst: 2, waiters: 10 }
    }
}

impl Limits {
    fn check(&self) -> Result<(), &'static str> {
        let rate = |rate: f64| rate.is_finite() && rate > 0.0;
        match rate(self.requests_per_s) && rate(self.submits_per_s) {
            false => Err("rates must be above 0"),
            true if self.requests_burst == 0 || self.submits_burst == 0 => Err("bursts must be above 0"),
            true => Ok(()),
        }
    }
}

/// Whom a request comes from, once its signature has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// A caller: sees its own tasks alone.
    Caller(CallerId),
    /// An administrator: looks after the cluster, sees no tasks.
    Admin,
}

impl Principal {
    /// The class of its signatures.
    pub fn label(&self) -> Label {
        match self {
            Principal::Caller(_) => Label::Caller,
            Principal::Admin => Label::Admin,
        }
    }
}

/// What an access key may be used for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    /// The kinds of calls.
    pub scopes: BTreeSet<Scope>,
    /// Of a caller: the handlers, names or beginnings that end with `*`.
    pub handlers: Vec<String>,
}

impl Rights {
    /// Everything.
    pub fn all() -> Self {
        Rights { scopes: Scope::ALL.into(), handlers: vec!["*".to_owned()] }
    }

    /// Whether a handler may be used.
    pub fn handler(&self, handler: &str) -> bool {
        orloj_model::access::may_use(&self.handlers, handler)
    }
}

/// One access key.
#[derive(Debug, Clone)]
pub struct Key {
    /// Whose it is.
    pub principal: Principal,
    /// Signs its requests.
    pub secret: Secret,
    /// How much it may do.
    pub limits: Limits,
    /// A disabled key is refused after its signature has been checked.
    pub enabled: bool,
    /// What it may be used for.
    pub rights: Rights,
}

/// Why a keyring is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {name:?}: {why}")]
pub struct KeyringError {
    /// What kind of key.
    pub kind: &'static str,
    /// The public part of the key.
    pub name: String,
    /// What is wrong; never shows a secret.
    pub why: &'static str,
}

/// Every key that this cluster knows. Has no default: without keys nobody may call.
#[derive(Clone, Default)]
pub struct Keyring {
    keys: HashMap<String, Arc<Key>>,
    executors: HashMap<ExecutorId, Secret>,
    every_executor: Option<Secret>,
    callbacks: HashMap<CallerId, Policy>,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyring({} access keys, {} executors)", self.keys.len(), self.executors.len())
    }
}

impl Keyring {
    /// An empty keyring.
    pub fn new() -> Self {
        Keyring::default()
    }

    /// Adds a caller's key; its name begins with `ak_`.
    pub fn add_caller(
        &mut self,
        caller: CallerId,
        access_key: &str,
        secret: Secret,
        limits: Limits,
    ) -> Result<(), KeyringError> {
        let rights = Rights::all();
        let key = Key { principal: Principal::Caller(caller), secret, limits, enabled: true, rights };
        self.add("access key", "ak_", access_key, key)
    }

    /// Adds an administrator's key; its name begins with `adk_`.
    pub fn add_admin(
        &mut self,
        access_key: &str,
        secret: Secret,
        limits: Limits,
    ) -> Result<(), KeyringError> {
        let rights = Rights::all();
        let key = Key { principal: Principal::Admin, secret, limits, enabled: true, rights };
        self.add("admin key", "adk_", access_key, key)
    }

    fn add(&mut self, kind: &'static str, prefix: &str, name: &str, key: Key) -> Result<(), KeyringError> {
        let error = |why| KeyringError { kind, name: name.to_owned(), why };
        if !name.starts_with(prefix) || !is_access_key(name) {
            return Err(error(match prefix {
                "ak_" => "must be ak_ and up to 61 of [A-Za-z0-9_-]",
                _ => "must be adk_ and up to 60 of [A-Za-z0-9_-]",
            }));
        }
        check_secret(&key.secret).map_err(error)?;
        key.limits.check().map_err(error)?;
        if self.keys.contains_key(name) {
            return Err(error("stands there twice"));
        }
        self.keys.insert(name.to_owned(), Arc::new(key));
        Ok(())
    }

    /// Whether a caller has a key here.
    pub fn has_caller(&self, caller: &CallerId) -> bool {
        let is = |key: &Arc<Key>| matches!(&key.principal, Principal::Caller(known) if known == caller);
        self.keys.values().any(is)
    }

    /// Lets a caller have callbacks.
    pub fn set_callbacks(&mut self, caller: CallerId, policy: Policy) {
        self.callbacks.insert(caller, policy);
    }

    /// What the callbacks of a caller may do, where anything was said of it.
    pub fn callbacks(&self, caller: &CallerId) -> Option<&Policy> {
        self.callbacks.get(caller)
    }

    /// Switches a key off or on; `false` when there is no such key.
    pub fn set_enabled(&mut self, access_key: &str, enabled: bool) -> bool {
        self.keys.get_mut(access_key).map(|key| Arc::make_mut(key).enabled = enabled).is_some()
    }

    /// Gives one executor a secret of its own.
    pub fn add_executor(&mut self, id: ExecutorId, secret: Secret) -> Result<(), KeyringError> {
        let error = |why| KeyringError { kind: "executor", name: id.to_string(), why };
        check_secret(&secret).map_err(error)?;
        if self.executors.contains_key(&id) {
            return Err(error("stands there twice"));
        }
        self.executors.insert(id, secret);
        Ok(())
    }

    /// Lets every executor without a secret of its own use this one.
    pub fn share_with_executors(&mut self, secret: Secret) -> Result<(), KeyringError> {
        let error = |why| KeyringError { kind: "executors", name: "shared".to_owned(), why };
        check_secret(&secret).map_err(error)?;
        self.every_executor = Some(secret);
        Ok(())
    }

    /// The key of this name.
    pub fn key(&self, access_key: &str) -> Option<&Arc<Key>> {
        self.keys.get(access_key)
    }

    /// The secret of an executor: its own, else the shared one.
    pub fn executor(&self, id: &ExecutorId) -> Option<&Secret> {
        self.executors.get(id).or(self.every_executor.as_ref())
    }
}

/// Whether a text can be an access key: one spelling, bounded.
pub fn is_access_key(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Refuses what nobody should use.
fn check_secret(secret: &Secret) -> Result<(), &'static str> {
    secret.weakness().map_or(Ok(()), Err)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text).unwrap()
    }

    const GOOD: &str = "sk_0123456789abcdef0123456789abcdef0123456789a";

    #[test]
    fn b118_weak_and_published_secrets_are_refused() {
        let mut keyring = Keyring::new();
        let caller = || CallerId::new("demo").unwrap();
        for bad in [
            "sk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
            "sk_short",
            "sk_0123456789abcdef 0123456789abcdef",
            "é0123456789abcdef0123456789abcde",
        ] {
            let error = keyring.add_caller(caller(), "ak_A", secret(bad), Limits::default()).unwrap_err();
            assert!(!error.to_string().contains(bad), "{error}");
        }
        assert!(keyring.add_caller(caller(), "ak_A", secret(GOOD), Limits::default()).is_ok());
        assert!(keyring.add_caller(caller(), "ak_A", secret(GOOD), Limits::default()).is_err());
        assert!(keyring.key("ak_a").is_none());
    }

    #[test]
    fn a_beginning_stands_for_every_handler_that_begins_so() {
        let rights = |handlers: &[&str]| Rights {
            handlers: handlers.iter().map(|one| (*one).to_owned()).collect(),
            ..Rights::all()
        };
        assert!(Rights::all().handler("anything"));
        let some = rights(&["echo", "report-*"]);
        for (handler, allowed) in
            [("echo", true), ("echo2", false), ("report-x", true), ("report-", true), ("report", false)]
        {
            assert_eq!(some.handler(handler), allowed, "{handler}");
        }
        assert!(!rights(&[]).handler("echo"), "an empty list allows nothing");
    }

    #[test]
    fn classes_of_keys_do_not_mix() {
        let mut keyring = Keyring::new();
        let caller = CallerId::new("demo").unwrap();
        assert!(keyring.add_caller(caller, "adk_A", secret(GOOD), Limits::default()).is_err());
        assert!(keyring.add_admin("ak_A", secret(GOOD), Limits::default()).is_err());
        assert!(keyring.add_admin("adk_A", secret(GOOD), Limits::default()).is_ok());
    }

    #[test]
    fn limits_must_let_something_through() {
        let mut keyring = Keyring::new();
        let none = Limits { submits_per_s: 0.0, ..Limits::default() };
        assert!(keyring.add_admin("adk_A", secret(GOOD), none).is_err());
        let none = Limits { requests_burst: 0, ..Limits::default() };
        assert!(keyring.add_admin("adk_A", secret(GOOD), none).is_err());
    }

    #[test]
    fn debug_output_shows_no_secret() {
        let mut keyring = Keyring::new();
        keyring.add_admin("adk_A", secret(GOOD), Limits::default()).unwrap();
        assert!(!format!("{keyring:?} {:?}", keyring.key("adk_A")).contains(GOOD));
    }

    #[test]
    fn an_executors_own_secret_comes_first() {
        let mut keyring = Keyring::new();
        let own = "exs_0123456789abcdef0123456789abcdef";
        keyring.share_with_executors(secret(GOOD)).unwrap();
        keyring.add_executor(ExecutorId::new("e1").unwrap(), secret(own)).unwrap();
        let of = |id| keyring.executor(&ExecutorId::new(id).unwrap()).unwrap().expose();
        assert_eq!((of("e1"), of("e2")), (own, GOOD));
    }
}
