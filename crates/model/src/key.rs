//! Keys of the tables. Their encoded bytes sort as their values do, so that a range over bytes is a range
//! over time, priority or name.

use crate::id::{CallerId, ExecutorId, Millis, TaskId};
use crate::task::{DueClock, Status};

/// A key whose encoding keeps its order.
pub trait TableKey: Sized {
    /// The encoded key.
    fn encode(&self) -> Vec<u8>;
    /// The key that [`encode`](TableKey::encode) wrote, or `None` for bytes that it never writes.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

/// The key of a table with one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Single;

/// (task, shard index)
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardKey {
    /// The task.
    pub task: TaskId,
    /// The shard, from 0.
    pub shard: u16,
}

/// (instant, task, shard, clock): what becomes due when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DueKey {
    /// When it is due.
    pub at: Millis,
    /// What is due.
    pub shard: ShardKey,
    /// By which clock.
    pub clock: DueClock,
}

/// (priority, ready since, task, shard): what waits for a slot, most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadyKey {
    /// 0-9; 9 sorts first.
    pub priority: u8,
    /// Since when it has been ready; the oldest sorts first within one priority.
    pub since: Millis,
    /// What is ready.
    pub shard: ShardKey,
}

/// (executor, task, shard): what an executor holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningKey {
    /// The holder of the lease.
    pub executor: ExecutorId,
    /// What it holds.
    pub shard: ShardKey,
}

/// (instant, task)
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeKey {
    /// When.
    pub at: Millis,
    /// Which task.
    pub task: TaskId,
}

/// (parent, child)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DepKey {
    /// The task that is waited for.
    pub parent: TaskId,
    /// The task that waits.
    pub child: TaskId,
}

/// (caller, instant descending, task): lists, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerTaskKey {
    /// The owner.
    pub caller: CallerId,
    /// When the task was created.
    pub created_at: Millis,
    /// The task.
    pub task: TaskId,
}

/// (caller, status, instant descending, task): lists by status, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusTaskKey {
    /// The owner.
    pub caller: CallerId,
    /// The status.
    pub status: Status,
    /// When the task was created.
    pub created_at: Millis,
    /// The task.
    pub task: TaskId,
}

/// (caller, text): idempotency keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerTextKey {
    /// The owner.
    pub caller: CallerId,
    /// The caller's own text.
    pub text: String,
}

/// (instant, caller, text): expiry of [`CallerTextKey`] rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedCallerTextKey {
    /// When the row expires.
    pub at: Millis,
    /// The row.
    pub key: CallerTextKey,
}

/// (caller, business key, task)
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusinessTaskKey {
    /// The owner and its business key.
    pub key: CallerTextKey,
    /// The task.
    pub task: TaskId,
}

/// (end of a span of time, nonce)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NonceKey {
    /// The end of the span in which the nonce may be forgotten, see [`crate::apply::NONCE_SPAN_MS`].
    pub until: Millis,
    /// The nonce, as the first 16 bytes of a hash over the access key and the nonce.
    pub nonce: [u8; 16],
}

/// Appends fields in an encoding that sorts as they do.
#[derive(Default)]
pub struct KeyWriter(Vec<u8>);

impl KeyWriter {
    /// The bytes written so far.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }

    /// An instant, ascending.
    pub fn millis(mut self, at: Millis) -> Self {
        // Flipping the sign bit makes two's complement sort as unsigned.
        self.0.extend(((at as u64) ^ (1 << 63)).to_be_bytes());
        self
    }

    /// An instant, descending.
    pub fn millis_desc(self, at: Millis) -> Self {
        self.millis(!at)
    }

    /// One byte.
    pub fn byte(mut self, byte: u8) -> Self {
        self.0.push(byte);
        self
    }

    /// A task.
    pub fn task(mut self, task: TaskId) -> Self {
        self.0.extend(task.0);
        self
    }

    /// A task and a shard.
    pub fn shard(mut self, shard: ShardKey) -> Self {
        self = self.task(shard.task);
        self.0.extend(shard.shard.to_be_bytes());
        self
    }

