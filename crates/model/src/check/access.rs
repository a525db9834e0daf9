//! Invariants of callers and keys.

use std::collections::{BTreeMap, BTreeSet};

use super::{all, compare};
use crate::access::{AUDIT_KEPT, KeyOwner, MAX_ENABLED_KEYS, MAX_KEYS, MAX_WEBHOOK_SECRETS};
use crate::key::{AccessKeyName, OwnerKey, TableKey as _};
use crate::query;
use crate::schema::{AccessKeyTable, AuditTable, CallerLimitsTable, CallerTable, OwnerKeysTable};
use crate::tables::{Read, ReadExt as _};

pub(super) fn check<R: Read>(tables: &R, faults: &mut Vec<String>) -> Result<(), R::Error> {
    let mut index = BTreeSet::new();
    let mut of_owner: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (AccessKeyName(key), row) in all::<AccessKeyTable, R>(tables)? {
        let owner = row.owner.index_text().to_owned();
        if let KeyOwner::Caller(caller) = &row.owner
            && !tables.has::<CallerTable>(caller)?
        {
            faults.push(format!("key {key}: there is no caller {caller}"));
        }
        let counts = of_owner.entry(owner.clone()).or_default();
        counts.0 += 1;
        counts.1 += usize::from(row.enabled);
        index.insert(OwnerKey { owner, key }.encode());
    }
    compare::<OwnerKeysTable, R>(tables, "keys of owners", &index, faults)?;
    for (owner, (keys, enabled)) in of_owner {
        if keys > MAX_KEYS || (!owner.is_empty() && enabled > MAX_ENABLED_KEYS) {
            faults.push(format!("caller {owner:?}: {enabled} of {keys} keys are enabled"));
        }
    }
    let callers = all::<CallerTable, R>(tables)?;
    if callers.iter().any(|(_, row)| row.webhook_secrets.len() > MAX_WEBHOOK_SECRETS) {
        faults.push("a caller has too many webhook secrets".to_owned());
    }
    for (caller, limits) in all::<CallerLimitsTable, R>(tables)? {
        if limits.max_running == 0 || !tables.has::<CallerTable>(&caller)? {
            faults.push(format!("caller {caller}: {limits:?} of nobody, or of nothing"));
        }
    }
    let meta = query::access_meta(tables)?;
    if callers.len() != meta.callers as usize {
        faults.push(format!("{} callers are counted as {}", callers.len(), meta.callers));
    }
    let mut records = [0u64; 3];
    for (key, _) in all::<AuditTable, R>(tables)? {
        records[key.kind as usize] += 1;
    }
    let [changes, denied] = meta.next_audit;
    for (kept, next) in records.into_iter().zip([changes, denied, query::next_unsigned(tables)?]) {
        if kept != next.min(AUDIT_KEPT) {
            faults.push(format!("{kept} of {next} records are kept"));
        }
    }
    Ok(())
}
