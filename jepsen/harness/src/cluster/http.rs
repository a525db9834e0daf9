//! One HTTP request at a time, blocking, for the harness's own calls. HTTP/1.0, so that the end of the answer is the
//! end of the connection.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result};

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Its body, as text.
    pub body: String,
}

/// Sends one request to `address` from the network of the calling thread.
///
/// # Errors
/// No answer within `patience` for each of connecting, sending and receiving, or none that can be understood.
pub fn call(
    address: &str,
    method: &str,
    target: &str,
    headers: &[(&str, String)],
    body: &[u8],
    patience: Duration,
) -> Result<Answer> {
    let socket: SocketAddr = address.parse().with_context(|| format!("{address:?} is no address"))?;
    let mut stream =
        TcpStream::connect_timeout(&socket, patience).with_context(|| format!("connect to {address}"))?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    let mut head =
        format!("{method} {target} HTTP/1.0\r\nhost: {address}\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let named = || format!("{method} {target} at {address}");
    stream.write_all(&[head.as_bytes(), body].concat()).with_context(named)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).with_context(named)?;
    parse(&String::from_utf8_lossy(&answer)).with_context(named)
}

fn parse(text: &str) -> Result<Answer> {
    let (head, body) = text.split_once("\r\n\r\n").context("the answer has no end of its head")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok(Answer { status: status.context("the answer has no status")?, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_answer_is_read_to_its_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = [0; 1024];
            let mut request = String::new();
            while !request.ends_with("ping") {
                let length = stream.read(&mut buffer).unwrap();
                request.push_str(std::str::from_utf8(&buffer[..length]).unwrap());
            }
            stream.write_all(b"HTTP/1.0 202 Accepted\r\nx: y\r\n\r\n{\"a\":1}").unwrap();
            request
        });
        let headers = [("x-nonce", "7".to_owned())];
        let answer = call(&address, "POST", "/p?q=1", &headers, b"ping", Duration::from_secs(10)).unwrap();
        assert_eq!(answer, Answer { status: 202, body: "{\"a\":1}".into() });
        let request = server.join().unwrap();
        assert!(
            request.starts_with("POST /p?q=1 HTTP/1.0\r\n") && request.contains("x-nonce: 7\r\n"),
            "{request}"
        );
    }

    #[test]
    fn nonsense_is_an_error() {
        assert!(parse("").is_err());
        assert!(parse("HTTP/1.1 many\r\n\r\n").is_err());
    }
}
