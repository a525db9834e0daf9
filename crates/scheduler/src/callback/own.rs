//! Whether an address is one of the cluster's own listeners: nobody may make it call itself.
//!
//! Listeners are known by `host:port`, as they are configured, and the host may be a name. Only those with the port
//! that is called matter, so that as a rule there is nothing to resolve.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use orloj_model::Clock;
use tokio::time::timeout;

use super::link::Resolver;

/// How long the addresses of a name are good for.
const FRESH: Duration = Duration::from_secs(30);
/// To resolve one name.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(1);
/// Names that are resolved at once.
const AT_ONCE: usize = 16;
/// This machine, to itself.
const LOOPBACK: [&str; 2] = ["127.0.0.1", "[::1]"];
/// Names that are remembered.
const KNOWN: usize = 10_000;

/// The addresses of the names of own listeners, as they were found last.
pub(super) struct OwnNames {
    resolver: Arc<dyn Resolver>,
    clock: Arc<dyn Clock>,
    known: Mutex<HashMap<String, Known>>,
}

struct Known {
    /// Monotonic.
    at: Duration,
    addresses: Vec<IpAddr>,
}

/// How an address stands to the cluster's own listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is one of them.
    Own,
    /// It is none of them.
    Foreign,
    /// One of them, with the port that is called, has never been found: it may be that one.
    Unknown,
}

impl OwnNames {
    /// Nothing is known yet.
    pub(super) fn new(resolver: Arc<dyn Resolver>, clock: Arc<dyn Clock>) -> Self {
        OwnNames { resolver, clock, known: Mutex::default() }
    }

    /// Whether `host`, or one of its `addresses`, is one of the listeners `own`.
    pub(super) async fn hold(&self, own: &[String], host: &str, addresses: &[SocketAddr]) -> Standing {
        let Some(port) = addresses.first().map(SocketAddr::port) else { return Standing::Foreign };
        let hosts = own.iter().filter_map(|one| host_and_port(one)).filter(|(_, own)| *own == port);
        let called: Vec<IpAddr> = addresses.iter().map(|address| address.ip().to_canonical()).collect();
        let mut names = Vec::new();
        for (own, _) in hosts {
            match own.parse::<IpAddr>() {
                Ok(address) if called.contains(&address.to_canonical()) => return Standing::Own,
                Ok(_) => {}
                Err(_) if own.eq_ignore_ascii_case(host) => return Standing::Own,
                Err(_) => names.push(own.to_ascii_lowercase()),
            }
        }
        names.sort_unstable();
        names.dedup();
        let found = futures_util::stream::iter(names).map(|name| self.addresses(name));
        let mut found = found.buffer_unordered(AT_ONCE);
        let mut standing = Standing::Foreign;
        while let Some(addresses) = found.next().await {
            if addresses.iter().any(|address| called.contains(&address.to_canonical())) {
                return Standing::Own;
            }
            if addresses.is_empty() {
                standing = Standing::Unknown;
            }
        }
        standing
    }

    /// The addresses of a name. One that has none just now keeps those that it had: they are looked up to be refused.
    /// One that never had any is asked for again the next time.
    async fn addresses(&self, name: String) -> Vec<IpAddr> {
        let now = self.clock.monotonic();
        let known = self.known().get(&name).map(|known| (known.at, known.addresses.clone()));
        if let Some((at, addresses)) = &known
            && now.saturating_sub(*at) < FRESH
        {
            return addresses.clone();
        }
        let found = timeout(RESOLVE_TIMEOUT, self.resolver.resolve(&name)).await.unwrap_or_default();
        let addresses = match (found.is_empty(), known) {
            (true, Some((_, before))) => before,
            (true, None) => return found,
            (false, _) => found,
        };
        let mut known = self.known();
        if known.len() >= KNOWN {
            known.clear();
        }
        known.insert(name, Known { at: now, addresses: addresses.clone() });
        addresses
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        // Nothing that holds this lock can panic half-way through a change.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a replica listens: as its peers and its callers know it, and at its machine, and on loopback, with each of these
/// `ports`, on which the replica that asks listens itself. Where something stands before the listeners, callers know
/// them by another name, and administrators may have one on loopback; the replicas of a cluster have the same ports as a rule.
pub fn of_replica(internal: &str, api: &str, ports: &[u16]) -> Vec<String> {
    let mut listeners = vec![internal.to_owned(), api.to_owned()];
    if let Some((host, _)) = host_and_port(internal) {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        listeners.extend(ports.iter().map(|port| format!("{host}:{port}")));
    }
    for port in ports {
        listeners.extend(LOOPBACK.map(|host| format!("{host}:{port}")));
    }
    listeners
}

/// Host and port of a listener; also of one that is written as a URL, or with an IPv6 address in brackets.
pub fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (scheme, bare) = text.split_once("://").unwrap_or(("", text));
    let bare = bare.trim_end_matches('/');
    let (host, port) = match bare.rsplit_once(':').filter(|_| !bare.ends_with(']')) {
        Some((host, port)) => (host, port.parse().ok()?),
        None if scheme == "https" => (bare, 443),
        None if scheme == "http" => (bare, 80),
        None => return None,
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some((host.trim_end_matches('.'), port))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::BoxFuture;
    use orloj_model::time::ManualClock;

    use super::Standing::{Foreign, Own, Unknown};
    use super::*;

    /// Knows one name, until it is told to know none.
    #[derive(Default)]
    struct Names {
        asked: AtomicUsize,
        silent: std::sync::atomic::AtomicBool,
    }

    impl Resolver for Names {
        fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Vec<IpAddr>> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let known = host == "replica-1.internal" && !self.silent.load(Ordering::SeqCst);
            let found = if known { vec!["10.0.0.1".parse().unwrap()] } else { Vec::new() };
            Box::pin(async move { found })
        }
    }

    fn own(resolver: &Arc<Names>) -> (OwnNames, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at(0));
        (OwnNames::new(Arc::clone(resolver) as _, Arc::clone(&clock) as _), clock)
    }

