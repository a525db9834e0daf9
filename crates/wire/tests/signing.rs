//! The published signing vectors, which were computed with two other tools, and what must not pass for them.

use orloj_wire::sign::{Label, Parts, Secret, hex, sha256};
use serde::Deserialize;

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Vector {
    name: String,
    label: String,
    audience: String,
    access_key: String,
    secret_key: String,
    timestamp: String,
    nonce: String,
    method: String,
    path: String,
    query: String,
    idempotency_key: String,
    body: String,
    canonical: String,
    canonical_sha256: String,
    signature: String,
}

/// Changes one thing about a vector.
type Change = fn(&mut Vector);

impl Vector {
    fn parts(&self) -> Parts<'_> {
        Parts {
            label: match self.label.as_str() {
                "caller" => Label::Caller,
                "admin" => Label::Admin,
                "executor" => Label::Executor,
                "peer" => Label::Peer,
                other => panic!("no label {other}"),
            },
            audience: &self.audience,
            access_key: &self.access_key,
            timestamp: &self.timestamp,
            nonce: &self.nonce,
            method: &self.method,
            path: &self.path,
            query: &self.query,
            idempotency_key: &self.idempotency_key,
            body: self.body.as_bytes(),
        }
    }

    fn secret(&self) -> Secret {
        Secret::new(self.secret_key.as_str()).expect("the vectors have secrets")
    }
}

fn vectors() -> Vec<Vector> {
    let vectors: Vec<Vector> =
        serde_json::from_str(include_str!("../testdata/signing.json")).expect("the vectors are JSON");
    assert_eq!(vectors.len(), 9);
    vectors
}

#[test]
fn every_vector_is_met() {
    for vector in vectors() {
        let parts = vector.parts();
        assert_eq!(parts.canonical(), vector.canonical, "{}", vector.name);
        assert_eq!(hex(&sha256(&[vector.canonical.as_bytes()])), vector.canonical_sha256, "{}", vector.name);
        assert_eq!(parts.sign(&vector.secret()), vector.signature, "{}", vector.name);
        assert!(parts.verify(&vector.secret(), &vector.signature), "{}", vector.name);
    }
}

#[test]
fn no_two_vectors_share_a_signature() {
    let mut signatures: Vec<_> = vectors().into_iter().map(|vector| vector.signature).collect();
    signatures.sort();
    signatures.dedup();
    assert_eq!(signatures.len(), 9);
}

#[test]
fn any_changed_line_breaks_every_vector() {
    let changes: [(&str, Change); 10] = [
        ("label", |v| v.label = if v.label == "caller" { "admin".into() } else { "caller".into() }),
        ("audience", |v| v.audience = "defaulu".into()),
        ("access key", |v| v.access_key.push('A')),
        ("timestamp", |v| v.timestamp = "1800000001".into()),
        ("nonce", |v| v.nonce.replace_range(0..1, "1")),
        ("method", |v| v.method = if v.method == "GET" { "POST".into() } else { "GET".into() }),
        ("path", |v| v.path.push('/')),
        ("query", |v| v.query.push('x')),
        ("idempotency key", |v| v.idempotency_key.push('x')),
        ("body", |v| v.body.push(' ')),
    ];
    for vector in vectors() {
        for (line, change) in changes {
            let mut changed = vector.clone();
            change(&mut changed);
            assert!(!changed.parts().verify(&vector.secret(), &vector.signature), "{} {line}", vector.name);
        }
    }
}

#[test]
fn only_the_whole_lower_case_tag_passes() {
    let vector = &vectors()[0];
    let (good, secret) = (vector.signature.as_str(), vector.secret());
    let base64 = "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=";
    for bad in ["", "0", &good[..2], &good[..16], &good[..32], &good[..62], &format!("{good}00"), base64] {
        assert!(!vector.parts().verify(&secret, bad), "{bad:?}");
    }
    assert!(!vector.parts().verify(&secret, &good.to_uppercase()));
    assert!(!vector.parts().verify(&secret, &format!(" {good}")));
    assert!(!vector.parts().verify(&secret, &format!("{good}\n")));
    for bit in 0..256 {
        let mut changed = good.as_bytes().to_vec();
        let digit = &mut changed[bit / 4];
        let value = (*digit as char).to_digit(16).expect("a hex digit") ^ (1 << (bit % 4));
        *digit = char::from_digit(value, 16).expect("a hex digit") as u8;
        let changed = String::from_utf8(changed).expect("hex is ASCII");
        assert!(!vector.parts().verify(&secret, &changed), "bit {bit}");
    }
}

#[test]
fn another_or_an_empty_secret_does_not_pass() {
    let vector = &vectors()[0];
    let other = Secret::new("sk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHhg").expect("not blank");
    assert!(!vector.parts().verify(&other, &vector.signature));
    for blank in ["", " ", "\t\n"] {
        assert!(Secret::new(blank).is_none(), "{blank:?}");
    }
}
