//! The one function that changes replicated state.
//!
//! This file only routes; each group of commands has a file of its own. A command checks everything that
//! it believes first and changes rows after, so a refusal leaves no trace.

mod access;
mod callback;
mod cancel;
mod context;
mod create;
mod executor;
mod finish;
mod grant;
mod graph;
mod guard;
mod job;
mod nonce;
mod save;
mod submit;

use serde::{Deserialize, Serialize};

use crate::command::{Batch, Command, Refusal, Reply};
use crate::event::Event;
use crate::id::{Millis, NodeId, Round};
use crate::key::Single;
use crate::mutant::{Mutant, is_on};
use crate::schema::MetaTable;
use crate::tables::{ReadExt as _, Write, WriteExt as _};

use context::Context;
pub(crate) use nonce::end_of_span;
pub use nonce::{CLAIM_LIFE_MS, NONCE_SPAN_MS};
pub use submit::{IDEMPOTENCY_TTL_MS, SWEEP_PER_COMMAND, is_forgotten};

/// What an entry is stamped with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The index of the entry in the log.
    pub index: u64,
    /// The cluster's time: the greatest leader clock of any entry so far. Never goes back. Whatever lasts so long
    /// (a delay, a backoff, the life of a nonce) is counted by it.
    pub now_ms: Millis,
    /// The leader's wall clock, which people can set back. Whatever a person named an instant for (`runAt`,
    /// `expireAt`, a trigger) is held against it.
    pub wall_ms: Millis,
    /// The round in which the leader proposed the entry; 0 when it named none.
    pub round: Round,
}

/// The state machine's own row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// The cluster's time.
    pub now_ms: Millis,
    /// The round in force.
    pub round: Round,
    /// The node that began it.
    pub leader: NodeId,
}

/// Applies one entry: every change in order, one reply each, and none for [`Command::WallClock`]. An error is a storage fault and stops the
/// node; a change that cannot take effect is a [`Reply::Refused`].
pub fn apply<T: Write>(
    tables: &mut T,
    index: u64,
    batch: &Batch,
    events: &mut Vec<Event>,
) -> Result<Vec<Reply>, T::Error> {
    let before = tables.get::<MetaTable>(&Single)?.unwrap_or_default();
    let now_ms = before.now_ms.max(batch.now_ms);
    let meta = Meta { now_ms, ..before.clone() };
    let wall_ms = batch.wall_ms();
    let stamp = Stamp { index, now_ms, wall_ms, round: batch.round };
    let mut cx = Context { tables, stamp, meta, events, ended: Vec::new(), judged: None };
    nonce::forget(&mut cx, before.now_ms)?;
    let mut replies = Vec::with_capacity(batch.changes.len());
    for change in batch.changes.iter().filter(|change| !matches!(change, Command::WallClock { .. })) {
        replies.push(route(&mut cx, change)?);
        job::hear_of_ended(&mut cx)?;
    }
    let meta = cx.meta;
    if meta != before {
        tables.put::<MetaTable>(&Single, &meta)?;
    }
    Ok(replies)
}

fn route<T: Write>(cx: &mut Context<'_, T>, command: &Command) -> Result<Reply, T::Error> {
    if of_the_round(command) && cx.stamp.round != cx.meta.round {
        return Ok(Reply::Refused(Refusal::StaleRound { current: cx.meta.round }));
    }
    match command {
        Command::BeginRound { leader } => Ok(begin_round(cx, *leader)),
        Command::Submit(submit) => submit::submit(cx, submit),
        Command::MakeReady { shard } => grant::make_ready(cx, (*shard).into()),
        Command::Grant { shard, attempt, executor, incarnation } => {
            grant::grant(cx, (*shard).into(), *attempt, executor, *incarnation)
        }
        Command::Report(report) => finish::report(cx, report),
        Command::Requeue { shard, fence, message } => finish::requeue(cx, (*shard).into(), *fence, message),
        Command::Lose { shard, fence, chance } => finish::lose(cx, (*shard).into(), *fence, *chance),
        Command::TimeOut { shard, fence, chance } => finish::time_out(cx, (*shard).into(), *fence, *chance),
        Command::Expire { task } => cancel::expire(cx, *task),
        Command::Cancel { task, caller, claim } => cancel::cancel(cx, *task, caller.as_ref(), claim.as_ref()),
        Command::Save { shard, fence, progress, checkpoint } => {
            save::save(cx, (*shard).into(), *fence, progress.as_ref(), checkpoint.as_deref())
        }
        Command::RegisterExecutor(registration) => executor::register(cx, registration),
        Command::ExecutorGone { executor, incarnation } => executor::gone(cx, executor, *incarnation),
        Command::Drain { executor, on } => executor::drain(cx, executor, *on),
        Command::ExecutorLeft { executor, incarnation } => executor::left(cx, executor, *incarnation),
        Command::Spend { claim } => Ok(nonce::spend(cx, Some(claim))?.map_or(Reply::Done, Reply::Refused)),
        Command::Job(command) => job::route(cx, command),
        Command::Graph(command) => graph::route(cx, command),
        Command::Callback(command) => callback::route(cx, command),
        Command::Access(command) => access::route(cx, command),
        Command::OfKey { access_key, change } => guard::of_key(cx, access_key, change),
        // Part of the stamp: it does not get here.
        Command::WallClock { .. } => Ok(Reply::Done),
    }
}

/// The leader's own commands: they hold only in the round in which they were decided.
fn of_the_round(command: &Command) -> bool {
    match command {
        Command::MakeReady { .. }
        | Command::Grant { .. }
        | Command::Requeue { .. }
        | Command::Lose { .. }
        | Command::TimeOut { .. }
        | Command::Expire { .. }
        | Command::RegisterExecutor(_)
        | Command::ExecutorGone { .. }
        | Command::ExecutorLeft { .. } => true,
        Command::BeginRound { .. }
        | Command::Submit(_)
        | Command::Report(_)
        | Command::Cancel { .. }
        | Command::Save { .. }
        | Command::Drain { .. }
        | Command::Spend { .. } => false,
        Command::Job(command) => command.is_of_the_round(),
        Command::Graph(command) => command.is_of_the_round(),
        Command::Callback(command) => command.is_of_the_round(),
        // What is in the frame is asked when it is opened.
        Command::Access(_) | Command::WallClock { .. } | Command::OfKey { .. } => false,
    }
}

fn begin_round<T: Write>(cx: &mut Context<'_, T>, leader: NodeId) -> Reply {
    if !is_on(Mutant::RoundReused) || cx.meta.round == 0 {
        cx.meta.round += 1;
    }
    cx.meta.leader = leader;
    cx.events.push(Event::RoundBegan { round: cx.meta.round, leader });
    Reply::Round(cx.meta.round)
}
