//! The loop that lives only while this node leads.
//!
//! It owns the [`Core`], feeds it events one by one, and carries out the steps that it asks for in tasks of
//! their own, whose answers come back as events. When the leadership ends, the loop and all of those tasks are
//! dropped as they stand: fences and rounds make that safe.

mod callbacks;
mod fires;
mod fresh;
mod graph;
mod jobs;
mod late;
mod live;
mod load;
mod parcel;
mod rows;
mod work;

use std::sync::Arc;
use std::time::Duration;

use orloj_model::id::{ExecutorId, Round, TaskIds};
use orloj_model::mutant::{Mutant, is_on};
use orloj_model::time::ClusterClock;
use orloj_model::{Command, Event, Reply, query};
use orloj_raft_store::{AppliedEvents, ProposeError, Store};
use orloj_wire::protocol::Registered;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::JoinSet;
use tracing::{debug, info, warn};

use crate::callback::Callbacks;
use crate::core::{Core, Liveness, Now};
use crate::handle::{Probe, Request, Snapshot};
use crate::link::ExecutorLink;
use crate::metrics::Metrics;
use crate::options::Options;

use fresh::FreshTasks;
use graph::GraphWork;
use late::LateView;
use load::Window;
use work::Done;

/// How often the loop looks after executors and clocks when nothing else wakes it.
const HOUSEKEEPING: Duration = Duration::from_millis(200);
/// A loop that did not turn for this long stood still; executors are not to blame for their silence.
const STOOD_STILL_MS: u64 = 2_000;
/// Rows read per page while loading.
const PAGE: usize = 4_096;
/// Events taken at one go before planning, so that one plan serves many.
const EVENTS_PER_TURN: usize = 512;

/// What a leadership needs.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) link: Arc<dyn ExecutorLink>,
    pub(crate) clock: ClusterClock,
    pub(crate) ids: Arc<TaskIds>,
    pub(crate) options: Options,
    pub(crate) serving: watch::Sender<Option<Round>>,
    pub(crate) snapshot: watch::Sender<Snapshot>,
    pub(crate) metrics: Metrics,
    pub(crate) callbacks: Option<Callbacks>,
}

impl Shared {
    /// Nothing outlives the leadership, the time of an uncommitted wall clock neither.
    pub(crate) fn forget_the_time(&self) {
        self.clock.forget(self.store.stamp().now_ms);
    }

    fn now(&self) -> Now {
        let base = self.clock.base();
        let cluster_ms = self.clock.now_ms();
        let wall_ms = base.wall_ms();
        let mono_ms = match is_on(Mutant::WheelOnWallClock) {
            true => wall_ms.unsigned_abs(),
            false => u64::try_from(base.monotonic().as_millis()).unwrap_or(u64::MAX),
        };
        Now { mono_ms, wall_ms, cluster_ms }
    }
}

/// Why a leadership ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Another node leads, or none does.
    Lost,
    /// The round could not begin: this node is elected and cannot commit yet.
    NotYet,
    /// The loop missed something and begins again from the tables, in a new round.
    Restart(&'static str),
    /// The storage failed.
    Storage(String),
}

impl From<orloj_raft_store::Fault> for Ended {
    fn from(fault: orloj_raft_store::Fault) -> Self {
        Ended::Storage(fault.to_string())
    }
}

/// Leads until that ends.
pub(crate) async fn lead(shared: &Shared, requests: &mut mpsc::Receiver<Request>) -> Ended {
    let mut leader = match Leader::begin(shared).await {
        Ok(leader) => leader,
        Err(ended) => return ended,
    };
    // Whoever asked before this node served asked a loop that has ended; its words may be old.
    while requests.try_recv().is_ok() {}
    info!(round = leader.round, "serving");
    shared.serving.send_replace(Some(leader.round));
    loop {
        if let Err(ended) = leader.turn(requests).await {
            return ended;
        }
    }
}

struct Leader<'a> {
    shared: &'a Shared,
    round: Round,
    core: Core,
    events: broadcast::Receiver<Arc<AppliedEvents>>,
    leadership: watch::Receiver<orloj_raft_store::Leadership>,
    term: u64,
    work: JoinSet<()>,
    done: mpsc::UnboundedReceiver<Done>,
    /// Bounded by what the core lets be under way: one push, stop and announcement per executor, and
    /// proposals by their own limit.
    finished: mpsc::UnboundedSender<Done>,
    fresh: FreshTasks,
    graph: GraphWork,
    /// What comes near, while that is being taken in.
    window: Option<Window>,
    /// A majority is being asked whether it still follows.
    confirming: bool,
    last_turn_ms: u64,
    next_tending: tokio::time::Instant,
}

