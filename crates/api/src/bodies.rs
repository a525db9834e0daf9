//! Places for bodies of requests whose signature nobody has checked yet.
//!
//! They bound the memory that anybody can make a replica use. No address gets more than its share of them, or waits for
//! one with more than so many requests: whoever sends slowly, or never, holds up those who come from the same address.
//! Only together can addresses hold up others: four of them have all places. And no connection waits with more than
//! leaves it a window for the bodies that are being read, or these would never come to their end.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orloj_net::Bounds;
use orloj_wire::rest::BODY_LIMIT;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::tries::host;

/// Requests of one address that wait for a place. More than that keep connections for nothing.
const WAITING: usize = 256;

/// How many places a listener has, each good for [`BODY_LIMIT`] bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// All of them.
    places: usize,
    /// Those of one address.
    per_address: usize,
    /// What a body that waits holds at most, in bytes: over HTTP/2 of its connection's window.
    held: usize,
    /// The same over HTTP/1.1: what is read ahead.
    held_ahead: usize,
    /// What all that wait may hold of one connection's window, in bytes: all but what one body needs.
    held_by_connection: usize,
    /// What all of one address that wait may hold, in bytes: as much as those that have its places.
    held_by_address: usize,
}

impl Room {
    /// For callers: 64 MiB, of which one address has 16.
    pub(crate) const CALLS: Room = Room::within(256, 64, Bounds::PUBLIC);
    /// For executors: as much.
    pub(crate) const EXECUTORS: Room = Room::within(256, 64, Bounds::INTERNAL);
    /// For replicas, whose largest message has 16 MiB: 256 MiB, of which one address has 64.
    pub(crate) const REPLICAS: Room = Room::within(1_024, 256, Bounds::INTERNAL);

    const fn within(places: usize, per_address: usize, bounds: Bounds) -> Room {
        let held = bounds.window as usize;
        Room {
            places,
            per_address,
            held,
            held_ahead: bounds.header_bytes,
            held_by_connection: bounds.connection_window() as usize - held,
            held_by_address: per_address * BODY_LIMIT,
        }
    }

    /// What a body holds while it waits, in bytes.
    fn held(&self, asks: Asks) -> usize {
        asks.length.min(if asks.is_multiplexed { self.held } else { self.held_ahead })
    }
}

/// Whose body asks for a place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asks {
    /// Where it comes from.
    pub(crate) address: IpAddr,
    /// Over which connection, where there is one.
    pub(crate) connection: Option<SocketAddr>,
    /// Whether it comes over HTTP/2.
    pub(crate) is_multiplexed: bool,
    /// How long it may be, in bytes.
    pub(crate) length: usize,
}

/// The places of one listener.
#[derive(Debug)]
pub(crate) struct Bodies {
    room: Room,
    all: Arc<Semaphore>,
    shares: Arc<Mutex<HashMap<IpAddr, Share>>>,
}

/// What one address has.
#[derive(Debug)]
struct Share {
    places: Arc<Semaphore>,
    /// Requests that have a place or wait for one; the share is forgotten with the last of them.
    requests: usize,
    waiting: usize,
    /// What those that wait hold, in bytes.
    held: usize,
    /// What they hold of the windows of their connections.
    held_by: HashMap<SocketAddr, usize>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _place: Permits,
    _entrant: Entrant,
}

/// Of its address, and of all.
type Permits = (OwnedSemaphorePermit, OwnedSemaphorePermit);

/// One request of an address, while it has a place or waits.
#[derive(Debug)]
struct Entrant {
    room: Room,
    shares: Arc<Mutex<HashMap<IpAddr, Share>>>,
    address: IpAddr,
    waits: Option<Asks>,
}

impl Bodies {
    /// Every place is free.
    pub(crate) fn new(room: Room) -> Self {
        Bodies { room, all: Arc::new(Semaphore::new(room.places)), shares: Arc::default() }
    }

    /// As many places as a body needs, at most as many as one address may have; `None` when they are not free within
    /// `patience`, or when too many others of this address, or on this connection, wait.
    pub(crate) async fn take(&self, asks: Asks, patience: Duration) -> Option<Place> {
        let places = asks.length.div_ceil(BODY_LIMIT).clamp(1, self.room.per_address);
        let places = u32::try_from(places).ok()?;
        let (mut entrant, own) = self.enter(host(asks.address));
        let all = Arc::clone(&self.all);
        // Nobody who waits is passed by: what becomes free is theirs first.
        if let Some(place) = at_once(&own, &all, places) {
            return Some(Place { _place: place, _entrant: entrant });
        }
        if !entrant.waits(asks) {
            return None;
        }
        // Its own share first: whoever waits for that keeps nothing from others.
        let taken = async move {
            Some((own.acquire_many_owned(places).await.ok()?, all.acquire_many_owned(places).await.ok()?))
        };
        let place = tokio::time::timeout(patience, taken).await.ok()??;
        entrant.no_longer_waits();
        Some(Place { _place: place, _entrant: entrant })
    }

