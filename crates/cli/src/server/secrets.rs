//! The secrets file of a replica: who may call, and what the cluster's own processes sign with.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use orloj_api::{Keyring, Limits, Sealer};
use orloj_model::id::CallerId;
use orloj_scheduler::callback::Policy;
use orloj_wire::callback::{HostEntry, HostRule, WebhookSecret};
use orloj_wire::sign::Secret;
use serde::Deserialize;

use crate::config::line_of;
use crate::secret::read_private;

/// The file as it is written: TOML, mode 0600, the same on every replica of a cluster.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct File {
    /// What replicas sign with among each other.
    cluster_secret: String,
    /// What replicas and executors sign with among each other.
    executor_secret: String,
    /// What seals secrets in the tables: the first seals, each opens.
    #[serde(default)]
    sealing_keys: Vec<String>,
    /// Access keys of callers.
    #[serde(default)]
    callers: Vec<CallerKey>,
    /// Keys of administrators.
    #[serde(default)]
    admins: Vec<AdminKey>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct CallerKey {
    /// The caller whose key it is; several keys may have one caller.
    id: String,
    access_key: String,
    secret_key: String,
    requests_per_s: Option<f64>,
    requests_burst: Option<u32>,
    submits_per_s: Option<f64>,
    submits_burst: Option<u32>,
    waiters: Option<u32>,
    /// Of the caller, whichever of its keys says so; the smallest counts.
    max_running: Option<u32>,
    /// Where its callbacks may go. Stands in one of its keys.
    #[serde(default)]
    callback_hosts: Vec<HostEntry>,
    /// What signs its callbacks, `whsec_…`, at most two. Stands in one of its keys.
    #[serde(default)]
    webhook_secrets: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct AdminKey {
    access_key: String,
    secret_key: String,
}

/// The secrets, checked.
#[derive(Debug)]
pub struct Secrets {
    /// Signs the calls among replicas.
    pub cluster: Secret,
    /// Signs the calls between replicas and executors.
    pub executors: Secret,
    /// Every key that may call.
    pub keyring: Keyring,
    /// How many tasks of a caller may run at a time; of others as many as there is room for.
    pub max_running: BTreeMap<CallerId, u32>,
    /// Seals the secrets that are made through the API.
    pub sealer: Sealer,
}

impl Secrets {
    /// Reads the secrets file.
    ///
    /// # Errors
    /// A file that others can read, a key that is malformed or stands there twice, a secret that is too
    /// short or published. No message shows a secret.
    pub fn load(path: &Path) -> anyhow::Result<Secrets> {
        let text = read_private(path)?;
        parse(&text).with_context(|| format!("secrets file {}", path.display()))
    }
}

fn parse(text: &str) -> anyhow::Result<Secrets> {
    // The parser's own message would show the line, and with it a secret.
    let file: File = toml::from_str(text)
        .map_err(|error| anyhow::anyhow!("{} (line {})", error.message(), line_of(text, error.span()).0))?;
    let executors = shared("executor-secret", &file.executor_secret)?;
    let mut keyring = Keyring::new();
    keyring.share_with_executors(executors.clone())?;
    let mut max_running = BTreeMap::new();
    for key in file.callers {
        let caller = CallerId::new(key.id.as_str()).with_context(|| format!("callers.id = {:?}", key.id))?;
        if let Some(policy) = key.callbacks()? {
            anyhow::ensure!(
                keyring.callbacks(&caller).is_none(),
                "callers.id = {:?}: its callbacks stand there twice",
                key.id
            );
            keyring.set_callbacks(caller.clone(), policy);
        }
        let secret = secret_of(&key.access_key, &key.secret_key)?;
        if let Some(most) = key.max_running {
            anyhow::ensure!(most > 0, "callers.max-running = 0: must be at least 1");
            let known = max_running.entry(caller.clone()).or_insert(most);
            *known = most.min(*known);
        }
        keyring.add_caller(caller, &key.access_key, secret, key.limits())?;
    }
    for key in file.admins {
        let secret = secret_of(&key.access_key, &key.secret_key)?;
        keyring.add_admin(&key.access_key, secret, Limits::default())?;
    }
    let sealing = file.sealing_keys.iter().map(|text| shared("sealing-keys", text));
    let sealer = Sealer::new(&sealing.collect::<anyhow::Result<Vec<_>>>()?)?;
    let cluster = shared("cluster-secret", &file.cluster_secret)?;
    Ok(Secrets { cluster, executors, keyring, max_running, sealer })
}

fn secret_of(key: &str, text: &str) -> anyhow::Result<Secret> {
    Secret::new(text).with_context(|| format!("the secret-key of {key:?} is empty"))
}

/// A secret that processes share.
fn shared(option: &str, text: &str) -> anyhow::Result<Secret> {
    let secret = Secret::new(text.trim()).with_context(|| format!("{option} is empty"))?;
    match secret.weakness() {
        Some(weakness) => anyhow::bail!("{option}: {weakness}"),
        None => Ok(secret),
    }
}

impl CallerKey {
    /// What its caller's callbacks may do, where the key says anything of it.
    fn callbacks(&self) -> anyhow::Result<Option<Policy>> {
        if self.callback_hosts.is_empty() && self.webhook_secrets.is_empty() {
            return Ok(None);
        }
        let of = || format!("callers.id = {:?}", self.id);
        anyhow::ensure!(self.webhook_secrets.len() <= 2, "{}: more than two webhook-secrets", of());
        let rule = |entry: &HostEntry| HostRule::new(entry).map_err(|why| anyhow::anyhow!("{}: {why}", of()));
        let hosts = self.callback_hosts.iter().map(rule).collect::<anyhow::Result<_>>()?;
        let secret = |text: &String| {
            WebhookSecret::parse(text).with_context(|| {
                format!("{}: a webhook secret is not whsec_ and base64 of 24-64 bytes", of())
            })
        };
        let secrets = self.webhook_secrets.iter().map(secret).collect::<anyhow::Result<_>>()?;
        Ok(Some(Policy { hosts, secrets, unopened: false }))
    }

    /// Its limits; a burst that is not given is one second's worth.
    fn limits(&self) -> Limits {
        let default = Limits::default();
        let burst = |given: Option<u32>, rate: Option<f64>, default: u32| {
            given.or(rate.map(|rate| (rate as u32).max(1))).unwrap_or(default)
        };
        Limits {
            requests_per_s: self.requests_per_s.unwrap_or(default.requests_per_s),
            requests_burst: burst(self.requests_burst, self.requests_per_s, default.requests_burst),
            submits_per_s: self.submits_per_s.unwrap_or(default.submits_per_s),
            submits_burst: burst(self.submits_burst, self.submits_per_s, default.submits_burst),
            waiters: self.waiters.unwrap_or(default.waiters),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "0123456789012345678901234567890123456789";

    fn file(callers: &str) -> String {
        format!("cluster-secret = \"{LONG}\"\nexecutor-secret = \"{LONG}x\"\n{callers}")
    }

    #[test]
    fn callbacks_are_read_and_never_shown() {
        let hosts = "callback-hosts = [{ host = 'hooks.example.com' }, { host = 'localhost', ports = [8080], \
             plain-http = true, allow-cidrs = ['127.0.0.0/8'] }]";
        let key = |rest: &str| {
            file(&format!("[[callers]]\nid = 'a'\naccess-key = 'ak_A'\nsecret-key = '{LONG}'\n{rest}"))
        };
        let secret = WebhookSecret::of([7; 32]).expose();
        let secrets = parse(&key(&format!("{hosts}\nwebhook-secrets = ['{secret}']"))).unwrap();
        let policy = secrets.keyring.callbacks(&CallerId::new("a").unwrap()).unwrap();
        assert_eq!((policy.hosts.len(), policy.secrets.len()), (2, 1));
        let short = error_of(&key("webhook-secrets = ['whsec_aHVzaA==']"));
        assert!(short.contains("\"a\"") && !short.contains("aHVz"), "{short}");
        let wild = error_of(&key("callback-hosts = [{ host = '*' }]"));
        assert!(wild.contains("\"*\""), "{wild}");
    }

    fn error_of(text: &str) -> String {
        format!("{:#}", parse(text).unwrap_err())
    }

    #[test]
    fn keys_and_limits_are_read() {
        let key = format!(
            "[[callers]]\nid = 'a'\naccess-key = 'ak_A'\nsecret-key = '{LONG}'\nsubmits-per-s = 50.0"
        );
        let secrets = parse(&file(&key)).unwrap();
        assert!(format!("{secrets:?}").contains("1 access key"), "{secrets:?}");
        let parsed: File = toml::from_str(&file(&key)).unwrap();
        let limits = parsed.callers[0].limits();
        assert_eq!((limits.submits_burst, limits.requests_burst), (50, 20));
    }

    #[test]
    fn errors_name_the_key_and_never_show_a_secret() {
        let short = error_of("cluster-secret = 'tiny-secret'\nexecutor-secret = 'x'");
        assert!(short.contains("-secret: the secret has") && !short.contains("tiny"), "{short}");
        let unknown = error_of(&file("[[callers]]\nid = 'a'\naccess-key = 'ak_A'\nsecret = 'hush-hush'"));
        assert!(
            unknown.contains("secret") && unknown.contains("line") && !unknown.contains("hush"),
            "{unknown}"
        );
        let name =
            error_of(&file(&format!("[[callers]]\nid = 'a b'\naccess-key = 'ak_A'\nsecret-key = '{LONG}'")));
        assert!(name.contains("a b"), "{name}");
        let twice = format!("[[admins]]\naccess-key = 'adk_A'\nsecret-key = '{LONG}'\n");
        let twice = error_of(&file(&twice.repeat(2)));
        assert!(twice.contains("adk_A") && twice.contains("twice"), "{twice}");
    }

    /// A secrets file that is good, but for one secret in the place that each entry names.
    fn with_secret(text: &str) -> [(&'static str, String); 5] {
        let shared = |cluster: &str, executors: &str| {
            format!("cluster-secret = '{cluster}'\nexecutor-secret = '{executors}'\n")
        };
        let key = |secret: &str, rest: &str| {
            let (id, secret) = ("id = 'a'\naccess-key = 'ak_A'", format!("secret-key = '{secret}'"));
            format!("{}[[callers]]\n{id}\n{secret}\n{rest}", shared(LONG, LONG))
        };
        [
            ("cluster-secret", shared(text, LONG)),
            ("executor-secret", shared(LONG, text)),
            ("sealing-keys", format!("sealing-keys = ['{text}']\n{}", shared(LONG, LONG))),
            ("secret-key", key(text, "")),
            ("webhook-secrets", key(LONG, &format!("webhook-secrets = ['{text}']"))),
        ]
    }

    #[test]
    fn b118_b119_weak_secrets_are_refused_wherever_they_stand() {
        for bad in [
            "",
            "   ",
            "short",
            "0123456789 0123456789 0123456789",
            "sk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
        ] {
            for (place, text) in with_secret(bad) {
                let error = error_of(&text);
                assert!(bad.trim().is_empty() || !error.contains(bad), "{place}: {error}");
            }
        }
        for (place, text) in with_secret(&format!("cls_{LONG}")) {
            assert_eq!(parse(&text).is_ok(), place != "webhook-secrets", "{place}");
        }
    }

    #[test]
    fn b118_no_secret_of_the_documentation_is_taken() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut pages = vec![root.join("README.md"), root.join("clients/python/README.md")];
        pages.extend(std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path()));
        let part = |c: char| c.is_ascii_alphanumeric() || "_-+/=".contains(c);
        let mut found = 0;
        for page in pages {
            let text = std::fs::read_to_string(&page).unwrap();
            let words = text.split(|c| !part(c));
            let prefixes = ["sk_", "ads_", "cls_", "exs_", "kek_", "whsec_"];
            for word in words.filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix))) {
                found += usize::from(word.len() > 32);
                for (place, text) in with_secret(word) {
                    assert!(
                        parse(&text).is_err(),
                        "{} shows {word}, which is taken as {place}",
                        page.display()
                    );
                }
            }
        }
        assert!(found >= 3, "{found} whole secrets on all pages: is this still what pages show?");
    }

    #[test]
    fn a_limit_on_running_tasks_is_the_callers_and_the_smallest_counts() {
        let key = |number: u32, most: &str| {
            format!("[[callers]]\nid = 'a'\naccess-key = 'ak_{number}'\nsecret-key = '{LONG}'\n{most}\n")
        };
        let text = [key(1, "max-running = 7"), key(2, ""), key(3, "max-running = 3")].concat();
        let secrets = parse(&file(&text)).unwrap();
        assert_eq!(secrets.max_running.into_iter().collect::<Vec<_>>(), [(CallerId::new("a").unwrap(), 3)]);
        let none = error_of(&file(&key(1, "max-running = 0")));
        assert_eq!(none, "callers.max-running = 0: must be at least 1");
    }
}
