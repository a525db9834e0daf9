//! Callers, their keys and secrets: made, changed and taken away by administrators.

use std::collections::BTreeSet;

use orloj_model::access::{
    AccessKeyRow, Actor, CallbackHost, CallerLimits, CallerSettings, KeyLimits, KeyOwner, Scope as KeyScope,
};
use orloj_model::command::{AccessCommand, Command};
use orloj_model::id::CallerId;
use orloj_model::query::CallerView;
use orloj_model::{Refusal, Reply};
use orloj_raft_store::Applied;
use orloj_wire::callback::{HostEntry, WebhookSecret};
use orloj_wire::problem::{Code, FieldError};
use orloj_wire::rest::{
    self, AccessKey, AccessKeys, Caller, CallerChanged, Callers, KeyChanged, MAX_PAGE, MadeKey,
    MadeWebhookSecret, NewKey, PutCaller, WebhookSecretInfo,
};
use orloj_wire::sign::base64url;
use orloj_wire::time::Time;
use serde::Deserialize;

use super::{Call, unexpected};
use crate::keyring::is_access_key;
use crate::outcome::{Answer, Failure};
use crate::page::Scope;
use crate::route::AccessOperation;
use crate::seal::{SealError, of_key, of_webhook};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl Call<'_> {
    /// Makes a call of callers, keys or the audit.
    pub(super) async fn access(&self, operation: &AccessOperation) -> Result<Answer, Failure> {
        match operation {
            AccessOperation::ListCallers => self.list_callers().await,
            AccessOperation::GetCaller(id) => self.get_caller(id).await,
            AccessOperation::PutCaller(id) => self.put_caller(id).await,
            AccessOperation::DeleteCaller(id) => self.delete_caller(id).await,
            AccessOperation::AddKey(id) => self.add_key(Some(id)).await,
            AccessOperation::AddWebhookSecret(id) => self.add_webhook_secret(id).await,
            AccessOperation::DeleteWebhookSecret(id, secret) => self.delete_webhook_secret(id, secret).await,
            AccessOperation::ListAdminKeys => self.list_admin_keys().await,
            AccessOperation::AddAdminKey => self.add_key(None).await,
            AccessOperation::EnableKey(key) => self.set_key(key, true).await,
            AccessOperation::DisableKey(key) => self.set_key(key, false).await,
            AccessOperation::DeleteKey(key) => self.delete_key(key).await,
            AccessOperation::ListAudit => self.list_audit().await,
            AccessOperation::ShowSealing => self.show_sealing(),
            AccessOperation::RenewSealing => self.renew_sealing().await,
        }
    }

    async fn list_callers(&self) -> Result<Answer, Failure> {
        let mut parameters = self.request.parameters()?;
        let limit = parameters.number("page_size", 1, MAX_PAGE as u64)?.unwrap_or(MAX_PAGE as u64) as usize;
        let token = parameters.text("page_token");
        parameters.finish()?;
        let (scope, now) = (Scope { caller: "", filters: "callers" }, self.wall_ms());
        let after = token.map(|token| self.shared.tokens.open_text(scope, token, now)).transpose()?;
        let foreign = |_| Failure::new(Code::InvalidQuery, "page_token: is not a token of this list");
        let after = after.map(CallerId::new).transpose().map_err(foreign)?;
        self.shared.backend.barrier().await?;
        // One more than asked for tells whether another page follows.
        let mut callers = self.shared.backend.callers(after.as_ref(), limit + 1)?;
        let more = callers.len() > limit;
        callers.truncate(limit);
        let next = callers.last().filter(|_| more).map(|last| last.id.as_str());
        let body = Callers {
            next_page_token: next.map(|id| self.shared.tokens.seal_text(scope, id, now)),
            callers: callers.iter().map(caller).collect(),
        };
        Ok(Answer::json(200, &body))
    }

    async fn get_caller(&self, id: &str) -> Result<Answer, Failure> {
        self.no_parameters()?;
        self.shared.backend.barrier().await?;
        let found = CallerId::new(id).ok().map(|id| self.shared.backend.caller(&id)).transpose()?.flatten();
        let found = found.ok_or_else(|| Failure::from(Refusal::CallerNotFound))?;
        Ok(Answer::json(200, &caller(&found)))
    }

    async fn put_caller(&self, id: &str) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let body: PutCaller = self.body()?;
        let caller = caller_id(id)?;
        let faults = body.faults();
        if !faults.is_empty() {
            return Err(Failure::fields(Code::ValidationFailed, faults));
        }
        if self.shared.directory.is_in_the_file(&caller) {
            let detail = format!("caller {id:?} stands in the secrets file of the replicas: change it there");
            return Err(Failure::new(Code::Conflict, detail));
        }
        let (expected, limits, settings) = (body.expected_version, limits(&body), settings(body));
        let by = self.actor();
        let command = match limits {
            Some(limits) => AccessCommand::PutLimited { caller, expected, settings, limits, by },
            None => AccessCommand::PutCaller { caller, expected, settings, by },
        };
        let reply = self.change(command).await?;
        let Reply::Caller { version } = reply else { return Err(unexpected(&reply)) };
        let status = if version == 1 { 201 } else { 200 };
        Ok(Answer::json(status, &CallerChanged { caller_id: id.to_owned(), version: Some(version) }))
    }

    async fn delete_caller(&self, id: &str) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let (caller, by) = (caller_id(id)?, self.actor());
        self.change(AccessCommand::DeleteCaller { caller, by }).await?;
        Ok(Answer::json(200, &CallerChanged { caller_id: id.to_owned(), version: None }))
    }

    async fn list_admin_keys(&self) -> Result<Answer, Failure> {
        self.no_parameters()?;
        self.shared.backend.barrier().await?;
        let admins = self.shared.backend.admin_keys()?;
        let keys = admins.iter().map(|(name, row)| access_key(name, row)).collect();
        Ok(Answer::json(200, &AccessKeys { keys }))
    }

    async fn add_key(&self, caller: Option<&str>) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let body: NewKey = self.optional_body()?;
        let faults = body.faults(caller.is_none());
        if !faults.is_empty() {
            return Err(Failure::fields(Code::ValidationFailed, faults));
        }
        let (owner, prefixes) = match caller {
            Some(id) => (KeyOwner::Caller(caller_id(id)?), ("ak_", "sk_")),
            None => {
                let scopes: BTreeSet<_> =
                    body.admin_scopes().iter().filter_map(|name| KeyScope::from_name(name)).collect();
                self.may_give(&scopes)?;
                (KeyOwner::Admin { scopes }, ("adk_", "ads_"))
            }
        };
        let made = MadeKey {
            access_key: format!("{}{}", prefixes.0, base32(&self.random::<20>())),
            secret_key: format!("{}{}", prefixes.1, base64url(&self.random::<32>())),
        };
        let sealed = self.seal(&of_key(&made.access_key), &made.secret_key)?;
        let (key, description, by) = (made.access_key.clone(), body.description, self.actor());
        self.change(AccessCommand::AddKey { key, owner, sealed, description, by }).await?;
        Ok(Answer::json(201, &made))
    }

    /// Refuses to hand on what the key of the request has not itself.
    fn may_give(&self, scopes: &BTreeSet<KeyScope>) -> Result<(), Failure> {
        match scopes.difference(&self.key.rights.scopes).next() {
            None => Ok(()),
            Some(scope) => {
                let detail = format!("this access key has no scope {:?}", scope.name());
                Err(Failure::new(Code::ScopeDenied, detail))
            }
        }
    }

    /// Refuses to touch an administrator's key that may do more than the key of the request.
    async fn may_touch(&self, key: &str) -> Result<(), Failure> {
        self.shared.backend.barrier().await?;
        match self.shared.backend.access_key(key)?.map(|row| row.owner) {
            Some(KeyOwner::Admin { scopes }) => self.may_give(&scopes),
            _ => Ok(()),
        }
    }

    async fn set_key(&self, key: &str, enabled: bool) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let Nothing {} = self.optional_body()?;
        let (id, by) = (key_name(key)?, self.actor());
        self.may_touch(&id).await?;
        self.change(AccessCommand::SetKey { key: id.clone(), enabled, by }).await?;
        let state = if enabled { "enabled" } else { "disabled" }.to_owned();
        Ok(Answer::json(200, &KeyChanged { id, state }))
    }

    async fn delete_key(&self, key: &str) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let (id, by) = (key_name(key)?, self.actor());
        self.may_touch(&id).await?;
        self.change(AccessCommand::DeleteKey { key: id.clone(), by }).await?;
        Ok(Answer::json(200, &KeyChanged { id, state: "deleted".to_owned() }))
    }

    async fn add_webhook_secret(&self, caller: &str) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let Nothing {} = self.optional_body()?;
        let secret = WebhookSecret::of(self.random());
        let made = MadeWebhookSecret {
            id: format!("whs_{}", base32(&self.random::<10>())),
            secret: secret.expose(),
        };
        let sealed = self.seal(&of_webhook(caller, &made.id), &made.secret)?;
        let (caller, id, by) = (caller_id(caller)?, made.id.clone(), self.actor());
        self.change(AccessCommand::AddWebhookSecret { caller, id, sealed, by }).await?;
        Ok(Answer::json(201, &made))
    }

    async fn delete_webhook_secret(&self, caller: &str, id: &str) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let (caller, id, by) = (caller_id(caller)?, id.to_owned(), self.actor());
        self.change(AccessCommand::DeleteWebhookSecret { caller, id: id.clone(), by }).await?;
        Ok(Answer::json(200, &KeyChanged { id, state: "deleted".to_owned() }))
    }

    /// Who asks, with the nonce of the request.
    pub(super) fn actor(&self) -> Actor {
        Actor {
            access_key: self.request.credentials.access_key.clone(),
            request_id: self.request.request_id.clone(),
            claim: Some(self.claim()),
        }
    }

    pub(super) async fn change(&self, command: AccessCommand) -> Result<Reply, Failure> {
        let Applied { reply, .. } = self.propose(Command::Access(Box::new(command))).await?;
        match reply {
            Reply::Refused(refusal) => Err(refusal.into()),
            reply => Ok(reply),
        }
    }

    fn seal(&self, of: &str, secret: &str) -> Result<Vec<u8>, Failure> {
        self.shared.directory.sealer().seal(of, secret).map_err(|error| match error {
            SealError::NoKey => no_key(&error),
            _ => Failure::internal("a secret cannot be sealed", &error),
        })
    }

    fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.shared.random.fill(&mut bytes);
        bytes
    }
}

