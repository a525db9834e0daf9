//! The calls of administrators: callers, keys and the audit.

use orloj_wire::rest::{
    AccessKeys, Audit, Caller, CallerChanged, Callers, KeyChanged, MadeKey, MadeWebhookSecret, NewKey,
    PutCaller, Renewed, Sealing,
};

use crate::calls::{plain, segment};
use crate::error::Error;
use crate::send::{Call, Client};

/// The kinds of records in the audit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AuditKind {
    /// What administrators changed.
    #[default]
    Changes,
    /// Refused calls that were signed well.
    Denied,
    /// Refused calls of which nobody knows who made them.
    Unsigned,
}

/// Which records of the audit to read.
#[derive(Debug, Clone, Default)]
pub struct AuditQuery {
    /// Which.
    pub kind: AuditKind,
    /// Only those older than this number: `nextBefore` of the page before.
    pub before: Option<u64>,
    /// At most so many, 1-500; by default 100.
    pub page_size: Option<usize>,
}

/// Which callers to list.
#[derive(Debug, Clone, Default)]
pub struct CallersQuery {
    /// At most so many, 1-100; by default 100.
    pub page_size: Option<usize>,
    /// `nextPageToken` of the page before.
    pub page_token: Option<String>,
}

impl Client {
    /// A page of the callers that were made through the API, by name.
    pub async fn callers(&self, query: &CallersQuery) -> Result<Callers, Error> {
        let mut call = Call::get("/openapi/v1/callers".to_owned());
        if let Some(size) = query.page_size {
            call = call.with("page_size", size);
        }
        if let Some(token) = &query.page_token {
            call = call.with("page_token", plain("page token", token)?);
        }
        self.send(call).await
    }

    /// One caller.
    pub async fn caller(&self, id: &str) -> Result<Caller, Error> {
        self.send(Call::get(caller_path(id, "")?)).await
    }

    /// Makes or changes a caller.
    pub async fn put_caller(&self, id: &str, settings: &PutCaller) -> Result<CallerChanged, Error> {
        self.send(Call::put(caller_path(id, "")?).with_body(settings)).await
    }

    /// Takes a caller away with its keys. Its tasks stay.
    pub async fn delete_caller(&self, id: &str) -> Result<CallerChanged, Error> {
        self.send(Call::delete(caller_path(id, "")?)).await
    }

    /// Makes a key of a caller. Its secret is shown this once. When the answer is lost the call is not repeated, and there
    /// may be a key that nobody has the secret of: [`caller`](Client::caller) shows it,
    /// [`delete_key`](Client::delete_key) takes it away. The same holds for the other calls that make secrets.
    pub async fn add_key(&self, caller: &str, key: &NewKey) -> Result<MadeKey, Error> {
        self.send(Call::post(caller_path(caller, "/keys")?).with_body(key).once()).await
    }

    /// The keys of administrators that were made through the API.
    pub async fn admin_keys(&self) -> Result<AccessKeys, Error> {
        self.send(Call::get("/openapi/v1/admin-keys".to_owned())).await
    }

    /// Makes an administrator's key. Its secret is shown this once.
    pub async fn add_admin_key(&self, key: &NewKey) -> Result<MadeKey, Error> {
        self.send(Call::post("/openapi/v1/admin-keys".to_owned()).with_body(key).once()).await
    }

    /// Switches a key on or off.
    pub async fn set_key(&self, access_key: &str, enabled: bool) -> Result<KeyChanged, Error> {
        let end = if enabled { "/enable" } else { "/disable" };
        self.send(Call::post(key_path(access_key, end)?)).await
    }

    /// Takes a key away.
    pub async fn delete_key(&self, access_key: &str) -> Result<KeyChanged, Error> {
        self.send(Call::delete(key_path(access_key, "")?)).await
    }

    /// Makes a secret that signs a caller's callbacks. It is shown this once.
    pub async fn add_webhook_secret(&self, caller: &str) -> Result<MadeWebhookSecret, Error> {
        self.send(Call::post(caller_path(caller, "/webhook-secrets")?).once()).await
    }

    /// Takes a secret away.
    pub async fn delete_webhook_secret(&self, caller: &str, id: &str) -> Result<KeyChanged, Error> {
        let end = format!("/webhook-secrets/{}", segment("webhook secret", id)?);
        self.send(Call::delete(caller_path(caller, &end)?)).await
    }

    /// What seals the stored secrets, as the replica that answers knows it.
    pub async fn sealing(&self) -> Result<Sealing, Error> {
        self.send(Call::get("/openapi/v1/sealing".to_owned())).await
    }

    /// Seals stored secrets anew with the leader's first sealing key. To be called until nothing remains.
    pub async fn renew_sealing(&self) -> Result<Renewed, Error> {
        self.send(Call::post("/openapi/v1/sealing/renew".to_owned())).await
    }

    /// A page of the audit, newest first.
    pub async fn audit(&self, query: &AuditQuery) -> Result<Audit, Error> {
        let kind = match query.kind {
            AuditKind::Changes => "changes",
            AuditKind::Denied => "denied",
            AuditKind::Unsigned => "unsigned",
        };
        let mut call = Call::get("/openapi/v1/audit".to_owned()).with("kind", plain("kind", kind)?);
        if let Some(before) = query.before {
            call = call.with("before", before);
        }
        if let Some(size) = query.page_size {
            call = call.with("page_size", size);
        }
        self.send(call).await
    }
}

fn caller_path(id: &str, rest: &str) -> Result<String, Error> {
    Ok(format!("/openapi/v1/callers/{}{rest}", segment("caller", id)?))
}

fn key_path(key: &str, rest: &str) -> Result<String, Error> {
    Ok(format!("/openapi/v1/keys/{}{rest}", segment("access key", key)?))
}
