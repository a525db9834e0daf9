//! The options of an executor, as they stand in its configuration file.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use orloj_net::TlsOptions;
use orloj_wire::sign::Secret;
use serde::{Deserialize, Serialize};

use crate::error::OptionsError;

/// Longest id, handler name, zone, label name or label value, in bytes.
const NAME_LIMIT: usize = 128;
/// Most slots or queue places of one executor.
const PLACES_LIMIT: u32 = 100_000;
/// Greatest base weight.
const WEIGHT_LIMIT: u32 = 100_000;

/// Everything that can be set. Names are kebab-case in the file; an unknown name is an error.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Options {
    /// The executor's id: 1-128 of `[A-Za-z0-9._-]`. Required.
    pub id: String,
    /// Where to listen for pushes, `host:port`. Port 0 takes a free one.
    pub listen: String,
    /// The address that the leader shall push to, `host:port`. Default: the bound address. Needed when
    /// `listen` is a wildcard address.
    pub advertise: Option<String>,
    /// The internal addresses of the scheduler replicas, `host:port`, also with `http://` or `https://` before it.
    /// At least one.
    pub replicas: Vec<String>,
    /// The secret that executors and replicas share. This or `secret-file` is required; there is no default.
    #[serde(skip_serializing)]
    pub secret: Option<SecretText>,
    /// A file that holds the secret and nothing else.
    pub secret_file: Option<PathBuf>,
    /// Certificates of this executor: with them it speaks TLS with the replicas. Default: none.
    pub tls: Option<TlsOptions>,
    /// The executor's own folder: incarnation, journal, logs. One process at a time. Required.
    pub dir: PathBuf,
    /// Attempts that run at once. Default: 2 x CPU cores, since most tasks wait on IO.
    pub slots: Option<u32>,
    /// Attempts that are taken beyond the slots. Default: as many as slots.
    pub queue: Option<u32>,
    /// Base weight on the ring. Default: 100 per 4 CPU cores.
    pub weight: Option<u32>,
    /// The zone.
    pub zone: Option<String>,
    /// Labels that tasks may ask for.
    pub labels: BTreeMap<String, String>,
    /// How often to send heartbeats, in ms. Default: as the leader says at registration (5 s).
    pub heartbeat_ms: Option<u64>,
    /// How long a success answers later attempts of the same dedupe key, in ms. Default 5 min.
    pub dedupe_window_ms: u64,
    /// Most memory for remembered outcomes, in bytes. Beyond it the oldest are forgotten early, with a
    /// warning and a metric. Default 128 MiB.
    pub dedupe_bytes: u64,
    /// How long a native handler may go on after a cancel or a timeout before it is aborted, in ms.
    pub stop_grace_ms: u64,
    /// The built-in handlers.
    pub handlers: HandlersOptions,
    /// The whole logs of attempts.
    pub logs: LogOptions,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            id: String::new(),
            listen: "127.0.0.1:0".to_owned(),
            advertise: None,
            replicas: Vec::new(),
            secret: None,
            secret_file: None,
            tls: None,
            dir: PathBuf::new(),
            slots: None,
            queue: None,
            weight: None,
            zone: None,
            labels: BTreeMap::new(),
            heartbeat_ms: None,
            dedupe_window_ms: 300_000,
            dedupe_bytes: 128 << 20,
            stop_grace_ms: 1_000,
            handlers: HandlersOptions::default(),
            logs: LogOptions::default(),
        }
    }
}

/// Which built-in handlers exist here, and what they may do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct HandlersOptions {
    /// Handler `echo`: returns its parameters.
    pub echo: bool,
    /// Handler `sleep`: waits for `durationMs`.
    pub sleep: bool,
    /// Handler `fail`: fails on demand. For tests.
    pub fail: bool,
    /// Handler `shell`.
    pub shell: ShellOptions,
    /// Handler `http`.
    pub http: HttpOptions,
}

impl Default for HandlersOptions {
    fn default() -> Self {
        HandlersOptions {
            echo: true,
            sleep: true,
            fail: false,
            shell: ShellOptions::default(),
            http: HttpOptions::default(),
        }
    }
}

