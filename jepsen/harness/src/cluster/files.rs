//! The configuration files of the processes of a run.

use std::path::Path;

use anyhow::{Context as _, Result};
use orloj_jepsen_core::event::KeyLimits;
use orloj_wire::callback::WebhookSecret;
use toml::{Table, Value};

use crate::hosts::{
    self, API_PORT, DEBUG_PORT, EXECUTOR_PORT, INTERNAL_PORT, REAL, REPLICAS, SINK_NAME, SINK_PORT,
};
use crate::scenario::ClusterOptions;

/// Calls a second that a harness caller may make: more than it ever does.
const RATE: f64 = 100_000.0;
/// What the narrow key may do, whichever that is.
const NARROW: KeyLimits = KeyLimits {
    key: String::new(),
    requests_per_s: 5.0,
    requests_burst: 5,
    submits_per_s: 1.0,
    submits_burst: 2,
};
/// Every address of a run.
const NETWORK: &str = "10.77.0.0/24";

/// Secrets of one run, in plain sight: its network exists for this run alone.
#[derive(Debug, Clone)]
pub struct Keys {
    /// Replicas among each other.
    pub cluster: String,
    /// Replicas and executors.
    pub executors: String,
    /// The caller that all clients are.
    pub access_key: String,
    /// Its secret.
    pub secret_key: String,
    /// The key of another caller, which may do little.
    pub narrow_key: String,
    /// Its secret.
    pub narrow_secret: String,
    /// What signs the callbacks of the caller that all clients are.
    pub webhook: WebhookSecret,
    /// The administrator.
    pub admin_key: String,
    /// Its secret.
    pub admin_secret: String,
}

impl Keys {
    /// The keys of a run; `salt` tells runs apart, so that a stray process of another run is refused.
    pub fn of_run(salt: &str) -> Keys {
        let secret = |prefix: &str, name: &str| {
            let digest =
                orloj_wire::sign::hex(&orloj_wire::sign::sha256(&[salt.as_bytes(), name.as_bytes()]));
            format!("{prefix}{}", &digest[..43])
        };
        Keys {
            cluster: secret("", "cluster"),
            executors: secret("", "executors"),
            access_key: "ak_HARNESSHARNESSHARNES".into(),
            secret_key: secret("sk_", "caller"),
            narrow_key: "ak_NARROWNARROWNARROWNA".into(),
            narrow_secret: secret("sk_", "narrow"),
            webhook: WebhookSecret::of(orloj_wire::sign::sha256(&[salt.as_bytes(), b"webhook"])),
            admin_key: "adk_HARNESSHARNESSHARNES".into(),
            admin_secret: secret("ads_", "admin"),
        }
    }

    /// The secrets file of the replicas.
    pub fn file(&self) -> Table {
        let caller = table([
            ("id", text("harness")),
            ("access-key", text(&self.access_key)),
            ("secret-key", text(&self.secret_key)),
            ("requests-per-s", Value::Float(RATE)),
            ("submits-per-s", Value::Float(RATE)),
            ("waiters", Value::Integer(10_000)),
            ("webhook-secrets", Value::Array(vec![text(self.webhook.expose())])),
            ("callback-hosts", Value::Array(vec![sink().into()])),
        ]);
        let narrow = table([
            ("id", text("narrow")),
            ("access-key", text(&self.narrow_key)),
            ("secret-key", text(&self.narrow_secret)),
            ("requests-per-s", Value::Float(NARROW.requests_per_s)),
            ("requests-burst", Value::Integer(NARROW.requests_burst.into())),
            ("submits-per-s", Value::Float(NARROW.submits_per_s)),
            ("submits-burst", Value::Integer(NARROW.submits_burst.into())),
        ]);
        let admin = table([("access-key", text(&self.admin_key)), ("secret-key", text(&self.admin_secret))]);
        table([
            ("cluster-secret", text(&self.cluster)),
            ("executor-secret", text(&self.executors)),
            ("callers", Value::Array(vec![caller.into(), narrow.into()])),
            ("admins", Value::Array(vec![admin.into()])),
        ])
    }

    /// What the narrow key may do, as the secrets file says.
    pub fn narrow_limits(&self) -> KeyLimits {
        KeyLimits { key: self.narrow_key.clone(), ..NARROW }
    }
}

