//! Where the names of callbacks lead, looked at as a task is submitted.
//!
//! The look that protects the network is the one before each send: a name may lead elsewhere by then. This one tells
//! whoever submits at once what would otherwise be found out after the task has run, and keeps what could never be sent
//! out of the table. So it is bounded, and what it does not find out in time is left to the send.

mod looks;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use orloj_scheduler::callback::{Resolver, host_and_port};
use orloj_wire::address::Cidr;
use orloj_wire::callback::Destination;
use orloj_wire::clock::Clock;

use crate::backend::StorageFault;
use looks::Looks;

/// How long a submission waits for all the names in it.
const PATIENCE: Duration = Duration::from_millis(500);
/// Names that one request looks up at the same time: a part of the places, so that no request takes all.
const AT_ONCE: usize = 4;
/// Own listeners whose names one request looks up, at most.
const OWN_NAMES: usize = 16;
/// How long what is known of the cluster's own listeners is good for.
const OWN_FRESH: Duration = Duration::from_secs(1);

/// The cluster's own listeners, and when they were read.
type OwnListeners = Option<(Duration, Arc<[String]>)>;

/// Looks up the names of callbacks, and remembers for a while where they lead.
pub struct Outlook {
    looks: Arc<Looks>,
    allowed: Vec<Cidr>,
    clock: Arc<dyn Clock>,
    own_ports: Vec<u16>,
    own: Mutex<OwnListeners>,
}

impl Outlook {
    /// `allowed`: ranges beside the public internet that the operator lets callbacks reach.
    pub fn new(resolver: Arc<dyn Resolver>, allowed: Vec<Cidr>, clock: Arc<dyn Clock>) -> Outlook {
        let looks = Looks::new(resolver, Arc::clone(&clock));
        Outlook { looks, allowed, clock, own_ports: Vec::new(), own: Mutex::default() }
    }

    /// The same on a replica that listens on these ports: no callback goes to a replica's machine on one of them.
    #[must_use]
    pub fn with_own_ports(self, own_ports: Vec<u16>) -> Outlook {
        Outlook { own_ports, ..self }
    }

    /// The cluster's own listeners, as they were read a moment ago, or by `read` with the ports of this replica.
    pub(crate) fn own_listeners(
        &self,
        read: impl FnOnce(&[u16]) -> Result<Vec<String>, StorageFault>,
    ) -> Result<Arc<[String]>, StorageFault> {
        let now = self.clock.monotonic();
        // Nothing that holds this lock can panic half-way through a change.
        let mut known = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, own)) = known.as_ref()
            && now.saturating_sub(*at) < OWN_FRESH
        {
            return Ok(Arc::clone(own));
        }
        let own: Arc<[String]> = read(&self.own_ports)?.into();
        *known = Some((now, Arc::clone(&own)));
        Ok(own)
    }

    /// Looks up those names of which nothing is known, of these addresses and of the own listeners with their ports, as
    /// far as that is done in time.
    pub(crate) async fn look(&self, to: &[Destination], own: &[String]) {
        let look = |host| Arc::clone(&self.looks).look_up(host, PATIENCE);
        let looks: Vec<_> = names(to, own).into_iter().map(look).collect();
        let looks = stream::iter(looks).buffer_unordered(AT_ONCE).collect::<()>();
        // What is not known by then is looked at before the send.
        let _ = tokio::time::timeout(PATIENCE, looks).await;
    }

    /// Whether a name is known to lead where callbacks may not go: also to one of the own listeners.
    pub(crate) fn leads_astray(&self, to: &Destination, own: &[String]) -> bool {
        let now = self.clock.monotonic();
        let known = self.looks.known();
        let called = known.addresses(to.host(), now);
        if !called.iter().all(|one| to.may_reach(*one, &self.allowed)) {
            return true;
        }
        let is_called = |own: &IpAddr| called.iter().any(|one| one.to_canonical() == own.to_canonical());
        let mut own = own.iter().filter_map(|own| host_and_port(own)).filter(|(_, port)| *port == to.port());
        own.any(|(host, _)| match host.parse::<IpAddr>() {
            Ok(address) => is_called(&address),
            Err(_) if host.eq_ignore_ascii_case(to.host()) => true,
            Err(_) => known.addresses(&host.to_ascii_lowercase(), now).iter().any(is_called),
        })
    }
}

/// The names that these addresses have, and then those of the own listeners with the same ports, each once: own listeners
/// whose names nobody answers for must not use the time up in which the names of the request are looked at.
fn names(to: &[Destination], own: &[String]) -> Vec<String> {
    let is_called = |port: u16| to.iter().any(|to| to.port() == port);
    let own = own.iter().filter_map(|own| host_and_port(own)).filter(|(_, port)| is_called(*port));
    let own = own.filter(|(host, _)| host.parse::<IpAddr>().is_err());
    let own = own.map(|(host, _)| host.to_ascii_lowercase()).take(OWN_NAMES);
    let mut known = BTreeSet::new();
    to.iter().map(|to| to.host().to_owned()).chain(own).filter(|name| known.insert(name.clone())).collect()
}

#[cfg(test)]
#[path = "outlook/outlook_tests.rs"]
mod tests;
