//! Whom a certificate speaks for. Pure.
//!
//! A URI among the certificate's subject alternative names says it: `orloj://<cluster>/<role>/<name>`. A replica is
//! named by its internal address, as its peers dial it: its id changes when its disk is lost, its address does
//! not. Executors are named by their ids, clients by a name of the operator's choice.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;

const SCHEME: &str = "orloj://";
/// The longest cluster and name, in bytes.
const LIMIT: usize = 255;

/// What the owner of a certificate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// A scheduler replica, named by its internal address.
    Replica,
    /// An executor, named by its id.
    Executor,
    /// A caller's or an administrator's program.
    Client,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 3] = [Role::Replica, Role::Executor, Role::Client];

    /// Its word in a URI.
    pub fn word(self) -> &'static str {
        match self {
            Role::Replica => "replica",
            Role::Executor => "executor",
            Role::Client => "client",
        }
    }
}

/// The owner of a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// The cluster that it belongs to.
    pub cluster: String,
    /// What it is.
    pub role: Role,
    /// Which one.
    pub name: String,
}

/// A text that names no owner of a certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not orloj://<cluster>/<replica|executor|client>/<name>")]
pub struct NoIdentity(pub String);

impl Identity {
    /// An identity whose parts have only characters that a URI takes.
    ///
    /// # Errors
    /// A part is empty, too long, or has another character.
    pub fn new(cluster: &str, role: Role, name: &str) -> Result<Identity, NoIdentity> {
        let identity = Identity { cluster: cluster.to_owned(), role, name: name.to_owned() };
        match is_plain(cluster) && is_plain(name) {
            true => Ok(identity),
            false => Err(NoIdentity(identity.to_string())),
        }
    }
}

/// The characters of cluster names, ids and addresses.
fn is_plain(part: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:[]".contains(&byte);
    (1..=LIMIT).contains(&part.len()) && part.bytes().all(fits)
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}/{}", self.cluster, self.role.word(), self.name)
    }
}

impl FromStr for Identity {
    type Err = NoIdentity;

    fn from_str(uri: &str) -> Result<Self, NoIdentity> {
        let no = || NoIdentity(uri.to_owned());
        let mut parts = uri.strip_prefix(SCHEME).ok_or_else(no)?.split('/');
        let (Some(cluster), Some(word), Some(name), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(no());
        };
        let role = Role::ALL.into_iter().find(|role| role.word() == word).ok_or_else(no)?;
        Identity::new(cluster, role, name).map_err(|_| no())
    }
}

/// The other side of a TLS connection, as its verified certificate names it; put into every request by the
/// listener. Empty for one that has shown no certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peer(Arc<[Identity]>);

impl Peer {
    /// One with these names.
    pub fn new(names: Vec<Identity>) -> Peer {
        Peer(names.into())
    }

    /// Whom a certificate names. One that cannot be read names nobody.
    pub fn of(certificate: &CertificateDer<'_>) -> Peer {
        Peer::new(identities(certificate))
    }

    /// Whether the certificate names exactly this one.
    pub fn is(&self, wanted: &Identity) -> bool {
        self.0.contains(wanted)
    }

    /// Whether it names anybody with this role in this cluster.
    pub fn has_role(&self, cluster: &str, role: Role) -> bool {
        self.0.iter().any(|one| one.cluster == cluster && one.role == role)
    }

    /// Its names.
    pub fn names(&self) -> &[Identity] {
        &self.0
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0[..] {
            [] => f.write_str("nobody of a cluster"),
            names => {
                let names: Vec<String> = names.iter().map(Identity::to_string).collect();
                f.write_str(&names.join(", "))
            }
        }
    }
}

/// Whom the URIs of a certificate name; what is no identity is left out.
pub(crate) fn identities(certificate: &CertificateDer<'_>) -> Vec<Identity> {
    uris(certificate).iter().filter_map(|uri| uri.parse().ok()).collect()
}

/// The URIs among a certificate's subject alternative names.
pub(crate) fn uris(certificate: &CertificateDer<'_>) -> Vec<String> {
    match webpki::EndEntityCert::try_from(certificate) {
        Ok(parsed) => parsed.valid_uri_names().map(str::to_owned).collect(),
        Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_survives_its_uri() {
        for (role, name) in [
            (Role::Replica, "127.0.0.1:7071"),
            (Role::Replica, "[::1]:7071"),
            (Role::Executor, "rack.1-a_b"),
            (Role::Client, "billing"),
        ] {
            let identity = Identity::new("blue", role, name).unwrap();
            assert_eq!(identity.to_string().parse(), Ok(identity));
        }
    }

    #[test]
    fn other_texts_name_nobody() {
        for bad in [
            "",
            "orloj://",
            "orloj://blue",
            "orloj://blue/ca",
            "orloj://blue/replica/",
            "orloj:///replica/a:1",
            "orloj://blue/owner/a",
            "orloj://blue/executor/a/b",
            "orloj://blue/executor/a%2fb",
            "orloj://blue/executor/a b",
            "orloj://blue/executor/*",
            "https://blue/executor/a",
            "ORLOJ://blue/executor/a",
        ] {
            assert_eq!(bad.parse::<Identity>(), Err(NoIdentity(bad.to_owned())));
        }
        assert!(Identity::new("blue", Role::Client, &"x".repeat(256)).is_err());
    }

    #[test]
    fn a_name_counts_in_its_cluster_and_role_alone() {
        let one = Identity::new("blue", Role::Executor, "e1").unwrap();
        let peer = Peer::new(vec![one.clone()]);
        assert!(peer.is(&one) && peer.has_role("blue", Role::Executor));
        assert!(!peer.has_role("green", Role::Executor) && !peer.has_role("blue", Role::Replica));
        assert!(!peer.is(&Identity { name: "e2".to_owned(), ..one }));
        assert_eq!(Peer::of(&CertificateDer::from(&b"no certificate"[..])), Peer::default());
    }
}
