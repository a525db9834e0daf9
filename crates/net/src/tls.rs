//! The certificates of one end, read again when their files change.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::error::TlsError;
use crate::files::Files;
use crate::identity::{Identity, Peer, Role};
use crate::material::{Material, now_s};
use crate::validity;

/// A certificate that ends within this time is warned of, in seconds.
const WARN_S: i64 = 14 * 86_400;
/// Between two warnings of the same.
const WARN_AGAIN_S: i64 = 86_400;

/// What an end of connections shows and trusts, as the files say it now.
pub struct Tls {
    files: Files,
    current: ArcSwap<Material>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads and checks the files.
    ///
    /// # Errors
    /// A file that cannot be read, does not hold what it should, or that others may read; a certificate that has
    /// expired or does not fit its key.
    pub fn load(files: Files) -> Result<Arc<Tls>, TlsError> {
        let current = ArcSwap::from_pointee(Material::load(&files)?);
        Ok(Arc::new(Tls { files, current }))
    }

    /// [`load`](Tls::load), where the certificate must name this one.
    ///
    /// # Errors
    /// As there; or it names somebody else.
    pub fn load_as(files: Files, wanted: &Identity) -> Result<Arc<Tls>, TlsError> {
        let tls = Tls::load(files)?;
        match tls.names().contains(wanted) {
            true => Ok(tls),
            false => Err(tls.misnamed(wanted.to_string())),
        }
    }

    /// [`load`](Tls::load), where the certificate must name somebody with this role and name, in any cluster: the
    /// cluster is the certificate's. Returns whom it names.
    ///
    /// # Errors
    /// As there; or it names somebody else.
    pub fn load_named(files: Files, role: Role, name: &str) -> Result<(Arc<Tls>, Identity), TlsError> {
        let tls = Tls::load(files)?;
        match tls.names().into_iter().find(|one| one.role == role && one.name == name) {
            Some(own) => Ok((tls, own)),
            None => Err(tls.misnamed(format!("orloj://<cluster>/{}/{name}", role.word()))),
        }
    }

    fn misnamed(&self, wanted: String) -> TlsError {
        let path = self.files.cert.clone().unwrap_or_default();
        TlsError::Name { path, wanted, names: Peer::new(self.names()).to_string() }
    }

    /// Whom the own certificate names.
    pub fn names(&self) -> Vec<Identity> {
        self.current().own.as_ref().map(|own| own.identities.clone()).unwrap_or_default()
    }

    pub(crate) fn current(&self) -> Arc<Material> {
        self.current.load_full()
    }

    /// Reads the files again; says whether they have changed. Connections that stand go on with what they began
    /// with, new ones take what is new.
    ///
    /// # Errors
    /// As for [`load`](Tls::load), also when the new certificate names others than the old one; what held before
    /// goes on to hold.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let contents = self.files.read()?;
        let before = self.current();
        if contents == before.contents {
            return Ok(false);
        }
        let new = Material::of(&self.files, contents)?;
        let names = |material: &Material| material.own.as_ref().map(|own| own.identities.clone());
        if let (Some(old), Some(new)) = (names(&before), names(&new))
            && let Some(lost) = old.iter().find(|one| !new.contains(one))
        {
            let path = self.files.cert.clone().unwrap_or_default();
            return Err(TlsError::Name { path, wanted: lost.to_string(), names: Peer::new(new).to_string() });
        }
        self.current.store(Arc::new(new));
        Ok(true)
    }

    /// Reads the files again at every `period` and whenever `hurry` comes, until `stop`. What cannot be used is
    /// logged once, and what held before goes on to hold.
    pub async fn keep_fresh(
        self: Arc<Self>,
        period: Duration,
        mut hurry: watch::Receiver<()>,
        stop: CancellationToken,
    ) {
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut complained, mut warned_s) = (String::new(), i64::MIN);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Ok(()) = hurry.changed() => {}
                _ = ticks.tick() => {}
            }
            let tls = Arc::clone(&self);
            let reloaded = tokio::task::spawn_blocking(move || tls.reload()).await;
            match reloaded {
                Ok(Ok(changed)) => {
                    complained.clear();
                    if changed {
                        warned_s = i64::MIN;
                        tracing::info!(files = ?self.files, "new certificates are in use");
                    }
                }
                Ok(Err(error)) => {
                    let text = error.to_string();
                    if text != complained {
                        tracing::error!(
                            error = text,
                            "the changed certificates cannot be used; the old ones stay"
                        );
                        complained = text;
                    }
                }
                Err(error) => tracing::error!(%error, "reading the certificates failed"),
            }
            self.warn_of_the_end(&mut warned_s);
        }
    }

    /// Says that the certificate ends soon, once a day.
    fn warn_of_the_end(&self, warned_s: &mut i64) {
        let now_s = now_s();
        let Some(until_s) = self.current().own.as_ref().map(|own| own.until_s) else { return };
        if until_s - now_s < WARN_S && now_s.saturating_sub(*warned_s) >= WARN_AGAIN_S {
            *warned_s = now_s;
            let (cert, day) = (&self.files.cert, validity::day(until_s));
            tracing::warn!(?cert, until = day, "the certificate expires soon: put a new one in its place");
        }
    }
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
