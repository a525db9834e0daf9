//! The calls on jobs and calendars, one method each.

use orloj_wire::rest::job::{
    Backfill, Calendar, CalendarDeleted, CalendarPage, HistoryPage, Job, JobChecked, JobDeleted, JobPage,
    JobRun, JobSpec, PauseJob, PreviewJob, RunJob, StartBackfill,
};
use orloj_wire::rest::preview::{PreviewAnswer, PreviewRequest};
use orloj_wire::rest::trigger::CalendarSpec;
use orloj_wire::sign;
use reqwest::Method;

use crate::calls::{plain, segment};
use crate::error::Error;
use crate::send::{Call, Client};

impl Client {
    /// Creates a job under its `job_id`. Where the answer is lost and the call is repeated it may be refused as
    /// [`JobExists`](orloj_wire::problem::Code::JobExists); [`put_job`](Client::put_job) can be repeated at will.
    pub async fn create_job(&self, job: &JobSpec) -> Result<Job, Error> {
        self.send(Call::post("/openapi/v1/jobs".to_owned()).with_body(job)).await
    }

    /// Creates or replaces a job. With a `version` only that one is replaced; 0 stands for a job that there is not.
    pub async fn put_job(&self, id: &str, job: &JobSpec, version: Option<u64>) -> Result<Job, Error> {
        let call = Call::of(Method::PUT, job_path(id, "")?).with_body(job);
        self.send(versioned(call, version)).await
    }

    /// What putting a job would come to: it is refused as [`put_job`](Client::put_job) would be, and changes nothing.
    pub async fn check_job(
        &self,
        id: &str,
        job: &JobSpec,
        version: Option<u64>,
    ) -> Result<JobChecked, Error> {
        let call = Call::post(job_path(id, "/check")?).with_body(job);
        self.send(versioned(call, version)).await
    }

    /// Changes what a merge patch (RFC 7396) of the definition names.
    pub async fn patch_job(
        &self,
        id: &str,
        patch: &serde_json::Value,
        version: Option<u64>,
    ) -> Result<Job, Error> {
        let call = Call::of(Method::PATCH, job_path(id, "")?).with_body(patch);
        self.send(versioned(call, version)).await
    }

    /// One job.
    pub async fn job(&self, id: &str) -> Result<Job, Error> {
        self.send(Call::get(job_path(id, "")?)).await
    }

    /// A page of the caller's jobs by id.
    pub async fn jobs(&self, page_size: Option<usize>, page_token: Option<&str>) -> Result<JobPage, Error> {
        self.send(paged(Call::get("/openapi/v1/jobs".to_owned()), page_size, page_token)?).await
    }

    /// Deletes a job. Its tasks go on.
    pub async fn delete_job(&self, id: &str, version: Option<u64>) -> Result<JobDeleted, Error> {
        self.send(versioned(Call::of(Method::DELETE, job_path(id, "")?), version)).await
    }

    /// Pauses a job. Without a note, that of a job which is paused already stays; an empty one takes it away.
    pub async fn pause_job(&self, id: &str, note: Option<&str>) -> Result<Job, Error> {
        let body = PauseJob { note: note.map(str::to_owned) };
        self.send(Call::post(job_path(id, "/pause")?).with_body(&body)).await
    }

    /// Resumes a job. What it missed meanwhile is counted and not made up for.
    pub async fn resume_job(&self, id: &str) -> Result<Job, Error> {
        self.send(Call::post(job_path(id, "/resume")?)).await
    }

    /// Runs a job now. Without an Idempotency-Key a fresh one is made, so that repeated tries never make two tasks.
    pub async fn run_job(
        &self,
        id: &str,
        run: &RunJob,
        idempotency_key: Option<&str>,
    ) -> Result<JobRun, Error> {
        let mut call = Call::post(job_path(id, "/run")?).with_body(run);
        call.idempotency_key = Some(idempotency_key.map_or_else(sign::new_nonce, str::to_owned));
        self.send(call).await
    }

    /// What a job will do.
    pub async fn preview_job(&self, id: &str, preview: &PreviewJob) -> Result<PreviewAnswer, Error> {
        self.send(Call::post(job_path(id, "/preview")?).with_body(preview)).await
    }

    /// What triggers would do that no job has.
    pub async fn preview_triggers(&self, preview: &PreviewRequest) -> Result<PreviewAnswer, Error> {
        self.send(Call::post("/openapi/v1/jobs/preview".to_owned()).with_body(preview)).await
    }

    /// A page of a job's history, newest first.
    pub async fn job_history(
        &self,
        id: &str,
        page_size: Option<usize>,
        page_token: Option<&str>,
    ) -> Result<HistoryPage, Error> {
        self.send(paged(Call::get(job_path(id, "/history")?), page_size, page_token)?).await
    }

    /// Makes up for a stretch of the past. Not repeated when the answer is lost, for a short one may be over by then and
    /// would be made twice: [`backfill`](Client::backfill) and [`job_history`](Client::job_history) show what came of it.
    pub async fn start_backfill(&self, id: &str, backfill: &StartBackfill) -> Result<Backfill, Error> {
        self.send(Call::post(job_path(id, "/backfill")?).with_body(backfill).once()).await
    }

    /// The backfill of a job that is under way.
    pub async fn backfill(&self, id: &str) -> Result<Backfill, Error> {
        self.send(Call::get(job_path(id, "/backfill")?)).await
    }

    /// Ends a backfill. Of the tasks that it has made those go on that have begun; the others are cancelled.
    pub async fn stop_backfill(&self, id: &str) -> Result<Backfill, Error> {
        self.send(Call::of(Method::DELETE, job_path(id, "/backfill")?)).await
    }

    /// Creates or replaces a calendar; `version` as in [`put_job`](Client::put_job).
    pub async fn put_calendar(
        &self,
        name: &str,
        calendar: &CalendarSpec,
        version: Option<u64>,
    ) -> Result<Calendar, Error> {
        let call = Call::of(Method::PUT, calendar_path(name)?).with_body(calendar);
        self.send(versioned(call, version)).await
    }

    /// One calendar.
    pub async fn calendar(&self, name: &str) -> Result<Calendar, Error> {
        self.send(Call::get(calendar_path(name)?)).await
    }

    /// A page of the caller's calendars by name.
    pub async fn calendars(
        &self,
        page_size: Option<usize>,
        page_token: Option<&str>,
    ) -> Result<CalendarPage, Error> {
        self.send(paged(Call::get("/openapi/v1/calendars".to_owned()), page_size, page_token)?).await
    }

    /// Deletes a calendar that no job uses.
    pub async fn delete_calendar(&self, name: &str, version: Option<u64>) -> Result<CalendarDeleted, Error> {
        self.send(versioned(Call::of(Method::DELETE, calendar_path(name)?), version)).await
    }
}

fn job_path(id: &str, rest: &str) -> Result<String, Error> {
    Ok(format!("/openapi/v1/jobs/{}{rest}", segment("job id", id)?))
}

fn calendar_path(name: &str) -> Result<String, Error> {
    Ok(format!("/openapi/v1/calendars/{}", segment("calendar", name)?))
}

fn versioned(call: Call, version: Option<u64>) -> Call {
    match version {
        Some(version) => call.with("version", version),
        None => call,
    }
}

fn paged(mut call: Call, page_size: Option<usize>, page_token: Option<&str>) -> Result<Call, Error> {
    if let Some(size) = page_size {
        call = call.with("page_size", size);
    }
    if let Some(token) = page_token {
        call = call.with("page_token", plain("page token", token)?);
    }
    Ok(call)
}
