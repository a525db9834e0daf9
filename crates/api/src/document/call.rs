//! One entry of the document: what is written by hand of a call, and what follows from its route.

use std::collections::BTreeMap;

use orloj_model::access::Scope;
use orloj_wire::problem::{Code, Problem};
use orloj_wire::rest::{APPLIED_INDEX_HEADER, REQUEST_ID_HEADER};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::schema::{self, Make, Schemas};
use crate::limit::Cost;
use crate::route::{self, Access, Operation};

/// Examples of ids in paths, by the name of the parameter.
const IDS: [(&str, &str, &str); 8] = [
    ("taskId", "tsk_AAECAwQFBgcICQoLDA0ODw", "The task."),
    ("jobId", "nightly", "The job."),
    ("calendarName", "holidays.de", "The calendar."),
    ("callerId", "billing", "The caller."),
    ("accessKey", "ak_R7D2V6QMX4T1", "The access key."),
    ("secretId", "whs_5Q2D", "The webhook secret."),
    ("executorId", "executor-1", "The executor."),
    ("memberId", "4", "The replica."),
];

/// Whether an example is what the code reads and writes: read, and written again.
type RoundTrip = fn(&Value) -> Result<Value, String>;

/// A body with an example.
pub(super) struct Body {
    make: Make,
    pub(super) example: Value,
    required: bool,
    #[cfg_attr(not(test), allow(dead_code, reason = "only a test reads it"))]
    pub(super) round_trip: RoundTrip,
}

/// An answer that is no refusal.
pub(super) struct Good {
    pub(super) status: u16,
    text: &'static str,
    pub(super) body: Option<Body>,
}

/// The entry of one call.
pub(super) struct Call {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    tag: &'static str,
    summary: &'static str,
    text: &'static str,
    parameters: Vec<Value>,
    pub(super) takes: Option<Body>,
    pub(super) answers: Vec<Good>,
    refusals: Vec<Code>,
}

fn body<T: JsonSchema + DeserializeOwned + Serialize>(example: Value, required: bool) -> Body {
    let round_trip = |example: &Value| {
        // Through text, as a request comes: numbers and strings are read as they are there.
        let text = example.to_string();
        let read: T = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        serde_json::to_value(&read).map_err(|error| error.to_string())
    };
    Body { make: schema::of::<T>, example, required, round_trip }
}

impl Call {
    /// The entry of the call with this method and path, in which parameters stand in braces.
    pub(super) fn new(
        tag: &'static str,
        method: &'static str,
        path: &'static str,
        summary: &'static str,
    ) -> Call {
        let (text, parameters, refusals) = ("", Vec::new(), Vec::new());
        Call { method, path, tag, summary, text, parameters, takes: None, answers: Vec::new(), refusals }
    }

    /// More about it.
    pub(super) fn text(self, text: &'static str) -> Call {
        Call { text, ..self }
    }

    /// A parameter of its query.
    pub(super) fn query(mut self, name: &str, schema: Value, text: &str) -> Call {
        self.parameters.push(json!({ "name": name, "in": "query", "schema": schema, "description": text }));
        self
    }

    /// A header that it reads.
    pub(super) fn header(mut self, name: &str, schema: Value, text: &str) -> Call {
        self.parameters.push(json!({ "name": name, "in": "header", "schema": schema, "description": text }));
        self
    }

    /// That it answers 304 to who has what it would show.
    pub(super) fn if_none_match(self) -> Call {
        self.header(
            "If-None-Match",
            json!({ "type": "string" }),
            "An `ETag` that is known, or several by comma.",
        )
    }

    /// Its body.
    pub(super) fn takes<T: JsonSchema + DeserializeOwned + Serialize>(mut self, example: Value) -> Call {
        self.takes = Some(body::<T>(example, true));
        self
    }

    /// Its body, which may be absent.
    pub(super) fn may_take<T: JsonSchema + DeserializeOwned + Serialize>(mut self, example: Value) -> Call {
        self.takes = Some(body::<T>(example, false));
        self
    }

