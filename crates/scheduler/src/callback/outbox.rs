//! Which lanes of the outbox are due, and how many sends each may have under way. Pure.
//!
//! A lane is what one caller has for one host. A send needs a place in each of three ways, so that nobody takes what
//! others need:
//!
//! * of its lane and its host: a slow receiver has few;
//! * of its caller, which may have as many under way as are left free: alone half of all, two callers a third each.
//!   So there is a place for whoever comes next, however many hosts the others have;
//! * of the silent ones, when the last send of its lane found nobody: they have half of all together.
//!
//! Of what is due, that of the caller with the fewest sends under way goes first.
//!
//! Memory follows the number of lanes, not that of callbacks: of each lane only the instant of its first entry is
//! known here; the entries themselves are read from the table when their turn comes.

use std::collections::{BTreeMap, BTreeSet};

use orloj_model::callback::lane_parts;
use orloj_model::id::{Millis, TaskId};

/// Sends under way, all together.
const IN_ALL: usize = 64;
/// Sends under way to one host.
pub(crate) const PER_HOST: usize = 4;
/// Sends under way of all silent lanes together: they must not take every place.
const TO_SILENT: usize = 32;
/// Lanes without entries that are remembered because they were silent, about.
const IDLE: usize = 10_000;

#[derive(Debug, Default)]
struct Lane {
    /// When its first entry that is not under way is due.
    next_at: Option<Millis>,
    under_way: BTreeSet<TaskId>,
    /// Its last send had no answer: it gets one place until one has.
    silent: bool,
}

/// What one caller has.
#[derive(Debug, Default)]
struct Caller {
    under_way: usize,
    /// Its lanes with an entry, by when that is due: those that answer, and the silent ones.
    due: [BTreeSet<(Millis, String)>; 2],
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    lanes: BTreeMap<String, Lane>,
    callers: BTreeMap<String, Caller>,
    /// Sends under way to each host.
    hosts: BTreeMap<String, usize>,
    /// Every lane with an entry, by when that is due.
    due: BTreeSet<(Millis, String)>,
    under_way: usize,
    to_silent: usize,
}

impl Outbox {
    /// A lane has an entry that is due at `at`; it may have earlier ones.
    pub(crate) fn heard(&mut self, lane: &str, at: Millis) {
        let known = self.lanes.get(lane).and_then(|lane| lane.next_at);
        self.set_next(lane, Some(known.map_or(at, |known| known.min(at))));
    }

    /// The next lane to read, when one is due and there is a place, with how many of its entries may be sent.
    pub(crate) fn next_due(&self, now: Millis) -> Option<(String, usize)> {
        let of_callers = self.callers.values().filter_map(|caller| {
            let (at, lane, room) = self.next_of(caller, now)?;
            Some(((caller.under_way, at), lane, room))
        });
        of_callers.min_by_key(|(order, ..)| *order).map(|(_, lane, room)| (lane.clone(), room))
    }

