//! `POST /openapi/v1/tasks/sync`: a submission whose answer is the task that has ended.
//!
//! It is the asynchronous call with a wait behind it, so nothing depends on the connection: a task that does not end
//! in time goes on, and whoever loses the answer finds it by its Idempotency-Key or its id.

use std::time::Duration;

use orloj_model::id::TaskId;
use orloj_model::query::TaskView;
use orloj_wire::problem::{Code, FieldError};
use orloj_wire::rest::{REPLAYED_HEADER, SYNC_LIMIT_MS, Submit};
use tokio::time::{Instant, timeout_at};

use super::{Call, submit, task_id};
use crate::backend::At;
use crate::outcome::{Answer, Failure};

impl Call<'_> {
    /// Submits, and answers 200 with the task once it has ended; 202 as it stands when it has not in time.
    pub(super) async fn submit_sync(&self) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let body: Submit = self.body()?;
        let idempotency = self.idempotency();
        // What was taken once is answered again, however the clocks and the caller's list stand by now.
        if let Err(failure) = self.may_use(&body.handler).and_then(|()| self.is_short(&body))
            && !self.is_repeated(idempotency.as_ref())?
        {
            return Err(failure);
        }
        self.look_where_callbacks_lead(body.callback_url.iter().cloned().collect()).await;
        let command = self.submission(body, Some(self.claim()), idempotency, &[])?;
        // Before the commit: who is refused for want of a place has no task. A key has as many as it has long polls, so
        // that none takes those of all others.
        let gate = &self.shared.gate;
        let _waiting = gate.begin_wait(&self.request.credentials.access_key, self.key)?;
        let _place = self.shared.sync_places.try_acquire().map_err(|_| {
            Failure::new(
                Code::Overloaded,
                "too many synchronous submissions are waiting; POST tasks takes more",
            )
        })?;
        let deadline = Instant::now() + Duration::from_millis(SYNC_LIMIT_MS);
        let (submitted, replayed) = submit::submitted(self.propose(command).await?)?;
        let task = self.ended_task(task_id(&submitted.task_id)?, deadline).await?;
        let status = if task.value.state.status.is_terminal() { 200 } else { 202 };
        let location = format!("/openapi/v1/tasks/{}", submitted.task_id);
        let answer = self.shown_task(&task, status)?.with("location", location);
        Ok(if replayed { answer.with(REPLAYED_HEADER, "true") } else { answer })
    }

    /// Refuses what is not expected to end within the wait: by the caller's own word, and by when it is due. What
    /// others have run on the same handler tells nothing of this task, and closes the call to nobody.
    fn is_short(&self, body: &Submit) -> Result<(), Failure> {
        let Some(estimated_ms) = body.estimated_duration_ms else {
            let fault = FieldError::new("/estimatedDurationMs", "a synchronous call needs an estimate");
            return Err(Failure::fields(Code::ValidationFailed, vec![fault]));
        };
        let delay_ms = match body.run_at {
            Some(at) => u64::try_from(at.0.saturating_sub(self.wall_ms())).unwrap_or(0),
            None => body.delay_ms.unwrap_or(0),
        };
        if estimated_ms.saturating_add(delay_ms) < SYNC_LIMIT_MS {
            return Ok(());
        }
        let why = match delay_ms {
            0 => format!("it is estimated to take {estimated_ms} ms"),
            _ => format!("it is due in {delay_ms} ms and estimated to take {estimated_ms} ms"),
        };
        let detail = format!(
            "{why}, and a synchronous call takes what ends within {SYNC_LIMIT_MS} ms: submit it with POST \
             /openapi/v1/tasks"
        );
        Err(Failure::new(Code::SyncDurationTooLong, detail))
    }

    /// The task once it has ended, or as it stands at the deadline or when this node leads no more. An end is final,
    /// so this node may tell of it whoever leads.
    async fn ended_task(&self, id: TaskId, deadline: Instant) -> Result<At<TaskView>, Failure> {
        let waiter = self.shared.hub.wait_for(id);
        let mut leadership = self.shared.backend.leadership();
        loop {
            let changed = waiter.changed();
            let task = self.own_task(id)?;
            if task.value.state.status.is_terminal() {
                return Ok(task);
            }
            let woken = tokio::select! {
                biased;
                _ = leadership.wait_for(|now| !now.leading) => false,
                changed = timeout_at(deadline, changed) => changed.is_ok(),
            };
            if !woken {
                return self.own_task(id);
            }
        }
    }
}
