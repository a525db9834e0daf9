//! What a leader does about a job: which of its instants fire, which are skipped, and what comes next. Pure: the job
//! as the tables show it, the wall clock and ids for tasks go in, guarded commands come out. A leader that looks twice,
//! or late, or beside another one, is refused and looks again.

use std::collections::VecDeque;

use crate::command::{BackfillBy, BackfillFire, Fire, JobCommand, SkipFire, StepBackfill};
use crate::id::{Millis, TaskId};
use crate::job::{BACKFILL_STEP, BackfillRow, Filled};
use crate::query::JobView;
use crate::task::MAX_SHARDS;
use crate::trigger::{Calendar, Due, Missed, Next, Progress, Schedule, SkipReason, TriggerError};

/// How many commands one look at a job makes at most; the rest of what was missed follows with the next look.
const CHAIN: usize = 16;
/// How many bytes of texts the tasks of one look, or of one step of a backfill, have at most beyond the first task.
const TEXT_BYTES: usize = 128 << 10;

/// How heavy it is to make a task: what a batch of fires is bounded by, beside their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weight {
    /// Shards.
    pub shards: usize,
    /// Bytes of texts; of a run also those of its steps.
    pub bytes: usize,
}

impl Weight {
    /// Of a task of this job with texts that were filled in so.
    pub fn of(view: &JobView, filled: &Filled) -> Weight {
        let template = &view.job.definition.template;
        let params = filled.params.as_ref().map_or(template.params.len(), Vec::len);
        match view.flow.steps.is_empty() {
            true => Weight { shards: usize::from(template.shard_total), bytes: params },
            // Its steps are made later, a few at a time; what they are made of is written at once.
            false => Weight { shards: 1, bytes: params + view.flow.bytes() },
        }
    }

    /// Adds another one.
    pub fn add(&mut self, other: Weight) {
        self.shards += other.shards;
        self.bytes += other.bytes;
    }

    /// Whether one command chain has enough of it.
    fn is_enough(self) -> bool {
        self.shards >= usize::from(MAX_SHARDS) || self.bytes > TEXT_BYTES
    }
}

/// What there is to do about a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// Nothing, until something about it changes.
    Rest,
    /// Nothing before the wall clock shows this.
    Later(Millis),
    /// These, in order; each holds only where the one before had its way.
    Propose(Vec<JobCommand>),
}

/// Looks at a job. `wall_ms` is the leader's wall clock: an instant is due when that shows it. `draw` gives ids that
/// cannot be guessed. Bounded: some thousand steps of its triggers, 16 commands, and up to their last one 1,024 shards and
/// 128 KiB of texts. Fails as
/// [`Schedule::new`] does.
pub fn plan(
    view: &JobView,
    calendars: &[Calendar],
    wall_ms: Millis,
    draw: &mut dyn FnMut() -> TaskId,
) -> Result<Plan, TriggerError> {
    let (job, state) = (view.key.clone(), &view.state);
    if state.paused.is_some() {
        return Ok(Plan::Rest);
    }
    if state.wanted {
        let next = view.schedule(calendars)?.next(&state.progress, state.decided);
        return Ok(Plan::Propose(vec![JobCommand::SetNext { job, revision: state.revision, next }]));
    }
    let Some(next) = &state.next else { return Ok(Plan::Rest) };
    if next.due_at > wall_ms {
        return Ok(Plan::Later(next.due_at));
    }
    let schedule = view.schedule(calendars)?;
    let chain = Chain {
        view,
        schedule: &schedule,
        revision: state.revision,
        progress: state.progress.clone(),
        commands: Vec::new(),
        weight: Weight::default(),
    };
    Ok(Plan::Propose(chain.build(next, wall_ms, draw)))
}

/// What becomes of one instant, or of several.
#[derive(Debug)]
enum Act {
    Fire(Next),
    /// And up to where everything is decided with it.
    Skip(Missed, Millis),
}

/// Commands of which each is computed from what the one before leaves behind.
struct Chain<'a> {
    view: &'a JobView,
    schedule: &'a Schedule,
    /// Of the job's state when the next command is applied.
    revision: u64,
    /// Likewise.
    progress: Progress,
    commands: Vec<JobCommand>,
    weight: Weight,
}

