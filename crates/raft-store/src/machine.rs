//! The adapter between openraft and the model: committed entries in, tables and replies out.
//!
//! What is done with the entries themselves stands in [`applier`](crate::applier).

use std::io;
use std::sync::Arc;

use futures_util::{Stream, StreamExt as _};
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine, Snapshot};
use openraft::{OptionalSend, alias::SnapshotOf};
use orloj_model::Clock;
use tokio::sync::mpsc;

use crate::applier::Applier;
use crate::disk::Disk;
use crate::error::Fault;
use crate::events::AppliedEvents;
use crate::faults::Faults;
use crate::published::Published;
use crate::runner::{Runner, blocking};
use crate::snapshot::{Handle, Live, Snapshots, Taken};
use crate::tables::{Position, StateDb};
use crate::types::{LogId, LogState, LoggedMembership, SnapshotMeta, TypeConfig};

/// The state machine.
pub struct Machine {
    live: Live,
    tables: Applier,
    snapshots: Arc<Snapshots>,
    disk: Arc<Disk>,
    faults: Faults,
    runner: Arc<dyn Runner>,
    /// Closes when the machine is dropped, and with it its hold on the database.
    _alive: mpsc::Sender<()>,
}

impl Machine {
    /// A machine over an open state database. `alive` is dropped with it.
    ///
    /// # Errors
    /// IO or damage.
    pub fn new(
        (live, state): (Live, StateDb),
        (snapshots, disk, faults): (Arc<Snapshots>, Arc<Disk>, Faults),
        (runner, clock): (Arc<dyn Runner>, Arc<dyn Clock>),
        alive: mpsc::Sender<()>,
    ) -> Result<Machine, Fault> {
        let position = state.position()?;
        let published = Arc::new(Published::new(&state, &position, faults.clone()));
        let tables = Applier { state, position, published, clock };
        tables.hear_of_the_tables();
        Ok(Machine { live, tables, snapshots, disk, faults, runner, _alive: alive })
    }

    /// What it publishes.
    pub fn published(&self) -> Arc<Published> {
        Arc::clone(&self.tables.published)
    }

    /// Its position, for status and tests.
    pub fn position(&self) -> &Position {
        &self.tables.position
    }

    /// Takes a snapshot where the log begins, or will begin, behind the last one. A crash can leave it so: what
    /// was applied just before need not be in the log of this node yet, and openraft then lets the log begin
    /// there. Whoever needs the entries between would be sent the old snapshot again and again.
    ///
    /// # Errors
    /// IO.
    pub async fn cover(&self, log: &LogState) -> Result<(), Fault> {
        let applied = self.tables.position.applied;
        let begins = if log.last_log_id < applied { applied } else { log.last_purged_log_id };
        let covered = self.snapshots.current().and_then(|current| current.meta().last_log_id);
        if begins <= covered || applied <= covered {
            return Ok(());
        }
        let (taken, snapshots) = (self.take().await?, Arc::clone(&self.snapshots));
        blocking(&*self.runner, move || snapshots.keep(taken)).await.map(|_| ())
    }

