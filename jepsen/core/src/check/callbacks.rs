//! W2: the end of a task is announced after it, until somebody has heard of it and no longer, and never more than four
//! times.

use std::collections::BTreeMap;

use super::Options;
use crate::attempts::{Life, OpenReads, Tasks};
use crate::clocks::Clocks;
use crate::event::{Callback, CallbackState, Event, TaskSeen, What};
use crate::faults::in_force;
use crate::history::{History, Operation};
use crate::leaders::Leaders;
use crate::spans::{MS, Spans};
use crate::verdict::Judgement;

/// The most sends of one announcement.
const MOST_SENDS: u64 = 4;
/// An announcement that is due may wait so long, in ms, beside the time in which faults are in force: a send that is lost
/// is given up after a while, and each host has a few places alone.
const PATIENCE_MS: u64 = 60_000;
/// A send has its answer, or none, within so many ms, and is written down within so many more.
const UNDER_WAY_MS: u64 = 15_000;

/// W2. Of every callback that the sink recorded: its signature is right; it tells of a task that asked for one, with the
/// status, the version and the end that the tables have; it came after the report that decided the task was sent, and no
/// read that began after it found the task open; one task has at most four; and none follows one that was answered with
/// 2xx, unless the leader changed or a fault was in force about then, so that its answer or what was known of it can be
/// lost. And of every task that asked for one and was read at the end: if it is delivered the sink has answered one with 2xx; if it has failed there were four sends; and
/// one that is still to be sent is not overdue.
///
/// `delivered` counts those that were delivered, `again` sends after the first, `unheard` sends that had no good answer,
/// `heard_and_sent_again` sends after one that was answered with 2xx.
pub fn announced(history: &History, options: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("W2");
    let tasks = Tasks::of(history);
    let mut arrivals: BTreeMap<&str, Vec<(&Event, &Callback)>> = BTreeMap::new();
    let mut heard_and_sent_again = 0_u64;
    for event in history.events() {
        if let What::Callback(callback) = &event.what {
            arrivals.entry(&callback.task).or_default().push((event, callback));
        }
    }
    let open = OpenReads::of(history);
    let excuses = excuses(history);
    for (task, sends) in &arrivals {
        let life = tasks.by_id.get(task);
        let judged = sends.iter().find_map(|send| wrong(*send, life, &open));
        if let Some((what, events)) = judged {
            word.violated(what, Some(task), &events);
        }
        if sends.len() as u64 > MOST_SENDS {
            let events: Vec<u64> = sends.iter().map(|(event, _)| event.i).collect();
            word.violated(format!("it was announced {} times", sends.len()), Some(task), &events);
        }
        let in_vain = sends.windows(2).filter(|pair| is_good(pair[0].1));
        for pair in in_vain {
            let (heard, again) = (pair[0].0, pair[1].0);
            heard_and_sent_again += 1;
            if !excuses.touch(heard.mono_ns, again.mono_ns) {
                let answered = pair[0].1.answered;
                let what = format!("it was announced again after an answer with {answered}, for no reason");
                word.violated(what, Some(task), &[heard.i, again.i]);
            }
        }
    }
    let owed =
        Owed { clocks: Clocks::of(history, options.clock_noise_ms), troubled: in_force(history), options };
    let mut delivered = 0_u64;
    for (event, seen) in last_reads(history) {
        let task = seen.task_id.as_str();
        let asked = tasks.by_id.get(task).and_then(Life::request).is_some_and(|request| request.callback);
        if !asked || !seen.is_terminal() {
            continue;
        }
        let sends = arrivals.get(task).map_or(&[][..], Vec::as_slice);
        delivered += u64::from(seen.callback.as_ref().is_some_and(|callback| callback.state == "delivered"));
        if let Some(what) = owed.missing(event, seen, sends) {
            word.violated(what, Some(task), &[event.i]);
        }
    }
    let sends = arrivals.values().flatten();
    word.stat("looked_at", arrivals.len() as f64);
    word.stat("unheard", sends.filter(|(_, callback)| !is_good(callback)).count() as f64);
    word.stat("again", arrivals.values().map(|sends| sends.len() - 1).sum::<usize>() as f64);
    word.stat("delivered", delivered as f64);
    word.stat("heard_and_sent_again", heard_and_sent_again as f64);
    vec![word]
}

type Found = (String, Vec<u64>);

fn is_good(callback: &Callback) -> bool {
    (200..300).contains(&callback.answered)
}

