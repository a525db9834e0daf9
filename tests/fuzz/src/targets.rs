//! The targets. Each takes any bytes.

mod callback;

use std::fmt::Debug;

use orloj_api::auth::{Credentials, Headers};
use orloj_api::route;
use orloj_model::command::Batch;
use orloj_net::Identity;
use orloj_raft_store::codec::{self, Schema};
use orloj_raft_store::message::{self, Append, AskVote, SendSnapshot};
use orloj_raft_store::stored::StoredEntry;
use orloj_raft_store::transport::RpcEnvelope;
use orloj_wire::json;
use orloj_wire::protocol::{
    AnnounceRound, Cancel, Heartbeat, Leave, LogRequest, Register, Reports, Run, Saves,
};
use orloj_wire::rest::{AddMember, Drain, Submit, SubmitBatch, Transfer};
use orloj_wire::sign;
use orloj_wire::time::Time;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use callback::callback;

/// One target.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, also of its folder in `fuzz/corpus/`.
    pub name: &'static str,
    /// Panics on a finding.
    pub run: fn(&[u8]),
    /// Inputs to begin with.
    pub seeds: &'static [&'static [u8]],
}

/// Every target.
pub fn all() -> [Target; 7] {
    [
        Target { name: "path_query", run: path_query, seeds: PATHS },
        Target { name: "signature", run: signature, seeds: SIGNATURES },
        Target { name: "bodies", run: bodies, seeds: BODIES },
        Target { name: "protocol", run: protocol, seeds: PROTOCOL },
        Target { name: "names", run: names, seeds: NAMES },
        Target { name: "codec", run: codec, seeds: CODEC },
        Target { name: "callback", run: callback, seeds: callback::SEEDS },
    ]
}

const PATHS: &[&[u8]] = &[
    b"/openapi/v1/tasks",
    b"/openapi/v1/tasks/tsk_AAECAwQFBgcICQoLDA0ODw?after_version=3&wait_ms=1000",
    b"/openapi/v1/executors/rack.1/drain",
    b"/openapi/v1/cluster/members/4/remove?a=1",
];

/// The path and the query of a request, as they come.
pub fn path_query(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (path, query) = text.split_once('?').unwrap_or((&text, ""));
    for method in ["GET", "POST", "PUT"] {
        if let Ok(operation) = route::find(method, path) {
            // Nothing that a proxy could turn into another path is a route.
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
            assert!(path.bytes().all(plain) && !path.contains("//") && !path.ends_with('/'), "{path:?}");
            assert!(!path.split('/').any(|part| part == "." || part == ".."), "{path:?}");
            assert!(method != "PUT" && !operation.name().is_empty());
            assert!(operation.body_limit() > 0);
        }
    }
    if let Ok(parameters) = route::parameters(query) {
        let again: Vec<String> = parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(again.join("&"), query, "nothing is lost and nothing is read twice");
    }
}

const SIGNATURES: &[&[u8]] = &[
    b"x-access-key: ak_TESTAAAAAAAAAAAAAAAA\nx-timestamp: 1800000000\nx-nonce: 0123456789abcdef0123456789abcdef\n\
      x-signature: 74affeed182e5a63e5f85e190c142dd2bdc750aec398cd5532fb01986729a100\nidempotency-key: \"order-42\"",
    b"x-access-key: adk_A\nx-timestamp: 0000000000\nx-nonce: ----------------\nx-signature: 00",
];

/// Lines of `name: value`, as headers.
struct Lines<'a>(Vec<(&'a [u8], &'a [u8])>);

impl Headers for Lines<'_> {
    fn values(&self, name: &'static str) -> Vec<&[u8]> {
        self.0
            .iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| *value)
            .collect()
    }
}

