//! The jobs of a run: put before the load, stopped after it, read at the end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use orloj_jepsen_agents::jobs::Common;
use orloj_wire::sign::Secret;
use tokio_util::sync::CancellationToken;

use super::around::callback_url;
use super::stage::Stage;
use crate::agents::client::Credentials;
use crate::agents::jobs::{self, Caller, Jobs};
use crate::agents::recorder::Recorder;
use crate::hosts::{self, ADMIN, API_PORT, REPLICAS};
use crate::inside::Inside;
use crate::plan::RunOptions;
use crate::wait::{monotonic, until};

/// Until the first of them all are put.
const PUT: Duration = Duration::from_secs(180);
/// Until all of them are stopped.
const STOPPED: Duration = Duration::from_secs(180);

/// Jobs that fire.
pub struct Firing {
    thread: Inside<Result<Vec<String>>>,
    stop: CancellationToken,
    recorder: Recorder,
}

impl Firing {
    /// Puts the jobs of a run and waits until they are there.
    ///
    /// # Errors
    /// The cluster does not take them.
    pub fn begin(stage: &Stage, options: &RunOptions) -> Result<Firing> {
        let recorder = Recorder::create(&stage.dir.parts(), "jobs")?;
        let (ready, stop) = (Arc::new(AtomicBool::new(false)), CancellationToken::new());
        let common = Common {
            callback_url: stage.cluster.knows_sink.then(callback_url),
            elsewhere: vec!["echo".to_owned()],
        };
        let jobs = Jobs::new(
            caller(stage, 0)?,
            recorder.clone(),
            options.jobs,
            common,
            options.agents_seed,
            Arc::clone(&ready),
        );
        let told = stop.clone();
        let thread = stage.fabric.host(ADMIN).spawn_inside("jobs", move || jobs.run(told))?;
        let firing = Firing { thread, stop, recorder };
        until("every job is put", PUT, || {
            let over = firing.thread.is_finished();
            Ok((over || ready.load(Ordering::SeqCst)).then_some(()))
        })?;
        Ok(firing)
    }

    /// Stops every job. Returns what is to be read of them.
    ///
    /// # Errors
    /// A job could not be put or stopped.
    pub fn end(self) -> Result<Fired> {
        self.stop.cancel();
        let deadline = monotonic() + STOPPED;
        while !self.thread.is_finished() {
            ensure!(monotonic() < deadline, "the jobs are not stopped within {STOPPED:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Fired { jobs: self.thread.join()??, recorder: self.recorder })
    }
}

/// Jobs that have fired.
pub struct Fired {
    jobs: Vec<String>,
    recorder: Recorder,
}

impl Fired {
    /// Reads what became of their instants, at each replica the same.
    ///
    /// # Errors
    /// A history cannot be read, or what was seen of the jobs cannot be written down.
    pub fn read(self, stage: &Stage) -> Result<()> {
        let readers = REPLICAS.into_iter().enumerate().map(|(place, name)| {
            // Each reads a part, and the whole of the few that a short run has.
            let all = self.jobs.len() <= FEW;
            let own = |(number, _): &(usize, &String)| all || number % REPLICAS.len() == place;
            let jobs = self.jobs.iter().enumerate().filter(own).map(|(_, job)| job.clone()).collect();
            let (caller, recorder) = (caller(stage, place)?, self.recorder.clone());
            let read = move || jobs::read(caller, name, jobs, recorder);
            stage.fabric.host(ADMIN).spawn_inside("job-history", read)
        });
        let readers: Vec<_> = readers.collect::<Result<_>>()?;
        for reader in readers {
            reader.join()?.context("the history of jobs")?;
        }
        self.recorder.finish()
    }
}

/// So many jobs are read at each replica.
const FEW: usize = 60;

/// The harness's caller, which asks the replica at this place first.
fn caller(stage: &Stage, place: usize) -> Result<Caller> {
    let keys = &stage.cluster.keys;
    let credentials = Credentials {
        audience: "default".to_owned(),
        access_key: keys.access_key.clone(),
        secret: Secret::new(keys.secret_key.clone()).context("an empty secret")?,
    };
    let address = |name: &&str| hosts::address(name, API_PORT).parse::<SocketAddr>();
    let mut addresses: Vec<SocketAddr> = REPLICAS.iter().map(address).collect::<Result<_, _>>()?;
    addresses.rotate_left(place);
    Ok(Caller::new(&addresses, &credentials))
}
