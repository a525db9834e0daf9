//! A history of a size that a long run has: judged as a whole, and again with one stale answer in it.

use orloj_jepsen_core::check::{Options, judge};
use orloj_jepsen_core::event::{
    Cancel, Event, FinalTable, FinalTask, Get, Kind, List, Meta, Probe, Submit, TaskSeen, VERSION, What,
};
use orloj_jepsen_core::{History, Validity};

const TASKS: u64 = 6_000;
const READS: u64 = 7;
/// Between two events, in ns.
const STEP: u64 = 1_000;

/// Writes a run: every task is submitted, read while it runs its life, sometimes cancelled, and listed.
struct Writer {
    events: Vec<Event>,
    now_ns: u64,
    index: u64,
    /// What the tables hold: newest last.
    tasks: Vec<TaskSeen>,
}

impl Writer {
    fn new() -> Writer {
        Writer { events: Vec::new(), now_ns: 0, index: 10, tasks: Vec::new() }
    }

    fn write(&mut self, src: &str, proc: u64, kind: Kind, key: Option<&str>, what: What) -> &mut Event {
        self.now_ns += STEP;
        let (src, key) = (src.to_owned(), key.map(str::to_owned));
        let node = Some("n1".to_owned());
        let (mono_ns, meta) = (self.now_ns, Meta::default());
        self.events.push(Event {
            v: VERSION,
            i: 0,
            mono_ns,
            src,
            proc,
            kind,
            node,
            key,
            what,
            err: None,
            meta,
        });
        self.events.last_mut().expect("it has just been pushed")
    }

    fn answer(&mut self, src: &str, proc: u64, key: Option<&str>, what: What) {
        let applied = Some(self.index);
        self.write(src, proc, Kind::Ok, key, what).meta.applied = applied;
    }

    fn change(&mut self, at: usize, status: &str, attempt: u32) {
        let task = &mut self.tasks[at];
        (task.status, task.attempt, task.version) = (status.to_owned(), attempt, task.version + 1);
        self.index += 1;
    }

    fn submit(&mut self, number: u64) -> usize {
        let (id, label) = (format!("tsk_{number}"), format!("c{}-{number}", number % 10));
        let client = format!("client-{}", number % 10);
        let key = Some(format!("key-{}", number / 2));
        let mut submit =
            Submit { label: label.clone(), idempotency_key: key, shard_total: 1, ..Submit::default() };
        if number % 2 == 1 {
            // Repeats the one before, whose label and key it has.
            submit.label = format!("c{}-{}", (number - 1) % 10, number - 1);
            self.write(&client, 0, Kind::Invoke, Some(&submit.label), What::Submit(submit.clone()));
            let at = self.tasks.len() - 1;
            self.index += 1;
            let answer = TaskSeen { attempt: 0, cancel_requested: false, ..self.tasks[at].clone() };
            let id = answer.task_id.clone();
            submit.answer = Some(answer);
            self.answer(&client, 0, Some(&id), What::Submit(submit));
            self.events.last_mut().expect("the answer").meta.replayed = true;
            return at;
        }
        self.write(&client, 0, Kind::Invoke, Some(&label), What::Submit(submit.clone()));
        self.index += 1;
        let (created_at_ms, due_at_ms) = (Some(number as i64), Some(number as i64));
        let status = "PENDING".to_owned();
        let seen = TaskSeen {
            task_id: id.clone(),
            status,
            version: 1,
            created_at_ms,
            due_at_ms,
            ..Default::default()
        };
        self.tasks.push(seen.clone());
        submit.answer = Some(seen);
        self.answer(&client, 0, Some(&id), What::Submit(submit));
        self.tasks.len() - 1
    }

    fn read(&mut self, client: u64, at: usize) {
        let client = format!("client-{client}");
        let seen = self.tasks[at].clone();
        let id = seen.task_id.clone();
        self.write(&client, 0, Kind::Invoke, Some(&id), What::Get(Get::default()));
        self.answer(&client, 0, Some(&id), What::Get(Get { answer: Some(seen), last: false }));
    }

    fn cancel_unanswered(&mut self, number: u64, at: usize) {
        let id = self.tasks[at].task_id.clone();
        self.write("client-x", number, Kind::Invoke, Some(&id), What::Cancel(Cancel::default()));
        self.write("client-x", number, Kind::Info, Some(&id), What::Cancel(Cancel::default()));
    }

