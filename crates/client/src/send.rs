//! Signing, sending and repeating one call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use orloj_wire::problem::Problem;
use orloj_wire::sign;
use reqwest::{Method, Url};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::error::Error;
use crate::options::{Credentials, Options};
use crate::retry;

/// How much longer others may take once a replica has given an answer that is not a good one: somewhat more than it takes
/// a replica to find out which others are away.
const BETTER_WITHIN: Duration = Duration::from_secs(1);

/// A signed client. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    http: reqwest::Client,
    urls: Vec<Url>,
    /// The place in `urls` of the replica that answered last.
    preferred: AtomicUsize,
    /// By place: the replica has answered, and has not failed to since.
    answered: Vec<AtomicBool>,
    /// How far the servers' clock is ahead of this machine's, in seconds, where they refused a timestamp.
    ahead_s: AtomicI64,
    credentials: Credentials,
    options: Options,
}

/// One call, before it is signed.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) body: Option<Bytes>,
    /// It has another effect each time, and no key that would keep it from that: not repeated where an earlier try may
    /// have had one.
    pub(crate) once: bool,
    /// How long the server is asked to wait.
    pub(crate) wait: Duration,
}

impl Call {
    pub(crate) fn get(path: String) -> Self {
        Call {
            method: Method::GET,
            path,
            query: String::new(),
            idempotency_key: None,
            body: None,
            once: false,
            wait: Duration::ZERO,
        }
    }

    pub(crate) fn post(path: String) -> Self {
        Call::of(Method::POST, path)
    }

    pub(crate) fn of(method: Method, path: String) -> Self {
        Call { method, ..Call::get(path) }
    }

    pub(crate) fn put(path: String) -> Self {
        Call { method: Method::PUT, ..Call::get(path) }
    }

    pub(crate) fn delete(path: String) -> Self {
        Call { method: Method::DELETE, ..Call::get(path) }
    }

    pub(crate) fn with_body<T: serde::Serialize>(mut self, body: &T) -> Self {
        // The bodies are structs with string keys, which always serialise.
        self.body = Some(serde_json::to_vec(body).expect("a request body serialises").into());
        self
    }

    /// Is not repeated unless it had no effect for certain.
    pub(crate) fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// Adds a parameter; the values are numbers, names and tokens of the query's plain characters.
    pub(crate) fn with(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        let separator = if self.query.is_empty() { "" } else { "&" };
        self.query.push_str(&format!("{separator}{name}={value}"));
        self
    }
}

/// One try's failure.
struct Failed {
    error: Error,
    /// Whether another try may help, and how long the server asks to wait before it.
    again: Option<Option<Duration>>,
}

impl Client {
    /// A client for the replicas at `urls`, such as `http://10.0.0.1:8080`.
    pub fn new<U: AsRef<str>>(
        urls: impl IntoIterator<Item = U>,
        credentials: Credentials,
        options: Options,
    ) -> Result<Self, Error> {
        let urls = urls.into_iter().map(|url| base_url(url.as_ref())).collect::<Result<Vec<_>, _>>()?;
        if urls.is_empty() {
            return Err(Error::Config { what: "urls", value: String::new(), why: "at least one is needed" });
        }
        let http =
            http_client(&options).map_err(|source| Error::Transport { url: urls[0].to_string(), source })?;
        let (preferred, ahead_s) = (AtomicUsize::new(0), AtomicI64::new(0));
        let answered = urls.iter().map(|_| AtomicBool::new(false)).collect();
        let inner = Inner { http, urls, preferred, answered, ahead_s, credentials, options };
        Ok(Client { inner: Arc::new(inner) })
    }

    /// The replicas that this client knows.
    pub fn urls(&self) -> impl Iterator<Item = &str> {
        self.inner.urls.iter().map(Url::as_str)
    }

    /// Sends a call until it has a final answer or the deadline has passed.
    pub(crate) async fn send<T: DeserializeOwned>(&self, call: Call) -> Result<T, Error> {
        let options = &self.inner.options;
        let deadline = Instant::now() + options.deadline + call.wait;
        let (mut tries, mut faults) = (0, BTreeMap::new());
        loop {
            tries += 1;
            let place = self.inner.preferred.load(Ordering::Relaxed) % self.inner.urls.len();
            let failed = match self.inner.try_once(place, &call).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            let Some(asked) = failed.again.filter(|_| !call.once || failed.error.had_no_effect()) else {
                return Err(failed.error);
            };
            self.inner.prefer_next(place);
            let delay = retry::delay(options.backoff, tries, rand::random(), asked);
            // Compared as durations: what a server asks for may be longer than any instant can hold.
            if delay >= deadline.saturating_duration_since(Instant::now()) {
                return Err(self.inner.in_vain(faults, place, failed.error));
            }
            faults.insert(place, failed.error);
            tokio::time::sleep(delay).await;
        }
    }

