//! Callers, keys and the audit.

use crate::access::{
    AUDIT_KEPT, AUDIT_TEXT, AccessKeyRow, AccessMeta, Actor, AuditKind, AuditRow, CallerLimits, CallerRow,
    CallerSettings, DENIALS_PER_COMMAND, Denial, KeyOwner, MAX_CALLERS, MAX_ENABLED_KEYS, MAX_KEYS,
    MAX_WEBHOOK_SECRETS, RESEALED_PER_COMMAND, Resealed, SEALED_LIMIT, SealedOf, SealedSecret,
};
use crate::apply::context::Context;
use crate::apply::nonce::spend;
use crate::command::{AccessCommand, Refusal, Reply};
use crate::event::Event;
use crate::id::CallerId;
use crate::key::{AccessKeyName, AuditKey, OwnerKey, Single};
use crate::query;
use crate::schema::{
    AccessKeyTable, AccessMetaTable, AuditTable, CallerLimitsTable, CallerTable, GoneVersionsTable,
    OwnerKeysTable,
};
use crate::tables::{ReadExt as _, Write, WriteExt as _};

pub(crate) fn route<T: Write>(cx: &mut Context<'_, T>, command: &AccessCommand) -> Result<Reply, T::Error> {
    // Whatever is known of keys may be otherwise behind it.
    cx.judged = None;
    let by = match command {
        AccessCommand::Denied { denials } => return denied(cx, denials),
        AccessCommand::Unsigned { denials } => return unsigned(cx, denials),
        AccessCommand::Reseal { secrets } => return reseal(cx, secrets),
        AccessCommand::PutCaller { by, .. }
        | AccessCommand::PutLimited { by, .. }
        | AccessCommand::DeleteCaller { by, .. }
        | AccessCommand::AddKey { by, .. }
        | AccessCommand::SetKey { by, .. }
        | AccessCommand::DeleteKey { by, .. }
        | AccessCommand::AddWebhookSecret { by, .. }
        | AccessCommand::DeleteWebhookSecret { by, .. }
        | AccessCommand::Admit { by, .. } => by,
    };
    if let Some(refusal) = spend(cx, by.claim.as_ref())? {
        return Ok(Reply::Refused(refusal));
    }
    let mut meta = cx.tables.get::<AccessMetaTable>(&Single)?.unwrap_or_default();
    let done = match change(cx, &mut meta, command)? {
        Ok(done) => done,
        Err(refusal) => return Ok(Reply::Refused(refusal)),
    };
    if done.changes_access {
        meta.revision += 1;
    }
    let [next, _] = &mut meta.next_audit;
    record(cx, AuditKind::Change, next, audit_of(by, &done))?;
    cx.tables.put::<AccessMetaTable>(&Single, &meta)?;
    Ok(done.reply)
}

/// A change that took effect, in words for its record.
struct Done {
    reply: Reply,
    action: String,
    target: String,
    detail: String,
    changes_access: bool,
}

impl Done {
    fn new(action: &str, target: &str, detail: impl Into<String>) -> Self {
        let (action, target) = (action.to_owned(), target.to_owned());
        Done { reply: Reply::Done, action, target, detail: detail.into(), changes_access: true }
    }
}

type Changed<T> = Result<Result<Done, Refusal>, <T as crate::tables::Read>::Error>;

fn change<T: Write>(cx: &mut Context<'_, T>, meta: &mut AccessMeta, command: &AccessCommand) -> Changed<T> {
    match command {
        AccessCommand::PutCaller { caller, expected, settings, .. } => {
            put_caller(cx, meta, caller, (*expected, settings), None)
        }
        AccessCommand::PutLimited { caller, expected, settings, limits, .. } => {
            put_caller(cx, meta, caller, (*expected, settings), Some(*limits))
        }
        AccessCommand::DeleteCaller { caller, .. } => delete_caller(cx, meta, caller),
        AccessCommand::AddKey { key, owner, sealed, description, .. } => {
            let row = AccessKeyRow {
                owner: owner.clone(),
                sealed: sealed.clone(),
                enabled: true,
                description: description.clone(),
                created_at: cx.now(),
            };
            add_key(cx, key, row)
        }
        AccessCommand::SetKey { key, enabled, .. } => set_key(cx, key, *enabled),
        AccessCommand::DeleteKey { key, .. } => delete_key(cx, key),
        AccessCommand::AddWebhookSecret { caller, id, sealed, .. } => {
            let created_at = cx.now();
            add_secret(cx, caller, SealedSecret { id: id.clone(), sealed: sealed.clone(), created_at })
        }
        AccessCommand::DeleteWebhookSecret { caller, id, .. } => delete_secret(cx, caller, id),
        AccessCommand::Admit { action, target, .. } => {
            Ok(Ok(Done { changes_access: false, ..Done::new(action, target, "") }))
        }
        AccessCommand::Denied { .. } | AccessCommand::Unsigned { .. } | AccessCommand::Reseal { .. } => {
            Ok(Err(Refusal::Invalid))
        }
    }
}