    /// What it answers when all is well.
    pub(super) fn answers<T: JsonSchema + DeserializeOwned + Serialize>(
        mut self,
        status: u16,
        text: &'static str,
        example: Value,
    ) -> Call {
        self.answers.push(Good { status, text, body: Some(body::<T>(example, true)) });
        self
    }

    /// The same without a body.
    pub(super) fn answers_empty(mut self, status: u16, text: &'static str) -> Call {
        self.answers.push(Good { status, text, body: None });
        self
    }

    /// Refusals beside those that every such call has.
    pub(super) fn refuses(mut self, codes: &[Code]) -> Call {
        self.refusals.extend(codes);
        self
    }

    /// A path that could be called.
    pub(super) fn sample_path(&self) -> String {
        IDS.iter().fold(self.path.to_owned(), |path, (name, example, _)| {
            path.replace(&format!("{{{name}}}"), example)
        })
    }

    /// The route of the call.
    pub(super) fn operation(&self) -> Operation {
        let found = route::find(self.method, &self.sample_path());
        found.unwrap_or_else(|failure| panic!("{} {}: {}", self.method, self.path, failure.detail))
    }

    /// Its path, its method in lower case, and its operation object.
    pub(super) fn document(self, schemas: &mut Schemas) -> (&'static str, String, Value) {
        let operation = self.operation();
        let mut object = json!({
            "operationId": operation.name(),
            "tags": [self.tag],
            "summary": self.summary,
            "description": self.description(&operation),
            "security": [{ "accessKey": [], "timestamp": [], "nonce": [], "signature": [] }],
            "x-orloj-access": access(operation.access()),
            "x-orloj-scope": operation.scope().map(Scope::name),
            "responses": self.responses(&operation, schemas),
        });
        let mut parameters = self.path_parameters();
        parameters.extend(self.parameters);
        if !parameters.is_empty() {
            object["parameters"] = Value::Array(parameters);
        }
        if let Some(Body { make, example, required, .. }) = self.takes {
            let schema = schemas.request(make);
            let content = json!({ "application/json": { "schema": schema, "example": example } });
            object["requestBody"] = json!({ "required": required, "content": content });
        }
        (self.path, self.method.to_lowercase(), object)
    }

    fn description(&self, operation: &Operation) -> String {
        let mut text = self.text.to_owned();
        let mut add = |sentence: &str| {
            text.push_str(if text.is_empty() { "" } else { "\n\n" });
            text.push_str(sentence);
        };
        add(match operation.access() {
            Access::Caller => "For callers: with a caller's key.",
            Access::Admin => "For administrators: with an administrator's key.",
            Access::Both => "For callers and administrators.",
        });
        match operation.scope() {
            Some(scope) => add(&format!("Needs the scope `{}`.", scope.name())),
            None => add("Needs no scope."),
        }
        if matches!(operation.cost(), Cost::Submit) {
            add("Takes a token from both buckets of the access key, `general` and `submit`.");
        }
        if self.takes.is_some() {
            add(&format!("The body has at most {} KiB.", operation.body_limit() / 1024));
        }
        text
    }

    fn path_parameters(&self) -> Vec<Value> {
        let used = IDS.iter().filter(|(name, _, _)| self.path.contains(&format!("{{{name}}}")));
        used.map(|(name, example, text)| {
            // Not of dots alone: a proxy could take that for another path.
            let schema =
                json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*$" });
            json!({ "name": name, "in": "path", "required": true, "schema": schema,
                    "description": text, "example": example })
        })
        .collect()
    }

    /// Every answer, by its status.
    fn responses(&self, operation: &Operation, schemas: &mut Schemas) -> Value {
        let mut responses: Map<String, Value> = Map::new();
        for Good { status, text, body } in &self.answers {
            let mut response = json!({ "description": text, "headers": references(&GOOD_HEADERS) });
            if let Some(Body { make, example, .. }) = body {
                let schema = schemas.answer(*make);
                response["content"] = json!({ "application/json": { "schema": schema, "example": example } });
            }
            responses.insert(status.to_string(), response);
        }
        let mut codes = common(operation, self.takes.is_some());
        codes.extend(&self.refusals);
        let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
        for code in codes {
            by_status.entry(code.status()).or_default().push(code);
        }
        for (status, codes) in by_status {
            responses.insert(status.to_string(), refusal(status, &codes, schemas));
        }
        Value::Object(responses)
    }
}