    fn enter(&self, address: IpAddr) -> (Entrant, Arc<Semaphore>) {
        let mut shares = lock(&self.shares);
        let share = shares.entry(address).or_insert_with(|| Share {
            places: Arc::new(Semaphore::new(self.room.per_address)),
            requests: 0,
            waiting: 0,
            held: 0,
            held_by: HashMap::new(),
        });
        share.requests += 1;
        let places = Arc::clone(&share.places);
        drop(shares);
        (Entrant { room: self.room, shares: Arc::clone(&self.shares), address, waits: None }, places)
    }
}

fn at_once(own: &Arc<Semaphore>, all: &Arc<Semaphore>, places: u32) -> Option<Permits> {
    let own = Arc::clone(own).try_acquire_many_owned(places).ok()?;
    Some((own, Arc::clone(all).try_acquire_many_owned(places).ok()?))
}

impl Entrant {
    /// Begins to wait, where it may.
    fn waits(&mut self, asks: Asks) -> bool {
        let mut shares = lock(&self.shares);
        let Some(share) = shares.get_mut(&self.address).filter(|share| share.waiting < WAITING) else {
            return false;
        };
        let own = self.room.held(asks);
        if share.held + own > self.room.held_by_address {
            return false;
        }
        if let Some(connection) = asks.connection {
            let held = share.held_by.get(&connection).copied().unwrap_or(0) + own;
            if held > self.room.held_by_connection {
                return false;
            }
            share.held_by.insert(connection, held);
        }
        share.held += own;
        share.waiting += 1;
        drop(shares);
        self.waits = Some(asks);
        true
    }

    fn no_longer_waits(&mut self) {
        let Some(asks) = self.waits.take() else { return };
        let mut shares = lock(&self.shares);
        let Some(share) = shares.get_mut(&self.address) else { return };
        let own = self.room.held(asks);
        share.waiting -= 1;
        share.held -= own;
        if let Some(connection) = asks.connection
            && let Some(held) = share.held_by.get_mut(&connection)
        {
            *held -= own;
            if *held == 0 {
                share.held_by.remove(&connection);
            }
        }
    }
}

impl Drop for Entrant {
    fn drop(&mut self) {
        self.no_longer_waits();
        let mut shares = lock(&self.shares);
        let Some(share) = shares.get_mut(&self.address) else { return };
        share.requests -= 1;
        if share.requests == 0 {
            shares.remove(&self.address);
        }
    }
}

