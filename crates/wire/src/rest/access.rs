//! Callers, access keys and the audit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::callback::{HostEntry, HostRule};
use crate::problem::FieldError;
use crate::rest::submit::within;
use crate::time::Time;
use orloj_model::access::Scope;
use orloj_model::id::check_name;

/// The longest description, in bytes.
const DESCRIPTION_LIMIT: usize = 1_024;
/// The most handlers and the most callback hosts of a caller.
const LIST_LIMIT: usize = 200;
/// The highest rate per second, and the largest burst.
const RATE_LIMIT: f64 = 1e6;

/// How much each key of a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct KeyLimits {
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

impl Default for KeyLimits {
    fn default() -> Self {
        KeyLimits {
            requests_per_s: 20.0,
            requests_burst: 20,
            submits_per_s: 2.0,
            submits_burst: 2,
            waiters: 10,
        }
    }
}

/// What an administrator decides about a caller: the body of `PUT callers/{id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutCaller {
    /// The version that is to be replaced; 0 where there must be none, absent whatever there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<u64>,
    /// `false` turns every key of the caller off.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// `submit`, `sync`, `read`, `cancel`, `jobs`; by default all of them.
    #[serde(default = "caller_scopes")]
    pub scopes: Vec<String>,
    /// Handlers that it may use: names, or beginnings that end with `*`. By default `*`.
    #[serde(default = "every_handler")]
    pub handlers: Vec<String>,
    /// Where its callbacks may go. By default nowhere.
    #[serde(default)]
    pub callback_hosts: Vec<HostEntry>,
    /// How much each of its keys may do.
    #[serde(default)]
    pub limits: KeyLimits,
    /// How many of its tasks may run at a time, 1-100,000; no limit when absent.
    #[serde(default, deserialize_with = "within::<_, 1, 100_000>", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_running: Option<u64>,
}

impl Default for PutCaller {
    fn default() -> Self {
        PutCaller {
            expected_version: None,
            enabled: true,
            description: String::new(),
            scopes: caller_scopes(),
            handlers: every_handler(),
            callback_hosts: Vec::new(),
            limits: KeyLimits::default(),
            max_running: None,
        }
    }
}

fn yes() -> bool {
    true
}

fn caller_scopes() -> Vec<String> {
    names(|scope| !scope.is_admins())
}

fn admin_scopes() -> Vec<String> {
    names(Scope::is_admins)
}

fn names(fits: impl Fn(Scope) -> bool) -> Vec<String> {
    Scope::ALL.into_iter().filter(|scope| fits(*scope)).map(|scope| scope.name().to_owned()).collect()
}

fn every_handler() -> Vec<String> {
    vec!["*".to_owned()]
}

impl PutCaller {
    /// Everything that parses but is not acceptable; empty when all is well.
    pub fn faults(&self) -> Vec<FieldError> {
        let mut faults = Vec::new();
        description(&mut faults, &self.description);
        scopes(&mut faults, &self.scopes, false);
        for (pointer, length) in
            [("/handlers", self.handlers.len()), ("/callbackHosts", self.callback_hosts.len())]
        {
            if length > LIST_LIMIT {
                faults.push(FieldError::new(pointer, format!("{length} entries are more than {LIST_LIMIT}")));
            }
        }
        for (at, handler) in self.handlers.iter().enumerate().take(LIST_LIMIT) {
            let name = handler.strip_suffix('*').unwrap_or(handler);
            if let Err(error) = check_name(name)
                && handler != "*"
            {
                let message = format!("{handler:?}: {error}; a * may stand at the end");
                faults.push(FieldError::new(format!("/handlers/{at}"), message));
            }
        }
        for (at, entry) in self.callback_hosts.iter().enumerate().take(LIST_LIMIT) {
            if let Err(why) = HostRule::new(entry) {
                faults.push(FieldError::new(format!("/callbackHosts/{at}"), why));
            }
        }
        self.limits.check(&mut faults);
        faults
    }
}

impl KeyLimits {
    fn check(&self, faults: &mut Vec<FieldError>) {
        for (name, rate) in [("requestsPerS", self.requests_per_s), ("submitsPerS", self.submits_per_s)] {
            if !(0.001..=RATE_LIMIT).contains(&rate) {
                faults.push(FieldError::new(
                    format!("/limits/{name}"),
                    format!("{rate} is outside 0.001-{RATE_LIMIT}"),
                ));
            }
        }
        for (name, burst) in [("requestsBurst", self.requests_burst), ("submitsBurst", self.submits_burst)] {
            if burst == 0 || f64::from(burst) > RATE_LIMIT {
                faults.push(FieldError::new(
                    format!("/limits/{name}"),
                    format!("{burst} is outside 1-{RATE_LIMIT}"),
                ));
            }
        }
    }
}

fn description(faults: &mut Vec<FieldError>, text: &str) {
    if text.len() > DESCRIPTION_LIMIT {
        let message = format!("{} bytes are more than {DESCRIPTION_LIMIT}", text.len());
        faults.push(FieldError::new("/description", message));
    }
}

