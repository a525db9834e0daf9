//! Places for bodies of requests whose signature nobody has checked yet.
//!
//! They bound the memory that anybody can make a replica use, and no address gets more than its share of them, or
//! waits for one with more than so many requests: whoever sends slowly, or never, holds up only those who come from
//! the same address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::tries::host;

/// All places; each is good for [`BODY_LIMIT`](orloj_wire::rest::BODY_LIMIT) bytes, 64 MiB together.
const PLACES: usize = 256;
/// Places of one address.
const PER_ADDRESS: usize = 64;
/// Requests of one address that wait for a place. More than that keep connections for nothing.
const WAITING: usize = 256;

/// The places of one listener.
#[derive(Debug)]
pub(crate) struct Bodies {
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
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _place: (OwnedSemaphorePermit, OwnedSemaphorePermit),
    _entrant: Entrant,
}

/// One request of an address, while it has a place or waits.
#[derive(Debug)]
struct Entrant {
    shares: Arc<Mutex<HashMap<IpAddr, Share>>>,
    address: IpAddr,
    waits: bool,
}

impl Bodies {
    /// Every place is free.
    pub(crate) fn new() -> Self {
        Bodies { all: Arc::new(Semaphore::new(PLACES)), shares: Arc::default() }
    }

    /// So many places for a request from `address`, at most as many as one address may have; `None` when they are
    /// not free within `patience`, or when too many others of this address wait.
    pub(crate) async fn take(&self, address: IpAddr, places: usize, patience: Duration) -> Option<Place> {
        let places = u32::try_from(places.clamp(1, PER_ADDRESS)).ok()?;
        let (mut entrant, own) = self.enter(host(address))?;
        let all = Arc::clone(&self.all);
        // Its own share first: whoever waits for that keeps nothing from others.
        let taken = async move {
            Some((own.acquire_many_owned(places).await.ok()?, all.acquire_many_owned(places).await.ok()?))
        };
        let place = tokio::time::timeout(patience, taken).await.ok()??;
        entrant.no_longer_waits();
        Some(Place { _place: place, _entrant: entrant })
    }

    fn enter(&self, address: IpAddr) -> Option<(Entrant, Arc<Semaphore>)> {
        let mut shares = lock(&self.shares);
        let share = shares.entry(address).or_insert_with(|| Share {
            places: Arc::new(Semaphore::new(PER_ADDRESS)),
            requests: 0,
            waiting: 0,
        });
        if share.waiting >= WAITING {
            return None;
        }
        share.requests += 1;
        share.waiting += 1;
        let places = Arc::clone(&share.places);
        drop(shares);
        Some((Entrant { shares: Arc::clone(&self.shares), address, waits: true }, places))
    }
}

impl Entrant {
    fn no_longer_waits(&mut self) {
        if std::mem::take(&mut self.waits)
            && let Some(share) = lock(&self.shares).get_mut(&self.address)
        {
            share.waiting -= 1;
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
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// As many places as there are, one by one.
    async fn fill(bodies: &Bodies, from: IpAddr) -> Vec<Place> {
        let mut places = Vec::new();
        while let Some(place) = bodies.take(from, 1, PATIENCE).await {
            places.push(place);
        }
        places
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_gets_its_share_and_leaves_the_rest_to_others() {
        let bodies = Bodies::new();
        let mut held = Vec::new();
        for number in 1..=4 {
            let from = address(&format!("192.0.2.{number}"));
            held.push(fill(&bodies, from).await);
            assert_eq!(held.last().unwrap().len(), PER_ADDRESS);
        }
        let fifth = address("2001:db8::1");
        assert!(bodies.take(fifth, 1, PATIENCE).await.is_none(), "all places are taken");
        held.pop();
        // A large body has several places, and never more than an address may have.
        let large = bodies.take(fifth, 1_000, PATIENCE).await.unwrap();
        assert!(bodies.take(address("2001:db8::2"), 1, PATIENCE).await.is_none(), "the same network");
        drop(large);
        assert!(bodies.take(address("2001:db8::2"), 1, PATIENCE).await.is_some());
        drop(held);
        assert!(lock(&bodies.shares).is_empty(), "nothing is kept of who has gone");
        assert_eq!(bodies.all.available_permits(), PLACES);
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_of_an_address_wait() {
        let bodies = Arc::new(Bodies::new());
        let from = address("192.0.2.1");
        let held = fill(&bodies, from).await;
        let waiting: Vec<_> = (0..WAITING)
            .map(|_| {
                let bodies = Arc::clone(&bodies);
                tokio::spawn(async move { bodies.take(from, 1, PATIENCE).await.is_some() })
            })
            .collect();
        while lock(&bodies.shares)[&from].waiting < WAITING {
            tokio::task::yield_now().await;
        }
        let began = tokio::time::Instant::now();
        assert!(bodies.take(from, 1, PATIENCE).await.is_none());
        assert_eq!(began.elapsed(), Duration::ZERO, "it is told at once");
        drop(held);
        for waits in waiting {
            assert!(waits.await.unwrap(), "whoever waits gets a place that becomes free");
        }
        assert!(lock(&bodies.shares).is_empty());
    }
}
