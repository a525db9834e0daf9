//! `POST /openapi/v1/tasks`

use std::sync::Arc;

use orloj_model::command::{Claim, Command, DueTime, Idempotency, Submit};
use orloj_model::id::{CallerId, ExecutorId, Millis};
use orloj_model::mutant::{Mutant, is_on};
use orloj_model::task::{Origin, RetryPolicy, Status, Strategy, TaskSpec};
use orloj_model::{Refusal, Reply};
use orloj_raft_store::Applied;
use orloj_wire::problem::{Code, FieldError};
use orloj_wire::rest::{self, DEFAULT_PRIORITY, PARAMS_LIMIT, REPLAYED_HEADER, Submitted};
use orloj_wire::sign::sha256;
use orloj_wire::time::Time;

use super::graph::{self, Earlier};
use super::{Call, unexpected};
use crate::backend::handlers;
use crate::outcome::{Answer, Failure};

/// How long an Idempotency-Key must still stand for its task to be counted on, in milliseconds: longer than any command
/// is on its way, for the command itself must not find it forgotten.
const STILL_KNOWN_MS: Millis = 60_000;

impl Call<'_> {
    pub(super) async fn submit(&self) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let body: rest::Submit = self.body()?;
        self.look_where_callbacks_lead(body.callback_url.iter().cloned().collect()).await;
        let command = self.submission(body, Some(self.claim()), self.idempotency(), &[])?;
        if is_on(Mutant::AckBeforeCommit) {
            return Ok(self.answer_at_once(command));
        }
        self.taken(command).await
    }

    /// Proposes a submission, and answers once it is committed.
    pub(super) async fn taken(&self, command: Command) -> Result<Answer, Failure> {
        taken(self.propose(command).await?)
    }

    /// The command of a body that is acceptable; `earlier` are those before it in its batch.
    pub(super) fn submission(
        &self,
        mut body: rest::Submit,
        claim: Option<Claim>,
        idempotency: Option<Idempotency>,
        earlier: &[Earlier],
    ) -> Result<Command, Failure> {
        let caller = self.caller()?.clone();
        let due = due(&body);
        let is_repeated = || self.is_repeated(idempotency.as_ref());
        match self.may_submit(&body.handler, body.callback_url.as_deref()) {
            Ok(url) => body.callback_url = url,
            // It makes nothing, so it is answered whatever the caller may do by now.
            Err(_) if is_repeated()? => {}
            Err(failure) => return Err(failure),
        }
        let beyond = graph::beyond(&body, earlier);
        let spec = spec(body, caller, &self.request.credentials.access_key, |handler, _| {
            Ok(self.has_handler(handler)? || is_repeated()?)
        })?;
        let beyond = beyond.map_err(|faults| Failure::fields(Code::ValidationFailed, faults))?;
        let spec = TaskSpec { depends_on: beyond.parents.clone(), ..spec };
        let task = self.shared.ids.draw();
        Ok(graph::command(Submit { task, spec, due, claim, idempotency }, beyond))
    }

    /// What a mutant answers: the submission goes its way, and nobody waits for what becomes of it.
    fn answer_at_once(&self, command: Command) -> Answer {
        let Some(submit) = graph::submit_of(&command) else { return Answer::empty(500) };
        let now = Time(self.wall_ms());
        let body = Submitted {
            task_id: submit.task.to_string(),
            status: Status::Pending.name().to_owned(),
            version: 1,
            created_at: now,
            due_at: now,
            applied_index: 0,
        };
        let backend = Arc::clone(&self.shared.backend);
        tokio::spawn(async move { drop(backend.propose(command).await) });
        Answer::json(202, &body)
    }

    /// The request's Idempotency-Key, and what it stands for.
    pub(super) fn idempotency(&self) -> Option<Idempotency> {
        let request = self.request;
        request.credentials.idempotency_text().map(|key| Idempotency {
            key: key.to_owned(),
            fingerprint: sha256(&[
                request.method.as_bytes(),
                b"\n",
                request.path.as_bytes(),
                b"\n",
                request.query.as_bytes(),
                b"\n",
                &request.body,
            ]),
        })
    }

    /// Whether the request repeats one that was taken: the answer is that one's, whoever has left since. Asked for only
    /// where something stands against the request, so that a submission costs no look more.
    pub(super) fn is_repeated(&self, idempotency: Option<&Idempotency>) -> Result<bool, Failure> {
        let Some(idempotency) = idempotency else { return Ok(false) };
        // The clock of the commit: on a cluster at rest the time of the last one may be long ago.
        let now = self.wall_ms().max(self.shared.backend.now_ms()?);
        let until = now.saturating_add(STILL_KNOWN_MS);
        Ok(self.shared.backend.is_repeated(self.caller()?, idempotency, until)?)
    }

    /// Refuses what the key's caller may not submit. The callback's address as it is stored.
    pub(super) fn may_submit(&self, handler: &str, url: Option<&str>) -> Result<Option<String>, Failure> {
        self.may_use(handler)?;
        url.map(|url| self.callback_url(url, None)).transpose()
    }

    /// Refuses a handler that the key's caller may not use, in a submission as in a job.
    pub(super) fn may_use(&self, handler: &str) -> Result<(), Failure> {
        if self.key.rights.handler(handler) {
            return Ok(());
        }
        let detail = format!("this access key may not use the handler {handler:?}");
        Err(Failure::new(Code::ExecutorDenied, detail))
    }

    /// Whether an executor that has not left has this handler. What is remembered may be behind by an
    /// instant, so a handler that it does not have is looked for in the tables.
    pub(super) fn has_handler(&self, handler: &str) -> Result<bool, Failure> {
        let (asked, known) = self.shared.hub.known_handlers();
        if known.is_some_and(|known| known.contains(handler)) {
            return Ok(true);
        }
        let known = Arc::new(handlers(&self.shared.backend.executors()?.value));
        self.shared.hub.remember_handlers(asked, Arc::clone(&known));
        Ok(known.contains(handler))
    }
}

