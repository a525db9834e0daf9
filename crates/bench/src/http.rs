//! HTTP/1.1 on connections that are kept: one request at a time on each, and as many connections as are busy at
//! once. No more than that, so that the load costs little beside what it loads. A connection that speaks TLS is made
//! once and kept as any other.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use orloj_net::{OutsideError, OutsideTls};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    /// Nothing was sent.
    #[error("no connection")]
    Connect(#[source] std::io::Error),
    /// The server does not speak TLS, or is not who it should be.
    #[error("no connection: {0}")]
    Tls(#[source] OutsideError),
    /// The request may have arrived.
    #[error("the connection broke")]
    Broken(#[source] hyper::Error),
}

/// One server and the idle connections to it.
pub(crate) struct Host {
    address: String,
    tls: Option<OutsideTls>,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

impl Host {
    /// The server at `host:port`, over TLS where that is given.
    pub(crate) fn new(address: &str, tls: Option<OutsideTls>) -> Host {
        Host { address: address.to_owned(), tls, idle: Mutex::default() }
    }

    /// `host:port`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Sends a request and reads the whole answer: status and body.
    pub(crate) async fn send(&self, mut request: Request<Full<Bytes>>) -> Result<(u16, Bytes), HttpError> {
        loop {
            let (mut sender, fresh) = match self.take() {
                Some(sender) => (sender, false),
                None => (self.connect().await?, true),
            };
            if sender.ready().await.is_err() && !fresh {
                continue;
            }
            let response = match sender.try_send_request(request).await {
                Ok(response) => response,
                // The server closed an idle connection just as it was taken: nothing went out.
                Err(mut error) => match error.take_message() {
                    Some(unsent) if !fresh => {
                        request = unsent;
                        continue;
                    }
                    _ => return Err(HttpError::Broken(error.into_error())),
                },
            };
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.map_err(HttpError::Broken)?.to_bytes();
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
            return Ok((status, body));
        }
    }

    /// The connection that was used last and is still open.
    fn take(&self) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(sender) = idle.pop() {
            if !sender.is_closed() {
                return Some(sender);
            }
        }
        None
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, HttpError> {
        let stream = TcpStream::connect(&self.address).await.map_err(HttpError::Connect)?;
        stream.set_nodelay(true).map_err(HttpError::Connect)?;
        let Some(tls) = &self.tls else { return begin(stream).await };
        let name = self.address.rsplit_once(':').map_or(self.address.as_str(), |(name, _)| name);
        begin(tls.greet(name, stream).await.map_err(HttpError::Tls)?).await
    }
}

/// Begins to speak HTTP on a connection.
async fn begin(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<SendRequest<Full<Bytes>>, HttpError> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(HttpError::Broken)?;
    // Its end shows at the sender.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}
