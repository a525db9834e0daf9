//! Duties for jobs: their rows are read, the model says what to do about them, and the log takes it. Runs beside the
//! loop, so that a thousand jobs of one instant hold up no push.

use std::sync::Arc;

use orloj_model::command::JobCommand;
use orloj_model::id::{Millis, Round, TaskId};
use orloj_model::job::{CalendarKey, Heeded, JobKey, Plan, Weight, plan, plan_backfill};
use orloj_model::query::JobView;
use orloj_model::random::Random;
use orloj_model::tables::Read;
use orloj_model::task::TaskSpec;
use orloj_model::time::ClusterClock;
use orloj_model::{Command, Refusal, Reply, query};
use orloj_raft_store::{Fault, ProposeError, Store};
use tracing::{debug, error, warn};

use super::work::Done;
use super::{Ended, Leader, PAGE, lost_or_again, rows};
use crate::core::{After, Candidate, Duty, Now};

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

/// How a batch ended that was not done.
pub(super) enum Undone {
    /// Rows could not be read: the storage has failed.
    Broken(Fault),
    /// The log did not take it.
    NotProposed(ProposeError),
    /// The round is over.
    Stale,
}

/// What a batch needs.
struct Batch {
    store: Store,
    round: Round,
    clock: ClusterClock,
    random: Arc<dyn Random>,
    /// What is proposed, each with the number of its duty.
    commands: Vec<(usize, Command)>,
    /// How heavy that is.
    weight: Weight,
}

impl Leader<'_> {
    /// Takes in the jobs of a window.
    pub(super) fn load_jobs(&mut self, (from, until): (Millis, Millis), now: Now) -> Result<(), Ended> {
        let view = self.shared.store.view();
        let mut page = query::due_jobs_from(&view, from, until, PAGE)?;
        while let Some(last) = page.last().cloned() {
            self.core.load_jobs(page, now);
            page = query::due_jobs(&view, Some(&last), until, PAGE)?;
        }
        Ok(())
    }

    /// Takes in what an earlier leader left undone for jobs.
    pub(super) fn load_duties(&mut self, now: Now) -> Result<(), Ended> {
        let view = self.shared.store.view();
        let mut after = None;
        loop {
            let page = query::wanted_jobs(&view, after.as_ref(), PAGE)?;
            after = page.last().cloned();
            page.into_iter().for_each(|job| self.core.want(job, now));
            if after.is_none() {
                break;
            }
        }
        loop {
            let page = query::backfills(&view, after.as_ref(), PAGE)?;
            after = page.last().map(|(job, _)| job.clone());
            for (job, _) in page {
                self.core.go_on(Duty::Backfill(Arc::new(job)));
            }
            if after.is_none() {
                break;
            }
        }
        for (calendar, _) in query::spreading(&view, usize::MAX)? {
            self.core.go_on(Duty::Spread(calendar));
        }
        Ok(())
    }

    /// A due shard is ready; what limits its job is known by then.
    pub(super) fn ready<R: Read<Error = Fault>>(
        &mut self,
        view: &R,
        candidate: Candidate,
        now: Now,
    ) -> Result<(), Ended> {
        self.know_limit(view, &candidate.spec)?;
        self.core.ready(candidate, now);
        Ok(())
    }

    /// Sees to it that what limits the job of a task is known, before the task counts or waits.
    pub(super) fn know_limit<R: Read<Error = Fault>>(
        &mut self,
        view: &R,
        spec: &TaskSpec,
    ) -> Result<(), Ended> {
        if let Some(job) = rows::job_of(spec)
            && !self.core.knows_limit(&job)
        {
            self.core.limit_job(&job, rows::limit_of(view, &job)?);
        }
        Ok(())
    }

    /// Starts a batch.
    pub(super) fn jobs(&mut self, duties: Vec<Duty>) {
        let batch = Batch {
            store: self.shared.store.clone(),
            round: self.round,
            clock: self.shared.clock.clone(),
            random: Arc::clone(&self.shared.random),
            commands: Vec::new(),
            weight: Weight::default(),
        };
        self.spawn(async move { Done::Jobs(batch.perform(duties).await) });
    }

    /// A batch has ended.
    pub(super) fn jobs_done(
        &mut self,
        result: Result<Vec<(Duty, After, Vec<Reply>)>, Undone>,
        now: Now,
    ) -> Result<(), Ended> {
        let done = match result {
            Ok(done) => done,
            Err(Undone::Broken(fault)) => return Err(fault.into()),
            Err(Undone::NotProposed(error)) => return Err(lost_or_again(&error)),
            Err(Undone::Stale) => return Err(Ended::Lost),
        };
        for reply in done.iter().flat_map(|(_, _, replies)| replies) {
            match reply {
                Reply::Fired { .. } => self.shared.metrics.fires.inc(),
                Reply::FireSkipped { .. } => self.shared.metrics.fire_skips.inc(),
                _ => 0,
            };
        }
        self.core.jobs_done(done.into_iter().map(|(duty, after, _)| (duty, after)).collect(), now);
        Ok(())
    }
}