impl Chain<'_> {
    /// `first` is the instant that the job waits for; it is due.
    fn build(mut self, first: &Next, wall_ms: Millis, draw: &mut dyn FnMut() -> TaskId) -> Vec<JobCommand> {
        let state = &self.view.state;
        let catch_up = self.view.job.definition.misfire;
        let Due { fires, skipped, through, next } =
            self.schedule.catch_up(catch_up, &state.progress, state.decided, wall_ms);
        let (mut acts, mut behind) = (in_order(fires, skipped, through), next);
        if acts.front().map(Act::begins) != Some(first.scheduled_at) {
            // The job waits for an instant that is not found: this release knows other rules of its zone. It was
            // announced, so it fires, and everything goes on from there.
            acts = VecDeque::from([Act::Fire(first.clone())]);
            behind = None;
        }
        let mut at = first.scheduled_at;
        while let Some(act) = acts.pop_front() {
            let next = self.act(at, act, &acts, behind.as_ref(), draw);
            match next {
                Some(next) if self.commands.len() < CHAIN && !self.weight.is_enough() => at = next,
                _ => break,
            }
        }
        self.commands
    }

    /// Adds a command for the instant `at`; answers with the instant that the job waits for behind it.
    fn act(
        &mut self,
        at: Millis,
        act: Act,
        then: &VecDeque<Act>,
        behind: Option<&Next>,
        draw: &mut dyn FnMut() -> TaskId,
    ) -> Option<Millis> {
        let (job, revision) = (self.view.key.clone(), self.revision);
        self.revision += 1;
        let (missed, through) = match act {
            Act::Skip(missed, through) => (missed, through.max(at)),
            Act::Fire(fire) => {
                let task = draw();
                if let Some(filled) = filled(self.view, self.schedule, &fire, task) {
                    self.progress.fire(&fire);
                    self.weight.add(Weight::of(self.view, &filled));
                    let next = self.follows(then.front(), at, behind);
                    let follows = next.as_ref().map(|next| next.scheduled_at);
                    let fire = Fire { job, revision, scheduled_at: at, task, filled, next };
                    self.commands.push(JobCommand::Fire(fire));
                    return follows;
                }
                let reason = SkipReason::Parameters;
                (Missed { reason, count: 1, exact: true, first: at, last: at }, at)
            }
        };
        let next = self.follows(then.front(), through, behind);
        let follows = next.as_ref().map(|next| next.scheduled_at);
        let skip = SkipFire { job, revision, scheduled_at: at, missed, through, next };
        self.commands.push(JobCommand::Skip(skip));
        follows
    }

    /// The instant of the next act, or the one behind the last, with what is passed over on the way to it.
    fn follows(&self, act: Option<&Act>, through: Millis, behind: Option<&Next>) -> Option<Next> {
        let found = self.schedule.next(&self.progress, through);
        let meant = match act {
            Some(Act::Fire(next)) => Some(next),
            // What is skipped next is what is found next.
            Some(Act::Skip(..)) => None,
            None => behind,
        };
        let Some(meant) = meant else { return found };
        found.filter(|next| next.scheduled_at == meant.scheduled_at).or_else(|| Some(meant.clone()))
    }
}

impl Act {
    fn begins(&self) -> Millis {
        match self {
            Act::Fire(next) => next.scheduled_at,
            Act::Skip(missed, _) => missed.first,
        }
    }
}

/// Fires and skips by their first instant. Everything is decided up to the next fire, or else up to `through`.
fn in_order(fires: Vec<Next>, skipped: Vec<Missed>, through: Millis) -> VecDeque<Act> {
    let until = |missed: &Missed| {
        let mut later = fires.iter().map(|fire| fire.scheduled_at);
        later.find(|at| *at > missed.first).map_or(through, |at| at - 1)
    };
    let mut acts: Vec<Act> = skipped
        .into_iter()
        .map(|missed| {
            let until = until(&missed);
            Act::Skip(missed, until)
        })
        .collect();
    acts.extend(fires.into_iter().map(Act::Fire));
    acts.sort_by_key(Act::begins);
    acts.into()
}

/// The texts of the task that a fire makes; `None` where a placeholder means nothing or they become too long.
fn filled(view: &JobView, schedule: &Schedule, fire: &Next, task: TaskId) -> Option<Filled> {
    let zone = schedule.time_zone(fire.triggers.first().copied().unwrap_or_default());
    let filled = view.job.definition.fill(&view.key, task, fire.scheduled_at, zone).ok()?;
    filled.is_within_bounds().then_some(filled)
}

/// The next step of a backfill: as many instants as one command takes. Those whose parameters cannot be filled in are
/// passed over. Fails as [`Schedule::new`] does.
pub fn plan_backfill(
    view: &JobView,
    calendars: &[Calendar],
    row: &BackfillRow,
    draw: &mut dyn FnMut() -> TaskId,
) -> Result<BackfillBy, TriggerError> {
    let schedule = view.schedule(calendars)?;
    let instants = schedule.range(row.through.saturating_add(1), row.to, BACKFILL_STEP);
    let mut through = match instants.last() {
        Some(last) if instants.len() == BACKFILL_STEP => last.scheduled_at,
        _ => row.to,
    };
    let (mut fires, mut triggers, mut weight) = (Vec::new(), Vec::new(), Weight::default());
    for instant in instants {
        if weight.is_enough() {
            through = instant.scheduled_at - 1;
            break;
        }
        let task = draw();
        if let Some(filled) = filled(view, &schedule, &instant, task) {
            weight.add(Weight::of(view, &filled));
            triggers.push(instant.triggers.first().copied().unwrap_or_default());
            fires.push(BackfillFire { scheduled_at: instant.scheduled_at, task, filled });
        }
    }
    let (job, version, from) = (view.key.clone(), view.job.version, row.through);
    Ok(BackfillBy { step: StepBackfill { job, version, from, fires, through }, triggers })
}