    fn called(text: &str) -> Vec<SocketAddr> {
        vec![text.parse().unwrap()]
    }

    #[tokio::test]
    async fn a_listener_is_known_by_address_and_by_name() {
        let resolver = Arc::new(Names::default());
        let (names, _) = own(&resolver);
        for (listener, host, address, standing) in [
            ("10.0.0.1:7071", "x", "10.0.0.1:7071", Own),
            ("10.0.0.1:7071", "x", "[::ffff:10.0.0.1]:7071", Own),
            ("http://10.0.0.1:7071/", "x", "10.0.0.1:7071", Own),
            ("[fd00::1]:7071", "x", "[fd00::1]:7071", Own),
            ("https://[fd00::1]", "x", "[fd00::1]:443", Own),
            ("https://api.internal/", "api.internal", "10.9.9.9:443", Own),
            ("replica-1.internal:7071", "x", "10.0.0.1:7071", Own),
            ("https://Replica-1.Internal.:7071", "x", "10.0.0.1:7071", Own),
            ("other.internal:7071", "other.internal", "10.9.9.9:7071", Own),
            ("other.internal:7071", "x", "10.0.0.1:7071", Unknown),
            ("other.internal:7072", "x", "10.0.0.1:7071", Foreign),
            ("10.0.0.1:7071", "x", "10.0.0.1:7072", Foreign),
            ("replica-1.internal:7071", "x", "10.0.0.2:7071", Foreign),
            ("nonsense", "x", "10.0.0.1:7071", Foreign),
        ] {
            let listeners = ["9.9.9.9:1".to_owned(), listener.to_owned()];
            let found = names.hold(&listeners, host, &called(address)).await;
            assert_eq!(found, standing, "{listener} {host} {address}");
        }
    }

    #[tokio::test]
    async fn a_listener_behind_something_else_is_known_at_its_machine() {
        let resolver = Arc::new(Names::default());
        let (names, _) = own(&resolver);
        for (internal, address, standing) in [
            ("10.0.0.1:7071", "10.0.0.1:7071", Own),
            ("10.0.0.1:7071", "10.0.0.1:8443", Own),
            ("10.0.0.1:7071", "10.0.0.1:9100", Foreign),
            ("10.0.0.1:7071", "10.0.0.2:8443", Foreign),
            ("replica-1.internal:7071", "10.0.0.1:8443", Own),
            ("[fd00::1]:7071", "[fd00::1]:8443", Own),
            ("nonsense", "10.0.0.1:8443", Foreign),
            ("10.0.0.1:7071", "127.0.0.1:8443", Own),
            ("10.0.0.1:7071", "[::1]:7071", Own),
            ("10.0.0.1:7071", "127.0.0.1:9100", Foreign),
        ] {
            let listeners = of_replica(internal, "https://orloj.example.com", &[8443, 7071]);
            let found = names.hold(&listeners, "x", &called(address)).await;
            assert_eq!(found, standing, "{internal} {address}");
        }
    }

    #[tokio::test]
    async fn names_are_resolved_once_in_a_while_and_only_where_the_port_is_called() {
        let resolver = Arc::new(Names::default());
        let (names, clock) = own(&resolver);
        let listeners = ["replica-1.internal:7071".to_owned()];
        assert_eq!(names.hold(&listeners, "x", &called("10.0.0.1:443")).await, Foreign);
        assert_eq!(resolver.asked.load(Ordering::SeqCst), 0);
        for _ in 0..3 {
            assert_eq!(names.hold(&listeners, "x", &called("10.0.0.1:7071")).await, Own);
        }
        assert_eq!(resolver.asked.load(Ordering::SeqCst), 1);
        // A resolver that fails opens nothing.
        resolver.silent.store(true, Ordering::SeqCst);
        clock.advance_ms(60_000);
        assert_eq!(names.hold(&listeners, "x", &called("10.0.0.1:7071")).await, Own);
        assert_eq!(resolver.asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_name_that_was_never_found_lets_nothing_pass_and_is_asked_for_again() {
        let resolver = Arc::new(Names::default());
        resolver.silent.store(true, Ordering::SeqCst);
        let (names, _) = own(&resolver);
        let listeners = ["replica-1.internal:7071".to_owned()];
        for asked in 1..=2 {
            assert_eq!(names.hold(&listeners, "x", &called("10.0.0.1:7071")).await, Unknown);
            assert_eq!(resolver.asked.load(Ordering::SeqCst), asked);
        }
        resolver.silent.store(false, Ordering::SeqCst);
        assert_eq!(names.hold(&listeners, "x", &called("10.0.0.1:7071")).await, Own);
        assert_eq!(names.hold(&listeners, "x", &called("10.0.0.2:7071")).await, Foreign);
    }
}
