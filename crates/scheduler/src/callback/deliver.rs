//! The loop that delivers callbacks as long as its leadership lives.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use orloj_model::callback::{Callback, FailureKind, MAX_SENDS, SendOutcome};
use orloj_model::command::{CallbackCommand, Command};
use orloj_model::executor::ExecutorState;
use orloj_model::id::{Millis, Round, TaskId};
use orloj_model::query::{self, TaskView};
use orloj_model::random::Random;
use orloj_model::time::ClusterClock;
use orloj_model::{Event, Reply};
use orloj_raft_store::{AppliedEvents, Fault, ProposeError, Store};
use orloj_wire::callback::{
    ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, WebhookSecret, check_url, event_id, sign,
};
use orloj_wire::random::SystemRandom;
use tokio::sync::broadcast;
use tracing::debug;

use super::outbox::{Outbox, PER_HOST};
use super::own::of_replica;
use super::{Callbacks, Post};
use crate::metrics::Metrics;

/// The longest sleep: the wall clock may be stepped meanwhile.
const NAP: Duration = Duration::from_secs(1);
/// Before something that the cluster would not take is tried again.
const PAUSE: Duration = Duration::from_millis(500);
/// How often the end of a send is proposed before it is left to count as failed.
const TRIES: usize = 8;
/// After which a lane is read again of which the tables may tell nothing more, in milliseconds.
const LOOK_AGAIN_MS: Millis = 1_000;
/// How long what is known of the cluster's own listeners is good for.
const OWN_FRESH: Duration = Duration::from_secs(1);

/// One leadership's deliveries.
pub(crate) struct Delivery {
    pub(crate) store: Store,
    pub(crate) round: Round,
    pub(crate) clock: ClusterClock,
    pub(crate) callbacks: Callbacks,
    pub(crate) metrics: Metrics,
    pub(crate) own: OwnListeners,
}

/// Where the cluster itself listens, and when that was read.
#[derive(Default)]
pub(crate) struct OwnListeners(Mutex<Option<(Duration, Arc<[String]>)>>);

/// What applied entries change.
pub(crate) type Events = broadcast::Receiver<Arc<AppliedEvents>>;

/// A send that is over, or was none.
struct Ended {
    lane: String,
    task: TaskId,
    /// Whether anybody was there; `None` when nothing was sent.
    answered: Option<bool>,
    /// When the lane is to be read again, where that is not in the table's events.
    again_at: Option<Millis>,
}

type Sends<'a> = FuturesUnordered<BoxFuture<'a, Result<Ended, Fault>>>;

impl Delivery {
    /// Delivers until it is dropped; ends by itself only when the tables cannot be read. `events` were subscribed to
    /// before the call.
    pub(crate) async fn run(self, mut events: Events) -> Fault {
        match self.deliver(&mut events).await {
            Ok(never) => match never {},
            Err(fault) => fault,
        }
    }

    async fn deliver(&self, events: &mut Events) -> Result<Infallible, Fault> {
        let mut outbox = Outbox::default();
        let mut sends: Sends<'_> = FuturesUnordered::new();
        self.load(&mut outbox)?;
        loop {
            let now = self.clock.now_ms();
            while let Some((lane, room)) = outbox.next_due(now) {
                self.begin(&mut outbox, &sends, &lane, room)?;
            }
            let wait = outbox.next_wake(now).map_or(NAP, |at| {
                Duration::from_millis(u64::try_from(at.saturating_sub(now)).unwrap_or(0)).min(NAP)
            });
            tokio::select! {
                biased;
                Some(ended) = sends.next(), if !sends.is_empty() => {
                    let Ended { lane, task, answered, again_at } = ended?;
                    outbox.ended(&lane, task, answered);
                    if let Some(at) = again_at {
                        outbox.heard(&lane, at);
                    }
                }
                event = events.recv() => match event {
                    Ok(applied) if !applied.read_again() => hear(&mut outbox, &applied.events),
                    // Missed some, or a snapshot took the place of the tables.
                    Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => self.load(&mut outbox)?,
                    // The store is gone, and this leadership with it.
                    Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
                },
                // Full of sends: what is due waits for one of them to end.
                () = tokio::time::sleep(wait.max(Duration::from_millis(1))) => {}
            }
        }
    }