/// The replicas have no sealing key.
pub(super) fn no_key(error: &SealError) -> Failure {
    Failure::new(Code::Conflict, error.to_string())
}

/// One character of 32 for each byte.
fn base32(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    bytes.iter().map(|byte| ALPHABET[usize::from(byte & 31)] as char).collect()
}

fn caller_id(text: &str) -> Result<CallerId, Failure> {
    CallerId::new(text).map_err(|error| {
        Failure::fields(
            Code::ValidationFailed,
            vec![FieldError::new("callerId", format!("{text:?}: {error}"))],
        )
    })
}

fn key_name(text: &str) -> Result<String, Failure> {
    match is_access_key(text) {
        true => Ok(text.to_owned()),
        false => Err(Refusal::AccessKeyNotFound.into()),
    }
}

/// How much of a caller's work runs; `None` where there is no limit.
fn limits(body: &PutCaller) -> Option<CallerLimits> {
    let most = body.max_running?;
    Some(CallerLimits { max_running: u32::try_from(most).unwrap_or(u32::MAX) })
}

fn settings(body: PutCaller) -> CallerSettings {
    let host = |entry: HostEntry| CallbackHost {
        host: entry.host,
        ports: entry.ports,
        plain_http: entry.plain_http,
        allow_cidrs: entry.allow_cidrs,
    };
    let per_1000s = |rate: f64| (rate * 1000.0).round() as u64;
    CallerSettings {
        enabled: body.enabled,
        description: body.description,
        scopes: body.scopes.iter().filter_map(|name| KeyScope::from_name(name)).collect(),
        handlers: body.handlers,
        callback_hosts: body.callback_hosts.into_iter().map(host).collect(),
        limits: KeyLimits {
            requests_per_1000s: per_1000s(body.limits.requests_per_s),
            requests_burst: body.limits.requests_burst,
            submits_per_1000s: per_1000s(body.limits.submits_per_s),
            submits_burst: body.limits.submits_burst,
            waiters: body.limits.waiters,
        },
    }
}