/// The headers of a signature.
pub fn signature(data: &[u8]) {
    let line = |line| {
        let at = <[u8]>::iter(line).position(|byte| *byte == b':').unwrap_or(line.len());
        (&line[..at], line.get(at + 1..).unwrap_or_default().trim_ascii())
    };
    let headers = Lines(data.split(|byte| *byte == b'\n').map(line).collect());
    let Ok(credentials) = Credentials::from_headers(&headers) else { return };
    for name in [sign::ACCESS_KEY_HEADER, sign::TIMESTAMP_HEADER, sign::NONCE_HEADER, sign::SIGNATURE_HEADER]
    {
        assert_eq!(headers.values(name).len(), 1, "{name} stands there once");
    }
    assert!((0..10_000_000_000).contains(&credentials.timestamp_s()));
    let _ = (credentials.check_time(0), credentials.check_time(i64::MAX / 2));
    let parts = [&credentials.access_key, &credentials.timestamp, &credentials.nonce, &credentials.signature];
    assert!(parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_graphic())), "{credentials:?}");
    assert_eq!(credentials.nonce_hash(), credentials.nonce_hash());
    if let Some(key) = credentials.idempotency_text() {
        assert!((1..=128).contains(&key.len()) && !key.contains('"'), "{key:?}");
    }
}

/// What is read can be written, and reads as the same again.
fn survives<T: DeserializeOwned + Serialize + PartialEq + Debug>(data: &[u8]) -> Option<T> {
    let read: T = json::read_object(data).ok()?;
    let text = serde_json::to_vec(&read).expect("what was read can be written");
    let again: T = json::read_object(&text).unwrap_or_else(|fault| panic!("{fault:?}: {read:?}"));
    assert_eq!(again, read);
    Some(read)
}

const BODIES: &[&[u8]] = &[
    br#"{"handler":"shell","params":{"command":"echo hello","deep":[[[{"a":null}]]]},"delayMs":60000,"priority":5}"#,
    br#"{"executorId":"e","run_at":"2027-01-15T08:00:00.123456+02:00","expireAt":"2027-01-16T00:00:00Z","timeoutMs":1,
        "retry":{"maxRetries":2,"backoffMs":[10000,30000],"jitterPct":10},"labels":{"a":"b"},"strategy":{"pinned":"e1"},
        "dependsOn":[{"taskId":"tsk_AAECAwQFBgcICQoLDA0ODw","on":"completed"}],"shardTotal":3,"zone":"z"}"#,
    br#"{"tasks":[{"handler":"a"},{"handler":"b","params":1e300}]}"#,
    br#"{"on":false}"#,
    br#"{"internal":"10.0.0.4:7071","api":"http://10.0.0.4:7070"}"#,
];

/// The JSON bodies of the REST API.
pub fn bodies(data: &[u8]) {
    if let Some(submit) = survives::<Submit>(data) {
        for fault in submit.faults() {
            assert!(fault.pointer.starts_with('/') && !fault.message.is_empty(), "{fault:?}");
        }
    }
    survives::<SubmitBatch>(data);
    survives::<Drain>(data);
    survives::<Transfer>(data);
    survives::<AddMember>(data);
}

const PROTOCOL: &[&[u8]] = &[
    br#"{"executorId":"e1","incarnation":3,"address":"127.0.0.1:1","handlers":["echo"],"slots":2,"queue":2,"weight":100,
        "zone":"a","labels":{},"version":"1","holding":[{"taskId":"t","shardIndex":0,"attempt":1,"fence":7,"state":"running"}]}"#,
    br#"{"executorId":"e1","incarnation":3,"round":4,"holding":[],"freeSlots":1,"queued":0,"cpuPct":12.5,
        "handlers":{"echo":{"started":1,"failed":0,"meanMs":1.5,"p95Ms":2.25}}}"#,
    br#"{"executorId":"e1","reports":[{"taskId":"t","shardIndex":0,"attempt":1,"fence":7,"incarnation":3,
        "outcome":"succeeded","result":"{}","logTail":"eA==","startedAt":1800000000000,"endedAt":1800000000001}]}"#,
    br#"{"executorId":"e1","incarnation":3,"round":4,"attempts":[{"taskId":"t","shardIndex":0,"shardTotal":1,"attempt":1,
        "fence":7,"handler":"echo","params":{"n":1.5},"callerId":"c","dedupeKey":"t","timeoutMs":1000,"dueAt":1}]}"#,
    br#"{"executorId":"e1","taskId":"t","shardIndex":0,"attempt":1,"fence":7,"offset":0,"limit":100,"waitMs":0}"#,
];

