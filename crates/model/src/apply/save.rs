//! What a running handler saves: progress and a checkpoint for the next attempt.

use crate::apply::context::Context;
use crate::command::{Refusal, Reply};
use crate::id::Fence;
use crate::key::ShardKey;
use crate::tables::Write;
use crate::task::{CHECKPOINT_LIMIT, MESSAGE_LIMIT, Progress};

pub(crate) fn save<T: Write>(
    cx: &mut Context<'_, T>,
    key: ShardKey,
    fence: Fence,
    progress: Option<&Progress>,
    checkpoint: Option<&[u8]>,
) -> Result<Reply, T::Error> {
    let Some((mut state, mut shard)) = cx.load(key)? else {
        return Ok(Reply::Refused(Refusal::TaskNotFound));
    };
    if shard.open_attempt().is_none_or(|open| open.fence != fence) {
        return Ok(Reply::Refused(Refusal::StaleFence));
    }
    let too_large = checkpoint.is_some_and(|bytes| bytes.len() > CHECKPOINT_LIMIT)
        || progress.is_some_and(|progress| progress.percent > 100 || progress.note.len() > MESSAGE_LIMIT);
    if too_large {
        return Ok(Reply::Refused(Refusal::Invalid));
    }
    let changed = progress.is_some_and(|new| shard.progress.as_ref() != Some(new))
        || checkpoint.is_some_and(|new| shard.checkpoint.as_deref() != Some(new));
    if !changed {
        return Ok(Reply::Done);
    }
    if let Some(progress) = progress {
        shard.progress = Some(progress.clone());
    }
    if let Some(checkpoint) = checkpoint {
        shard.checkpoint = Some(checkpoint.to_vec());
    }
    cx.put_shard(key, &shard)?;
    cx.put_task(key.task, &mut state, None)
}
