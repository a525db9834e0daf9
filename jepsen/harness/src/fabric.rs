//! The network of a run: one namespace per host, joined by a router in this process that can cut, delay,
//! lose, double, reorder, slow and damage the packets of every directed link. Where the machine has no TUN
//! device, a bridge with packet filters takes the router's place and can cut, lose and slow.

mod bridge;
mod engine;
mod packet;
mod random;
mod router;
mod rule;
mod tun;

use std::collections::HashMap;
use std::net::Ipv4Addr;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::inside::Host;
use crate::journal::{Journal, Step, Ticket};
use crate::netns;
use crate::run_id::RunId;
use crate::tool::tool;
use bridge::Bridge;
use engine::Engine;
use router::Router;

pub use rule::{Counters, LinkRule};

/// The name of each host's network device, inside the host's own namespace.
pub const DEVICE: &str = "oj0";

/// A host to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSpec {
    /// Its name: letters, digits and `-`, at most 16.
    pub name: String,
    /// Its address, in 10.77.0.0/24.
    pub address: Ipv4Addr,
}

impl HostSpec {
    /// The host `name` at 10.77.0.`last`.
    pub fn new(name: impl Into<String>, last: u8) -> Self {
        Self { name: name.into(), address: Ipv4Addr::new(10, 77, 0, last) }
    }
}

/// What one directed link has counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkCounters {
    /// The sending host.
    pub from: String,
    /// The receiving host.
    pub to: String,
    /// The counts.
    #[serde(flatten)]
    pub counters: Counters,
}

/// The running network. Dropping it removes the hosts, and with them every process inside.
pub struct Fabric {
    hosts: Vec<Host>,
    by_name: HashMap<String, usize>,
    wire: Wire,
    journal: Journal,
    tickets: Vec<Ticket>,
}

enum Wire {
    Router(Router),
    Bridge(Bridge),
}

/// What joins the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wiring {
    /// The router in this process, with a TUN device for each host. It can do everything.
    Router,
    /// A bridge of the kernel with packet filters. It can cut, lose and slow, and counts nothing.
    Bridge,
}

impl Fabric {
    /// Makes the hosts of `run` and joins them by the router, or by the bridge where the machine gives no TUN
    /// device; `seed` decides the draws of every link. Every step stands in `journal` before it is done.
    ///
    /// # Errors
    /// When a name or an address is taken or malformed, or the machine has no network namespaces. What was
    /// made until then is removed.
    pub fn start(run: &RunId, hosts: &[HostSpec], seed: u64, journal: &Journal) -> Result<Self> {
        match Self::start_with(Wiring::Router, run, hosts, seed, journal) {
            Err(error) if error.is::<NoTun>() => {
                tracing::warn!("{error:#}: a bridge joins the hosts, and links cannot be slowed by a delay");
                Self::start_with(Wiring::Bridge, run, hosts, seed, journal)
            }
            outcome => outcome,
        }
    }

    /// [`Fabric::start`] with a fixed wiring.
    ///
    /// # Errors
    /// As there, and when the machine cannot do this wiring.
    pub fn start_with(
        wiring: Wiring,
        run: &RunId,
        specs: &[HostSpec],
        seed: u64,
        journal: &Journal,
    ) -> Result<Self> {
        check(specs)?;
        let mut tickets = Vec::new();
        let made = make_hosts(run, specs, journal, &mut tickets).and_then(|hosts| {
            let wire = match wiring {
                Wiring::Router => Wire::Router(join_by_router(&hosts, seed)?),
                Wiring::Bridge => Wire::Bridge(Bridge::start(run, &hosts, journal, &mut tickets)?),
            };
            Ok((hosts, wire))
        });
        match made {
            Ok((hosts, wire)) => {
                let by_name = hosts.iter().map(|host| host.name().to_string()).zip(0..).collect();
                Ok(Self { hosts, by_name, wire, journal: journal.clone(), tickets })
            }
            Err(error) => {
                journal.undo(&tickets);
                Err(error)
            }
        }
    }

    /// The host of this name.
    ///
    /// # Panics
    /// When there is none: host names are constants of the scenario.
    pub fn host(&self, name: &str) -> &Host {
        match self.by_name.get(name) {
            Some(index) => &self.hosts[*index],
            None => panic!("the fabric has no host {name:?}"),
        }
    }

    /// All hosts, in the order of their making.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// What joins the hosts.
    pub fn wiring(&self) -> Wiring {
        match self.wire {
            Wire::Router(_) => Wiring::Router,
            Wire::Bridge(_) => Wiring::Bridge,
        }
    }

    /// Gives the directed link `from` -> `to` a rule, at once and also for what is under way.
    ///
    /// # Errors
    /// When a host is unknown, the rule is meaningless, or the fallback cannot do it.
    pub fn set_link(&self, from: &str, to: &str, rule: LinkRule) -> Result<()> {
        let (from, to) = (self.index(from)?, self.index(to)?);
        if let Some(fault) = rule.fault() {
            bail!("a rule for {} -> {}: {fault}", self.hosts[from].name(), self.hosts[to].name());
        }
        match &self.wire {
            Wire::Router(router) => router.engine().set(from, to, rule),
            Wire::Bridge(bridge) => bridge.set(&self.hosts, from, to, rule)?,
        }
        Ok(())
    }

