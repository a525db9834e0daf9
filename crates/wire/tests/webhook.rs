//! The published vectors of callbacks' signatures, which were computed with two other tools.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orloj_wire::callback::{VerifyError, WebhookSecret, sign, verify};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    description: String,
    vectors: Vec<Vector>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    name: String,
    secrets: Vec<String>,
    id: String,
    timestamp: String,
    body: String,
    signature: String,
}

impl Vector {
    /// From their bytes: as a text, a published secret is refused.
    fn secrets(&self) -> Vec<WebhookSecret> {
        let secret = |text: &String| {
            let bytes = STANDARD.decode(text.strip_prefix("whsec_").expect("a prefix")).expect("base64");
            WebhookSecret::of(bytes.try_into().expect("32 bytes"))
        };
        self.secrets.iter().map(secret).collect()
    }

    fn sent_s(&self) -> i64 {
        self.timestamp.parse().expect("a number")
    }

    /// What whoever has this secret says to it.
    fn verified_by(&self, secret: &WebhookSecret) -> Result<(), VerifyError> {
        verify(secret, &self.id, &self.timestamp, &self.signature, self.body.as_bytes(), self.sent_s())
    }
}

fn vectors() -> Vec<Vector> {
    let file: File =
        serde_json::from_str(include_str!("../testdata/webhook.json")).expect("the vectors are JSON");
    assert!(file.description.contains("scripts/vectors.py"), "{}", file.description);
    assert_eq!(file.vectors.len(), 2);
    file.vectors
}

#[test]
fn every_vector_is_met() {
    for vector in vectors() {
        let secrets = vector.secrets();
        assert_eq!(
            sign(&secrets, &vector.id, vector.sent_s(), vector.body.as_bytes()),
            vector.signature,
            "{}",
            vector.name
        );
        for secret in &secrets {
            assert_eq!(vector.verified_by(secret), Ok(()), "{}", vector.name);
        }
    }
}

#[test]
fn whatever_is_changed_does_not_pass() {
    type Change = fn(&mut Vector);
    let changes: [(&str, Change); 3] = [
        ("id", |vector| vector.id.push('A')),
        ("timestamp", |vector| vector.timestamp = "1800000001".into()),
        ("body", |vector| vector.body.push(' ')),
    ];
    for vector in vectors() {
        for (what, change) in changes {
            let mut changed = vector.clone();
            change(&mut changed);
            for secret in vector.secrets() {
                let said = changed.verified_by(&secret);
                assert_eq!(said, Err(VerifyError::Signature), "{} {what}", vector.name);
            }
        }
    }
}
