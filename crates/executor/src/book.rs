//! The book of held attempts: which are queued, running or reporting, and what may join them. Plain data.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use orloj_wire::protocol::{AttemptRef, CancelReason, Dispatch, Held, HeldState};

use crate::ended::{Ended, Seen};

/// One shard of one task.
pub(crate) type ShardKey = (Arc<str>, u16);

/// One grant of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) shard: ShardKey,
    pub(crate) fence: u64,
}

impl Key {
    pub(crate) fn of(attempt: &AttemptRef) -> Self {
        Key { shard: (attempt.task_id.as_str().into(), attempt.shard_index), fence: attempt.fence }
    }
}

/// Why an attempt was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    QueueFull,
    Draining,
    UnknownHandler,
    /// It was refused or dropped before, a later grant of the same shard has been here, or the fence is too
    /// old to tell.
    StaleFence,
}

impl Refusal {
    /// The word on the wire.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Refusal::QueueFull => "queue_full",
            Refusal::Draining => "draining",
            Refusal::UnknownHandler => "unknown_handler",
            Refusal::StaleFence => "stale_fence",
        }
    }
}

/// What became of an offered attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Offer {
    /// It is in the queue. An older grant of the same shard, still held, has lost its lease by it.
    Accepted { superseded: Option<AttemptRef> },
    /// It is known.
    Duplicate,
    /// The same work has succeeded here: it is over, and reports without being run.
    Remembered,
    /// It is not taken.
    Refused(Refusal),
}

/// What the caller of [`Book::stop`] has to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Stop {
    /// Nothing: it is not held.
    NotHeld,
    /// Nothing: it is over, and its report is on the way.
    Over,
    /// It had not started and has left the queue. Unless its lease is lost, its report is to be written.
    Unstarted(Arc<Dispatch>),
    /// Its handler is to be stopped.
    Running,
}

/// How an attempt leaves its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Its report is on disk.
    Report,
    /// Nobody wants to hear of it.
    Forget,
}

#[derive(Debug, Clone)]
enum Standing {
    Queued(Arc<Dispatch>),
    Running { since: Duration },
    Reporting,
}

#[derive(Debug, Clone)]
struct Entry {
    attempt: AttemptRef,
    standing: Standing,
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Book {
    slots: usize,
    places: usize,
    draining: bool,
    round: u64,
    held: HashMap<Key, Entry>,
    queue: VecDeque<Key>,
    /// The newest grant among those queued and running, by shard.
    newest: HashMap<ShardKey, u64>,
    /// Shards with a handler in a slot; never two handlers of one shard.
    busy: HashSet<ShardKey>,
    ended: Ended,
}

impl Book {
    /// An empty book. `round` is the highest round seen in earlier lives.
    pub(crate) fn new(slots: u32, queue: u32, round: u64) -> Self {
        Book {
            slots: slots as usize,
            places: slots as usize + queue as usize,
            draining: false,
            round,
            held: HashMap::new(),
            queue: VecDeque::new(),
            newest: HashMap::new(),
            busy: HashSet::new(),
            ended: Ended::default(),
        }
    }

    /// Takes over a report that an earlier life left undelivered.
    pub(crate) fn restore(&mut self, attempt: AttemptRef) {
        self.held.insert(Key::of(&attempt), Entry { attempt, standing: Standing::Reporting });
    }

    /// The highest round seen.
    pub(crate) fn round(&self) -> u64 {
        self.round
    }

    /// Sees a round. Err is the higher one seen before; Ok says whether this one is new.
    pub(crate) fn see_round(&mut self, round: u64) -> Result<bool, u64> {
        if round < self.round {
            return Err(self.round);
        }
        let grew = round > self.round;
        self.round = round;
        Ok(grew)
    }

