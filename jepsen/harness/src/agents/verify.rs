//! Checks that a push was signed by a replica, for this executor, now, and for the first time.

use std::collections::BTreeMap;

use hyper::HeaderMap;
use orloj_wire::problem::{Code, Problem};
use orloj_wire::sign::{
    ACCESS_KEY_HEADER, Label, NONCE_HEADER, NONCE_KEEP_S, Parts, SIGNATURE_HEADER, Secret, TIME_WINDOW_S,
    TIMESTAMP_HEADER,
};
use orloj_wire::time::Time;

use super::server::Received;

/// Under which access key replicas sign.
const REPLICA: &str = "replica";

/// The check of one executor.
#[derive(Debug)]
pub struct Verifier {
    secret: Secret,
    audience: String,
    /// Nonces that were used, until when they are remembered.
    nonces: BTreeMap<String, i64>,
}

impl Verifier {
    /// For the executor `audience`, which shares `secret` with the replicas.
    pub fn new(audience: &str, secret: Secret) -> Verifier {
        Verifier { secret, audience: audience.to_owned(), nonces: BTreeMap::new() }
    }

    /// Checks a push and takes its nonce.
    ///
    /// # Errors
    /// The problem that it is refused with.
    pub fn check(&mut self, push: &Received, wall_ms: i64) -> Result<(), Box<Problem>> {
        let access_key = header(&push.headers, ACCESS_KEY_HEADER)?;
        let timestamp = header(&push.headers, TIMESTAMP_HEADER)?;
        let nonce = header(&push.headers, NONCE_HEADER)?;
        let signature = header(&push.headers, SIGNATURE_HEADER)?;
        let parts = Parts {
            label: Label::Executor,
            audience: &self.audience,
            access_key,
            timestamp,
            nonce,
            method: &push.method,
            path: &push.path,
            query: &push.query,
            idempotency_key: "",
            body: &push.body,
        };
        if access_key != REPLICA || !parts.verify(&self.secret, signature) {
            let problem = Problem::new(Code::InvalidSignature, "the signature is not this request's");
            return Err(Box::new(problem));
        }
        let now_s = wall_ms.div_euclid(1_000);
        let stamped_s: i64 = timestamp.parse().unwrap_or(0);
        if (now_s - stamped_s).abs() > TIME_WINDOW_S {
            let mut problem = Problem::new(Code::TimestampOutOfWindow, "the clocks are apart");
            problem.server_time = Some(Time(wall_ms));
            return Err(Box::new(problem));
        }
        self.nonces.retain(|_, until| *until > now_s);
        match self.nonces.insert(nonce.to_owned(), stamped_s + NONCE_KEEP_S) {
            None => Ok(()),
            Some(_) => Err(Box::new(Problem::new(Code::NonceReplayed, "the nonce was used before"))),
        }
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, Box<Problem>> {
    let mut values = headers.get_all(name).iter();
    match (values.next().and_then(|value| value.to_str().ok()), values.next()) {
        (Some(value), None) => Ok(value),
        _ => Err(Box::new(Problem::new(Code::MissingCredentials, format!("{name} must be there once")))),
    }
}

#[cfg(test)]
mod tests {
    use orloj_wire::sign::Outgoing;

    use super::*;

    fn push(audience: &str, now_s: i64) -> Received {
        let outgoing = Outgoing {
            label: Label::Executor,
            audience,
            access_key: REPLICA,
            method: "POST",
            path: "/v1/run",
            query: "",
            idempotency_key: "",
            body: b"{}",
        };
        let mut headers = HeaderMap::new();
        for (name, value) in outgoing.headers(&secret(), now_s) {
            headers.insert(name, value.parse().unwrap());
        }
        Received {
            from: [127, 0, 0, 1].into(),
            method: "POST".to_owned(),
            path: "/v1/run".to_owned(),
            query: String::new(),
            headers,
            body: b"{}".as_slice().into(),
        }
    }

    fn secret() -> Secret {
        Secret::new("a secret of the executors").unwrap()
    }

    #[test]
    fn only_a_fresh_push_for_this_executor_passes_and_only_once() {
        let mut verifier = Verifier::new("e1", secret());
        let now_ms = 1_800_000_000_000;
        let good = push("e1", 1_800_000_000);
        assert_eq!(verifier.check(&good, now_ms), Ok(()));
        let code = |verdict: Result<(), Box<Problem>>| verdict.unwrap_err().code;
        assert_eq!(code(verifier.check(&good, now_ms)), "nonce_replayed");
        assert_eq!(code(verifier.check(&push("e2", 1_800_000_000), now_ms)), "invalid_signature");
        let late = verifier.check(&push("e1", 1_800_000_000 - 301), now_ms).unwrap_err();
        assert_eq!((late.code.as_str(), late.server_time), ("timestamp_out_of_window", Some(Time(now_ms))));
        let mut changed = push("e1", 1_800_000_000);
        changed.body = b"{ }".as_slice().into();
        assert_eq!(code(verifier.check(&changed, now_ms)), "invalid_signature");
        let mut bare = push("e1", 1_800_000_000);
        bare.headers.remove(SIGNATURE_HEADER);
        assert_eq!(code(verifier.check(&bare, now_ms)), "missing_credentials");
    }
}
