//! The public listener, and that of administrators where there is one: the OpenAPI, health, metrics and the probe.
//!
//! The order of checks is fixed: route, failed tries of the address, form of the credentials, length, body,
//! signature and scope; what follows, the time among it, is up to the leader: a clock of each replica's own
//! would let a request pass one of them and not the other when one is stepped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::State;
use axum::http::{Request as HttpRequest, Version};
use axum::response::Response;
use axum::routing::{any, get};
use bytes::Bytes;
use orloj_model::access::Denial;
use orloj_net::Remote;
use orloj_wire::problem::Code;
use orloj_wire::sign;
use prometheus_client::registry::Registry;

use crate::auth::Credentials;
use crate::bodies::{Asks, Bodies, Place, Room};
use crate::document;
use crate::health;
use crate::http;
use crate::keyring::is_access_key;
use crate::outcome::{Answer, DENIED_HEADER, Failure, finish, is_denial};
use crate::request::Request;
use crate::route::{self, Access, Operation};
use crate::service::Api;
use crate::tries::Tries;

/// Whose calls a listener takes, and so whose keys, so that a rule of the network can part administrators from callers.
/// What a key may do is judged all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Everybody's.
    All,
    /// Those of callers, and what everybody may ask, signed by callers.
    Callers,
    /// Those of administrators, and what everybody may ask, signed by administrators.
    Administrators,
}

impl Takes {
    /// Whose keys it takes.
    fn keys_of(self) -> Access {
        match self {
            Takes::All => Access::Both,
            Takes::Callers => Access::Caller,
            Takes::Administrators => Access::Admin,
        }
    }

    fn takes(self, operation: Operation) -> Result<Operation, Failure> {
        let (others, theirs) = match (self, operation.access()) {
            (Takes::Callers, Access::Admin) => ("administrators", "that of administrators"),
            (Takes::Administrators, Access::Caller) => ("callers", "the public one"),
            _ => return Ok(operation),
        };
        let detail = format!("this is a call of {others}, and another listener takes it: {theirs}");
        Err(Failure::new(Code::NotFound, detail))
    }
}

pub(crate) struct Public {
    pub(crate) api: Api,
    takes: Takes,
    pub(crate) registry: Arc<Registry>,
    bodies: Bodies,
    tries: Mutex<Tries>,
}

/// The router of the public listener, or of that of administrators.
pub fn router(api: Api, registry: Arc<Registry>, takes: Takes) -> Router {
    let bodies = Bodies::new(Room::CALLS);
    let public = Arc::new(Public { api, takes, registry, bodies, tries: Mutex::default() });
    Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/debug/probe", get(health::probe))
        .route("/openapi.json", get(openapi_document))
        .route("/docs", get(docs))
        .fallback(any(openapi))
        .method_not_allowed_fallback(only_get)
        .with_state(public)
}

/// `GET /openapi.json`
async fn openapi_document() -> Response {
    let answer = plain(200, document::MEDIA_TYPE, document::json_text());
    http::response(finish(answer, &http::new_request_id()))
}

/// `GET /docs`
async fn docs() -> Response {
    let answer = plain(200, document::PAGE_TYPE, document::page_text())
        .with("content-security-policy", document::PAGE_POLICY)
        .with("x-content-type-options", "nosniff");
    http::response(finish(answer, &http::new_request_id()))
}

async fn only_get() -> Response {
    let id = http::new_request_id();
    http::response(finish(Failure::method("GET").answer(&id), &id))
}

async fn openapi(State(public): State<Arc<Public>>, request: HttpRequest<Body>) -> Response {
    let clock = &public.api.shared().clock;
    let began = clock.monotonic();
    let request_id = http::new_request_id();
    let found = route::find(request.method().as_str(), request.uri().path());
    let name = found.as_ref().map_or("none", Operation::name);
    let is_administrators =
        found.as_ref().is_ok_and(|operation| operation.changes() && operation.access() == Access::Admin);
    let access_key = claimed_key(&request);
    let address = Remote::of(request.extensions());
    let (answer, refused) = match found.map(|operation| public.takes.takes(operation)) {
        Ok(Ok(operation)) => {
            let mut answer = public.answer(request, &operation, &request_id).await;
            let refused = refusals(&mut answer);
            (answer, refused)
        }
        // Whoever looks for calls of administrators where there are none is to be seen, and nobody was asked yet.
        Ok(Err(failure)) => (failure.answer(&request_id), vec![(Code::NotFound, 1)]),
        Err(failure) => (failure.answer(&request_id), Vec::new()),
    };
    for (code, count) in refused {
        public.api.shared().denials.add(Denial {
            access_key: access_key.clone().unwrap_or_default(),
            action: name.to_owned(),
            code: code.as_str().to_owned(),
            address: address.to_string(),
            request_id: request_id.clone(),
            count,
        });
    }
    if is_administrators && answer.status < 300 {
        // The record in the audit, which has the same id, says nothing of where it came from.
        tracing::info!(
            operation = name,
            ?access_key,
            %address,
            %request_id,
            "an administrator has changed something"
        );
    }
    let took = clock.monotonic().saturating_sub(began);
    public.api.shared().metrics.answered(name, answer.status, took);
    tracing::debug!(operation = name, status = answer.status, %request_id, ?took, "request answered");
    http::response(finish(answer, &request_id))
}

