//! Committed entries applied to the tables.
//!
//! One call is one write to the state database (several when it is very large), with the applied position in it.
//! Proposers are answered, views published and events sent after the write, never before.

use std::sync::Arc;

use openraft::entry::RaftEntry as _;
use openraft::storage::ApplyResponder;
use orloj_model::id::Millis;
use orloj_model::tables::Write as _;
use orloj_model::{Batch, Clock};

use crate::codec::{self, Schema};
use crate::error::Fault;
use crate::machine::{AppliedEvents, Published};
use crate::tables::{Changed, Overlay, Position, StateDb};
use crate::types::{Entry, LogId, LoggedMembership, Payload, Replies, TypeConfig};

/// An apply that has written this much is written to the database before it goes on, in bytes.
pub const WRITE_BYTES: usize = 8 << 20;

/// A committed entry, and who waits for its replies.
pub type Committed = (Entry, Option<ApplyResponder<TypeConfig>>);

/// Bytes of the batch in an entry.
pub fn encoded_bytes(entry: &Entry) -> usize {
    match &entry.payload {
        Payload::Normal(encoded) => encoded.0.len(),
        Payload::Blank | Payload::Membership(_) => 0,
    }
}

/// The tables, and who is told of them. A clone stands for the same tables: of several, one alone may apply, and
/// the others are of the past from then on.
#[derive(Clone)]
pub struct Applier {
    pub state: StateDb,
    pub position: Position,
    pub published: Arc<Published>,
    pub clock: Arc<dyn Clock>,
}

/// Entries that are being applied and are not written yet.
struct Work {
    overlay: Overlay,
    changed: Changed,
    /// The last time that an entry was stamped with.
    now_ms: Option<Millis>,
    events: Vec<AppliedEvents>,
    answers: Vec<(ApplyResponder<TypeConfig>, Replies)>,
}

impl Applier {
    /// Applies entries, in order. Waits for the database.
    ///
    /// # Errors
    /// IO or damage; some of the entries may be applied then.
    pub fn apply(&mut self, committed: Vec<Committed>) -> Result<(), Fault> {
        let mut work = self.begin();
        for (entry, responder) in committed {
            let replies = self.step(&mut work, entry)?;
            if let Some(responder) = responder {
                work.answers.push((responder, replies));
            }
            if work.overlay.bytes() > WRITE_BYTES {
                self.write(work)?;
                work = self.begin();
            }
        }
        self.write(work)
    }

    /// The time that the tables have got to.
    ///
    /// # Errors
    /// IO or damage.
    pub fn hear_of_the_tables(&self) -> Result<(), Fault> {
        self.clock.heard(orloj_model::query::meta(&self.published.view())?.now_ms);
        Ok(())
    }

    fn begin(&self) -> Work {
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

    /// Writes what has been applied, and then tells everybody.
    fn write(&mut self, work: Work) -> Result<(), Fault> {
        self.position.take_note(&work.overlay)?;
        self.state.commit(work.overlay, &self.position, work.changed)?;
        self.published.advance(&self.state, &self.position, work.changed.checkpoints);
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
