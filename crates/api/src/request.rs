//! A signed request, wherever it came in.

use bytes::{BufMut as _, Bytes, BytesMut};
use orloj_wire::problem::Code;
use serde::{Deserialize, Serialize};

use crate::auth::{Credentials, Target};
use crate::outcome::Failure;
use crate::route::{self, Access};

/// A request of the OpenAPI with everything that matters of it. A follower hands it to the leader as it is,
/// and the leader checks it like one of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The method in upper case.
    pub method: String,
    /// The path as it was sent.
    pub path: String,
    /// The query as it was sent; empty for none.
    pub query: String,
    /// Who signed it, when, and how.
    pub credentials: Credentials,
    /// The header `If-None-Match`.
    pub if_none_match: Option<String>,
    /// Names the request in the answer and in every log.
    pub request_id: String,
    /// Whose keys the listener takes that it came in at.
    #[serde(default)]
    pub keys_of: Access,
    /// The body; travels behind the rest.
    #[serde(skip)]
    pub body: Bytes,
}

impl Request {
    /// What is signed of it.
    pub fn target<'a>(&'a self, audience: &'a str) -> Target<'a> {
        Target { audience, method: &self.method, path: &self.path, query: &self.query, body: &self.body }
    }

    /// Its parameters.
    pub fn parameters(&self) -> Result<Parameters<'_>, Failure> {
        Parameters::of(&self.query)
    }

    /// The bytes that a follower sends to the leader: the length of the head, the head, the body.
    pub fn encode(&self) -> Bytes {
        // A struct of strings always serialises.
        let head = serde_json::to_vec(self).expect("a request serialises");
        let mut bytes = BytesMut::with_capacity(4 + head.len() + self.body.len());
        bytes.put_u32(u32::try_from(head.len()).expect("headers are bounded to some KiB"));
        bytes.put_slice(&head);
        bytes.put_slice(&self.body);
        bytes.freeze()
    }

    /// Reads what [`encode`](Request::encode) wrote.
    pub fn decode(mut bytes: Bytes) -> Option<Request> {
        let length = u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
        let end = length.checked_add(4)?;
        let mut request: Request = serde_json::from_slice(bytes.get(4..end)?).ok()?;
        request.body = bytes.split_off(end);
        Some(request)
    }
}

/// The parameters of a query, taken one by one; what is left over is unknown.
#[derive(Debug)]
pub struct Parameters<'a> {
    rest: Vec<(&'a str, &'a str)>,
}

impl<'a> Parameters<'a> {
    /// The parameters of a query.
    pub fn of(query: &'a str) -> Result<Self, Failure> {
        Ok(Parameters { rest: route::parameters(query)? })
    }

    /// The value of a parameter.
    pub fn text(&mut self, name: &str) -> Option<&'a str> {
        let place = self.rest.iter().position(|(known, _)| *known == name)?;
        Some(self.rest.remove(place).1)
    }

    /// A whole number within bounds.
    pub fn number(&mut self, name: &str, min: u64, max: u64) -> Result<Option<u64>, Failure> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(number) if digits && (min..=max).contains(&number) => Ok(Some(number)),
            _ => Err(Failure::new(
                Code::InvalidQuery,
                format!("{name}: {text:?} is not a number of {min}-{max}"),
            )),
        }
    }

    /// Refuses every parameter that was not taken.
    pub fn finish(self) -> Result<(), Failure> {
        match self.rest.first() {
            None => Ok(()),
            Some((name, _)) => {
                Err(Failure::new(Code::InvalidQuery, format!("this call has no parameter {name:?}")))
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            method: "POST".into(),
            path: "/openapi/v1/tasks".into(),
            query: "n=5&z=18446744073709551616&s=abc".into(),
            credentials: Credentials {
                access_key: "ak_A".into(),
                timestamp: "1800000000".into(),
                nonce: "0123456789abcdef".into(),
                signature: "0".repeat(64),
                idempotency_key: Some("\"k\"".into()),
            },
            if_none_match: None,
            keys_of: Access::Caller,
            request_id: "r".into(),
            body: Bytes::from_static(b"\x00\xff{}"),
        }
    }

    #[test]
    fn a_forwarded_request_arrives_unchanged() {
        let bytes = request().encode();
        assert_eq!(Request::decode(bytes.clone()).unwrap(), request());
        for cut in 0..bytes.len() - request().body.len() {
            assert!(Request::decode(bytes.slice(..cut)).is_none(), "{cut}");
        }
        assert!(Request::decode(Bytes::from_static(b"\xff\xff\xff\xff{}")).is_none());
    }

    #[test]
    fn parameters_are_bounded_and_none_is_left() {
        let request = request();
        let mut parameters = request.parameters().unwrap();
        assert_eq!(parameters.number("n", 1, 5).unwrap(), Some(5));
        assert_eq!(parameters.number("n", 1, 5).unwrap(), None);
        assert!(parameters.number("z", 0, u64::MAX).is_err());
        assert!(parameters.finish().is_err());
        let mut parameters = request.parameters().unwrap();
        assert!(parameters.number("n", 6, 7).is_err());
        assert_eq!(parameters.text("s"), Some("abc"));
    }
}
