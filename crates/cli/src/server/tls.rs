//! The TLS of a replica: what its configuration says, and what its listeners and clients get of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use orloj_net::{Admission, ClusterTls, Files, Identity, Role, ServerTls, Tls, TlsOptions};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Config;
use crate::config::check_plaintext;

/// How the public listener speaks, where it differs from the internal one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct PublicOptions {
    /// What it asks of callers. Default: `server`.
    pub mode: Mode,
    /// The certificate that callers see. Default: that of `[tls]`.
    pub cert: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
    /// With `mtls`: the authority whose certificates callers must show. Default: that of `[tls]`.
    pub client_ca: Option<PathBuf>,
}

/// What the public listener asks of callers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// TLS; callers prove themselves by their signatures.
    #[default]
    Server,
    /// TLS, and a certificate of theirs as well.
    Mtls,
    /// No TLS: on loopback, behind something that ends it.
    Off,
}

/// What listeners and clients of a replica speak TLS with.
#[derive(Debug, Default)]
pub struct ReplicaTls {
    /// Among replicas and executors; `None` for none.
    pub cluster: Option<ClusterTls>,
    /// The internal listener's end.
    pub internal: Option<Arc<ServerTls>>,
    /// The end of the public listener, and of that of administrators.
    pub public: Option<Arc<ServerTls>>,
    /// What is read again, and how often.
    fresh: Vec<(Arc<Tls>, Duration)>,
}

impl ReplicaTls {
    /// Reads and checks the certificates of a configuration.
    ///
    /// # Errors
    /// Files that cannot be used, a certificate that does not name this replica, a listener that others can reach
    /// in clear.
    pub fn load(config: &Config, insecure_plaintext: bool) -> anyhow::Result<ReplicaTls> {
        let mut tls = ReplicaTls::default();
        if let Some(options) = &config.tls {
            tls.internal(config, options).context("[tls]")?;
        }
        tls.public(config).context("[tls-public]")?;
        if tls.internal.is_none() {
            check_plaintext("listen-internal", config.listen_internal(), insecure_plaintext)?;
        }
        if tls.public.is_none() {
            check_plaintext("listen", config.listen(), insecure_plaintext)?;
            if let Some(address) = &config.listen_admin {
                check_plaintext("listen-admin", address, insecure_plaintext)?;
            }
        }
        Ok(tls)
    }

    fn internal(&mut self, config: &Config, options: &TlsOptions) -> anyhow::Result<()> {
        let (cluster, address) = (&config.store.cluster, &config.store.internal);
        let own = Identity::new(cluster, Role::Replica, address)?;
        let tls = Tls::load_as(options.files(), &own)?;
        self.internal = Some(ServerTls::new(Arc::clone(&tls), Admission::Required)?);
        self.fresh.push((Arc::clone(&tls), options.reload()));
        self.cluster = Some(ClusterTls { tls, cluster: cluster.clone() });
        Ok(())
    }

    fn public(&mut self, config: &Config) -> anyhow::Result<()> {
        let PublicOptions { mode, cert, key, client_ca } = &config.tls_public;
        let given = cert.is_some() || config.tls.is_some();
        if *mode == Mode::Off || (!given && config.tls_public == PublicOptions::default()) {
            return Ok(());
        }
        ensure!(cert.is_some() == key.is_some(), "cert and key belong together");
        let shared = config.tls.as_ref();
        let own = |own: &Option<PathBuf>, default: fn(&TlsOptions) -> &PathBuf| {
            own.clone().or_else(|| shared.map(default).cloned())
        };
        let (cert, key) = (own(cert, |options| &options.cert), own(key, |options| &options.key));
        if cert.is_none() {
            bail!("cert and key are missing");
        }
        let (ca, admission) = match mode {
            Mode::Mtls => (own(client_ca, |options| &options.ca), Admission::Required),
            _ => (None, Admission::Anyone),
        };
        ensure!(*mode == Mode::Mtls || client_ca.is_none(), "client-ca is given and mode is not \"mtls\"");
        ensure!(*mode != Mode::Mtls || ca.is_some(), "client-ca is missing");
        let tls = Tls::load(Files { ca, cert, key })?;
        self.public = Some(ServerTls::new(Arc::clone(&tls), admission)?);
        let reload = shared.map_or(TlsOptions::RELOAD, TlsOptions::reload);
        self.fresh.push((tls, reload));
        Ok(())
    }

    /// Reads the files again when they change, and at every hint, until `stop`.
    pub fn keep_fresh(&self, hints: &watch::Receiver<()>, stop: &CancellationToken) {
        for (tls, period) in &self.fresh {
            tokio::spawn(Arc::clone(tls).keep_fresh(*period, hints.clone(), stop.clone()));
        }
    }
}