fn scopes(faults: &mut Vec<FieldError>, scopes: &[String], admins: bool) {
    for (at, name) in scopes.iter().enumerate().take(Scope::ALL.len()) {
        if Scope::from_name(name).is_none_or(|scope| scope.is_admins() != admins) {
            let known = if admins { admin_scopes() } else { caller_scopes() };
            let message = format!("{name:?} is none of {}", known.join(", "));
            faults.push(FieldError::new(format!("/scopes/{at}"), message));
        }
    }
    if scopes.len() > Scope::ALL.len() {
        faults.push(FieldError::new("/scopes", format!("{} scopes are too many", scopes.len())));
    }
}

/// A caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Caller {
    /// Its name.
    pub caller_id: String,
    /// Grows by one with every change of the settings.
    pub version: u64,
    /// `false`: every key of it is off.
    pub enabled: bool,
    /// For people.
    pub description: String,
    /// What its keys may be used for.
    pub scopes: Vec<String>,
    /// Handlers that it may use.
    pub handlers: Vec<String>,
    /// Where its callbacks may go.
    pub callback_hosts: Vec<HostEntry>,
    /// How much each of its keys may do.
    pub limits: KeyLimits,
    /// How many of its tasks may run at a time; absent where there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_running: Option<u64>,
    /// Its keys, without their secrets.
    pub keys: Vec<AccessKey>,
    /// What signs its callbacks, without the secrets themselves.
    pub webhook_secrets: Vec<WebhookSecretInfo>,
    /// When it was made.
    pub created_at: Time,
    /// When its settings last changed.
    pub updated_at: Time,
}

/// The answer to `GET callers`: a page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Callers {
    /// The callers that were made through the API, by name. Those of the secrets file are not shown.
    pub callers: Vec<Caller>,
    /// For the next page; absent on the last one. Good for an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}

/// The answer to a change of a caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallerChanged {
    /// The caller.
    pub caller_id: String,
    /// Its version; `null` when it is gone.
    pub version: Option<u64>,
}

/// An access key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessKey {
    /// Its public name.
    pub access_key: String,
    /// Requests that it signs are let in.
    pub enabled: bool,
    /// For people.
    pub description: String,
    /// Of an administrator's key: what it may be used for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// When it was made.
    pub created_at: Time,
}

/// The answer to `GET admin-keys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessKeys {
    /// The keys that were made through the API, by name. Those of the secrets file are not shown.
    pub keys: Vec<AccessKey>,
}

/// A key to be made: the body of `POST callers/{id}/keys` and of `POST admin-keys`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewKey {
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Of an administrator's key: `cluster`, `callers`, `audit`; by default all of them. A caller's key has the
    /// scopes of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
}

impl NewKey {
    /// Everything that parses but is not acceptable; empty when all is well.
    pub fn faults(&self, admin: bool) -> Vec<FieldError> {
        let mut faults = Vec::new();
        description(&mut faults, &self.description);
        match &self.scopes {
            Some(_) if !admin => {
                faults.push(FieldError::new("/scopes", "a caller's key has the scopes of the caller"))
            }
            Some(names) => scopes(&mut faults, names, true),
            None => {}
        }
        faults
    }

    /// The scopes of an administrator's key.
    pub fn admin_scopes(&self) -> Vec<String> {
        self.scopes.clone().unwrap_or_else(admin_scopes)
    }
}

/// A key that was made. Its secret is shown this once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MadeKey {
    /// Its public name.
    pub access_key: String,
    /// Its secret. Nobody can show it again.
    pub secret_key: String,
}

impl std::fmt::Debug for MadeKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MadeKey({})", self.access_key)
    }
}

/// A webhook secret, without itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookSecretInfo {
    /// Tells it apart.
    pub id: String,
    /// When it was made.
    pub created_at: Time,
}

/// A webhook secret that was made. It is shown this once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MadeWebhookSecret {
    /// Tells it apart.
    pub id: String,
    /// `whsec_…`. Nobody can show it again.
    pub secret: String,
}

impl std::fmt::Debug for MadeWebhookSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MadeWebhookSecret({})", self.id)
    }
}

/// The answer to a change of a key or of a webhook secret: what it was, and whether it is there and on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyChanged {
    /// The access key, or the id of the secret.
    pub id: String,
    /// `enabled`, `disabled` or `deleted`.
    pub state: String,
}

/// One record of the audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    /// Counted from 0 within its kind; numbers without a record are of those that are no longer kept.
    pub number: u64,
    /// When it was committed.
    pub at: Time,
    /// The access key; of a refused call the one that it claimed.
    pub actor: String,
    /// What was done or asked for.
    pub action: String,
    /// On what.
    pub target: String,
    /// Of a change what else there is to say; of a refused call the code of the refusal.
    pub detail: String,
    /// Of several calls the last one.
    pub request_id: String,
    /// Where a refused call came from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// How many calls it stands for.
    pub count: u32,
}

/// The answer to `GET audit`: newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// The records.
    pub records: Vec<AuditRecord>,
    /// `before` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_before: Option<u64>,
    /// The log index up to which the answering replica had applied.
    pub applied_index: u64,
}
