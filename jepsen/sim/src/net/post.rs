//! The post office: calls that are under way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orloj_jepsen_agents::rng::Rng;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::link::{Fate, Link};
use super::{CallError, Reply, Request};
use crate::place::Place;

/// How long a caller tries to get a connection, in ms.
const CONNECT_MS: (u64, u64) = (500, 1_000);

/// What happened on the network, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Calls.
    pub calls: u64,
    /// Requests that were handed over a second time.
    pub duplicates: u64,
    /// Messages that were lost on a link that was cut.
    pub lost: u64,
}

/// A request that has arrived.
#[derive(Debug)]
pub struct Delivery {
    /// The call; `None` of a copy, whose answer nobody waits for.
    pub call: Option<u64>,
    /// Who asks.
    pub from: Place,
    /// Who is asked.
    pub to: Place,
    /// What is asked.
    pub request: Request,
}

#[derive(Debug)]
enum Parcel {
    Request(Delivery),
    /// The same request once more, after that of this call.
    Copy(u64, Delivery),
    Reply(u64, Result<Reply, CallError>),
    /// The caller has gone: whoever works on the call stops.
    Cancel(u64),
}

type Waiting = oneshot::Sender<Result<Reply, CallError>>;

/// A call whose caller still waits.
struct Call {
    from: Place,
    to: Place,
    answer: Waiting,
}

struct Core {
    now_ms: u64,
    rng: Rng,
    links: BTreeMap<(Place, Place), Link>,
    /// By the time of arrival, and then in the order of sending.
    queue: BTreeMap<(u64, u64), Parcel>,
    /// Sent over links that are cut and hold what they are given.
    held: Vec<((Place, Place), Parcel)>,
    calls: BTreeMap<u64, Call>,
    /// Calls that somebody works on.
    served: BTreeMap<u64, (Place, AbortHandle)>,
    next: u64,
    stats: Stats,
}

/// The network. Clones stand for the same.
#[derive(Clone)]
pub struct Net {
    core: Arc<Mutex<Core>>,
}

impl Net {
    /// Links between all places, without faults.
    pub fn new(rng: Rng) -> Net {
        let pairs = Place::all().flat_map(|from| Place::all().map(move |to| (from, to)));
        let links = pairs.filter(|(from, to)| from != to).map(|pair| (pair, Link::default())).collect();
        let core = Core {
            now_ms: 0,
            rng,
            links,
            queue: BTreeMap::new(),
            held: Vec::new(),
            calls: BTreeMap::new(),
            served: BTreeMap::new(),
            next: 0,
            stats: Stats::default(),
        };
        Net { core: Arc::new(Mutex::new(core)) }
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request and waits for the answer. A caller that stops waiting takes its request back, if it can.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call(
        &self,
        from: Place,
        to: Place,
        request: Request,
        deadline: Duration,
    ) -> Result<Reply, CallError> {
        let (answer, waiting) = oneshot::channel();
        let call = self.lock().send(Call { from, to, answer }, request);
        let _gone = Gone { net: self, call };
        match timeout(deadline, waiting).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(_)) => Err(CallError::Broken),
            Err(_) => Err(CallError::Timeout(deadline)),
        }
    }

    /// Moves the network's time on and hands over what has arrived.
    pub fn arrived(&self, now_ms: u64) -> Vec<Delivery> {
        self.lock().arrived(now_ms)
    }

    /// Notes who works on a call, so that it can be stopped when its caller goes.
    pub fn serving(&self, call: u64, place: Place, task: AbortHandle) {
        self.lock().served.insert(call, (place, task));
    }

    /// Sends the answer to a call.
    pub fn reply(&self, call: u64, reply: Reply) {
        self.lock().reply(call, Ok(reply));
    }

    /// Refuses a request that arrived at a place where nothing runs: it never took effect, and never will.
    pub fn refuse(&self, call: u64) {
        let mut core = self.lock();
        core.queue.retain(|_, parcel| !matches!(parcel, Parcel::Copy(of, _) if *of == call));
        core.reply(call, Err(CallError::Unreachable));
    }

    /// A place is gone. Its own calls are forgotten; `loudly`, as when its process ends and the kernel closes its
    /// connections, those that wait for it are told, otherwise they wait in vain.
    pub fn gone(&self, place: Place, loudly: bool) {
        let mut core = self.lock();
        core.calls.retain(|_, call| call.from != place);
        let served: Vec<u64> =
            core.served.iter().filter(|(_, (at, _))| *at == place).map(|(call, _)| *call).collect();
        for call in served {
            core.served.remove(&call);
            if loudly {
                core.reply(call, Err(CallError::Broken));
            }
        }
    }

    /// Changes links.
    pub fn change(&self, change: impl Fn(Place, Place, &mut Link)) {
        let mut core = self.lock();
        for ((from, to), link) in &mut core.links {
            change(*from, *to, link);
        }
        core.release();
    }

    /// What happened so far.
    pub fn stats(&self) -> Stats {
        self.lock().stats
    }
}