fn access(access: Access) -> &'static str {
    match access {
        Access::Caller => "caller",
        Access::Admin => "administrator",
        Access::Both => "caller or administrator",
    }
}

/// The refusals that a call has for what it is.
fn common(operation: &Operation, takes_body: bool) -> Vec<Code> {
    let mut codes = vec![
        Code::InvalidRequest,
        Code::InvalidPath,
        Code::InvalidQuery,
        Code::MissingCredentials,
        Code::MalformedCredentials,
        Code::InvalidSignature,
        Code::TimestampOutOfWindow,
        Code::NonceReplayed,
        Code::AccessKeyDisabled,
        Code::ScopeDenied,
        Code::BodyTimeout,
        Code::PayloadTooLarge,
        Code::UnsupportedMediaType,
        Code::RateLimited,
        Code::NonceStoreFull,
        Code::Internal,
        Code::NotReady,
        Code::Overloaded,
        Code::NoLeader,
    ];
    if operation.changes() {
        codes.extend([Code::DiskLow, Code::CommitUnknown]);
    }
    if takes_body {
        codes.push(Code::ValidationFailed);
    }
    codes
}

fn refusal(status: u16, codes: &[Code], schemas: &mut Schemas) -> Value {
    let example = |code: &Code| {
        let name = code.as_str().to_owned();
        let reference = json!({ "$ref": format!("#/components/examples/{name}") });
        (name, reference)
    };
    let examples: Map<String, Value> = codes.iter().map(example).collect();
    let names: Vec<String> = codes.iter().map(|code| format!("`{}`", code.as_str())).collect();
    let mut names_of_headers = vec![REQUEST_ID_HEADER];
    match status {
        401 => names_of_headers.push("www-authenticate"),
        429 | 503 => names_of_headers.push("retry-after"),
        _ => {}
    }
    json!({
        "description": names.join(", "),
        "headers": references(&names_of_headers),
        "content": { "application/problem+json": { "schema": schemas.problem(), "examples": examples } },
    })
}

/// An example of each error, by its code.
pub(super) fn examples() -> Value {
    let example = |code: &Code| {
        let mut problem = Problem::new(*code, "What happened this time, with the value at fault.");
        problem.instance = "urn:orloj:request:0123456789abcdef0123456789abcdef".to_owned();
        (code.as_str().to_owned(), json!({ "summary": code.title(), "value": problem }))
    };
    Value::Object(Code::ALL.iter().map(example).collect())
}

/// Headers of an answer that is no refusal.
const GOOD_HEADERS: [&str; 4] = [REQUEST_ID_HEADER, APPLIED_INDEX_HEADER, "ratelimit-policy", "ratelimit"];

fn references(names: &[&str]) -> Value {
    let one = |name: &&str| ((*name).to_owned(), json!({ "$ref": format!("#/components/headers/{name}") }));
    Value::Object(names.iter().map(one).collect())
}

/// The headers that answers carry.
pub(super) fn headers() -> Value {
    let header = |text: &str| json!({ "schema": { "type": "string" }, "description": text });
    json!({
        REQUEST_ID_HEADER: header("Names the request in the server's log."),
        APPLIED_INDEX_HEADER: header("The log index up to which the replica had applied, where it read the tables."),
        "ratelimit-policy": header("The buckets of the access key: `\"general\";q=20;w=1, \"submit\";q=2;w=1`."),
        "ratelimit": header("What is left in them, and the seconds until the next token."),
        "retry-after": header("Seconds until another try may pass."),
        "www-authenticate": header("`ORLOJ1-HMAC-SHA256`."),
    })
}
