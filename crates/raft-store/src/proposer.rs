//! From commands to log entries: one task packs what is waiting into as few entries as their limits allow.
//!
//! While earlier entries are on their way to the disks, later commands gather, and the next entry takes them all;
//! an idle cluster proposes a command at once. Each entry costs a sync of three disks and a round of messages,
//! whatever it carries: what no caller waits for, such as a grant or a report, keeps a distance of [`PACE`] from the
//! entry before, unless a caller's command comes by and takes it along, or enough of it has gathered. The queue is
//! bounded by bytes, and beyond it a caller is refused at once instead of waiting in vain.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use openraft::errors::{ClientWriteError, ForwardToLeader};
use openraft::impls::ProgressResponder;
use orloj_model::id::Round;
use orloj_model::{Batch, Clock, Command, Reply};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::codec::{self, BATCH_LIMIT, Schema};
use crate::config::ProposalOptions;
use crate::failure::ProposeError;
use crate::machine::Machine;
use crate::runtime::to_its_end;
use crate::types::{EncodedBatch, Raft, TypeConfig};

/// A command that has been applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The index of its entry in the log.
    pub index: u64,
    /// What it answered.
    pub reply: Reply,
}

/// Distance from the entry before that is kept by an entry for which no caller waits. On a busy cluster it is cut
/// short by [`COMPANY`], on an idle one nothing went before: in between, an attempt may begin so much later, and a slot
/// be idle for so long.
const PACE: Duration = Duration::from_millis(5);
/// So many changes are worth an entry at once.
const COMPANY: usize = 16;

/// Bytes that a batch takes besides its changes: time, round, count, and where need be the wall clock.
const BATCH_OVERHEAD: u64 = 24 + 12;
/// How far the cluster's time may be ahead of the wall clock before an entry says so, in milliseconds: rounding and the
/// slow correction of a clock are no reason to.
const AHEAD_UNTOLD_MS: i64 = 10;

type Outcome = Result<(u64, Vec<Reply>), ProposeError>;

/// Whether commands may keep the distance from the entry before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Haste {
    /// If no caller waits for commands of their kind.
    ByKind,
    /// They are late already.
    AtOnce,
}

/// Commands that go into one entry together, and who waits for them.
struct Item {
    round: Round,
    commands: Vec<Command>,
    waiter: Waiter,
    /// No caller waits for it.
    patient: bool,
}

struct Waiter {
    commands: usize,
    bytes: u64,
    answer: oneshot::Sender<Outcome>,
    _share: Share,
}

/// A part of the queue's bytes; given back when it is dropped.
struct Share {
    used: Arc<AtomicUsize>,
    bytes: usize,
}

