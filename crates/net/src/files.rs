//! The files that certificates, keys and authorities are read from.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::TlsError;

/// Far above any chain or bundle, in bytes.
const LIMIT: u64 = 1 << 20;

/// Where an end of connections finds what it shows and whom it trusts; all PEM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    /// The authorities whose certificates the other side may show; several during a change of authority.
    pub ca: Option<PathBuf>,
    /// The own certificate, followed by those between it and its authority.
    pub cert: Option<PathBuf>,
    /// Its private key (PKCS #8, SEC 1 or PKCS #1), which only its owner may read.
    pub key: Option<PathBuf>,
}

/// The same as a process of a cluster is told it, with its authority, certificate and key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TlsOptions {
    /// The authorities of the cluster; several during a change of authority. PEM.
    pub ca: PathBuf,
    /// The own certificate, followed by those between it and its authority. PEM.
    pub cert: PathBuf,
    /// Its private key, which only its owner may read. PEM.
    pub key: PathBuf,
    /// How often the files are looked at, in ms; SIGHUP makes it look at once. Default: 10 s.
    #[serde(default = "reload_ms")]
    pub reload_ms: u64,
}

impl TlsOptions {
    /// How often files are looked at by default.
    pub const RELOAD: Duration = Duration::from_secs(10);

    /// The files.
    pub fn files(&self) -> Files {
        let TlsOptions { ca, cert, key, .. } = self.clone();
        Files { ca: Some(ca), cert: Some(cert), key: Some(key) }
    }

    /// How often the files are looked at; no more often than every 100 ms.
    pub fn reload(&self) -> Duration {
        Duration::from_millis(self.reload_ms.max(100))
    }
}

fn reload_ms() -> u64 {
    u64::try_from(TlsOptions::RELOAD.as_millis()).unwrap_or(u64::MAX)
}

/// What the files hold.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) ca: Option<Vec<u8>>,
    pub(crate) cert: Option<Vec<u8>>,
    pub(crate) key: Option<Vec<u8>>,
}

impl Files {
    /// Reads all of them.
    pub(crate) fn read(&self) -> Result<Contents, TlsError> {
        let read = |path: &Option<PathBuf>| path.as_deref().map(read).transpose();
        if let Some(key) = &self.key {
            check_private(key)?;
        }
        Ok(Contents { ca: read(&self.ca)?, cert: read(&self.cert)?, key: read(&self.key)? })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |cause| TlsError::Read { path: path.to_owned(), cause };
    let length = fs::metadata(path).map_err(failed)?.len();
    if length > LIMIT {
        let why = format!("{length} bytes are more than any certificate or key has");
        return Err(TlsError::Content { path: path.to_owned(), why });
    }
    fs::read(path).map_err(failed)
}

/// Refuses a key that others may read. A group may: that is how orchestrators hand secrets to a process.
fn check_private(path: &Path) -> Result<(), TlsError> {
    let metadata = fs::metadata(path).map_err(|cause| TlsError::Read { path: path.to_owned(), cause })?;
    let mode = metadata.mode() & 0o777;
    if mode & 0o027 == 0 {
        return Ok(());
    }
    let why = format!("the key has mode {mode:04o}: others may read or change it; run chmod 600");
    Err(TlsError::Content { path: path.to_owned(), why })
}
