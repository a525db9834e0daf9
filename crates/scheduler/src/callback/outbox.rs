//! Which hosts of the outbox are due, and how many sends each may have under way. Pure.
//!
//! Memory follows the number of hosts, not that of callbacks: of each host only the instant of its first entry is
//! known here; the entries themselves are read from the table when their turn comes.

use std::collections::{BTreeMap, BTreeSet};

use orloj_model::id::{Millis, TaskId};

/// Sends under way, all hosts together.
const IN_ALL: usize = 64;
/// Sends under way to one host.
pub(crate) const PER_HOST: usize = 4;
/// Sends under way to all hosts together whose last send found nobody: they must not take every place.
const TO_SILENT: usize = 32;

/// Hosts without entries that are remembered because they were silent, about.
const IDLE: usize = 10_000;

#[derive(Debug, Default)]
struct Host {
    /// When its first entry that is not under way is due.
    next_at: Option<Millis>,
    under_way: BTreeSet<TaskId>,
    /// Its last send had no answer: it gets one place until one has.
    silent: bool,
}

impl Host {
    fn places(&self) -> usize {
        if self.silent { 1 } else { PER_HOST }
    }

    fn room(&self) -> usize {
        self.places().saturating_sub(self.under_way.len())
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    hosts: BTreeMap<String, Host>,
    /// Hosts with room, by when they are due.
    due: BTreeSet<(Millis, String)>,
    under_way: usize,
    to_silent: usize,
}

impl Outbox {
    /// A host has an entry that is due at `at`; it may have earlier ones.
    pub(crate) fn heard(&mut self, host: &str, at: Millis) {
        let known = self.hosts.get(host).and_then(|host| host.next_at);
        self.set_next(host, Some(known.map_or(at, |known| known.min(at))));
    }

    /// The next host to read, when one is due and there is a place, with how many of its entries may be sent.
    pub(crate) fn next_due(&self, now: Millis) -> Option<(String, usize)> {
        let due = self.due.iter().take_while(|(at, _)| *at <= now);
        due.map(|(_, name)| (name, &self.hosts[name])).find_map(|(name, host)| {
            let places = IN_ALL.saturating_sub(self.under_way);
            let room = match host.silent {
                true => places.min(TO_SILENT.saturating_sub(self.to_silent)),
                false => places,
            };
            let room = room.min(host.room());
            (room > 0).then(|| (name.clone(), room))
        })
    }

    /// Whether a send of this task is under way.
    pub(crate) fn is_under_way(&self, host: &str, task: TaskId) -> bool {
        self.hosts.get(host).is_some_and(|host| host.under_way.contains(&task))
    }

    /// How many sends to a host are under way.
    pub(crate) fn count(&self, host: &str) -> usize {
        self.hosts.get(host).map_or(0, |host| host.under_way.len())
    }

    /// A host was read: these are sent, and the first entry after them is due at `next_at`.
    pub(crate) fn began(&mut self, host: &str, tasks: &[TaskId], next_at: Option<Millis>) {
        let row = self.hosts.entry(host.to_owned()).or_default();
        row.under_way.extend(tasks);
        self.under_way += tasks.len();
        if row.silent {
            self.to_silent += tasks.len();
        }
        self.set_next(host, next_at);
    }

    /// A send has ended. `answered` says whether anybody was there; `None` when nothing was sent.
    pub(crate) fn ended(&mut self, host: &str, task: TaskId, answered: Option<bool>) {
        let Some(row) = self.hosts.get_mut(host) else { return };
        if !row.under_way.remove(&task) {
            return;
        }
        self.under_way -= 1;
        let (was, left) = (row.silent, row.under_way.len());
        row.silent = answered.map_or(was, |answered| !answered);
        // Those that are still under way change sides with their host.
        self.to_silent -= if was { left + 1 } else { 0 };
        self.to_silent += if row.silent { left } else { 0 };
        let next_at = row.next_at;
        self.set_next(host, next_at);
    }

