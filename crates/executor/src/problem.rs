//! Errors on the executor's own listener: `application/problem+json`.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use orloj_wire::problem::Code;
use orloj_wire::time::Time;
use serde::Serialize;

/// One problem. The code is stable; the detail is for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    #[serde(rename = "type")]
    kind: String,
    title: &'static str,
    status: u16,
    detail: String,
    code: &'static str,
    /// With `timestamp_out_of_window`: this executor's clock.
    #[serde(rename = "serverTime", skip_serializing_if = "Option::is_none")]
    server_time: Option<Time>,
}

impl Problem {
    pub(crate) fn new(status: u16, code: &'static str, detail: impl Into<String>) -> Self {
        let title = StatusCode::from_u16(status).ok().and_then(|s| s.canonical_reason()).unwrap_or("Error");
        Problem {
            kind: format!("urn:orloj:problem:{code}"),
            title,
            status,
            detail: detail.into(),
            code,
            server_time: None,
        }
    }

    pub(crate) fn unauthorized(code: &'static str, detail: impl Into<String>) -> Self {
        Problem::new(401, code, detail)
    }

    /// Tells the clock to a sender whose own is too far from it.
    pub(crate) fn out_of_time(clock_ms: i64) -> Self {
        let detail = "the timestamp is too far from the executor's clock";
        let problem = Problem::unauthorized(Code::TimestampOutOfWindow.as_str(), detail);
        Problem { server_time: Some(Time(clock_ms)), ..problem }
    }

    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Problem::new(400, "invalid_request", detail)
    }

    pub(crate) fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Problem::new(409, code, detail)
    }

    pub(crate) fn stopping() -> Self {
        Problem::new(503, "stopping", "the executor is stopping")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // A struct of strings and a number always has a JSON form.
        let body = serde_json::to_vec(&self).expect("a problem has a JSON form");
        (status, [(header::CONTENT_TYPE, "application/problem+json")], body).into_response()
    }
}