fn put_caller<T: Write>(
    cx: &mut Context<'_, T>,
    meta: &mut AccessMeta,
    caller: &CallerId,
    (expected, settings): (Option<u64>, &CallerSettings),
    limits: Option<CallerLimits>,
) -> Changed<T> {
    if limits.is_some_and(|limits| limits.max_running == 0) {
        return Ok(Err(Refusal::Invalid));
    }
    let old = cx.tables.get::<CallerTable>(caller)?;
    let current = old.as_ref().map_or(0, |row| row.version);
    if expected.is_some_and(|expected| expected != current) {
        return Ok(Err(Refusal::VersionMismatch { current }));
    }
    let now = cx.now();
    let row = match old {
        Some(row) => CallerRow { version: current + 1, settings: settings.clone(), updated_at: now, ..row },
        None if meta.callers >= MAX_CALLERS => return Ok(Err(Refusal::TooManyCallers)),
        None => {
            meta.callers += 1;
            let settings = settings.clone();
            CallerRow { version: 1, settings, webhook_secrets: Vec::new(), created_at: now, updated_at: now }
        }
    };
    cx.tables.put::<CallerTable>(caller, &row)?;
    set_limits(cx, caller, limits)?;
    let action = if row.version == 1 { "create_caller" } else { "change_caller" };
    let mut done = Done::new(action, caller.as_str(), format!("version {}", row.version));
    done.reply = Reply::Caller { version: row.version };
    Ok(Ok(done))
}

/// Writes down how much of a caller's work runs, and tells of it where that is something else than before.
fn set_limits<T: Write>(
    cx: &mut Context<'_, T>,
    caller: &CallerId,
    limits: Option<CallerLimits>,
) -> Result<(), T::Error> {
    if cx.tables.get::<CallerLimitsTable>(caller)? == limits {
        return Ok(());
    }
    match &limits {
        Some(limits) => cx.tables.put::<CallerLimitsTable>(caller, limits)?,
        None => cx.tables.delete::<CallerLimitsTable>(caller)?,
    }
    let max_running = limits.map(|limits| limits.max_running);
    cx.events.push(Event::CallerLimit { caller: caller.clone(), max_running });
    Ok(())
}

fn delete_caller<T: Write>(cx: &mut Context<'_, T>, meta: &mut AccessMeta, caller: &CallerId) -> Changed<T> {
    if !cx.tables.has::<CallerTable>(caller)? {
        return Ok(Err(Refusal::CallerNotFound));
    }
    // They would go on firing in the name of nobody, or of the next one who is called so.
    if !query::jobs_of(cx.tables, caller, None, 1)?.is_empty() {
        return Ok(Err(Refusal::CallerHasJobs));
    }
    let keys = query::keys_of(cx.tables, caller.as_str())?;
    for key in &keys {
        cx.tables.delete::<AccessKeyTable>(&AccessKeyName(key.clone()))?;
        let owner = caller.as_str().to_owned();
        cx.tables.delete::<OwnerKeysTable>(&OwnerKey { owner, key: key.clone() })?;
    }
    cx.tables.delete::<CallerTable>(caller)?;
    set_limits(cx, caller, None)?;
    // Nobody's key is left who could hold a version of what it had.
    if cx.tables.has::<GoneVersionsTable>(caller)? {
        cx.tables.delete::<GoneVersionsTable>(caller)?;
    }
    meta.callers = meta.callers.saturating_sub(1);
    Ok(Ok(Done::new("delete_caller", caller.as_str(), format!("with {} keys", keys.len()))))
}

fn add_key<T: Write>(cx: &mut Context<'_, T>, key: &str, row: AccessKeyRow) -> Changed<T> {
    if row.sealed.len() > SEALED_LIMIT {
        return Ok(Err(Refusal::Invalid));
    }
    if let KeyOwner::Caller(caller) = &row.owner
        && !cx.tables.has::<CallerTable>(caller)?
    {
        return Ok(Err(Refusal::CallerNotFound));
    }
    let name = AccessKeyName(key.to_owned());
    if cx.tables.has::<AccessKeyTable>(&name)? {
        return Ok(Err(Refusal::AccessKeyExists));
    }
    let owner = row.owner.index_text().to_owned();
    if !has_room(cx, &row.owner, None)? || query::keys_of(cx.tables, &owner)?.len() >= MAX_KEYS {
        return Ok(Err(Refusal::TooManyKeys));
    }
    cx.tables.put::<AccessKeyTable>(&name, &row)?;
    cx.tables.put::<OwnerKeysTable>(&OwnerKey { owner: owner.clone(), key: key.to_owned() }, &())?;
    Ok(Ok(Done::new("create_key", key, owner_text(&owner))))
}