    async fn apply_all<S>(&mut self, mut entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder<TypeConfig>, io::Error>> + Unpin + OptionalSend,
    {
        let mut work = self.tables.begin();
        while let Some(item) = entries.next().await {
            let (entry, responder) = item?;
            work = self.tables.apply(work, entry, responder)?;
        }
        Ok(self.tables.commit(work)?)
    }

    async fn install(&mut self, snapshot: Handle) -> Result<(), Fault> {
        let (mut live, old, snapshots) =
            (self.live.clone(), self.tables.state.clone(), Arc::clone(&self.snapshots));
        let work = move || {
            let state = live.replace(&old, &snapshot)?;
            let position = state.position()?;
            if position.applied != snapshot.meta().last_log_id {
                let (found, named) = (position.index(), snapshot.index());
                return Err(Fault::Damaged(format!("the snapshot at {named} holds the tables at {found}")));
            }
            snapshots.adopt(&snapshot)?;
            Ok((live, state, position))
        };
        (self.live, self.tables.state, self.tables.position) = blocking(&*self.runner, work).await?;
        self.tables.published.replace(&self.tables.state);
        self.tables.published.advance(&self.tables.position, true);
        self.tables.hear_of_the_tables();
        self.tables
            .published
            .tell(vec![AppliedEvents { index: self.tables.position.index(), events: Vec::new() }]);
        tracing::info!(index = self.tables.position.index(), "a snapshot took the place of the tables");
        Ok(())
    }

    fn meta(&self) -> SnapshotMeta {
        SnapshotMeta {
            last_log_id: self.tables.position.applied,
            last_membership: self.tables.position.membership.clone(),
        }
    }

    /// Takes a checkpoint now, between two applies, so that data and position agree.
    async fn take(&self) -> Result<Taken, Fault> {
        let (snapshots, state, meta) = (Arc::clone(&self.snapshots), self.tables.state.clone(), self.meta());
        blocking(&*self.runner, move || snapshots.take(&state, meta)).await
    }

    fn report<T>(&self, result: Result<T, io::Error>) -> Result<T, io::Error> {
        if let Err(error) = &result {
            self.faults.raise(error);
        }
        result
    }
}

impl RaftStateMachine<TypeConfig> for Machine {
    type SnapshotData = Handle;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, LoggedMembership), io::Error> {
        Ok((self.tables.position.applied, self.tables.position.membership.clone()))
    }

    async fn apply<S>(&mut self, entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder<TypeConfig>, io::Error>> + Unpin + OptionalSend,
    {
        let applied = self.apply_all(entries).await;
        self.report(applied)
    }

    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<Builder> {
        if !force && self.disk.is_low() {
            tracing::warn!("no snapshot is taken: the disk is nearly full");
            return None;
        }
        Some(self.get_snapshot_builder().await)
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        let taken = match self.snapshots.current() {
            Some(current) if current.meta().last_log_id == self.tables.position.applied => {
                Ok(Made::Already(current))
            }
            _ => self.take().await.map(Made::Now),
        };
        Builder {
            made: Some(taken),
            snapshots: Arc::clone(&self.snapshots),
            faults: self.faults.clone(),
            runner: Arc::clone(&self.runner),
        }
    }

    async fn install_snapshot(&mut self, _: &SnapshotMeta, snapshot: Handle) -> Result<(), io::Error> {
        let installed = self.install(snapshot).await.map_err(io::Error::from);
        self.report(installed)
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<SnapshotOf<TypeConfig, Handle>>, io::Error> {
        Ok(self.snapshots.current().map(whole))
    }
}

fn whole(handle: Handle) -> SnapshotOf<TypeConfig, Handle> {
    Snapshot { meta: handle.meta().clone(), snapshot: handle }
}

/// Makes a checkpoint into a durable snapshot, while the machine goes on.
pub struct Builder {
    made: Option<Result<Made, Fault>>,
    snapshots: Arc<Snapshots>,
    faults: Faults,
    runner: Arc<dyn Runner>,
}

enum Made {
    /// The current snapshot stands for the same entries.
    Already(Handle),
    Now(Taken),
}

impl RaftSnapshotBuilder<TypeConfig> for Builder {
    type SnapshotData = Handle;

    async fn build_snapshot(&mut self) -> Result<SnapshotOf<TypeConfig, Handle>, io::Error> {
        let made = self.made.take().ok_or_else(|| io::Error::other("the snapshot was built before"))?;
        let kept = match made {
            Ok(Made::Already(current)) => Ok(current),
            Ok(Made::Now(taken)) => {
                let snapshots = Arc::clone(&self.snapshots);
                blocking(&*self.runner, move || snapshots.keep(taken)).await
            }
            Err(fault) => Err(fault),
        };
        match kept {
            Ok(handle) => Ok(whole(handle)),
            Err(fault) => {
                self.faults.raise(&fault);
                Err(fault.into())
            }
        }
    }
}
