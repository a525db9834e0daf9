//! The calling end of TLS, and HTTP clients that each reach one named receiver.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use crate::cluster::ClusterTls;
use crate::identity::{Identity, Peer, Role};
use crate::material::provider;
use crate::tls::Tls;

/// Receivers whose clients are kept at once.
const KEPT: usize = 4_096;

/// Whom the other side's certificate must name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    cluster: String,
    role: Role,
    /// `None` for any.
    name: Option<String>,
}

impl Wanted {
    fn fits(&self, peer: &Peer) -> bool {
        match &self.name {
            None => peer.has_role(&self.cluster, self.role),
            Some(name) => {
                let (cluster, name) = (self.cluster.clone(), name.clone());
                peer.is(&Identity { cluster, role: self.role, name })
            }
        }
    }
}

/// Judges a server by its authority and by whom its certificate names. The name in the URL is not looked at: the
/// identity says more.
struct Verifier {
    tls: Arc<Tls>,
    wanted: Wanted,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifier({:?})", self.wanted)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        let algorithms = provider().signature_verification_algorithms.all;
        let roots = &self.tls.current().roots;
        verify_server_cert_signed_by_trust_anchor(&parsed, roots, intermediates, now, algorithms)?;
        let peer = Peer::of(certificate);
        match self.wanted.fits(&peer) {
            true => Ok(ServerCertVerified::assertion()),
            false => {
                tracing::warn!(wanted = ?self.wanted, found = %peer, "the certificate of the other side names another");
                Err(Error::InvalidCertificate(CertificateError::NotValidForName))
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &provider().signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &provider().signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Shows the certificate that is current at the time of the handshake.
struct Shown(Arc<Tls>);

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shown")
    }
}

impl ResolvesClientCert for Shown {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.current().own.as_ref().map(|own| Arc::clone(&own.certified))
    }

    fn has_certs(&self) -> bool {
        self.0.current().own.is_some()
    }
}

/// Which HTTP is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, without TLS by prior knowledge.
    Http2,
}

impl ClusterTls {
    /// A configuration that shows the own certificate and reaches only who has this role and name (`None`: any
    /// name) in the cluster. It follows every reload.
    ///
    /// # Errors
    /// The provider does not know TLS 1.3.
    pub fn client_config(
        &self,
        role: Role,
        name: Option<&str>,
        protocol: Protocol,
    ) -> Result<ClientConfig, Error> {
        let wanted = Wanted { cluster: self.cluster.clone(), role, name: name.map(str::to_owned) };
        let verifier = Arc::new(Verifier { tls: Arc::clone(&self.tls), wanted });
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(Arc::new(Shown(Arc::clone(&self.tls))));
        config.alpn_protocols = match protocol {
            Protocol::Http1 => vec![b"http/1.1".to_vec()],
            Protocol::Http2 => vec![b"h2".to_vec()],
        };
        // A session that is taken up again would skip the look at the certificate.
        config.resumption = Resumption::disabled();
        Ok(config)
    }
}

/// Makes the part of an HTTP client that has nothing to do with TLS.
type Make = Box<dyn Fn() -> reqwest::ClientBuilder + Send + Sync>;

/// HTTP clients by whom they may reach. Without TLS there is one for all.
pub struct Clients {
    way: Way,
}

enum Way {
    Plain(reqwest::Client),
    Secure { secure: ClusterTls, role: Role, protocol: Protocol, make: Make, known: Known },
}

type Known = Mutex<BTreeMap<String, reqwest::Client>>;

impl Clients {
    /// Clients of those with this role in the cluster of `tls`.
    ///
    /// # Errors
    /// An HTTP client cannot be made.
    pub fn new(
        tls: Option<&ClusterTls>,
        role: Role,
        protocol: Protocol,
        make: impl Fn() -> reqwest::ClientBuilder + Send + Sync + 'static,
    ) -> Result<Clients, reqwest::Error> {
        let way = match tls {
            None => Way::Plain(spoken(make(), protocol).build()?),
            Some(secure) => Way::Secure {
                secure: secure.clone(),
                role,
                protocol,
                make: Box::new(make),
                known: Known::default(),
            },
        };
        Ok(Clients { way })
    }

    /// `https` or `http`.
    pub fn scheme(&self) -> &'static str {
        match self.way {
            Way::Plain(_) => "http",
            Way::Secure { .. } => "https",
        }
    }

    /// The client that reaches the one of this name and nobody else.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn to(&self, name: &str) -> Result<reqwest::Client, reqwest::Error> {
        let (secure, role, protocol, make, known) = match &self.way {
            Way::Plain(client) => return Ok(client.clone()),
            Way::Secure { secure, role, protocol, make, known } => (secure, *role, *protocol, make, known),
        };
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = known.get(name) {
            return Ok(client.clone());
        }
        if known.len() >= KEPT {
            // Whoever is still called gets a new one; calls that run keep theirs.
            known.clear();
        }
        let config = secure.client_config(role, Some(name), protocol);
        let config = config.expect("the provider of the tree knows TLS 1.3");
        let client = spoken(make(), protocol).tls_backend_preconfigured(config).build()?;
        known.insert(name.to_owned(), client.clone());
        Ok(client)
    }
}

fn spoken(builder: reqwest::ClientBuilder, protocol: Protocol) -> reqwest::ClientBuilder {
    match protocol {
        Protocol::Http1 => builder.http1_only(),
        Protocol::Http2 => builder.http2_prior_knowledge(),
    }
}