    /// A text, ended so that no text is a prefix of another: 0 becomes (0, 255), the end is (0, 0).
    pub fn text(mut self, text: &str) -> Self {
        for byte in text.bytes() {
            self.0.push(byte);
            if byte == 0 {
                self.0.push(255);
            }
        }
        self.0.extend([0, 0]);
        self
    }
}

/// Reads what a [`KeyWriter`] wrote.
pub struct KeyReader<'a>(&'a [u8]);

impl<'a> KeyReader<'a> {
    /// Reads from `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        KeyReader(bytes)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_at_checked(N)?;
        self.0 = rest;
        head.try_into().ok()
    }

    /// An instant, ascending.
    pub fn millis(&mut self) -> Option<Millis> {
        Some((u64::from_be_bytes(self.take()?) ^ (1 << 63)) as i64)
    }

    /// An instant, descending.
    pub fn millis_desc(&mut self) -> Option<Millis> {
        Some(!self.millis()?)
    }

    /// One byte.
    pub fn byte(&mut self) -> Option<u8> {
        Some(self.take::<1>()?[0])
    }

    /// A task.
    pub fn task(&mut self) -> Option<TaskId> {
        Some(TaskId(self.take()?))
    }

    /// A task and a shard.
    pub fn shard(&mut self) -> Option<ShardKey> {
        Some(ShardKey { task: self.task()?, shard: u16::from_be_bytes(self.take()?) })
    }

    /// A text.
    pub fn text(&mut self) -> Option<String> {
        let mut text = Vec::new();
        loop {
            match self.byte()? {
                0 => match self.byte()? {
                    0 => return String::from_utf8(text).ok(),
                    255 => text.push(0),
                    _ => return None,
                },
                byte => text.push(byte),
            }
        }
    }

    /// Succeeds when nothing is left.
    pub fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// The smallest key that sorts after every key with this prefix.
pub fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // A prefix of nothing but 0xff (or none) has no end: no key of ours is this long.
    vec![u8::MAX; 64]
}

macro_rules! key_codec {
    ($type:ty, |$key:ident, $writer:ident| $encode:expr, |$reader:ident| $decode:expr) => {
        impl TableKey for $type {
            fn encode(&self) -> Vec<u8> {
                let ($key, $writer) = (self, KeyWriter::default());
                $encode.finish()
            }

            fn decode(bytes: &[u8]) -> Option<Self> {
                let mut $reader = KeyReader::new(bytes);
                let key = $decode;
                $reader.end()?;
                Some(key)
            }
        }
    };
}

mod access;
mod callback;
mod graph;
mod job;

pub use access::{AccessKeyName, AuditKey, OwnerKey};
pub use callback::CallbackDueKey;
pub use graph::WorkKey;
pub use job::{CalendarUseKey, HistoryKey, JobTaskKey, NextKey};

