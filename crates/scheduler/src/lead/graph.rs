//! What a leader goes on with in graphs: children are told, steps are made, cancelled ones are cancelled. Each command
//! says where the tables stand, and its effect is told by an event, which leads to the next one.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use orloj_model::command::{GraphCommand, MadeStep};
use orloj_model::graph::{RunView, STEPS_PER_COMMAND, Step as FlowStep, WorkKind};
use orloj_model::id::{JobId, TaskId};
use orloj_model::job::{Filled, JobKey};
use orloj_model::key::WorkKey;
use orloj_model::tables::Read;
use orloj_model::{Command, Refusal, Reply, query};
use tracing::warn;

use super::{Ended, Leader, PAGE};
use crate::core::Step;

/// The most commands of one turn.
const WORK_PER_TURN: usize = 64;
/// The most of them that make steps: each has up to [`STEP_BYTES`].
const MAKES_PER_TURN: usize = 4;
/// A command makes no further step when it has so many bytes of parameters.
const STEP_BYTES: usize = 256 << 10;

/// What there is to go on with: each once, in the order in which it came.
#[derive(Debug, Default)]
pub(super) struct GraphWork {
    waits: BTreeSet<WorkKey>,
    queue: VecDeque<WorkKey>,
}

impl GraphWork {
    pub(super) fn add(&mut self, work: WorkKey) {
        if self.waits.insert(work) {
            self.queue.push_back(work);
        }
    }

    fn next(&mut self) -> Option<WorkKey> {
        let work = self.queue.pop_front()?;
        self.waits.remove(&work);
        Some(work)
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

impl Leader<'_> {
    /// Takes in what an earlier leader left undone.
    pub(super) fn load_graph_work(&mut self) -> Result<(), Ended> {
        let view = self.shared.store.view();
        let mut page = query::graph_work(&view, None, PAGE)?;
        while let Some(last) = page.last().copied() {
            page.into_iter().for_each(|work| self.graph.add(work));
            page = query::graph_work(&view, Some(last), PAGE)?;
        }
        Ok(())
    }

    /// Proposes the next commands.
    pub(super) fn go_on_with_graphs(&mut self) -> Result<(), Ended> {
        if self.graph.is_empty() {
            return Ok(());
        }
        let view = self.shared.store.view();
        let random = Arc::clone(&self.shared.random);
        let (mut commands, mut makes) = (Vec::new(), 0);
        // What is left has its turn when these have been applied.
        while commands.len() < WORK_PER_TURN
            && makes < MAKES_PER_TURN
            && let Some(work) = self.graph.next()
        {
            makes += usize::from(work.kind == WorkKind::Make);
            let command = command(&view, work, &mut || TaskId::draw(&*random))?;
            commands.extend(command.map(|command| Command::Graph(Box::new(command))));
        }
        drop(view);
        if !commands.is_empty() {
            self.start(Step::Propose(commands), false);
        }
        Ok(())
    }

    /// A command was refused: somebody went on meanwhile, as a rule, and an event has told of that.
    pub(super) fn graph_refused(&mut self, command: &GraphCommand, reply: &Reply) {
        match (command, reply) {
            (GraphCommand::MakeSteps { run, .. }, Reply::Refused(Refusal::TaskExists)) => {
                self.graph.add(WorkKey { kind: WorkKind::Make, task: *run });
            }
            (_, Reply::Refused(Refusal::Invalid)) => warn!(?command, "a command about a graph was refused"),
            _ => {}
        }
    }
}

/// The next command of a piece of work; `None` when the tables say that it is done.
fn command<R: Read>(
    view: &R,
    work: WorkKey,
    draw: &mut dyn FnMut() -> TaskId,
) -> Result<Option<GraphCommand>, R::Error> {
    let task = work.task;
    Ok(match work.kind {
        WorkKind::Resolve => {
            query::first_waiter(view, task)?.map(|first| GraphCommand::Resolve { parent: task, first })
        }
        WorkKind::Make => query::run(view, task)?.filter(|run| run.row.begun).map(|run| {
            GraphCommand::MakeSteps { run: task, from: run.row.made, steps: next_steps(&run, draw) }
        }),
        WorkKind::Stop => {
            query::stopped_steps(view, task)?.map(|from| GraphCommand::StopSteps { run: task, from })
        }
    })
}

/// The steps that come next, with their placeholders filled in.
fn next_steps(run: &RunView, draw: &mut dyn FnMut() -> TaskId) -> Vec<MadeStep> {
    let mut bytes = 0;
    let mut made = Vec::new();
    for step in run.flow.steps.iter().skip(usize::from(run.row.made)).take(STEPS_PER_COMMAND) {
        let task = draw();
        let filled = fill(run, step, task);
        bytes += filled.params.as_ref().map_or(0, Vec::len);
        if bytes > STEP_BYTES && !made.is_empty() {
            break;
        }
        made.push(MadeStep { task, filled });
    }
    made
}

/// Placeholders were checked when the job was put; one that this release does not know stays as it was written.
fn fill(run: &RunView, step: &FlowStep, task: TaskId) -> Filled {
    let Ok(job) = JobId::new(run.job.as_str()) else { return Filled::default() };
    let key = JobKey { caller: run.caller.clone(), job };
    let filled = step.template.fill(&key, task, run.scheduled_at, &run.flow.time_zone);
    filled.ok().filter(Filled::is_within_bounds).unwrap_or_default()
}
