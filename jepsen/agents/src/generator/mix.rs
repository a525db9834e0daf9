//! What clients ask for, and how often.

use serde::{Deserialize, Serialize};

/// Weights, shares and bounds of the load. Weights count against each other within their group; shares are
/// probabilities from 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Mix {
    /// Operations per second of all clients together.
    pub ops_per_s: f64,
    /// Handlers of the mock executors.
    pub handlers: Vec<String>,
    /// Executors that tasks are pinned to.
    pub executors: Vec<String>,
    /// Where the real executor's handler `http` posts effects to; none: no effects.
    pub effect_url: Option<String>,
    /// Where the ends of tasks are announced; none: nowhere.
    pub callback_url: Option<String>,
    /// What the clients do.
    pub operations: Operations,
    /// When tasks are due.
    pub timing: Timing,
    /// How handlers behave.
    pub behaviours: Behaviours,
    /// What else tasks have.
    pub shares: Shares,
    /// The longest delay, in ms; the shortest is 10.
    pub longest_delay_ms: u64,
    /// The longest work, in ms; a slow handler works ten times as long.
    pub longest_work_ms: u64,
    /// The longest pause before a retry, in ms.
    pub longest_backoff_ms: u64,
    /// The most bytes of a big payload.
    pub big_bytes: u64,
    /// Different hot routing keys.
    pub hot_keys: u64,
}

/// Weights of operations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[allow(missing_docs, reason = "each is the weight of what it is called")]
pub struct Operations {
    pub submit: u32,
    pub get: u32,
    /// A get that waits for a change.
    pub poll: u32,
    pub list: u32,
    /// A cancel of any task that is known.
    pub cancel: u32,
}

/// Weights of when tasks are due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[allow(missing_docs, reason = "each is the weight of what it is called")]
pub struct Timing {
    pub at_once: u32,
    pub delayed: u32,
    /// At an instant, which has sometimes passed.
    pub instant: u32,
}

/// Weights of what handlers do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[allow(missing_docs, reason = "each is the weight of what it is called")]
pub struct Behaviours {
    pub ok: u32,
    pub slow: u32,
    pub fail: u32,
    pub fail_times: u32,
    pub fail_for_good: u32,
    pub hang: u32,
}

/// Shares of submissions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Shares {
    /// Has an Idempotency-Key.
    pub keyed: f64,
    /// Of keyed ones: sent again after the answer.
    pub repeated: f64,
    /// Of keyed ones with an unknown outcome: sent again.
    pub tried_again: f64,
    /// Cancelled in a race: right after its submission, near its due time, or while it runs.
    pub raced: f64,
    /// Has an `expireAt`.
    pub expiring: f64,
    /// Has big parameters.
    pub big: f64,
    /// Has one of a few routing keys.
    pub hot: f64,
    /// Is pinned to an executor.
    pub pinned: f64,
    /// Has a priority.
    pub prioritised: f64,
    /// Has a timeout although it does not hang.
    pub timed: f64,
    /// Has a business key.
    pub business: f64,
    /// Goes to the handler `http`, and from there to the sink.
    pub effect: f64,
    /// Of pages that have a next one: that is read too.
    pub paged: f64,
    /// Shares of what few loads have.
    pub extra: Extra,
}

/// Shares of submissions with something that is off unless a load asks for it. They are drawn apart from everything
/// else, so that a load without them stays what it was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Extra {
    /// Waits for other tasks, most of which are under way.
    pub dependent: f64,
    /// Has several shards.
    pub sharded: f64,
    /// Runs once on each executor.
    pub broadcast: f64,
    /// Announces its end.
    pub callback: f64,
}

impl Default for Mix {
    fn default() -> Self {
        Mix {
            ops_per_s: 150.0,
            handlers: vec!["mock".to_owned()],
            executors: Vec::new(),
            effect_url: None,
            callback_url: None,
            operations: Operations::default(),
            timing: Timing::default(),
            behaviours: Behaviours::default(),
            shares: Shares::default(),
            longest_delay_ms: 20_000,
            longest_work_ms: 200,
            longest_backoff_ms: 2_000,
            big_bytes: 64 * 1024,
            hot_keys: 3,
        }
    }
}

impl Default for Operations {
    fn default() -> Self {
        Operations { submit: 50, get: 28, poll: 6, list: 8, cancel: 4 }
    }
}

impl Default for Timing {
    fn default() -> Self {
        Timing { at_once: 50, delayed: 35, instant: 15 }
    }
}

impl Default for Behaviours {
    fn default() -> Self {
        Behaviours { ok: 76, slow: 4, fail: 4, fail_times: 8, fail_for_good: 4, hang: 4 }
    }
}

impl Default for Shares {
    fn default() -> Self {
        Shares {
            keyed: 0.9,
            repeated: 0.08,
            tried_again: 0.8,
            raced: 0.08,
            expiring: 0.04,
            big: 0.02,
            hot: 0.15,
            pinned: 0.03,
            prioritised: 0.2,
            timed: 0.2,
            business: 0.2,
            effect: 0.08,
            paged: 0.7,
            extra: Extra::default(),
        }
    }
}
