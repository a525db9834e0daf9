//! When a demo cluster is ready, and what is said then.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use orloj_client::{Client, Credentials, Options};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::fleet::Fleet;
use super::keys::Keys;
use super::plan::{Layout, Plan, Replica};
use crate::cert::AUTHORITY;
use crate::remote::output;
use crate::secret;

/// From the start of the processes to the first dispatch; a slow disk may need a while to open databases.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits until every replica answers and knows a leader, and every executor is online.
///
/// # Errors
/// That takes longer than a minute; the message says what was missing.
pub async fn wait(layout: &Layout, plan: &Plan, keys: &Keys) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    for replica in &plan.replicas {
        let client = client(layout, replica, keys)?;
        until(deadline, &format!("{} knows a leader", replica.name()), async || {
            client.cluster().await.is_ok_and(|cluster| cluster.leader.is_some())
        })
        .await?;
    }
    let Some(first) = plan.replicas.first() else { return Ok(()) };
    let client = client(layout, first, keys)?;
    until(deadline, "every executor is online", async || match client.executors().await {
        Ok(list) => {
            let online = list.executors.iter().filter(|executor| executor.state == "online");
            let ids: Vec<&str> = online.map(|executor| executor.executor_id.as_str()).collect();
            plan.executors.iter().all(|executor| ids.contains(&executor.id.as_str()))
        }
        Err(_) => false,
    })
    .await
}

fn client(layout: &Layout, replica: &Replica, keys: &Keys) -> anyhow::Result<Client> {
    let credentials = Credentials::new(&keys.access_key, &keys.secret_key)?;
    let second = Duration::from_secs(1);
    let ca_pem = replica.tls.then(|| fs::read(layout.certificates().join(AUTHORITY))).transpose()?;
    let options = Options { deadline: second, try_timeout: second, ca_pem, ..Options::default() };
    Ok(Client::new([replica.api()], credentials, options)?)
}

async fn until(deadline: Instant, what: &str, mut holds: impl AsyncFnMut() -> bool) -> anyhow::Result<()> {
    while !holds().await {
        if Instant::now() >= deadline {
            bail!("the cluster is not ready after {PATIENCE:?}: waiting until {what}");
        }
        sleep(PAUSE).await;
    }
    Ok(())
}

/// What programs that start a demo cluster read.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReadyFile<'a> {
    replicas: Vec<ReadyReplica>,
    executors: Vec<ReadyExecutor>,
    access_key: &'a str,
    secret_key: &'a str,
    admin_key: &'a str,
    admin_secret: &'a str,
    webhook_secret: &'a str,
    /// The authority of the servers' certificates, where they speak TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    ca: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct ReadyReplica {
    id: u64,
    pid: Option<u32>,
    api: String,
    internal: String,
    dir: String,
}

#[derive(Debug, Serialize)]
struct ReadyExecutor {
    id: String,
    pid: Option<u32>,
    address: String,
    dir: String,
}

/// Writes the ready file, whole or not at all and private, since it holds secrets.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, layout: &Layout, plan: &Plan, keys: &Keys, fleet: &Fleet) -> anyhow::Result<()> {
    let pids: BTreeMap<&str, Option<u32>> =
        fleet.members().iter().map(|member| (member.spec.name.as_str(), member.pid)).collect();
    let pid = |name: &str| pids.get(name).copied().flatten();
    let dir = |name: &str| layout.data(name).display().to_string();
    let replica = |replica: &Replica| ReadyReplica {
        id: replica.id,
        pid: pid(&replica.name()),
        api: replica.api(),
        internal: replica.internal(),
        dir: dir(&replica.name()),
    };
    let executor = |executor: &super::plan::Executor| ReadyExecutor {
        id: executor.id.clone(),
        pid: pid(&executor.id),
        address: executor.address(),
        dir: dir(&executor.id),
    };
    let file = ReadyFile {
        replicas: plan.replicas.iter().map(replica).collect(),
        executors: plan.executors.iter().map(executor).collect(),
        access_key: &keys.access_key,
        secret_key: &keys.secret_key,
        admin_key: &keys.admin_key,
        admin_secret: &keys.admin_secret,
        webhook_secret: &keys.webhook_secret,
        ca: plan.tls().then(|| layout.certificates().join(AUTHORITY)),
    };
    let text = serde_json::to_string_pretty(&file).context("cannot write the ready file as JSON")?;
    secret::write_private(path, &text)
}

/// Tells the user what runs, with a command to try.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(layout: &Layout, plan: &Plan, keys: &Keys, fleet: &Fleet) -> anyhow::Result<()> {
    let mut table = output::table(["process", "pid", "address", "log"]);
    for member in fleet.members() {
        let name = &member.spec.name;
        let replica = plan.replicas.iter().find(|replica| replica.name() == *name).map(Replica::api);
        let executor =
            plan.executors.iter().find(|executor| executor.id == *name).map(|executor| executor.address());
        table.add_row([
            name.clone(),
            member.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
            replica.or(executor).unwrap_or_default(),
            layout.log(name).display().to_string(),
        ]);
    }
    output::print(&table)?;
    let urls: Vec<String> = plan.replicas.iter().map(Replica::api).collect();
    let program =
        std::env::current_exe().map_or_else(|_| "orloj".to_owned(), |path| path.display().to_string());
    let trust = match plan.tls() {
        true => format!("\n  export ORLOJ_CA={}", layout.certificates().join(AUTHORITY).display()),
        false => String::new(),
    };
    output::line(&format!(
        "
Ready. In another shell:

  export ORLOJ_URL={}{}
  export ORLOJ_ACCESS_KEY={} ORLOJ_SECRET_KEY={}
  export ORLOJ_ADMIN_KEY={} ORLOJ_ADMIN_SECRET={}
  {program} task submit shell --params '{{\"command\":\"echo Hello from $(hostname)\"}}' --wait

Ctrl-C stops the cluster; the next start on this folder goes on where it stopped.",
        urls.join(","),
        trust,
        keys.access_key,
        keys.secret_key,
        keys.admin_key,
        keys.admin_secret,
    ))?;
    Ok(())
}
