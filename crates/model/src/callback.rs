//! Callbacks: the end of a task, announced to its caller by a signed HTTP POST.
//!
//! A task with a callback address has a [`Callback`] from its creation on. It waits until the task is terminal;
//! the entry that ends the task also puts it into the outbox. A send is written down before it goes out, so that
//! leaders who come and go never send more than [`MAX_SENDS`] times; one whose end nobody wrote down counts as
//! failed.

use serde::{Deserialize, Serialize};

use crate::id::{CallerId, Millis, Round};

/// The first send and three more.
pub const MAX_SENDS: u8 = 4;
/// The delay after the first, second and third failed send, in milliseconds, before jitter.
pub const BACKOFF_MS: [u64; 3] = [5_000, 30_000, 180_000];
/// By chance each delay is up to so many per cent shorter or longer.
pub const JITTER_PCT: u64 = 20;
/// The longest delay that a receiver may ask for, in milliseconds.
pub const RETRY_AFTER_LIMIT_MS: u64 = 600_000;
/// How long after its start a send whose end nobody wrote down counts as failed, in milliseconds. Longer than any
/// send may take, with the two entries around it.
pub const SEND_LIMIT_MS: u64 = 20_000;
/// The sends of a callback that are kept, the newest ones.
pub const SENDS_KEPT: usize = 16;
/// The longest address, in bytes.
pub const URL_LIMIT: usize = 2_048;
/// The longest host of a lane, in bytes.
const HOST_LIMIT: usize = 255;

/// Where a callback stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// The task has not ended.
    Waiting,
    /// It is in the outbox.
    Pending,
    /// A send was answered with a 2xx.
    Delivered,
    /// Every send failed, or one failed for good.
    Failed,
}

impl Stage {
    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Waiting => "waiting",
            Stage::Pending => "pending",
            Stage::Delivered => "delivered",
            Stage::Failed => "failed",
        }
    }
}

/// Why a send failed, as far as a caller is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// The name did not resolve.
    Dns,
    /// The address may not be reached, or is on the caller's list no more.
    Blocked,
    /// No connection.
    Connect,
    /// No TLS.
    Tls,
    /// No answer in time.
    Timeout,
    /// An answer other than 2xx.
    Status,
    /// Nobody wrote down how it ended: the leader went away.
    Unknown,
    /// The replica that leads cannot open the secret that would sign it.
    Secret,
}

impl FailureKind {
    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            FailureKind::Dns => "dns",
            FailureKind::Blocked => "blocked",
            FailureKind::Connect => "connect",
            FailureKind::Tls => "tls",
            FailureKind::Timeout => "timeout",
            FailureKind::Status => "status",
            FailureKind::Unknown => "unknown",
            FailureKind::Secret => "secret",
        }
    }
}

/// How a send ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SendOutcome {
    /// A 2xx.
    Delivered {
        /// Which.
        status: u16,
    },
    /// Anything else.
    Failed {
        /// What.
        kind: FailureKind,
        /// The answer's status, where there was one.
        status: Option<u16>,
        /// The delay that the receiver asked for, in milliseconds.
        retry_after_ms: Option<u64>,
    },
}

impl SendOutcome {
    /// A failure without an answer.
    pub fn failed(kind: FailureKind) -> Self {
        SendOutcome::Failed { kind, status: None, retry_after_ms: None }
    }

    /// Whether no further send can help: a 410 says so, and what may not be reached is not tried again.
    pub fn is_for_good(self) -> bool {
        matches!(
            self,
            SendOutcome::Failed { status: Some(410), .. }
                | SendOutcome::Failed { kind: FailureKind::Blocked, .. }
        )
    }
}

/// One send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Send {
    /// Which delivery it belongs to; 1 is the first, each redelivery is another one.
    pub series: u32,
    /// Counted from 1 within the series.
    pub number: u8,
    /// The round of the leader that sent it.
    pub round: Round,
    /// When it was written down; it went out right after.
    pub started_at: Millis,
    /// When its end was written down.
    pub ended_at: Option<Millis>,
    /// How it ended.
    pub outcome: Option<SendOutcome>,
}

