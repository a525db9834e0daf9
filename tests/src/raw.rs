//! Signed requests that a test takes apart: each signed line can be changed between signing and sending, headers can
//! be doubled, and nothing on the way repairs what was bent.

use std::time::Duration;

use orloj_wire::clock::{Clock as _, SystemClock};
use orloj_wire::sign::{
    ACCESS_KEY_HEADER, IDEMPOTENCY_HEADER, Label, NONCE_HEADER, Parts, SIGNATURE_HEADER, Secret,
    TIMESTAMP_HEADER, new_nonce,
};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// For an answer to come and the connection to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// The ten lines that are signed, as their parts; `label` and `audience` are not sent.
#[derive(Debug, Clone)]
pub struct Lines {
    /// The class of the principal.
    pub label: Label,
    /// Whom the request is for.
    pub audience: String,
    /// `X-Access-Key`
    pub access_key: String,
    /// `X-Timestamp`
    pub timestamp: String,
    /// `X-Nonce`
    pub nonce: String,
    /// The method.
    pub method: String,
    /// The path.
    pub path: String,
    /// The query, without `?`.
    pub query: String,
    /// `Idempotency-Key`; empty for none.
    pub idempotency_key: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Lines {
    /// A request of a caller, of now and with a nonce of its own.
    pub fn new(access_key: &str, method: &str, path: &str) -> Lines {
        Lines {
            label: Label::Caller,
            audience: "default".to_owned(),
            access_key: access_key.to_owned(),
            timestamp: now_s().to_string(),
            nonce: new_nonce(),
            method: method.to_owned(),
            path: path.to_owned(),
            query: String::new(),
            idempotency_key: String::new(),
            body: Vec::new(),
        }
    }

    /// The same with another time, so many seconds from now.
    pub fn at(self, from_now_s: i64) -> Lines {
        Lines { timestamp: (now_s() + from_now_s).to_string(), ..self }
    }

    /// What this secret signs it with.
    ///
    /// # Panics
    /// The secret is blank.
    pub fn signature(&self, secret: &str) -> String {
        let parts = Parts {
            label: self.label,
            audience: &self.audience,
            access_key: &self.access_key,
            timestamp: &self.timestamp,
            nonce: &self.nonce,
            method: &self.method,
            path: &self.path,
            query: &self.query,
            idempotency_key: &self.idempotency_key,
            body: &self.body,
        };
        parts.sign(&Secret::new(secret).expect("a test has good secrets"))
    }

    /// The request with a signature, whatever that was made of.
    pub fn with(&self, signature: &str) -> Raw {
        let mut headers = vec![
            (ACCESS_KEY_HEADER, self.access_key.clone()),
            (TIMESTAMP_HEADER, self.timestamp.clone()),
            (NONCE_HEADER, self.nonce.clone()),
            (SIGNATURE_HEADER, signature.to_owned()),
        ];
        if !self.idempotency_key.is_empty() {
            headers.push((IDEMPOTENCY_HEADER, self.idempotency_key.clone()));
        }
        if !self.body.is_empty() {
            headers.push(("content-type", "application/json".to_owned()));
            headers.push(("content-length", self.body.len().to_string()));
        }
        let query = if self.query.is_empty() { String::new() } else { format!("?{}", self.query) };
        let line = format!("{} {}{query} HTTP/1.1", self.method, self.path);
        Raw { line, headers, body: self.body.clone() }
    }

    /// The request as it should be.
    pub fn signed(&self, secret: &str) -> Raw {
        self.with(&self.signature(secret))
    }
}

fn now_s() -> i64 {
    SystemClock::new().wall_ms().div_euclid(1000)
}

/// What goes over the wire.
#[derive(Debug, Clone)]
pub struct Raw {
    /// The request line.
    pub line: String,
    /// The headers, in this order and as often.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// What came back.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body's JSON; null for none.
    pub body: Value,
}

impl Answer {
    /// The code of a refusal, else empty.
    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }
}

impl Raw {
    /// The same with a header once more.
    pub fn doubled(mut self, name: &str) -> Raw {
        let again = self.headers.iter().find(|(known, _)| *known == name).cloned();
        self.headers.push(again.expect("a header that is there"));
        self
    }

    /// The same without any header of the credentials.
    pub fn without_credentials(mut self) -> Raw {
        self.headers.retain(|(name, _)| !name.starts_with("x-"));
        self
    }

    /// Sends it to a replica's public address (`http://host:port`) over a connection of its own.
    ///
    /// # Panics
    /// There is no connection, or no answer that is HTTP.
    pub async fn send(&self, api: &str) -> Answer {
        let address = api.strip_prefix("http://").expect("a replica that speaks in clear");
        let mut text = format!("{}\r\nhost: {address}\r\nconnection: close\r\n", self.line);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        let sent = [text.as_bytes(), &self.body].concat();
        let exchange = async {
            let mut stream = TcpStream::connect(address).await.expect("a connection");
            stream.write_all(&sent).await.expect("the request goes out");
            let mut answer = Vec::new();
            // Whoever answers before it has read all may break the connection off afterwards.
            let _ = stream.read_to_end(&mut answer).await;
            answer
        };
        answer(&timeout(PATIENCE, exchange).await.expect("an answer in time"))
    }
}

fn answer(bytes: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Answer {
        status: status.unwrap_or_else(|| panic!("no status: {head:?}")),
        body: serde_json::from_str(body).unwrap_or_default(),
    }
}