/// Handler `shell`: runs a command in its own process group.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ShellOptions {
    /// Off unless set.
    pub enabled: bool,
    /// What may run. An entry without a final `*` is a whole command line (`command`) or a program
    /// (`program`, with any arguments); one with a final `*` is a prefix of either. A prefix of a command
    /// line lets its author add anything that a shell understands. An empty list allows nothing.
    pub allow: Vec<String>,
    /// Anything may run. For development.
    pub allow_any: bool,
    /// From the polite signal to the kill, in ms.
    pub kill_grace_ms: u64,
}

impl Default for ShellOptions {
    fn default() -> Self {
        ShellOptions { enabled: false, allow: Vec::new(), allow_any: false, kill_grace_ms: 5_000 }
    }
}

/// Handler `http`: sends one request. Only public addresses are reached, unless they are allowed here.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct HttpOptions {
    /// On unless cleared.
    pub enabled: bool,
    /// Address ranges that may be reached although they are not public: `10.1.0.0/16`, `::1/128`.
    pub allow_cidrs: Vec<String>,
    /// Host names that may be reached whatever they resolve to.
    pub allow_hosts: Vec<String>,
    /// Longest wait for the answer, in ms, and the default of the parameter `timeoutMs`.
    pub timeout_ms: u64,
}

impl Default for HttpOptions {
    fn default() -> Self {
        HttpOptions { enabled: true, allow_cidrs: Vec::new(), allow_hosts: Vec::new(), timeout_ms: 60_000 }
    }
}

/// Retention of whole logs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct LogOptions {
    /// Longest log of one attempt, in bytes; what comes after is cut, with a mark. Default 64 MiB.
    pub max_bytes: u64,
    /// How long a log is kept after its last byte, in ms. Default 7 days.
    pub keep_ms: u64,
    /// Most bytes of all logs together; beyond it the oldest go first. Default 4 GiB.
    pub keep_bytes: u64,
    /// How often to sweep, in ms. Default 10 min.
    pub sweep_ms: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions {
            max_bytes: 64 << 20,
            keep_ms: 7 * 24 * 3_600_000,
            keep_bytes: 4 << 30,
            sweep_ms: 600_000,
        }
    }
}

/// A secret in a configuration file. Never printed.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct SecretText(String);

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        SecretText(text)
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(…)")
    }
}

impl Options {
    /// Checks every value that can be checked without the outside world.
    pub fn check(&self) -> Result<(), OptionsError> {
        check_name("id", &self.id)?;
        if let Some(zone) = &self.zone {
            check_name("zone", zone)?;
        }
        for (name, value) in &self.labels {
            check_name("labels", name)?;
            check_name("labels", value)?;
        }
        check_host_port("listen", &self.listen)?;
        match &self.advertise {
            Some(advertise) => check_host_port("advertise", advertise)?,
            None if is_wildcard(&self.listen) => {
                let problem = format!("needed, since `listen` is the wildcard address `{}`", self.listen);
                return Err(OptionsError::new("advertise", problem));
            }
            None => {}
        }
        if self.replicas.is_empty() {
            return Err(OptionsError::new("replicas", "at least one replica's internal address is needed"));
        }
        for replica in &self.replicas {
            replica_address(replica).map_err(|problem| OptionsError::new("replicas", problem))?;
        }
        if self.dir.as_os_str().is_empty() {
            return Err(OptionsError::new("dir", "a folder of the executor's own is needed"));
        }
        if self.secret.is_some() == self.secret_file.is_some() {
            return Err(OptionsError::new("secret", "exactly one of `secret` and `secret-file` is needed"));
        }
        if let Some(text) = &self.secret {
            sound("secret", &text.0)?;
        }
        self.check_bounds()
    }

