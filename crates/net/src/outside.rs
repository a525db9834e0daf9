//! TLS to hosts that are no part of a cluster: who they are is told by the authorities of the public internet.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

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
