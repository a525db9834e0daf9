//! What a test makes of the proposals and the members of a universe.

use std::sync::atomic::Ordering;

use orloj_model::Command;
use orloj_model::id::NodeId;
use orloj_raft_store::ProposeError;

use super::Universe;

impl Universe {
    /// How many commands the API has proposed.
    pub(crate) fn proposals(&self) -> u64 {
        self.shared.proposals.load(Ordering::SeqCst)
    }

    /// What every proposal comes to from now on.
    pub(crate) fn fail_proposals(&self, failure: Option<ProposeError>) {
        *self.shared.failure.lock().unwrap() = failure;
    }

    /// Lets somebody else change something between what the next request has read and what it writes.
    pub(crate) fn meanwhile(&self, command: Command) {
        self.meanwhile_after(0, command);
    }

    /// The same once so many more proposals were applied.
    pub(crate) fn meanwhile_after(&self, proposals: u64, command: Command) {
        let at = self.proposals() + proposals;
        *self.shared.meanwhile.lock().unwrap() = Some((at, command));
    }

    /// Lets somebody else change something before the leader has proved its leadership the next time.
    pub(crate) fn at_barrier(&self, command: Command) {
        *self.shared.at_barrier.lock().unwrap() = Some(command);
    }

    /// Makes the others call this node at another address.
    pub(crate) fn move_node(&self, id: NodeId, internal: &str) {
        for member in self.shared.members.lock().unwrap().iter_mut().filter(|member| member.id == id) {
            member.internal = internal.to_owned();
        }
    }
}
