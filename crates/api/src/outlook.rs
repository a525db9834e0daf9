//! Where the names of callbacks lead, looked at as a task is submitted.
//!
//! The look that protects the network is the one before each send: a name may lead elsewhere by then. This one tells
//! whoever submits at once what would otherwise be found out after the task has run, and keeps what could never be sent
//! out of the table. So it is bounded, and what it does not find out in time is left to the send.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use orloj_scheduler::callback::Resolver;
use orloj_wire::address::Cidr;
use orloj_wire::callback::Destination;
use orloj_wire::clock::Clock;

/// How long a submission waits for all the names in it.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long what a name leads to is remembered.
const KEPT: Duration = Duration::from_secs(30);
/// The most names that are remembered.
const MOST: usize = 1_024;
/// Names that one request looks up at the same time.
const AT_ONCE: usize = 8;

/// Looks up the names of callbacks, and remembers for a while where they lead.
pub struct Outlook {
    resolver: Arc<dyn Resolver>,
    allowed: Vec<Cidr>,
    clock: Arc<dyn Clock>,
    /// By host: when it was looked up, on the monotonic clock, and its addresses.
    known: Mutex<HashMap<String, (Duration, Vec<IpAddr>)>>,
}

impl Outlook {
    /// `allowed`: ranges beside the public internet that the operator lets callbacks reach.
    pub fn new(resolver: Arc<dyn Resolver>, allowed: Vec<Cidr>, clock: Arc<dyn Clock>) -> Outlook {
        Outlook { resolver, allowed, clock, known: Mutex::default() }
    }

    /// Looks up those of these hosts of which nothing is known, as far as that is done in time.
    pub(crate) async fn look(&self, mut hosts: BTreeSet<String>) {
        let now = self.clock.monotonic();
        hosts.retain(|host| !self.known().get(host).is_some_and(|(at, _)| is_fresh(*at, now)));
        if hosts.is_empty() {
            return;
        }
        let looks: Vec<_> = hosts.into_iter().map(|host| self.look_up(host)).collect();
        let looks = stream::iter(looks).buffer_unordered(AT_ONCE).collect::<()>();
        // What is not known by then is looked at before the send.
        let _ = tokio::time::timeout(PATIENCE, looks).await;
    }

    async fn look_up(&self, host: String) {
        let addresses = self.resolver.resolve(&host).await;
        if !addresses.is_empty() {
            self.remember(host, addresses);
        }
    }

    /// Whether a name is known to lead where callbacks may not go.
    pub(crate) fn leads_astray(&self, to: &Destination) -> bool {
        let now = self.clock.monotonic();
        let known = self.known();
        let addresses = known.get(to.host()).filter(|(at, _)| is_fresh(*at, now));
        addresses.is_some_and(|(_, found)| !found.iter().all(|one| to.may_reach(*one, &self.allowed)))
    }

    fn remember(&self, host: String, addresses: Vec<IpAddr>) {
        let now = self.clock.monotonic();
        let mut known = self.known();
        if known.len() >= MOST {
            known.retain(|_, (at, _)| is_fresh(*at, now));
        }
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(host, (now, addresses));
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, (Duration, Vec<IpAddr>)>> {
        // Nothing that holds this lock can panic half-way through a change.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_fresh(looked_up: Duration, now: Duration) -> bool {
    now.saturating_sub(looked_up) < KEPT
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::BoxFuture;
    use orloj_model::time::ManualClock;
    use orloj_wire::callback::{HostEntry, HostRule, check_url};

    use super::*;

    /// Knows hosts that begin with an address; never answers for `silent`.
    #[derive(Default)]
    struct Names {
        asked: AtomicUsize,
    }

    impl Resolver for Names {
        fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Vec<IpAddr>> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                if host.starts_with("silent") {
                    std::future::pending::<()>().await;
                }
                let address = host.split_once(".example.com").map(|(start, _)| start.replace('-', "."));
                address.and_then(|text| text.parse().ok()).into_iter().collect()
            })
        }
    }

    fn to(host: &str) -> Destination {
        let entry = HostEntry {
            host: "*.example.com".into(),
            ports: vec![443],
            plain_http: false,
            allow_cidrs: vec![],
        };
        check_url(&format!("https://{host}/cb"), &[HostRule::new(&entry).unwrap()]).unwrap()
    }

    fn hosts(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_that_leads_inside_is_known_for_a_while_and_one_that_nobody_knows_is_let_pass() {
        let (names, clock) = (Arc::new(Names::default()), Arc::new(ManualClock::at(0)));
        let outlook = Outlook::new(Arc::clone(&names) as _, Vec::new(), Arc::clone(&clock) as _);
        let (inside, outside) = ("10-0-0-5.example.com", "203-0-114-9.example.com");
        let all = hosts(&[inside, outside, "unknown.example.com", "silent.example.com"]);
        outlook.look(all.clone()).await;
        let astray = |host| outlook.leads_astray(&to(host));
        assert_eq!([inside, outside].map(astray), [true, false]);
        assert_eq!(
            ["unknown.example.com", "silent.example.com", "never.example.com"].map(astray),
            [false; 3]
        );
        outlook.look(hosts(&[inside, outside])).await;
        assert_eq!(names.asked.load(Ordering::Relaxed), 4, "what is known is not asked again");
        clock.advance_ms(30_000);
        assert!(!astray(inside), "by now it may lead elsewhere");
        outlook.look(hosts(&[inside])).await;
        assert!(astray(inside));
    }

    #[tokio::test]
    async fn what_is_remembered_is_bounded() {
        let clock = Arc::new(ManualClock::at(0));
        let outlook = Outlook::new(Arc::new(Names::default()), Vec::new(), clock);
        for number in 0..3 * MOST {
            outlook.look(hosts(&[&format!("10-0-{}-{}.example.com", number / 256, number % 256)])).await;
            assert!(outlook.known().len() <= MOST);
        }
    }
}