impl Batch {
    fn is_full(&self) -> bool {
        self.commands.len() >= COMMANDS_PER_BATCH
            || self.weight.shards >= SHARDS_PER_BATCH
            || self.weight.bytes >= BYTES_PER_BATCH
    }

    async fn perform(mut self, duties: Vec<Duty>) -> Result<Vec<(Duty, After, Vec<Reply>)>, Undone> {
        let mut done = Vec::with_capacity(duties.len());
        let mut duties = duties.into_iter().peekable();
        while duties.peek().is_some() {
            let view = self.store.view();
            let wall_ms = self.clock.base().wall_ms();
            for duty in duties.by_ref().take(READ_AT_ONCE) {
                let after = match self.is_full() {
                    true => After::Next,
                    false => self.look(&view, done.len(), &duty, wall_ms).map_err(Undone::Broken)?,
                };
                done.push((duty, after, Vec::new()));
            }
            drop(view);
            tokio::task::yield_now().await;
        }
        self.propose(&mut done).await?;
        Ok(done)
    }

    /// Finds out what there is to do.
    fn look<R: Read>(
        &mut self,
        view: &R,
        place: usize,
        duty: &Duty,
        wall_ms: Millis,
    ) -> Result<After, R::Error> {
        match duty {
            Duty::Look(job) => self.look_at_job(view, place, job, wall_ms),
            Duty::Backfill(job) => self.look_at_backfill(view, place, job),
            Duty::Spread(calendar) => self.look_at_calendar(view, place, calendar),
        }
    }

    fn look_at_job<R: Read>(
        &mut self,
        view: &R,
        place: usize,
        key: &JobKey,
        wall_ms: Millis,
    ) -> Result<After, R::Error> {
        let Some(job) = query::job(view, key)? else { return Ok(After::Rest) };
        let heeded = match Heeded::read(view, &key.caller, &job.job.definition)? {
            Ok(heeded) => heeded,
            // A calendar that jobs use is not deleted.
            Err(calendar) => {
                error!(job = %key.job, %calendar, "a job uses a calendar that there is not");
                return Ok(After::At(wall_ms.saturating_add(BROKEN_PAUSE_MS)));
            }
        };
        let random = Arc::clone(&self.random);
        match plan(&job, &heeded.calendars, wall_ms, &mut || TaskId::draw(&*random)) {
            Ok(Plan::Rest) => Ok(After::Rest),
            Ok(Plan::Later(at)) => Ok(After::At(at)),
            Ok(Plan::Propose(commands)) => {
                commands.into_iter().for_each(|command| self.add(place, &job, command));
                Ok(After::Rest)
            }
            Err(problem) => {
                error!(job = %key.job, %problem, "a job's triggers cannot be computed");
                Ok(After::At(wall_ms.saturating_add(BROKEN_PAUSE_MS)))
            }
        }
    }

