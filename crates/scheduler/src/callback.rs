//! Delivers callbacks, on the leader alone.
//!
//! * [`outbox`] is pure: which lanes are due, and how many sends each may have under way.
//! * [`deliver`] is the loop: reads the outbox, writes each send down, sends it, writes down how it ended.
//! * [`link`] is the way out: resolves, checks the addresses, dials exactly one of them; [`own`] knows those of the
//!   cluster itself.
//!
//! A send goes out only once its start is committed, in the round of this leader. So it is counted whoever leads
//! next, and none goes out before the end of its task is committed.

mod deliver;
mod link;
mod outbox;
mod own;

use std::sync::Arc;

use orloj_model::id::CallerId;
use orloj_model::query::TaskView;
use orloj_wire::callback::{HostRule, WebhookSecret};

pub use link::{CallbackLink, HttpCallbackLink, Post, Resolver, SystemResolver};
pub use own::{host_and_port, of_replica};

pub(crate) use deliver::{Delivery, OwnListeners};

/// What the callbacks of one caller may do.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Where they may go. Empty: nowhere.
    pub hosts: Vec<HostRule>,
    /// What signs them; one signature for each. Empty: none is sent.
    pub secrets: Vec<WebhookSecret>,
    /// The caller has secrets that this replica cannot open.
    pub unopened: bool,
}

/// Knows the callers, and how a task is shown to them.
pub trait Tenants: Send + Sync + 'static {
    /// The policy in force now; `None` of a caller that there is not.
    fn policy(&self, caller: &CallerId) -> Option<Policy>;
    /// The body of the callback of a task that has ended.
    fn body(&self, task: &TaskView) -> Vec<u8>;
}

/// What delivery needs from outside.
#[derive(Clone)]
pub struct Callbacks {
    /// The way out.
    pub link: Arc<dyn CallbackLink>,
    /// The callers.
    pub tenants: Arc<dyn Tenants>,
    /// The ports on which this replica listens: no callback goes to a replica's machine on one of them.
    pub own_ports: Vec<u16>,
}
