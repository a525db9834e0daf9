//! Reads of callers, keys and the audit.

use crate::access::{AUDIT_KEPT, AccessKeyRow, AccessMeta, AuditKind, AuditRow, CallerLimits, CallerRow};
use crate::id::CallerId;
use crate::key::{AccessKeyName, AuditKey, KeyWriter, Single, TableKey as _, after_prefix};
use crate::schema::{
    AccessKeyTable, AccessMetaTable, AuditTable, CallerLimitsTable, CallerTable, OwnerKeysTable,
};
use crate::tables::{Read, ReadExt as _};

/// Every caller and every key; their number is bounded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// At which revision they were read.
    pub revision: u64,
    /// The callers, by name.
    pub callers: Vec<(CallerId, CallerRow)>,
    /// The keys, by name.
    pub keys: Vec<(String, AccessKeyRow)>,
}

/// A caller with its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerView {
    /// Its name.
    pub id: CallerId,
    /// What was decided about it.
    pub row: CallerRow,
    /// How much of its work runs, where that is limited.
    pub limits: Option<CallerLimits>,
    /// Its keys, by name.
    pub keys: Vec<(String, AccessKeyRow)>,
}

/// What is counted about callers.
pub fn access_meta<R: Read>(tables: &R) -> Result<AccessMeta, R::Error> {
    Ok(tables.get::<AccessMetaTable>(&Single)?.unwrap_or_default())
}

/// Every caller and every key.
pub fn access<R: Read>(tables: &R) -> Result<Access, R::Error> {
    let end = after_prefix(&[]);
    Ok(Access {
        revision: access_meta(tables)?.revision,
        callers: tables.range::<CallerTable>(&[], &end, usize::MAX)?,
        keys: tables
            .range::<AccessKeyTable>(&[], &end, usize::MAX)?
            .into_iter()
            .map(|(AccessKeyName(name), row)| (name, row))
            .collect(),
    })
}

/// One access key.
pub fn access_key<R: Read>(tables: &R, name: &str) -> Result<Option<AccessKeyRow>, R::Error> {
    tables.get::<AccessKeyTable>(&AccessKeyName(name.to_owned()))
}

/// The keys of a caller; of administrators for an empty name.
pub fn access_keys_of<R: Read>(tables: &R, owner: &str) -> Result<Vec<(String, AccessKeyRow)>, R::Error> {
    let mut keys = Vec::new();
    for name in keys_of(tables, owner)? {
        keys.extend(access_key(tables, &name)?.map(|row| (name, row)));
    }
    Ok(keys)
}

/// One caller.
pub fn caller<R: Read>(tables: &R, id: &CallerId) -> Result<Option<CallerView>, R::Error> {
    let Some(row) = tables.get::<CallerTable>(id)? else { return Ok(None) };
    view_of(tables, id.clone(), row).map(Some)
}

/// Callers by name; at most `limit`, after `after`.
pub fn callers<R: Read>(
    tables: &R,
    after: Option<&CallerId>,
    limit: usize,
) -> Result<Vec<CallerView>, R::Error> {
    // The first key behind one is that key with a byte more.
    let from = after.map(|id| [id.encode(), vec![0]].concat()).unwrap_or_default();
    let rows = tables.range::<CallerTable>(&from, &after_prefix(&[]), limit)?;
    rows.into_iter().map(|(id, row)| view_of(tables, id, row)).collect()
}

fn view_of<R: Read>(tables: &R, id: CallerId, row: CallerRow) -> Result<CallerView, R::Error> {
    let limits = tables.get::<CallerLimitsTable>(&id)?;
    Ok(CallerView { keys: access_keys_of(tables, id.as_str())?, id, row, limits })
}

/// Every caller of whose work only so much runs, by name; their number is bounded.
pub fn caller_limits<R: Read>(tables: &R) -> Result<Vec<(CallerId, CallerLimits)>, R::Error> {
    tables.range::<CallerLimitsTable>(&[], &after_prefix(&[]), usize::MAX)
}

/// The names of the keys of a caller; of administrators for an empty name.
pub fn keys_of<R: Read>(tables: &R, owner: &str) -> Result<Vec<String>, R::Error> {
    let prefix = KeyWriter::default().text(owner).finish();
    let keys = tables.keys::<OwnerKeysTable>(&prefix, &after_prefix(&prefix), usize::MAX)?;
    Ok(keys.into_iter().map(|key| key.key).collect())
}

/// The number of the next record of a call that was refused and of which nobody knows who made it: one above its
/// newest's.
pub fn next_unsigned<R: Read>(tables: &R) -> Result<u64, R::Error> {
    let newest = audit(tables, AuditKind::Unsigned, None, 1)?;
    Ok(newest.first().map_or(0, |(number, _)| number + 1))
}

/// Records of one kind, newest first; at most `limit`, older than number `before`.
pub fn audit<R: Read>(
    tables: &R,
    kind: AuditKind,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<(u64, AuditRow)>, R::Error> {
    let prefix = KeyWriter::default().byte(kind as u8).finish();
    let from = match before {
        None => prefix.clone(),
        Some(0) => return Ok(Vec::new()),
        Some(before) => AuditKey { kind, number: before - 1 }.encode(),
    };
    let limit = limit.min(usize::try_from(AUDIT_KEPT).unwrap_or(usize::MAX));
    let rows = tables.range::<AuditTable>(&from, &after_prefix(&prefix), limit)?;
    Ok(rows.into_iter().map(|(key, row)| (key.number, row)).collect())
}
