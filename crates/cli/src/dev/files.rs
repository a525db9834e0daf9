//! The configuration files of a demo cluster's processes. Written at every start, so that a newer version's
//! defaults hold; what must stay the same stands in the plan and in the keys.

use anyhow::Context as _;
use toml::{Table, Value};

use super::keys::Keys;
use super::plan::{Executor, Layout, Plan, Replica};
use crate::cert::AUTHORITY;
use crate::secret::{write_private, write_public};

/// Requests a second that the demo caller may make, in all and for submissions: enough for load tests.
const DEMO_RATE: f64 = 100_000.0;
/// Where people try callbacks on this machine.
const DEMO_HOOK_PORTS: [u16; 4] = [3000, 8000, 8080, 9000];
/// The addresses of this machine.
const LOOPBACK: &str = "127.0.0.0/8";
/// Long polls that it may hold at once.
const DEMO_WAITERS: i64 = 10_000;

/// What the user wants otherwise than by default.
#[derive(Debug, Default)]
pub struct Wishes<'a> {
    /// Slots of each executor.
    pub slots: Option<u32>,
    /// Options of the replicas' files, as `key=value`.
    pub set: &'a [String],
    /// More ports of this machine to which the demo caller's callbacks may go.
    pub callback_ports: &'a [u16],
}

/// Writes every file.
///
/// # Errors
/// A file that cannot be written, a wish that is not `key=value`.
pub fn write(layout: &Layout, plan: &Plan, keys: &Keys, wishes: &Wishes<'_>) -> anyhow::Result<()> {
    write_private(&layout.secret("executors.secret"), &keys.executor_secret)?;
    write_private(
        &layout.secret("server.toml"),
        &toml::to_string_pretty(&server_secrets(keys, wishes.callback_ports))?,
    )?;
    for replica in &plan.replicas {
        let mut config = server(layout, plan, replica)?;
        wishes.set.iter().try_for_each(|option| set(&mut config, option))?;
        let text = toml::to_string_pretty(&config)?;
        write_public(&layout.config(&replica.name()), &text)?;
    }
    for one in &plan.executors {
        let text = toml::to_string_pretty(&executor(layout, plan, one, wishes.slots)?)?;
        write_public(&layout.config(&one.id), &text)?;
    }
    Ok(())
}

/// Sets one option, whose key may lead through tables.
fn set(config: &mut Table, option: &str) -> anyhow::Result<()> {
    let (key, value) =
        option.split_once('=').with_context(|| format!("--set {option:?} is not KEY=VALUE"))?;
    // What is no TOML value is taken as text, so that quotes can be left out.
    let line = format!("value = {value}").parse::<Table>();
    let value = line.ok().and_then(|mut line| line.remove("value")).unwrap_or_else(|| text(value));
    let (tables, name) = key.rsplit_once('.').map_or(("", key), |(tables, name)| (tables, name));
    let mut at = config;
    for table in tables.split('.').filter(|table| !table.is_empty()) {
        let entry = at.entry(table).or_insert_with(|| Value::Table(Table::new()));
        at = entry.as_table_mut().with_context(|| format!("--set {option:?}: {table} is no table"))?;
    }
    at.insert(name.to_owned(), value);
    Ok(())
}

fn text(value: impl ToString) -> Value {
    Value::String(value.to_string())
}

fn path(path: &std::path::Path) -> anyhow::Result<Value> {
    let name = path.to_str().with_context(|| format!("the path {} is not UTF-8", path.display()))?;
    Ok(text(name))
}