/// Whether an owner may have one more enabled key, beside `but`.
fn has_room<T: Write>(cx: &Context<'_, T>, owner: &KeyOwner, but: Option<&str>) -> Result<bool, T::Error> {
    if matches!(owner, KeyOwner::Admin { .. }) {
        return Ok(true);
    }
    let mut enabled = 0;
    for key in query::keys_of(cx.tables, owner.index_text())? {
        let row = cx.tables.get::<AccessKeyTable>(&AccessKeyName(key.clone()))?;
        enabled += usize::from(row.is_some_and(|row| row.enabled) && but != Some(key.as_str()));
    }
    Ok(enabled < MAX_ENABLED_KEYS)
}

fn owner_text(owner: &str) -> String {
    if owner.is_empty() { "of administrators".to_owned() } else { format!("of caller {owner}") }
}

fn set_key<T: Write>(cx: &mut Context<'_, T>, key: &str, enabled: bool) -> Changed<T> {
    let name = AccessKeyName(key.to_owned());
    let Some(mut row) = cx.tables.get::<AccessKeyTable>(&name)? else {
        return Ok(Err(Refusal::AccessKeyNotFound));
    };
    if enabled && !has_room(cx, &row.owner, Some(key))? {
        return Ok(Err(Refusal::TooManyKeys));
    }
    row.enabled = enabled;
    cx.tables.put::<AccessKeyTable>(&name, &row)?;
    let action = if enabled { "enable_key" } else { "disable_key" };
    Ok(Ok(Done::new(action, key, owner_text(row.owner.index_text()))))
}

fn delete_key<T: Write>(cx: &mut Context<'_, T>, key: &str) -> Changed<T> {
    let name = AccessKeyName(key.to_owned());
    let Some(row) = cx.tables.get::<AccessKeyTable>(&name)? else {
        return Ok(Err(Refusal::AccessKeyNotFound));
    };
    let owner = row.owner.index_text().to_owned();
    cx.tables.delete::<AccessKeyTable>(&name)?;
    cx.tables.delete::<OwnerKeysTable>(&OwnerKey { owner: owner.clone(), key: key.to_owned() })?;
    Ok(Ok(Done::new("delete_key", key, owner_text(&owner))))
}

fn add_secret<T: Write>(cx: &mut Context<'_, T>, caller: &CallerId, secret: SealedSecret) -> Changed<T> {
    let Some(mut row) = cx.tables.get::<CallerTable>(caller)? else {
        return Ok(Err(Refusal::CallerNotFound));
    };
    let known = row.webhook_secrets.iter().any(|known| known.id == secret.id);
    if known || secret.sealed.len() > SEALED_LIMIT {
        return Ok(Err(Refusal::Invalid));
    }
    if row.webhook_secrets.len() >= MAX_WEBHOOK_SECRETS {
        return Ok(Err(Refusal::TooManyKeys));
    }
    let id = secret.id.clone();
    row.webhook_secrets.push(secret);
    cx.tables.put::<CallerTable>(caller, &row)?;
    Ok(Ok(Done::new("create_webhook_secret", caller.as_str(), id)))
}

fn delete_secret<T: Write>(cx: &mut Context<'_, T>, caller: &CallerId, id: &str) -> Changed<T> {
    let Some(mut row) = cx.tables.get::<CallerTable>(caller)? else {
        return Ok(Err(Refusal::CallerNotFound));
    };
    let before = row.webhook_secrets.len();
    row.webhook_secrets.retain(|secret| secret.id != id);
    if row.webhook_secrets.len() == before {
        return Ok(Err(Refusal::WebhookSecretNotFound));
    }
    cx.tables.put::<CallerTable>(caller, &row)?;
    Ok(Ok(Done::new("delete_webhook_secret", caller.as_str(), id)))
}