    /// Every lane of the outbox with the instant of its first entry, one read for each.
    fn load(&self, outbox: &mut Outbox) -> Result<(), Fault> {
        let view = self.store.view();
        let mut last: Option<String> = None;
        while let Some(key) = query::next_callback_lane(&view, last.as_deref())? {
            outbox.heard(&key.lane, key.at);
            last = Some(key.lane);
        }
        Ok(())
    }

    /// Reads the entries of a lane and begins to send those that are due.
    fn begin<'a>(
        &'a self,
        outbox: &mut Outbox,
        sends: &Sends<'a>,
        lane: &str,
        room: usize,
    ) -> Result<(), Fault> {
        let now = self.clock.now_ms();
        let limit = outbox.count(lane) + PER_HOST + 1;
        let entries = query::callbacks_of_lane(&self.store.view(), lane, limit)?;
        let mut free = entries.into_iter().filter(|key| !outbox.is_under_way(lane, key.task)).peekable();
        let mut due = Vec::new();
        while due.len() < room
            && let Some(key) = free.next_if(|key| key.at <= now)
        {
            due.push(key.task);
        }
        let next_at = free.peek().map(|key| key.at);
        drop(free);
        outbox.began(lane, &due, next_at);
        for task in due {
            sends.push(Box::pin(self.one(lane.to_owned(), task)));
        }
        Ok(())
    }

    /// One send, from its row to its outcome.
    async fn one(&self, lane: String, task: TaskId) -> Result<Ended, Fault> {
        let ended = |answered, again_at| Ended { lane: lane.clone(), task, answered, again_at };
        let view = self.store.view();
        let rows = (query::callback(&view, task)?, query::task(&view, task)?);
        drop(view);
        let (Some(callback), Some(state)) = rows else { return Ok(ended(None, None)) };
        if callback.sent >= MAX_SENDS {
            // The last one went away with its leader.
            let unknown = SendOutcome::failed(FailureKind::Unknown);
            let written = self.finish(task, callback.series, callback.sent, unknown).await;
            return Ok(ended(None, look_again(written, self.clock.now_ms())));
        }
        let number = callback.sent + 1;
        let start = CallbackCommand::Start { task, series: callback.series, number, chance: chance() };
        match self.propose(start).await {
            Ok(Reply::Done) => {}
            // It stands elsewhere by now: the table tells where.
            Ok(_) => return Ok(ended(None, Some(self.soon()))),
            Err(error) => {
                debug!(%error, %task, "a callback could not be begun");
                tokio::time::sleep(PAUSE).await;
                return Ok(ended(None, Some(self.soon())));
            }
        }
        let outcome = self.send(&callback, &state).await?;
        self.metrics.callback_sends.inc();
        if !matches!(outcome, SendOutcome::Delivered { .. }) {
            self.metrics.callback_failures.inc();
        }
        debug!(%task, number, ?outcome, "callback sent");
        let written = self.finish(task, callback.series, number, outcome).await;
        Ok(ended(is_answered(outcome), look_again(written, self.clock.now_ms())))
    }

    /// What becomes of a send that has been written down.
    async fn send(&self, callback: &Callback, task: &TaskView) -> Result<SendOutcome, Fault> {
        let blocked = SendOutcome::failed(FailureKind::Blocked);
        let Some(policy) = self.callbacks.tenants.policy(&task.spec.caller) else { return Ok(blocked) };
        let Ok(destination) = check_url(&callback.url, &policy.hosts) else { return Ok(blocked) };
        if policy.secrets.is_empty() {
            // Another replica may be able to open them, or this one after its next start.
            return Ok(if policy.unopened { SendOutcome::failed(FailureKind::Secret) } else { blocked });
        }
        let body = self.callbacks.tenants.body(task);
        let headers = self.headers(task.id, &policy.secrets, &body);
        let own = self.own_listeners()?;
        Ok(self.callbacks.link.post(Post { destination, headers, body, own }).await)
    }

    fn headers(&self, task: TaskId, secrets: &[WebhookSecret], body: &[u8]) -> Vec<(&'static str, String)> {
        let (id, now_s) = (event_id(task), self.clock.base().wall_ms().div_euclid(1000));
        let signature = sign(secrets, &id, now_s, body);
        vec![(ID_HEADER, id), (TIMESTAMP_HEADER, now_s.to_string()), (SIGNATURE_HEADER, signature)]
    }

    /// Where the replicas and the executors listen. Executors are many, and sends too: what was read a moment ago is
    /// good enough.
    fn own_listeners(&self) -> Result<Arc<[String]>, Fault> {
        // Nothing that holds this lock can panic half-way through a change.
        let mut known = self.own.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.base().monotonic();
        if let Some((at, own)) = known.as_ref()
            && now.saturating_sub(*at) < OWN_FRESH
        {
            return Ok(Arc::clone(own));
        }
        let ports = &self.callbacks.own_ports;
        let members = self.store.members().into_iter();
        let replicas = members.flat_map(|member| of_replica(&member.internal, &member.api, ports));
        let executors = query::executors(&self.store.view())?;
        // One that has left listens no more, and its name may be gone with it.
        let executors = executors.into_iter().filter(|executor| executor.state != ExecutorState::Left);
        let executors = executors.map(|executor| executor.registration.address);
        let own: Arc<[String]> = replicas.chain(executors).collect();
        *known = Some((now, Arc::clone(&own)));
        Ok(own)
    }

    /// Writes down how a send ended; `false` when that could not be done.
    #[must_use = "a lane whose send was not written down must be read again"]
    async fn finish(&self, task: TaskId, series: u32, number: u8, outcome: SendOutcome) -> bool {
        for _ in 0..TRIES {
            let command = CallbackCommand::Finish { task, series, number, outcome, chance: chance() };
            match self.propose(command).await {
                Ok(_) => return true,
                Err(error) => debug!(%error, %task, "the end of a callback could not be written down"),
            }
            tokio::time::sleep(PAUSE).await;
        }
        false
    }

    async fn propose(&self, command: CallbackCommand) -> Result<Reply, ProposeError> {
        let command = Command::Callback(Box::new(command));
        let mut applied = self.store.propose_in_round(self.round, vec![command]).await?;
        applied.pop().map(|applied| applied.reply).ok_or(ProposeError::Unknown)
    }

    fn soon(&self) -> Millis {
        self.clock.now_ms() + LOOK_AGAIN_MS
    }
}