    fn look_at_backfill<R: Read>(&mut self, view: &R, place: usize, key: &JobKey) -> Result<After, R::Error> {
        let Some(job) = query::job(view, key)? else { return Ok(After::Rest) };
        let Some(row) = query::backfill(view, key)? else { return Ok(After::Rest) };
        let Ok(heeded) = Heeded::read(view, &key.caller, &job.job.definition)? else {
            return Ok(After::Soon);
        };
        let random = Arc::clone(&self.random);
        match plan_backfill(&job, &heeded.calendars, &row, &mut || TaskId::draw(&*random)) {
            Ok(step) => {
                self.add(place, &job, JobCommand::BackfillBy(step));
                Ok(After::Rest)
            }
            Err(problem) => {
                error!(job = %key.job, %problem, "a backfill cannot be computed");
                Ok(After::Rest)
            }
        }
    }

    fn look_at_calendar<R: Read>(
        &mut self,
        view: &R,
        place: usize,
        key: &CalendarKey,
    ) -> Result<After, R::Error> {
        if let Some((calendar, row)) =
            query::spreading(view, usize::MAX)?.into_iter().find(|(found, _)| found == key)
        {
            let command = JobCommand::SpreadCalendar { calendar, after: row.after };
            self.commands.push((place, Command::Job(Box::new(command))));
        }
        Ok(After::Rest)
    }

    fn add(&mut self, place: usize, job: &JobView, command: JobCommand) {
        match &command {
            JobCommand::Fire(fire) => self.weight.add(Weight::of(job, &fire.filled)),
            JobCommand::BackfillBy(by) => {
                by.step.fires.iter().for_each(|fire| self.weight.add(Weight::of(job, &fire.filled)));
            }
            _ => {}
        }
        self.commands.push((place, Command::Job(Box::new(command))));
    }

    /// Proposes what was found, and sorts the replies to their duties.
    async fn propose(self, done: &mut [(Duty, After, Vec<Reply>)]) -> Result<(), Undone> {
        let (places, commands): (Vec<_>, Vec<_>) = self.commands.into_iter().unzip();
        if commands.is_empty() {
            return Ok(());
        }
        let applied = match self.store.propose_in_round(self.round, commands).await {
            Ok(applied) => applied,
            Err(ProposeError::Overloaded | ProposeError::DiskLow) => {
                for place in places {
                    done[place].1 = After::Soon;
                }
                return Ok(());
            }
            Err(error) => return Err(Undone::NotProposed(error)),
        };
        for (place, applied) in places.into_iter().zip(applied) {
            let (duty, after, replies) = &mut done[place];
            if let Reply::Refused(refusal) = &applied.reply {
                match refused(duty, refusal)? {
                    // The first refusal of a chain says why; the others only follow from it.
                    Some(again) if *after == After::Rest => *after = again,
                    _ => {}
                }
            }
            replies.push(applied.reply);
        }
        Ok(())
    }
}

/// What a refusal means for the duty that it was met in.
fn refused(duty: &Duty, refusal: &Refusal) -> Result<Option<After>, Undone> {
    Ok(match refusal {
        Refusal::StaleRound { .. } => return Err(Undone::Stale),
        // Gone, or done by a command that came before.
        Refusal::JobNotFound | Refusal::BackfillNotFound => None,
        Refusal::NotNext if matches!(duty, Duty::Spread(_)) => None,
        // Its rows have changed since they were read, as a rule; an event of that is on its way, and one look more
        // than needed costs nothing.
        Refusal::StaleJob { .. } | Refusal::NotNext | Refusal::VersionMismatch { .. } => Some(After::Soon),
        Refusal::NotDue { due_at } => Some(After::At(*due_at)),
        Refusal::CalendarSpreading { .. } | Refusal::TaskExists => Some(After::Soon),
        other => {
            warn!(?duty, refusal = ?other, "a job's command was refused");
            Some(After::Soon)
        }
    })
    .inspect(|after| debug!(?duty, ?refusal, ?after, "refused"))
}
