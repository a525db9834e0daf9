//! `GET /openapi/v1/tasks/{id}/logs`: the whole log from the executor that holds it, or its kept end.

use orloj_model::task::{Attempt, Shard};
use orloj_scheduler::LeaderError;
use orloj_wire::problem::Code;
use orloj_wire::protocol::{AttemptRef, LogRequest};
use orloj_wire::rest::{LogPiece, LogSource, MAX_LOG_PIECE};

use super::{Call, task_id};
use crate::outcome::{Answer, Failure};
use crate::view::text_piece;

const DEFAULT_PIECE: u64 = 64 * 1024;
/// The longest wait that an executor takes, in ms.
const MAX_LOG_WAIT_MS: u64 = 20_000;

impl Call<'_> {
    pub(super) async fn read_log(&self, id: &str) -> Result<Answer, Failure> {
        let mut parameters = self.request.parameters()?;
        let offset = parameters.number("offset", 0, u64::MAX)?.unwrap_or(0);
        // A character has up to four bytes; a smaller piece could hold none.
        let limit = parameters.number("limit", 4, MAX_LOG_PIECE.into())?.unwrap_or(DEFAULT_PIECE);
        let wait_ms = parameters.number("wait_ms", 0, MAX_LOG_WAIT_MS)?.unwrap_or(0);
        let number = parameters.number("attempt", 1, u32::MAX.into())?;
        let shard_index = parameters.number("shard_index", 0, 1023)?.unwrap_or(0);
        parameters.finish()?;
        self.shared.backend.barrier().await?;
        let task = self.own_task(task_id(id)?)?;
        let shard_number = u16::try_from(shard_index).unwrap_or(u16::MAX);
        let Some(shard) = task.value.shards.get(usize::from(shard_number)) else {
            let detail =
                format!("task {id} has {} shards, none has index {shard_index}", task.value.shards.len());
            return Err(Failure::new(Code::NotFound, detail));
        };
        let attempt = match number {
            None => shard.attempts.last(),
            Some(number) => Some(find(shard, number).ok_or_else(|| {
                Failure::new(
                    Code::NotFound,
                    format!("no attempt {number} at shard {shard_index} of task {id} is kept"),
                )
            })?),
        };
        let mut piece = LogPiece {
            task_id: task.value.id.to_string(),
            shard_index: shard_number,
            attempt: attempt.map_or(0, |attempt| attempt.number),
            offset,
            text: String::new(),
            next_offset: offset,
            complete: attempt.is_none() && task.value.state.status.is_terminal(),
            source: LogSource::None,
        };
        if let Some(attempt) = attempt {
            let gate = &self.shared.gate;
            let _waiting = match wait_ms {
                0 => None,
                _ => Some(gate.begin_wait(&self.request.credentials.access_key, self.key)?),
            };
            let query = LogRequest {
                executor_id: attempt.executor.to_string(),
                attempt: AttemptRef {
                    task_id: piece.task_id.clone(),
                    shard_index: shard_number,
                    attempt: attempt.number,
                    fence: attempt.fence,
                },
                offset,
                limit: u32::try_from(limit).unwrap_or(MAX_LOG_PIECE),
                wait_ms,
            };
            self.fill(&mut piece, query, shard, attempt).await?;
        }
        Ok(Answer::json(200, &piece).at(task.applied))
    }

    async fn fill(
        &self,
        piece: &mut LogPiece,
        query: LogRequest,
        shard: &Shard,
        attempt: &Attempt,
    ) -> Result<(), Failure> {
        let limit = query.limit as usize;
        match self.shared.leader.log(query).await {
            Ok(chunk) => {
                let (text, used) = text_piece(&chunk.data, chunk.complete);
                let left = (chunk.data.len() - used) as u64;
                piece.text = text;
                piece.next_offset = chunk.next_offset.saturating_sub(left);
                piece.complete = chunk.complete;
                piece.source = LogSource::Executor;
                Ok(())
            }
            Err(LeaderError::NotFound(_) | LeaderError::ExecutorUnreachable(_)) => {
                tail(piece, shard, attempt, limit);
                Ok(())
            }
            Err(other) => Err(other.into()),
        }
    }
}

fn find(shard: &Shard, number: u64) -> Option<&Attempt> {
    shard.attempts.iter().find(|attempt| u64::from(attempt.number) == number)
}

/// The kept end of the log, which is that of the newest attempt that reported one.
fn tail(piece: &mut LogPiece, shard: &Shard, attempt: &Attempt, limit: usize) {
    piece.source = LogSource::Tail;
    piece.complete = attempt.outcome.is_some();
    let newest = shard.attempts.last().is_some_and(|last| last.number == attempt.number);
    let kept = shard.log_tail.as_deref().filter(|_| newest && piece.complete).unwrap_or_default();
    let start = usize::try_from(piece.offset).unwrap_or(usize::MAX).min(kept.len());
    let end = start.saturating_add(limit).min(kept.len());
    let (text, used) = text_piece(&kept[start..end], end == kept.len());
    piece.text = text;
    piece.next_offset = piece.offset.saturating_add(used as u64);
    piece.complete &= start + used == kept.len();
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use orloj_model::id::ExecutorId;
    use orloj_model::task::{Outcome, Phase};

    use super::*;

    fn attempt(number: u32, outcome: Option<Outcome>) -> Attempt {
        Attempt {
            number,
            executor: ExecutorId::new("e1").unwrap(),
            incarnation: 1,
            round: 1,
            fence: 1,
            granted_at: 0,
            started_at: None,
            ended_at: None,
            outcome,
            message: None,
            late_outcome: None,
        }
    }

    fn read(shard: &Shard, place: usize, offset: u64, limit: usize) -> (String, u64, bool) {
        let mut piece = LogPiece {
            task_id: String::new(),
            shard_index: 0,
            attempt: 0,
            offset,
            text: String::new(),
            next_offset: offset,
            complete: false,
            source: LogSource::None,
        };
        tail(&mut piece, shard, &shard.attempts[place], limit);
        (piece.text, piece.next_offset, piece.complete)
    }

    #[test]
    fn the_kept_end_is_read_in_pieces_of_whole_characters() {
        let shard = Shard {
            phase: Phase::Done,
            next_attempt: 3,
            attempts: vec![attempt(1, Some(Outcome::Lost)), attempt(2, Some(Outcome::Succeeded))],
            failures: 0,
            losses: 1,
            progress: None,
            checkpoint: None,
            result: None,
            log_tail: Some("ab€cd".as_bytes().to_vec()),
        };
        assert_eq!(read(&shard, 1, 0, 4), ("ab".to_owned(), 2, false));
        assert_eq!(read(&shard, 1, 2, 4), ("€c".to_owned(), 6, false));
        assert_eq!(read(&shard, 1, 6, 4), ("d".to_owned(), 7, true));
        assert_eq!(read(&shard, 1, 100, 4), (String::new(), 100, true));
        assert_eq!(read(&shard, 0, 0, 4), (String::new(), 0, true), "the tail is not the lost attempt's");
    }
}