fn table<const N: usize>(entries: [(&str, Value); N]) -> Table {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Callbacks to this machine, on the ports that people try things on.
fn local_hooks(more: &[u16]) -> Table {
    let ports = DEMO_HOOK_PORTS.iter().chain(more).map(|port| Value::Integer(i64::from(*port))).collect();
    table([
        ("host", text("localhost")),
        ("ports", Value::Array(ports)),
        ("plain-http", Value::Boolean(true)),
        ("allow-cidrs", Value::Array(vec![text(LOOPBACK)])),
    ])
}

fn server_secrets(keys: &Keys, callback_ports: &[u16]) -> Table {
    let demo = table([
        ("id", text("demo")),
        ("access-key", text(&keys.access_key)),
        ("secret-key", text(&keys.secret_key)),
        ("requests-per-s", Value::Float(DEMO_RATE)),
        ("submits-per-s", Value::Float(DEMO_RATE)),
        ("waiters", Value::Integer(DEMO_WAITERS)),
        ("callback-hosts", Value::Array(vec![local_hooks(callback_ports).into()])),
        ("webhook-secrets", Value::Array(vec![text(&keys.webhook_secret)])),
    ]);
    let admin = table([("access-key", text(&keys.admin_key)), ("secret-key", text(&keys.admin_secret))]);
    let sealing = std::iter::once(&keys.sealing_key).chain(&keys.older_sealing_keys).map(text).collect();
    table([
        ("cluster-secret", text(&keys.cluster_secret)),
        ("executor-secret", text(&keys.executor_secret)),
        ("sealing-keys", Value::Array(sealing)),
        ("callers", Value::Array(vec![demo.into()])),
        ("admins", Value::Array(vec![admin.into()])),
    ])
}

fn server(layout: &Layout, plan: &Plan, replica: &Replica) -> anyhow::Result<Table> {
    let member = |member: &Replica| {
        let id = Value::Integer(i64::try_from(member.id)?);
        anyhow::Ok(
            table([("id", id), ("internal", text(member.internal())), ("api", text(member.api()))]).into(),
        )
    };
    let members: anyhow::Result<Vec<Value>> = plan.replicas.iter().map(member).collect();
    let store = table([
        ("node-id", Value::Integer(i64::try_from(replica.id)?)),
        ("cluster", text("dev")),
        ("dir", path(&layout.data(&replica.name()))?),
        ("internal", text(replica.internal())),
        ("api", text(replica.api())),
        ("members", Value::Array(members?)),
    ]);
    let mut config = table([
        ("listen", text(replica.listen_api())),
        ("listen-internal", text(replica.internal())),
        ("secrets-file", path(&layout.secret("server.toml"))?),
        ("debug-probe", Value::Boolean(true)),
        ("callbacks", table([("allow-cidrs", Value::Array(vec![text(LOOPBACK)]))]).into()),
        ("store", store.into()),
    ]);
    if plan.tls() {
        config.insert("tls".to_owned(), tls(layout, &replica.name())?.into());
    }
    Ok(config)
}

/// The certificate of a process.
fn tls(layout: &Layout, name: &str) -> anyhow::Result<Table> {
    let files = layout.certificates();
    Ok(table([
        ("ca", path(&files.join(AUTHORITY))?),
        ("cert", path(&files.join(format!("{name}.pem")))?),
        ("key", path(&files.join(format!("{name}.key")))?),
    ]))
}

fn executor(layout: &Layout, plan: &Plan, one: &Executor, slots: Option<u32>) -> anyhow::Result<Table> {
    let replicas = plan.replicas.iter().map(|replica| text(replica.internal())).collect();
    let shell = table([("enabled", Value::Boolean(true)), ("allow-any", Value::Boolean(true))]);
    let http = table([("allow-cidrs", Value::Array(vec![text("127.0.0.0/8")]))]);
    let handlers = table([("fail", Value::Boolean(true)), ("shell", shell.into()), ("http", http.into())]);
    let mut config = table([
        ("id", text(&one.id)),
        ("listen", text(one.address())),
        ("dir", path(&layout.data(&one.id))?),
        ("secret-file", path(&layout.secret("executors.secret"))?),
        ("replicas", Value::Array(replicas)),
        ("handlers", handlers.into()),
    ]);
    if plan.tls() {
        config.insert("tls".to_owned(), tls(layout, &one.id)?.into());
    }
    if let Some(slots) = slots {
        config.insert("slots".to_owned(), Value::Integer(i64::from(slots)));
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::super::plan::Wish;
    use super::*;

    #[test]
    fn the_processes_accept_their_files() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path()).unwrap();
        let plan = Plan::load_or_make(&layout, Wish { base_port: Some(0), ..Wish::default() }).unwrap();
        let keys = Keys::load_or_make(&layout).unwrap();
        let set = ["scheduler.heartbeat-ms=500".to_owned(), "store.cluster=blue".to_owned()];
        write(&layout, &plan, &keys, &Wishes { slots: Some(7), set: &set, callback_ports: &[4000] }).unwrap();
        for replica in &plan.replicas {
            let config = crate::server::Config::load(&layout.config(&replica.name())).unwrap();
            assert_eq!((config.store.node_id, config.store.cluster.as_str()), (replica.id, "blue"));
            assert_eq!(config.scheduler.heartbeat_ms, 500);
        }
        for one in &plan.executors {
            let options: orloj_executor::Options = crate::config::load(&layout.config(&one.id)).unwrap();
            options.check().unwrap();
            assert_eq!((options.id.as_str(), options.slots()), (one.id.as_str(), 7));
            assert!(options.handlers.shell.enabled);
        }
    }

    #[test]
    fn an_option_that_cannot_be_set_is_named() {
        let mut config = table([("listen", text("x"))]);
        for bad in ["listen", "listen.port=1"] {
            let error = set(&mut config, bad).unwrap_err().to_string();
            assert!(error.contains(bad), "{error}");
        }
    }

    #[test]
    fn only_private_files_hold_secrets() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path()).unwrap();
        let plan = Plan::load_or_make(&layout, Wish { base_port: Some(0), ..Wish::default() }).unwrap();
        let keys = Keys::load_or_make(&layout).unwrap();
        write(&layout, &plan, &keys, &Wishes::default()).unwrap();
        let names =
            plan.replicas.iter().map(Replica::name).chain(plan.executors.iter().map(|one| one.id.clone()));
        for name in names {
            let config = std::fs::read_to_string(layout.config(&name)).unwrap();
            for secret in [&keys.secret_key, &keys.admin_secret, &keys.cluster_secret, &keys.executor_secret]
            {
                assert!(!config.contains(secret.as_str()), "{name}");
            }
        }
    }
}
