//! The last reads of a run: the table of each replica, from that replica alone, and every task that was
//! acknowledged, through the API.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use orloj_jepsen_agents::seen;
use orloj_jepsen_core::event::{FinalTable, FinalTask, What};
use orloj_wire::rest;
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::client::Client;
use super::http::{Ask, Connection};
use super::recorder::{Note, Recorder};

/// Tasks on a page of the table.
const PAGE: usize = 200;
/// For one page.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug, Deserialize)]
struct Page {
    applied: u64,
    digest: String,
    tasks: Vec<Owned>,
    next: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owned {
    #[serde(default)]
    idempotency_key: Option<String>,
    #[serde(flatten)]
    task: rest::Task,
}

/// A table that was read.
#[derive(Debug, Clone)]
pub struct Known {
    node: String,
    table: FinalTable,
}

/// Reads the whole table of the replica `node` and records it. Runs where `address` is the replica's own
/// loopback. Reads it again while it changes under the reading. A table that is `like` one that was read before, by its
/// digest and its index, is not read: it is recorded as that.
///
/// # Errors
/// It could not be read as one piece by `deadline`; the reason of the last try.
pub async fn table(
    node: &str,
    address: SocketAddr,
    recorder: &Recorder,
    like: Option<Known>,
    deadline: Instant,
) -> Result<Known> {
    let mut connection = Connection::new(address);
    if let Some(Known { node: other, table }) = like {
        let first = page(&mut connection, 1, "").await?;
        if (first.applied, &first.digest) == (table.applied, &table.digest) {
            let table = FinalTable { like: Some(other), ..table };
            recorder.note(Note::event(node, What::FinalTable(table.clone())));
            return Ok(Known { node: node.to_owned(), table });
        }
    }
    loop {
        match read_table(&mut connection).await {
            Ok((table, tasks)) => {
                for task in tasks {
                    let key = Some(task.task.task_id.clone());
                    recorder.note(Note { key, ..Note::event(node, What::FinalTask(task)) });
                }
                recorder.note(Note::event(node, What::FinalTable(table.clone())));
                return Ok(Known { node: node.to_owned(), table });
            }
            Err(error) if Instant::now() + PAUSE >= deadline => {
                return Err(error.context(format!("the table of {node}")));
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

async fn read_table(connection: &mut Connection) -> Result<(FinalTable, Vec<FinalTask>)> {
    let mut tasks = Vec::new();
    let mut after = String::new();
    let mut first: Option<(u64, String)> = None;
    loop {
        let page = page(connection, PAGE, &after).await?;
        let (applied, digest) = first.get_or_insert_with(|| (page.applied, page.digest.clone()));
        if *digest != page.digest {
            bail!("the table has changed between two pages, at {applied} and {}", page.applied);
        }
        tasks
            .extend(page.tasks.into_iter().map(|owned| seen::final_task(&owned.task, owned.idempotency_key)));
        match page.next {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    let (applied, digest) = first.unwrap_or_default();
    let count = tasks.len() as u64;
    Ok((FinalTable { applied, digest, tasks: count, like: None }, tasks))
}

async fn page(connection: &mut Connection, limit: usize, after: &str) -> Result<Page> {
    let query = format!("limit={limit}{after}");
    let ask = Ask { path: "/debug/tasks".to_owned(), query, ..Ask::default() };
    let reply = connection.ask(ask, PATIENCE).await?;
    if reply.status != 200 {
        bail!("status {}", reply.status);
    }
    serde_json::from_slice(&reply.body).context("a page")
}

/// Reads every task through the API, marked as last reads; each client takes its part of them. Returns how many
/// had no answer by `deadline`.
///
/// # Errors
/// A client has panicked.
pub async fn gets(tasks: BTreeSet<String>, clients: Vec<Client>, deadline: Instant) -> Result<usize> {
    let parts = clients.len().max(1);
    let tasks: Vec<String> = tasks.into_iter().collect();
    let mut readers = JoinSet::new();
    for (number, mut client) in clients.into_iter().enumerate() {
        let part: Vec<String> = tasks.iter().skip(number).step_by(parts).cloned().collect();
        readers.spawn(async move {
            let mut missed = 0;
            for task in part {
                if !client.read_at_last(&task, deadline).await {
                    missed += 1;
                }
            }
            missed
        });
    }
    let mut missed = 0;
    while let Some(reader) = readers.join_next().await {
        missed += reader.context("a client of the last reads")?;
    }
    Ok(missed)
}
