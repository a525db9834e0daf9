//! What the log knows without asking the disk: its bounds, its vote, and its newest entries. Pure.
//!
//! Replication, apply and the follower's own checks all read what was just appended. The tail serves them
//! without decoding anything and, above all, before the disk has it: an entry is readable from the moment
//! that append returns.

use std::collections::VecDeque;
use std::ops::Range;

use crate::error::Fault;
use crate::types::{Entry, LogId, LogState, Vote};

/// Number of an append within the life of the process; the writer confirms them in order.
pub(super) type Ticket = u64;

/// What an entry of the tail takes besides its encoded bytes: its slot, and the header of the bytes with what the
/// allocator adds.
const SLOT_BYTES: usize = size_of::<Slot>() + 64;

#[derive(Debug)]
struct Slot {
    entry: Entry,
    bytes: usize,
    ticket: Ticket,
}

/// The log's bounds, vote and tail.
#[derive(Debug)]
pub(super) struct Memory {
    vote: Option<Vote>,
    purged: Option<LogId>,
    last: Option<LogId>,
    first: u64,
    tail: VecDeque<Slot>,
    /// Encoded, and [`SLOT_BYTES`] for each.
    tail_bytes: usize,
    tail_limit: usize,
    ticket: Ticket,
    written: Ticket,
}

/// Where the entries of a range are.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    /// Indexes that only the disk has; they come before `warm`.
    pub(super) cold: Range<u64>,
    /// Entries of the tail.
    pub(super) warm: Vec<Entry>,
}

impl Memory {
    /// An empty tail of at most `tail_limit` bytes in memory. Entries that the disk does not have yet stay
    /// beyond the limit.
    pub(super) fn new(vote: Option<Vote>, purged: Option<LogId>, tail_limit: usize) -> Memory {
        Memory {
            vote,
            purged,
            last: purged,
            first: purged.map_or(0, |id| id.index + 1),
            tail: VecDeque::new(),
            tail_bytes: 0,
            tail_limit,
            ticket: 0,
            written: 0,
        }
    }

    pub(super) fn vote(&self) -> Option<Vote> {
        self.vote
    }

    pub(super) fn set_vote(&mut self, vote: Vote) {
        self.vote = Some(vote);
    }

    pub(super) fn state(&self) -> LogState {
        LogState { last_purged_log_id: self.purged, last_log_id: self.last }
    }

    /// Entries of the tail, and the bytes that they take in memory.
    pub(super) fn tail_size(&self) -> (usize, usize) {
        (self.tail.len(), self.tail_bytes)
    }

    /// The index of the next entry.
    pub(super) fn next_index(&self) -> u64 {
        self.last.map_or(0, |id| id.index + 1).max(self.first)
    }

    /// The index of the first entry that has not been purged.
    pub(super) fn first_index(&self) -> u64 {
        self.first
    }

    fn tail_start(&self) -> u64 {
        self.next_index() - self.tail.len() as u64
    }

    /// Takes entries with their encoded sizes. An empty log that was never purged begins wherever its first
    /// entry is, which is then answered too when it is not where it would have begun.
    ///
    /// # Errors
    /// They do not continue the log; nothing is taken then.
    pub(super) fn append(&mut self, entries: Vec<(Entry, usize)>) -> Result<(Ticket, Option<u64>), Fault> {
        let start = match (self.last, entries.first()) {
            (None, Some((entry, _))) => entry.log_id.index,
            _ => self.next_index(),
        };
        for (index, (entry, _)) in (start..).zip(&entries) {
            if entry.log_id.index != index {
                let found = entry.log_id.index;
                return Err(Fault::Misuse(format!("entry {found} where entry {index} is next")));
            }
        }
        let moved = self.last.is_none() && start != self.first;
        if moved {
            self.first = start;
        }
        self.ticket += 1;
        for (entry, bytes) in entries {
            self.push(entry, bytes, self.ticket);
        }
        Ok((self.ticket, moved.then_some(start)))
    }

    /// Lets a log begin later, while it is opened and no entry has been restored yet.
    pub(super) fn begin_at(&mut self, start: u64) {
        if self.last == self.purged {
            self.first = self.first.max(start);
        }
    }

    /// Takes an entry that the disk has, while the log is opened.
    pub(super) fn restore(&mut self, entry: Entry, bytes: usize) {
        self.push(entry, bytes, self.written);
        self.evict();
    }

    fn push(&mut self, entry: Entry, bytes: usize, ticket: Ticket) {
        self.last = Some(entry.log_id);
        self.tail.push_back(Slot { entry, bytes, ticket });
        self.tail_bytes += bytes + SLOT_BYTES;
    }

