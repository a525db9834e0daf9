//! The entries of the calls on callers, keys and the audit.

use orloj_wire::problem::Code;
use orloj_wire::rest::{
    AccessKeys, Audit, Caller, CallerChanged, Callers, KeyChanged, MAX_AUDIT_PAGE, MAX_PAGE, MadeKey,
    MadeWebhookSecret, NewKey, PutCaller, Renewed, Sealing,
};
use serde_json::{Value, json};

use super::call::Call;
use super::schema::Nothing;
use super::tasks::page_token;

const TAG: &str = "callers";
const CALLER: &str = "/openapi/v1/callers/{callerId}";
const KEY: &str = "ak_R7D2V6QMX4T1";
const MADE: &str = "2027-01-15T07:00:00.000Z";

/// The entries.
pub(super) fn calls() -> Vec<Call> {
    vec![
        list(),
        get(),
        put(),
        delete(),
        add_key(),
        add_webhook_secret(),
        delete_webhook_secret(),
        list_admin_keys(),
        add_admin_key(),
        change_key("/openapi/v1/keys/{accessKey}/enable", "Switch an access key on", "enabled"),
        change_key("/openapi/v1/keys/{accessKey}/disable", "Switch an access key off", "disabled"),
        delete_key(),
        audit(),
        sealing(),
        renew_sealing(),
    ]
}

fn list() -> Call {
    Call::new(TAG, "GET", "/openapi/v1/callers", "List callers, by name")
        .text("Those of the secrets file are not shown.")
        .query(
            "page_size",
            json!({ "type": "integer", "minimum": 1, "maximum": MAX_PAGE }),
            "How many, at most; 100 when absent.",
        )
        .query("page_token", page_token(), "`nextPageToken` of the page before.")
        .answers::<Callers>(
            200,
            "A page of the callers that were made through the API.",
            json!({ "callers": [caller()], "nextPageToken": "djEuMTIz" }),
        )
}

fn get() -> Call {
    Call::new(TAG, "GET", CALLER, "Show a caller")
        .answers::<Caller>(200, "The caller.", caller())
        .refuses(&[Code::NotFound])
}

fn put() -> Call {
    let changed = json!({ "callerId": "billing", "version": 2 });
    let made = json!({ "callerId": "billing", "version": 1 });
    let mut settings = settings();
    settings["expectedVersion"] = json!(1);
    Call::new(TAG, "PUT", CALLER, "Make a caller, or change its settings")
        .takes::<PutCaller>(settings)
        .answers::<CallerChanged>(200, "It was changed.", changed)
        .answers::<CallerChanged>(201, "It was made.", made)
        .refuses(&[Code::VersionConflict, Code::Conflict])
}

fn delete() -> Call {
    Call::new(TAG, "DELETE", CALLER, "Take a caller away, with its keys")
        .text("Its tasks stay.")
        .answers::<CallerChanged>(200, "It is gone.", json!({ "callerId": "billing", "version": null }))
        .refuses(&[Code::NotFound])
}

fn add_key() -> Call {
    Call::new(TAG, "POST", "/openapi/v1/callers/{callerId}/keys", "Make an access key of a caller")
        .text("Two may be enabled at a time, so that one takes the place of the other without a gap.")
        .may_take::<NewKey>(json!({ "description": "the new cluster" }))
        .answers::<MadeKey>(201, "The key. Its secret is shown this once.", made(KEY))
        .refuses(&[Code::NotFound, Code::Conflict])
}

