//! What a process of a cluster speaks TLS with, and its check of who speaks to it.

use std::fmt;
use std::sync::Arc;

use crate::identity::{Identity, Peer, Role};
use crate::tls::Tls;

/// A certificate of a cluster's process, with the cluster whose others it talks to.
#[derive(Debug, Clone)]
pub struct ClusterTls {
    /// What it shows and trusts.
    pub tls: Arc<Tls>,
    /// The cluster.
    pub cluster: String,
}

/// The certificate of the other side does not speak for whom it claims to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Impostor {
    /// Whom it should name.
    wanted: String,
    /// Whom it names.
    found: String,
}

impl fmt::Display for Impostor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the certificate must name {}; it names {}", self.wanted, self.found)
    }
}

impl std::error::Error for Impostor {}

impl ClusterTls {
    /// Whether the other side's certificate names this one of the cluster; without a name, anybody with the role.
    /// `peer` is what the listener has put into the request.
    ///
    /// # Errors
    /// It names others, or there was none.
    pub fn check(&self, peer: Option<&Peer>, role: Role, name: Option<&str>) -> Result<(), Impostor> {
        let cluster = &self.cluster;
        let fits = match (peer, name) {
            (None, _) => false,
            (Some(peer), None) => peer.has_role(cluster, role),
            (Some(peer), Some(name)) => {
                peer.is(&Identity { cluster: cluster.clone(), role, name: name.to_owned() })
            }
        };
        if fits {
            return Ok(());
        }
        let wanted = format!("orloj://{cluster}/{}/{}", role.word(), name.unwrap_or("<any>"));
        let found = peer.cloned().unwrap_or_default().to_string();
        Err(Impostor { wanted, found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::authority;

    #[test]
    fn only_who_is_named_passes() {
        let ours = authority("blue");
        let dir = tempfile::tempdir().unwrap();
        let tls = Tls::load(ours.write(dir.path(), &ours.issue("executor", "e1"))).unwrap();
        let own = ClusterTls { tls, cluster: "blue".to_owned() };
        let peer = |cluster: &str, role, name| Peer::new(vec![Identity::new(cluster, role, name).unwrap()]);
        let replica = peer("blue", Role::Replica, "h:1");
        assert!(own.check(Some(&replica), Role::Replica, None).is_ok());
        assert!(own.check(Some(&replica), Role::Replica, Some("h:1")).is_ok());
        let refused = own.check(Some(&replica), Role::Replica, Some("h:2")).unwrap_err().to_string();
        assert!(refused.contains("blue/replica/h:2") && refused.contains("blue/replica/h:1"), "{refused}");
        for peer in [None, Some(Peer::default()), Some(peer("green", Role::Replica, "h:1"))] {
            assert!(own.check(peer.as_ref(), Role::Replica, None).is_err(), "{peer:?}");
        }
        assert!(own.check(Some(&replica), Role::Executor, None).is_err());
    }
}