    fn cancel(&mut self, at: usize) {
        let id = self.tasks[at].task_id.clone();
        self.write("client-0", 0, Kind::Invoke, Some(&id), What::Cancel(Cancel::default()));
        self.change(at, "CANCELLED", 0);
        let answer = Some(self.tasks[at].clone());
        self.answer("client-0", 0, Some(&id), What::Cancel(Cancel { answer }));
    }

    fn list(&mut self) {
        self.write("client-0", 0, Kind::Invoke, None, What::List(List::default()));
        let answer: Vec<TaskSeen> = self.tasks.iter().rev().take(20).cloned().collect();
        let more = self.tasks.len() > 20;
        self.answer("client-0", 0, None, What::List(List { answer: Some(answer), more, ..List::default() }));
    }

    fn probe(&mut self) {
        for (id, node) in [(1, "n1"), (2, "n2"), (3, "n3")] {
            let (applied, last_log, committed) = (self.index, self.index, self.index);
            let serving = (id == 1).then_some(1);
            let digests = [(self.index / 256 * 256, format!("{:016x}", self.index / 256))].into();
            let log_terms = (self.index - 5..=self.index).map(|index| (index, 1)).collect();
            let birth = format!("birth-{node}");
            let told = Probe {
                id,
                birth,
                term: 1,
                round: 1,
                serving,
                last_log,
                committed,
                applied,
                digests,
                log_terms,
                ..Probe::default()
            };
            self.write("probe", 0, Kind::Event, None, What::Probe(told)).node = Some(node.to_owned());
        }
    }

    fn tables(&mut self) {
        for node in ["n1", "n2", "n3"] {
            for at in 0..self.tasks.len() {
                let task = self.tasks[at].clone();
                let row = FinalTask { task, ..FinalTask::default() };
                self.write("probe", 0, Kind::Event, None, What::FinalTask(row)).node = Some(node.to_owned());
            }
            let (applied, digest, tasks) = (self.index, "00ff".to_owned(), self.tasks.len() as u64);
            let end = What::FinalTable(FinalTable { applied, digest, tasks, like: None });
            self.write("probe", 0, Kind::Event, None, end).node = Some(node.to_owned());
        }
    }
}

fn run() -> Vec<Event> {
    let mut writer = Writer::new();
    for number in 0..TASKS {
        let at = writer.submit(number);
        if number % 50 == 0 {
            writer.list();
            writer.probe();
        }
        if number % 40 == 0 {
            writer.cancel(at);
        }
        for read in 0..READS {
            writer.read((number + read) % 10, at);
            match (read, writer.tasks[at].status.as_str()) {
                (2, "PENDING") => writer.change(at, "RUNNING", 1),
                (4, "RUNNING") if number % 2 == 1 => writer.change(at, "SUCCESS", 1),
                (5, _) if number % 3 == 0 => writer.cancel_unanswered(number, at),
                _ => {}
            }
        }
    }
    writer.probe();
    writer.tables();
    writer.events
}

/// The invariants that this history shows.
const SHOWN: [&str; 9] = ["R1", "R2", "R3", "R4", "A1", "A2", "A3", "A4", "A6"];

fn broken(events: Vec<Event>) -> Vec<String> {
    let report = judge(&History::merge(events), &Options::default());
    let shown = report.judgements.into_iter().filter(|judgement| SHOWN.contains(&judgement.id.as_str()));
    shown
        .filter(|judgement| judgement.validity != Validity::Valid)
        .map(|judgement| format!("{}: {:?}", judgement.id, judgement.anomalies.first()))
        .collect()
}

#[test]
fn a_long_history_is_judged_and_one_stale_answer_in_it_is_found() {
    let mut events = run();
    assert!(events.len() >= 100_000, "{} events", events.len());
    assert_eq!(broken(events.clone()), Vec::<String>::new());
    let stale = events
        .iter_mut()
        .rev()
        .find_map(|event| match &mut event.what {
            What::Get(Get { answer: Some(seen), .. }) if seen.status == "SUCCESS" => Some(seen),
            _ => None,
        })
        .expect("some task succeeded");
    (stale.status, stale.version) = ("RUNNING".to_owned(), 2);
    let task = stale.task_id.clone();
    let broken = broken(events);
    let names: Vec<&str> = broken.iter().map(|broken| &broken[..2]).collect();
    assert_eq!(names, ["A2", "A3"], "{broken:?}");
    assert!(broken.iter().all(|broken| broken.contains(&task)), "{broken:?}");
}
