//! Signatures of what replicas say to each other. Pure.
//!
//! The audience is the internal address that is called, so a call cannot be turned towards another node.

use std::sync::Arc;

use orloj_model::id::Millis;
use orloj_raft_store::http::{SignedParts, Signer};
use orloj_wire::clock::Clock;
use orloj_wire::problem::Code;
use orloj_wire::sign::{Label, Outgoing, Secret};

use crate::auth::{self, Credentials, Target};
use crate::outcome::Failure;

/// What replicas call themselves in their signatures: all sign with the cluster's one secret.
pub const REPLICA: &str = "replica";

/// Signs the calls of the store's transport with the cluster's secret.
pub fn signer(secret: Secret, clock: Arc<dyn Clock>) -> Signer {
    Arc::new(move |parts| sign(parts, &secret, clock.wall_ms()).into())
}

/// The headers that sign a call.
pub fn sign(call: SignedParts<'_>, secret: &Secret, now_ms: Millis) -> [(&'static str, String); 4] {
    let outgoing = Outgoing {
        label: Label::Peer,
        audience: call.audience,
        access_key: REPLICA,
        method: call.method,
        path: call.path,
        query: call.query,
        idempotency_key: "",
        body: call.body,
    };
    outgoing.headers(secret, now_ms.div_euclid(1000))
}

/// Checks the signature of an internal call under `label`, made for `target` with `secret` of the sender.
/// Nonces are not remembered here: what replicas say is guarded by what it names (terms, rounds, or the nonce of the
/// request inside), so that a repeated call has no effect; the one that tells of refused calls spends its nonce in the
/// log. How calls of executors are kept single is up to the listener.
///
/// The time of a replica's call is not checked: a leader whose wall clock is stepped must go on leading, and
/// Raft holds under repeated and late messages. An executor signs by the leader's clock once it was told.
pub fn check(
    credentials: &Credentials,
    target: Target<'_>,
    label: Label,
    secret: &Secret,
    now_ms: Millis,
) -> Result<(), Failure> {
    if label != Label::Peer {
        credentials.check_time(now_ms.div_euclid(1000))?;
    }
    match auth::is_signed(credentials, target, label, secret) {
        true => Ok(()),
        false => Err(Failure::new(Code::InvalidSignature, "the sender or the signature is wrong")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;
    use crate::auth::Headers;

    struct List(Vec<(&'static str, String)>);

    impl Headers for List {
        fn values(&self, name: &'static str) -> Vec<&[u8]> {
            self.0.iter().filter(|(known, _)| *known == name).map(|(_, value)| value.as_bytes()).collect()
        }
    }

    #[test]
    fn a_call_is_good_for_its_receiver_path_query_and_body_alone() {
        let secret = Secret::new("cluster-secret-0123456789abcdef0123").unwrap();
        let (path, query) = ("/raft/v1/vote", "target=2");
        let call = SignedParts { method: "POST", path, query, audience: "h2:1", body: b"x" };
        let now = 1_800_000_000_000;
        let credentials = Credentials::from_headers(&List(sign(call, &secret, now).into())).unwrap();
        let target = Target { audience: "h2:1", method: "POST", path, query, body: b"x" };
        let ok = |target, label, now| check(&credentials, target, label, &secret, now).is_ok();
        assert!(ok(target, Label::Peer, now));
        assert!(ok(target, Label::Peer, now + 3_600_000) && ok(target, Label::Peer, now - 3_600_000));
        assert!(!ok(Target { audience: "h3:1", ..target }, Label::Peer, now));
        assert!(!ok(Target { path: "/raft/v1/append", ..target }, Label::Peer, now));
        assert!(!ok(Target { query: "target=3", ..target }, Label::Peer, now));
        assert!(!ok(Target { body: b"y", ..target }, Label::Peer, now));
        for label in [Label::Caller, Label::Admin, Label::Executor] {
            assert!(!ok(target, label, now), "{label:?}");
        }
        let other = Secret::new("another-secret-0123456789abcdef0123").unwrap();
        assert!(check(&credentials, target, Label::Peer, &other, now).is_err());
        let mut renamed = credentials.clone();
        renamed.access_key = "3".into();
        assert!(check(&renamed, target, Label::Peer, &secret, now).is_err());
    }
}
