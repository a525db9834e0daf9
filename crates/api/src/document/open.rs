//! What anybody may ask, without a signature.

use serde_json::{Value, json};

use super::{MEDIA_TYPE, PAGE_TYPE};
use crate::{health, metrics};

/// The paths with their operations; all are `GET`.
pub(super) fn calls() -> Vec<(&'static str, Value)> {
    let ready = json!({
        "type": "object", "required": ["ready"],
        "properties": {
            "ready": { "type": "boolean" },
            "code": { "type": "string", "enum": health::REASONS.map(|(code, _)| code) },
            "reason": { "type": "string" },
        },
    });
    let (code, reason) = health::NO_LEADER;
    let mut readyz = one("readyz", "Whether this replica can serve", "application/json", ready.clone());
    readyz["responses"]["503"] = json!({
        "description": "It cannot, and why.",
        "content": { "application/json": {
            "schema": ready, "example": { "ready": false, "code": code, "reason": reason },
        } },
    });
    readyz["responses"]["200"]["content"]["application/json"]["example"] = json!({ "ready": true });
    let text = || json!({ "type": "string" });
    vec![
        ("/healthz", one("healthz", "Whether the process runs", "text/plain; charset=utf-8", text())),
        ("/readyz", readyz),
        ("/metrics", one("metrics", "Figures for Prometheus", metrics::MEDIA_TYPE, text())),
        ("/openapi.json", one("openapi", "This document", MEDIA_TYPE, json!({ "type": "object" }))),
        ("/docs", one("docs", "This document for people", PAGE_TYPE, text())),
    ]
}

fn one(id: &str, summary: &str, media_type: &str, schema: Value) -> Value {
    json!({
        "operationId": id,
        "tags": ["open"],
        "summary": summary,
        "security": [],
        "responses": { "200": {
            "description": "It is so.",
            "content": { media_type: { "schema": schema } },
        } },
    })
}