    /// The rule of the directed link `from` -> `to`.
    ///
    /// # Errors
    /// When a host is unknown.
    pub fn link(&self, from: &str, to: &str) -> Result<LinkRule> {
        let (from, to) = (self.index(from)?, self.index(to)?);
        Ok(match &self.wire {
            Wire::Router(router) => router.engine().rule(from, to),
            Wire::Bridge(bridge) => bridge.rule(from, to),
        })
    }

    /// Makes every link plain again.
    ///
    /// # Errors
    /// Only on the fallback: when a packet filter cannot be changed.
    pub fn heal(&self) -> Result<()> {
        match &self.wire {
            Wire::Router(router) => {
                let mut engine = router.engine();
                for (from, to) in self.pairs().filter(|(from, to)| from != to) {
                    if !engine.rule(from, to).is_plain() {
                        engine.set(from, to, LinkRule::default());
                    }
                }
                Ok(())
            }
            Wire::Bridge(bridge) => bridge.heal(&self.hosts),
        }
    }

    /// What each directed link has counted since the start, without links that nothing used. Empty on the
    /// fallback, which counts nothing.
    pub fn counters(&self) -> Vec<LinkCounters> {
        let Wire::Router(router) = &self.wire else { return Vec::new() };
        let engine = router.engine();
        let all = self.pairs().map(|(from, to)| LinkCounters {
            from: self.hosts[from].name().to_string(),
            to: self.hosts[to].name().to_string(),
            counters: engine.counters(from, to),
        });
        all.filter(|link| link.counters != Counters::default()).collect()
    }

    /// Breaks every TCP connection between two hosts: `a`'s kernel aborts its ends, so its processes see
    /// them fail at once, and sends resets, so `b`'s processes do too. When `a` -> `b` is cut, the reset is
    /// lost and `b` is left with half-open connections: cut first to make them.
    ///
    /// # Errors
    /// When a host is unknown or `ss -K` does not work here.
    pub fn reset_connections(&self, a: &str, b: &str) -> Result<()> {
        let (a, b) = (self.index(a)?, self.index(b)?);
        let peer = self.hosts[b].address().to_string();
        self.hosts[a].run_inside(|| tool("ss", &["-K", "-t", "dst", &peer]).map(drop))
    }

    fn index(&self, name: &str) -> Result<usize> {
        self.by_name.get(name).copied().with_context(|| format!("the fabric has no host {name:?}"))
    }

    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let hosts = self.hosts.len();
        (0..hosts * hosts).map(move |index| (index / hosts, index % hosts))
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        for problem in self.journal.undo(&self.tickets) {
            tracing::warn!("removing the network of a run: {problem}");
        }
    }
}

/// The machine gives no TUN device.
#[derive(Debug)]
struct NoTun(rustix::io::Errno);

impl std::fmt::Display for NoTun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no TUN device can be made: {}", self.0)
    }
}

impl std::error::Error for NoTun {}

fn make_hosts(
    run: &RunId,
    specs: &[HostSpec],
    journal: &Journal,
    tickets: &mut Vec<Ticket>,
) -> Result<Vec<Host>> {
    let make = |spec: &HostSpec| {
        let name = run.netns(&spec.name);
        tickets.push(journal.begin(Step::Netns { name: name.clone() })?);
        netns::create(&name)?;
        Host::open(&spec.name, spec.address, name)
    };
    specs.iter().map(make).collect()
}

fn join_by_router(hosts: &[Host], seed: u64) -> Result<Router> {
    let device = |host: &Host| {
        host.run_inside(|| {
            let device = tun::open(DEVICE).map_err(NoTun)?;
            configure(host.address())?;
            Ok(device)
        })
    };
    let devices = hosts.iter().map(device).collect::<Result<_>>()?;
    let addresses: Vec<Ipv4Addr> = hosts.iter().map(Host::address).collect();
    Router::start(devices, &addresses, Engine::new(hosts.len(), seed))
}

fn check(hosts: &[HostSpec]) -> Result<()> {
    for (at, host) in hosts.iter().enumerate() {
        let letters = host.name.chars().all(|char| char.is_ascii_alphanumeric() || char == '-');
        if host.name.is_empty() || host.name.len() > 16 || !letters {
            bail!("{:?} is not a host name: at most 16 letters, digits and '-'", host.name);
        }
        if host.address.octets()[..3] != [10, 77, 0] {
            bail!("the address {} of {} is not in 10.77.0.0/24", host.address, host.name);
        }
        if hosts[..at].iter().any(|other| other.name == host.name || other.address == host.address) {
            bail!("two hosts share the name {} or the address {}", host.name, host.address);
        }
    }
    Ok(())
}

/// Brings the device and the loopback of the calling thread's namespace up.
fn configure(address: Ipv4Addr) -> Result<()> {
    // Without IPv6 the kernel sends no neighbour discovery of its own. A kernel built without it has no such
    // file, which is just as good.
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
    netns::ip_batch(&format!(
        "link set lo up\naddress add {address}/24 dev {DEVICE}\nlink set {DEVICE} mtu 1500 txqueuelen 1000 up\n"
    ))
}