/// The same for messages, which are read without the rule on objects.
fn message_survives<T: DeserializeOwned + Serialize + PartialEq + Debug>(data: &[u8]) {
    let Ok(read) = json::read::<T>(data) else { return };
    let text = serde_json::to_vec(&read).expect("what was read can be written");
    let again: T = json::read(&text).unwrap_or_else(|fault| panic!("{fault:?}: {read:?}"));
    assert_eq!(again, read);
}

/// The messages between replicas and executors.
pub fn protocol(data: &[u8]) {
    message_survives::<Register>(data);
    message_survives::<Heartbeat>(data);
    message_survives::<Reports>(data);
    message_survives::<Saves>(data);
    message_survives::<Leave>(data);
    message_survives::<Run>(data);
    message_survives::<Cancel>(data);
    message_survives::<AnnounceRound>(data);
    message_survives::<LogRequest>(data);
}

const NAMES: &[&[u8]] = &[
    b"orloj://blue/replica/127.0.0.1:7071",
    b"2027-01-15T08:00:00.123456789+02:00",
    b"cluster=blue&target=7&target-birth=b7&from=0&from-birth=",
    b"tsk_AAECAwQFBgcICQoLDA0ODw",
];

/// Short texts: instants, ids, certificates' names, who calls whom.
pub fn names(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(identity) = text.parse::<Identity>() {
        assert_eq!(identity.to_string(), text, "one name, one spelling");
    }
    if let Ok(time) = Time::parse(text) {
        assert_eq!(Time::parse(&time.to_string()), Ok(time));
    }
    if let Ok(envelope) = RpcEnvelope::from_query(text) {
        assert_eq!(RpcEnvelope::from_query(&envelope.query()), Ok(envelope));
    }
    if let Ok(id) = text.parse::<orloj_model::id::TaskId>() {
        assert_eq!(id.to_string(), text, "one task, one spelling");
    }
}

const CODEC: &[&[u8]] =
    &[&[0; 24], &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]];

/// A payload in a good frame: a fuzzer cannot guess a checksum.
fn framed(schema: Schema, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![b'O', b'J', 1, schema as u8, schema.version()];
    let length = u32::try_from(payload.len()).expect("inputs are small");
    frame.extend(length.to_le_bytes());
    frame.extend(payload);
    let sum = crc32fast::hash(&frame);
    frame.extend(sum.to_le_bytes());
    frame
}

fn decodes<T: DeserializeOwned + Serialize>(schema: Schema, data: &[u8]) {
    // As it comes, and in a frame that is good.
    let _ = codec::decode::<T>(schema, data);
    if let Ok(value) = codec::decode::<T>(schema, &framed(schema, data)) {
        let bytes = codec::encode(schema, &value).expect("what was read can be written");
        let again: T = codec::decode(schema, &bytes).expect("what was written can be read");
        assert_eq!(codec::encode(schema, &again).ok(), Some(bytes));
    }
}

/// What is on disk and goes between replicas.
pub fn codec(data: &[u8]) {
    decodes::<Batch>(Schema::Batch, data);
    decodes::<StoredEntry>(Schema::LogEntry, data);
    let request = framed(Schema::RpcRequest, data);
    let _ = message::read_request::<AskVote>(&request);
    let _ = message::read_request::<SendSnapshot>(&request);
    if let Ok(append) = message::read_request::<Append>(&request) {
        let _ = append.into_request();
    }
}
