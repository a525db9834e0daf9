//! Everything that a history tells of each task and of each of its attempts, gathered once.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{
    AttemptAt, AttemptRow, CancelRecv, Event, FinalTable, FinalTask, Finish, Grant, JobPut, Recv,
    ReportAcked, Submit, What,
};
use crate::history::{History, Operation};

/// An observation with its event.
pub type Seen<'a, T> = (&'a Event, &'a T);

/// One attempt at one shard, from all sides.
#[derive(Debug, Clone, Default)]
pub struct Try<'a> {
    /// Pushes that brought it, with any verdict.
    pub receipts: Vec<Seen<'a, Recv>>,
    /// Starts of its handler.
    pub starts: Vec<Seen<'a, AttemptAt>>,
    /// Ends of its handler.
    pub finishes: Vec<Seen<'a, Finish>>,
    /// Reports that were sent.
    pub sent: Vec<Seen<'a, Finish>>,
    /// Answers to its reports.
    pub answers: Vec<Seen<'a, ReportAcked>>,
    /// Orders to stop it.
    pub stops: Vec<Seen<'a, CancelRecv>>,
    /// Its row in each table at the end that has one.
    pub rows: Vec<Seen<'a, AttemptRow>>,
}

impl<'a> Try<'a> {
    /// Pushes that were accepted.
    pub fn accepted(&self) -> impl Iterator<Item = Seen<'a, Recv>> + '_ {
        self.receipts.iter().copied().filter(|(_, recv)| recv.verdict == "accepted")
    }

    /// When it first reached its executor, refused or not, in ns.
    pub fn arrived_ns(&self) -> Option<u64> {
        self.receipts.first().map(|(event, _)| event.mono_ns)
    }

    /// How it ended, by any table.
    pub fn outcome(&self) -> Option<&'a str> {
        self.rows.iter().find_map(|(_, row)| row.outcome.as_deref())
    }

    /// Whether its executor ended it so or reported it so.
    pub fn said(&self, outcome: &str) -> bool {
        self.finishes.iter().chain(&self.sent).any(|(_, finish)| finish.outcome == outcome)
    }
}

/// One task from all sides.
#[derive(Debug, Clone, Default)]
pub struct Life<'a> {
    /// Submissions that made it or were answered with it, in order.
    pub submits: Vec<Operation<'a>>,
    /// Cancels that were asked for.
    pub cancels: Vec<Operation<'a>>,
    /// The job that made it, where one did.
    pub job: Option<&'a JobPut>,
    /// Its attempts by shard and number.
    pub tries: BTreeMap<(u16, u32), Try<'a>>,
    /// Its record in each table at the end.
    pub finals: Vec<Seen<'a, FinalTask>>,
}

impl<'a> Life<'a> {
    /// What was asked for, where the harness knows it.
    pub fn request(&self) -> Option<&'a Submit> {
        let submitted = self.submits.iter().find_map(|operation| match &operation.invoke.what {
            What::Submit(submit) => Some(submit),
            _ => None,
        });
        submitted.or(self.job.map(|job| &job.task))
    }

    /// When it was first asked for, in ns.
    pub fn invoked_ns(&self) -> Option<u64> {
        self.submits.iter().map(|operation| operation.invoke.mono_ns).min()
    }

    /// When it was first acknowledged, in ns.
    pub fn acked_ns(&self) -> Option<u64> {
        self.submits.iter().filter_map(Operation::ok).map(|end| end.mono_ns).min()
    }

    /// The last of its reports that were accepted, at its first sending: nothing that follows from its end comes before it.
    pub fn decided(&self) -> Option<&'a Event> {
        let accepted = |one: &&Try<'a>| one.answers.iter().any(|(_, acked)| acked.verdict == "accepted");
        let said = self.tries.values().filter(accepted).filter_map(|one| one.sent.first());
        said.map(|(event, _)| *event).max_by_key(|event| event.i)
    }

    /// The attempts of one shard after the other, in order.
    pub fn shards(&self) -> BTreeMap<u16, Vec<(u32, &Try<'a>)>> {
        let mut shards: BTreeMap<u16, Vec<(u32, &Try<'a>)>> = BTreeMap::new();
        for ((shard, number), one) in &self.tries {
            shards.entry(*shard).or_default().push((*number, one));
        }
        shards
    }
}

/// All tasks of a history.
#[derive(Debug, Clone, Default)]
pub struct Tasks<'a> {
    /// By task id.
    pub by_id: BTreeMap<&'a str, Life<'a>>,
    /// The end of each replica's table.
    pub tables: Vec<Seen<'a, FinalTable>>,
    /// Executors whose own events are in the history. Of the others only the tables speak.
    pub observed: BTreeSet<&'a str>,
}