    /// The disk has everything up to this append.
    pub(super) fn confirm(&mut self, ticket: Ticket) {
        self.written = self.written.max(ticket);
        self.evict();
    }

    /// Drops what is above the limit, oldest first, but only what the disk has.
    fn evict(&mut self) {
        while self.tail_bytes > self.tail_limit
            && let Some(slot) = self.tail.front()
            && slot.ticket <= self.written
        {
            self.tail_bytes -= slot.bytes + SLOT_BYTES;
            self.tail.pop_front();
        }
    }

    /// Drops the entries after `last`. Answers the indexes that were dropped.
    ///
    /// # Errors
    /// It would cut into what has been purged.
    pub(super) fn truncate_after(&mut self, last: Option<LogId>) -> Result<Range<u64>, Fault> {
        let floor = if self.purged.is_none() { self.first } else { 0 };
        let keep = last.map_or(floor, |id| id.index + 1);
        let end = self.next_index();
        if keep < self.first {
            let first = self.first;
            return Err(Fault::Misuse(format!("truncation to before entry {first}, which is the first")));
        }
        if keep >= end {
            return Ok(end..end);
        }
        let start = self.tail_start();
        while self.tail.len() as u64 > keep.saturating_sub(start) {
            self.tail_bytes -= self.tail.pop_back().map_or(0, |slot| slot.bytes + SLOT_BYTES);
        }
        self.last = last;
        Ok(keep..end)
    }

    /// Forgets the entries up to `upto`, which may be beyond the last one after a snapshot was installed.
    /// Answers the indexes that were dropped, perhaps none; `None` when all of this had been purged before.
    pub(super) fn purge(&mut self, upto: LogId) -> Option<Range<u64>> {
        if self.purged.is_some_and(|purged| upto.index <= purged.index) {
            return None;
        }
        let dropped = self.first..self.first.max(upto.index + 1);
        let warm = (upto.index + 1).saturating_sub(self.tail_start()).min(self.tail.len() as u64);
        for slot in self.tail.drain(..warm as usize) {
            self.tail_bytes -= slot.bytes + SLOT_BYTES;
        }
        self.purged = Some(upto);
        self.first = dropped.end;
        if self.last.is_none_or(|last| last.index <= upto.index) {
            // At an equal index the purge point names the entry that counts.
            self.last = Some(upto);
            self.first = upto.index + 1;
        }
        Some(dropped)
    }

    /// Finds what the log has of a range. The tail's part is cut at `max_bytes`, but never empty when there
    /// is any of it and nothing cold before it.
    pub(super) fn plan(&self, range: Range<u64>, max_bytes: usize) -> Plan {
        let start = range.start.max(self.first_index());
        let end = range.end.min(self.next_index());
        let tail_start = self.tail_start();
        if start >= end {
            return Plan { cold: 0..0, warm: Vec::new() };
        }
        let cold = start.min(tail_start)..end.min(tail_start).max(start.min(tail_start));
        let from = start.max(tail_start);
        let mut warm = Vec::new();
        let mut bytes = 0;
        for slot in self.tail.range((from - tail_start) as usize..(end.max(from) - tail_start) as usize) {
            bytes += slot.bytes;
            if bytes > max_bytes && !warm.is_empty() {
                break;
            }
            warm.push(slot.entry.clone());
        }
        Plan { cold, warm }
    }
}

#[cfg(test)]
mod tests {
    use openraft::entry::RaftEntry;
    use openraft::vote::RaftLeaderId;

    use super::*;
    use crate::types::LeaderId;

    fn id(index: u64) -> LogId {
        LogId { leader_id: LeaderId::new(1, 1), index }
    }

    fn entries(range: Range<u64>) -> Vec<(Entry, usize)> {
        range.map(|index| (Entry::new_blank(id(index)), 10)).collect()
    }

    fn indexes(plan: &Plan) -> Vec<u64> {
        plan.warm.iter().map(|entry| entry.log_id.index).collect()
    }

    fn filled(count: u64, limit: usize) -> Memory {
        let mut memory = Memory::new(None, None, limit);
        memory.append(entries(0..count)).unwrap();
        memory
    }

    #[test]
    fn entries_are_readable_before_they_are_written() {
        let memory = filled(5, 0);
        let plan = memory.plan(1..4, usize::MAX);
        assert_eq!((plan.cold.is_empty(), indexes(&plan)), (true, vec![1, 2, 3]));
    }