/// The answer to a submission that was proposed.
pub(super) fn taken(applied: Applied) -> Result<Answer, Failure> {
    let (body, replayed) = submitted(applied)?;
    let location = format!("/openapi/v1/tasks/{}", body.task_id);
    let answer = Answer::json(202, &body).at(body.applied_index).with("location", location);
    Ok(if replayed { answer.with(REPLAYED_HEADER, "true") } else { answer })
}

/// What a submission has come to, and whether it repeats an earlier one.
pub(super) fn submitted(applied: Applied) -> Result<(Submitted, bool), Failure> {
    match applied.reply {
        Reply::Submitted { task, status, version, created_at, due_at, replayed } => {
            let body = Submitted {
                task_id: task.to_string(),
                status: status.name().to_owned(),
                version,
                created_at: Time(created_at),
                due_at: Time(due_at),
                applied_index: applied.index,
            };
            Ok((body, replayed))
        }
        // The task of this Idempotency-Key has been swept; under another key it can be made again.
        Reply::Refused(Refusal::TaskNotFound) => Err(Failure::new(
            Code::IdempotencyKeyReused,
            "the task that this Idempotency-Key made is no longer kept",
        )),
        Reply::Refused(refusal) => Err(refusal.into()),
        other => Err(unexpected(&other)),
    }
}

fn due(body: &rest::Submit) -> DueTime {
    match body.run_at {
        Some(at) => DueTime::At(at.0),
        None => DueTime::After(body.delay_ms.unwrap_or(0)),
    }
}

/// The record of a body that is acceptable.
pub(super) fn spec(
    body: rest::Submit,
    caller: CallerId,
    access_key: &str,
    is_known: impl FnOnce(&str, &CallerId) -> Result<bool, Failure>,
) -> Result<TaskSpec, Failure> {
    let mut faults = body.faults();
    let params = serde_json::to_vec(&body.params).expect("a JSON value serialises");
    if params.len() > PARAMS_LIMIT {
        let message = format!("{} bytes of compact JSON are more than {PARAMS_LIMIT}", params.len());
        faults.push(FieldError::new("/params", message));
    }
    if !faults.is_empty() {
        return Err(Failure::fields(Code::ValidationFailed, faults));
    }
    if !body.allow_unknown_handler && !is_known(&body.handler, &caller)? {
        let message = format!(
            "no executor has registered {:?}; allowUnknownHandler takes the task anyway",
            body.handler
        );
        return Err(Failure::fields(Code::HandlerUnknown, vec![FieldError::new("/handler", message)]));
    }
    Ok(TaskSpec {
        caller,
        access_key: access_key.to_owned(),
        handler: body.handler,
        params,
        origin: Origin::Submission,
        priority: small(body.priority.unwrap_or(DEFAULT_PRIORITY)),
        labels: body.labels,
        routing_key: body.routing_key,
        zone: body.zone,
        strategy: strategy(body.strategy.unwrap_or_default())?,
        business_key: body.business_key,
        dedupe_key: body.dedupe_key,
        retry: retry(body.retry.unwrap_or_default()),
        timeout_ms: body.timeout_ms,
        expire_at: body.expire_at.map(|at| at.0),
        // The body's type bounds it.
        shard_total: body.shard_total.and_then(|total| u16::try_from(total).ok()).unwrap_or(1),
        depends_on: Vec::new(),
        callback_url: body.callback_url,
        estimated_duration_ms: body.estimated_duration_ms,
    })
}

fn strategy(strategy: rest::Strategy) -> Result<Strategy, Failure> {
    Ok(match strategy {
        rest::Strategy::Ring => Strategy::Ring,
        rest::Strategy::RoundRobin => Strategy::RoundRobin,
        rest::Strategy::LeastLoaded => Strategy::LeastLoaded,
        rest::Strategy::Random => Strategy::Random,
        rest::Strategy::Broadcast => Strategy::Broadcast,
        rest::Strategy::Pinned(id) => Strategy::Pinned(ExecutorId::new(id).map_err(|error| {
            let fault = FieldError::new("/strategy/pinned", error.to_string());
            Failure::fields(Code::ValidationFailed, vec![fault])
        })?),
    })
}

fn retry(retry: rest::Retry) -> RetryPolicy {
    RetryPolicy {
        max_retries: small(retry.max_retries),
        backoff_ms: retry.backoff_ms.into_iter().map(|step| step.0).collect(),
        jitter_pct: small(retry.jitter_pct),
        max_lost: small(retry.max_lost),
    }
}

/// A number that the body's type bounds to 0-100.
fn small(number: u64) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}
