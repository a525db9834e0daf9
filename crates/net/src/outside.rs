//! TLS between a cluster and what is no part of it: hosts outside, which the authorities of the public internet vouch
//! for, and callers, which trust the cluster's own authority.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use crate::material::provider;

/// Calls hosts outside. Shows no certificate of its own.
#[derive(Clone)]
pub struct OutsideTls(TlsConnector);

/// TLS cannot be set up, or a host is not who it should be.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct OutsideError(String);

impl OutsideTls {
    /// Trusts the authorities that this machine trusts. TLS 1.2 and 1.3: the hosts are other people's.
    ///
    /// # Errors
    /// A machine without authorities.
    pub fn of_this_machine() -> Result<OutsideTls, OutsideError> {
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_platform_verifier())
            .map_err(|error| OutsideError(error.to_string()))?
            .with_no_client_auth();
        Ok(OutsideTls(TlsConnector::from(Arc::new(config))))
    }

    /// Trusts these authorities alone (PEM), and speaks TLS 1.3 as replicas do.
    ///
    /// # Errors
    /// No authority among them, or something that is none.
    pub fn trusting(authorities: &[u8]) -> Result<OutsideTls, OutsideError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authorities) {
            let certificate = certificate.map_err(|error| OutsideError(format!("not PEM: {error}")))?;
            roots.add(certificate).map_err(|error| OutsideError(format!("no authority: {error}")))?;
        }
        if roots.is_empty() {
            return Err(OutsideError("there is no authority".to_owned()));
        }
        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| OutsideError(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(OutsideTls(TlsConnector::from(Arc::new(config))))
    }

    /// Greets the host of this name over a connection that somebody else has made, so that the address is theirs to
    /// choose.
    ///
    /// # Errors
    /// The name is none, the host does not speak TLS, or its certificate is not good for the name.
    pub async fn greet<S>(
        &self,
        name: &str,
        stream: S,
    ) -> Result<impl AsyncRead + AsyncWrite + Unpin + Send + use<S>, OutsideError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let name = ServerName::try_from(name.to_owned()).map_err(|error| OutsideError(error.to_string()))?;
        self.0.connect(name, stream).await.map_err(|error| OutsideError(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::issue::{Authority, Period};

    #[test]
    fn an_authority_is_needed() {
        for bad in ["", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(OutsideTls::trusting(bad.as_bytes()).is_err(), "{bad:?}");
        }
        let period = Period { from_s: crate::material::now_s(), until_s: crate::material::now_s() + 60 };
        let (_, issued) = Authority::create("dev", period).unwrap();
        assert!(OutsideTls::trusting(issued.cert.as_bytes()).is_ok());
    }
}
