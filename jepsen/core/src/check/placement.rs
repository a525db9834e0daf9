//! D10: placement follows the ring.

use std::collections::{BTreeMap, BTreeSet};

use super::Options;
use crate::attempts::{Life, Tasks};
use crate::clocks::Clocks;
use crate::event::{Event, Grant, Recv, What};
use crate::faults::disturbed;
use crate::history::History;
use crate::ring::owner;
use crate::spans::MS;
use crate::verdict::Judgement;

/// How long a push may take, in ms, where the clocks do not tell how long it took.
const PUSH_MS: u64 = 400;
/// Beside that: what an executor gave back so shortly before may have counted as held when the attempt was placed, in ms.
const GIVEN_BACK_MS: u64 = 100;

/// D10. A first attempt goes to the executor to which its key belongs on the ring of those that live, if that one held
/// nothing when it was placed: then it has a slot, and no bound on load keeps it out. The ring is worked out apart from
/// the product; the key is the routing key, the job, or the handler. Tasks of several shards or of another strategy are
/// left out, and so is what was placed near a fault, or while the owner's last word was that it has no room.
///
/// `looked_at` counts the attempts that were judged, `keys` their different keys, and `executors` to how many executors
/// they belong.
pub fn follows_the_ring(history: &History, options: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("D10");
    let tasks = Tasks::of(history);
    let clocks = Clocks::of(history, options.clock_noise_ms);
    let near_faults = disturbed(history, options, |_| true);
    let coming = Coming::of(history);
    let unpushed = Unpushed::of(&tasks);
    let mut fleet = Fleet::default();
    let mut owners: BTreeMap<(Vec<&str>, &str), &str> = BTreeMap::new();
    let (mut keys, mut executors) = (BTreeSet::new(), BTreeSet::new());
    let mut looked_at = 0_u64;
    for event in history.events() {
        if let What::Recv(recv) = &event.what
            && recv.verdict == "accepted"
            && !near_faults.touch(event.mono_ns, event.mono_ns)
            && let Some(life) = tasks.by_id.get(recv.grant.task.as_str())
            && let Some(key) = key_of(recv, life)
        {
            let living: Vec<&str> = fleet.living.keys().copied().collect();
            let owner = *owners.entry((living, key)).or_insert_with_key(|(living, key)| owner(living, key));
            let since = event
                .mono_ns
                .saturating_sub((push_ms(event.mono_ns, recv, life, &clocks) + GIVEN_BACK_MS) * MS);
            if fleet.was_idle(owner, since)
                && !coming.has_older(owner, event, recv)
                && !unpushed.counted(owner, &recv.grant, granted_at_ms(recv, life))
            {
                looked_at += 1;
                keys.insert(key);
                executors.insert(owner);
                if owner != recv.executor {
                    let went = &recv.executor;
                    let what = format!(
                        "its key {key:?} belongs to {owner}, which held nothing, and it went to {went}"
                    );
                    word.violated(what, Some(&recv.grant.task), &[event.i]);
                }
            }
        }
        fleet.take(event);
    }
    word.stat("looked_at", looked_at as f64);
    word.stat("keys", keys.len() as f64);
    word.stat("executors", executors.len() as f64);
    vec![word]
}

/// The key by which an attempt is placed, where that is by the ring alone.
fn key_of<'a>(recv: &Recv, life: &Life<'a>) -> Option<&'a str> {
    let request = life.request()?;
    let is_plain = recv.grant.attempt == 1 && request.shard_total <= 1 && !request.broadcast;
    let key = request.routing_key.as_deref().or(life.job.map(|job| job.job.as_str()));
    // Of one without a key it must be known that it is not pinned.
    let key = key.or((request.anywhere == Some(true)).then_some(request.handler.as_str()));
    key.filter(|_| is_plain)
}

/// When an attempt was granted, by the cluster, where a table tells it.
fn granted_at_ms(recv: &Recv, life: &Life<'_>) -> Option<i64> {
    let one = life.tries.get(&(recv.grant.shard, recv.grant.attempt))?;
    one.rows.first().map(|(_, row)| row.granted_at_ms)
}

/// From the grant of an attempt to its arrival, in ms.
fn push_ms(mono_ns: u64, recv: &Recv, life: &Life<'_>, clocks: &Clocks) -> u64 {
    match granted_at_ms(recv, life) {
        Some(granted_at_ms) if !clocks.stepped_by(mono_ns) => {
            u64::try_from(recv.wall_ms - granted_at_ms).unwrap_or(0)
        }
        _ => PUSH_MS,
    }
}

