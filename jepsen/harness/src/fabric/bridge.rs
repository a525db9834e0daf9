//! The network without TUN: a bridge joins the hosts, and a packet filter in each receiving host can cut,
//! lose and slow what comes from another.

use std::fmt::Write;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};

use super::DEVICE;
use super::rule::LinkRule;
use crate::inside::Host;
use crate::journal::{Journal, Step, Ticket};
use crate::netns;
use crate::run_id::RunId;

/// The namespace of the bridge, beside those of the hosts.
const NETNS: &str = "bridge-net";

/// The running bridge. Its namespace and those of the hosts own everything, so it needs no `Drop`.
pub struct Bridge {
    hosts: usize,
    rules: Mutex<Vec<LinkRule>>,
}

impl Bridge {
    /// Joins `hosts`, whose namespaces exist.
    ///
    /// # Errors
    /// When the machine has no bridges or no virtual Ethernet pairs.
    pub fn start(run: &RunId, hosts: &[Host], journal: &Journal, tickets: &mut Vec<Ticket>) -> Result<Self> {
        let name = run.netns(NETNS);
        tickets.push(journal.begin(Step::Netns { name: name.clone() })?);
        netns::create(&name)?;
        let mut lines = String::from("link add br0 type bridge\nlink set br0 up\n");
        for (host, port) in hosts.iter().zip(0..) {
            // Writing to a String cannot fail.
            let _ = writeln!(
                lines,
                "link add p{port} type veth peer name {DEVICE} netns {}\nlink set p{port} master br0 up",
                host.netns()
            );
        }
        netns::within(&netns::open(&name)?, || netns::ip_batch(&lines))?;
        for host in hosts {
            host.run_inside(|| super::configure(host.address()))?;
        }
        Ok(Self { hosts: hosts.len(), rules: Mutex::new(vec![LinkRule::default(); hosts.len().pow(2)]) })
    }

    /// Changes the rule of a link.
    ///
    /// # Errors
    /// When the rule needs the router, or `nft` does not work here.
    pub fn set(&self, hosts: &[Host], from: usize, to: usize, rule: LinkRule) -> Result<()> {
        if rule.needs_tun() {
            bail!(
                "without TUN a link can be cut, lossy or slow, but not delayed, doubled, reordered or damaged"
            );
        }
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut rules[from * self.hosts + to], rule);
        let outcome = self.install(hosts, to, &rules);
        if outcome.is_err() {
            rules[from * self.hosts + to] = before;
        }
        outcome
    }

    /// The rule of a link.
    pub fn rule(&self, from: usize, to: usize) -> LinkRule {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)[from * self.hosts + to]
    }

    /// Makes every link plain.
    ///
    /// # Errors
    /// When `nft` does not work here.
    pub fn heal(&self, hosts: &[Host]) -> Result<()> {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        for to in 0..self.hosts {
            let hurt = (0..self.hosts).any(|from| !rules[from * self.hosts + to].is_plain());
            if hurt {
                for from in 0..self.hosts {
                    rules[from * self.hosts + to] = LinkRule::default();
                }
                self.install(hosts, to, &rules)?;
            }
        }
        Ok(())
    }

    fn install(&self, hosts: &[Host], to: usize, rules: &[LinkRule]) -> Result<()> {
        let incoming = hosts.iter().enumerate().map(|(from, host)| (host, rules[from * self.hosts + to]));
        let filter = filter(incoming);
        hosts[to].run_inside(|| netns::feed(Command::new("nft").args(["-f", "-"]), &filter))
    }
}

/// The packet filter of one receiving host, replacing the one before in a single step.
fn filter<'a>(incoming: impl Iterator<Item = (&'a Host, LinkRule)>) -> String {
    let mut text = String::from(
        "table ip orloj\ndelete table ip orloj\ntable ip orloj {\nchain incoming {\ntype filter hook input priority 0;\n",
    );
    for (host, rule) in incoming {
        let address = host.address();
        // Writing to a String cannot fail.
        let _ = match rule {
            LinkRule { up: false, .. } => writeln!(text, "ip saddr {address} drop"),
            _ => Ok(()),
        };
        if rule.up && rule.loss > 0.0 {
            let share = (rule.loss * 10_000.0).round() as u32;
            let _ = writeln!(text, "ip saddr {address} numgen random mod 10000 < {share} drop");
        }
        if rule.up && rule.rate_bytes_per_s > 0 {
            let rate = rule.rate_bytes_per_s;
            let _ = writeln!(text, "ip saddr {address} limit rate over {rate} bytes/second drop");
        }
    }
    text.push_str("}\n}\n");
    text
}
