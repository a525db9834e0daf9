//! Nonces: a signed request takes effect once, whichever leaders it was sent to.

use crate::apply::context::Context;
use crate::command::{Claim, Refusal};
use crate::id::Millis;
use crate::key::{KeyWriter, NonceKey};
use crate::schema::{NonceRow, NonceTable};
use crate::tables::{ReadExt as _, Write, WriteExt as _};

/// How long after the cluster's time a nonce that is spent is remembered at most, in milliseconds: a request may be signed
/// for 300 s ahead, and is remembered 360 s longer. Only of a leader whose clock was stepped can one be remembered longer.
pub const CLAIM_LIFE_MS: Millis = 660_000;

/// The length of a span of time whose nonces are forgotten together, in milliseconds. They lie in the table by the end of
/// their span, so that what is forgotten is one stretch at the table's head, cleared at the price of one row; each nonce
/// by itself was a sixth of what a task writes, and removing them all over the table a half of what its merges cost. As
/// long as a nonce is remembered at most, so that there are two spans in which one is looked for.
pub const NONCE_SPAN_MS: Millis = CLAIM_LIFE_MS;

/// Spends a request's nonce; a refusal when it has been spent before.
pub(crate) fn spend<T: Write>(
    cx: &mut Context<'_, T>,
    claim: Option<&Claim>,
) -> Result<Option<Refusal>, T::Error> {
    let Some(claim) = claim else { return Ok(None) };
    let (now, nonce) = (cx.now(), claim.nonce);
    let own = NonceKey { until: end_of_span(claim.expires_at), nonce };
    let near = [1, CLAIM_LIFE_MS].map(|ms| NonceKey { until: end_of_span(now.saturating_add(ms)), nonce });
    // Another request under the same nonce is found in one of the two. The same request has the same time, so it is found
    // even where a clock was so far ahead that its nonce lies in neither.
    let far = Some(own).filter(|own| !near.contains(own));
    for key in near.into_iter().chain(far) {
        let spent = cx.tables.get::<NonceTable>(&key)?;
        if spent.is_some_and(|row| row.expires_at > now) {
            return Ok(Some(Refusal::NonceReplayed));
        }
    }
    if claim.expires_at > now {
        cx.tables.put::<NonceTable>(&own, &NonceRow { expires_at: claim.expires_at })?;
    }
    Ok(None)
}

/// The first end of a span that is not before `at`.
pub(crate) fn end_of_span(at: Millis) -> Millis {
    let behind = at.rem_euclid(NONCE_SPAN_MS);
    if behind == 0 { at } else { at.saturating_add(NONCE_SPAN_MS - behind) }
}

/// Forgets the nonces of the spans that ended when the cluster's time went on from `before`.
pub(crate) fn forget<T: Write>(cx: &mut Context<'_, T>, before: Millis) -> Result<(), T::Error> {
    let running = end_of_span(cx.now().saturating_add(1));
    match running > end_of_span(before.saturating_add(1)) {
        true => cx.tables.clear::<NonceTable>(KeyWriter::default().millis(running).finish()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_spans_never_change() {
        // Every replica, of whatever build, has to look for a nonce at the same place.
        let ends = [-1, 0, 1, 660_000, 660_001, 1_800_000_000_000].map(end_of_span);
        assert_eq!(ends, [0, 0, 660_000, 660_000, 1_320_000, 1_800_000_180_000]);
    }
}
