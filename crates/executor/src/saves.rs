//! Progress and checkpoints on their way to the leader: the latest of each attempt, in batches.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use orloj_wire::protocol::{AttemptRef, Save};
use tokio::sync::{Notify, oneshot};

use crate::context::SaveError;
use crate::sync::lock;
use crate::text::cut;

/// Longest checkpoint, in bytes.
const CHECKPOINT_LIMIT: usize = 64 << 10;
/// Longest note, in bytes.
const NOTE_LIMIT: usize = 1 << 10;
/// Shortest time between two progress messages of one attempt.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);
/// Most saves of one batch.
const BATCH: usize = 256;
/// Checkpoint bytes after which a batch is full.
const BATCH_BYTES: usize = 256 << 10;

type Waiter = oneshot::Sender<Result<(), SaveError>>;

#[derive(Debug, Default)]
struct Slot {
    progress: Option<(u8, Option<String>)>,
    checkpoint: Option<Vec<u8>>,
    waiters: Vec<Waiter>,
    /// No progress message before this instant.
    quiet_until: Duration,
}

/// One save that is on its way.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) save: Save,
    waiters: Vec<Waiter>,
}

/// What there is to do for the sender.
#[derive(Debug)]
pub(crate) struct Due {
    /// To be sent now.
    pub(crate) batch: Vec<Sending>,
    /// When the next one is due, if nothing else happens.
    pub(crate) next: Option<Duration>,
}

/// The latest progress and checkpoint of every running attempt.
#[derive(Debug, Default)]
pub(crate) struct SaveHub {
    slots: Mutex<BTreeMap<AttemptRef, Slot>>,
    wake: Notify,
}

impl SaveHub {
    /// From now on the attempt can save.
    pub(crate) fn open(&self, attempt: &AttemptRef) {
        lock(&self.slots).insert(attempt.clone(), Slot::default());
    }

    /// The attempt is over: what it has not sent yet does not count any more.
    pub(crate) fn close(&self, attempt: &AttemptRef) {
        if let Some(slot) = lock(&self.slots).remove(attempt) {
            answer(slot.waiters, &Err(SaveError::LeaseLost));
        }
    }

    /// Sets the progress.
    pub(crate) fn progress(&self, attempt: &AttemptRef, percent: u8, note: Option<&str>) {
        if let Some(slot) = lock(&self.slots).get_mut(attempt) {
            slot.progress = Some((percent.min(100), note.map(|note| cut(note, NOTE_LIMIT).to_owned())));
            self.wake.notify_one();
        }
    }

    /// Sets the checkpoint and waits until it, or a later one of the attempt, is saved.
    pub(crate) async fn checkpoint(&self, attempt: &AttemptRef, bytes: &[u8]) -> Result<(), SaveError> {
        if bytes.len() > CHECKPOINT_LIMIT {
            return Err(SaveError::TooLarge { size: bytes.len(), limit: CHECKPOINT_LIMIT });
        }
        let (waiter, saved) = oneshot::channel();
        match lock(&self.slots).get_mut(attempt) {
            Some(slot) => {
                slot.checkpoint = Some(bytes.to_vec());
                slot.waiters.push(waiter);
            }
            None => return Err(SaveError::LeaseLost),
        }
        self.wake.notify_one();
        saved.await.unwrap_or(Err(SaveError::LeaseLost))
    }

    /// Resolves when something was set since the last call.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Takes what is due: checkpoints at once, progress at most every [`PROGRESS_EVERY`] per attempt.
    pub(crate) fn due(&self, now: Duration) -> Due {
        let mut due = Due { batch: Vec::new(), next: None };
        let mut bytes = 0;
        for (attempt, slot) in lock(&self.slots).iter_mut() {
            if slot.checkpoint.is_none() && slot.progress.is_none() {
                continue;
            }
            let full = due.batch.len() >= BATCH || bytes >= BATCH_BYTES;
            let ready = slot.checkpoint.is_some() || slot.quiet_until <= now;
            if full || !ready {
                let at = if ready { now } else { slot.quiet_until };
                due.next = Some(due.next.map_or(at, |next| next.min(at)));
                continue;
            }
            let (percent, note) = match slot.progress.take() {
                Some((percent, note)) => (Some(percent), note),
                None => (None, None),
            };
            if percent.is_some() {
                slot.quiet_until = now + PROGRESS_EVERY;
            }
            let checkpoint = slot.checkpoint.take();
            bytes += checkpoint.as_ref().map_or(0, Vec::len);
            let waiters = std::mem::take(&mut slot.waiters);
            due.batch.push(Sending {
                save: Save { attempt: attempt.clone(), percent, note, checkpoint },
                waiters,
            });
        }
        due
    }