    /// When a host with room is due next after `now`. For those that are due already there is no place: the end of a
    /// send makes one.
    pub(crate) fn next_wake(&self, now: Millis) -> Option<Millis> {
        self.due.range((now.saturating_add(1), String::new())..).next().map(|(at, _)| *at)
    }

    fn set_next(&mut self, name: &str, next_at: Option<Millis>) {
        let known = self.hosts.len();
        let host = self.hosts.entry(name.to_owned()).or_default();
        if let Some(at) = host.next_at {
            self.due.remove(&(at, name.to_owned()));
        }
        host.next_at = next_at;
        match next_at {
            Some(at) if host.room() > 0 => {
                self.due.insert((at, name.to_owned()));
            }
            // Of a silent one that is remembered, in bounds: its next entry may be heard of only now.
            None if host.under_way.is_empty() && (!host.silent || self.due.len() + IDLE < known) => {
                self.hosts.remove(name);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(number: u8) -> TaskId {
        TaskId([number; 16])
    }

    #[test]
    fn a_host_is_due_from_its_first_instant_on() {
        let mut outbox = Outbox::default();
        outbox.heard("a", 100);
        outbox.heard("a", 50);
        outbox.heard("a", 70);
        assert_eq!((outbox.next_wake(49), outbox.next_due(49)), (Some(50), None));
        assert_eq!(outbox.next_wake(50), None, "it is due, and waits for nothing but a place");
        assert_eq!(outbox.next_due(50), Some(("a".to_owned(), PER_HOST)));
        outbox.began("a", &[], None);
        assert_eq!(
            (outbox.next_wake(0), outbox.hosts.len()),
            (None, 0),
            "nothing is kept of a host without entries"
        );
    }

    #[test]
    fn b114_one_slow_receiver_holds_up_nobody() {
        let mut outbox = Outbox::default();
        outbox.heard("slow", 0);
        let four: Vec<_> = (0..4).map(task).collect();
        outbox.began("slow", &four, Some(0));
        assert_eq!(outbox.next_due(9), None, "its places are taken");
        outbox.heard("quick", 5);
        assert_eq!(outbox.next_due(9), Some(("quick".to_owned(), PER_HOST)));
        outbox.ended("slow", task(0), Some(true));
        assert_eq!(outbox.next_due(9), Some(("slow".to_owned(), 1)));
    }

    #[test]
    fn dead_receivers_do_not_take_every_place() {
        let mut outbox = Outbox::default();
        let hosts: Vec<String> = (0..100).map(|number| format!("dead-{number:03}")).collect();
        for host in &hosts {
            outbox.heard(host, 0);
            outbox.began(host, &[task(1)], Some(0));
            outbox.ended(host, task(1), Some(false));
        }
        let mut begun = 0;
        while let Some((host, room)) = outbox.next_due(1) {
            assert_eq!(room, 1, "one place for one that does not answer");
            outbox.began(&host, &[task(2)], Some(0));
            begun += 1;
        }
        assert_eq!(begun, TO_SILENT);
        outbox.heard("alive", 0);
        assert_eq!(outbox.next_due(1), Some(("alive".to_owned(), PER_HOST)));
        // One that answers again is like any other.
        outbox.ended("dead-000", task(2), Some(true));
        assert_eq!(outbox.hosts["dead-000"].places(), PER_HOST);
        assert_eq!(outbox.to_silent, TO_SILENT - 1);
    }

    #[test]
    fn all_hosts_together_have_a_bound() {
        let mut outbox = Outbox::default();
        let mut begun = 0;
        for number in 0..100u8 {
            outbox.heard(&format!("h{number}"), 0);
        }
        while let Some((host, room)) = outbox.next_due(0) {
            let tasks: Vec<_> = (0..room as u8).map(task).collect();
            begun += tasks.len();
            outbox.began(&host, &tasks, Some(0));
        }
        assert_eq!(begun, IN_ALL);
        assert!(outbox.is_under_way("h0", task(0)) && outbox.count("h0") == PER_HOST);
    }
}
