//! The callers and keys of the tables at one revision, with their secrets opened.

use std::collections::HashMap;
use std::sync::Arc;

use orloj_model::access::{AccessKeyRow, CallbackHost, CallerRow, KeyLimits, KeyOwner, SealedSecret};
use orloj_model::id::CallerId;
use orloj_model::query::Access;
use orloj_scheduler::callback::Policy;
use orloj_wire::callback::{HostEntry, HostRule, WebhookSecret};
use orloj_wire::sign::Secret;

use crate::keyring::{Key, Limits, Principal, Rights};
use crate::seal::{Sealer, of_key, of_webhook};

/// The tables' callers and keys at one revision.
#[derive(Default)]
pub(super) struct Opened {
    pub(super) revision: u64,
    pub(super) keys: HashMap<String, Arc<Key>>,
    pub(super) policies: HashMap<CallerId, Policy>,
    /// How many secrets were opened for it; the others are as they were before.
    #[cfg_attr(not(test), allow(dead_code, reason = "only a test reads it"))]
    pub(super) anew: usize,
    secrets: Known<Secret>,
    webhooks: Known<WebhookSecret>,
}

/// What came of sealed bytes, by what they are bound to; `None` of those that cannot be opened here.
type Known<T> = HashMap<String, (Vec<u8>, Option<T>)>;

/// Opens secrets, those alone that are not sealed as they were before.
struct Opener<'a> {
    sealer: &'a Sealer,
    before: &'a Opened,
    now: Opened,
}

impl Opened {
    /// What follows it: the same secrets where their sealed bytes are the same. What cannot be opened is left out and
    /// logged: its key signs nothing here.
    pub(super) fn go_on(&self, access: &Access, sealer: &Sealer) -> Opened {
        let now = Opened { revision: access.revision, ..Opened::default() };
        let mut opener = Opener { sealer, before: self, now };
        let callers: HashMap<&CallerId, &CallerRow> =
            access.callers.iter().map(|(caller, row)| (caller, row)).collect();
        for (caller, row) in &access.callers {
            let policy = opener.policy(caller, row);
            opener.now.policies.insert(caller.clone(), policy);
        }
        for (name, row) in &access.keys {
            let caller = match &row.owner {
                KeyOwner::Caller(caller) => callers.get(caller).copied(),
                KeyOwner::Admin { .. } => None,
            };
            if let Some(key) = opener.key(name, row, caller) {
                opener.now.keys.insert(name.clone(), Arc::new(key));
            }
        }
        opener.now
    }
}

impl Opener<'_> {
    fn key(&mut self, name: &str, row: &AccessKeyRow, caller: Option<&CallerRow>) -> Option<Key> {
        let Opener { sealer, before, now } = self;
        let (bound, sealed) = (of_key(name), &row.sealed);
        let open = |bound: &str| {
            let secret = sealer.open(bound, sealed).ok().and_then(Secret::new);
            if secret.is_none() {
                tracing::error!(access_key = %name, "a sealed secret cannot be opened here: see sealing-keys");
            }
            secret
        };
        let secret = recall(&before.secrets, &mut now.secrets, &mut now.anew, bound, sealed, open)?;
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

    fn policy(&mut self, caller: &CallerId, row: &CallerRow) -> Policy {
        let hosts = match row.settings.enabled {
            true => row.settings.callback_hosts.iter().filter_map(rule).collect(),
            false => Vec::new(),
        };
        let Opener { sealer, before, now } = self;
        let mut secret = |secret: &SealedSecret| {
            let open = |bound: &str| WebhookSecret::parse(&sealer.open(bound, &secret.sealed).ok()?);
            let bound = of_webhook(caller.as_str(), &secret.id);
            recall(&before.webhooks, &mut now.webhooks, &mut now.anew, bound, &secret.sealed, open)
        };
        let secrets: Vec<_> = row.webhook_secrets.iter().filter_map(&mut secret).collect();
        let unopened = secrets.len() < row.webhook_secrets.len();
        Policy { hosts, secrets, unopened }
    }
}

/// A secret as it was opened before, or opened now.
fn recall<T: Clone>(
    before: &Known<T>,
    now: &mut Known<T>,
    anew: &mut usize,
    bound: String,
    sealed: &[u8],
    open: impl FnOnce(&str) -> Option<T>,
) -> Option<T> {
    let secret = match before.get(&bound) {
        Some((known, secret)) if known == sealed => secret.clone(),
        _ => {
            *anew += 1;
            open(&bound)
        }
    };
    now.insert(bound, (sealed.to_vec(), secret.clone()));
    secret
}

fn rule(host: &CallbackHost) -> Option<HostRule> {
    let entry = HostEntry {
        host: host.host.clone(),
        ports: host.ports.clone(),
        plain_http: host.plain_http,
        allow_cidrs: host.allow_cidrs.clone(),
    };
    HostRule::new(&entry).ok()
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
