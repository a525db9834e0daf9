//! `GET /openapi/v1/audit`

use orloj_model::access::{AuditKind, AuditRow};
use orloj_wire::problem::Code;
use orloj_wire::rest::{Audit, AuditRecord, MAX_AUDIT_PAGE};
use orloj_wire::time::Time;

use super::Call;
use crate::outcome::{Answer, Failure};

/// The size of a page where none is asked for.
const DEFAULT_PAGE: u64 = 100;

impl Call<'_> {
    pub(super) async fn list_audit(&self) -> Result<Answer, Failure> {
        let mut parameters = self.request.parameters()?;
        let kind = parameters.text("kind").unwrap_or("changes");
        let before = parameters.number("before", 0, u64::MAX)?;
        let limit =
            parameters.number("page_size", 1, MAX_AUDIT_PAGE as u64)?.unwrap_or(DEFAULT_PAGE) as usize;
        parameters.finish()?;
        let kind = match kind {
            "changes" => AuditKind::Change,
            "denied" => AuditKind::Denied,
            "unsigned" => AuditKind::Unsigned,
            other => {
                return Err(Failure::new(
                    Code::InvalidQuery,
                    format!("kind {other:?} is not changes, denied or unsigned"),
                ));
            }
        };
        self.shared.backend.barrier().await?;
        let page = self.shared.backend.audit(kind, before, limit)?;
        let records: Vec<_> = page.value.into_iter().map(record).collect();
        let next_before = records.last().map(|last| last.number).filter(|_| records.len() == limit);
        let body = Audit { records, next_before, applied_index: page.applied };
        Ok(Answer::json(200, &body).at(page.applied))
    }
}

fn record((number, row): (u64, AuditRow)) -> AuditRecord {
    AuditRecord {
        number,
        at: Time(row.at),
        actor: row.actor,
        action: row.action,
        target: row.target,
        detail: row.detail,
        request_id: row.request_id,
        address: row.address,
        count: row.count,
    }
}
