//! The list of what must not pass, sent as bytes to each replica of one cluster: at first, after its leader has died,
//! and after a restart of everything.

use std::time::Duration;

use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::process::until;
use orloj_tests::raw::{Answer, Lines, Raw};
use orloj_wire::rest::{KeyLimits, MadeKey, NewKey, PutCaller};
use orloj_wire::sign::{
    ACCESS_KEY_HEADER, IDEMPOTENCY_HEADER, Label, NONCE_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER,
};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(120);
const TASKS: &str = "/openapi/v1/tasks";

/// Changes one signed line by one byte.
type Change = fn(&mut Lines);

const LINES: [(&str, Change); 10] = [
    ("label", |lines| lines.label = Label::Admin),
    ("audience", |lines| lines.audience = "defaulu".to_owned()),
    ("access key", |lines| last(&mut lines.access_key)),
    ("timestamp", |lines| last(&mut lines.timestamp)),
    ("nonce", |lines| last(&mut lines.nonce)),
    ("method", |lines| lines.method = "PUST".to_owned()),
    ("path", |lines| last(&mut lines.path)),
    ("query", |lines| lines.query = "a".to_owned()),
    ("idempotency key", |lines| last(&mut lines.idempotency_key)),
    ("body", |lines| lines.body.push(b' ')),
];

/// Puts another character in the place of the last one.
fn last(text: &mut String) {
    let other = if text.ends_with('1') { '2' } else { '1' };
    text.pop();
    text.push(other);
}

/// Two keys of one caller, and one that is good and one that is disabled of another.
struct Keys {
    first: MadeKey,
    second: MadeKey,
    foreign: MadeKey,
    disabled: MadeKey,
}

impl Keys {
    async fn make(cluster: &Cluster) -> Keys {
        let admin = cluster.admin();
        let limits = KeyLimits { submits_per_s: 1_000.0, submits_burst: 1_000, ..KeyLimits::default() };
        let limits = KeyLimits { requests_per_s: 1_000.0, requests_burst: 1_000, ..limits };
        let mut made = Vec::new();
        for caller in ["shop", "shop", "other", "other"] {
            let settings = PutCaller { limits, ..PutCaller::default() };
            admin.put_caller(caller, &settings).await.unwrap();
            made.push(admin.add_key(caller, &NewKey::default()).await.unwrap());
        }
        admin.set_key(&made[3].access_key, false).await.unwrap();
        let [first, second, foreign, disabled] = made.try_into().expect("four were made");
        Keys { first, second, foreign, disabled }
    }
}

fn get(key: &MadeKey, path: &str) -> Raw {
    Lines::new(&key.access_key, "GET", path).signed(&key.secret_key)
}

fn submit(key: &MadeKey) -> Lines {
    let mut lines = Lines::new(&key.access_key, "POST", TASKS);
    lines.idempotency_key = format!("order-{}", lines.nonce);
    lines.body = json!({"handler": "echo", "params": {"n": 1}}).to_string().into_bytes();
    lines
}

/// One replica of the cluster, and what was asked of it.
struct Asked<'a> {
    cluster: &'a Cluster,
    place: usize,
}