impl<'a> Leader<'a> {
    /// Raises the round, waits for everything before it, and loads what is in the tables.
    async fn begin(shared: &'a Shared) -> Result<Self, Ended> {
        let mut leadership = shared.store.leadership();
        let state = *leadership.borrow_and_update();
        if !state.leading {
            return Err(Ended::Lost);
        }
        let leader = shared.store.status().id.unwrap_or_default();
        let reply = shared.store.propose(Command::BeginRound { leader }).await;
        let round = match reply.map(|applied| applied.reply) {
            Ok(Reply::Round(round)) => round,
            Ok(_) => return Err(Ended::Restart("the round did not begin")),
            Err(error) => {
                debug!(%error, "the round did not begin");
                return Err(Ended::NotYet);
            }
        };
        if shared.store.barrier().await.is_err() {
            return Err(Ended::NotYet);
        }
        // Subscribed before the tables are read, so that nothing falls between, and not sooner: what earlier leaders
        // granted is in the tables by now, and stays granted until somebody reports.
        let events = shared.store.events();
        // An earlier leader's clock may have been ahead of ours: the cluster's time goes on from there.
        shared.clock.raise_to(shared.store.stamp().now_ms);
        let now = shared.now();
        let (finished, done) = mpsc::unbounded_channel();
        let mut leader = Leader {
            core: Core::new(shared.options.clone(), round, now),
            shared,
            round,
            events,
            term: state.term,
            leadership,
            work: JoinSet::new(),
            done,
            finished,
            fresh: FreshTasks::default(),
            graph: GraphWork::default(),
            window: None,
            confirming: false,
            last_turn_ms: now.mono_ms,
            next_tending: tokio::time::Instant::now(),
        };
        shared.metrics.rounds.inc();
        leader.load().await?;
        leader.deliver_callbacks();
        Ok(leader)
    }

    /// Waits for something to happen, takes in everything that has, decides, and sends off what was decided.
    async fn turn(&mut self, requests: &mut mpsc::Receiver<Request>) -> Result<(), Ended> {
        self.pump()?;
        if self.window.is_some() {
            // The next page is read at once; others have the thread before that.
            tokio::task::yield_now().await;
        }
        let wake = self.wake_at();
        tokio::select! {
            biased;
            changed = self.leadership.changed() => {
                let state = *self.leadership.borrow_and_update();
                if changed.is_err() || !state.leading || state.term != self.term {
                    return Err(Ended::Lost);
                }
            }
            Some(done) = self.done.recv() => {
                self.finish(done)?;
                while let Ok(done) = self.done.try_recv() {
                    self.finish(done)?;
                }
            }
            event = self.events.recv() => self.take_events(event)?,
            Some(request) = requests.recv() => self.answer(request),
            () = tokio::time::sleep_until(wake) => {}
        }
        while let Ok(request) = requests.try_recv() {
            self.answer(request);
        }
        Ok(())
    }

    /// The core's turn: time, due rows, the window, the plan, the sending.
    fn pump(&mut self) -> Result<(), Ended> {
        let now = self.shared.now();
        let gap = now.mono_ms.saturating_sub(self.last_turn_ms);
        self.last_turn_ms = now.mono_ms;
        if gap > STOOD_STILL_MS {
            warn!(gap_ms = gap, "the leader's loop stood still");
            self.core.forgive(gap, now);
        }
        let late = self.core.next_expiry().is_some_and(|at| at <= now.mono_ms);
        if let Some(step_ms) = self.core.advance(now) {
            warn!(step_ms, "the wall clock was stepped");
            self.shared.metrics.clock_steps.inc();
        }
        self.load_window()?;
        let due = self.core.next_due(now);
        if !due.is_empty() {
            let (view, mut specs) = (LateView::of(&self.shared.store), rows::Specs::default());
            for shard in due {
                let candidate = match self.fresh.candidate(shard) {
                    Some(candidate) => Some(candidate),
                    None => rows::candidate(&view, shard, &mut specs)?,
                };
                match candidate {
                    Some(candidate) => rows::ready(&mut self.core, &view, candidate, now)?,
                    None => self.core.not_waiting(shard),
                }
            }
        }
        if tokio::time::Instant::now() >= self.next_tending {
            self.next_tending = tokio::time::Instant::now() + HOUSEKEEPING;
            self.core.tend_executors(now);
            self.core.retry();
            self.gauges();
            let (probe, live) = (self.probe(now), self.live(now));
            self.shared.snapshot.send_replace(Snapshot { probe, live });
        }
        self.core.plan_jobs();
        self.go_on_with_graphs()?;
        self.core.plan(now);
        self.core.send(now);
        for step in self.core.take_steps() {
            self.start(step, late);
        }
        Ok(())
    }

    fn wake_at(&self) -> tokio::time::Instant {
        let now = tokio::time::Instant::now();
        if self.window.is_some() || self.core.has_more_to_plan() {
            return now;
        }
        let mono_ms = self.shared.now().mono_ms;
        let timer = self.core.next_expiry().map(|at| now + Duration::from_millis(at.saturating_sub(mono_ms)));
        timer.map_or(self.next_tending, |timer| timer.min(self.next_tending))
    }

