//! Between axum's requests and ours: headers, bounded bodies, answers.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use orloj_net::Bounds;
use orloj_wire::problem::Code;

use crate::auth::Headers;
use crate::outcome::{Answer, Failure};

/// The longest that a body may take to arrive; a long one has more, see [`body_timeout`].
pub const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// What a long body has for each window of its HTTP/2 stream, which takes a round trip.
const ROUND_TRIP: Duration = Duration::from_millis(250);

/// The longest that a body of at most `length` bytes may take to arrive at the public listener.
pub fn body_timeout(length: usize) -> Duration {
    let windows = length.saturating_sub(1) / Bounds::PUBLIC.window as usize;
    BODY_TIMEOUT.saturating_add(ROUND_TRIP.saturating_mul(u32::try_from(windows).unwrap_or(u32::MAX)))
}

impl Headers for HeaderMap {
    fn values(&self, name: &'static str) -> Vec<&[u8]> {
        self.get_all(name).iter().map(HeaderValue::as_bytes).collect()
    }
}

/// A header that is a list, in one line: it may stand in several, which mean the same (RFC 9110, 5.3). Lines that are
/// no text are passed over.
pub fn list(headers: &HeaderMap, name: &'static str) -> Option<String> {
    let lines: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    (!lines.is_empty()).then(|| lines.join(", "))
}

/// Refuses a body that says it is too long, without reading it.
pub fn check_length(headers: &HeaderMap, limit: usize) -> Result<(), Failure> {
    let declared =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    match declared {
        Some(length) if length > limit as u64 => Err(too_large(limit)),
        _ => Ok(()),
    }
}

/// Refuses a body that is not plain JSON.
pub fn check_type(headers: &HeaderMap, body: &[u8]) -> Result<(), Failure> {
    let refuse = |detail: String| Err(Failure::new(Code::UnsupportedMediaType, detail));
    if let Some(encoding) = headers.get(header::CONTENT_ENCODING) {
        return refuse(format!("Content-Encoding {encoding:?}: a body must not be encoded"));
    }
    if body.is_empty() {
        return Ok(());
    }
    let values: Vec<_> = headers.get_all(header::CONTENT_TYPE).iter().collect();
    match values[..] {
        [value] if value.to_str().is_ok_and(is_json) => Ok(()),
        _ => refuse("a body needs Content-Type: application/json, once".to_owned()),
    }
}

fn is_json(value: &str) -> bool {
    let mut parts = value.split(';').map(|part| part.trim().to_ascii_lowercase());
    parts.next().as_deref() == Some("application/json")
        && parts.all(|part| matches!(part.as_str(), "charset=utf-8" | "charset=\"utf-8\""))
}

/// Reads a body of at most `limit` bytes that arrives within `within`.
pub async fn read_body(body: Body, limit: usize, within: Duration) -> Result<Bytes, Failure> {
    let read = async {
        let mut stream = body.into_data_stream();
        let mut first = Bytes::new();
        let mut rest = BytesMut::new();
        while let Some(chunk) = stream.next().await {
            let broken = |_| Failure::new(Code::InvalidRequest, "the body broke off");
            let chunk = chunk.map_err(broken)?;
            if first.len() + rest.len() + chunk.len() > limit {
                return Err(too_large(limit));
            }
            // Most bodies come in one piece, which is taken as it is.
            match (first.is_empty(), rest.is_empty()) {
                (true, true) => first = chunk,
                (_, true) => {
                    rest.extend_from_slice(&first);
                    rest.extend_from_slice(&chunk);
                    first = Bytes::new();
                }
                (_, false) => rest.extend_from_slice(&chunk),
            }
        }
        Ok(if rest.is_empty() { first } else { rest.freeze() })
    };
    match tokio::time::timeout(within, read).await {
        Ok(read) => read,
        Err(_) => {
            let detail = format!("the body did not arrive within {within:?}");
            Err(Failure::new(Code::BodyTimeout, detail))
        }
    }
}

fn too_large(limit: usize) -> Failure {
    Failure::new(Code::PayloadTooLarge, format!("the body has more than {limit} bytes"))
}

/// The answer as axum's response.
pub fn response(answer: Answer) -> Response {
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers {
        // Our own names and values are always good; those that a peer sent came over HTTP.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

/// A name for one request: 16 random bytes in hex.
pub fn new_request_id() -> String {
    orloj_wire::sign::new_nonce()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn a_long_body_has_longer_to_arrive() {
        for (length, expected_ms) in
            [(0, 10_000), (300, 10_000), (65_536, 10_000), (65_537, 10_250), (4 << 20, 25_750)]
        {
            assert_eq!(body_timeout(length).as_millis(), expected_ms, "{length}");
        }
        assert!(body_timeout(usize::MAX) > BODY_TIMEOUT);
    }

    #[test]
    fn only_plain_json_is_a_body() {
        let ok = |pairs: &[(&'static str, &str)], body: &[u8]| check_type(&headers(pairs), body).is_ok();
        assert!(ok(&[], b""));
        assert!(ok(&[("content-type", "application/json")], b"{}"));
        assert!(ok(&[("content-type", "Application/JSON; charset=UTF-8")], b"{}"));
        assert!(!ok(&[], b"{}"));
        assert!(!ok(&[("content-type", "text/plain")], b"{}"));
        assert!(!ok(&[("content-type", "application/json; charset=latin1")], b"{}"));
        assert!(!ok(&[("content-type", "application/jsonx")], b"{}"));
        assert!(!ok(&[("content-type", "application/json"), ("content-encoding", "gzip")], b"{}"));
        let twice: HeaderMap = [("content-type", "application/json"); 2]
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .into_iter()
            .fold(HeaderMap::new(), |mut all, (name, value)| {
                all.append(name, value);
                all
            });
        assert!(check_type(&twice, b"{}").is_err());
    }

    #[test]
    fn a_list_may_stand_in_several_lines() {
        let mut lines = HeaderMap::new();
        assert_eq!(list(&lines, "if-none-match"), None);
        for line in [&b"\"1\""[..], b"\"2\", \"3\"", b"\xff"] {
            lines.append("if-none-match", HeaderValue::from_bytes(line).unwrap());
        }
        assert_eq!(list(&lines, "if-none-match").unwrap(), "\"1\", \"2\", \"3\"");
    }

    #[tokio::test]
    async fn bodies_are_cut_at_the_limit() {
        let pieces = |sizes: &'static [usize]| {
            let stream = futures_util::stream::iter(
                sizes.iter().map(|size| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; *size]))),
            );
            Body::from_stream(stream)
        };
        for sizes in [&[][..], &[10], &[4, 6], &[3, 0, 3, 4]] {
            let expected: usize = sizes.iter().sum();
            assert_eq!(read_body(pieces(sizes), 10, BODY_TIMEOUT).await.unwrap().len(), expected);
        }
        for sizes in [&[11][..], &[10, 1], &[5, 5, 1]] {
            assert_eq!(
                read_body(pieces(sizes), 10, BODY_TIMEOUT).await.unwrap_err().code,
                Code::PayloadTooLarge
            );
        }
        assert!(check_length(&headers(&[("content-length", "11")]), 10).is_err());
        assert!(check_length(&headers(&[("content-length", "10")]), 10).is_ok());
    }

    #[tokio::test]
    async fn a_body_that_never_ends_is_given_up() {
        let stalled = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
        assert_eq!(
            read_body(stalled, 10, Duration::from_millis(1)).await.unwrap_err().code,
            Code::BodyTimeout
        );
    }
}