impl Core {
    fn send(&mut self, call: Call, request: Request) -> u64 {
        self.next += 1;
        self.stats.calls += 1;
        let (number, from, to) = (self.next, call.from, call.to);
        self.calls.insert(number, call);
        let link = self.links.get(&(from, to)).copied().unwrap_or_default();
        let repeats = request.may_repeat() && self.rng.chance(link.duplicate);
        let copy = repeats.then(|| request.clone());
        let parcel = Parcel::Request(Delivery { call: Some(number), from, to, request });
        match link.fate(&mut self.rng) {
            Fate::Arrives(after) => {
                self.put(after, parcel);
                if let Some(request) = copy {
                    self.stats.duplicates += 1;
                    let later = after + self.rng.between(1, 100);
                    self.put(later, Parcel::Copy(number, Delivery { call: None, from, to, request }));
                }
            }
            Fate::Held => self.held.push(((from, to), parcel)),
            Fate::Lost => {
                self.stats.lost += 1;
                // Half of the callers had no connection yet, and learn that they get none.
                if self.rng.chance(0.5) {
                    let after = self.rng.between(CONNECT_MS.0, CONNECT_MS.1);
                    self.put(after, Parcel::Reply(number, Err(CallError::Unreachable)));
                }
            }
            Fate::Reset(after) => self.put(after, Parcel::Reply(number, Err(CallError::Broken))),
        }
        number
    }

    fn put(&mut self, after_ms: u64, parcel: Parcel) {
        self.next += 1;
        self.queue.insert((self.now_ms + after_ms, self.next), parcel);
    }

    fn reply(&mut self, call: u64, reply: Result<Reply, CallError>) {
        self.served.remove(&call);
        let Some(Call { from, to, .. }) = self.calls.get(&call) else { return };
        let back = (*to, *from);
        let link = self.links.get(&back).copied().unwrap_or_default();
        match link.fate(&mut self.rng) {
            Fate::Arrives(after) => self.put(after, Parcel::Reply(call, reply)),
            Fate::Held => self.held.push((back, Parcel::Reply(call, reply))),
            Fate::Lost => self.stats.lost += 1,
            Fate::Reset(after) => self.put(after, Parcel::Reply(call, Err(CallError::Broken))),
        }
    }

    fn cancel(&mut self, number: u64) {
        let Some(Call { from, to, .. }) = self.calls.remove(&number) else { return };
        let link = self.links.get(&(from, to)).copied().unwrap_or_default();
        match link.fate(&mut self.rng) {
            Fate::Arrives(after) => self.put(after, Parcel::Cancel(number)),
            Fate::Held => self.held.push(((from, to), Parcel::Cancel(number))),
            Fate::Lost | Fate::Reset(_) => {}
        }
    }

    fn arrived(&mut self, now_ms: u64) -> Vec<Delivery> {
        self.now_ms = now_ms;
        let mut requests = Vec::new();
        while let Some(entry) = self.queue.first_entry()
            && entry.key().0 <= now_ms
        {
            match entry.remove() {
                Parcel::Request(delivery) | Parcel::Copy(_, delivery) => requests.push(delivery),
                // A caller that has gone needs no answer.
                Parcel::Reply(call, reply) => {
                    self.calls.remove(&call).map(|call| call.answer.send(reply));
                }
                Parcel::Cancel(call) => {
                    if let Some((_, task)) = self.served.remove(&call) {
                        task.abort();
                    }
                }
            }
        }
        requests
    }

    /// Sends on what links held that are whole again.
    fn release(&mut self) {
        for (pair, parcel) in std::mem::take(&mut self.held) {
            let link = self.links.get(&pair).copied().unwrap_or_default();
            if link.cut.is_some() {
                self.held.push((pair, parcel));
                continue;
            }
            let after = self.rng.between(link.delay_ms.0.max(1), link.delay_ms.1.max(1));
            self.put(after, parcel);
        }
    }
}

/// Takes a call back when its caller stops waiting.
struct Gone<'a> {
    net: &'a Net,
    call: u64,
}

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.net.lock().cancel(self.call);
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
