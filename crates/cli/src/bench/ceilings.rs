//! Measures how fast the machine itself is, just before a run.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use orloj_bench::ceilings::{Ceilings, Loopback};
use orloj_bench::disk::{self, Place, Syncs};
use orloj_bench::message::{FromLoad, LoadSpec, NullListens, Target, ToLoad, Via};
use orloj_bench::plan::{Due, Pace, Plan};

use super::child::PartProcess;
use super::scratch::Scratch;
use crate::exit::Failure;

/// How long each way of writing to the disk is measured.
const DISK: Duration = Duration::from_secs(1);
/// How long the load is.
const LOOPBACK: Duration = Duration::from_secs(2);

/// Measures the disk of the folder `data`, and a load by so many callers.
///
/// # Errors
/// The folder cannot be used, or a part of the bench has gone.
pub async fn measure(clients: u32, data: &Path) -> Result<Ceilings, Failure> {
    let scratch = Scratch::new(data, false).map_err(Failure::usage)?;
    let append = syncs(scratch.path(), Place::Append).await?;
    let overwrite = syncs(scratch.path(), Place::Overwrite).await?;
    let loopback = loopback(clients, scratch.path()).await?;
    scratch.remove()?;
    Ok(Ceilings { append, overwrite, loopback })
}

async fn syncs(data: &Path, place: Place) -> anyhow::Result<Syncs> {
    let dir = data.to_path_buf();
    tokio::task::spawn_blocking(move || disk::measure(&dir, place, DISK))
        .await
        .context("the measurement of the disk died")?
        .with_context(|| format!("cannot measure the disk of {}", data.display()))
}

/// How fast so many callers get answers from a server that does nothing else.
async fn loopback(clients: u32, logs: &Path) -> anyhow::Result<Loopback> {
    let mut null = PartProcess::<NullListens>::start("null", logs)?;
    let url = null.next().await?.url;
    let mut load = PartProcess::<FromLoad>::start("load", logs)?;
    let target = Target {
        servers: vec![url],
        access_key: "ak_CEILING".to_owned(),
        secret_key: "sk_CEILING".to_owned(),
        audience: "default".to_owned(),
        via: Via::Any,
        keys: Vec::new(),
        ca_pem: None,
    };
    load.speaker().say(&ToLoad::Connect(target)).await?;
    load.next().await?;
    let plan = Plan { first_id: 0, count: u64::MAX, due: Due::AtOnce, sleep_ms: 0 };
    let spec = LoadSpec { limit_s: LOOPBACK.as_secs_f64(), ..LoadSpec::new(plan, Pace::Closed { clients }) };
    load.speaker().say(&ToLoad::Run(spec)).await?;
    let ran = loop {
        if let FromLoad::Ran(ran) = load.next().await? {
            break ran;
        }
    };
    null.stop().await?;
    load.stop().await?;
    Ok(Loopback { per_s: ran.per_s().round(), latency: ran.latency.distribution() })
}
