//! What a path names and the tables do not have: said with its kind and its name, so that a message read alone, as in a
//! log of many requests, tells what was not there.

use orloj_wire::problem::Code;

use crate::outcome::Failure;
use crate::route;

/// The longest piece of a name that a message repeats, in characters; a good name is no longer.
const SHOWN: usize = 128;

/// A kind of thing that paths name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// A task of the caller.
    Task,
    /// A job of the caller.
    Job,
    /// The backfill of a job.
    Backfill,
    /// An executor.
    Executor,
    /// A replica.
    Member,
    /// A caller of the API's making.
    Caller,
    /// An access key of the API's making.
    AccessKey,
    /// A webhook secret of a caller.
    WebhookSecret,
}

impl Missing {
    fn code(self) -> Code {
        match self {
            Missing::Task => Code::TaskNotFound,
            Missing::Job => Code::JobNotFound,
            Missing::Backfill => Code::BackfillNotFound,
            _ => Code::NotFound,
        }
    }

    fn sentence(self, name: &str) -> String {
        match self {
            Missing::Task => format!("no task of this caller has the id {name}"),
            Missing::Job => format!("no job of this caller has the id {name}"),
            Missing::Backfill => {
                format!("no backfill of job {name} is under way; those that have ended are in its history")
            }
            Missing::Executor => format!("no executor has the id {name}"),
            Missing::Member => format!("no member of the cluster has the id {name}"),
            Missing::Caller => format!("no caller of the API's making has the name {name}"),
            Missing::AccessKey => format!("no access key of the API's making has the name {name}"),
            Missing::WebhookSecret => format!("the caller has no webhook secret with the id {name}"),
        }
    }
}

impl Failure {
    /// Something is not there. Its name follows with [`named`](Failure::named).
    pub fn missing(kind: Missing) -> Self {
        let mut failure = Failure::new(kind.code(), kind.sentence("in the path"));
        failure.missing = Some(kind);
        failure
    }

    /// Names what is not there by the path of the request.
    pub fn named(mut self, path: &str) -> Self {
        if let Some((kind, name)) = self.missing.and_then(|kind| Some((kind, route::named(path, kind)?))) {
            self.detail = kind.sentence(&format!("{:?}", name.chars().take(SHOWN).collect::<String>()));
        }
        self
    }
}