impl Share {
    fn take(used: &Arc<AtomicUsize>, bytes: usize, limit: usize) -> Option<Share> {
        let before = used.fetch_add(bytes, Ordering::Relaxed);
        let share = Share { used: Arc::clone(used), bytes };
        (before.saturating_add(bytes) <= limit).then_some(share)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Where commands are handed in.
pub struct Proposer {
    options: ProposalOptions,
    queue: mpsc::UnboundedSender<Item>,
    used: Arc<AtomicUsize>,
}

/// Where they come out again, packed.
pub struct Packer {
    options: ProposalOptions,
    queue: mpsc::UnboundedReceiver<Item>,
    /// Taken from the queue and not packed yet: they did not fit into the last entry, or stay for company.
    held: VecDeque<Item>,
    /// Before this, an entry for which no caller waits is too close to the one before.
    paced: Instant,
    clock: Arc<dyn Clock>,
}

/// Both ends of the queue.
pub fn queue(options: ProposalOptions, clock: Arc<dyn Clock>) -> (Proposer, Packer) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let proposer = Proposer { options, queue: sender, used: Arc::default() };
    (proposer, Packer { options, queue: receiver, held: VecDeque::new(), paced: Instant::now(), clock })
}

impl Proposer {
    /// Hands commands in and waits until they have been applied, or the deadline has passed.
    ///
    /// # Errors
    /// See [`ProposeError`]. When some of several entries came to nothing and others did not, the outcome is
    /// unknown.
    pub async fn propose(
        &self,
        haste: Haste,
        round: Round,
        commands: Vec<Command>,
    ) -> Result<Vec<Applied>, ProposeError> {
        let deadline = Instant::now() + Duration::from_millis(self.options.deadline_ms);
        let mut applied = Vec::with_capacity(commands.len());
        let mut failed: Option<ProposeError> = None;
        for answer in self.enqueue(haste, round, commands)? {
            let outcome = match tokio::time::timeout_at(deadline, answer).await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(_)) => Err(ProposeError::Stopped),
                Err(_) => Err(ProposeError::Unknown),
            };
            match outcome {
                Ok((index, replies)) => {
                    applied.extend(replies.into_iter().map(|reply| Applied { index, reply }));
                }
                Err(error) if failed.as_ref().is_none_or(|first| *first == error) => failed = Some(error),
                Err(_) => failed = Some(ProposeError::Unknown),
            }
        }
        match failed {
            None => Ok(applied),
            Some(error) if applied.is_empty() => Err(error),
            Some(_) => Err(ProposeError::Unknown),
        }
    }

    fn enqueue(
        &self,
        haste: Haste,
        round: Round,
        commands: Vec<Command>,
    ) -> Result<Vec<oneshot::Receiver<Outcome>>, ProposeError> {
        let mut sizes = Vec::with_capacity(commands.len());
        for command in &commands {
            sizes.push(size_of(command)?);
        }
        let total = sizes.iter().sum::<u64>() as usize;
        // One share for all, taken before anything is queued, and split among the entries.
        let whole =
            Share::take(&self.used, total, self.options.queue_bytes).ok_or(ProposeError::Overloaded)?;
        let mut answers = Vec::new();
        for (commands, bytes) in self.split(commands, &sizes) {
            self.used.fetch_add(bytes as usize, Ordering::Relaxed);
            let share = Share { used: Arc::clone(&self.used), bytes: bytes as usize };
            let (answer, answered) = oneshot::channel();
            let waiter = Waiter { commands: commands.len(), bytes, answer, _share: share };
            let patient = haste == Haste::ByKind && commands.iter().all(can_wait);
            self.queue.send(Item { round, commands, waiter, patient }).map_err(|_| ProposeError::Stopped)?;
            answers.push(answered);
        }
        drop(whole);
        Ok(answers)
    }

    /// Cuts a list of commands into pieces that each fit into an entry.
    fn split(&self, commands: Vec<Command>, sizes: &[u64]) -> Vec<(Vec<Command>, u64)> {
        let mut pieces: Vec<(Vec<Command>, u64)> = Vec::new();
        for (command, size) in commands.into_iter().zip(sizes) {
            match pieces.last_mut() {
                Some((piece, bytes)) if self.options.fits(piece.len() + 1, *bytes + size) => {
                    piece.push(command);
                    *bytes += size;
                }
                _ => pieces.push((vec![command], *size)),
            }
        }
        pieces
    }
}

impl ProposalOptions {
    fn fits(&self, changes: usize, bytes: u64) -> bool {
        changes <= self.entry_changes && bytes <= self.entry_bytes as u64
    }
}

/// Whether no caller waits for a command.
fn can_wait(command: &Command) -> bool {
    matches!(
        command,
        Command::Grant { .. } | Command::Report(_) | Command::Save { .. } | Command::MakeReady { .. }
    )
}

fn size_of(command: &Command) -> Result<u64, ProposeError> {
    let limit = u64::from(BATCH_LIMIT) - BATCH_OVERHEAD;
    match codec::encoded_size(Schema::Batch, command) {
        Ok(size) if size <= limit => Ok(size),
        Ok(size) => Err(ProposeError::TooLarge { size, limit }),
        Err(_) => Err(ProposeError::TooLarge { size: limit + 1, limit }),
    }
}