    /// The first due lane of a caller for which there is a place: since when, which, and how many places.
    fn next_of<'a>(&self, caller: &'a Caller, now: Millis) -> Option<(Millis, &'a String, usize)> {
        let free = IN_ALL.saturating_sub(self.under_way);
        // With each that it takes there is one free less.
        let share = free.saturating_sub(caller.under_way).div_ceil(2);
        let quiet = share.min(TO_SILENT.saturating_sub(self.to_silent));
        let first = |due: &'a BTreeSet<(Millis, String)>, most: usize| {
            let due = due.iter().take_while(|(at, _)| most > 0 && *at <= now);
            // Those that are passed over have sends under way, which are few.
            due.map(|(at, lane)| (*at, lane, most.min(self.room(lane)))).find(|(.., room)| *room > 0)
        };
        let [answering, silent] = &caller.due;
        first(answering, share).into_iter().chain(first(silent, quiet)).min_by_key(|(at, ..)| *at)
    }

    /// The places of a lane and its host that are free.
    fn room(&self, name: &str) -> usize {
        let to_host = self.hosts.get(lane_parts(name).0).copied().unwrap_or(0);
        let of_host = PER_HOST.saturating_sub(to_host);
        match self.lanes.get(name) {
            Some(lane) if lane.silent => of_host.min(1usize.saturating_sub(lane.under_way.len())),
            _ => of_host,
        }
    }

    /// Whether a send of this task is under way.
    pub(crate) fn is_under_way(&self, lane: &str, task: TaskId) -> bool {
        self.lanes.get(lane).is_some_and(|lane| lane.under_way.contains(&task))
    }

    /// How many sends of a lane are under way.
    pub(crate) fn count(&self, lane: &str) -> usize {
        self.lanes.get(lane).map_or(0, |lane| lane.under_way.len())
    }

    /// A lane was read: these are sent, and the first entry after them is due at `next_at`.
    pub(crate) fn began(&mut self, name: &str, tasks: &[TaskId], next_at: Option<Millis>) {
        let lane = self.lanes.entry(name.to_owned()).or_default();
        let before = lane.under_way.len();
        lane.under_way.extend(tasks);
        let begun = lane.under_way.len() - before;
        self.to_silent += if lane.silent { begun } else { 0 };
        self.under_way += begun;
        if begun > 0 {
            let (host, caller) = lane_parts(name);
            *self.hosts.entry(host.to_owned()).or_default() += begun;
            self.callers.entry(caller.to_owned()).or_default().under_way += begun;
        }
        self.set_next(name, next_at);
    }

    /// A send has ended. `answered` says whether anybody was there; `None` when nothing was sent.
    pub(crate) fn ended(&mut self, name: &str, task: TaskId, answered: Option<bool>) {
        let Some(lane) = self.lanes.get_mut(name) else { return };
        if !lane.under_way.remove(&task) {
            return;
        }
        let (was, left) = (lane.silent, lane.under_way.len());
        let is = answered.map_or(was, |answered| !answered);
        self.unlist(name);
        if let Some(lane) = self.lanes.get_mut(name) {
            lane.silent = is;
        }
        // Those that are still under way change sides with their lane.
        self.to_silent -= if was { left + 1 } else { 0 };
        self.to_silent += if is { left } else { 0 };
        self.under_way -= 1;
        let (host, caller) = lane_parts(name);
        if let Some(count) = self.hosts.get_mut(host) {
            *count -= 1;
            if *count == 0 {
                self.hosts.remove(host);
            }
        }
        if let Some(caller) = self.callers.get_mut(caller) {
            caller.under_way -= 1;
        }
        self.list(name);
    }

    /// When a lane is due next after `now`. For those that are due already there is no place: the end of a send makes
    /// one.
    pub(crate) fn next_wake(&self, now: Millis) -> Option<Millis> {
        self.due.range((now.saturating_add(1), String::new())..).next().map(|(at, _)| *at)
    }

    fn set_next(&mut self, name: &str, next_at: Option<Millis>) {
        self.unlist(name);
        self.lanes.entry(name.to_owned()).or_default().next_at = next_at;
        self.list(name);
    }

    /// Takes a lane out of the order of what is due.
    fn unlist(&mut self, name: &str) {
        let Some(lane) = self.lanes.get(name) else { return };
        let Some(at) = lane.next_at else { return };
        let entry = (at, name.to_owned());
        self.due.remove(&entry);
        if let Some(caller) = self.callers.get_mut(lane_parts(name).1) {
            caller.due[usize::from(lane.silent)].remove(&entry);
        }
    }

    /// Puts it there again. A lane of which nothing needs to be known is forgotten, and so is such a caller.
    fn list(&mut self, name: &str) {
        let Some(lane) = self.lanes.get(name) else { return };
        let caller = lane_parts(name).1;
        match lane.next_at {
            Some(at) => {
                let of_caller = &mut self.callers.entry(caller.to_owned()).or_default().due;
                of_caller[usize::from(lane.silent)].insert((at, name.to_owned()));
                self.due.insert((at, name.to_owned()));
            }
            // A silent one is remembered, in bounds: its next entry may be heard of only now.
            None if lane.under_way.is_empty()
                && (!lane.silent || self.due.len() + IDLE < self.lanes.len()) =>
            {
                self.lanes.remove(name);
            }
            None => {}
        }
        let idle = |caller: &Caller| caller.under_way == 0 && caller.due.iter().all(BTreeSet::is_empty);
        if self.callers.get(caller).is_some_and(idle) {
            self.callers.remove(caller);
        }
    }
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