fn add_webhook_secret() -> Call {
    Call::new(
        TAG,
        "POST",
        "/openapi/v1/callers/{callerId}/webhook-secrets",
        "Make a secret that signs a caller's callbacks",
    )
    .text("There may be two: every callback is signed with each.")
    .may_take::<Nothing>(json!({}))
    .answers::<MadeWebhookSecret>(
        201,
        "The secret. It is shown this once.",
        json!({ "id": "whs_5Q2D", "secret": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD" }),
    )
    .refuses(&[Code::NotFound, Code::Conflict])
}

fn delete_webhook_secret() -> Call {
    Call::new(
        TAG,
        "DELETE",
        "/openapi/v1/callers/{callerId}/webhook-secrets/{secretId}",
        "Take a webhook secret away",
    )
    .answers::<KeyChanged>(200, "It is gone.", json!({ "id": "whs_5Q2D", "state": "deleted" }))
    .refuses(&[Code::NotFound])
}

fn list_admin_keys() -> Call {
    let mut key = key("adk_9F3KQ0M2ZC7B");
    key["scopes"] = json!(["cluster", "callers", "audit"]);
    Call::new(TAG, "GET", "/openapi/v1/admin-keys", "List the keys of administrators")
        .text("Those of the secrets file are not shown.")
        .answers::<AccessKeys>(200, "Every key, without its secret.", json!({ "keys": [key] }))
}

fn add_admin_key() -> Call {
    Call::new(TAG, "POST", "/openapi/v1/admin-keys", "Make a key of an administrator")
        .may_take::<NewKey>(json!({ "description": "on call", "scopes": ["cluster"] }))
        .answers::<MadeKey>(201, "The key. Its secret is shown this once.", made("adk_9F3KQ0M2ZC7B"))
        .refuses(&[Code::Conflict])
}

fn change_key(path: &'static str, summary: &'static str, state: &str) -> Call {
    Call::new(TAG, "POST", path, summary)
        .text("From this answer on it holds on every replica.")
        .may_take::<Nothing>(json!({}))
        .answers::<KeyChanged>(200, "How it stands now.", json!({ "id": KEY, "state": state }))
        .refuses(&[Code::NotFound, Code::Conflict])
}

fn delete_key() -> Call {
    Call::new(TAG, "DELETE", "/openapi/v1/keys/{accessKey}", "Take an access key away")
        .answers::<KeyChanged>(200, "It is gone.", json!({ "id": KEY, "state": "deleted" }))
        .refuses(&[Code::NotFound])
}

fn audit() -> Call {
    let kinds = json!({ "type": "string", "enum": ["changes", "denied", "unsigned"] });
    let size = json!({ "type": "integer", "minimum": 1, "maximum": MAX_AUDIT_PAGE });
    Call::new(TAG, "GET", "/openapi/v1/audit", "Show what administrators changed, or which calls were refused")
        .query(
            "kind",
            kinds,
            "Which records; `changes` when absent. Of refused calls `denied` are those that were signed well, `unsigned` \
             those of which nobody knows who made them.",
        )
        .query("before", json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX }), "`nextBefore` of the page before.")
        .query("page_size", size, "How many, at most.")
        .answers::<Audit>(200, "A page, newest first.", json!({
            "records": [{
                "number": 17, "at": MADE, "actor": "adk_9F3KQ0M2ZC7B", "action": "put_caller",
                "target": "billing", "detail": "version 2", "requestId": "req_AAECAwQFBgcICQoLDA0ODw", "count": 1,
            }],
            "nextBefore": 17, "appliedIndex": 4711,
        }))
}

fn sealing() -> Call {
    Call::new(TAG, "GET", "/openapi/v1/sealing", "Show what seals the stored secrets, as one replica knows it")
        .text(
            "Each replica answers for itself, without asking the leader: one that misses a key could not check what \
             callers sign if it came to lead.",
        )
        .answers::<Sealing>(
            200,
            "Its keys, and how many secrets each kind of them seals.",
            json!({
                "replica": 2, "keys": ["9c1185a5c5e9fc54", "5f0c12de3a7b8841"], "current": 12, "older": 3,
                "unreadable": 0, "appliedIndex": 4711,
            }),
        )
}

fn renew_sealing() -> Call {
    Call::new(TAG, "POST", "/openapi/v1/sealing/renew", "Seal the stored secrets anew with the first sealing key")
        .text(
            "Of secrets that older sealing keys opened. Up to 1,024 in one call; as long as `remaining` is above 0, \
             call again. Until it is 0 on every replica, the older keys are needed.",
        )
        .may_take::<Nothing>(json!({}))
        .answers::<Renewed>(
            200,
            "What was done, and what is left.",
            json!({ "key": "9c1185a5c5e9fc54", "renewed": 3, "remaining": 0, "unreadable": 0 }),
        )
        .refuses(&[Code::Conflict])
}

fn settings() -> Value {
    json!({
        "enabled": true, "description": "invoices", "scopes": ["submit", "read", "cancel"], "handlers": ["invoice-*"],
        "callbackHosts": [{ "host": "hooks.example.com", "ports": [443] }],
        "limits": {
            "requestsPerS": 20.0, "requestsBurst": 20, "submitsPerS": 2.0, "submitsBurst": 2, "waiters": 10,
        },
        "maxRunning": 500,
    })
}

fn caller() -> Value {
    let mut caller = settings();
    let more = json!({
        "callerId": "billing", "version": 2, "keys": [key(KEY)],
        "webhookSecrets": [{ "id": "whs_5Q2D", "createdAt": MADE }], "createdAt": MADE, "updatedAt": MADE,
    });
    if let (Some(caller), Value::Object(more)) = (caller.as_object_mut(), more) {
        caller.extend(more);
    }
    caller
}

fn key(name: &str) -> Value {
    json!({ "accessKey": name, "enabled": true, "description": "the new cluster", "createdAt": MADE })
}

fn made(name: &str) -> Value {
    json!({ "accessKey": name, "secretKey": "sk_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG" })
}
