//! The paths of callers, keys and the audit.

use super::Operation;

/// A call of callers, keys or the audit. All of them are for administrators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessOperation {
    /// `GET callers`
    ListCallers,
    /// `GET callers/{id}`
    GetCaller(String),
    /// `PUT callers/{id}`
    PutCaller(String),
    /// `DELETE callers/{id}`
    DeleteCaller(String),
    /// `POST callers/{id}/keys`
    AddKey(String),
    /// `POST callers/{id}/webhook-secrets`
    AddWebhookSecret(String),
    /// `DELETE callers/{id}/webhook-secrets/{secret}`
    DeleteWebhookSecret(String, String),
    /// `GET admin-keys`
    ListAdminKeys,
    /// `POST admin-keys`
    AddAdminKey,
    /// `POST keys/{key}/enable`
    EnableKey(String),
    /// `POST keys/{key}/disable`
    DisableKey(String),
    /// `DELETE keys/{key}`
    DeleteKey(String),
    /// `GET audit`
    ListAudit,
    /// `GET sealing`
    ShowSealing,
    /// `POST sealing/renew`
    RenewSealing,
}

impl AccessOperation {
    /// Whether it changes something.
    pub fn changes(&self) -> bool {
        !matches!(
            self,
            AccessOperation::ListCallers
                | AccessOperation::GetCaller(_)
                | AccessOperation::ListAdminKeys
                | AccessOperation::ListAudit
                | AccessOperation::ShowSealing
        )
    }

    /// Its name in metrics, logs and the audit.
    pub fn name(&self) -> &'static str {
        match self {
            AccessOperation::ListCallers => "list_callers",
            AccessOperation::GetCaller(_) => "get_caller",
            AccessOperation::PutCaller(_) => "put_caller",
            AccessOperation::DeleteCaller(_) => "delete_caller",
            AccessOperation::AddKey(_) => "add_key",
            AccessOperation::AddWebhookSecret(_) => "add_webhook_secret",
            AccessOperation::DeleteWebhookSecret(..) => "delete_webhook_secret",
            AccessOperation::ListAdminKeys => "list_admin_keys",
            AccessOperation::AddAdminKey => "add_admin_key",
            AccessOperation::EnableKey(_) => "enable_key",
            AccessOperation::DisableKey(_) => "disable_key",
            AccessOperation::DeleteKey(_) => "delete_key",
            AccessOperation::ListAudit => "list_audit",
            AccessOperation::ShowSealing => "show_sealing",
            AccessOperation::RenewSealing => "renew_sealing",
        }
    }
}

/// The call that segments and a method name, or what methods the path takes; `None` for a path of others.
pub(super) fn find(method: &str, segments: &[&str]) -> Option<Result<Operation, &'static str>> {
    use AccessOperation as A;
    let owned = |id: &str| id.to_owned();
    let (allowed, found) = match (segments, method) {
        (["callers"], _) => ("GET", A::ListCallers),
        (["callers", id], "PUT") => ("GET, PUT, DELETE", A::PutCaller(owned(id))),
        (["callers", id], "DELETE") => ("GET, PUT, DELETE", A::DeleteCaller(owned(id))),
        (["callers", id], _) => ("GET, PUT, DELETE", A::GetCaller(owned(id))),
        (["callers", id, "keys"], _) => ("POST", A::AddKey(owned(id))),
        (["callers", id, "webhook-secrets"], _) => ("POST", A::AddWebhookSecret(owned(id))),
        (["callers", id, "webhook-secrets", secret], _) => {
            ("DELETE", A::DeleteWebhookSecret(owned(id), owned(secret)))
        }
        (["admin-keys"], "POST") => ("GET, POST", A::AddAdminKey),
        (["admin-keys"], _) => ("GET, POST", A::ListAdminKeys),
        (["keys", key, "enable"], _) => ("POST", A::EnableKey(owned(key))),
        (["keys", key, "disable"], _) => ("POST", A::DisableKey(owned(key))),
        (["keys", key], _) => ("DELETE", A::DeleteKey(owned(key))),
        (["audit"], _) => ("GET", A::ListAudit),
        (["sealing"], _) => ("GET", A::ShowSealing),
        (["sealing", "renew"], _) => ("POST", A::RenewSealing),
        _ => return None,
    };
    Some(match allowed.split(", ").any(|one| one == method) {
        true => Ok(Operation::Access(found)),
        false => Err(allowed),
    })
}
