//! Handler `http`: sends one request and judges it by its status.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use orloj_wire::address::{Cidr, Reach};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Method, StatusCode, Url, redirect};
use serde::Deserialize;
use serde_json::{Value, json};

use super::parse;
use crate::error::OptionsError;
use crate::handler::{AttemptContext, Handler, HandlerError, HandlerOutput};
use crate::options::HttpOptions;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of an answer is kept in the result, in bytes.
const BODY_LIMIT: usize = 8 << 10;
/// Longest URL, in bytes.
const URL_LIMIT: usize = 2_048;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Params {
    #[serde(default = "get")]
    method: String,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Text is sent as it is; any other JSON as JSON.
    #[serde(default)]
    body: Option<Value>,
    /// The statuses that count as success. Default: 200-299.
    #[serde(default)]
    expected_status: Option<Statuses>,
    #[serde(default)]
    timeout_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Statuses {
    One(u16),
    Any(Vec<u16>),
}

impl Statuses {
    fn hold(&self, status: u16) -> bool {
        match self {
            Statuses::One(one) => *one == status,
            Statuses::Any(any) => any.contains(&status),
        }
    }
}

fn get() -> String {
    "GET".to_owned()
}

/// Sends requests that reach only what may be reached: the rule is applied to literal addresses and to
/// every address that a name resolves to, at the moment of the connection; no redirects, no proxy.
pub(super) struct Http {
    client: reqwest::Client,
    reach: Reach,
    longest: Duration,
}

impl Http {
    pub(super) fn new(options: &HttpOptions) -> Result<Self, OptionsError> {
        let mut cidrs = Vec::new();
        for text in &options.allow_cidrs {
            let field = "handlers.http.allow-cidrs";
            cidrs.push(Cidr::parse(text).ok_or_else(|| {
                OptionsError::new(field, format!("`{text}` is not an address range like 10.0.0.0/8"))
            })?);
        }
        let reach = Reach { cidrs, hosts: options.allow_hosts.clone() };
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_max_idle_per_host(0)
            .user_agent(concat!("orloj/", env!("CARGO_PKG_VERSION")))
            .dns_resolver(Arc::new(Guarded { reach: reach.clone() }))
            .build()
            .map_err(|cause| OptionsError::new("handlers.http", cause.to_string()))?;
        Ok(Http { client, reach, longest: Duration::from_millis(options.timeout_ms) })
    }

    fn request(&self, params: &Params) -> Result<reqwest::RequestBuilder, HandlerError> {
        let url = check_url(&params.url, &self.reach)?;
        let method = Method::from_bytes(params.method.as_bytes())
            .map_err(|_| HandlerError::fatal(format!("params: `{}` is not a method", params.method)))?;
        let wanted = params.timeout_ms.map_or(self.longest, Duration::from_millis);
        let mut headers = HeaderMap::new();
        for (name, value) in &params.headers {
            let header = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
            let (name, value) = header
                .ok_or_else(|| HandlerError::fatal(format!("params: the header `{name}` is malformed")))?;
            headers.insert(name, value);
        }
        let request = self.client.request(method, url).timeout(wanted.min(self.longest));
        let request = match &params.body {
            None | Some(Value::Null) => request,
            Some(Value::String(text)) => request.body(text.clone()),
            Some(json) => request.json(json),
        };
        Ok(request.headers(headers))
    }
}

impl Handler for Http {
    async fn run(&self, context: AttemptContext) -> Result<HandlerOutput, HandlerError> {
        let params: Params = parse(context.params())?;
        let request = self.request(&params)?;
        let exchange = async {
            let response = request.send().await.map_err(|error| refuse(&error))?;
            let reached = response.remote_addr().map(|address| address.ip());
            let host = response.url().host_str().unwrap_or_default().to_owned();
            if !reached.is_some_and(|address| self.reach.host(&host) || self.reach.address(address)) {
                return Err(HandlerError::fatal("the connection went to an address that is not allowed"));
            }
            judge(&context, &params, response).await
        };
        tokio::select! {
            answer = exchange => answer,
            () = context.cancelled() => Err(HandlerError::retryable("cancelled")),
        }
    }
}

fn check_url(text: &str, reach: &Reach) -> Result<Url, HandlerError> {
    let bad = |why: &str| HandlerError::fatal(format!("params: the url {why}"));
    let plain = text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'\\' | b'#'));
    if text.len() > URL_LIMIT || !plain {
        return Err(bad("must be at most 2048 printable ASCII characters without space, `\\` and `#`"));
    }
    let url = Url::parse(text).map_err(|cause| bad(&format!("is malformed: {cause}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad("must begin with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("must not carry a user or a password"));
    }
    let host = url.host_str().unwrap_or_default();
    // A literal never reaches the resolver. The parser has normalised every odd spelling of it.
    let literal: Option<IpAddr> = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
    match literal {
        Some(address) if !reach.host(host) && !reach.address(address) => {
            Err(bad(&format!("leads to {address}, which is not a public address")))
        }
        _ => Ok(url),
    }
}

