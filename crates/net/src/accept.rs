//! The listening end of TLS.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::error::TlsError;
use crate::identity::Peer;
use crate::material::{Material, provider};
use crate::tls::Tls;

/// Which certificates a listener asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// None.
    Anyone,
    /// One of a trusted authority, where one is shown; who has shown none is nobody.
    Optional,
    /// One of a trusted authority.
    Required,
}

/// What a listener speaks TLS with.
pub struct ServerTls {
    tls: Arc<Tls>,
    admission: Admission,
    built: ArcSwapOption<(Arc<Material>, Arc<ServerConfig>)>,
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerTls({:?}, {:?})", self.admission, self.tls)
    }
}

impl ServerTls {
    /// TLS 1.3 with the certificate of `tls`.
    ///
    /// # Errors
    /// There is no certificate to show, or no authority to judge by.
    pub fn new(tls: Arc<Tls>, admission: Admission) -> Result<Arc<ServerTls>, TlsError> {
        let server = ServerTls { tls, admission, built: ArcSwapOption::empty() };
        server.config()?;
        Ok(Arc::new(server))
    }

    /// The handshake; also who the other side is.
    pub(crate) async fn accept(&self, stream: TcpStream) -> std::io::Result<(TlsStream<TcpStream>, Peer)> {
        let config = self.config().map_err(std::io::Error::other)?;
        let stream = TlsAcceptor::from(config).accept(stream).await?;
        let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let peer = certificates.first().map(Peer::of).unwrap_or_default();
        Ok((stream, peer))
    }

    /// The configuration of what is current, built once for each change.
    fn config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let current = self.tls.current();
        if let Some(built) = &*self.built.load()
            && Arc::ptr_eq(&built.0, &current)
        {
            return Ok(Arc::clone(&built.1));
        }
        let config = Arc::new(build(&current, self.admission)?);
        self.built.store(Some(Arc::new((current, Arc::clone(&config)))));
        Ok(config)
    }
}

fn build(material: &Material, admission: Admission) -> Result<ServerConfig, TlsError> {
    let unusable = |why: String| TlsError::Content { path: "tls".into(), why };
    let own =
        material.own.as_ref().ok_or_else(|| unusable("a listener needs a certificate and a key".into()))?;
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| unusable(error.to_string()))?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&material.roots), provider());
    let builder = match admission {
        Admission::Anyone => builder.with_no_client_auth(),
        Admission::Optional | Admission::Required => {
            let verifier = match admission {
                Admission::Optional => verifier.allow_unauthenticated(),
                _ => verifier,
            };
            let verifier = verifier.build().map_err(|error| unusable(format!("ca: {error}")))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let resolver = Arc::new(SingleCertAndKey::from(Arc::clone(&own.certified)));
    let mut config = builder.with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A session that is taken up again would skip the look at the certificate.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}
