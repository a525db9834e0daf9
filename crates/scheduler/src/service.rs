//! Starts the leader's loop whenever this node comes to lead.

use std::sync::Arc;
use std::time::Duration;

use orloj_model::id::TaskIds;
use orloj_model::random::Random;
use orloj_model::time::ClusterClock;
use orloj_raft_store::Store;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::callback::Callbacks;
use crate::handle::{Inner, Request, Scheduler, Snapshot};
use crate::lead::{Ended, Shared, lead};
use crate::link::ExecutorLink;
use crate::metrics::Metrics;
use crate::options::Options;

/// Requests that wait for the loop. More wait in their connections.
const REQUESTS: usize = 1_024;

/// Before a leadership that ended is taken up again.
const PAUSE: Duration = Duration::from_millis(20);

/// See the module.
pub struct Service {
    shared: Shared,
    requests: mpsc::Receiver<Request>,
    handle: Scheduler,
}

impl Service {
    /// A service that has not started, with its handle.
    pub fn new(
        store: Store,
        link: Arc<dyn ExecutorLink>,
        clock: ClusterClock,
        random: Arc<dyn Random>,
        options: Options,
        metrics: Metrics,
    ) -> Self {
        let (sender, requests) = mpsc::channel(REQUESTS);
        let (serving, watch_serving) = watch::channel(None);
        let (snapshot, watch_snapshot) = watch::channel(Snapshot::default());
        let inner = Inner {
            store: store.clone(),
            link: link.clone(),
            requests: sender,
            serving: watch_serving,
            snapshot: watch_snapshot,
            metrics: metrics.clone(),
        };
        let ids = Arc::new(TaskIds::new(random));
        let shared = Shared { store, link, clock, ids, options, serving, snapshot, metrics, callbacks: None };
        Service { shared, requests, handle: Scheduler { inner: Arc::new(inner) } }
    }

    /// Delivers callbacks too, while it leads.
    pub fn with_callbacks(mut self, callbacks: Callbacks) -> Self {
        self.shared.callbacks = Some(callbacks);
        self
    }

    /// The handle.
    pub fn handle(&self) -> Scheduler {
        self.handle.clone()
    }

    /// Runs until `shutdown`.
    ///
    /// # Errors
    /// The storage failed: the process must end.
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<(), String> {
        let mut leadership = self.shared.store.leadership();
        loop {
            let leading = leadership.borrow_and_update().leading;
            let ended = tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                ended = lead(&self.shared, &mut self.requests), if leading => Some(ended),
                changed = leadership.changed(), if !leading => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    None
                }
            };
            self.shared.serving.send_replace(None);
            self.shared.snapshot.send_replace(Snapshot::default());
            self.shared.metrics.idle();
            if matches!(ended, Some(Ended::Lost | Ended::NotYet)) {
                self.shared.forget_the_time();
            }
            match ended {
                None => continue,
                Some(Ended::Lost) => info!("leadership lost: everything in memory is dropped"),
                Some(Ended::NotYet) => debug!("elected, and not confirmed by a majority yet"),
                Some(Ended::Restart(why)) => warn!(%why, "the leader starts over in a new round"),
                Some(Ended::Storage(fault)) => {
                    error!(%fault, "storage fault while scheduling");
                    return Err(fault);
                }
            }
            // Whoever asked the loop that ended is told to look for the leader.
            while self.requests.try_recv().is_ok() {}
            // Whatever it was is not over at once; a change of leadership is not waited out.
            let _ = tokio::time::timeout(PAUSE, leadership.changed()).await;
        }
    }
}