    /// Asks every replica at the same time, each until the deadline: none loses time to another that hangs. The first good
    /// answer counts, or the first refusal that does not pass; any other answer, if there comes no better one soon. For
    /// what changes nothing.
    pub(crate) async fn ask_each<T>(&self, call: fn() -> Call, is_good: fn(&T) -> bool) -> Result<T, Error>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let mut asked = JoinSet::new();
        for place in 0..self.inner.urls.len() {
            let one = self.only(place);
            asked.spawn(async move { (place, one.send::<T>(call()).await) });
        }
        let (mut faults, mut other, mut patience) = (BTreeMap::new(), None, Duration::MAX);
        while let Ok(Some(joined)) = tokio::time::timeout(patience, asked.join_next()).await {
            let (place, answer) =
                joined.expect("a try does not panic, and nobody aborts it while it is waited for");
            match answer {
                Ok(answer) if is_good(&answer) => {
                    self.inner.preferred.store(place, Ordering::Relaxed);
                    return Ok(answer);
                }
                Ok(answer) => (other, patience) = (Some(answer), BETTER_WITHIN),
                Err(Error::Problem(problem)) if other.is_none() && !retry::passes(problem.status) => {
                    return Err(Error::Problem(problem));
                }
                Err(error) => drop(faults.insert(place, error)),
            }
        }
        if let Some(answer) = other {
            return Ok(answer);
        }
        let (place, newest) = faults.pop_last().expect("a client knows one replica at least");
        Err(self.inner.in_vain(faults, place, newest))
    }

    /// A client that knows this replica alone, over the same connections.
    fn only(&self, place: usize) -> Client {
        let inner = &self.inner;
        let ahead_s = inner.ahead_s.load(Ordering::Relaxed);
        let inner = Inner {
            http: inner.http.clone(),
            urls: vec![inner.urls[place].clone()],
            preferred: AtomicUsize::new(0),
            answered: vec![AtomicBool::new(false)],
            ahead_s: AtomicI64::new(ahead_s),
            credentials: inner.credentials.clone(),
            options: inner.options.clone(),
        };
        Client { inner: Arc::new(inner) }
    }
}