    fn take_events(
        &mut self,
        first: Result<Arc<AppliedEvents>, broadcast::error::RecvError>,
    ) -> Result<(), Ended> {
        let now = self.shared.now();
        let mut next = match first {
            Ok(applied) => Some(applied),
            Err(_) => return Err(Ended::Restart("the loop fell behind the applied changes")),
        };
        let mut taken = 0;
        while let Some(applied) = next.take() {
            if applied.read_again() {
                return Err(Ended::Restart("a snapshot took the place of the tables"));
            }
            for event in &applied.events {
                self.event(event, now)?;
            }
            taken += 1;
            if taken == EVENTS_PER_TURN {
                break;
            }
            next = match self.events.try_recv() {
                Ok(applied) => Some(applied),
                Err(broadcast::error::TryRecvError::Empty) => None,
                Err(_) => return Err(Ended::Restart("the loop fell behind the applied changes")),
            };
        }
        Ok(())
    }

    fn event(&mut self, event: &Event, now: Now) -> Result<(), Ended> {
        match event {
            Event::RoundBegan { round, .. } if *round > self.round => return Err(Ended::Lost),
            Event::ExecutorChanged { executor } => {
                if let Some(row) = query::executor(&self.shared.store.view(), executor)? {
                    self.core.executor_row(row, now);
                }
            }
            Event::Submitted { task, due_at, spec } if self.core.is_wanted(*task, *due_at) => {
                self.fresh.add(*task, *due_at, spec);
            }
            Event::GraphWaits { work } => self.graph.add(*work),
            event => {
                if let Event::JobChanged { job, .. } = event
                    && self.core.knows_limit(job)
                {
                    self.core.limit_job(job, rows::limit_of(&self.shared.store.view(), job)?);
                }
                if let Event::TaskChanged { task, status, .. } = event
                    && status.is_terminal()
                {
                    self.fresh.remove(*task);
                }
                self.core.event(event, now);
            }
        }
        Ok(())
    }

    fn answer(&mut self, request: Request) {
        let now = self.shared.now();
        match request {
            Request::Register(registration, holding, respond) => {
                self.register(registration, holding, respond);
            }
            // An asker that has gone needs no answer.
            Request::Heartbeat(beat, respond) => drop(respond.send(self.core.heartbeat(beat, now))),
            Request::Reported(executor, ended) => self.core.reported(&executor, &ended),
        }
    }

    fn registered(&mut self, id: &ExecutorId, holding: &[orloj_wire::protocol::Held]) -> Registered {
        let now = self.shared.now();
        let mut replicas: Vec<_> =
            self.shared.store.members().into_iter().map(|member| (member.id, member.internal)).collect();
        let own = self.shared.store.status().id;
        replicas.sort_by_key(|(id, _)| (Some(*id) != own, *id));
        Registered {
            round: self.round,
            heartbeat_ms: self.shared.options.heartbeat_ms,
            stale: self.core.compare(id, holding, false, now),
            replicas: replicas.into_iter().map(|(_, internal)| internal).collect(),
        }
    }

    fn gauges(&self) {
        let counts = self.core.counts();
        let set = |gauge: &prometheus_client::metrics::gauge::Gauge<i64, _>, value: usize| {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        set(&self.shared.metrics.wheel, counts.timed + counts.job_timers);
        set(&self.shared.metrics.waiting, counts.waiting);
        set(&self.shared.metrics.running, counts.held);
        set(&self.shared.metrics.jobs_waiting, counts.jobs_waiting);
        let alive = self.core.executors().filter(|exec| exec.liveness() == Liveness::Alive);
        set(&self.shared.metrics.executors, alive.count());
    }

    fn probe(&self, now: Now) -> Probe {
        let counts = self.core.counts();
        let until =
            |at: u64| i64::try_from(at).unwrap_or(i64::MAX) - i64::try_from(now.mono_ms).unwrap_or(i64::MAX);
        Probe {
            wheel_size: counts.timed,
            oldest_due_timer_ms: self.core.oldest_timer().map(until),
            waiting: counts.waiting,
            oldest_waiting_ms: self.core.oldest_waiting().map(|since| now.cluster_ms - since),
            granting: counts.granting,
            running: counts.held,
            job_timers: counts.job_timers,
            jobs_waiting: counts.jobs_waiting,
            wall_offset_ms: counts.wall_offset_ms,
            clock_steps: counts.clock_steps,
        }
    }
}

/// What a failed proposal means for the leadership.
fn lost_or_again(error: &ProposeError) -> Ended {
    match error {
        ProposeError::NotLeader { .. } | ProposeError::NoLeader | ProposeError::Stopped => Ended::Lost,
        ProposeError::Unknown => Ended::Restart("the outcome of a proposal is unknown"),
        ProposeError::Overloaded | ProposeError::DiskLow | ProposeError::TooLarge { .. } => {
            Ended::Restart("a command did not fit")
        }
    }
}