impl Asked<'_> {
    async fn send(&self, request: &Raw) -> Answer {
        request.send(&self.cluster.ready().replicas[self.place].api).await
    }

    async fn refuses(&self, what: &str, request: &Raw, status: u16, code: &str) {
        let answer = self.send(request).await;
        assert_eq!((answer.status, answer.code()), (status, code), "replica {}: {what}", self.place);
    }

    /// It answers for a leader.
    async fn is_ready(&self, keys: &Keys) {
        until(&format!("replica {} knows who leads", self.place), PATIENCE, async || {
            self.send(&get(&keys.first, TASKS)).await.status == 200
        })
        .await;
    }

    async fn lines_count(&self, keys: &Keys) {
        let (honest, secret) = (submit(&keys.first), keys.first.secret_key.as_str());
        for (line, change) in LINES {
            let mut other = honest.clone();
            change(&mut other);
            self.refuses(line, &honest.with(&other.signature(secret)), 401, "invalid_signature").await;
        }
        let mut list = Lines::new(&keys.first.access_key, "GET", TASKS);
        list.query = "page_size=5&status=PENDING".to_owned();
        let signature = list.signature(secret);
        list.query = "status=PENDING&page_size=5".to_owned();
        self.refuses("query in another order", &list.with(&signature), 401, "invalid_signature").await;
    }

    async fn forms_count(&self, keys: &Keys) {
        let (honest, secret) = (submit(&keys.first), keys.first.secret_key.as_str());
        let good = honest.signature(secret);
        let cut = &good[..32];
        for (what, bad) in
            [("upper case", good.to_uppercase().as_str()), ("cut", cut), ("empty", ""), ("none", "none")]
        {
            self.refuses(what, &honest.with(bad), 401, "malformed_credentials").await;
        }
        for name in [ACCESS_KEY_HEADER, TIMESTAMP_HEADER, NONCE_HEADER, SIGNATURE_HEADER] {
            self.refuses(name, &honest.with(&good).doubled(name), 401, "malformed_credentials").await;
        }
        let twice = honest.with(&good).doubled(IDEMPOTENCY_HEADER);
        self.refuses("two keys", &twice, 400, "invalid_request").await;
        let mut named = Lines::new(&keys.first.access_key, "GET", TASKS);
        let signature = named.signature(secret);
        named.query = format!(
            "x-access-key={}&x-timestamp={}&x-nonce={}&x-signature={signature}",
            named.access_key, named.timestamp, named.nonce
        );
        let in_query = named.with(&signature).without_credentials();
        self.refuses("credentials in the query", &in_query, 401, "missing_credentials").await;
        let unsigned = honest.with(&good).without_credentials();
        self.refuses("no credentials", &unsigned, 401, "missing_credentials").await;
        let mut long = honest.clone();
        long.timestamp.push_str("000");
        self.refuses("milliseconds", &long.signed(secret), 401, "malformed_credentials").await;
    }

    async fn time_counts(&self, keys: &Keys) {
        let (honest, secret) = (submit(&keys.first), keys.first.secret_key.as_str());
        // While a request is under way time goes on: one of the future gets nearer.
        for from_now_s in [-3_600, -301, 310, 3_600] {
            let request = honest.clone().at(from_now_s).signed(secret);
            let what = format!("{from_now_s} s");
            self.refuses(&what, &request, 401, "timestamp_out_of_window").await;
        }
        for from_now_s in [-270, 300] {
            let list = Lines::new(&keys.first.access_key, "GET", TASKS).at(from_now_s);
            assert_eq!(self.send(&list.signed(secret)).await.status, 200, "{from_now_s} s");
        }
    }

    /// Each key for what is its own. Answers how many tasks were submitted.
    async fn owners_count(&self, keys: &Keys) -> usize {
        let secret = keys.first.secret_key.as_str();
        let disabled = submit(&keys.disabled).signed(&keys.disabled.secret_key);
        self.refuses("disabled", &disabled, 403, "access_key_disabled").await;
        let forged = submit(&keys.first).signed(&keys.second.secret_key);
        self.refuses("the secret of another key", &forged, 401, "invalid_signature").await;
        let callers = get(&keys.first, "/openapi/v1/callers");
        self.refuses("a call of administrators", &callers, 403, "scope_denied").await;
        let (ready, mut as_admin) = (self.cluster.ready(), submit(&keys.first));
        (as_admin.access_key, as_admin.label) = (ready.admin_key.clone(), Label::Admin);
        let as_admin = as_admin.signed(&ready.admin_secret);
        self.refuses("a call of callers", &as_admin, 403, "scope_denied").await;
        let answer = self.send(&submit(&keys.first).signed(secret)).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        let path = format!("{TASKS}/{}", answer.body["taskId"].as_str().unwrap());
        assert_eq!(self.send(&get(&keys.second, &path)).await.status, 200, "the other key of the caller");
        self.refuses("another caller's", &get(&keys.foreign, &path), 404, "task_not_found").await;
        let mut cancel = Lines::new(&keys.foreign.access_key, "POST", &format!("{path}/cancel"));
        cancel.body = b"{}".to_vec();
        let cancel = cancel.signed(&keys.foreign.secret_key);
        self.refuses("another caller's", &cancel, 404, "task_not_found").await;
        1
    }

    /// A nonce is spent by a good signature alone, and at every replica at once. Answers how many were submitted.
    async fn once_counts(&self, keys: &Keys, others: &[usize]) -> usize {
        let honest = submit(&keys.first);
        self.refuses("forged", &honest.with(&"0".repeat(64)), 401, "invalid_signature").await;
        let good = honest.signed(&keys.first.secret_key);
        assert_eq!(self.send(&good).await.status, 202, "a forgery spends no nonce");
        for place in others {
            let other = Asked { cluster: self.cluster, place: *place };
            other.refuses("used before", &good, 401, "nonce_replayed").await;
        }
        1
    }

    /// Everything on the list. Answers how many tasks were submitted.
    async fn refuses_all(&self, keys: &Keys, running: &[usize]) -> usize {
        self.is_ready(keys).await;
        self.lines_count(keys).await;
        self.forms_count(keys).await;
        self.time_counts(keys).await;
        self.owners_count(keys).await + self.once_counts(keys, running).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_must_not_pass_passes_no_replica_through_failover_and_restart() {
    let mut cluster = Cluster::start(Setup::default()).await;
    let keys = Keys::make(&cluster).await;
    let mut submitted = 0;
    for place in 0..3 {
        submitted += Asked { cluster: &cluster, place }.refuses_all(&keys, &[0, 1, 2]).await;
    }
    let leader = cluster.leader().await;
    cluster.kill(&cluster.replica(leader)).await;
    let left: Vec<usize> = (0..3).filter(|place| *place != leader).collect();
    for place in &left {
        Asked { cluster: &cluster, place: *place }.is_ready(&keys).await;
    }
    for place in &left {
        submitted += Asked { cluster: &cluster, place: *place }.refuses_all(&keys, &left).await;
    }
    cluster.start_again(&cluster.replica(leader), &[]);
    cluster.all_answer().await;
    submitted += Asked { cluster: &cluster, place: leader }.refuses_all(&keys, &[0, 1, 2]).await;
    cluster.kill(&cluster.replica(leader)).await;
    cluster.stop().await;
    cluster.start_on_the_same_folder().await;
    cluster.all_answer().await;
    for place in 0..3 {
        submitted += Asked { cluster: &cluster, place }.refuses_all(&keys, &[0, 1, 2]).await;
    }
    let mut list = Lines::new(&keys.first.access_key, "GET", TASKS);
    list.query = "page_size=100".to_owned();
    let answer = list.signed(&keys.first.secret_key).send(&cluster.ready().replicas[0].api).await;
    assert_eq!(answer.body["tasks"].as_array().map(Vec::len), Some(submitted), "nothing else was taken");
}
