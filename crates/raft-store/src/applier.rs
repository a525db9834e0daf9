//! Committed entries applied to the tables.
//!
//! One call is one commit to the state database (several when it is very large), with the applied position in it.
//! Proposers are answered and events sent after the commit, never before; a view that is taken meanwhile may be ahead of
//! both.

use std::sync::Arc;

use openraft::entry::RaftEntry as _;
use openraft::storage::ApplyResponder;
use orloj_model::id::Millis;
use orloj_model::tables::Write as _;
use orloj_model::{Batch, Clock};

use crate::codec::{self, Schema};
use crate::error::Fault;
use crate::events::AppliedEvents;
use crate::published::Published;
use crate::tables::{Changed, Overlay, Position, StateDb};
use crate::types::{Entry, LogId, LoggedMembership, Payload, Replies, TypeConfig};

/// An apply that has written this much is committed before it goes on, in bytes.
const WRITE_BYTES: usize = 8 << 20;

/// The tables, and who is told of them.
pub struct Applier {
    pub state: StateDb,
    pub position: Position,
    pub published: Arc<Published>,
    pub clock: Arc<dyn Clock>,
}

/// Entries that are being applied and are not committed yet.
pub struct Work {
    overlay: Overlay,
    changed: Changed,
    /// The last time that an entry was stamped with.
    now_ms: Option<Millis>,
    events: Vec<AppliedEvents>,
    answers: Vec<(ApplyResponder<TypeConfig>, Replies)>,
}

impl Applier {
    /// Applies an entry, after those in `work`, all of which are committed where that has become large.
    ///
    /// # Errors
    /// IO or damage.
    pub fn apply(
        &mut self,
        mut work: Work,
        entry: Entry,
        responder: Option<ApplyResponder<TypeConfig>>,
    ) -> Result<Work, Fault> {
        let replies = self.step(&mut work, entry)?;
        if let Some(responder) = responder {
            work.answers.push((responder, replies));
        }
        if work.overlay.bytes() <= WRITE_BYTES {
            return Ok(work);
        }
        self.commit(work)?;
        Ok(self.begin())
    }

    /// Tells the clock the time that the tables have got to.
    pub fn hear_of_the_tables(&self) {
        self.clock.heard(self.position.now_ms);
    }

    /// No entries yet.
    pub fn begin(&self) -> Work {
        Work {
            overlay: self.state.overlay(&self.position),
            changed: Changed::default(),
            now_ms: None,
            events: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// Applies one entry to the overlay.
    fn step(&mut self, work: &mut Work, entry: Entry) -> Result<Replies, Fault> {
        let id: LogId = entry.log_id();
        let mut replies = Replies::default();
        match entry.payload {
            Payload::Blank => {}
            Payload::Membership(membership) => {
                self.position.membership = LoggedMembership::new(Some(id), membership);
                work.changed.membership = true;
            }
            Payload::Normal(encoded) => {
                let batch: Batch = codec::decode(Schema::Batch, &encoded.0)
                    .map_err(Fault::codec(format!("the batch of entry {}", id.index)))?;
                self.published.count(encoded.0.len());
                work.now_ms = work.now_ms.max(Some(batch.now_ms));
                let mut events = Vec::new();
                replies.0 = orloj_model::apply(&mut work.overlay, id.index, &batch, &mut events)?;
                if !events.is_empty() {
                    work.events.push(AppliedEvents { index: id.index, events });
                }
            }
        }
        work.changed.checkpoints |= self.position.advance(id, work.overlay.digest());
        self.published.note_term(id);
        Ok(replies)
    }

    /// Hands what has been applied to the tables, and then tells everybody.
    ///
    /// # Errors
    /// IO or damage.
    pub fn commit(&mut self, work: Work) -> Result<(), Fault> {
        self.position.take_note(&work.overlay)?;
        self.state.commit(work.overlay, &self.position, work.changed)?;
        self.published.advance(&self.position, work.changed.checkpoints);
        if let Some(now_ms) = work.now_ms {
            self.clock.heard(now_ms);
        }
        self.published.tell(work.events);
        for (responder, replies) in work.answers {
            responder.send(replies);
        }
        Ok(())
    }
}
