//! Keys of callers, access keys and the audit.

use super::{KeyReader, KeyWriter, TableKey};
use crate::access::AuditKind;
use crate::id::CallerId;

/// An access key, by its public name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccessKeyName(pub String);

/// (owner, access key): the keys of a caller; of administrators under the empty name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerKey {
    /// The caller.
    pub owner: String,
    /// The key.
    pub key: String,
}

/// (kind, number descending): records, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditKey {
    /// The kind.
    pub kind: AuditKind,
    /// Counted from 0 within the kind.
    pub number: u64,
}

impl KeyReader<'_> {
    fn kind(&mut self) -> Option<AuditKind> {
        match self.byte()? {
            0 => Some(AuditKind::Change),
            1 => Some(AuditKind::Denied),
            2 => Some(AuditKind::Unsigned),
            _ => None,
        }
    }
}

key_codec!(CallerId, |k, w| w.text(k.as_str()), |r| CallerId::new(r.text()?).ok()?);
key_codec!(AccessKeyName, |k, w| w.text(&k.0), |r| AccessKeyName(r.text()?));
key_codec!(OwnerKey, |k, w| w.text(&k.owner).text(&k.key), |r| OwnerKey { owner: r.text()?, key: r.text()? });
key_codec!(AuditKey, |k, w| w.byte(k.kind as u8).number_desc(k.number), |r| AuditKey {
    kind: r.kind()?,
    number: r.number_desc()?,
});