    /// Takes an attempt, or says why not. `known` says whether its handler exists here, `remembered`
    /// whether the memory of outcomes answers it.
    pub(crate) fn offer(&mut self, dispatch: &Arc<Dispatch>, known: bool, remembered: bool) -> Offer {
        let attempt = &dispatch.attempt;
        let key = Key::of(attempt);
        if self.held.contains_key(&key) {
            return Offer::Duplicate;
        }
        match self.ended.look(&key) {
            Seen::This => return Offer::Duplicate,
            Seen::Gone => return Offer::Refused(Refusal::StaleFence),
            Seen::Never => {}
        }
        let older = self.newest.get(&key.shard).copied();
        if older.is_some_and(|newest| newest > key.fence) {
            return Offer::Refused(Refusal::StaleFence);
        }
        if self.draining {
            return self.refuse(key, Refusal::Draining);
        }
        if remembered {
            self.restore(attempt.clone());
            return Offer::Remembered;
        }
        if !known {
            return self.refuse(key, Refusal::UnknownHandler);
        }
        if self.queue.len() + self.busy.len() >= self.places {
            return self.refuse(key, Refusal::QueueFull);
        }
        let superseded = older.and_then(|fence| {
            self.held.get(&Key { shard: key.shard.clone(), fence }).map(|entry| entry.attempt.clone())
        });
        self.newest.insert(key.shard.clone(), key.fence);
        self.queue.push_back(key.clone());
        let standing = Standing::Queued(Arc::clone(dispatch));
        self.held.insert(key, Entry { attempt: attempt.clone(), standing });
        Offer::Accepted { superseded }
    }

    /// The leader gives it to somebody else now; a copy of the push that comes later must not start it here.
    fn refuse(&mut self, key: Key, why: Refusal) -> Offer {
        self.ended.give_up(key);
        Offer::Refused(why)
    }

    /// Moves the next attempt from the queue into a free slot. One whose shard is still in a slot under an
    /// older grant waits until that has stopped.
    pub(crate) fn start_next(&mut self, now: Duration) -> Option<Arc<Dispatch>> {
        if self.busy.len() >= self.slots {
            return None;
        }
        let at = self.queue.iter().position(|key| !self.busy.contains(&key.shard))?;
        let key = self.queue.remove(at)?;
        let entry = self.held.get_mut(&key)?;
        let standing = std::mem::replace(&mut entry.standing, Standing::Running { since: now });
        self.busy.insert(key.shard);
        match standing {
            Standing::Queued(dispatch) => Some(dispatch),
            Standing::Running { .. } | Standing::Reporting => None,
        }
    }

    /// Stops an attempt, wherever it stands.
    pub(crate) fn stop(&mut self, attempt: &AttemptRef, reason: CancelReason) -> Stop {
        let key = Key::of(attempt);
        let Some(entry) = self.held.get_mut(&key) else {
            // The leader ends it at this word; a push of it that is still on its way must not start it.
            if self.ended.look(&key) == Seen::Never {
                self.ended.give_up(key);
            }
            return Stop::NotHeld;
        };
        let dispatch = match &entry.standing {
            Standing::Running { .. } => return Stop::Running,
            Standing::Reporting => return Stop::Over,
            Standing::Queued(dispatch) => Arc::clone(dispatch),
        };
        entry.standing = Standing::Reporting;
        self.queue.retain(|queued| *queued != key);
        self.retire(&key);
        if reason == CancelReason::LeaseLost {
            self.drop_unreported(&key);
        }
        Stop::Unstarted(dispatch)
    }

    /// An attempt leaves its slot.
    pub(crate) fn finish(&mut self, attempt: &AttemptRef, leave: Leave) {
        let key = Key::of(attempt);
        let Some(entry) = self.held.get_mut(&key) else { return };
        if !matches!(entry.standing, Standing::Running { .. }) {
            return;
        }
        entry.standing = Standing::Reporting;
        self.busy.remove(&key.shard);
        self.retire(&key);
        if leave == Leave::Forget {
            self.drop_unreported(&key);
        }
    }

    /// Nothing will be said of it. Should its lease be in force after all, its next push is refused, so that it
    /// is granted anew instead of being taken for known for ever.
    fn drop_unreported(&mut self, key: &Key) {
        self.held.remove(key);
        self.ended.give_up(key.clone());
    }

