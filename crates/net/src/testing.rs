//! Certificates for tests.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::files::Files;
use crate::identity::Role;
use crate::issue::{Authority, Issued, Period};
use crate::material::now_s;

pub(crate) const DAY: i64 = 86_400;
/// An instant of no meaning.
pub(crate) const NOW: i64 = 1_800_000_000;

/// An authority with its certificate.
pub(crate) struct Ours {
    pub(crate) authority: Authority,
    pub(crate) files: Issued,
}

/// A new authority that is good today.
pub(crate) fn authority(cluster: &str) -> Ours {
    let period = Period { from_s: now_s() - DAY, until_s: now_s() + 365 * DAY };
    let (authority, files) = Authority::create(cluster, period).unwrap();
    Ours { authority, files }
}

impl Ours {
    pub(crate) fn issue_between(&self, role: &str, name: &str, from_s: i64, until_s: i64) -> Issued {
        let role = Role::ALL.into_iter().find(|one| one.word() == role).unwrap();
        let hosts = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        self.authority.issue(role, name, &hosts, Period { from_s, until_s }).unwrap()
    }

    /// One that is good today.
    pub(crate) fn issue(&self, role: &str, name: &str) -> Issued {
        self.issue_between(role, name, now_s() - DAY, now_s() + 30 * DAY)
    }

    /// Writes a certificate, its key and this authority's certificate into a folder.
    pub(crate) fn write(&self, dir: &Path, issued: &Issued) -> Files {
        let at = |name: &str| Some(dir.join(name));
        let files = Files { ca: at("ca.pem"), cert: at("cert.pem"), key: at("key.pem") };
        fs::write(dir.join("ca.pem"), &self.files.cert).unwrap();
        fs::write(dir.join("cert.pem"), &issued.cert).unwrap();
        fs::write(dir.join("key.pem"), &issued.key).unwrap();
        fs::set_permissions(dir.join("key.pem"), fs::Permissions::from_mode(0o600)).unwrap();
        files
    }
}

impl Issued {
    pub(crate) fn der(&self) -> Vec<u8> {
        CertificateDer::from_pem_slice(self.cert.as_bytes()).unwrap().to_vec()
    }
}