fn hear(outbox: &mut Outbox, events: &[Event]) {
    for event in events {
        if let Event::CallbackDue { lane, at } = event {
            outbox.heard(lane, *at);
        }
    }
}

/// When the lane of a send that is over is to be read again. Its entry may have come up while the send was under way; if
/// the end of that was not written down, no event of the tables tells of the entry any more.
fn look_again(written: bool, now: Millis) -> Option<Millis> {
    (!written).then_some(now + LOOK_AGAIN_MS)
}

/// Whether somebody was there; `None` where nothing was sent, which tells nothing of the receiver.
fn is_answered(outcome: SendOutcome) -> Option<bool> {
    match outcome {
        SendOutcome::Delivered { .. } => Some(true),
        SendOutcome::Failed { kind: FailureKind::Blocked | FailureKind::Secret, .. } => None,
        SendOutcome::Failed { kind, .. } => Some(kind == FailureKind::Status),
    }
}

/// 0-1000, for jitter.
fn chance() -> u16 {
    let mut bytes = [0; 2];
    SystemRandom.fill(&mut bytes);
    u16::from_be_bytes(bytes) % 1001
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_whose_send_was_not_written_down_is_read_again() {
        let (mut outbox, lane, task) = (Outbox::default(), "h c", TaskId([1; 16]));
        outbox.heard(lane, 0);
        // Its one entry comes up while it is being sent: there is nothing behind it.
        outbox.began(lane, &[task], None);
        outbox.ended(lane, task, None);
        assert_eq!(outbox.next_wake(0), None);
        assert_eq!(look_again(true, 5_000), None);
        let at = look_again(false, 5_000).expect("it is read again");
        outbox.heard(lane, at);
        assert_eq!(outbox.next_wake(5_000), Some(5_000 + LOOK_AGAIN_MS));
    }

    #[test]
    fn only_what_was_sent_tells_of_the_receiver() {
        let of = |kind| is_answered(SendOutcome::failed(kind));
        assert_eq!([of(FailureKind::Blocked), of(FailureKind::Secret)], [None, None]);
        assert_eq!([of(FailureKind::Status), of(FailureKind::Timeout)], [Some(true), Some(false)]);
        assert_eq!(is_answered(SendOutcome::Delivered { status: 204 }), Some(true));
    }
}
