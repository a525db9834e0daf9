//! Sealing the stored secrets anew, when a sealing key is exchanged.

use orloj_model::access::{RESEALED_PER_COMMAND, Resealed, SealedOf};
use orloj_model::command::AccessCommand;
use orloj_model::query::Access;
use orloj_wire::rest::{Renewed, Sealing};

use super::{Call, Nothing};
use crate::outcome::{Answer, Failure};
use crate::seal::{SealError, Sealer, of_key, of_webhook};

/// The most secrets that one call seals anew; whoever asks calls again.
const AT_ONCE: usize = 4 * RESEALED_PER_COMMAND;

/// One sealed secret of the tables, and what it is bound to.
struct Stored<'a> {
    of: SealedOf,
    bound: String,
    sealed: &'a [u8],
}

/// Every sealed secret.
fn stored(access: &Access) -> impl Iterator<Item = Stored<'_>> {
    let keys = access.keys.iter().map(|(name, row)| Stored {
        of: SealedOf::Key(name.clone()),
        bound: of_key(name),
        sealed: &row.sealed,
    });
    let webhooks = access.callers.iter().flat_map(|(caller, row)| {
        row.webhook_secrets.iter().map(move |secret| Stored {
            of: SealedOf::Webhook { caller: caller.clone(), id: secret.id.clone() },
            bound: of_webhook(caller.as_str(), &secret.id),
            sealed: &secret.sealed,
        })
    });
    keys.chain(webhooks)
}

impl Call<'_> {
    /// How this replica stands to the sealed secrets. Each answers for itself: whether it could lead is the question.
    pub(super) fn show_sealing(&self) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let sealer = self.shared.directory.sealer();
        let access = self.shared.backend.access()?;
        let status = self.shared.backend.status();
        let mut answer = Sealing {
            replica: status.id,
            keys: sealer.key_ids(),
            current: 0,
            older: 0,
            unreadable: 0,
            applied_index: status.applied,
        };
        for one in stored(&access) {
            match sealer.open(&one.bound, one.sealed) {
                Ok(_) if sealer.is_current(one.sealed) => answer.current += 1,
                Ok(_) => answer.older += 1,
                Err(_) => answer.unreadable += 1,
            }
        }
        Ok(Answer::json(200, &answer))
    }

    /// Seals anew what is sealed with an older key. Can be repeated: each secret is replaced only as long as it is
    /// what was read.
    pub(super) async fn renew_sealing(&self) -> Result<Answer, Failure> {
        self.no_parameters()?;
        let Nothing {} = self.optional_body()?;
        self.shared.backend.barrier().await?;
        let sealer = self.shared.directory.sealer();
        let Some(key) = sealer.key_ids().into_iter().next() else {
            return Err(super::access::no_key(&SealError::NoKey));
        };
        let Anew { secrets, remaining, unreadable } = anew(&self.shared.backend.access()?, sealer);
        let mut renewed = 0;
        for part in secrets.chunks(RESEALED_PER_COMMAND) {
            self.change(AccessCommand::Reseal { secrets: part.to_vec() }).await?;
            renewed += part.len();
        }
        let [renewed, remaining, unreadable] = [renewed, remaining, unreadable].map(|count| count as u64);
        Ok(Answer::json(200, &Renewed { key, renewed, remaining, unreadable }))
    }
}

/// What is sealed with an older key.
#[derive(Default)]
struct Anew {
    /// Sealed anew, as many as one call does.
    secrets: Vec<Resealed>,
    /// How many there are beyond them.
    remaining: usize,
    /// How many cannot be opened.
    unreadable: usize,
}

fn anew(access: &Access, sealer: &Sealer) -> Anew {
    let mut found = Anew::default();
    for Stored { of, bound, sealed } in stored(access).filter(|one| !sealer.is_current(one.sealed)) {
        if found.secrets.len() >= AT_ONCE {
            match sealer.open(&bound, sealed) {
                Ok(_) => found.remaining += 1,
                Err(_) => found.unreadable += 1,
            }
            continue;
        }
        match sealer.reseal(&bound, sealed) {
            Ok(anew) => found.secrets.push(Resealed { of, before: sealed.to_vec(), sealed: anew }),
            Err(_) => found.unreadable += 1,
        }
    }
    found
}
