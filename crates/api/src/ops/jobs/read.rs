//! Reading jobs, lists of them and their history.

use orloj_model::id::JobId;
use orloj_wire::problem::Code;
use orloj_wire::rest::MAX_PAGE;
use orloj_wire::rest::job::{HistoryPage, JobPage};

use super::Call;
use crate::backend::At;
use crate::etag;
use crate::ops::DEFAULT_PAGE;
use crate::outcome::{Answer, Failure};
use crate::page::Scope;
use crate::view::{self, Detail};

impl Call<'_> {
    pub(super) async fn get_job(&self, id: &str) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let key = self.job_key(id)?;
        self.up_to_date().await?;
        let answer = self.shown(&key, 200)?;
        Ok(etag::unless_known(answer, self.request.if_none_match.as_deref()))
    }

    pub(super) async fn list_jobs(&self) -> Result<Answer, Failure> {
        let caller = self.caller()?;
        let mut parameters = self.request.parameters()?;
        let limit = parameters.number("page_size", 1, MAX_PAGE as u64)?.unwrap_or(DEFAULT_PAGE) as usize;
        let token = parameters.text("page_token");
        parameters.finish()?;
        let (scope, now) = (Scope { caller: caller.as_str(), filters: "jobs" }, self.wall_ms());
        let after = token.map(|token| self.shared.tokens.open_text(scope, token, now)).transpose()?;
        let after = after.map(JobId::new).transpose().map_err(|_| foreign_token())?;
        self.up_to_date().await?;
        // One more than asked for tells whether another page follows.
        let At { applied, value: mut jobs } = self.shared.backend.jobs(caller, after.as_ref(), limit + 1)?;
        let more = jobs.len() > limit;
        jobs.truncate(limit);
        let next = jobs.last().filter(|_| more).map(|last| last.key.job.as_str());
        let body = JobPage {
            next_page_token: next.map(|job| self.shared.tokens.seal_text(scope, job, now)),
            jobs: jobs.iter().map(|job| view::job(job, Detail::Listed, applied)).collect(),
            applied_index: applied,
        };
        Ok(Answer::json(200, &body).at(applied))
    }

    pub(super) async fn job_history(&self, id: &str) -> Result<Answer, Failure> {
        let mut parameters = self.request.parameters()?;
        let limit = parameters.number("page_size", 1, MAX_PAGE as u64)?.unwrap_or(DEFAULT_PAGE) as usize;
        let token = parameters.text("page_token");
        parameters.finish()?;
        let key = self.job_key(id)?;
        let filters = format!("history={id}");
        let (scope, now) = (Scope { caller: key.caller.as_str(), filters: &filters }, self.wall_ms());
        let before = token.map(|token| self.shared.tokens.open_text(scope, token, now)).transpose()?;
        let before = before.map(|text| text.parse::<u64>()).transpose().map_err(|_| foreign_token())?;
        self.up_to_date().await?;
        let At { applied, value } = self.shared.backend.job_history(&key, before, limit + 1)?;
        let Some((job, mut rows)) = value else {
            return Err(orloj_model::Refusal::JobNotFound.into());
        };
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| more).map(|(number, _)| number.to_string());
        let body = HistoryPage {
            job_id: id.to_owned(),
            counts: view::job_counts(&job.state.counts),
            entries: rows.iter().map(|(number, row)| view::job_history(*number, row)).collect(),
            next_page_token: next.map(|number| self.shared.tokens.seal_text(scope, &number, now)),
            applied_index: applied,
        };
        Ok(Answer::json(200, &body).at(applied))
    }
}

/// A token that was sealed for another list.
pub(super) fn foreign_token() -> Failure {
    Failure::new(Code::InvalidQuery, "page_token: is not a token of this list")
}