fn lock(shares: &Mutex<HashMap<IpAddr, Share>>) -> MutexGuard<'_, HashMap<IpAddr, Share>> {
    // Nothing that holds this lock can panic half-way through a change.
    shares.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use tokio::task::JoinSet;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// A body of so many places, over no connection.
    fn asks(address: IpAddr, places: usize) -> Asks {
        Asks { address, connection: None, is_multiplexed: true, length: places * BODY_LIMIT }
    }

    /// As many places as there are, one by one.
    async fn fill(bodies: &Bodies, from: IpAddr) -> Vec<Place> {
        let mut places = Vec::new();
        while let Some(place) = bodies.take(asks(from, 1), PATIENCE).await {
            places.push(place);
        }
        places
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_gets_its_share_and_leaves_the_rest_to_others() {
        let bodies = Bodies::new(Room::CALLS);
        let mut held = Vec::new();
        for number in 1..=4 {
            let from = address(&format!("192.0.2.{number}"));
            held.push(fill(&bodies, from).await);
            assert_eq!(held.last().unwrap().len(), Room::CALLS.per_address);
        }
        let fifth = address("2001:db8::1");
        assert!(bodies.take(asks(fifth, 1), PATIENCE).await.is_none(), "all places are taken");
        held.pop();
        // A large body has several places, and never more than an address may have.
        let large = bodies.take(asks(fifth, 1_000), PATIENCE).await.unwrap();
        assert!(bodies.take(asks(address("2001:db8::2"), 1), PATIENCE).await.is_none(), "the same network");
        drop(large);
        assert!(bodies.take(asks(address("2001:db8::2"), 1), PATIENCE).await.is_some());
        drop(held);
        assert!(lock(&bodies.shares).is_empty(), "nothing is kept of who has gone");
        assert_eq!(bodies.all.available_permits(), Room::CALLS.places);
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_of_an_address_wait() {
        let bodies = Arc::new(Bodies::new(Room::CALLS));
        let from = address("192.0.2.1");
        let held = fill(&bodies, from).await;
        let waiting: Vec<_> = (0..WAITING)
            .map(|_| {
                let bodies = Arc::clone(&bodies);
                tokio::spawn(async move { bodies.take(asks(from, 1), PATIENCE).await.is_some() })
            })
            .collect();
        while lock(&bodies.shares)[&from].waiting < WAITING {
            tokio::task::yield_now().await;
        }
        let began = tokio::time::Instant::now();
        assert!(bodies.take(asks(from, 1), PATIENCE).await.is_none());
        assert_eq!(began.elapsed(), Duration::ZERO, "it is told at once");
        drop(held);
        for waits in waiting {
            assert!(waits.await.unwrap(), "whoever waits gets a place that becomes free");
        }
        assert!(lock(&bodies.shares).is_empty());
    }

    /// Lets a body wait for its place, and returns once it does.
    async fn wait(bodies: &Arc<Bodies>, waiting: &mut JoinSet<bool>, asks: Asks) {
        let (own, from) = (Arc::clone(bodies), asks.address);
        let known = lock(&bodies.shares)[&from].waiting;
        waiting.spawn(async move { own.take(asks, PATIENCE).await.is_some() });
        while lock(&bodies.shares)[&from].waiting == known {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_wait_leave_their_connection_a_window() {
        let bodies = Arc::new(Bodies::new(Room::CALLS));
        let from = address("192.0.2.1");
        let held = fill(&bodies, from).await;
        let of = |port, length| {
            let connection = Some(SocketAddr::new(from, port));
            Asks { address: from, connection, is_multiplexed: true, length }
        };
        let mut waiting = JoinSet::new();
        for _ in 0..3 {
            wait(&bodies, &mut waiting, of(1, BODY_LIMIT)).await;
        }
        let began = tokio::time::Instant::now();
        assert!(bodies.take(of(1, 1), PATIENCE).await.is_none());
        assert_eq!(began.elapsed(), Duration::ZERO, "it is told at once");
        // Another connection has a window of its own, and small bodies hold little of it.
        for _ in 0..100 {
            wait(&bodies, &mut waiting, of(2, 300)).await;
        }
        drop(held);
        assert_eq!(waiting.join_all().await, [true; 103]);
        assert!(lock(&bodies.shares).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_at_an_address_holds_no_more_than_what_has_its_places() {
        let bodies = Arc::new(Bodies::new(Room::EXECUTORS));
        let from = address("192.0.2.1");
        let held = fill(&bodies, from).await;
        let of = |is_multiplexed| Asks { is_multiplexed, ..asks(from, 64) };
        let mut waiting = JoinSet::new();
        // 4 MiB each of the address's 16, over HTTP/2; of HTTP/1.1 no more than 64 KiB is read ahead.
        for is_multiplexed in [true, true, true, false, false] {
            wait(&bodies, &mut waiting, of(is_multiplexed)).await;
        }
        let began = tokio::time::Instant::now();
        assert!(bodies.take(of(true), PATIENCE).await.is_none());
        assert_eq!(began.elapsed(), Duration::ZERO, "it is told at once");
        wait(&bodies, &mut waiting, of(false)).await;
        drop(held);
        assert_eq!(waiting.join_all().await, [true; 6]);
        assert!(lock(&bodies.shares).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_largest_message_of_a_replica_finds_room_beside_others_of_its_address() {
        let bodies = Bodies::new(Room::REPLICAS);
        let largest = |from: &str| Asks { length: 17 << 20, ..asks(address(from), 1) };
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(bodies.take(largest("192.0.2.1"), PATIENCE).await.unwrap());
        }
        assert!(bodies.take(largest("192.0.2.1"), PATIENCE).await.is_none(), "its address has its share");
        for other in ["192.0.2.2", "192.0.2.3", "192.0.2.4"] {
            held.push(bodies.take(largest(other), PATIENCE).await.unwrap());
        }
        drop(held);
        assert_eq!(bodies.all.available_permits(), Room::REPLICAS.places);
    }
}