    /// The leader has answered. Returns the attempts that it did not take: they have no lease.
    pub(crate) fn sent(&self, batch: Vec<Sending>, taken: &[bool]) -> Vec<AttemptRef> {
        let mut lost = Vec::new();
        for (sending, taken) in batch.into_iter().zip(taken) {
            let answered = if *taken { Ok(()) } else { Err(SaveError::LeaseLost) };
            answer(sending.waiters, &answered);
            if !taken {
                lost.push(sending.save.attempt);
            }
        }
        lost
    }

    /// The batch did not arrive: what was not replaced meanwhile waits again.
    pub(crate) fn put_back(&self, batch: Vec<Sending>) {
        let mut slots = lock(&self.slots);
        for Sending { save, waiters } in batch {
            let Some(slot) = slots.get_mut(&save.attempt) else {
                answer(waiters, &Err(SaveError::LeaseLost));
                continue;
            };
            if let (None, Some(percent)) = (&slot.progress, save.percent) {
                slot.progress = Some((percent, save.note));
            }
            slot.checkpoint = slot.checkpoint.take().or(save.checkpoint);
            slot.waiters.extend(waiters);
        }
    }
}

fn answer(waiters: Vec<Waiter>, result: &Result<(), SaveError>) {
    // A waiter that has gone does not want to know.
    waiters.into_iter().for_each(|waiter| drop(waiter.send(result.clone())));
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn attempt(fence: u64) -> AttemptRef {
        AttemptRef { task_id: "t".to_owned(), shard_index: 0, attempt: 1, fence }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn progress_is_coalesced_and_paced() {
        let hub = SaveHub::default();
        hub.open(&attempt(1));
        hub.progress(&attempt(1), 10, None);
        hub.progress(&attempt(1), 250, Some(&"n".repeat(2_000)));
        let first = hub.due(ms(1_000)).batch;
        assert_eq!(first.len(), 1);
        assert_eq!((first[0].save.percent, first[0].save.note.as_ref().unwrap().len()), (Some(100), 1_024));
        hub.progress(&attempt(1), 20, None);
        let due = hub.due(ms(1_100));
        assert_eq!((due.batch.len(), due.next), (0, Some(ms(1_500))));
        assert_eq!(hub.due(ms(1_500)).batch[0].save.percent, Some(20));
    }

    #[tokio::test]
    async fn a_checkpoint_goes_at_once_and_is_awaited() {
        let hub = Arc::new(SaveHub::default());
        hub.open(&attempt(1));
        let saving = tokio::spawn({
            let hub = Arc::clone(&hub);
            async move { hub.checkpoint(&attempt(1), b"one").await }
        });
        hub.woken().await;
        let batch = hub.due(ms(0)).batch;
        assert_eq!(batch[0].save.checkpoint.as_deref(), Some(&b"one"[..]));
        assert!(hub.sent(batch, &[true]).is_empty());
        assert_eq!(saving.await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn what_did_not_arrive_waits_again_unless_it_was_replaced() {
        let hub = Arc::new(SaveHub::default());
        hub.open(&attempt(1));
        let save = |bytes: &'static [u8]| {
            let hub = Arc::clone(&hub);
            tokio::spawn(async move { hub.checkpoint(&attempt(1), bytes).await })
        };
        let first = save(b"one");
        hub.woken().await;
        let batch = hub.due(ms(0)).batch;
        let second = save(b"two");
        hub.woken().await;
        hub.put_back(batch);
        let batch = hub.due(ms(0)).batch;
        assert_eq!(batch[0].save.checkpoint.as_deref(), Some(&b"two"[..]), "the later one wins");
        assert_eq!(hub.sent(batch, &[false]), [attempt(1)]);
        assert_eq!(first.await.unwrap(), Err(SaveError::LeaseLost));
        assert_eq!(second.await.unwrap(), Err(SaveError::LeaseLost));
    }

    #[tokio::test]
    async fn limits_and_closed_attempts_are_errors() {
        let hub = SaveHub::default();
        assert_eq!(hub.checkpoint(&attempt(1), b"x").await, Err(SaveError::LeaseLost));
        hub.open(&attempt(1));
        let big = vec![0; CHECKPOINT_LIMIT + 1];
        assert!(matches!(hub.checkpoint(&attempt(1), &big).await, Err(SaveError::TooLarge { .. })));
        hub.progress(&attempt(1), 1, None);
        hub.close(&attempt(1));
        assert!(hub.due(ms(0)).batch.is_empty());
    }
}