/// The callback of one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Callback {
    /// Where to send.
    pub url: String,
    /// Where it stands.
    pub stage: Stage,
    /// The present delivery, from 1.
    pub series: u32,
    /// Sends of the present delivery; at most [`MAX_SENDS`].
    pub sent: u8,
    /// When the next send is due, or when the one under way counts as failed; while it is in the outbox.
    pub next_at: Option<Millis>,
    /// The newest [`SENDS_KEPT`] sends, oldest first.
    pub sends: Vec<Send>,
}

impl Callback {
    /// The callback of a task that has not ended.
    pub fn new(url: String) -> Self {
        Callback { url, stage: Stage::Waiting, series: 1, sent: 0, next_at: None, sends: Vec::new() }
    }

    /// The send that is under way, as far as anybody wrote down.
    pub fn open_send(&self) -> Option<&Send> {
        self.sends.last().filter(|send| send.outcome.is_none())
    }
}

/// Where a callback waits in the outbox: behind those of the same caller to the same host, and behind no others.
pub fn lane(url: &str, caller: &CallerId) -> String {
    format!("{} {caller}", host(url))
}

/// The host and the caller of a [`lane`]; of any other text itself and no caller.
pub fn lane_parts(lane: &str) -> (&str, &str) {
    lane.rsplit_once(' ').unwrap_or((lane, ""))
}

/// The host of an address. Of an address of another form it is any text.
pub fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let end = rest.find(['/', '?', ':', '#']).unwrap_or(rest.len()).min(HOST_LIMIT);
    &rest[..rest.floor_char_boundary(end)]
}

/// The delay after send `number` has failed, in milliseconds. `chance` is 0-1000 and comes from the leader.
pub fn delay_ms(number: u8, retry_after_ms: Option<u64>, chance: u16) -> u64 {
    let place = usize::from(number.max(1) - 1).min(BACKOFF_MS.len() - 1);
    let base = BACKOFF_MS[place];
    let spread = base * JITTER_PCT / 100;
    let jittered = base - spread + 2 * spread * u64::from(chance.min(1000)) / 1000;
    jittered.max(retry_after_ms.unwrap_or(0).min(RETRY_AFTER_LIMIT_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_follow_the_list_within_their_jitter() {
        for (number, base) in [(1, 5_000), (2, 30_000), (3, 180_000), (4, 180_000), (0, 5_000)] {
            assert_eq!(delay_ms(number, None, 500), base, "{number}");
            assert_eq!(delay_ms(number, None, 0), base * 8 / 10);
            assert_eq!(delay_ms(number, None, 1000), base * 12 / 10);
            assert_eq!(delay_ms(number, None, u16::MAX), base * 12 / 10);
        }
    }

    #[test]
    fn a_receiver_can_ask_for_a_longer_delay_within_its_limit() {
        assert_eq!(delay_ms(1, Some(60_000), 500), 60_000);
        assert_eq!(delay_ms(1, Some(1), 500), 5_000);
        assert_eq!(delay_ms(1, Some(u64::MAX), 500), RETRY_AFTER_LIMIT_MS);
    }

    #[test]
    fn the_host_of_any_text() {
        for (url, expected) in [
            ("https://hooks.example.com/cb", "hooks.example.com"),
            ("http://localhost:8080?x", "localhost"),
            ("https://h", "h"),
            ("nonsense", "nonsense"),
            ("", ""),
        ] {
            assert_eq!(host(url), expected, "{url}");
        }
        assert!(host(&"é".repeat(400)).len() <= HOST_LIMIT);
    }

    #[test]
    fn a_lane_tells_its_host_and_its_caller() {
        let shop = CallerId::new("shop").expect("a valid name");
        for (url, host) in [("https://hooks.example.com/cb", "hooks.example.com"), ("a b", "a b"), ("", "")] {
            assert_eq!(lane_parts(&lane(url, &shop)), (host, "shop"), "{url}");
        }
    }
}