/// The access key that a request claims, if it is of a valid form.
fn claimed_key(request: &HttpRequest<Body>) -> Option<String> {
    let text = request.headers().get(sign::ACCESS_KEY_HEADER)?.to_str().ok()?;
    is_access_key(text).then(|| text.to_owned())
}

/// What was refused and is to be recorded, with how often: the call itself, or parts of it.
fn refusals(answer: &mut Answer) -> Vec<(Code, u32)> {
    if matches!(answer.status, 401 | 403 | 422) {
        return answer.code().filter(|code| is_denial(*code)).map(|code| (code, 1)).into_iter().collect();
    }
    let parts = answer.take_header(DENIED_HEADER).unwrap_or_default();
    let part = |part: &str| {
        let (code, count) = part.split_once('=')?;
        Some((Code::from_text(code)?, count.parse().ok()?))
    };
    parts.split(',').filter_map(part).collect()
}

impl Public {
    /// Every check that needs no leader, then the answer. A failed check of credentials, and a request that its key may
    /// not make, counts against the address that it came from and the access key that it claimed.
    async fn answer(&self, request: HttpRequest<Body>, operation: &Operation, request_id: &str) -> Answer {
        let shared = self.api.shared();
        let address = Remote::of(request.extensions());
        let now = shared.clock.monotonic();
        let access_key = claimed_key(&request).unwrap_or_default();
        if !self.tries().may_try(address, &access_key, now) {
            let detail = "too many requests with bad credentials from this address";
            let mut failure = Failure::new(Code::RateLimited, detail);
            failure.violated = vec!["failed-credentials"];
            failure.retry_after_s = Some(1);
            return failure.answer(request_id);
        }
        let answer = match self.take_in(request, operation, request_id).await {
            Ok((request, place)) => match shared.check(&request).await {
                Ok(checked) => {
                    drop(place);
                    return shared.answer(&checked, &request).await;
                }
                // As long as the leader has not said who asks, the body keeps its place.
                Err(refused) => shared.answer_doubtful(&request, refused).await,
            },
            Err(failure) => failure.answer(request_id),
        };
        if matches!(answer.status, 401 | 403) {
            self.tries().failed(address, &access_key, now);
        }
        if answer.status == 401 {
            shared.metrics.refused(answer.code().map_or("", Code::as_str));
        }
        answer
    }

    fn tries(&self) -> MutexGuard<'_, Tries> {
        // Nothing that holds this lock can panic half-way through a change.
        self.tries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A body of a request that is not checked yet, with its place. Whoever sends slowly holds a place (a large batch
    /// holds several), so those without a body need none, and nobody waits for one longer than a body may take to
    /// arrive.
    async fn read_body(&self, asks: Asks, body: Body) -> Result<(Bytes, Place), Failure> {
        let place = self.bodies.take(asks, http::BODY_TIMEOUT).await.ok_or_else(|| {
            Failure::new(
                Code::Overloaded,
                "too many request bodies are being read, or too many from this address or on this connection",
            )
        })?;
        Ok((http::read_body(body, asks.length, http::body_timeout(asks.length)).await?, place))
    }

    /// The form of a request and its body, with the place that the body has.
    async fn take_in(
        &self,
        request: HttpRequest<Body>,
        operation: &Operation,
        request_id: &str,
    ) -> Result<(Request, Option<Place>), Failure> {
        let (head, body) = request.into_parts();
        let body_limit = operation.body_limit();
        let credentials = Credentials::from_headers(&head.headers)?;
        if credentials.idempotency_key.is_some() && !operation.takes_idempotency_key() {
            // Passing it over would let somebody repeat what it was meant to make single.
            let detail =
                "this call takes no Idempotency-Key: it would not keep a repeated call from having an effect";
            return Err(Failure::new(Code::InvalidRequest, detail));
        }
        let query = head.uri.query().unwrap_or_default();
        route::parameters(query)?;
        http::check_length(&head.headers, body_limit)?;
        let (body, place) = match body.is_end_stream() {
            true => (Bytes::new(), None),
            false => {
                let declared = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
                let asks = Asks {
                    address: Remote::of(&head.extensions),
                    connection: Remote::connection(&head.extensions),
                    is_multiplexed: head.version == Version::HTTP_2,
                    length: declared.map_or(body_limit, |length| length.min(body_limit)),
                };
                let (body, place) = self.read_body(asks, body).await?;
                (body, Some(place))
            }
        };
        http::check_type(&head.headers, &body)?;
        if !body.is_empty() && head.method == "GET" {
            return Err(Failure::new(Code::InvalidRequest, "a GET has no body"));
        }
        if head.headers.contains_key("if-match") {
            // It is not signed, so nothing may depend on it; passing it over would lose the guard that was meant.
            let detail = "If-Match is not signed: name the version with the parameter version";
            return Err(Failure::new(Code::InvalidRequest, detail));
        }
        let request = Request {
            method: head.method.as_str().to_owned(),
            path: head.uri.path().to_owned(),
            query: query.to_owned(),
            credentials,
            if_none_match: http::list(&head.headers, "if-none-match"),
            request_id: request_id.to_owned(),
            keys_of: self.takes.keys_of(),
            body,
        };
        Ok((request, place))
    }
}

/// An answer that is no JSON.
pub(crate) fn plain(status: u16, media_type: &str, body: impl Into<Bytes>) -> Answer {
    Answer { status, headers: vec![("content-type".to_owned(), media_type.to_owned())], body: body.into() }
}