fn denied<T: Write>(cx: &mut Context<'_, T>, denials: &[Denial]) -> Result<Reply, T::Error> {
    if denials.len() > DENIALS_PER_COMMAND {
        return Ok(Reply::Refused(Refusal::Invalid));
    }
    let mut meta = cx.tables.get::<AccessMetaTable>(&Single)?.unwrap_or_default();
    let [_, next] = &mut meta.next_audit;
    for denial in denials {
        record(cx, AuditKind::Denied, next, row_of(denial))?;
    }
    cx.tables.put::<AccessMetaTable>(&Single, &meta)?;
    Ok(Reply::Done)
}

/// The same of calls of which nobody knows who made them.
fn unsigned<T: Write>(cx: &mut Context<'_, T>, denials: &[Denial]) -> Result<Reply, T::Error> {
    if denials.len() > DENIALS_PER_COMMAND {
        return Ok(Reply::Refused(Refusal::Invalid));
    }
    let mut next = query::next_unsigned(cx.tables)?;
    for denial in denials {
        record(cx, AuditKind::Unsigned, &mut next, row_of(denial))?;
    }
    Ok(Reply::Done)
}

fn row_of(denial: &Denial) -> AuditRow {
    AuditRow {
        at: 0,
        actor: denial.access_key.clone(),
        action: denial.action.clone(),
        target: String::new(),
        detail: denial.code.clone(),
        request_id: denial.request_id.clone(),
        address: denial.address.clone(),
        count: denial.count,
    }
}

/// Puts secrets that were sealed anew in the place of what they were. Whoever reads them has to read them again.
fn reseal<T: Write>(cx: &mut Context<'_, T>, secrets: &[Resealed]) -> Result<Reply, T::Error> {
    if secrets.len() > RESEALED_PER_COMMAND || secrets.iter().any(|one| one.sealed.len() > SEALED_LIMIT) {
        return Ok(Reply::Refused(Refusal::Invalid));
    }
    let mut changed = false;
    for Resealed { of, before, sealed } in secrets {
        changed |= match of {
            SealedOf::Key(key) => reseal_key(cx, key, before, sealed)?,
            SealedOf::Webhook { caller, id } => reseal_webhook(cx, (caller, id.as_str()), before, sealed)?,
        };
    }
    if changed {
        let mut meta = cx.tables.get::<AccessMetaTable>(&Single)?.unwrap_or_default();
        meta.revision += 1;
        cx.tables.put::<AccessMetaTable>(&Single, &meta)?;
    }
    Ok(Reply::Done)
}

fn reseal_key<T: Write>(
    cx: &mut Context<'_, T>,
    key: &str,
    before: &[u8],
    sealed: &[u8],
) -> Result<bool, T::Error> {
    let name = AccessKeyName(key.to_owned());
    let Some(mut row) = cx.tables.get::<AccessKeyTable>(&name)?.filter(|row| row.sealed == before) else {
        return Ok(false);
    };
    row.sealed = sealed.to_owned();
    cx.tables.put::<AccessKeyTable>(&name, &row)?;
    Ok(true)
}

fn reseal_webhook<T: Write>(
    cx: &mut Context<'_, T>,
    (caller, id): (&CallerId, &str),
    before: &[u8],
    sealed: &[u8],
) -> Result<bool, T::Error> {
    let Some(mut row) = cx.tables.get::<CallerTable>(caller)? else { return Ok(false) };
    let known = row.webhook_secrets.iter_mut().find(|known| known.id == *id && known.sealed == before);
    let Some(known) = known else { return Ok(false) };
    known.sealed = sealed.to_owned();
    cx.tables.put::<CallerTable>(caller, &row)?;
    Ok(true)
}

fn audit_of(by: &Actor, done: &Done) -> AuditRow {
    AuditRow {
        at: 0,
        actor: by.access_key.clone(),
        action: done.action.clone(),
        target: done.target.clone(),
        detail: done.detail.clone(),
        request_id: by.request_id.clone(),
        address: String::new(),
        count: 1,
    }
}

/// Adds a record, and lets the one go that is too many.
fn record<T: Write>(
    cx: &mut Context<'_, T>,
    kind: AuditKind,
    next: &mut u64,
    mut row: AuditRow,
) -> Result<(), T::Error> {
    row.at = cx.now();
    for text in [
        &mut row.actor,
        &mut row.action,
        &mut row.target,
        &mut row.detail,
        &mut row.request_id,
        &mut row.address,
    ] {
        text.truncate(text.floor_char_boundary(AUDIT_TEXT));
    }
    let number = *next;
    *next += 1;
    cx.tables.put::<AuditTable>(&AuditKey { kind, number }, &row)?;
    match number.checked_sub(AUDIT_KEPT) {
        Some(oldest) => cx.tables.delete::<AuditTable>(&AuditKey { kind, number: oldest }),
        None => Ok(()),
    }
}
