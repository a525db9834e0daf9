//! Reading, listing and cancelling tasks.

use std::time::Duration;

use orloj_model::command::Command;
use orloj_model::id::TaskId;
use orloj_model::mutant::{Mutant, is_on};
use orloj_model::query::{Cursor, TaskView};
use orloj_model::task::{Reason, Status};
use orloj_model::{Refusal, Reply};
use orloj_wire::problem::Code;
use orloj_wire::rest::{Attempts, Cancelled, MAX_PAGE, MAX_WAIT_MS, TaskPage};
use tokio::time::{Instant, timeout_at};

use super::{Call, DEFAULT_PAGE, Nothing, task_id, unexpected};
use crate::backend::{At, PageQuery};
use crate::etag;
use crate::outcome::{Answer, Failure};
use crate::page::Scope;
use crate::view::{self, Detail};

/// The most tasks that one page of a list by handler looks at.
const LOOKED_AT: usize = 1_000;

impl Call<'_> {
    pub(super) async fn get_task(&self, id: &str) -> Result<Answer, Failure> {
        let id = task_id(id)?;
        let mut parameters = self.request.parameters()?;
        let after_version = parameters.number("after_version", 0, u64::MAX)?;
        let wait_ms = parameters.number("wait_ms", 0, MAX_WAIT_MS)?;
        parameters.finish()?;
        let task = match (after_version, wait_ms) {
            (Some(version), Some(wait_ms)) => self.newer_task(id, version, wait_ms).await?,
            (None, Some(_)) => {
                let detail = "wait_ms: needs after_version, the version that is known";
                return Err(Failure::new(Code::InvalidQuery, detail));
            }
            (_, None) => self.fresh_task(id).await?,
        };
        let answer = self.shown_task(&task, 200)?;
        Ok(etag::unless_known(answer, self.request.if_none_match.as_deref()))
    }

    /// A task, whole, with its validator.
    pub(super) fn shown_task(&self, task: &At<TaskView>, status: u16) -> Result<Answer, Failure> {
        let mut body = view::task(&task.value, Detail::Whole, task.applied);
        if task.value.spec.callback_url.is_some() {
            body.callback = self.shared.backend.callback(task.value.id)?.as_ref().map(view::callback);
        }
        body.waiting_for = self.waiting_for(&task.value)?;
        Ok(Answer::json(status, &body).at(task.applied).with("etag", etag::of_task(&body)))
    }

    /// What a task that is ready waits for; executors and limits are looked at for such a task alone.
    fn waiting_for(&self, task: &TaskView) -> Result<Option<String>, Failure> {
        if task.state.status != Status::Pending || task.state.reason != Reason::Ready {
            return Ok(None);
        }
        let rows = self.shared.backend.executors()?.value;
        let configured = self.shared.options.max_running.get(&task.spec.caller).copied();
        let reached = self.shared.backend.reached_limit(&task.spec, configured)?;
        Ok(view::waiting_for(task, &rows, &self.shared.leader.executors_live(), reached.as_ref()))
    }

    /// The task as of now: everything that was acknowledged before the request is in it.
    async fn fresh_task(&self, id: TaskId) -> Result<At<TaskView>, Failure> {
        if !is_on(Mutant::LocalReads) {
            self.shared.backend.barrier().await?;
        }
        self.own_task(id)
    }

    /// The task once its version is above `version`, or as it stands after `wait_ms`.
    async fn newer_task(&self, id: TaskId, version: u64, wait_ms: u64) -> Result<At<TaskView>, Failure> {
        let waiter = self.shared.hub.wait_for(id);
        // A little jitter keeps clients that started together from coming back together.
        let jittered = wait_ms - self.shared.random.up_to(wait_ms / 20);
        let deadline = Instant::now() + Duration::from_millis(jittered);
        let mut changed = waiter.changed();
        let mut task = self.fresh_task(id).await?;
        if task.value.state.version > version || task.value.state.status.is_terminal() {
            return Ok(task);
        }
        let _waiting = self.shared.gate.begin_wait(&self.request.credentials.access_key, self.key)?;
        let mut leadership = self.shared.backend.leadership();
        loop {
            let woken = tokio::select! {
                biased;
                // Whoever leads now may answer; this node has nothing to wait for any more.
                _ = leadership.wait_for(|now| !now.leading) => false,
                changed = timeout_at(deadline, changed) => changed.is_ok(),
            };
            changed = waiter.changed();
            task = self.own_task(id)?;
            if !woken || task.value.state.version > version {
                break;
            }
        }
        // Only a node that still leads may say how the task stands now.
        self.fresh_task(id).await
    }

    pub(super) async fn list_tasks(&self) -> Result<Answer, Failure> {
        let caller = self.caller()?;
        let mut parameters = self.request.parameters()?;
        let status = parameters.text("status");
        let handler = parameters.text("handler");
        let limit = parameters.number("page_size", 1, MAX_PAGE as u64)?.unwrap_or(DEFAULT_PAGE) as usize;
        let token = parameters.text("page_token");
        parameters.finish()?;
        let filters =
            format!("status={}&handler={}", status.unwrap_or_default(), handler.unwrap_or_default());
        let scope = Scope { caller: caller.as_str(), filters: &filters };
        let status = status.map(status_filter).transpose()?;
        let now = self.wall_ms();
        let after = token.map(|token| self.shared.tokens.open(scope, token, now)).transpose()?;
        if !is_on(Mutant::LocalReads) {
            self.shared.backend.barrier().await?;
        }
        let query = PageQuery { caller: caller.clone(), status, after, limit };
        let Listed { tasks, next, applied } = self.list(query, handler)?;
        let body = TaskPage {
            tasks: tasks.iter().map(|task| view::task(task, Detail::Listed, applied)).collect(),
            next_page_token: next.map(|cursor| self.shared.tokens.seal(scope, cursor, now)),
            applied_index: applied,
        };
        Ok(Answer::json(200, &body).at(applied))
    }

    /// A page, which with a handler may be short although more follow: the work of one request is bounded.
    fn list(&self, mut query: PageQuery, handler: Option<&str>) -> Result<Listed, Failure> {
        let limit = query.limit;
        // One more than asked for tells whether another page follows.
        query.limit += 1;
        let (mut tasks, mut looked_at) = (Vec::new(), 0);
        loop {
            let At { applied, value } = self.shared.backend.page(&query)?;
            let more = value.len() == query.limit;
            for task in value {
                if tasks.len() == limit {
                    return Ok(Listed { tasks, next: query.after, applied });
                }
                query.after = Some(Cursor { created_at: task.state.created_at, task: task.id });
                looked_at += 1;
                if handler.is_none_or(|handler| task.spec.handler == handler) {
                    tasks.push(task);
                }
            }
            if !more {
                return Ok(Listed { tasks, next: None, applied });
            }
            if looked_at >= LOOKED_AT {
                return Ok(Listed { tasks, next: query.after, applied });
            }
        }
    }

    pub(super) async fn list_attempts(&self, id: &str) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let task = self.fresh_task(task_id(id)?).await?;
        let body = Attempts {
            task_id: task.value.id.to_string(),
            attempts: view::attempts(&task.value.shards),
            version: task.value.state.version,
            applied_index: task.applied,
        };
        Ok(Answer::json(200, &body).at(task.applied))
    }

    pub(super) async fn cancel_task(&self, id: &str) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let Nothing {} = self.optional_body()?;
        let id = task_id(id)?;
        let caller = Some(self.caller()?.clone());
        let command = Command::Cancel { task: id, caller, claim: Some(self.claim()) };
        let applied = self.propose(command).await?;
        match applied.reply {
            Reply::Task { status, version, cancel_requested } => {
                let http = if status == Status::Cancelled { 200 } else { 202 };
                let body = Cancelled {
                    task_id: id.to_string(),
                    status: status.name().to_owned(),
                    cancel_requested,
                    version,
                    applied_index: applied.index,
                };
                Ok(Answer::json(http, &body).at(applied.index))
            }
            Reply::Refused(Refusal::AlreadyTerminal { status, .. }) => {
                let detail = format!("the task is {} and stays so", status.name());
                let mut failure = Failure::new(Code::TaskAlreadyTerminal, detail);
                let task = self.own_task(id)?;
                failure.task = Some(Box::new(view::task(&task.value, Detail::Whole, task.applied)));
                Err(failure)
            }
            Reply::Refused(refusal) => Err(refusal.into()),
            other => Err(unexpected(&other)),
        }
    }
}

struct Listed {
    tasks: Vec<TaskView>,
    next: Option<Cursor>,
    applied: u64,
}

fn status_filter(text: &str) -> Result<Status, Failure> {
    Status::from_name(text).ok_or_else(|| {
        let names = Status::ALL.map(Status::name).join(", ");
        Failure::new(Code::InvalidQuery, format!("status: {text:?} is not one of {names}"))
    })
}