/// The time in which a send that was heard may be made again: about faults and changes of the leader.
fn excuses(history: &History) -> Spans {
    let leaders = Leaders::of(history);
    let changes = leaders.reigns().iter().skip(1).map(|reign| (reign.first_ns, reign.first_ns));
    let around = Spans::of(changes).and(&in_force(history));
    around.followed_by(UNDER_WAY_MS * MS)
}

/// What is wrong with one send.
fn wrong(send: (&Event, &Callback), life: Option<&Life<'_>>, open: &OpenReads<'_>) -> Option<Found> {
    let (event, callback) = send;
    if !callback.signed {
        return Some(("a callback has a wrong signature, or none".to_owned(), vec![event.i]));
    }
    let told = TaskSeen { status: callback.status.clone(), ..TaskSeen::default() };
    if !told.is_terminal() {
        return Some((format!("a callback tells of a task that is {}", callback.status), vec![event.i]));
    }
    let Some(life) = life else {
        return Some(("a callback tells of a task that nobody knows".to_owned(), vec![event.i]));
    };
    if life.request().is_some_and(|request| !request.callback) {
        return Some(("it was announced, and nobody had asked for that".to_owned(), vec![event.i]));
    }
    if let Some(read) = open.after(&callback.task, event.mono_ns) {
        return Some(("it was announced, and was still open after that".to_owned(), vec![event.i, read]));
    }
    if let Some(later) = life.decided().filter(|sent| sent.mono_ns > event.mono_ns) {
        return Some(("it was announced before a report of it was sent".to_owned(), vec![event.i, later.i]));
    }
    let (row, last) = life.finals.first()?;
    let table = (last.task.status.as_str(), last.task.version, last.task.finished_at_ms);
    let said = (callback.status.as_str(), callback.version, callback.finished_at_ms);
    (table != said)
        .then(|| (format!("it was announced as {said:?}, and the table has {table:?}"), vec![event.i, row.i]))
}

/// The last read of each task in the final phase.
fn last_reads(history: &History) -> Vec<(&Event, &TaskSeen)> {
    let mut last: BTreeMap<&str, (&Event, &TaskSeen)> = BTreeMap::new();
    for operation in history.operations() {
        if let Some((end, seen)) = last_read(operation) {
            last.insert(&seen.task_id, (end, seen));
        }
    }
    last.into_values().collect()
}

fn last_read(operation: Operation<'_>) -> Option<(&Event, &TaskSeen)> {
    let end = operation.ok()?;
    let What::Get(get) = &end.what else { return None };
    Some((end, get.answer.as_ref().filter(|_| get.last)?))
}

/// What a task that has ended is owed.
struct Owed<'a> {
    clocks: Clocks,
    troubled: Spans,
    options: &'a Options,
}

impl Owed<'_> {
    fn missing(&self, event: &Event, seen: &TaskSeen, sends: &[(&Event, &Callback)]) -> Option<String> {
        let Some(callback) = &seen.callback else {
            return Some("it asked for a callback, and has none".to_owned());
        };
        match callback.state.as_str() {
            "delivered" if !sends.iter().any(|(_, send)| is_good(send)) => {
                Some("its callback counts as delivered, and the sink has answered none well".to_owned())
            }
            "delivered" => None,
            "failed" if callback.sends < MOST_SENDS => {
                let (sends, why) = (callback.sends, callback.last_error.as_deref().unwrap_or_default());
                Some(format!("its callback was given up after {sends} sends: {why}"))
            }
            "failed" => None,
            "pending" => self.overdue(event, callback),
            other => Some(format!("it has ended, and its callback is {other:?}")),
        }
    }

    /// Of one that is still to be sent: whether it should have been long ago.
    fn overdue(&self, event: &Event, callback: &CallbackState) -> Option<String> {
        let Some(next_ms) = callback.next_at_ms else {
            return Some("its callback is to be sent, at no time".to_owned());
        };
        if self.clocks.stepped() {
            // By the cluster's time, of which the harness knows too little here.
            return None;
        }
        let late_ms = u64::try_from(self.clocks.wall_ms(event.mono_ns)? - next_ms).unwrap_or(0);
        let due_ns = event.mono_ns.saturating_sub(late_ms.saturating_mul(MS));
        let held_up_ms = self.troubled.covered(due_ns, event.mono_ns) / MS;
        let waited_ms = late_ms.saturating_sub(held_up_ms);
        (waited_ms > PATIENCE_MS + self.options.recovery_ms)
            .then(|| format!("its callback is due since {waited_ms} ms, not counting faults"))
    }
}