    fn check_bounds(&self) -> Result<(), OptionsError> {
        bounds("slots", self.slots(), 1, PLACES_LIMIT)?;
        bounds("queue", self.queue(), 0, PLACES_LIMIT)?;
        bounds("weight", self.weight(), 0, WEIGHT_LIMIT)?;
        if let Some(heartbeat) = self.heartbeat_ms {
            bounds("heartbeat-ms", heartbeat, 100, 60_000)?;
        }
        bounds("dedupe-window-ms", self.dedupe_window_ms, 0, 24 * 3_600_000)?;
        bounds("dedupe-bytes", self.dedupe_bytes, 1 << 20, 1 << 40)?;
        bounds("stop-grace-ms", self.stop_grace_ms, 0, 600_000)?;
        bounds("handlers.shell.kill-grace-ms", self.handlers.shell.kill_grace_ms, 0, 600_000)?;
        bounds("handlers.http.timeout-ms", self.handlers.http.timeout_ms, 1, 3_600_000)?;
        bounds("logs.max-bytes", self.logs.max_bytes, 4_096, 1 << 40)?;
        bounds("logs.sweep-ms", self.logs.sweep_ms, 1_000, 24 * 3_600_000)
    }

    /// Writes down the defaults that depend on the machine, so that the options can be shown whole.
    pub fn fill_defaults(&mut self) {
        self.slots = Some(self.slots());
        self.queue = Some(self.queue());
        self.weight = Some(self.weight());
    }

    /// Attempts that run at once.
    pub fn slots(&self) -> u32 {
        self.slots.unwrap_or_else(|| cores() * 2)
    }

    /// Attempts that are taken beyond the slots.
    pub fn queue(&self) -> u32 {
        self.queue.unwrap_or_else(|| self.slots())
    }

    /// Base weight on the ring.
    pub fn weight(&self) -> u32 {
        self.weight.unwrap_or_else(|| cores() * 25)
    }

    /// The shared secret, from the option or its file.
    pub(crate) fn read_secret(&self) -> Result<Secret, OptionsError> {
        match (&self.secret, &self.secret_file) {
            (Some(text), _) => sound("secret", &text.0),
            (None, Some(path)) => {
                let text = std::fs::read_to_string(path).map_err(|cause| {
                    OptionsError::new("secret-file", format!("reading {}: {cause}", path.display()))
                })?;
                sound("secret-file", text.trim())
            }
            (None, None) => sound("secret", ""),
        }
    }

    pub(crate) fn stop_grace(&self) -> Duration {
        Duration::from_millis(self.stop_grace_ms)
    }
}

/// A secret that is not empty, short or published: whoever knows it lets this executor run what he likes.
fn sound(field: &str, text: &str) -> Result<Secret, OptionsError> {
    let secret = Secret::new(text).ok_or_else(|| OptionsError::new(field, "the secret is empty"))?;
    match secret.weakness() {
        Some(weakness) => Err(OptionsError::new(field, weakness)),
        None => Ok(secret),
    }
}

/// CPU cores that this process may use.
pub(crate) fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX))
}

/// The `host:port` of a replica; how it is spoken to is decided by `tls` alone.
pub(crate) fn replica_address(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")).unwrap_or(text);
    let rest = rest.trim_end_matches('/');
    match check_host_port("", rest) {
        Ok(()) => Ok(rest.to_owned()),
        Err(error) => Err(error.problem),
    }
}

fn is_wildcard(listen: &str) -> bool {
    listen.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_unspecified())
}

fn check_host_port(field: &str, text: &str) -> Result<(), OptionsError> {
    let problem = || OptionsError::new(field, format!("`{text}` is not `host:port`"));
    let (host, port) = text.rsplit_once(':').ok_or_else(problem)?;
    let bracketed = host.starts_with('[') && host.ends_with(']');
    let plain = host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'));
    if host.is_empty() || !(bracketed || plain) || port.parse::<u16>().is_err() {
        return Err(problem());
    }
    Ok(())
}

/// Ids and names: 1-128 of `[A-Za-z0-9._-]`; the message shows the first character that is not.
pub(crate) fn check_name(field: &str, name: &str) -> Result<(), OptionsError> {
    if name.is_empty() || name.len() > NAME_LIMIT {
        let problem = format!("`{name}` has {} bytes; 1 to {NAME_LIMIT} are allowed", name.len());
        return Err(OptionsError::new(field, problem));
    }
    match name.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))) {
        Some(bad) => {
            Err(OptionsError::new(field, format!("`{name}` holds {bad:?}; allowed: A-Z a-z 0-9 . _ -")))
        }
        None => Ok(()),
    }
}

