//! Who is connected to a listener, and who must go when it is full.
//!
//! A connection on which a request runs stays. Of the others, those that never sent a whole request go first, then
//! those that wait for their next one; within each, the one that has waited longest.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// The connections of one listener.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    seats: Mutex<BTreeMap<u64, Arc<Seat>>>,
    /// Counts the connections; tells which of two has waited longer.
    epoch: AtomicU64,
}

/// One connection.
#[derive(Debug, Default)]
struct Seat {
    /// Whether a whole head of a request has come.
    spoken: AtomicBool,
    /// Requests that run.
    busy: AtomicUsize,
    /// The epoch in which it was last busy, or came.
    since: AtomicU64,
    /// Cancelled when it must go.
    leave: CancellationToken,
}

/// A connection's place in the crowd; it ends with this.
#[derive(Debug)]
pub(crate) struct Ticket {
    crowd: Arc<Crowd>,
    number: u64,
    seat: Arc<Seat>,
}

/// A request that runs; it ends with this.
#[derive(Debug)]
pub(crate) struct Busy {
    crowd: Arc<Crowd>,
    seat: Arc<Seat>,
}

impl Crowd {
    /// A new connection.
    pub(crate) fn enter(self: &Arc<Self>) -> Ticket {
        let number = self.epoch.fetch_add(1, Ordering::Relaxed);
        let seat = Arc::new(Seat { since: AtomicU64::new(number), ..Seat::default() });
        self.seats().insert(number, Arc::clone(&seat));
        Ticket { crowd: Arc::clone(self), number, seat }
    }

    /// Sends up to `count` connections away on which no request runs; says how many there were.
    pub(crate) fn make_room(&self, count: usize) -> usize {
        let seats = self.seats();
        let mut idle: Vec<(bool, u64, &Arc<Seat>)> = seats
            .values()
            .filter(|seat| seat.busy.load(Ordering::Relaxed) == 0 && !seat.leave.is_cancelled())
            .map(|seat| (seat.spoken.load(Ordering::Relaxed), seat.since.load(Ordering::Relaxed), seat))
            .collect();
        if idle.len() > count {
            idle.select_nth_unstable_by_key(count, |(spoken, since, _)| (*spoken, *since));
            idle.truncate(count);
        }
        idle.iter().for_each(|(_, _, seat)| seat.leave.cancel());
        idle.len()
    }

    fn seats(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Seat>>> {
        // Nothing that holds this lock can panic half-way through a change.
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// Cancelled when the connection must go.
    pub(crate) fn leave(&self) -> CancellationToken {
        self.seat.leave.clone()
    }

    /// A request has come.
    pub(crate) fn begin(&self) -> Busy {
        self.seat.spoken.store(true, Ordering::Relaxed);
        self.seat.busy.fetch_add(1, Ordering::Relaxed);
        Busy { crowd: Arc::clone(&self.crowd), seat: Arc::clone(&self.seat) }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.crowd.seats().remove(&self.number);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.seat.since.store(self.crowd.epoch.load(Ordering::Relaxed), Ordering::Relaxed);
        self.seat.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_never_spoke_goes_first_then_who_waits_longest_and_nobody_who_is_served() {
        let crowd = Arc::new(Crowd::default());
        let [spoke, served, silent, late] = [(); 4].map(|()| crowd.enter());
        drop(spoke.begin());
        let busy = served.begin();
        let gone = |ticket: &Ticket| ticket.leave().is_cancelled();
        assert_eq!(crowd.make_room(1), 1);
        assert_eq!([&spoke, &served, &silent, &late].map(gone), [false, false, true, false]);
        assert_eq!(crowd.make_room(2), 2);
        assert_eq!([&spoke, &served, &silent, &late].map(gone), [true, false, true, true]);
        assert_eq!(crowd.make_room(1), 0, "the one that is left is served");
        drop(busy);
        assert_eq!(crowd.make_room(1), 1);
        drop((spoke, served, silent, late));
        assert!(crowd.seats().is_empty());
    }

    #[test]
    fn of_two_that_wait_the_one_that_was_served_later_stays() {
        let crowd = Arc::new(Crowd::default());
        let (first, second) = (crowd.enter(), crowd.enter());
        drop(second.begin());
        let _third = crowd.enter().begin();
        drop(first.begin());
        assert_eq!(crowd.make_room(1), 1);
        assert!(second.leave().is_cancelled() && !first.leave().is_cancelled());
    }
}