key_codec!(TaskId, |k, w| w.task(*k), |r| r.task()?);
key_codec!(ShardKey, |k, w| w.shard(*k), |r| r.shard()?);
key_codec!(DueKey, |k, w| w.millis(k.at).shard(k.shard).byte(k.clock as u8), |r| DueKey {
    at: r.millis()?,
    shard: r.shard()?,
    clock: match r.byte()? {
        0 => DueClock::Wall,
        1 => DueClock::Cluster,
        _ => return None,
    },
});
key_codec!(ReadyKey, |k, w| w.byte(u8::MAX - k.priority).millis(k.since).shard(k.shard), |r| ReadyKey {
    priority: u8::MAX - r.byte()?,
    since: r.millis()?,
    shard: r.shard()?
});
key_codec!(RunningKey, |k, w| w.text(k.executor.as_str()).shard(k.shard), |r| RunningKey {
    executor: ExecutorId::new(r.text()?).ok()?,
    shard: r.shard()?
});
key_codec!(TimeKey, |k, w| w.millis(k.at).task(k.task), |r| TimeKey { at: r.millis()?, task: r.task()? });
key_codec!(DepKey, |k, w| w.task(k.parent).task(k.child), |r| DepKey { parent: r.task()?, child: r.task()? });
key_codec!(CallerTaskKey, |k, w| w.text(k.caller.as_str()).millis_desc(k.created_at).task(k.task), |r| {
    CallerTaskKey { caller: CallerId::new(r.text()?).ok()?, created_at: r.millis_desc()?, task: r.task()? }
});
key_codec!(
    StatusTaskKey,
    |k, w| w.text(k.caller.as_str()).byte(k.status as u8).millis_desc(k.created_at).task(k.task),
    |r| StatusTaskKey {
        caller: CallerId::new(r.text()?).ok()?,
        status: Status::from_number(r.byte()?)?,
        created_at: r.millis_desc()?,
        task: r.task()?,
    }
);
key_codec!(CallerTextKey, |k, w| w.text(k.caller.as_str()).text(&k.text), |r| CallerTextKey {
    caller: CallerId::new(r.text()?).ok()?,
    text: r.text()?
});
key_codec!(TimedCallerTextKey, |k, w| w.millis(k.at).text(k.key.caller.as_str()).text(&k.key.text), |r| {
    TimedCallerTextKey {
        at: r.millis()?,
        key: CallerTextKey { caller: CallerId::new(r.text()?).ok()?, text: r.text()? },
    }
});
key_codec!(BusinessTaskKey, |k, w| w.text(k.key.caller.as_str()).text(&k.key.text).task(k.task), |r| {
    BusinessTaskKey {
        key: CallerTextKey { caller: CallerId::new(r.text()?).ok()?, text: r.text()? },
        task: r.task()?,
    }
});
key_codec!(ExecutorId, |k, w| w.text(k.as_str()), |r| ExecutorId::new(r.text()?).ok()?);
key_codec!(NonceKey, |k, w| w.millis(k.until).task(TaskId(k.nonce)), |r| NonceKey {
    until: r.millis()?,
    nonce: r.task()?.0,
});

impl TableKey for Single {
    fn encode(&self) -> Vec<u8> {
        vec![0]
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        (bytes == [0]).then_some(Single)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(byte: u8, shard: u16) -> ShardKey {
        ShardKey { task: TaskId([byte; 16]), shard }
    }

    #[test]
    fn time_sorts_across_zero() {
        let ats = [i64::MIN, -5, -1, 0, 1, 1_800_000_000_000, i64::MAX];
        for pair in ats.windows(2) {
            let key = |at| DueKey { at, shard: shard(0, 0), clock: DueClock::Wall }.encode();
            assert!(key(pair[0]) < key(pair[1]), "{pair:?}");
            let desc = |at| KeyWriter::default().millis_desc(at).finish();
            assert!(desc(pair[0]) > desc(pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn ready_sorts_by_priority_then_age() {
        let key = |priority, since| ReadyKey { priority, since, shard: shard(1, 2) }.encode();
        assert!(key(9, 100) < key(5, 1));
        assert!(key(5, 1) < key(5, 2));
        assert!(key(1, 50) < key(0, 0));
    }

    #[test]
    fn no_text_is_a_prefix_of_another() {
        let key = |text: &str| KeyWriter::default().text(text).finish();
        assert!(key("a") < key("a\0"));
        assert!(key("a\0") < key("aa"));
        assert!(!key("ab").starts_with(&key("a")));
        assert_eq!(KeyReader::new(&key("a\0b")).text().as_deref(), Some("a\0b"));
    }

    #[test]
    fn keys_come_back_and_junk_does_not() {
        let caller = CallerId::new("c").expect("a valid name");
        let key = StatusTaskKey {
            caller: caller.clone(),
            status: Status::Failed,
            created_at: 7,
            task: TaskId([3; 16]),
        };
        assert_eq!(StatusTaskKey::decode(&key.encode()), Some(key.clone()));
        let mut long = key.encode();
        long.push(0);
        assert_eq!(StatusTaskKey::decode(&long), None);
        let timed = TimedCallerTextKey { at: -1, key: CallerTextKey { caller, text: "k:1".into() } };
        assert_eq!(TimedCallerTextKey::decode(&timed.encode()), Some(timed));
        assert_eq!(ShardKey::decode(&[0; 17]), None);
    }

    #[test]
    fn the_end_of_a_prefix_is_after_all_of_it() {
        assert_eq!(after_prefix(&[1, 2]), vec![1, 3]);
        assert_eq!(after_prefix(&[1, 255]), vec![2]);
        assert!(after_prefix(&[255, 255]) > vec![255, 255, 255]);
    }
}
