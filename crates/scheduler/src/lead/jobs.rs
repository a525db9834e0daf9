//! Duties for jobs: their rows are read, and the model says what to do about them. Runs beside the loop, so that a thousand
//! jobs of one instant hold up no push. What comes of it is proposed by [`fires`](super::fires).

use std::sync::Arc;

use orloj_model::command::JobCommand;
use orloj_model::id::{Millis, TaskIds};
use orloj_model::job::{CalendarKey, Heeded, JobKey, Plan, Weight, plan, plan_backfill};
use orloj_model::query::JobView;
use orloj_model::tables::Read;
use orloj_model::time::ClusterClock;
use orloj_model::{Command, query};
use orloj_raft_store::{Fault, Store};
use tracing::error;

use super::work::Done;
use super::{Ended, Leader, PAGE, rows};
use crate::core::{After, Candidate, Duty, Planned};

/// Duties whose rows are read at one go; then others get the thread.
const READ_AT_ONCE: usize = 16;
/// A batch takes no further duty when it has so many commands, or when the tasks that they make have so many shards or
/// bytes of texts: what is left has its turn in the next one, between which others find room in the log. A single duty
/// adds no more than [`plan`] and [`plan_backfill`] allow.
const COMMANDS_PER_BATCH: usize = 256;
const SHARDS_PER_BATCH: usize = 4_096;
const BYTES_PER_BATCH: usize = 512 << 10;
/// When to look again at a job whose triggers this release cannot compute, in milliseconds.
const BROKEN_PAUSE_MS: i64 = 60_000;

/// What a look at duties has come to.
pub(super) struct Looked {
    /// Duties that propose nothing.
    pub(super) settled: Vec<(Duty, After)>,
    /// Those that do.
    pub(super) proposing: Vec<(Duty, After)>,
    /// What they propose.
    pub(super) planned: Vec<Planned>,
}

/// A look at a batch of duties.
struct Look {
    store: Store,
    clock: ClusterClock,
    ids: Arc<TaskIds>,
    found: Looked,
    /// How heavy what was found is.
    weight: Weight,
}

impl Leader<'_> {
    /// Takes in what an earlier leader left undone for jobs.
    pub(super) async fn load_duties(&mut self) -> Result<(), Ended> {
        let mut after = None;
        loop {
            let page = query::wanted_jobs(&self.shared.store.view(), after.as_ref(), PAGE)?;
            after = page.last().cloned();
            let now = self.shared.now();
            page.into_iter().for_each(|job| self.core.want(job, now));
            if after.is_none() {
                break;
            }
            self.breathe().await?;
        }
        loop {
            let page = query::backfills(&self.shared.store.view(), after.as_ref(), PAGE)?;
            after = page.last().map(|(job, _)| job.clone());
            for (job, _) in page {
                self.core.go_on(Duty::Backfill(Arc::new(job)));
            }
            if after.is_none() {
                break;
            }
            self.breathe().await?;
        }
        for (calendar, _) in query::spreading(&self.shared.store.view(), usize::MAX)? {
            self.core.go_on(Duty::Spread(calendar));
        }
        Ok(())
    }

    /// Takes in how many tasks of callers may run at a time.
    pub(super) fn load_limits<R: Read<Error = Fault>>(&mut self, view: &R) -> Result<(), Ended> {
        for (caller, limits) in query::caller_limits(view)? {
            self.core.limit_caller(&caller, Some(limits.max_running));
        }
        Ok(())
    }

    /// Looks at a batch.
    pub(super) fn jobs(&mut self, duties: Vec<Duty>) {
        let look = Look {
            store: self.shared.store.clone(),
            clock: self.shared.clock.clone(),
            ids: Arc::clone(&self.shared.ids),
            found: Looked { settled: Vec::new(), proposing: Vec::new(), planned: Vec::new() },
            weight: Weight::default(),
        };
        self.spawn(async move { Done::Looked(look.perform(duties).await) });
    }
}

impl Look {
    fn is_full(&self) -> bool {
        self.found.planned.len() >= COMMANDS_PER_BATCH
            || self.weight.shards >= SHARDS_PER_BATCH
            || self.weight.bytes >= BYTES_PER_BATCH
    }

