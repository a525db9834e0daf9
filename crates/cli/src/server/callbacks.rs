//! How a replica sends callbacks.

use std::sync::Arc;

use anyhow::Context as _;
use orloj_api::{Directory, Outlook};
use orloj_net::OutsideTls;
use orloj_scheduler::callback::{Callbacks, HttpCallbackLink, SystemResolver};
use orloj_wire::address::Cidr;
use orloj_wire::clock::Clock;
use serde::{Deserialize, Serialize};

/// The table `callbacks` of a replica's configuration file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Options {
    /// Ranges outside the public internet that callbacks may reach, for callers whose own list names them too.
    /// Default: none.
    pub allow_cidrs: Vec<String>,
}

impl Options {
    /// Refuses what is no range.
    ///
    /// # Errors
    /// The value.
    pub fn check(&self) -> anyhow::Result<()> {
        self.cidrs().map(drop)
    }

    fn cidrs(&self) -> anyhow::Result<Vec<Cidr>> {
        let range = |text: &String| {
            Cidr::parse(text)
                .with_context(|| format!("allow-cidrs: {text:?} is not an address range like 10.0.0.0/8"))
        };
        self.allow_cidrs.iter().map(range).collect()
    }

    /// Looks where the names of callbacks lead as tasks are submitted. `own_ports` are those of this replica's listeners.
    ///
    /// # Errors
    /// A range that is none.
    pub fn outlook(&self, clock: Arc<dyn Clock>, own_ports: Vec<u16>) -> anyhow::Result<Outlook> {
        Ok(Outlook::new(Arc::new(SystemResolver), self.cidrs()?, clock).with_own_ports(own_ports))
    }

    /// The sender: trusts the certificates that this machine trusts. `own_ports` are those of this replica's listeners.
    ///
    /// # Errors
    /// A range that is none, a machine without certificates.
    pub fn sender(
        &self,
        directory: Directory,
        clock: Arc<dyn Clock>,
        own_ports: Vec<u16>,
    ) -> anyhow::Result<Callbacks> {
        let tls = OutsideTls::of_this_machine().context("cannot set up TLS for callbacks")?;
        let link = HttpCallbackLink::new(Arc::new(SystemResolver), tls, self.cidrs()?, clock);
        Ok(Callbacks { link: Arc::new(link), tenants: Arc::new(directory), own_ports })
    }
}