impl Inner {
    /// Turns to the next replica, unless another call has done so.
    fn prefer_next(&self, place: usize) {
        let next = (place + 1) % self.urls.len();
        // Losing this race means that somebody else moved on: just as good.
        let _ = self.preferred.compare_exchange(place, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// What a call ends with that no try has brought an answer for: the newest fault of each replica, where they are
    /// not all refusals.
    fn in_vain(&self, mut faults: BTreeMap<usize, Error>, place: usize, newest: Error) -> Error {
        faults.remove(&place);
        let refused = |error: &Error| matches!(error, Error::Problem(_));
        if faults.is_empty() || (refused(&newest) && faults.values().all(refused)) {
            return newest;
        }
        faults.insert(place, newest);
        let named = faults.into_iter().map(|(place, error)| (self.urls[place].to_string(), error));
        Error::Unreachable(named.collect())
    }

    /// The longest that one try may take beyond the time that it asks the server to wait: so that within the
    /// deadline each replica is asked, although those before it take a connection and never answer.
    fn patience(&self) -> Duration {
        let replicas = u32::try_from(self.urls.len()).unwrap_or(u32::MAX);
        self.options.try_timeout.min(self.options.deadline / replicas)
    }

    /// Whether a replica says anything at all. A call that waits long is not sent to one that nobody has heard of while
    /// there are others: its silence would be taken for the wait.
    async fn greet(&self, place: usize) -> Result<(), reqwest::Error> {
        if self.urls.len() == 1 || self.answered[place].load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut url = self.urls[place].clone();
        url.set_path("/healthz");
        self.http.get(url).timeout(self.patience()).send().await.map(drop)
    }

    async fn try_once<T: DeserializeOwned>(&self, place: usize, call: &Call) -> Result<T, Failed> {
        let base = &self.urls[place];
        let transport = |source: reqwest::Error| {
            self.answered[place].store(false, Ordering::Relaxed);
            let error = Error::Transport { url: base.to_string(), source: source.without_url() };
            Failed { error, again: Some(None) }
        };
        if !call.wait.is_zero() {
            self.greet(place).await.map_err(transport)?;
        }
        let ahead_s = self.ahead_s.load(Ordering::Relaxed);
        let response = self.request(base, call, ahead_s).send().await.map_err(transport)?;
        self.answered[place].store(true, Ordering::Relaxed);
        let status = response.status().as_u16();
        let asked = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        let body = response.bytes().await.map_err(transport)?;
        let misread = |why: serde_json::Error| Failed {
            error: Error::Answer { url: base.to_string(), status, why: why.to_string() },
            again: retry::passes(status).then_some(None),
        };
        if (200..300).contains(&status) {
            return serde_json::from_slice(&body).map_err(misread);
        }
        let problem: Problem = serde_json::from_slice(&body).map_err(misread)?;
        let passes = retry::passes(status) || self.follow_clock(&problem, ahead_s);
        let again = passes.then(|| asked.map(Duration::from_secs));
        Err(Failed { error: Error::Problem(Box::new(problem)), again })
    }

    /// Takes over the server's clock where it has refused the one that the call was signed by, `ahead_s` of
    /// this machine's; `false` when it was that very clock.
    fn follow_clock(&self, problem: &Problem, ahead_s: i64) -> bool {
        let Some(server) = problem.server_time else { return false };
        let new_s = server.0.div_euclid(1000) - self.options.clock.wall_ms().div_euclid(1000);
        self.ahead_s.store(new_s, Ordering::Relaxed);
        (new_s - ahead_s).abs() > sign::TIME_WINDOW_S / 2
    }

    /// The call, signed anew.
    fn request(&self, base: &Url, call: &Call, ahead_s: i64) -> reqwest::RequestBuilder {
        let mut url = base.clone();
        url.set_path(&call.path);
        url.set_query((!call.query.is_empty()).then_some(&call.query));
        let now_s = self.options.clock.wall_ms().div_euclid(1000) + ahead_s;
        let body = call.body.clone().unwrap_or_default();
        let outgoing = sign::Outgoing {
            label: self.credentials.label,
            audience: &self.options.audience,
            access_key: &self.credentials.access_key,
            method: call.method.as_str(),
            // What the URL holds is what goes out, should the URL have escaped anything.
            path: url.path(),
            query: url.query().unwrap_or_default(),
            idempotency_key: call.idempotency_key.as_deref().unwrap_or_default(),
            body: &body,
        };
        let mut request =
            self.http.request(call.method.clone(), url.clone()).timeout(self.patience() + call.wait);
        for (name, value) in outgoing.headers(&self.credentials.secret, now_s) {
            request = request.header(name, value);
        }
        if let Some(key) = &call.idempotency_key {
            request = request.header(sign::IDEMPOTENCY_HEADER, key);
        }
        if call.body.is_some() {
            request = request.header("content-type", "application/json").body(body);
        }
        request
    }
}

fn http_client(options: &Options) -> Result<reqwest::Client, reqwest::Error> {
    let mut builder = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(Duration::from_secs(2))
        .tcp_nodelay(true);
    if let Some(pem) = &options.ca_pem {
        builder = builder.tls_certs_only(reqwest::Certificate::from_pem_bundle(pem)?);
    }
    if let Some(pem) = &options.identity_pem {
        builder = builder.identity(reqwest::Identity::from_pem(pem)?);
    }
    builder.build()
}

/// An address with scheme, host and port alone: the signed path begins after it.
fn base_url(text: &str) -> Result<Url, Error> {
    let error = |why| Error::Config { what: "url", value: text.to_owned(), why };
    let url = Url::parse(text).map_err(|_| error("is not a URL such as http://127.0.0.1:8080"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(error("is not http:// or https://"));
    }
    let with_user = !url.username().is_empty() || url.password().is_some();
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() || with_user {
        return Err(error("has more than scheme, host and port"));
    }
    Ok(url)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
#[path = "send_tests.rs"]
mod tests;