    async fn perform(mut self, duties: Vec<Duty>) -> Result<Looked, Fault> {
        let mut duties = duties.into_iter().peekable();
        while duties.peek().is_some() {
            let view = self.store.view();
            let wall_ms = self.clock.base().wall_ms();
            for duty in duties.by_ref().take(READ_AT_ONCE) {
                let before = self.found.planned.len();
                let after = match self.is_full() {
                    true => After::Next,
                    false => self.look(&view, &duty, wall_ms)?,
                };
                match self.found.planned.len() > before {
                    true => self.found.proposing.push((duty, after)),
                    false => self.found.settled.push((duty, after)),
                }
            }
            drop(view);
            tokio::task::yield_now().await;
        }
        Ok(self.found)
    }

    /// Finds out what there is to do.
    fn look<R: Read>(&mut self, view: &R, duty: &Duty, wall_ms: Millis) -> Result<After, R::Error> {
        match duty {
            Duty::Look(job) => self.look_at_job(view, job, wall_ms),
            Duty::Backfill(job) => self.look_at_backfill(view, job),
            Duty::Spread(calendar) => self.look_at_calendar(view, calendar),
        }
    }

    fn look_at_job<R: Read>(&mut self, view: &R, key: &JobKey, wall_ms: Millis) -> Result<After, R::Error> {
        let Some(job) = query::job(view, key)? else { return Ok(After::Rest) };
        let heeded = match Heeded::read(view, &key.caller, &job.job.definition)? {
            Ok(heeded) => heeded,
            // A calendar that jobs use is not deleted.
            Err(calendar) => {
                error!(job = %key.job, %calendar, "a job uses a calendar that there is not");
                return Ok(After::At(wall_ms.saturating_add(BROKEN_PAUSE_MS)));
            }
        };
        let ids = Arc::clone(&self.ids);
        match plan(&job, &heeded.calendars, wall_ms, &mut || ids.draw()) {
            Ok(Plan::Rest) => Ok(After::Rest),
            Ok(Plan::Later(at)) => Ok(After::At(at)),
            Ok(Plan::Propose(commands)) => {
                let mut task = commands.first().and_then(|first| rows::fired(&job, first));
                commands.into_iter().for_each(|command| self.add(&job, command, task.take()));
                Ok(After::Rest)
            }
            Err(problem) => {
                error!(job = %key.job, %problem, "a job's triggers cannot be computed");
                Ok(After::At(wall_ms.saturating_add(BROKEN_PAUSE_MS)))
            }
        }
    }

    fn look_at_backfill<R: Read>(&mut self, view: &R, key: &JobKey) -> Result<After, R::Error> {
        let Some(job) = query::job(view, key)? else { return Ok(After::Rest) };
        let Some(row) = query::backfill(view, key)? else { return Ok(After::Rest) };
        let Ok(heeded) = Heeded::read(view, &key.caller, &job.job.definition)? else {
            return Ok(After::Soon);
        };
        let ids = Arc::clone(&self.ids);
        match plan_backfill(&job, &heeded.calendars, &row, &mut || ids.draw()) {
            Ok(step) => {
                self.add(&job, JobCommand::BackfillBy(step), None);
                Ok(After::Rest)
            }
            Err(problem) => {
                error!(job = %key.job, %problem, "a backfill cannot be computed");
                Ok(After::Rest)
            }
        }
    }

    fn look_at_calendar<R: Read>(&mut self, view: &R, key: &CalendarKey) -> Result<After, R::Error> {
        if let Some((calendar, row)) =
            query::spreading(view, usize::MAX)?.into_iter().find(|(found, _)| found == key)
        {
            self.note(JobCommand::SpreadCalendar { calendar, after: row.after }, None);
        }
        Ok(After::Rest)
    }

    fn add(&mut self, job: &JobView, command: JobCommand, task: Option<Candidate>) {
        match &command {
            JobCommand::Fire(fire) => self.weight.add(Weight::of(job, &fire.filled)),
            JobCommand::BackfillBy(by) => {
                by.step.fires.iter().for_each(|fire| self.weight.add(Weight::of(job, &fire.filled)));
            }
            _ => {}
        }
        self.note(command, task);
    }

    /// For the duty that is being looked at.
    fn note(&mut self, command: JobCommand, task: Option<Candidate>) {
        let (duty, command) = (self.found.proposing.len(), Command::Job(Box::new(command)));
        self.found.planned.push(Planned { duty, command, task });
    }
}
