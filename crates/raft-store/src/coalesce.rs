//! Commits that travel with the next entries.
//!
//! As soon as an entry is committed, openraft tells every follower so in a message of its own, though the next entries
//! would say the same a moment later. Under a steady load of small entries that doubles the messages, and a message
//! costs a follower about as much as an entry. Here a message that carries nothing but a commit waits for the next
//! entries, which take its place, for [`COMMIT_WAIT`] at most.
//!
//! Nothing is answered that was not sent: openraft counts the acknowledgement of the later entries for the earlier
//! message, too. Heartbeats and the questions of a linearizable read are sent on other ways and never wait.

use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt as _};
use openraft::raft::AppendEntriesRequest;
use tokio::time::{Instant, timeout_at};

use crate::types::TypeConfig;

/// How much later a follower may learn that something is committed. Nobody waits for it: callers are answered by the
/// leader.
const COMMIT_WAIT: Duration = Duration::from_millis(20);

type Request = AppendEntriesRequest<TypeConfig>;

/// The same requests, without those whose commit a later one carries soon enough.
pub fn coalesced<S>(requests: S) -> BoxStream<'static, Request>
where
    S: Stream<Item = Request> + Send + Unpin + 'static,
{
    stream::unfold((requests.fuse(), None), |(mut requests, next)| async move {
        let mut request = match next {
            Some(request) => request,
            None => requests.next().await?,
        };
        let deadline = Instant::now() + COMMIT_WAIT;
        while request.entries.is_empty() {
            match timeout_at(deadline, requests.next()).await {
                Ok(Some(next)) if takes_the_place_of(&next, &request) => request = next,
                Ok(Some(next)) => return Some((request, (requests, Some(next)))),
                Ok(None) | Err(_) => break,
            }
        }
        Some((request, (requests, None)))
    })
    .boxed()
}

/// Whether a request says all that an earlier one without entries says.
fn takes_the_place_of(later: &Request, earlier: &Request) -> bool {
    later.vote == earlier.vote
        && later.prev_log_id == earlier.prev_log_id
        && later.leader_commit >= earlier.leader_commit
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::sync::mpsc;

    use super::*;
    use crate::types::{Entry, LogId, Vote};

    fn id(index: u64) -> LogId {
        LogId::new(openraft::vote::RaftLeaderId::new(1, 1), index)
    }

    /// After `prev` come `entries` of them; everything up to `commit` is committed.
    fn request(prev: u64, entries: u64, commit: u64) -> Request {
        use openraft::entry::RaftEntry as _;
        Request {
            vote: Vote::new(1, 1),
            prev_log_id: Some(id(prev)),
            leader_commit: Some(id(commit)),
            entries: (1..=entries).map(|step| Entry::new_blank(id(prev + step))).collect(),
        }
    }

    struct Both {
        given: mpsc::UnboundedSender<Request>,
        sent: BoxStream<'static, Request>,
    }

    fn both() -> Both {
        let (given, taken) = mpsc::unbounded_channel();
        let taken = stream::unfold(taken, |mut taken| async move { Some((taken.recv().await?, taken)) });
        Both { given, sent: coalesced(taken.boxed()) }
    }

    impl Both {
        fn give(&self, request: Request) {
            self.given.send(request).unwrap();
        }

        async fn next(&mut self) -> (u64, usize, u64) {
            let request = self.sent.next().await.unwrap();
            let index = |id: Option<LogId>| id.unwrap().index;
            (index(request.prev_log_id), request.entries.len(), index(request.leader_commit))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_commit_travels_with_the_next_entries() {
        let mut both = both();
        both.give(request(5, 0, 4));
        both.give(request(5, 0, 5));
        assert!(both.next().now_or_never().is_none(), "it waits");
        both.give(request(5, 2, 5));
        let began = Instant::now();
        assert_eq!(both.next().await, (5, 2, 5));
        assert!(began.elapsed().is_zero());
    }

    #[tokio::test(start_paused = true)]
    async fn a_commit_does_not_wait_for_long() {
        let mut both = both();
        let began = Instant::now();
        both.give(request(5, 0, 4));
        assert!(tokio::time::timeout(COMMIT_WAIT / 2, both.next()).await.is_err());
        both.give(request(5, 0, 5));
        assert_eq!(both.next().await, (5, 0, 5));
        assert_eq!(began.elapsed(), COMMIT_WAIT, "counted from the first of them");
    }

    #[tokio::test(start_paused = true)]
    async fn entries_never_wait() {
        let mut both = both();
        let began = Instant::now();
        both.give(request(5, 1, 5));
        both.give(request(6, 1, 5));
        assert_eq!(both.next().await, (5, 1, 5));
        assert_eq!(both.next().await, (6, 1, 5));
        assert!(began.elapsed().is_zero());
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_later_request_does_not_say_is_sent() {
        let mut both = both();
        let began = Instant::now();
        both.give(request(5, 0, 5));
        both.give(request(3, 2, 5));
        assert_eq!(both.next().await, (5, 0, 5), "the log was not where the next one begins");
        assert_eq!(both.next().await, (3, 2, 5));
        both.give(Request { vote: Vote::new(2, 1), ..request(5, 1, 5) });
        both.next().await;
        both.give(request(5, 0, 9));
        both.give(request(5, 1, 8));
        assert_eq!(both.next().await, (5, 0, 9), "an older commit takes nothing's place");
        assert_eq!(both.next().await, (5, 1, 8));
        assert!(began.elapsed().is_zero());
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_request_is_sent_at_once() {
        let mut both = both();
        let began = Instant::now();
        both.give(request(5, 0, 5));
        drop(std::mem::replace(&mut both.given, mpsc::unbounded_channel().0));
        assert_eq!(both.next().await, (5, 0, 5));
        assert!(both.sent.next().await.is_none());
        assert!(began.elapsed().is_zero());
    }
}