fn refuse(error: &reqwest::Error) -> HandlerError {
    let mut text = error.to_string();
    let mut denied = false;
    let mut cause = std::error::Error::source(error);
    while let Some(link) = cause {
        denied |= link.is::<Denied>();
        text = format!("{text}: {link}");
        cause = link.source();
    }
    if denied || error.is_builder() { HandlerError::fatal(text) } else { HandlerError::retryable(text) }
}

async fn judge(
    context: &AttemptContext,
    params: &Params,
    mut response: reqwest::Response,
) -> Result<HandlerOutput, HandlerError> {
    let status = response.status();
    context.log(&format!("{} {} -> {}", params.method, params.url, status.as_u16()));
    let retry_after = response
        .headers()
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .map(Duration::from_secs);
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| refuse(&error))? {
        let room = BODY_LIMIT - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if body.len() >= BODY_LIMIT {
            break;
        }
    }
    let text = String::from_utf8_lossy(&body);
    let good = match &params.expected_status {
        Some(expected) => expected.hold(status.as_u16()),
        None => status.is_success(),
    };
    if good {
        return Ok(json!({ "status": status.as_u16(), "body": text }).into());
    }
    context.log(&text);
    let message = format!("the answer has status {}", status.as_u16());
    let passing = status.is_server_error()
        || matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY
        );
    match (passing, retry_after) {
        (false, _) => Err(HandlerError::fatal(message)),
        (true, None) => Err(HandlerError::retryable(message)),
        (true, Some(delay)) => Err(HandlerError::retryable(message).after(delay)),
    }
}

/// A name resolved to an address that may not be reached.
#[derive(Debug, thiserror::Error)]
#[error("{host} resolves to {address}, which is not a public address")]
struct Denied {
    host: String,
    address: IpAddr,
}

/// Resolves names, and refuses a name with any address that may not be reached.
struct Guarded {
    reach: Reach,
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.reach.clone();
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let addresses: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            let exempt = reach.host(&host);
            let denied =
                addresses.iter().map(SocketAddr::ip).find(|address| !exempt && !reach.address(*address));
            match denied {
                Some(address) => Err(Box::new(Denied { host, address }) as _),
                None => Ok(Box::new(addresses.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn reach() -> Reach {
        Reach { cidrs: Vec::new(), hosts: Vec::new() }
    }

    #[test]
    fn every_spelling_of_an_inner_address_is_refused() {
        for url in [
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://127.1/",
            "http://[::1]/",
            "http://[::ffff:10.0.0.1]/",
            "http://169.254.169.254/latest",
            "http://0/",
            "http://%31%32%37.0.0.1/",
        ] {
            let error = check_url(url, &reach()).unwrap_err();
            assert!(!error.retryable && error.message.contains("not a public address"), "{url}: {error}");
        }
    }

    #[test]
    fn odd_urls_are_refused() {
        for url in
            ["ftp://a/", "http://u:p@a/", "http://a b/", "http:\\\\a", "http://a/#f", "nonsense", "file:///x"]
        {
            assert!(check_url(url, &reach()).is_err(), "{url}");
        }
        assert!(check_url("https://example.com:8443/a?b=c", &reach()).is_ok());
    }

    #[tokio::test]
    async fn a_name_that_leads_inside_is_refused_by_the_resolver() {
        let client = Http::new(&HttpOptions::default()).unwrap();
        let error = refuse(&client.client.get("http://localhost:9/").send().await.unwrap_err());
        assert!(!error.retryable && error.message.contains("not a public address"), "{error}");
    }
}