    /// A report was acknowledged: the attempt is no longer held, only remembered.
    pub(crate) fn reported(&mut self, attempt: &AttemptRef) {
        let key = Key::of(attempt);
        if let Some(Entry { standing: Standing::Reporting, .. }) = self.held.get(&key) {
            self.held.remove(&key);
            self.ended.add(key);
        }
    }

    /// The leader will not hear of its end, in whatever words: should it push the attempt again, that is refused, so
    /// that it grants it anew.
    pub(crate) fn unreportable(&mut self, attempt: &AttemptRef) {
        let key = Key::of(attempt);
        if let Some(Entry { standing: Standing::Reporting, .. }) = self.held.get(&key) {
            self.drop_unreported(&key);
        }
    }

    /// From now on nothing is taken. Returns what had not started; their reports are to be written.
    pub(crate) fn drain(&mut self) -> Vec<Arc<Dispatch>> {
        self.draining = true;
        let queued: Vec<Key> = self.queue.drain(..).collect();
        let mut unstarted = Vec::with_capacity(queued.len());
        for key in queued {
            self.retire(&key);
            let Some(entry) = self.held.get_mut(&key) else { continue };
            let standing = std::mem::replace(&mut entry.standing, Standing::Reporting);
            if let Standing::Queued(dispatch) = standing {
                unstarted.push(dispatch);
            }
        }
        unstarted
    }

    fn retire(&mut self, key: &Key) {
        if self.newest.get(&key.shard) == Some(&key.fence) {
            self.newest.remove(&key.shard);
        }
    }

    /// Whether nothing is taken any more.
    pub(crate) fn draining(&self) -> bool {
        self.draining
    }

    /// Attempts in slots.
    pub(crate) fn running(&self) -> usize {
        self.busy.len()
    }

    /// Attempts in the queue.
    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Slots that the queue will not fill.
    pub(crate) fn free_slots(&self) -> u32 {
        free(self.slots, self.busy.len() + self.queue.len())
    }

    /// Free places in slots and queue.
    pub(crate) fn free_places(&self) -> u32 {
        if self.draining { 0 } else { free(self.places, self.busy.len() + self.queue.len()) }
    }

    /// Whether a leader that saw `before` can give more now. Pairs of free slots and free places.
    pub(crate) fn room_since(&self, before: (u32, u32)) -> bool {
        let (slots, places) = before;
        (slots == 0 && self.free_slots() > 0) || (places == 0 && self.free_places() > 0)
    }

    /// Everything held, in no order.
    pub(crate) fn holding(&self, now: Duration) -> Vec<Held> {
        self.held.values().map(|entry| held(entry, now)).collect()
    }

    /// What is queued or in a slot, in no order.
    pub(crate) fn active(&self, now: Duration) -> Vec<Held> {
        let active = |entry: &&Entry| !matches!(entry.standing, Standing::Reporting);
        self.held.values().filter(active).map(|entry| held(entry, now)).collect()
    }

    /// Whether the attempt is in the queue.
    pub(crate) fn is_queued(&self, attempt: &AttemptRef) -> bool {
        matches!(self.held.get(&Key::of(attempt)), Some(Entry { standing: Standing::Queued(_), .. }))
    }

    /// Whether the attempt is held, or was and is remembered.
    pub(crate) fn knows(&self, attempt: &AttemptRef) -> bool {
        let key = Key::of(attempt);
        self.held.contains_key(&key) || matches!(self.ended.look(&key), Seen::This)
    }
}

fn free(all: usize, taken: usize) -> u32 {
    u32::try_from(all.saturating_sub(taken)).unwrap_or(u32::MAX)
}

fn held(entry: &Entry, now: Duration) -> Held {
    let (state, running_ms) = match &entry.standing {
        Standing::Queued(_) => (HeldState::Queued, None),
        Standing::Running { since } => {
            let ms = now.saturating_sub(*since).as_millis();
            (HeldState::Running, Some(u64::try_from(ms).unwrap_or(u64::MAX)))
        }
        Standing::Reporting => (HeldState::Reporting, None),
    };
    Held { attempt: entry.attempt.clone(), state, running_ms }
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