fn bounds<T: PartialOrd + fmt::Display>(field: &str, value: T, low: T, high: T) -> Result<(), OptionsError> {
    if value < low || value > high {
        return Err(OptionsError::new(field, format!("{value} is not within {low} to {high}")));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn good() -> Options {
        Options {
            id: "e1".to_owned(),
            dir: PathBuf::from("d"),
            replicas: vec!["127.0.0.1:1".to_owned()],
            secret: Some("exs_0123456789abcdef0123456789abcdef".to_owned().into()),
            ..Options::default()
        }
    }

    #[test]
    fn good_options_pass_and_have_defaults() {
        let options = good();
        options.check().unwrap();
        assert_eq!(options.slots(), cores() * 2);
        assert_eq!(options.queue(), options.slots());
    }

    #[test]
    fn each_bad_value_is_refused_by_name() {
        type Spoil = fn(&mut Options);
        let cases: [(&str, Spoil); 10] = [
            ("advertise", |o| o.listen = "0.0.0.0:7000".to_owned()),
            ("id", |o| o.id = "a b".to_owned()),
            ("listen", |o| o.listen = "nowhere".to_owned()),
            ("replicas", |o| o.replicas.clear()),
            ("replicas", |o| o.replicas = vec!["http://user@host:1".to_owned()]),
            ("dir", |o| o.dir = PathBuf::new()),
            ("secret", |o| o.secret = None),
            ("slots", |o| o.slots = Some(0)),
            ("heartbeat-ms", |o| o.heartbeat_ms = Some(1)),
            ("weight", |o| o.weight = Some(u32::MAX)),
        ];
        for (field, spoil) in cases {
            let mut options = good();
            spoil(&mut options);
            assert_eq!(options.check().unwrap_err().field, field);
        }
    }

    #[test]
    fn b118_a_weak_or_published_secret_is_refused_in_either_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let published = "sk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
        for bad in ["", "  ", "s", "exs_0123456789 abcdef0123456789abcdef", published] {
            let mut options = Options { secret: Some(bad.to_owned().into()), ..good() };
            for refused in [options.check().unwrap_err(), options.read_secret().unwrap_err()] {
                assert_eq!(refused.field, "secret");
                assert!(bad.len() < 4 || !refused.problem.contains(bad), "{}", refused.problem);
            }
            std::fs::write(&path, format!("{bad}\n")).unwrap();
            (options.secret, options.secret_file) = (None, Some(path.clone()));
            assert_eq!(options.read_secret().unwrap_err().field, "secret-file", "{bad:?}");
        }
        std::fs::write(&path, "exs_0123456789abcdef0123456789abcdef\n").unwrap();
        let options = Options { secret: None, secret_file: Some(path), ..good() };
        assert!(options.read_secret().is_ok());
    }

    #[test]
    fn the_file_is_kebab_case_and_strict() {
        let text = "id = 'e1'\nheartbeat-ms = 500\n[handlers.shell]\nenabled = true\nallow = ['date']\n";
        let options: Options = toml::from_str(text).unwrap();
        assert_eq!(options.heartbeat_ms, Some(500));
        assert!(options.handlers.shell.enabled && !options.handlers.shell.allow_any);
        assert!(toml::from_str::<Options>("heartbeat = 5").is_err());
        assert!(toml::from_str::<Options>("[handlers.shell]\nallow-all = true").is_err());
    }

    #[test]
    fn a_secret_is_never_printed() {
        assert!(
            !format!("{:?}", Options { secret: Some("hush".to_owned().into()), ..good() }).contains("hush")
        );
    }

    #[test]
    fn replica_addresses_take_both_spellings() {
        assert_eq!(replica_address("http://a.b:1/").unwrap(), "a.b:1");
        assert_eq!(replica_address("https://a.b:1").unwrap(), "a.b:1");
        assert_eq!(replica_address("[::1]:9").unwrap(), "[::1]:9");
        assert!(replica_address("ftp://a:1").is_err());
    }
}