impl<'a> Tasks<'a> {
    /// Gathers them.
    pub fn of(history: &'a History) -> Tasks<'a> {
        let mut tasks = Tasks::default();
        let mut labels: BTreeMap<&str, &str> = BTreeMap::new();
        for event in history.events() {
            tasks.take(event, &mut labels);
        }
        tasks.take_jobs(history);
        for operation in history.operations() {
            tasks.take_operation(operation, &labels);
        }
        tasks
    }

    fn take(&mut self, event: &'a Event, labels: &mut BTreeMap<&'a str, &'a str>) {
        match &event.what {
            What::ExecutorUp(up) => {
                self.observed.insert(&up.executor);
            }
            What::Recv(recv) => {
                self.observed.insert(&recv.executor);
                if let Some(label) = recv.label.as_ref().filter(|label| !label.is_empty()) {
                    labels.insert(label, &recv.grant.task);
                }
                self.at(&recv.grant).receipts.push((event, recv));
            }
            What::Start(start) => self.at(&start.grant).starts.push((event, start)),
            What::Finish(finish) => self.at(&finish.grant).finishes.push((event, finish)),
            What::ReportSent(sent) => self.at(&sent.grant).sent.push((event, sent)),
            What::ReportAcked(acked) => self.at(&acked.grant).answers.push((event, acked)),
            What::CancelRecv(stop) => self.at(&stop.grant).stops.push((event, stop)),
            What::FinalTask(last) => {
                if let Some(label) = last.label.as_ref().filter(|label| !label.is_empty()) {
                    labels.insert(label, &last.task.task_id);
                }
                let life = self.by_id.entry(&last.task.task_id).or_default();
                life.finals.push((event, last));
                for row in &last.attempts {
                    life.tries.entry((row.shard, row.attempt)).or_default().rows.push((event, row));
                }
            }
            What::FinalTable(table) => self.tables.push((event, table)),
            _ => {}
        }
    }

    /// What is known of the tasks of jobs: each names its job when it is pushed, and its job names it at the end.
    fn take_jobs(&mut self, history: &'a History) {
        let mut jobs: BTreeMap<&str, &JobPut> = BTreeMap::new();
        for event in history.events() {
            match &event.what {
                What::JobPut(put) => {
                    jobs.insert(&put.job, put);
                }
                What::Recv(Recv { job: Some(job), grant, .. }) => {
                    self.by_id.entry(&grant.task).or_default().job = jobs.get(job.as_str()).copied();
                }
                What::FinalJob(last) => {
                    for row in &last.fired {
                        self.by_id.entry(&row.task).or_default().job = jobs.get(last.job.as_str()).copied();
                    }
                }
                _ => {}
            }
        }
    }

    fn at(&mut self, grant: &'a Grant) -> &mut Try<'a> {
        let life = self.by_id.entry(&grant.task).or_default();
        life.tries.entry((grant.shard, grant.attempt)).or_default()
    }

    fn take_operation(&mut self, operation: Operation<'a>, labels: &BTreeMap<&'a str, &'a str>) {
        match &operation.invoke.what {
            What::Submit(request) => {
                let answered = operation.ok().and_then(|end| match &end.what {
                    What::Submit(answer) => answer.answer.as_ref().map(|task| task.task_id.as_str()),
                    _ => None,
                });
                let known = || labels.get(request.label.as_str()).copied();
                if let Some(id) = answered.or_else(known) {
                    self.by_id.entry(id).or_default().submits.push(operation);
                }
            }
            What::Cancel(_) => {
                if let Some(id) = operation.invoke.key.as_deref() {
                    self.by_id.entry(id).or_default().cancels.push(operation);
                }
            }
            _ => {}
        }
    }
}

/// Reads that found a task open.
#[derive(Debug, Clone, Default)]
pub struct OpenReads<'a> {
    /// By task: when each began, in ns, and the event of its answer.
    by_task: BTreeMap<&'a str, Vec<(u64, u64)>>,
}

impl<'a> OpenReads<'a> {
    /// Gathers them.
    pub fn of(history: &'a History) -> OpenReads<'a> {
        let mut by_task: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
        for operation in history.operations() {
            let Some(end) = operation.ok() else { continue };
            let What::Get(get) = &end.what else { continue };
            if let Some(seen) = get.answer.as_ref().filter(|seen| !seen.is_terminal()) {
                by_task.entry(&seen.task_id).or_default().push((operation.invoke.mono_ns, end.i));
            }
        }
        OpenReads { by_task }
    }

    /// The event of one that began later than this and found the task open all the same.
    pub fn after(&self, task: &str, instant_ns: u64) -> Option<u64> {
        let reads = self.by_task.get(task)?;
        reads.iter().find(|(began, _)| *began > instant_ns).map(|(_, event)| *event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Kind, TaskSeen};
    use crate::testing::event;

    #[test]
    fn a_submission_without_an_answer_is_known_by_its_label() {
        let request = Submit { label: "w1".into(), max_retries: 2, ..Submit::default() };
        let invoke = crate::Event { kind: Kind::Invoke, ..event(1, What::Submit(request)) };
        let grant = Grant { task: "tsk_1".into(), shard: 0, attempt: 1, fence: 7 };
        let recv = Recv {
            grant: grant.clone(),
            executor: "e1".into(),
            label: Some("w1".into()),
            verdict: "accepted".into(),
            ..Recv::default()
        };
        let row = AttemptRow { attempt: 1, executor: "e1".into(), fence: 7, ..AttemptRow::default() };
        let task = TaskSeen { task_id: "tsk_1".into(), ..TaskSeen::default() };
        let last = FinalTask { task, attempts: vec![row], ..FinalTask::default() };
        let history = History::merge(vec![
            invoke,
            event(5, What::Recv(recv)),
            event(6, What::Start(AttemptAt { grant, executor: "e1".into(), ..AttemptAt::default() })),
            event(9, What::FinalTask(last)),
        ]);
        let tasks = Tasks::of(&history);
        let life = &tasks.by_id["tsk_1"];
        assert_eq!(life.request().map(|request| request.max_retries), Some(2));
        assert_eq!((life.acked_ns(), life.finals.len()), (None, 1));
        let one = &life.tries[&(0, 1)];
        assert_eq!((one.accepted().count(), one.starts.len(), one.rows.len()), (1, 1, 1));
        assert!(tasks.observed.contains("e1"));
    }
}