    #[test]
    fn only_confirmed_entries_leave_the_tail() {
        let mut memory = Memory::new(None, None, 15);
        let (first, _) = memory.append(entries(0..3)).unwrap();
        memory.append(entries(3..6)).unwrap();
        memory.confirm(first);
        assert_eq!(memory.tail_size(), (3, 3 * (10 + SLOT_BYTES)), "over the limit, but not on disk yet");
        let plan = memory.plan(0..6, usize::MAX);
        assert_eq!((plan.cold.clone(), indexes(&plan)), (0..3, vec![3, 4, 5]));
    }

    #[test]
    fn many_small_entries_are_counted_with_what_each_takes_beside_its_bytes() {
        let mut memory = Memory::new(None, None, 4 * (10 + SLOT_BYTES));
        let (ticket, _) = memory.append(entries(0..100)).unwrap();
        memory.confirm(ticket);
        assert_eq!(memory.tail_size(), (4, 4 * (10 + SLOT_BYTES)));
    }

    #[test]
    fn a_confirmation_of_truncated_entries_does_not_evict_their_successors() {
        let mut memory = Memory::new(None, None, 0);
        let (old, _) = memory.append(entries(0..3)).unwrap();
        memory.truncate_after(Some(id(0))).unwrap();
        memory.append(entries(1..3)).unwrap();
        memory.confirm(old);
        assert_eq!(indexes(&memory.plan(0..3, usize::MAX)), [1, 2]);
    }

    #[test]
    fn a_hole_or_an_overwrite_is_refused() {
        let mut memory = filled(3, 100);
        assert!(memory.append(entries(4..5)).is_err());
        assert!(memory.append(entries(2..3)).is_err());
        assert!(memory.append(vec![entries(3..4).remove(0), entries(5..6).remove(0)]).is_err());
        assert_eq!(memory.next_index(), 3);
    }

    #[test]
    fn reads_are_cut_by_bytes_but_never_empty() {
        let memory = filled(5, 100);
        assert_eq!(indexes(&memory.plan(1..5, 25)), [1, 2]);
        assert_eq!(indexes(&memory.plan(1..5, 0)), [1]);
        assert_eq!(memory.plan(5..9, 100), Plan { cold: 0..0, warm: Vec::new() });
    }

    #[test]
    fn purge_may_go_beyond_the_end() {
        let mut memory = filled(3, 100);
        assert_eq!(memory.purge(id(0)), Some(0..1));
        assert_eq!(memory.purge(id(0)), None);
        assert_eq!(memory.purge(id(9)), Some(1..10));
        let state = memory.state();
        assert_eq!((state.last_purged_log_id, state.last_log_id), (Some(id(9)), Some(id(9))));
        assert_eq!(memory.tail_size(), (0, 0));
        memory.append(entries(10..11)).unwrap();
        assert_eq!(indexes(&memory.plan(0..99, 100)), [10]);
        assert!(memory.truncate_after(Some(id(8))).is_err());
        assert_eq!(memory.truncate_after(Some(id(9))).unwrap(), 10..11);
    }

    #[test]
    fn an_empty_log_begins_where_its_first_entry_is() {
        let mut memory = Memory::new(None, None, 100);
        assert_eq!(memory.append(entries(5..7)).unwrap(), (1, Some(5)));
        assert_eq!(indexes(&memory.plan(0..99, 100)), [5, 6]);
        assert!(memory.append(entries(9..10)).is_err());
        assert_eq!(memory.purge(id(3)), Some(5..5), "nothing to drop, but a purge point");
        assert_eq!(memory.purge(id(5)), Some(5..6));
        assert_eq!(memory.truncate_after(Some(id(5))).unwrap(), 6..7);
        assert!(memory.append(entries(9..10)).is_err(), "what was purged fixes the start");
    }

    #[test]
    fn truncation_reaches_below_the_tail() {
        let mut memory = Memory::new(None, None, 0);
        let (ticket, _) = memory.append(entries(0..4)).unwrap();
        memory.confirm(ticket);
        assert_eq!(memory.plan(0..4, 100), Plan { cold: 0..4, warm: Vec::new() });
        assert_eq!(memory.truncate_after(Some(id(1))).unwrap(), 2..4);
        memory.append(entries(2..3)).unwrap();
        let plan = memory.plan(0..4, 100);
        assert_eq!((plan.cold.clone(), indexes(&plan)), (0..2, vec![2]));
        assert_eq!(memory.truncate_after(Some(id(7))).unwrap(), 3..3);
    }
}
