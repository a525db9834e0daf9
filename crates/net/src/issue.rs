//! A cluster's own authority, for those who have none: makes it, and the certificates of replicas, executors and
//! clients. The private key of the authority is needed only here and belongs on no server.

use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use time::OffsetDateTime;

use crate::identity::{Identity, NoIdentity, Role, uris};

/// Why nothing was made.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The cluster or the name has a character that it may not have.
    #[error(transparent)]
    Name(#[from] NoIdentity),
    /// A host name or address that cannot stand in a certificate.
    #[error("{0:?} is neither a host name nor an address")]
    Host(String),
    /// The authority was not made by this program, or its files are damaged.
    #[error("not an authority that orloj cert has made: {0}")]
    Authority(String),
    /// The certificate library failed.
    #[error("cannot make the certificate: {0}")]
    Library(#[from] rcgen::Error),
}

/// From when until when a certificate is good, in Unix seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// The first second.
    pub from_s: i64,
    /// The last second.
    pub until_s: i64,
}

/// A certificate and its private key, in PEM.
pub struct Issued {
    /// The certificate.
    pub cert: String,
    /// The key; only its owner may see it.
    pub key: String,
}

/// An authority that signs certificates of one cluster.
pub struct Authority {
    cluster: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes an authority; returns it with its certificate and its key.
    ///
    /// # Errors
    /// A cluster with a name that no certificate can carry.
    pub fn create(cluster: &str, period: Period) -> Result<(Authority, Issued), IssueError> {
        // The same rule as for the cluster in an identity.
        Identity::new(cluster, Role::Client, "x")?;
        let key = KeyPair::generate()?;
        let mut params = authority_params(cluster)?;
        set_period(&mut params, period);
        let issued = Issued { cert: params.self_signed(&key)?.pem(), key: key.serialize_pem() };
        Ok((Authority { cluster: cluster.to_owned(), issuer: Issuer::new(params, key) }, issued))
    }

    /// Takes up an authority that [`create`](Authority::create) has made.
    ///
    /// # Errors
    /// Another authority's files, or files of two.
    pub fn open(cert_pem: &str, key_pem: &str) -> Result<Authority, IssueError> {
        let wrong = |why: &str| IssueError::Authority(why.to_owned());
        let cert = CertificateDer::from_pem_slice(cert_pem.as_bytes())
            .map_err(|_| wrong("its certificate is not PEM"))?;
        let uri = uris(&cert).into_iter().next().ok_or_else(|| wrong("its certificate names no cluster"))?;
        let cluster = uri
            .strip_prefix("orloj://")
            .and_then(|rest| rest.strip_suffix("/ca"))
            .ok_or_else(|| wrong("its certificate names no cluster"))?;
        let key = KeyPair::from_pem(key_pem).map_err(|_| wrong("its key cannot be read"))?;
        // A certificate holds its public key as it is.
        let public = key.public_key_raw();
        if !cert.windows(public.len()).any(|window| window == public) {
            return Err(wrong("its key does not fit its certificate"));
        }
        Ok(Authority { cluster: cluster.to_owned(), issuer: Issuer::new(authority_params(cluster)?, key) })
    }

    /// The cluster whose certificates it signs.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Makes a certificate for one of the cluster, also good for these host names and addresses.
    ///
    /// # Errors
    /// A name or a host that no certificate can carry.
    pub fn issue(
        &self,
        role: Role,
        name: &str,
        hosts: &[String],
        period: Period,
    ) -> Result<Issued, IssueError> {
        let identity = Identity::new(&self.cluster, role, name)?;
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name(&format!("{} {name}", role.word()));
        params.subject_alt_names = vec![SanType::URI(ia5(&identity.to_string())?)];
        for host in hosts {
            params.subject_alt_names.push(host_name(host)?);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        set_period(&mut params, period);
        Ok(Issued { cert: params.signed_by(&key, &self.issuer)?.pem(), key: key.serialize_pem() })
    }
}

fn authority_params(cluster: &str) -> Result<CertificateParams, IssueError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(&format!("Orloj cluster {cluster}"));
    params.subject_alt_names = vec![SanType::URI(ia5(&format!("orloj://{cluster}/ca"))?)];
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn common_name(text: &str) -> DistinguishedName {
    // RFC 5280, appendix A.1: a common name has 64 characters at most. Who is meant stands in the URI.
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, text.chars().take(64).collect::<String>());
    name
}

fn ia5(text: &str) -> Result<Ia5String, IssueError> {
    Ia5String::try_from(text).map_err(IssueError::Library)
}

fn host_name(host: &str) -> Result<SanType, IssueError> {
    if let Ok(address) = host.trim_matches(['[', ']']).parse() {
        return Ok(SanType::IpAddress(address));
    }
    let label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    match host.strip_prefix("*.").unwrap_or(host).split('.').all(label) && host.len() <= 253 {
        true => Ok(SanType::DnsName(ia5(host)?)),
        false => Err(IssueError::Host(host.to_owned())),
    }
}

fn set_period(params: &mut CertificateParams, period: Period) {
    let at = |unix_s: i64| OffsetDateTime::from_unix_timestamp(unix_s).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    (params.not_before, params.not_after) = (at(period.from_s), at(period.until_s));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Peer;

    const PERIOD: Period = Period { from_s: 1_700_000_000, until_s: 1_900_000_000 };

    #[test]
    fn a_certificate_names_its_owner_in_the_authoritys_cluster() {
        let (_, files) = Authority::create("blue", PERIOD).unwrap();
        let ours = Authority::open(&files.cert, &files.key).unwrap();
        assert_eq!(ours.cluster(), "blue");
        let hosts = ["10.0.0.1".to_owned(), "[::1]".to_owned(), "orloj.example.com".to_owned()];
        let issued = ours.issue(Role::Replica, "10.0.0.1:7071", &hosts, PERIOD).unwrap();
        let der = CertificateDer::from_pem_slice(issued.cert.as_bytes()).unwrap();
        assert!(Peer::of(&der).is(&Identity::new("blue", Role::Replica, "10.0.0.1:7071").unwrap()));
        let parsed = webpki::EndEntityCert::try_from(&der).unwrap();
        for host in ["10.0.0.1", "::1", "orloj.example.com"] {
            parsed.verify_is_valid_for_subject_name(&host.try_into().unwrap()).unwrap();
        }
    }

    #[test]
    fn what_no_certificate_can_carry_is_refused() {
        assert!(Authority::create("blue green", PERIOD).is_err());
        let (ours, _) = Authority::create("blue", PERIOD).unwrap();
        assert!(ours.issue(Role::Executor, "a/b", &[], PERIOD).is_err());
        for bad in ["", "a b", "a..b", "é.example", &"x.".repeat(200)] {
            let refused = ours.issue(Role::Executor, "e1", &[bad.to_owned()], PERIOD);
            assert!(matches!(refused, Err(IssueError::Host(_))), "{bad}");
        }
    }

    #[test]
    fn the_files_of_two_authorities_are_none() {
        let [one, other] = [(); 2].map(|()| Authority::create("blue", PERIOD).unwrap().1);
        assert!(matches!(Authority::open(&one.cert, &other.key), Err(IssueError::Authority(_))));
        let (ours, _) = Authority::create("blue", PERIOD).unwrap();
        let leaf = ours.issue(Role::Client, "c", &[], PERIOD).unwrap();
        assert!(matches!(Authority::open(&leaf.cert, &leaf.key), Err(IssueError::Authority(_))));
    }
}
