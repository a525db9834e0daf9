//! How a replica sends callbacks.

use std::sync::Arc;

use anyhow::Context as _;
use orloj_api::Directory;
use orloj_scheduler::callback::{Callbacks, HttpCallbackLink, SystemResolver};
use orloj_wire::address::Cidr;
use orloj_wire::clock::Clock;
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls_platform_verifier::BuilderVerifierExt as _;
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

    /// The sender: trusts the certificates that this machine trusts.
    ///
    /// # Errors
    /// A range that is none, a machine without certificates.
    pub fn sender(&self, directory: Directory, clock: Arc<dyn Clock>) -> anyhow::Result<Callbacks> {
        let tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_platform_verifier())
            .context("cannot set up TLS for callbacks")?
            .with_no_client_auth();
        let link = HttpCallbackLink::new(Arc::new(SystemResolver), Arc::new(tls), self.cidrs()?, clock);
        Ok(Callbacks { link: Arc::new(link), tenants: Arc::new(directory) })
    }
}
