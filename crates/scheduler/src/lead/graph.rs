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
/// The most commands that have been proposed and not answered. Beyond that the log is what is slow, and more of them would
/// only keep grants and reports from it.
const WORK_IN_FLIGHT: usize = 256;
/// A command makes no further step when it has so many bytes of parameters.
const STEP_BYTES: usize = 256 << 10;

/// What there is to go on with: each once, in the order in which it came.
#[derive(Debug, Default)]
pub(super) struct GraphWork {
    waits: BTreeSet<WorkKey>,
    queue: VecDeque<WorkKey>,
    /// Commands that have been proposed and not answered.
    in_flight: usize,
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

    /// How many commands may be proposed now.
    fn room(&self) -> usize {
        WORK_PER_TURN.min(WORK_IN_FLIGHT.saturating_sub(self.in_flight))
    }
}

/// Whether a command is one of those that this module proposes.
fn is_work(command: &GraphCommand) -> bool {
    match command {
        GraphCommand::Resolve { .. }
        | GraphCommand::MakeSteps { .. }
        | GraphCommand::StopSteps { .. }
        | GraphCommand::ReplaceMore { .. } => true,
        GraphCommand::Submit(_)
        | GraphCommand::Aim { .. }
        | GraphCommand::Strand { .. }
        | GraphCommand::PutJob(_) => false,
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
        let (mut commands, mut makes, room) = (Vec::new(), 0, self.graph.room());
        // What is left has its turn when these have been applied.
        while commands.len() < room
            && makes < MAKES_PER_TURN
            && let Some(work) = self.graph.next()
        {
            makes += usize::from(work.kind == WorkKind::Make);
            let command = command(&view, work, &mut || TaskId::draw(&*random))?;
            commands.extend(command.map(|command| Command::Graph(Box::new(command))));
        }
        drop(view);
        self.graph.in_flight += commands.len();
        if !commands.is_empty() {
            self.start(Step::Propose(commands), false);
        }
        Ok(())
    }

    /// A command was answered. One that was refused came too late, as a rule: somebody went on meanwhile, and an event has
    /// told of that.
    pub(super) fn graph_answered(&mut self, command: &GraphCommand, reply: &Reply) {
        self.graph.in_flight -= usize::from(is_work(command)).min(self.graph.in_flight);
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
        WorkKind::Replace => {
            query::replaced_from(view, task)?.map(|from| GraphCommand::ReplaceMore { queued: task, from })
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_bounds_what_a_turn_takes() {
        let at = |in_flight| GraphWork { in_flight, ..GraphWork::default() }.room();
        assert_eq!((at(0), at(WORK_IN_FLIGHT - 3), at(WORK_IN_FLIGHT)), (WORK_PER_TURN, 3, 0));
    }

    #[test]
    fn only_what_is_proposed_here_is_counted() {
        let queued = TaskId([1; 16]);
        assert!(is_work(&GraphCommand::ReplaceMore { queued, from: queued }));
        assert!(is_work(&GraphCommand::StopSteps { run: queued, from: 0 }));
        assert!(!is_work(&GraphCommand::Aim { task: queued, targets: Vec::new() }));
    }
}