/// What an executor holds, or has no acknowledgement for.
#[derive(Default)]
struct Holder<'a> {
    held: BTreeSet<&'a Grant>,
    /// Something has been pushed to this life of it: the leader knows it.
    is_known: bool,
    /// Its last word to the leader is that it has no room.
    said_full: bool,
    /// When it last gave something back, told of its room, or began its life, in ns.
    changed_ns: u64,
}

/// The executors that live.
#[derive(Default)]
struct Fleet<'a> {
    living: BTreeMap<&'a str, Holder<'a>>,
}

impl<'a> Fleet<'a> {
    fn was_idle(&self, executor: &str, since: u64) -> bool {
        let is_idle = |holder: &Holder<'_>| {
            holder.is_known && !holder.said_full && holder.held.is_empty() && holder.changed_ns < since
        };
        self.living.get(executor).is_some_and(is_idle)
    }

    fn take(&mut self, event: &'a Event) {
        match &event.what {
            What::ExecutorUp(up) => {
                let holder = Holder { changed_ns: event.mono_ns, ..Holder::default() };
                self.living.insert(&up.executor, holder);
            }
            What::ExecutorDown(down) => {
                self.living.remove(down.executor.as_str());
            }
            What::Recv(recv) if recv.verdict != "refused" => {
                if let Some(holder) = self.living.get_mut(recv.executor.as_str()) {
                    holder.is_known = true;
                    holder.held.insert(&recv.grant);
                }
            }
            What::RoomSaid(said) => {
                if let Some(holder) = self.living.get_mut(said.executor.as_str()) {
                    holder.said_full = !said.room;
                    holder.changed_ns = event.mono_ns;
                }
            }
            What::ReportAcked(acked) => self.give_back(&acked.executor, &acked.grant, event),
            What::Finish(end) if end.outcome == "dropped" => self.give_back(&end.executor, &end.grant, event),
            _ => {}
        }
    }

    fn give_back(&mut self, executor: &str, grant: &Grant, event: &Event) {
        if let Some(holder) = self.living.get_mut(executor) {
            holder.held.remove(grant);
            holder.changed_ns = event.mono_ns;
        }
    }
}

/// The pushes that come later to each executor: an attempt that was granted before another may arrive after it.
struct Coming<'a> {
    /// The last one first: the event, and the oldest grant among it and those after it.
    by_executor: BTreeMap<&'a str, Vec<(u64, u64)>>,
}

impl<'a> Coming<'a> {
    fn of(history: &'a History) -> Coming<'a> {
        let mut by_executor: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
        for event in history.events().iter().rev() {
            if let What::Recv(recv) = &event.what {
                let seen = by_executor.entry(&recv.executor).or_default();
                let oldest = seen.last().map_or(u64::MAX, |(_, oldest)| *oldest);
                seen.push((event.i, oldest.min(recv.grant.fence)));
            }
        }
        Coming { by_executor }
    }

    /// Whether something that was granted no later than this arrives at the executor after it.
    fn has_older(&self, executor: &str, event: &Event, recv: &Recv) -> bool {
        let Some(seen) = self.by_executor.get(executor) else { return false };
        let later = seen.partition_point(|(other, _)| *other > event.i);
        later.checked_sub(1).is_some_and(|at| seen[at].1 <= recv.grant.fence)
    }
}

/// Attempts that were granted and never pushed, of which only the tables tell: one whose task is cancelled before its push
/// counts as held until its executor has answered the stop.
struct Unpushed<'a> {
    /// The fence of each, and when it ended by the cluster.
    by_executor: BTreeMap<&'a str, Vec<(u64, Option<i64>)>>,
}

impl<'a> Unpushed<'a> {
    fn of(tasks: &Tasks<'a>) -> Unpushed<'a> {
        let mut by_executor: BTreeMap<&str, Vec<(u64, Option<i64>)>> = BTreeMap::new();
        for one in tasks.by_id.values().flat_map(|life| life.tries.values()) {
            if let Some((_, row)) = one.rows.first()
                && !one.receipts.iter().any(|(_, recv)| recv.grant.fence == row.fence)
            {
                by_executor.entry(&row.executor).or_default().push((row.fence, row.ended_at_ms));
            }
        }
        Unpushed { by_executor }
    }

    /// Whether one of them counted as held by the executor when this was granted, as far as can be told.
    fn counted(&self, executor: &str, grant: &Grant, granted_at_ms: Option<i64>) -> bool {
        let over = |ended_at_ms: Option<i64>| {
            let shortly_before = granted_at_ms.map(|at| at.saturating_sub_unsigned(GIVEN_BACK_MS));
            ended_at_ms.zip(shortly_before).is_some_and(|(ended, granted)| ended < granted)
        };
        let unpushed = self.by_executor.get(executor).map_or(&[][..], Vec::as_slice);
        unpushed.iter().any(|(fence, ended_at_ms)| *fence <= grant.fence && !over(*ended_at_ms))
    }
}
