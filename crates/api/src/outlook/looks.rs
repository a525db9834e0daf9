//! Look-ups of names, few at once: the operating system's resolver takes a thread for each, of the same threads on
//! which a replica's disk work runs, and keeps it until it is done, whoever waits for it.
//!
//! So a look-up has a place until it really ends, a name is looked up once for all who ask for it, and what had no
//! answer is not asked for again at once. A name for which no place is free waits for one, as long as there is hope: where
//! all who have one have had no answer for long, it is not looked up.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orloj_scheduler::callback::Resolver;
use orloj_wire::clock::Clock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Look-ups at the same time, of all requests.
pub(super) const PLACES: usize = 16;
/// The most names that are remembered.
pub(super) const MOST: usize = 1_024;
/// How long what a name leads to is remembered.
const KEPT: Duration = Duration::from_secs(30);
/// How long it is remembered that a name leads nowhere.
const KEPT_NOWHERE: Duration = Duration::from_secs(5);

/// What is known of names.
#[derive(Default)]
pub(super) struct Known {
    found: HashMap<String, Found>,
    under_way: HashMap<String, UnderWay>,
}

/// What a name led to.
struct Found {
    /// On the monotonic clock.
    at: Duration,
    addresses: Vec<IpAddr>,
}

/// A look-up that has not ended.
struct UnderWay {
    /// On the monotonic clock.
    since: Duration,
    /// Ends with the look-up.
    ended: watch::Receiver<()>,
}

/// What has become of the wish to look a name up.
enum Begun {
    /// Something is known of it, or nothing will be.
    InVain,
    /// It is being looked up, until this ends.
    UnderWay(watch::Receiver<()>),
    /// All places are taken, by look-ups of which some may still end soon.
    WithoutPlace,
}

impl Found {
    fn is_fresh(&self, now: Duration) -> bool {
        let kept = if self.addresses.is_empty() { KEPT_NOWHERE } else { KEPT };
        now.saturating_sub(self.at) < kept
    }
}

impl Known {
    /// Where a name leads; nowhere, if that is not known.
    pub(super) fn addresses(&self, host: &str, now: Duration) -> &[IpAddr] {
        let found = self.found.get(host).filter(|found| found.is_fresh(now));
        found.map(|found| found.addresses.as_slice()).unwrap_or_default()
    }

    fn is_known(&self, host: &str, now: Duration) -> bool {
        self.found.get(host).is_some_and(|found| found.is_fresh(now))
    }

    fn remember(&mut self, host: String, addresses: Vec<IpAddr>, now: Duration) {
        if self.found.len() >= MOST && !self.found.contains_key(&host) {
            self.found.retain(|_, found| found.is_fresh(now));
        }
        if self.found.len() >= MOST && !self.found.contains_key(&host) {
            let oldest = self.found.iter().min_by_key(|(name, found)| (found.at, *name));
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.found.remove(&oldest);
            }
        }
        self.found.insert(host, Found { at: now, addresses });
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.found.len() + self.under_way.len()
    }
}

/// See the module.
pub(super) struct Looks {
    resolver: Arc<dyn Resolver>,
    clock: Arc<dyn Clock>,
    places: Arc<Semaphore>,
    known: Mutex<Known>,
}

/// One look-up. What it found is remembered, and who waits for it is told, as it is dropped: also where the resolver
/// panics.
struct Look {
    looks: Arc<Looks>,
    host: String,
    addresses: Vec<IpAddr>,
    _place: OwnedSemaphorePermit,
    _ended: watch::Sender<()>,
}

impl Look {
    /// It has ended with these addresses.
    fn found(mut self, addresses: Vec<IpAddr>) {
        self.addresses = addresses;
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        let now = self.looks.clock.monotonic();
        let mut known = self.looks.known();
        known.under_way.remove(&self.host);
        known.remember(std::mem::take(&mut self.host), std::mem::take(&mut self.addresses), now);
    }
}

impl Looks {
    pub(super) fn new(resolver: Arc<dyn Resolver>, clock: Arc<dyn Clock>) -> Arc<Looks> {
        let places = Arc::new(Semaphore::new(PLACES));
        Arc::new(Looks { resolver, clock, places, known: Mutex::default() })
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing that holds this lock can panic half-way through a change.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks a name up, unless something is known of it, or nothing can be found out: where others have waited for
    /// `patience` already, for this name or for those that have all places.
    pub(super) async fn look_up(self: Arc<Self>, host: String, patience: Duration) {
        let mut place = None;
        loop {
            match self.begin(&host, patience, place.take()) {
                Begun::InVain => return,
                Begun::UnderWay(mut ended) => {
                    // The look-up's end drops the sender, which is all that is told.
                    let _ = ended.changed().await;
                    return;
                }
                // Somebody may have looked this name up by the time that there is one.
                Begun::WithoutPlace => match Arc::clone(&self.places).acquire_owned().await {
                    Ok(free) => place = Some(free),
                    Err(_) => return,
                },
            }
        }
    }

    /// Begins to look a name up, in this place where it has one already, unless that is needless, or vain.
    fn begin(self: &Arc<Self>, host: &str, patience: Duration, place: Option<OwnedSemaphorePermit>) -> Begun {
        let now = self.clock.monotonic();
        let is_young = |look: &UnderWay| now.saturating_sub(look.since) < patience;
        let mut known = self.known();
        if known.is_known(host, now) {
            return Begun::InVain;
        }
        if let Some(look) = known.under_way.get(host) {
            return if is_young(look) { Begun::UnderWay(look.ended.clone()) } else { Begun::InVain };
        }
        let Some(place) = place.or_else(|| Arc::clone(&self.places).try_acquire_owned().ok()) else {
            let hope = known.under_way.values().any(is_young);
            return if hope { Begun::WithoutPlace } else { Begun::InVain };
        };
        let (sender, ended) = watch::channel(());
        known.under_way.insert(host.to_owned(), UnderWay { since: now, ended: ended.clone() });
        drop(known);
        let (looks, host) = (Arc::clone(self), host.to_owned());
        let look = Look { looks, host, addresses: Vec::new(), _place: place, _ended: sender };
        // Not a part of the request: who gives up waiting must not give the place back before the thread is free.
        tokio::spawn(async move {
            let addresses = look.looks.resolver.resolve(&look.host).await;
            look.found(addresses);
        });
        Begun::UnderWay(ended)
    }

    /// How many look-ups are under way.
    #[cfg(test)]
    pub(super) fn under_way(&self) -> usize {
        PLACES - self.places.available_permits()
    }
}