fn names(scopes: &BTreeSet<KeyScope>) -> Vec<String> {
    scopes.iter().map(|scope| scope.name().to_owned()).collect()
}

fn access_key(name: &str, row: &AccessKeyRow) -> AccessKey {
    AccessKey {
        access_key: name.to_owned(),
        enabled: row.enabled,
        description: row.description.clone(),
        scopes: match &row.owner {
            KeyOwner::Caller(_) => Vec::new(),
            KeyOwner::Admin { scopes } => names(scopes),
        },
        created_at: Time(row.created_at),
    }
}

fn caller(view: &CallerView) -> Caller {
    let CallerView { id, row, limits, keys } = view;
    let settings = &row.settings;
    let host = |host: &CallbackHost| HostEntry {
        host: host.host.clone(),
        ports: host.ports.clone(),
        plain_http: host.plain_http,
        allow_cidrs: host.allow_cidrs.clone(),
    };
    Caller {
        caller_id: id.to_string(),
        version: row.version,
        enabled: settings.enabled,
        description: settings.description.clone(),
        scopes: names(&settings.scopes),
        handlers: settings.handlers.clone(),
        callback_hosts: settings.callback_hosts.iter().map(host).collect(),
        limits: rest::KeyLimits {
            requests_per_s: settings.limits.requests_per_1000s as f64 / 1000.0,
            requests_burst: settings.limits.requests_burst,
            submits_per_s: settings.limits.submits_per_1000s as f64 / 1000.0,
            submits_burst: settings.limits.submits_burst,
            waiters: settings.limits.waiters,
        },
        max_running: limits.map(|limits| u64::from(limits.max_running)),
        keys: keys.iter().map(|(name, row)| access_key(name, row)).collect(),
        webhook_secrets: row
            .webhook_secrets
            .iter()
            .map(|secret| WebhookSecretInfo { id: secret.id.clone(), created_at: Time(secret.created_at) })
            .collect(),
        created_at: Time(row.created_at),
        updated_at: Time(row.updated_at),
    }
}
