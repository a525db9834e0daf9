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

use super::late::LateView;
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
    pub(super) async fn load_graph_work(&mut self) -> Result<(), Ended> {
        let mut page = query::graph_work(&self.shared.store.view(), None, PAGE)?;
        while let Some(last) = page.last().copied() {
            page.into_iter().for_each(|work| self.graph.add(work));
            self.breathe().await?;
            page = query::graph_work(&self.shared.store.view(), Some(last), PAGE)?;
        }
        Ok(())
    }

    /// Proposes the next commands.
    pub(super) fn go_on_with_graphs(&mut self) -> Result<(), Ended> {
        if self.graph.is_empty() {
            return Ok(());
        }
        let view = LateView::of(&self.shared.store);
        let ids = Arc::clone(&self.shared.ids);
        let (mut commands, mut makes, room) = (Vec::new(), 0, self.graph.room());
        // What is left has its turn when these have been applied.
        while commands.len() < room
            && makes < MAKES_PER_TURN
            && let Some(work) = self.graph.next()
        {
            makes += usize::from(work.kind == WorkKind::Make);
            commands.extend(command(&view, work, &mut || ids.draw())?);
        }
        drop(view);
        self.graph.in_flight +=
            commands.iter().filter(|command| matches!(command, Command::Graph(_))).count();
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
) -> Result<Option<Command>, R::Error> {
    let task = work.task;
    let command = match work.kind {
        WorkKind::Resolve => {
            query::first_waiter(view, task)?.map(|first| GraphCommand::Resolve { parent: task, first })
        }
        WorkKind::Make => {
            let run = query::run(view, task)?.filter(|run| run.row.begun);
            return Ok(run.map(|run| make(task, &run, draw)));
        }
        WorkKind::Replace => {
            query::replaced_from(view, task)?.map(|from| GraphCommand::ReplaceMore { queued: task, from })
        }
        WorkKind::Stop => {
            query::stopped_steps(view, task)?.map(|from| GraphCommand::StopSteps { run: task, from })
        }
    };
    Ok(command.map(|command| Command::Graph(Box::new(command))))
}

/// Makes the steps that come next. Where the texts of one cannot be filled in, the run is cancelled: a step never runs
/// with its placeholders as they were written, and a run that misses a step would not end.
fn make(run_id: TaskId, run: &RunView, draw: &mut dyn FnMut() -> TaskId) -> Command {
    match next_steps(run, draw) {
        Ok(steps) => {
            let from = run.row.made;
            Command::Graph(Box::new(GraphCommand::MakeSteps { run: run_id, from, steps }))
        }
        Err(Unfilled { step, why }) => {
            warn!(run = %run_id, job = %run.job, %step, %why, "a run is cancelled: the texts of a step cannot be filled in");
            Command::Cancel { task: run_id, caller: None, claim: None }
        }
    }
}

/// A step whose texts cannot be filled in.
#[derive(Debug, PartialEq, Eq)]
struct Unfilled {
    step: String,
    why: String,
}

/// The steps that come next, with their placeholders filled in.
fn next_steps(run: &RunView, draw: &mut dyn FnMut() -> TaskId) -> Result<Vec<MadeStep>, Unfilled> {
    let mut bytes = 0;
    let mut made = Vec::new();
    for step in run.flow.steps.iter().skip(usize::from(run.row.made)).take(STEPS_PER_COMMAND) {
        let task = draw();
        let filled = fill(run, step, task).map_err(|why| Unfilled { step: step.name.clone(), why })?;
        bytes += filled.params.as_ref().map_or(0, Vec::len);
        if bytes > STEP_BYTES && !made.is_empty() {
            break;
        }
        made.push(MadeStep { task, filled });
    }
    Ok(made)
}

/// Placeholders, and how long texts are with them filled in, are checked when a job is put. So this fails for what an
/// earlier release let in, or one that knows more placeholders than this one.
fn fill(run: &RunView, step: &FlowStep, task: TaskId) -> Result<Filled, String> {
    let job = JobId::new(run.job.as_str()).map_err(|error| error.to_string())?;
    let key = JobKey { caller: run.caller.clone(), job };
    let filled = step
        .template
        .fill(&key, task, run.scheduled_at, &run.flow.time_zone)
        .map_err(|error| error.to_string())?;
    match filled.is_within_bounds() {
        true => Ok(filled),
        false => Err("they are too long".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use orloj_model::graph::{OnShardFailure, RunFlow, RunRow};
    use orloj_model::id::CallerId;
    use orloj_model::job::Template;
    use orloj_model::task::{RetryPolicy, Strategy};

    use super::*;

    fn step(name: &str, params: &str, business_key: &str) -> FlowStep {
        let template = Template {
            handler: "echo".into(),
            params: params.into(),
            priority: 5,
            labels: Default::default(),
            routing_key: None,
            zone: None,
            strategy: Strategy::Ring,
            business_key: Some(business_key.into()),
            retry: RetryPolicy::default(),
            timeout_ms: None,
            expire_after_ms: None,
            shard_total: 1,
            callback_url: None,
            estimated_duration_ms: None,
        };
        let on_shard_failure = OnShardFailure::default();
        FlowStep { name: name.into(), template, on_shard_failure, needs: Vec::new() }
    }

    /// What is proposed of a run with these steps.
    fn proposed(steps: Vec<FlowStep>) -> Command {
        let row = RunRow { total: steps.len() as u16, made: 0, stopped: 0, begun: true };
        let run = RunView {
            caller: CallerId::new("alice").unwrap(),
            job: "j".repeat(128),
            scheduled_at: 1_800_000_000_000,
            row,
            flow: RunFlow { steps, time_zone: "Europe/Berlin".into() },
        };
        make(TaskId([9; 16]), &run, &mut || TaskId([1; 16]))
    }

    #[test]
    fn a_step_never_runs_with_its_placeholders_as_they_were_written() {
        let params = r#"{"day":"${date:%Y-%m-%d}"}"#;
        let good = || step("good", params, "${date:%d}");
        let Command::Graph(command) = proposed(vec![good()]) else { panic!("its steps are made") };
        let GraphCommand::MakeSteps { steps, from: 0, .. } = *command else { panic!("{command:?}") };
        let right =
            Filled { params: Some(br#"{"day":"2027-01-15"}"#.to_vec()), business_key: Some("15".into()) };
        assert_eq!(steps[0].filled, right);
        for bad in [
            step("key", params, &"${jobId}".repeat(32)),
            step("params", &"${jobId}".repeat(1_000), "k"),
            step("unknown", r#"{"a":"${soon}"}"#, "k"),
        ] {
            let cancel = Command::Cancel { task: TaskId([9; 16]), caller: None, claim: None };
            assert_eq!(proposed(vec![good(), bad]), cancel);
        }
    }

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
