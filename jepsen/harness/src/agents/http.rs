//! A small HTTP client that says exactly how far a request got.
//!
//! One connection, one request at a time, no retry: a request that was certainly never sent is told apart from
//! one that may have been received.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use orloj_wire::sign::{IDEMPOTENCY_HEADER, Label, Outgoing, Secret};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::now;

/// The longest answer, in bytes.
const ANSWER_LIMIT: usize = 64 << 20;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// There was no connection: nobody has received it.
    #[error("not sent: {0}")]
    NotSent(String),
    /// It may have been received.
    #[error("lost: {0}")]
    Lost(String),
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl Reply {
    /// A header, where it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// One request.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// `GET` or `POST`.
    pub method: Method,
    /// From the first `/`.
    pub path: String,
    /// Without `?`.
    pub query: String,
    /// Headers beside those of HTTP itself.
    pub headers: Vec<(String, String)>,
    /// JSON, or empty.
    pub body: Vec<u8>,
}

/// A connection to one address, made when it is needed.
#[derive(Debug)]
pub struct Connection {
    address: SocketAddr,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Connection {
    /// To that address; nothing is connected yet.
    pub fn new(address: SocketAddr) -> Connection {
        Connection { address, sender: None }
    }

    /// Sends a request and reads the whole answer, within `patience`.
    ///
    /// # Errors
    /// There is no answer; says whether the request may have been received.
    pub async fn ask(&mut self, ask: Ask, patience: Duration) -> Result<Reply, Failure> {
        let deadline = Instant::now() + patience;
        let mut sender = match self.sender.take() {
            Some(sender) if !sender.is_closed() => sender,
            _ => by(deadline, self.connect()).await.map_err(Failure::NotSent)?,
        };
        let usable = timeout_at(deadline, sender.ready()).await;
        if !matches!(usable, Ok(Ok(()))) {
            // The other side closed it while it was idle.
            sender = by(deadline, self.connect()).await.map_err(Failure::NotSent)?;
        }
        let request = self.request(ask).map_err(Failure::NotSent)?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(|error| text(&error))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_LIMIT).collect().await.map_err(|error| error.to_string())?;
            Ok(Reply { status: head.status.as_u16(), headers: head.headers, body: body.to_bytes() })
        };
        let reply = by(deadline, exchange).await.map_err(Failure::Lost)?;
        self.sender = Some(sender);
        Ok(reply)
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let stream = TcpStream::connect(self.address).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let io = TokioIo::new(stream);
        let (sender, connection) =
            hyper::client::conn::http1::handshake(io).await.map_err(|error| error.to_string())?;
        // Ends with the connection, whose fate the sender is told.
        tokio::spawn(connection);
        Ok(sender)
    }

    fn request(&self, ask: Ask) -> Result<Request<Full<Bytes>>, String> {
        let target = if ask.query.is_empty() { ask.path } else { format!("{}?{}", ask.path, ask.query) };
        let mut request =
            Request::builder().method(ask.method).uri(target).header(HOST, self.address.to_string());
        if !ask.body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        for (name, value) in ask.headers {
            request = request.header(name, value);
        }
        request.body(Full::new(Bytes::from(ask.body))).map_err(|error| error.to_string())
    }
}

async fn by<T>(deadline: Instant, work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    timeout_at(deadline, work).await.unwrap_or_else(|_| Err("timeout".to_owned()))
}

/// The whole chain of causes.
fn text(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(link) = cause {
        text = format!("{text}: {link}");
        cause = link.source();
    }
    text
}

/// Signs requests of one principal.
#[derive(Debug, Clone)]
pub struct Signer {
    /// The class of the principal.
    pub label: Label,
    /// Whom its requests are for.
    pub audience: String,
    /// Its access key.
    pub access_key: String,
    /// Its secret.
    pub secret: Secret,
    /// How far the receiver's clock is ahead, in seconds, as far as it has said so.
    pub ahead_s: i64,
}

impl Signer {
    /// Adds the headers of a signature, and the Idempotency-Key that it covers.
    pub fn sign(&self, ask: &mut Ask, idempotency_key: Option<&str>) {
        let outgoing = Outgoing {
            label: self.label,
            audience: &self.audience,
            access_key: &self.access_key,
            method: ask.method.as_str(),
            path: &ask.path,
            query: &ask.query,
            idempotency_key: idempotency_key.unwrap_or(""),
            body: &ask.body,
        };
        let now_s = now().wall_ms.div_euclid(1_000) + self.ahead_s;
        let headers = outgoing.headers(&self.secret, now_s);
        ask.headers.extend(headers.map(|(name, value)| (name.to_owned(), value)));
        if let Some(key) = idempotency_key {
            ask.headers.push((IDEMPOTENCY_HEADER.to_owned(), key.to_owned()));
        }
    }

    /// Remembers the receiver's clock.
    pub fn learn(&mut self, server_ms: i64) {
        self.ahead_s = server_ms.div_euclid(1_000) - now().wall_ms.div_euclid(1_000);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    async fn listener() -> (TcpListener, Connection) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connection = Connection::new(listener.local_addr().unwrap());
        (listener, connection)
    }

    fn ask() -> Ask {
        Ask { method: Method::POST, path: "/x".to_owned(), body: b"{}".to_vec(), ..Ask::default() }
    }

    #[tokio::test]
    async fn a_refused_connection_sent_nothing() {
        let (listener, mut connection) = listener().await;
        drop(listener);
        let failure = connection.ask(ask(), Duration::from_secs(5)).await.unwrap_err();
        assert!(matches!(failure, Failure::NotSent(_)), "{failure}");
    }

    #[tokio::test]
    async fn a_connection_that_breaks_after_the_request_leaves_it_unknown() {
        let (listener, mut connection) = listener().await;
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut seen = [0; 1];
            stream.read_exact(&mut seen).await.unwrap();
        };
        let (failure, ()) = tokio::join!(connection.ask(ask(), Duration::from_secs(5)), server);
        let failure = failure.unwrap_err();
        assert!(matches!(failure, Failure::Lost(_)), "{failure}");
    }

    #[tokio::test]
    async fn silence_is_unknown_and_a_closed_idle_connection_is_made_anew() {
        let (listener, mut connection) = listener().await;
        let failure = connection.ask(ask(), Duration::from_millis(50)).await.unwrap_err();
        assert_eq!(failure, Failure::Lost("timeout".to_owned()));
        drop(listener.accept().await.unwrap());
        let server = async {
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut seen = [0; 1024];
                assert!(stream.read(&mut seen).await.unwrap() > 0);
                stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
            }
        };
        let client = async {
            for _ in 0..2 {
                let reply = connection.ask(ask(), Duration::from_secs(5)).await.unwrap();
                assert_eq!(reply.status, 204);
                // The server has dropped its end by now, or will have by the time of the next request.
                let sender = connection.sender.as_mut().unwrap();
                while sender.ready().await.is_ok() {
                    tokio::task::yield_now().await;
                }
            }
        };
        tokio::join!(server, client);
    }
}
