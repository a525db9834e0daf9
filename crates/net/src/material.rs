//! Certificates, keys and authorities, parsed and checked.

use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::sign::CertifiedKey;

use crate::error::TlsError;
use crate::files::{Contents, Files};
use crate::identity::{Identity, identities};
use crate::validity;

/// What an end of connections shows and trusts.
pub(crate) struct Material {
    /// Whom the other side's certificate must come from; empty where none was given.
    pub(crate) roots: Arc<RootCertStore>,
    /// What this side shows.
    pub(crate) own: Option<Own>,
    pub(crate) contents: Contents,
}

/// A certificate of one's own.
pub(crate) struct Own {
    pub(crate) certified: Arc<CertifiedKey>,
    pub(crate) identities: Vec<Identity>,
    /// The last second in which it is good.
    pub(crate) until_s: i64,
}

/// The one provider of cryptography in the tree.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: std::sync::LazyLock<Arc<CryptoProvider>> =
        std::sync::LazyLock::new(|| Arc::new(aws_lc_rs::default_provider()));
    Arc::clone(&PROVIDER)
}

/// The time by which certificates are judged: the TLS library's, which reads the machine's clock itself.
pub(crate) fn now_s() -> i64 {
    i64::try_from(UnixTime::now().as_secs()).unwrap_or(i64::MAX)
}

impl Material {
    /// Reads and checks the files.
    pub(crate) fn load(files: &Files) -> Result<Material, TlsError> {
        Material::of(files, files.read()?)
    }

    /// Checks what the files held.
    pub(crate) fn of(files: &Files, contents: Contents) -> Result<Material, TlsError> {
        let roots = match (&files.ca, &contents.ca) {
            (Some(path), Some(pem)) => roots(path, pem)?,
            _ => RootCertStore::empty(),
        };
        let own = match (&files.cert, &files.key, &contents.cert, &contents.key) {
            (Some(cert), Some(key), Some(cert_pem), Some(key_pem)) => {
                Some(own((cert, cert_pem), (key, key_pem))?)
            }
            _ => None,
        };
        Ok(Material { roots: Arc::new(roots), own, contents })
    }
}

fn content(path: &Path, why: impl Into<String>) -> TlsError {
    TlsError::Content { path: path.to_owned(), why: why.into() }
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let parsed = parsed.map_err(|error| content(path, format!("not PEM: {error}")))?;
    match parsed.is_empty() {
        true => Err(content(path, "it holds no certificate")),
        false => Ok(parsed),
    }
}

fn roots(path: &Path, pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, pem)? {
        roots.add(certificate).map_err(|error| content(path, format!("no authority: {error}")))?;
    }
    Ok(roots)
}

fn own((cert, cert_pem): (&Path, &[u8]), (key, key_pem): (&Path, &[u8])) -> Result<Own, TlsError> {
    let chain = certificates(cert, cert_pem)?;
    // The parser's reason could show a part of the key.
    let secret =
        PrivateKeyDer::from_pem_slice(key_pem).map_err(|_| content(key, "it holds no private key"))?;
    let certified = CertifiedKey::from_der(chain, secret, &provider())
        .map_err(|error| content(key, format!("the key does not fit {}: {error}", cert.display())))?;
    let leaf = certified.cert.first().ok_or_else(|| content(cert, "it holds no certificate"))?;
    let (from_s, until_s) = validity::of(leaf).ok_or_else(|| content(cert, "not an X.509 certificate"))?;
    let now_s = now_s();
    if until_s < now_s {
        return Err(content(cert, format!("the certificate has expired on {}", validity::day(until_s))));
    }
    if from_s > now_s {
        return Err(content(cert, format!("the certificate is good only from {}", validity::day(from_s))));
    }
    let identities = identities(leaf);
    Ok(Own { certified: Arc::new(certified), identities, until_s })
}