impl Packer {
    /// Packs and proposes until every [`Proposer`] is gone or Raft has stopped.
    pub async fn run(mut self, raft: Raft<Machine>) {
        let mut in_flight = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                // First, and yet the line is never held up: what is in flight is bounded, and only what is
                // taken from the line adds to it.
                Some(()) = in_flight.next(), if !in_flight.is_empty() => {}
                item = self.next(), if in_flight.len() < self.options.in_flight => {
                    let Some(first) = item else { return };
                    let (batch, waiters) = self.pack(first);
                    match propose(&raft, &batch, waiters).await {
                        Ok(answered) => in_flight.push(answered),
                        Err(Stopped) => return,
                    }
                }
            }
        }
    }

    /// The next item that somebody still waits for. One that was given up has not been proposed. Loses nothing when
    /// it is dropped half-way.
    async fn next(&mut self) -> Option<Item> {
        loop {
            self.held.retain(|item| !item.waiter.answer.is_closed());
            if self.held.is_empty() {
                self.held.push_back(self.queue.recv().await?);
                continue;
            }
            let (changes, bytes) = self.held.iter().fold((0, 0), |(changes, bytes), item| {
                (changes + item.commands.len(), bytes + item.waiter.bytes)
            });
            let awaited = self.held.iter().any(|item| !item.patient);
            let enough = changes >= COMPANY || !self.options.fits(changes + 1, bytes + 1);
            if awaited || enough || self.paced <= Instant::now() {
                return self.held.pop_front();
            }
            match tokio::time::timeout_at(self.paced, self.queue.recv()).await {
                Ok(Some(item)) => self.held.push_back(item),
                // Nobody can come any more, or the time is over.
                Ok(None) | Err(_) => return self.held.pop_front(),
            }
        }
    }

    /// What is next in line, without waiting.
    fn take(&mut self) -> Option<Item> {
        self.held.pop_front().or_else(|| self.queue.try_recv().ok())
    }

    /// Everything that waits and fits into an entry with `first`. Commands of different rounds never share
    /// one; those that name no round go with any.
    fn pack(&mut self, first: Item) -> (Batch, VecDeque<Waiter>) {
        let (mut round, mut bytes) = (first.round, first.waiter.bytes);
        let mut changes = first.commands;
        let mut waiters = VecDeque::from([first.waiter]);
        while let Some(item) = self.take() {
            if item.waiter.answer.is_closed() {
                continue;
            }
            let one_round = item.round == 0 || round == 0 || item.round == round;
            let fits = self.options.fits(changes.len() + item.commands.len(), bytes + item.waiter.bytes);
            if !one_round || !fits {
                self.held.push_front(item);
                break;
            }
            round = round.max(item.round);
            bytes += item.waiter.bytes;
            changes.extend(item.commands);
            waiters.push_back(item.waiter);
        }
        self.paced = Instant::now() + PACE;
        let (now_ms, wall_ms) = (self.clock.wall_ms(), self.clock.own_wall_ms());
        if now_ms.saturating_sub(wall_ms) > AHEAD_UNTOLD_MS {
            changes.insert(0, Command::WallClock { wall_ms });
        }
        (Batch { now_ms, round, changes }, waiters)
    }
}

/// Raft takes nothing any more.
struct Stopped;

/// Proposes an entry; what comes back answers its waiters once it is applied, or has come to nothing.
async fn propose(
    raft: &Raft<Machine>,
    batch: &Batch,
    waiters: VecDeque<Waiter>,
) -> Result<impl Future<Output = ()> + use<>, Stopped> {
    let encoded = codec::encode(Schema::Batch, batch).expect("every command was measured before it got here");
    let (responder, answered) = ProgressResponder::complete_only();
    let data = EncodedBatch(Bytes::from(encoded));
    let raft = raft.clone();
    if to_its_end(async move { raft.client_write_ff(data, Some(responder)).await }).await.is_err() {
        answer_all(waiters, &ProposeError::Stopped);
        return Err(Stopped);
    }
    Ok(async move {
        match answered.await {
            Ok(Ok(written)) => hand_out(written.log_id.index, written.data.0, waiters),
            Ok(Err(error)) => answer_all(waiters, &explain(&error)),
            Err(_) => answer_all(waiters, &ProposeError::Stopped),
        }
    })
}

/// Gives each waiter the replies to its own commands.
fn hand_out(index: u64, replies: Vec<Reply>, waiters: VecDeque<Waiter>) {
    let mut replies = replies.into_iter();
    for waiter in waiters {
        let own: Vec<Reply> = replies.by_ref().take(waiter.commands).collect();
        let outcome = match own.len() == waiter.commands {
            true => Ok((index, own)),
            false => Err(ProposeError::Unknown),
        };
        // Whoever waited may have given up.
        let _ = waiter.answer.send(outcome);
    }
}

fn answer_all(waiters: VecDeque<Waiter>, error: &ProposeError) {
    for waiter in waiters {
        let _ = waiter.answer.send(Err(error.clone()));
    }
}

fn explain(error: &ClientWriteError<TypeConfig>) -> ProposeError {
    match error {
        // Refused before it was appended.
        ClientWriteError::ForwardToLeader(ForwardToLeader { leader_id: Some(leader), .. }) => {
            ProposeError::NotLeader { leader: *leader }
        }
        ClientWriteError::ForwardToLeader(_) => ProposeError::NoLeader,
        // Appended, and lost sight of: another leader may commit it.
        _ => ProposeError::Unknown,
    }
}

#[cfg(test)]
#[path = "proposer_tests.rs"]
mod tests;
