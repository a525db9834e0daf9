//! The tables of callers, keys and the audit.

use crate::access::{AccessKeyRow, AccessMeta, AuditRow, CallerLimits, CallerRow};
use crate::id::CallerId;
use crate::key::{AccessKeyName, AuditKey, OwnerKey, Single};
use crate::tables::{Table, TableId};

table!(
    /// Callers.
    CallerTable, Caller, CallerId, CallerRow
);
table!(
    /// Access keys.
    AccessKeyTable, AccessKey, AccessKeyName, AccessKeyRow
);
table!(
    /// Access keys by owner.
    OwnerKeysTable, OwnerKeys, OwnerKey, ()
);
table!(
    /// What administrators did and who was turned away, newest first.
    AuditTable, Audit, AuditKey, AuditRow
);
table!(
    /// What is counted about callers.
    AccessMetaTable, AccessMeta, Single, AccessMeta
);
table!(
    /// How much of a caller's work runs, where that is limited.
    CallerLimitsTable, CallerLimits, CallerId, CallerLimits
);
