//! The OpenAPI 3.1 document of the REST API, and the page that shows it to people.
//!
//! It is built from the code: schemas from the types of the bodies with their comments, errors from the table of
//! codes, and who may make a call, what it costs and how large its body may be from the table of routes. What is
//! written by hand is one entry for each call, in `tasks` and its neighbours: a summary, parameters, examples and the
//! refusals of its own. A test fails when a route has no entry, an entry no route, or an example is not what the
//! code reads or says.

mod access;
mod calendars;
mod call;
mod cluster;
mod jobs;
mod open;
mod page;
mod schema;
mod tasks;

use std::sync::LazyLock;

use bytes::Bytes;
use orloj_wire::sign;
use serde_json::{Map, Value, json};

use call::{Call, examples, headers};
use schema::Schemas;

/// Media type of the document.
pub(crate) const MEDIA_TYPE: &str = "application/json";
/// Media type of the page.
pub(crate) const PAGE_TYPE: &str = "text/html; charset=utf-8";
/// What the page may load: nothing but its own style.
pub(crate) const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The document as it is served.
pub(crate) fn json_text() -> Bytes {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| pretty(&build()).into());
    TEXT.clone()
}

/// The page as it is served.
pub(crate) fn page_text() -> Bytes {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| page::render(&build()).into());
    TEXT.clone()
}

/// Every call, in the order in which they are shown.
fn calls() -> Vec<Call> {
    [tasks::calls(), jobs::calls(), calendars::calls(), access::calls(), cluster::calls()]
        .into_iter()
        .flatten()
        .collect()
}

/// Method and path of every call that must be signed, with something in the place of each parameter.
#[cfg(test)]
pub(crate) fn samples() -> Vec<(&'static str, String)> {
    calls().iter().map(|call| (call.method, call.sample_path())).collect()
}

/// What the groups of calls are about, in their order.
const TAGS: [(&str, &str); 7] = [
    ("tasks", "Submitting tasks, and what became of them."),
    ("jobs", "Stored definitions that create tasks when their triggers fire."),
    ("calendars", "Days on which jobs do not fire."),
    ("callers", "Who may call, with which keys; what was changed and who was refused."),
    ("executors", "The processes that run attempts."),
    ("cluster", "The replicas."),
    ("open", "What anybody may ask, without a signature."),
];

fn pretty(document: &Value) -> String {
    // A tree of strings and numbers always serialises.
    let mut text = serde_json::to_string_pretty(document).expect("a document serialises");
    text.push('\n');
    text
}

fn build() -> Value {
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    for call in calls() {
        let (path, method, operation) = call.document(&mut schemas);
        add(&mut paths, path, &method, operation);
    }
    for (path, operation) in open::calls() {
        add(&mut paths, path, "get", operation);
    }
    let tags: Vec<Value> =
        TAGS.iter().map(|(name, text)| json!({ "name": name, "description": text })).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Orloj",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/", "description": "any replica: each answers every call" }],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas.finish(),
            "examples": examples(),
            "headers": headers(),
            "securitySchemes": security_schemes(),
        },
    })
}

fn add(paths: &mut Map<String, Value>, path: &str, method: &str, operation: Value) {
    let item = paths.entry(path).or_insert_with(|| json!({}));
    if let Some(item) = item.as_object_mut() {
        item.insert(method.to_owned(), operation);
    }
}

/// Four headers that are needed together.
fn security_schemes() -> Value {
    let scheme = |name: &str, text: &str| json!({ "type": "apiKey", "in": "header", "name": name, "description": text });
    json!({
        "accessKey": scheme(sign::ACCESS_KEY_HEADER, "The public access key: `ak_…` of a caller, `adk_…` of an administrator."),
        "timestamp": scheme(sign::TIMESTAMP_HEADER, "Unix seconds, exactly ten digits, at most 300 s from the server's clock."),
        "nonce": scheme(sign::NONCE_HEADER, "16-64 of `[A-Za-z0-9_-]`, never used twice; 128 random bits are advised."),
        "signature": scheme(sign::SIGNATURE_HEADER, "64 lower-case hex digits: HMAC-SHA256 of the string that is signed, keyed with the UTF-8 bytes of the whole displayed secret."),
    })
}

const DESCRIPTION: &str = "\
Runs tasks at the right time, on the right machine, and tells the caller what became of each of them.

Bodies are JSON in camelCase. Instants are RFC 3339 in UTC with milliseconds; durations are whole milliseconds with \
the unit in the name. Answers may grow new fields, so ignore what you do not know; requests with unknown fields are \
refused. A path takes no method but those shown here: others are answered 405 with `Allow`.

Every request is signed with four headers. The string that is signed has exactly ten lines, joined by one LF, \
without a final one: `ORLOJ1-HMAC-SHA256` (an administrator: `ORLOJ1-ADMIN-HMAC-SHA256`); the audience (`default` \
unless the operator has set another); the values of `X-Access-Key`, `X-Timestamp` and `X-Nonce`; the method; the path \
as sent; the query as sent, else empty; the value of `Idempotency-Key` as sent, else empty; the SHA-256 of the body \
in lower-case hex. Every try is signed anew, with a fresh timestamp and nonce, and keeps its `Idempotency-Key`.

Errors are problem documents (RFC 9457) with a stable `code`. `commit_unknown`, a broken connection and a missing \
answer all mean that a change may have happened: send the request again, signed anew, with the same \
`Idempotency-Key`.";

#[cfg(test)]
mod tests;
