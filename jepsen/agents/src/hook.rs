//! A callback that has arrived, as a history tells it.

use orloj_jepsen_core::event::Callback;
use orloj_wire::callback::{ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, WebhookSecret, verify};
use serde_json::Value;

/// A callback as it came in.
#[derive(Clone, Copy)]
pub struct Arrived<'a> {
    /// The value of a header by its name in lower case.
    pub header: &'a dyn Fn(&str) -> Option<String>,
    /// The body, byte for byte.
    pub body: &'a [u8],
}

/// What a history says of it; `answered` is the status that it is answered with.
///
/// The clock of whoever signs may have been moved on purpose, so the time of the signature is taken as it is.
pub fn told(arrived: Arrived<'_>, secret: &WebhookSecret, answered: u16) -> Callback {
    let text = |name: &str| (arrived.header)(name).unwrap_or_default();
    let (id, sent_s, signature) = (text(ID_HEADER), text(TIMESTAMP_HEADER), text(SIGNATURE_HEADER));
    let own_time_s = sent_s.parse().unwrap_or(0);
    let signed = verify(secret, &id, &sent_s, &signature, arrived.body, own_time_s).is_ok();
    let body: Value = serde_json::from_slice(arrived.body).unwrap_or_default();
    let data = |name: &str| body["data"][name].as_str().unwrap_or_default().to_owned();
    let finished: Option<orloj_wire::time::Time> =
        serde_json::from_value(body["data"]["finishedAt"].clone()).ok();
    Callback {
        task: data("taskId"),
        id,
        status: data("status"),
        version: body["data"]["version"].as_u64().unwrap_or(0),
        finished_at_ms: finished.map(|time| time.0),
        signed,
        answered,
    }
}

#[cfg(test)]
mod tests {
    use orloj_wire::callback::sign;

    use super::*;

    #[test]
    fn what_is_told_comes_from_the_body_and_the_signature_is_checked() {
        let secret = WebhookSecret::of([7; 32]);
        let body =
            br#"{"type":"task.succeeded","timestamp":"2027-01-15T08:00:00.000Z","data":{"taskId":"tsk_1",
            "status":"SUCCESS","version":4,"finishedAt":"2027-01-15T08:00:00.000Z"}}"#;
        let signature = sign(std::slice::from_ref(&secret), "evt_1", 1_800_000_000, body);
        let header = |name: &str| match name {
            ID_HEADER => Some("evt_1".to_owned()),
            TIMESTAMP_HEADER => Some("1800000000".to_owned()),
            SIGNATURE_HEADER => Some(signature.clone()),
            _ => None,
        };
        let told = |secret: &WebhookSecret, body: &[u8]| told(Arrived { header: &header, body }, secret, 200);
        let good = told(&secret, body);
        assert_eq!((good.task.as_str(), good.status.as_str(), good.version), ("tsk_1", "SUCCESS", 4));
        assert_eq!((good.signed, good.finished_at_ms), (true, Some(1_800_000_000_000)));
        assert!(!told(&WebhookSecret::of([8; 32]), body).signed);
        let other = told(&secret, b"{}");
        assert!(!other.signed && other.task.is_empty());
    }
}
