//! `POST /openapi/v1/tasks/batch`

use std::collections::BTreeMap;

use orloj_model::command::Idempotency;
use orloj_wire::problem::{Code, FieldError};
use orloj_wire::rest::{BATCH_LIMIT, BatchResult, SubmitBatch, SubmittedBatch};

use super::graph::{self, Earlier};
use super::{Call, submit};
use crate::outcome::{Answer, DENIED_HEADER, Failure, is_denial};

impl Call<'_> {
    /// Takes what can be taken. The request's nonce has been spent before, by itself: it stands for all of them.
    pub(super) async fn submit_batch(&self) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let SubmitBatch { tasks } = self.body()?;
        if tasks.is_empty() || tasks.len() > BATCH_LIMIT {
            let message = format!("{} submissions; a batch has 1-{BATCH_LIMIT}", tasks.len());
            return Err(Failure::fields(Code::ValidationFailed, vec![FieldError::new("/tasks", message)]));
        }
        self.look_where_callbacks_lead(tasks.iter().filter_map(|task| task.callback_url.clone()).collect())
            .await;
        let whole = self.idempotency();
        let mut commands = Vec::with_capacity(tasks.len());
        let mut refused = Vec::with_capacity(tasks.len());
        let mut earlier: Vec<Earlier> = Vec::with_capacity(tasks.len());
        for (at, body) in tasks.into_iter().enumerate() {
            let key = whole.as_ref().map(|whole| of_item(whole, at));
            match self.submission(body, None, key, &earlier) {
                Ok(command) => {
                    let submit = graph::submit_of(&command);
                    earlier.push(
                        submit.map(|submit| {
                            (submit.task, submit.idempotency.as_ref().map(|one| one.key.clone()))
                        }),
                    );
                    commands.push(command);
                    refused.push(None);
                }
                Err(failure) => {
                    earlier.push(None);
                    refused.push(Some(failure));
                }
            }
        }
        let applied = match commands.is_empty() {
            true => return self.all_refused(refused),
            false => {
                let commands = commands.into_iter().map(|command| self.of_key(command)).collect();
                self.shared.backend.propose_all(commands).await?
            }
        };
        let applied_index = applied.iter().map(|one| one.index).max().unwrap_or_default();
        let mut applied = applied.into_iter();
        let results = refused
            .into_iter()
            .map(|refused| match refused {
                Some(failure) => refusal(failure, &self.request.request_id),
                None => {
                    match applied.next().map_or_else(|| Err(Failure::commit_unknown()), submit::submitted) {
                        Ok((task, replayed)) => {
                            BatchResult { status: 202, task: Some(task), replayed, problem: None }
                        }
                        Err(failure) => refusal(failure, &self.request.request_id),
                    }
                }
            })
            .collect();
        Ok(answer(results, applied_index))
    }

    fn all_refused(&self, refused: Vec<Option<Failure>>) -> Result<Answer, Failure> {
        let applied_index = self.shared.backend.executors()?.applied;
        let refused = refused.into_iter().flatten();
        let results = refused.map(|failure| refusal(failure, &self.request.request_id)).collect();
        Ok(answer(results, applied_index))
    }
}

/// The answer to a batch, with what the audit is to know of it.
fn answer(results: Vec<BatchResult>, applied_index: u64) -> Answer {
    let codes = results.iter().filter_map(|result| Code::from_text(&result.problem.as_ref()?.code));
    let mut denied: BTreeMap<&str, u32> = BTreeMap::new();
    for code in codes.filter(|code| is_denial(*code)) {
        *denied.entry(code.as_str()).or_default() += 1;
    }
    let denied: Vec<_> = denied.into_iter().map(|(code, count)| format!("{code}={count}")).collect();
    let answer = Answer::json(200, &SubmittedBatch { results, applied_index }).at(applied_index);
    if denied.is_empty() { answer } else { answer.with(DENIED_HEADER, denied.join(",")) }
}

/// The key of one submission. A key of a caller's own has no `#`, so none can stand for a part of another batch.
fn of_item(whole: &Idempotency, at: usize) -> Idempotency {
    Idempotency { key: format!("{}#{at}", whole.key), fingerprint: whole.fingerprint }
}

fn refusal(failure: Failure, request_id: &str) -> BatchResult {
    let status = failure.code.status();
    BatchResult { status, task: None, replayed: false, problem: Some(failure.problem(request_id)) }
}