/// The configuration of the replica `name`, whose data lies in `data`.
///
/// # Errors
/// A path that is not UTF-8.
pub fn replica(name: &str, data: &Path, secrets: &Path, options: &ClusterOptions) -> Result<Table> {
    let members = (1..).zip(REPLICAS).map(|(id, name)| {
        table([("id", Value::Integer(id)), ("internal", internal(name)), ("api", api(name))]).into()
    });
    let number = (1..).zip(REPLICAS).find(|(_, other)| *other == name).map_or(0, |(id, _)| id);
    let ms = |value: u64| int(value);
    let store = table([
        ("node-id", Value::Integer(number)),
        ("cluster", text("jepsen")),
        ("dir", path(data)?),
        ("internal", internal(name)),
        ("api", api(name)),
        ("members", Value::Array(members.collect())),
        (
            "timing",
            table([
                ("heartbeat-ms", ms(options.raft_heartbeat_ms)),
                ("election-min-ms", ms(options.election_min_ms)),
                ("election-max-ms", ms(options.election_max_ms)),
            ])
            .into(),
        ),
        (
            "snapshot",
            table([
                ("log-bytes", int(options.snapshot_log_bytes)),
                ("every-s", Value::Integer(20)),
                ("keep-log-entries", int(options.keep_log_entries)),
            ])
            .into(),
        ),
        // The disks are small: what counts as full and what is kept for emergencies is small as well.
        (
            "disk",
            table([
                ("low-bytes", Value::Integer(24 << 20)),
                ("low-percent", Value::Integer(5)),
                ("ballast-bytes", Value::Integer(8 << 20)),
                ("check-ms", Value::Integer(500)),
            ])
            .into(),
        ),
    ]);
    let scheduler = table([
        ("heartbeat-ms", ms(options.heartbeat_ms)),
        ("offline-after", Value::Integer(i64::from(options.offline_after))),
        ("timeout-grace-ms", ms(options.timeout_grace_ms)),
    ]);
    Ok(table([
        ("listen", text(hosts::address(name, API_PORT))),
        ("listen-internal", internal(name)),
        ("secrets-file", path(secrets)?),
        ("store", store.into()),
        ("scheduler", scheduler.into()),
        ("listen-debug", text(format!("127.0.0.1:{DEBUG_PORT}"))),
        ("callbacks", table([("allow-cidrs", Value::Array(vec![text(NETWORK)]))]).into()),
    ]))
}

/// Where the caller's callbacks may go.
fn sink() -> Table {
    table([
        ("host", text(SINK_NAME)),
        ("ports", Value::Array(vec![Value::Integer(SINK_PORT.into())])),
        ("plain-http", Value::Boolean(true)),
        ("allow-cidrs", Value::Array(vec![text(NETWORK)])),
    ])
}

/// The configuration of the real executor.
///
/// # Errors
/// A path that is not UTF-8.
pub fn executor(data: &Path, secret: &Path) -> Result<Table> {
    let http = table([("allow-cidrs", Value::Array(vec![text(NETWORK)]))]);
    Ok(table([
        ("id", text(REAL)),
        ("listen", text(hosts::address(REAL, EXECUTOR_PORT))),
        ("dir", path(data)?),
        ("secret-file", path(secret)?),
        ("replicas", Value::Array(REPLICAS.iter().map(|name| internal(name)).collect())),
        ("slots", Value::Integer(8)),
        ("weight", Value::Integer(100)),
        ("handlers", table([("fail", Value::Boolean(true)), ("http", http.into())]).into()),
    ]))
}

fn table<const N: usize>(entries: [(&str, Value); N]) -> Table {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn text(value: impl ToString) -> Value {
    Value::String(value.to_string())
}

fn int(value: u64) -> Value {
    Value::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}

fn internal(name: &str) -> Value {
    text(hosts::address(name, INTERNAL_PORT))
}

fn api(name: &str) -> Value {
    text(format!("http://{}", hosts::address(name, API_PORT)))
}

fn path(path: &Path) -> Result<Value> {
    Ok(text(path.to_str().with_context(|| format!("the path {} is not UTF-8", path.display()))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_replica_finds_itself_among_the_members() {
        let options = ClusterOptions::default();
        for (id, name) in (1..).zip(REPLICAS) {
            let config = replica(name, Path::new("/d"), Path::new("/s"), &options).unwrap();
            let store = config["store"].as_table().unwrap();
            assert_eq!(store["node-id"].as_integer(), Some(id));
            let members = store["members"].as_array().unwrap();
            assert_eq!(members[usize::try_from(id - 1).unwrap()]["internal"], store["internal"]);
        }
    }

    #[test]
    fn runs_have_different_secrets_of_enough_length() {
        let (one, two) = (Keys::of_run("a"), Keys::of_run("b"));
        assert_ne!(one.cluster, two.cluster);
        assert_ne!(one.cluster, one.executors);
        assert!(one.cluster.len() >= 32 && one.secret_key.starts_with("sk_"));
    }
}
