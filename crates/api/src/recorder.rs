//! The way of refused calls into the audit: here on the leader, else through it.

use orloj_model::Reply;
use orloj_model::access::Denial;
use orloj_model::command::{AccessCommand, Claim, Command};
use orloj_raft_store::Applied;

use crate::denials::{Denials, is_signed};
use crate::forward::DENIALS_PATH;
use crate::service::Shared;

/// Refused calls that are being written down. What was not is given back, also where nobody waits for it any more.
struct Taken<'a> {
    from: &'a Denials,
    denials: Vec<Denial>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.from.put_back(std::mem::take(&mut self.denials));
    }
}

impl Shared {
    /// Writes refused calls down. Those that could not be, as while nobody leads, are kept for the next time; of which
    /// nobody knows whether they were, are counted again: better twice than not at all.
    pub(crate) async fn tell_denials(&self) {
        let _telling = self.telling.lock().await;
        let mut taken = Taken { from: &self.denials, denials: self.denials.take() };
        if taken.denials.is_empty() {
            return;
        }
        let told = match self.leads() {
            true => self.write_denials(taken.denials.clone(), None).await,
            false => self.hand_on_denials(&taken.denials).await,
        };
        if told {
            taken.denials.clear();
        }
    }

    async fn hand_on_denials(&self, denials: &[Denial]) -> bool {
        let leader = self.backend.leadership().borrow().leader;
        let Some(address) = leader.and_then(|leader| self.internal_address(leader)) else { return false };
        let body = serde_json::to_vec(denials).expect("records serialise");
        let told = self.forwarder.tell(&address, DENIALS_PATH, body.into()).await.is_ok();
        if !told {
            tracing::debug!("refused calls could not be handed to the leader");
        }
        told
    }

    /// Writes refused calls down, once: `claim` is the nonce of the replica's call that told of them. Whether they are,
    /// also where another copy of that call has seen to it.
    pub(crate) async fn write_denials(&self, denials: Vec<Denial>, claim: Option<Claim>) -> bool {
        if let Some(claim) = claim {
            match self.backend.propose(Command::Spend { claim }).await {
                Ok(Applied { reply: Reply::Done, .. }) => {}
                Ok(_) => {
                    tracing::warn!("a replica's call that tells of refused calls came twice");
                    return true;
                }
                Err(error) => {
                    tracing::debug!(%error, "refused calls could not be written down");
                    return false;
                }
            }
        }
        let (signed, unsigned): (Vec<_>, Vec<_>) =
            denials.into_iter().partition(|denial| is_signed(&denial.code));
        let commands = [
            (signed.is_empty(), AccessCommand::Denied { denials: signed }),
            (unsigned.is_empty(), AccessCommand::Unsigned { denials: unsigned }),
        ];
        for (_, command) in commands.into_iter().filter(|(is_empty, _)| !is_empty) {
            if !self.write_down(command).await {
                return false;
            }
        }
        true
    }

    /// Whether the records of a command are in the audit.
    async fn write_down(&self, command: AccessCommand) -> bool {
        match self.backend.propose(Command::Access(Box::new(command))).await {
            Ok(Applied { reply: Reply::Done, .. }) => true,
            Ok(Applied { reply, .. }) => {
                tracing::warn!(?reply, "refused calls were not taken into the audit");
                false
            }
            Err(error) => {
                tracing::debug!(%error, "refused calls could not be written down");
                false
            }
        }
    }
}
