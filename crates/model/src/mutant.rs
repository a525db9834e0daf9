//! Deliberate faults, one at a time, by which the fault harness proves that its checkers find what they are
//! for. They exist only with the cargo feature `mutants`, which no build without debug assertions takes: a
//! release cannot carry them.

#[cfg(all(feature = "mutants", not(debug_assertions)))]
compile_error!("the feature `mutants` breaks the product on purpose and is not for releases");

macro_rules! mutants {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// A deliberate fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Mutant { $($(#[$doc])* $name,)* }

        impl Mutant {
            /// Every one.
            pub const ALL: &'static [Mutant] = &[$(Mutant::$name,)*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(Mutant::$name => $text,)* }
            }
        }
    };
}

mutants! {
    /// The log reports writes that are not synced.
    LogNotSynced = "log-not-synced";
    /// A vote is given and not written down.
    VoteForgotten = "vote-forgotten";
    /// The applied position is written after the tables and not with them.
    PositionApart = "position-apart";
    /// A submission is acknowledged before it is committed.
    AckBeforeCommit = "ack-before-commit";
    /// A replica answers reads from its own table without asking the majority.
    LocalReads = "local-reads";
    /// An Idempotency-Key is not remembered.
    KeyForgotten = "key-forgotten";
    /// A cancel of a task that waits does not end its shards, which are granted all the same.
    CancelIgnored = "cancel-ignored";
    /// The report of a lease that is over decides as if it were in force.
    FenceIgnored = "fence-ignored";
    /// A late report changes a task that has ended.
    TerminalOverwritten = "terminal-overwritten";
    /// A lost attempt counts as a success.
    SuccessInvented = "success-invented";
    /// There is no limit on tries.
    TriesUnlimited = "tries-unlimited";
    /// A retry does not wait for its backoff.
    BackoffIgnored = "backoff-ignored";
    /// What an entry does depends on the process that applies it.
    ApplyDiffers = "apply-differs";
    /// An attempt is pushed before its grant is committed.
    PushBeforeGrant = "push-before-grant";
    /// A new leader hands the attempts of its predecessor to other executors under the same grant.
    ResentElsewhere = "resent-elsewhere";
    /// A new leader declares lost what its predecessor granted, without asking the executors.
    LostUnasked = "lost-unasked";
    /// The round is not raised by a new leader.
    RoundReused = "round-reused";
    /// The wheel turns by the wall clock.
    WheelOnWallClock = "wheel-on-wall-clock";
    /// A task is handed out before it is due.
    Early = "early";
    /// A new leader does not load the timers.
    TimersNotLoaded = "timers-not-loaded";
    /// Executors are told twice the timeout.
    TimeoutDoubled = "timeout-doubled";
    /// What waits longest is handed out last.
    OldestLast = "oldest-last";
    /// A storage fault is logged and otherwise ignored.
    FaultIgnored = "fault-ignored";
    /// An instant of a job makes two tasks.
    FiredTwice = "fired-twice";
    /// Instants that a job skips are not written down.
    SkipUnrecorded = "skip-unrecorded";
    /// The limits on running tasks do not hold.
    LimitIgnored = "limit-ignored";
    /// A task goes to any executor, wherever its key belongs.
    RingIgnored = "ring-ignored";
    /// A task does not wait for its parents.
    ChildEarly = "child-early";
    /// The result of a task's first shard stands in the place of every other one's.
    ShardResultDoubled = "shard-result-doubled";
    /// The end of a task is announced when the task is made.
    CallbackEarly = "callback-early";
    /// A callback is given up after its first send.
    CallbackGivenUp = "callback-given-up";
    /// A job that is told to fire no more fires on.
    StopIgnored = "stop-ignored";
    /// What a key may do in a second is given to it twice.
    RateDoubled = "rate-doubled";
    /// A callback that was heard is sent again.
    CallbackRepeated = "callback-repeated";
}

/// Whether this fault is on. Always false without the feature.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub const fn is_on(_: Mutant) -> bool {
    false
}

/// What [`Mutant::ApplyDiffers`] mixes into rows: another number at every call. Always 0 without it.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub const fn difference() -> i64 {
    0
}

#[cfg(feature = "mutants")]
pub use on::{difference, is_on, switch_on};

#[cfg(feature = "mutants")]
mod on {
    use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

    use super::Mutant;

    const NONE: u8 = u8::MAX;
    static ON: AtomicU8 = AtomicU8::new(NONE);

    /// Whether this fault is on.
    pub fn is_on(mutant: Mutant) -> bool {
        ON.load(Ordering::Relaxed) == mutant as u8
    }

    /// What [`Mutant::ApplyDiffers`] mixes into rows: another number at every call. 0 without it.
    pub fn difference() -> i64 {
        static CALLS: AtomicI64 = AtomicI64::new(0);
        if is_on(Mutant::ApplyDiffers) { CALLS.fetch_add(1, Ordering::Relaxed) } else { 0 }
    }

    /// Lets the whole process have this fault from now on, or none.
    ///
    /// # Errors
    /// The names that there are, when this is none of them.
    pub fn switch_on(name: Option<&str>) -> Result<(), String> {
        let number = match name {
            None => NONE,
            Some(name) => match Mutant::ALL.iter().find(|mutant| mutant.name() == name) {
                Some(mutant) => *mutant as u8,
                None => {
                    let known: Vec<_> = Mutant::ALL.iter().map(|mutant| mutant.name()).collect();
                    return Err(format!("no mutant is named {name:?}; there are: {}", known.join(", ")));
                }
            },
        };
        ON.store(number, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_nothing_is_on_by_itself() {
        let mut names: Vec<_> = Mutant::ALL.iter().map(|mutant| mutant.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Mutant::ALL.len());
        assert!(Mutant::ALL.iter().all(|mutant| !is_on(*mutant)));
    }
}
